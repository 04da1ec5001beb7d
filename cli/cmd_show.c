/* cli/cmd_show.c - plait show, plait compare: stored plans. */
#include "app/fixes.h"
#include "app/stored.h"
#include "cli/cli.h"
#include "cli/plan_json.h"
#include "cli/plan_text.h"

#include "base/units.h"

#include <math.h>

/* A plan that is described, not stored: --model in place of PLAN. */
static gboolean
is_described (int argc, char **argv)
{
  for (int i = 1; i < argc; i++)
    if (g_str_equal (argv[i], "--model") || g_str_has_prefix (argv[i], "--model="))
      return TRUE;
  return FALSE;
}

static CliExit
run_show (const CliVerb *verb, int argc, char **argv)
{
  g_auto (CliCommon) common = { 0 };
  g_auto (GStrv) rest = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (DbPlan) plan = NULL;
  g_autoptr (GPtrArray) fixes = NULL;
  gboolean with_fixes = FALSE;
  CliExit code = CLI_DONE;
  const GOptionEntry entries[] = { { "fixes", 0, 0, G_OPTION_ARG_NONE, &with_fixes,
                                     "With --json: also what lowers the memory risk", NULL },
                                   G_OPTION_ENTRY_NULL };

  if (is_described (argc, argv))
    return cli_predict.run (verb, argc, argv);
  if (!cli_parse (verb, argc, argv, entries, 1, 1, &common, &rest, &code))
    return code;
  plan = app_stored_plan (cli_db_path (&common), rest[0], &error);
  if (plan == NULL)
    return cli_fail (&common, error);
  if (with_fixes || (!common.csv && !common.json))
    fixes = app_fixes_of_plan (plan, common.catalog, cli_db_path (&common), &error);
  if (error != NULL && !common.quiet)
    fprintf (stderr, "plait: fixes of the memory risk are not worked out: %s\n", error->message);
  cli_output_plan (plan, fixes, &common);
  return CLI_DONE;
}

const CliVerb cli_show = {
  .name = "show",
  .arguments = "PLAN",
  .summary = "A plan in full",
  .description
  = "PLAN is a plan id (see 'plait query \"select * from best_plan\"') or 'best', the\n"
    "best plan of the last run, or options as of predict: --model … --machine … --gpus …\n"
    "--layout …. Below it: what would lower the risk of running out of memory\n"
    "(recompute, tp, pp, cp, micro-batch, sharding, growing segments, the optimizer on the host),\n"
    "cheapest in time first.",
  .run = run_show,
};

/* ---- compare: one column per plan ---- */

static double
breakdown (const DbPlan *plan, const char *component)
{
  for (gsize i = 0; i < plan->plan.n_breakdown; i++)
    if (g_str_equal (plan->plan.breakdown[i].component, component))
      return plan->plan.breakdown[i].exposed_s;
  return 0;
}

static void
compare_row (CliTable *table, const char *name, const GPtrArray *plans, gboolean csv,
             char *(*cell) (const DbPlan *plan, gboolean csv))
{
  cli_table_row (table);
  cli_table_cell (table, "%s", name);
  for (guint i = 0; i < plans->len; i++)
    cli_table_cell_owned (table, cell (g_ptr_array_index (plans, i), csv));
}

#define SECONDS_CELL(name, value)                                                                  \
  static char *name (const DbPlan *plan, gboolean csv)                                             \
  {                                                                                                \
    return csv ? g_strdup_printf ("%.17g", (value)) : base_units_format_seconds (value);           \
  }
#define BYTES_CELL(name, value)                                                                    \
  static char *name (const DbPlan *plan, gboolean csv)                                             \
  {                                                                                                \
    return csv ? g_strdup_printf ("%" G_GUINT64_FORMAT, (guint64)(value))                          \
               : base_units_format_bytes ((double)(value));                                        \
  }
#define TEXT_CELL(name, ...)                                                                       \
  static char *name (const DbPlan *plan, gboolean csv)                                             \
  {                                                                                                \
    (void)csv;                                                                                     \
    return g_strdup_printf (__VA_ARGS__);                                                          \
  }
TEXT_CELL (cell_model, "%s", plan->model.name)
TEXT_CELL (cell_machine, "%s", plan->machine.name)
TEXT_CELL (cell_gpus, "%" G_GINT64_FORMAT, plan->plan.gpus)
TEXT_CELL (cell_batch, "%" G_GINT64_FORMAT " × %" G_GINT64_FORMAT, plan->plan.global_batch,
           plan->plan.seq)
