/* bench/search.c - how many distinct legal layouts are fully costed per second and core, and what
 * pruning saves.
 *
 * gpt3-175b on 512 A100 by one thread, exhaustive: every legal layout gets tier 1 (time, memory,
 * risk); then pruned, which must give the same plans.
 * usage: bench-search [MODEL MACHINE GPUS BATCH [REPEATS [both|exhaustive|pruned [JOBS]]]]
 */
#include "sim/search.h"
#include "base/units.h"
#include "model/program.h"
#include "sim/topk.h"

#include <stdio.h>
#include <time.h>

typedef struct {
  const char *model, *machine, *which;
  guint64 gpus, batch, repeats, jobs;
} Arguments;

static gboolean
read_arguments (int argc, char **argv, Arguments *out, GError **error)
{
  *out = (Arguments){ "gpt3-175b", "dgx-a100-80g", "both", 512, 1536, 3, 1 };
  if (argc > 1)
    out->model = argv[1];
  if (argc > 2)
    out->machine = argv[2];
  if (argc > 6)
    out->which = argv[6];
  return (argc <= 3 || base_units_parse_count (argv[3], 1, 1u << 24, &out->gpus, error))
         && (argc <= 4 || base_units_parse_count (argv[4], 1, 1u << 30, &out->batch, error))
         && (argc <= 5 || base_units_parse_count (argv[5], 1, 1000, &out->repeats, error))
         && (argc <= 7 || base_units_parse_count (argv[7], 1, 1024, &out->jobs, error));
}

/* Of all threads: what others do on the machine is not in it. */
static double
processor_s (void)
{
  return (double)clock () / CLOCKS_PER_SEC;
}

/* *out_processor_s: what the search took of all cores. */
static gboolean
measure (const Arguments *arguments, const CostProblem *problem, const SimSpace *space,
         gboolean exhaustive, SimSearchResult *result, double *out_processor_s, GError **error)
{
  const SimSearchOptions options = { .keep = 100,
                                     .max_oom_risk = 0.1,
                                     .jobs = (guint)arguments->jobs,
                                     .exhaustive = exhaustive,
                                     .balance_stages = TRUE };
  double start_s = processor_s ();

  if (!sim_search (problem, space, &options, result, error))
    return FALSE;
  *out_processor_s = processor_s () - start_s;
  printf ("%s on %" G_GUINT64_FORMAT " %s, %s: %" G_GUINT64_FORMAT
          " legal layouts, %" G_GUINT64_FORMAT " costed, %" G_GUINT64_FORMAT
          " templates, %" G_GUINT64_FORMAT " exact recurrences, %.4f s with %" G_GUINT64_FORMAT
          " threads, %.4f s of processors: %.0f layouts/s of a core\n",
          arguments->model, arguments->gpus, arguments->machine,
          exhaustive ? "exhaustive" : "pruned", result->legal_count, result->tier1_count,
          result->templates_count, result->tier2_count, result->elapsed_s, arguments->jobs,
          *out_processor_s, (double)result->tier1_count / *out_processor_s);
  return TRUE;
}

static gboolean
same_plans (const SimSearchResult *a, const SimSearchResult *b)
{
  if (a->n_plans != b->n_plans)
    return FALSE;
  for (guint i = 0; i < a->n_plans; i++)
    if (sim_layout_compare (&a->plans[i].layout, &b->plans[i].layout) != 0
        || a->plans[i].prediction.step_s != b->plans[i].prediction.step_s)
      return FALSE;
  return TRUE;
}

/* Times of a shared machine differ: pruning is judged by two searches that follow each other. */
static gboolean
measure_both (const Arguments *arguments, const CostProblem *problem, const SimSpace *space,
              GError **error)
{
  g_auto (SimSearchResult) all = { 0 };
  g_auto (SimSearchResult) pruned = { 0 };
  double all_s = 0;
  double pruned_s = 0;
  gboolean runs_all = g_str_equal (arguments->which, "pruned") == FALSE;
  gboolean runs_pruned = g_str_equal (arguments->which, "exhaustive") == FALSE;

  if ((runs_all && !measure (arguments, problem, space, TRUE, &all, &all_s, error))
      || (runs_pruned && !measure (arguments, problem, space, FALSE, &pruned, &pruned_s, error)))
    return FALSE;
  if (!runs_all || !runs_pruned)
    return TRUE;
  if (!same_plans (&all, &pruned)) {
    g_set_error_literal (error, SIM_ERROR, SIM_ERROR_SPACE, "pruning changed the plans");
    return FALSE;
  }
  printf ("the same %u plans in 1/%.1f of the time, 1/%.1f of that of processors\n", all.n_plans,
          all.elapsed_s / pruned.elapsed_s, all_s / pruned_s);
  return TRUE;
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
  for (guint64 i = 0; i < arguments->repeats; i++)
    if (!measure_both (arguments, &problem, &space, error))
      return FALSE;
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
