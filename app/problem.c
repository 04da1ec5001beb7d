/* app/problem.c - resolving the user's words. */
#include "app/problem.h"
#include "app/calibration_source.h"

#include "model/program.h"
#include "topo/change.h"
#include "topo/live.h"

#include <math.h>

static gboolean
require (const char *value, const char *option, const char *what, GError **error)
{
  if (value != NULL && *value != '\0')
    return TRUE;
  g_set_error (error, APP_ERROR, APP_ERROR_USAGE, "%s is missing: name %s", option, what);
  return FALSE;
}

ModelArch *
app_model_load (const BaseCatalog *catalog, const AppInputs *inputs, GError **error)
{
  g_autoptr (BaseIni) ini = NULL;
  g_autofree char *name = NULL;

  if (inputs->model_content == NULL)
    return model_arch_load (catalog, inputs->model, error);
  name = g_strdup_printf ("model '%s' as stored", inputs->model);
  ini = base_ini_new_from_data (inputs->model_content, -1, name, error);
  return ini != NULL ? model_arch_from_ini (ini, inputs->model, error) : NULL;
}

TopoMachine *
app_machine_load (const BaseCatalog *catalog, const AppInputs *inputs, GError **error)
{
  const TopoReadOptions options = { .catalog = catalog, .gpu = inputs->gpu };
  TopoChanges changes;

  if (g_str_equal (inputs->machine, "live")) {
    if (inputs->what_if == NULL && inputs->changes == NULL)
      return topo_machine_new_live (&options, MAX (inputs->live_ranks, 1), error);
    g_set_error (
        error, APP_ERROR, APP_ERROR_USAGE,
        "--what-if changes a machine's file, and 'live' has none: write that of a host with "
        "GPUs by 'plait topo --live --ini'");
    return NULL;
  }
  if (inputs->changes != NULL)
    return topo_machine_load_changed (catalog, inputs->machine, inputs->gpu, inputs->changes,
                                      error);
  if (inputs->what_if != NULL) {
    if (topo_changes_parse (&changes, inputs->what_if, error))
      return topo_machine_load_changed (catalog, inputs->machine, inputs->gpu, &changes, error);
    g_prefix_error (error, "--what-if: ");
    return NULL;
  }
  return topo_machine_load (catalog, inputs->machine, inputs->gpu, error);
}

/* What the machine would be with --what-if is calibrated as the machine that it is. */
static CostCalibration *
load_calibration (const AppSetting *setting, const AppInputs *inputs, GError **error)
{
  AppInputs unchanged = *inputs;
  g_autoptr (TopoMachine) machine = NULL;

  if (inputs->what_if == NULL && inputs->changes == NULL)
    return app_calibration_load (setting->catalog, inputs->calibration, inputs->db_path,
                                 setting->machine, error);
  unchanged.what_if = NULL;
  unchanged.changes = NULL;
  machine = app_machine_load (setting->catalog, &unchanged, error);
  if (machine == NULL)
    return NULL;
  return app_calibration_load (setting->catalog, inputs->calibration, inputs->db_path, machine,
                               error);
}

static gboolean
setting_load (AppSetting *setting, const AppInputs *inputs, GError **error)
{
  const char *profile = inputs->profile != NULL ? inputs->profile : "megatron";

  if (!require (inputs->model, "--model", "a model of the catalog (see 'plait models') or a file",
                error)
      || !require (inputs->machine, "--machine",
                   "a machine of the catalog (see 'plait machines') or a file", error))
    return FALSE;
  setting->catalog = base_catalog_new (inputs->catalog_dir, error);
  if (setting->catalog == NULL)
    return FALSE;
  setting->arch = app_model_load (setting->catalog, inputs, error);
  if (setting->arch == NULL)
    return FALSE;
  setting->machine = app_machine_load (setting->catalog, inputs, error);
  if (setting->machine == NULL)
    return FALSE;
  setting->profile = model_profile_load (setting->catalog, profile, error);
  if (setting->profile == NULL)
    return FALSE;
  setting->calibration = load_calibration (setting, inputs, error);
  if (setting->calibration == NULL)
    return FALSE;
  setting->dropout = inputs->dropout;
  return cost_numbers_init (&setting->numbers, setting->calibration, setting->machine,
                            setting->profile->calibration, error);
}

gboolean
app_setting_init (AppSetting *setting, const AppInputs *inputs, GError **error)
{
  *setting = (AppSetting){ 0 };
  if (setting_load (setting, inputs, error))
    return TRUE;
  app_setting_clear (setting);
  return FALSE;
}

void
app_setting_clear (AppSetting *setting)
{
  if (setting == NULL)
    return;
  cost_numbers_clear (&setting->numbers);
  g_clear_pointer (&setting->calibration, cost_calibration_free);
  g_clear_pointer (&setting->profile, model_profile_free);
  g_clear_pointer (&setting->machine, topo_machine_free);
  g_clear_pointer (&setting->arch, model_arch_free);
  g_clear_pointer (&setting->catalog, base_catalog_free);
}

gboolean
app_problem_init (AppProblem *problem, const AppSetting *setting, guint64 gpus,
                  guint64 global_batch, guint64 seq, GError **error)
{
  *problem = (AppProblem){ .setting = setting };
  if (!topo_cluster_init (&problem->cluster, setting->machine, gpus, error)
      || !model_job_init (&problem->job, setting->arch, seq, global_batch, setting->dropout, error))
    return FALSE;
  problem->problem = (CostProblem){
    .arch = setting->arch,
    .job = &problem->job,
    .profile = setting->profile,
    .machine = setting->machine,
    .numbers = &setting->numbers,
    .gpus = (guint32)gpus,
    .model_flop = model_step_flop (setting->arch, &problem->job),
  };
  return TRUE;
}

/* bf16 is the default, fp16 where the GPU has no bf16 (Volta, Turing), fp32 where it has neither. */
static void
choose_dtype (ModelLayout *layout, const TopoGpu *gpu, const char *text)
{
  g_auto (GStrv) pairs = g_strsplit (text, ",", -1);

  for (char **pair = pairs; *pair != NULL; pair++)
    if (g_str_has_prefix (g_strstrip (*pair), "dtype="))
      return;
  if (topo_gpu_peak (gpu, TOPO_DTYPE_BF16) <= 0)
    layout->dtype = topo_gpu_peak (gpu, TOPO_DTYPE_FP16) > 0 ? MODEL_DTYPE_FP16 : MODEL_DTYPE_FP32;
}

gboolean
app_layout_from_text (ModelLayout *layout, const AppProblem *problem, const char *text,
                      GError **error)
{
  const AppSetting *setting = problem->setting;

  if (*text == '\0') {
    model_layout_init (layout, setting->profile);
    layout->dp = 0; /* follows from the GPU count, as in any text without dp= */
  } else if (!model_layout_parse (layout, text, setting->profile, error))
    return FALSE;
  choose_dtype (layout, setting->machine->gpu, text);
  return TRUE;
}
