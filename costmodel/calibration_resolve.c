/* costmodel/calibration_resolve.c - the numbers of one machine and profile, most specific first. */
#include "costmodel/calibration-private.h"
#include "costmodel/measured.h"

#include <math.h>
#include <string.h>

#define NOBODY G_MAXUINT8 /* who answered: a neutral value holds */

/* Who may answer for a key, most specific first; entries may be NULL. */
typedef struct {
  const CostCalibrationGroup *groups[3];
  guint n_groups;
} Candidates;

/*
 * Fills @into from @candidates. @answered (nullable): which of them gave each key.
 * COST_ERROR_NO_DATA if nobody has one.
 */
static gboolean
fill (void *into, CostSection section, const Candidates *candidates, const char *file,
      guint8 *answered, GError **error)
{
  const CostSectionSchema *schema = &cost_sections[section];
  for (guint k = 0; k < schema->n_keys; k++) {
    const CostCalibrationGroup *found = NULL;
    for (guint c = 0; c < candidates->n_groups && found == NULL; c++) {
      const CostCalibrationGroup *group = candidates->groups[c];
      if (group == NULL || !(group->set & (G_GUINT64_CONSTANT (1) << k)))
        continue;
      found = group;
      if (answered != NULL)
        answered[k] = c;
    }
    double value = found != NULL ? found->value[k] : schema->keys[k].neutral;
    if (isnan (value)) {
      g_set_error (error, COST_ERROR, COST_ERROR_NO_DATA,
                   "calibration '%s': [%s%s] lacks '%s', which it has to have", file, schema->word,
                   schema->named ? " default" : "", schema->keys[k].name);
      return FALSE;
    }
    if (found == NULL && answered != NULL)
      answered[k] = NOBODY;
    memcpy ((char *)into + schema->keys[k].offset, &value, sizeof value);
  }
  return TRUE;
}

static void
assume (CostNumbers *numbers, char *text)
{
  g_ptr_array_add (numbers->assumed, text);
}

/* Whether @key of the GPU section says anything about @machine. */
static gboolean
gpu_key_matters (const TopoMachine *machine, const char *key)
{
  if (strcmp (key, "ceiling_fp8") == 0 || strcmp (key, "mxfp8") == 0)
    return machine->gpu->peak_flop_per_s[TOPO_DTYPE_FP8] > 0;
  if (strcmp (key, "ceiling_fp4") == 0)
    return machine->gpu->peak_flop_per_s[TOPO_DTYPE_FP4] > 0;
  if (strcmp (key, "warm_l2") == 0) /* of benchmarks, not of steps */
    return FALSE;
  if (strcmp (key, "nvls_share") == 0)
    return machine->nvls;
  if (strcmp (key, "power_exponent") == 0)
    return machine->power_limit_ratio > 0 && machine->power_limit_ratio < 1;
  return TRUE;
}

/* Says which GPU numbers are another's. Candidates are slug, generation, default. */
static void
report_gpu (CostNumbers *numbers, const TopoMachine *machine, const Candidates *candidates,
            const guint8 *answered)
{
  const TopoGpu *gpu = machine->gpu;
  const CostCalibrationGroup *own = candidates->groups[0], *generation = candidates->groups[1];
  if (own == NULL && generation == NULL) {
    assume (numbers, g_strdup_printf ("gpu=%s: no numbers of generation %s, default ones",
                                      gpu->slug, gpu->generation));
    return;
  }
  /* A group of its own rarely has every key: the rest are its generation's. */
  if (generation != NULL && !g_strv_contains ((const char *const *)generation->gpus, gpu->slug)
      && memchr (answered, 1, cost_sections[COST_SECTION_GPU].n_keys) != NULL)
    assume (numbers,
            g_strdup_printf ("gpu=%s: numbers of generation %s", gpu->slug, gpu->generation));
  g_autoptr (GString) keys = g_string_new (NULL);
  for (guint k = 0; k < cost_sections[COST_SECTION_GPU].n_keys; k++) {
    const char *key = cost_sections[COST_SECTION_GPU].keys[k].name;
    gboolean optional = !isnan (cost_sections[COST_SECTION_GPU].keys[k].neutral);
    if (answered[k] == 2 && !optional && gpu_key_matters (machine, key))
      g_string_append_printf (keys, "%s%s", keys->len > 0 ? " " : "", key);
  }
  if (keys->len > 0)
    assume (numbers, g_strdup_printf ("gpu=%s: default %s", gpu->slug, keys->str));
}