static char *
cell_layout (const DbPlan *plan, gboolean csv)
{
  return csv ? g_strdup (plan->plan.layout_text) : model_layout_shorten (plan->plan.layout_text);
}
TEXT_CELL (cell_tokens, "%.1f", plan->plan.prediction.tokens_per_s_per_gpu)
TEXT_CELL (cell_mfu, "%.1f %%", 100 * plan->plan.prediction.mfu)
static char *
cell_risk (const DbPlan *plan, gboolean csv)
{
  double risk = plan->plan.prediction.oom_risk;

  return csv ? g_strdup_printf ("%.17g", risk) : cli_format_risk (risk);
}
SECONDS_CELL (cell_step, plan->plan.prediction.step_s)
SECONDS_CELL (cell_p10, plan->plan.prediction.step_s_p10)
SECONDS_CELL (cell_p90, plan->plan.prediction.step_s_p90)
static char *
cell_simulated (const DbPlan *plan, gboolean csv)
{
  double simulated_s = plan->plan.prediction.simulated_s;

  if (!isfinite (simulated_s))
    return g_strdup (csv ? "" : "-");
  return csv ? g_strdup_printf ("%.17g", simulated_s) : base_units_format_seconds (simulated_s);
}
SECONDS_CELL (cell_compute, breakdown (plan, "compute"))
SECONDS_CELL (cell_tp, breakdown (plan, "tp"))
SECONDS_CELL (cell_cp, breakdown (plan, "cp"))
SECONDS_CELL (cell_ep, breakdown (plan, "ep"))
SECONDS_CELL (cell_bubble, breakdown (plan, "pp_bubble"))
SECONDS_CELL (cell_p2p, breakdown (plan, "p2p"))
SECONDS_CELL (cell_dp, breakdown (plan, "dp"))
SECONDS_CELL (cell_optimizer, breakdown (plan, "optimizer"))
SECONDS_CELL (cell_other, breakdown (plan, "other"))
BYTES_CELL (cell_peak, plan->plan.prediction.peak_bytes)
BYTES_CELL (cell_usable, plan->plan.prediction.usable_bytes)

static const struct {
  const char *name;
  char *(*cell) (const DbPlan *plan, gboolean csv);
} compare_rows[] = {
  { "model", cell_model },
  { "machine", cell_machine },
  { "gpus", cell_gpus },
  { "batch × seq", cell_batch },
  { "layout", cell_layout },
  { "step", cell_step },
  { "step p10", cell_p10 },
  { "step p90", cell_p90 },
  { "simulated", cell_simulated },
  { "tokens/s/GPU", cell_tokens },
  { "mfu", cell_mfu },
  { "oom risk", cell_risk },
  { "peak", cell_peak },
  { "usable", cell_usable },
  { "compute", cell_compute },
  { "tp", cell_tp },
  { "cp", cell_cp },
  { "ep", cell_ep },
  { "pp bubble", cell_bubble },
  { "p2p", cell_p2p },
  { "dp", cell_dp },
  { "optimizer", cell_optimizer },
  { "other", cell_other },
};

static void
print_compare (const GPtrArray *plans, char **names, gboolean csv)
{
  g_autoptr (CliTable) table = cli_table_new ();

  cli_table_column (table, "", CLI_LEFT);
  for (guint i = 0; i < plans->len; i++)
    cli_table_column (table, names[i], CLI_RIGHT);
  for (gsize i = 0; i < G_N_ELEMENTS (compare_rows); i++)
    compare_row (table, compare_rows[i].name, plans, csv, compare_rows[i].cell);
  cli_table_print (table, stdout, csv);
}

static CliExit
run_compare (const CliVerb *verb, int argc, char **argv)
{
  g_auto (CliCommon) common = { 0 };
  g_auto (GStrv) rest = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) plans = g_ptr_array_new_with_free_func ((GDestroyNotify)db_plan_free);
  CliExit code = CLI_DONE;

  if (!cli_parse (verb, argc, argv, NULL, 2, 16, &common, &rest, &code))
    return code;
  for (char **name = rest; *name != NULL; name++) {
    DbPlan *plan = app_stored_plan (cli_db_path (&common), *name, &error);

    if (plan == NULL)
      return cli_fail (&common, error);
    g_ptr_array_add (plans, plan);
  }
  if (common.json) {
    g_autoptr (JsonBuilder) builder = json_builder_new ();

    json_builder_begin_object (builder);
    json_builder_set_member_name (builder, "plans");
    json_builder_begin_array (builder);
    for (guint i = 0; i < plans->len; i++)
      cli_json_plan (builder, g_ptr_array_index (plans, i));
    json_builder_end_array (builder);
    json_builder_end_object (builder);
    cli_json_print (builder);
  } else
    print_compare (plans, rest, common.csv);
  return CLI_DONE;
}

const CliVerb cli_compare = {
  .name = "compare",
  .arguments = "PLAN PLAN…",
  .summary = "Stored plans side by side",
  .description = "2 to 16 plan ids, or 'best'.",
  .run = run_compare,
};
