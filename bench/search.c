/* bench/search.c - how many distinct legal layouts are fully costed per second and core.
 *
 * gpt3-175b on 512 A100, exhaustive: every legal candidate gets tier 1 (time, memory, risk).
 * usage: bench-search [MODEL MACHINE GPUS BATCH [REPEATS]]
 */
#include "sim/search.h"
#include "base/units.h"
#include "model/program.h"

#include <stdio.h>

typedef struct {
  const char *model, *machine;
  guint64 gpus, batch, repeats;
} Arguments;

static gboolean
read_arguments (int argc, char **argv, Arguments *out, GError **error)
{
  *out = (Arguments){ "gpt3-175b", "dgx-a100-80g", 512, 1536, 3 };
  if (argc > 1)
    out->model = argv[1];
  if (argc > 2)
    out->machine = argv[2];
  return (argc <= 3 || base_units_parse_count (argv[3], 1, 1u << 24, &out->gpus, error))
         && (argc <= 4 || base_units_parse_count (argv[4], 1, 1u << 30, &out->batch, error))
         && (argc <= 5 || base_units_parse_count (argv[5], 1, 1000, &out->repeats, error));
}

static gboolean
run (const Arguments *arguments, GError **error)
{
  g_autoptr (BaseCatalog) catalog = base_catalog_new (NULL, error);
  g_autoptr (ModelArch) arch = catalog ? model_arch_load (catalog, arguments->model, error) : NULL;
  g_autoptr (TopoMachine) machine
      = arch ? topo_machine_load (catalog, arguments->machine, NULL, error) : NULL;
  g_autoptr (ModelProfile) profile
      = machine ? model_profile_load (catalog, "megatron", error) : NULL;
  g_autoptr (CostCalibration) calibration
      = profile ? cost_calibration_load (catalog, "default", error) : NULL;
  g_auto (CostNumbers) numbers = { 0 };
  g_auto (ModelLayout) pins = { 0 };
  g_auto (SimSpace) space = { 0 };
  ModelJob job;
  CostProblem problem;

  if (calibration == NULL || !model_job_init (&job, arch, 0, arguments->batch, -1, error)
      || !cost_numbers_init (&numbers, calibration, machine, "megatron", error))
    return FALSE;
  problem = (CostProblem){ .arch = arch,
                           .job = &job,
                           .profile = profile,
                           .machine = machine,
                           .numbers = &numbers,
                           .gpus = (guint32)arguments->gpus,
                           .model_flop = model_step_flop (arch, &job) };
  model_layout_init (&pins, profile);
  if (!sim_space_init (&space, &problem, &pins, 0, error))
    return FALSE;
  for (guint64 i = 0; i < arguments->repeats; i++) {
    const SimSearchOptions options = {
      .keep = 100, .max_oom_risk = 0.1, .jobs = 1, .exhaustive = TRUE, .balance_stages = TRUE
    };
    g_auto (SimSearchResult) result = { 0 };

    if (!sim_search (&problem, &space, &options, &result, error))
      return FALSE;
    printf ("%s on %" G_GUINT64_FORMAT " %s: %" G_GUINT64_FORMAT
            " legal layouts, %" G_GUINT64_FORMAT " templates, %" G_GUINT64_FORMAT
            " exact recurrences, %.3f s on one core: %.0f layouts/s\n",
            arguments->model, arguments->gpus, arguments->machine, result.legal_count,
            result.templates_count, result.tier2_count, result.elapsed_s,
            (double)result.tier1_count / result.elapsed_s);
  }
  return TRUE;
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  Arguments arguments;

  if (read_arguments (argc, argv, &arguments, &error) && run (&arguments, &error))
    return 0;
  fprintf (stderr, "bench-search: %s\n", error->message);
  return 2;
}