/* A lowered power limit costs rate, not bandwidth. */
static void
apply_power_limit (CostGpuNumbers *gpu, double power_limit_ratio)
{
  if (!(power_limit_ratio > 0) || power_limit_ratio >= 1)
    return;
  double rate = pow (power_limit_ratio, gpu->power_exponent);
  gpu->gemm.step_ratio *= rate;
  for (guint i = 0; i < G_N_ELEMENTS (gpu->attention_ratio); i++)
    gpu->attention_ratio[i] *= rate;
}

static gboolean
resolve_gpu (CostNumbers *numbers, const CostCalibration *calibration, const TopoMachine *machine,
             GError **error)
{
  const TopoGpu *gpu = machine->gpu;
  guint8 answered[COST_MAX_KEYS] = { 0 };
  for (guint i = 0; i < MODEL_OP_N_KINDS; i++)
    numbers->gpu.kernel_factor[i] = numbers->gpu.kernel_backward[i] = 1;
  Candidates candidates
      = { { cost_calibration_find (calibration, COST_SECTION_GPU, gpu->slug),
            cost_calibration_find (calibration, COST_SECTION_GPU, gpu->generation),
            cost_calibration_find (calibration, COST_SECTION_GPU, "default") },
          3 };
  if (!fill (&numbers->gpu, COST_SECTION_GPU, &candidates, calibration->file, answered, error))
    return FALSE;
  report_gpu (numbers, machine, &candidates, answered);
  if (candidates.groups[1] != NULL)
    numbers->largest_run = candidates.groups[1]->largest_run;
  apply_power_limit (&numbers->gpu, machine->power_limit_ratio);
  numbers->nvls_share = numbers->gpu.nvls_share;
  return TRUE;
}

/* The group of the longest "x-y" of "x-y-z" that has one, down to "x". */
static const CostCalibrationGroup *
find_parent (const CostCalibration *calibration, CostSection section, const char *name)
{
  g_autofree char *stem = g_strdup (name);
  const CostCalibrationGroup *parent = NULL;
  char *dash = stem != NULL ? strrchr (stem, '-') : NULL;
  for (; dash != NULL && parent == NULL; dash = strrchr (stem, '-')) {
    *dash = '\0';
    parent = cost_calibration_find (calibration, section, stem);
  }
  return parent;
}

/* A group that is @name's, or that of the profile that it is a kind of ("deepspeed" for
 * "deepspeed-zero3"), or the default's; *out_own: it is no default, and none of
 * those that answer is assumed. */
static gboolean
resolve_named (void *into, const CostCalibration *calibration, CostSection section,
               const char *name, gboolean *out_own, GError **error)
{
  const CostCalibrationGroup *own = cost_calibration_find (calibration, section, name);
  const CostCalibrationGroup *parent
      = section == COST_SECTION_PROFILE ? find_parent (calibration, section, name) : NULL;
  Candidates candidates
      = { { own, parent, cost_calibration_find (calibration, section, "default") }, 3 };
  *out_own = (own != NULL || parent != NULL) && (own == NULL || !own->assumed)
             && (parent == NULL || !parent->assumed);
  return fill (into, section, &candidates, calibration->file, NULL, error);
}

static gboolean
resolve_links (CostNumbers *numbers, const CostCalibration *calibration, const TopoMachine *machine,
               GError **error)
{
  TopoLinkClass direct = machine->wiring == TOPO_WIRING_NONE
                             ? TOPO_LINK_CLASS_NONE
                             : topo_link_class_of (machine->direct, FALSE);
  for (guint i = 0; i < TOPO_LINK_CLASS_N_KINDS; i++) {
    gboolean *own = &numbers->link_measured[i];
    gboolean used = i == machine->node_link_class || i == direct;
    if (!resolve_named (&numbers->links[i], calibration, COST_SECTION_LINK,
                        topo_link_class_name (i), own, error))
      return FALSE;
    if (!*own && used && i != TOPO_LINK_CLASS_NONE)
      assume (numbers, g_strdup_printf ("link=%s: numbers not measured", topo_link_class_name (i)));
  }
  return TRUE;
}

static gboolean
resolve_collectives (CostNumbers *numbers, const CostCalibration *calibration, GError **error)
{
  static const char *const regimes[COST_SPREAD_N_KINDS] = { "node", "network", "unseen", "curve" };
  gboolean own;
  for (guint i = 0; i < COST_SPREAD_N_KINDS; i++)
    if (!resolve_named (&numbers->spread[i], calibration, COST_SECTION_SPREAD, regimes[i], &own,
                        error))
      return FALSE;
  return resolve_named (&numbers->collective, calibration, COST_SECTION_COLLECTIVE, NULL, &own,
                        error);
}

static gboolean
resolve_rest (CostNumbers *numbers, const CostCalibration *calibration, const TopoMachine *machine,
              const char *profile, GError **error)
{
  gboolean own;
  if (!resolve_named (&numbers->fabric, calibration, COST_SECTION_FABRIC,
                      topo_fabric_name (machine->fabric), &own, error))
    return FALSE;
  numbers->fabric_measured = own;
  numbers->fabric.hop_s *= numbers->fabric.step_hop_ratio;
  if (!own && machine->fabric != TOPO_FABRIC_NONE)
    assume (numbers, g_strdup_printf ("fabric=%s: numbers not measured",
                                      topo_fabric_name (machine->fabric)));
  if (!resolve_named (&numbers->profile, calibration, COST_SECTION_PROFILE, profile, &own, error))
    return FALSE;
  numbers->profile_measured = own;
  if (!own)
    assume (numbers, g_strdup_printf ("profile=%s: numbers not measured", profile));
  return resolve_collectives (numbers, calibration, error)
         && resolve_named (&numbers->step, calibration, COST_SECTION_STEP, NULL, &own, error)
         && resolve_named (&numbers->memory, calibration, COST_SECTION_MEMORY, NULL, &own, error)
         && resolve_named (&numbers->uncertainty, calibration, COST_SECTION_UNCERTAINTY, NULL, &own,
                           error);
}

/* What the corrections of [step] become where only a share of them applies. */
static void
apply_corrections (CostStepNumbers *step, double share)
{
  double *ratios[] = { &step->p2p_ratio, &step->p2p_interleaved_ratio, &step->bubble_ratio,
                       &step->head_ratio, &step->imbalance_ratio };
  for (guint i = 0; i < G_N_ELEMENTS (ratios); i++)
    *ratios[i] = 1 + share * (*ratios[i] - 1);
  step->fixed_s *= share;
  step->unoverlapped_tp_ratio *= share;
}

gboolean
cost_numbers_init (CostNumbers *numbers, const CostCalibration *calibration,
                   const TopoMachine *machine, const char *profile, GError **error)
{
  *numbers = (CostNumbers){ .assumed = g_ptr_array_new_with_free_func (g_free) };
  if (!resolve_gpu (numbers, calibration, machine, error)
      || !resolve_links (numbers, calibration, machine, error)
      || !resolve_rest (numbers, calibration, machine, profile, error)) {
    cost_numbers_clear (numbers);
    return FALSE;
  }
  apply_corrections (&numbers->step, numbers->profile.step_corrections);
  numbers->step.p2p_host_s = numbers->profile.p2p_host_s;
  numbers->memory.cublas_workspace_bytes = numbers->gpu.cublas_workspace_bytes;
  numbers->uncertainty.z10 = -numbers->uncertainty.z10;
  numbers->curves = cost_curves_new (numbers, machine);
  return TRUE;
}

void
cost_numbers_clear (CostNumbers *numbers)
{
  if (numbers == NULL)
    return;
  g_clear_pointer (&numbers->assumed, g_ptr_array_unref);
  g_clear_pointer (&numbers->curves, g_array_unref);
}

void
cost_numbers_alone (CostNumbers *numbers)
{
  numbers->fabric.hop_s /= numbers->fabric.step_hop_ratio;
  numbers->fabric.step_hop_ratio = 1;
}

void
cost_numbers_old_nccl (CostNumbers *numbers)
{
  CostCollectiveNumbers *collective = &numbers->collective;
  if (numbers->old_nccl)
    return;
  numbers->old_nccl = TRUE;
  g_clear_pointer (&numbers->curves, g_array_unref); /* measured with today's */
  collective->low_fill_ratio *= collective->old_fill_ratio;
  collective->bulk_fill_ratio *= collective->old_fill_ratio;
  collective->fill_ratio *= collective->old_fill_ratio;
  collective->network_ring_fill_ratio *= collective->old_fill_ratio;
}
