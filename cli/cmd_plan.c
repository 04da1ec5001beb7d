/* cli/cmd_plan.c - plait plan: search layouts, print the best, store them. */
#include "app/plan.h"
#include "cli/cli.h"
#include "cli/plan_run_json.h"
#include "cli/plan_text.h"
#include "cli/sensitivity.h"

#include "base/cpus.h"
#include "base/units.h"

#include <math.h>
#include <string.h>

typedef struct {
  char *model, *machine, *gpu, *what_if, *profile, *calibration, *layout;
  char *gpus, *global_batch, *seq, *dropout;
  char *max_oom_risk, *keep, *jobs, *top, *limit, *simulate, *rank;
  char *objective, *tokens, *deadline;
  gboolean exhaustive, explain, no_store, take_over, pareto, sensitivity;
} Options;

static void
options_clear (Options *o)
{
  char **all[]
      = { &o->what_if,  &o->model,    &o->machine,      &o->gpu,   &o->profile,   &o->calibration,
          &o->layout,   &o->gpus,     &o->global_batch, &o->seq,   &o->dropout,   &o->max_oom_risk,
          &o->keep,     &o->jobs,     &o->top,          &o->limit, &o->objective, &o->tokens,
          &o->deadline, &o->simulate, &o->rank };

  for (gsize i = 0; i < G_N_ELEMENTS (all); i++)
    g_clear_pointer (all[i], g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

/* A request with what it owns. */
typedef struct {
  AppPlanRequest request;
  char **machines;
  GArray *gpus, *batches, *seqs;
  guint64 top;
  CliRank rank;
} Asked;

static void
asked_clear (Asked *asked)
{
  g_strfreev (asked->machines);
  g_clear_pointer (&asked->gpus, g_array_unref);
  g_clear_pointer (&asked->batches, g_array_unref);
  g_clear_pointer (&asked->seqs, g_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Asked, asked_clear)

static gboolean
ask_machines (const char *text, Asked *asked, GError **error)
{
  if (!cli_require ("--machine", text, "hgx-h100", error))
    return FALSE;
  asked->machines = g_strsplit (text, ",", -1);
  for (char **machine = asked->machines; *machine != NULL; machine++) {
    if (*g_strstrip (*machine) == '\0') {
      g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE, "--machine: empty name in the list '%s'",
                   text);
      return FALSE;
    }
    for (char **other = asked->machines; other != machine; other++)
      if (g_str_equal (*other, *machine)) {
        g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE, "--machine: '%s' is named twice", *machine);
        return FALSE;
      }
  }
  return TRUE;
}

static gboolean
ask_limits (const Options *o, Asked *asked, GError **error)
{
  guint64 keep = 100;
  guint64 jobs = base_cpus_count ();

  asked->top = 10;
  asked->request.max_oom_risk = APP_MAX_OOM_RISK;
  if (!cli_ratio ("--max-oom-risk", o->max_oom_risk, &asked->request.max_oom_risk, error)
      || !cli_count ("--jobs", o->jobs, 1, 1024, &jobs, error)
      || !cli_count ("--top", o->top, 1, 1000000, &asked->top, error)
      || !cli_count ("--limit", o->limit, 1, G_MAXINT64, &asked->request.limit, error))
    return FALSE;
  if (g_strcmp0 (o->keep, "all") == 0)
    keep = G_MAXUINT32;
  else if (!cli_count ("--keep", o->keep, 1, 10000000, &keep, error))
    return FALSE;
  asked->request.keep = (guint)keep;
  asked->request.jobs = (guint)jobs;
  return TRUE;
}

/* How many of the best are played, and whether that orders them. After the lists of @request. */
static gboolean
ask_simulation (const Options *o, AppPlanRequest *request, GError **error)
{
  guint64 simulate = app_plan_default_plays (request);

  if (!cli_count ("--simulate", o->simulate, 0, 100000, &simulate, error))
    return FALSE;
  request->simulate = (guint)simulate;
  request->rank_simulated = g_strcmp0 (o->rank, "simulated") == 0;
  if (o->rank == NULL || request->rank_simulated || g_str_equal (o->rank, "step"))
    return TRUE;
  g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE, "--rank: found '%s', expected step or simulated",
               o->rank);
  return FALSE;
}

static void
show_progress (const char *point, guint64 done, guint64 total, gpointer unused)
{
  (void)unused;
  cli_progress (point, done, total);
}

static void
show_note (const char *text, gpointer unused)
{
  (void)unused;
  fprintf (stderr, "plait: %s\n", text);
}

/* The live machine without GPUs has as many devices as the largest plan. */
static guint32
live_ranks (const GArray *gpus)
{
  guint64 most = 1;

  for (guint i = 0; i < gpus->len; i++)
    most = MAX (most, g_array_index (gpus, guint64, i));
  return (guint32)most;
}

static gboolean
ask (const Options *o, const CliCommon *common, Asked *asked, GError **error)
{
  AppPlanRequest *request = &asked->request;
  double dropout = -1;

  if (!cli_require ("--model", o->model, "llama-3.1-70b", error)
      || !ask_machines (o->machine, asked, error)
      || !cli_count_list ("--gpus", o->gpus, TRUE, 1, 1u << 24, &asked->gpus, error)
      || !cli_count_list ("--global-batch", o->global_batch, FALSE, 1, 1u << 30, &asked->batches,
                          error)
      || !cli_count_list ("--seq", o->seq, FALSE, 1, 1u << 30, &asked->seqs, error)
      || !cli_ratio ("--dropout", o->dropout, &dropout, error) || !ask_limits (o, asked, error)
      || !cli_rank_parse (o->objective, o->pareto, o->tokens, o->deadline, &asked->rank, error))
    return FALSE;
  if (o->take_over && o->no_store) {
    g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE,
                 "--take-over goes on with a stored search, and --no-store stores none: give one");
    return FALSE;
  }
  request->inputs = (AppInputs){
    .catalog_dir = common->catalog,
    .model = o->model,
    .gpu = o->gpu,
    .what_if = o->what_if,
    .profile = o->profile,
    .calibration = o->calibration,
    .db_path = cli_db_path (common),
    .live_ranks = live_ranks (asked->gpus),
    .dropout = dropout,
  };
  request->machines = (const char *const *)asked->machines;
  request->gpus = asked->gpus;
  request->batches = asked->batches;
  request->seqs = asked->seqs;
  request->pins = o->layout;
  request->exhaustive = o->exhaustive;
  request->db_path = o->no_store ? NULL : cli_db_path (common);
  request->take_over = o->take_over;
  request->note = show_note;
  request->progress = show_progress;
  request->cancelled = cli_interrupted;
  return ask_simulation (o, request, error);
}

/* ---- what limits the best plan ---- */

/* Of the best plan of each search point: (owned) GArray of AppSensitivity each, NULL without. */
static GPtrArray *
find_sensitivity (const AppPlanResult *result, const AppPlanRequest *request, GError **error)
{
  g_autoptr (GPtrArray) all = g_ptr_array_new_with_free_func ((GDestroyNotify)g_array_unref);
  guint n_machines = g_strv_length ((char **)request->machines);

  for (guint i = 0; i < result->points->len; i++) {
    const AppPlanPoint *point = g_ptr_array_index (result->points, i);
    const DbPlan *best = point->plans->len > 0 ? g_ptr_array_index (point->plans, 0) : NULL;
    AppInputs inputs = request->inputs;
    GArray *rows = NULL;

    /* points come machine by machine, the same number of each */
    inputs.machine = request->machines[i / (result->asked_count / n_machines)];
    if (best != NULL) {
      rows = app_sensitivity (&inputs, point->gpus, point->global_batch, point->seq,
                              best->plan.layout_text, error);
      if (rows == NULL)
        return NULL;
    }
    g_ptr_array_add (all, rows != NULL ? rows : g_array_new (FALSE, FALSE, 1));
  }
  return g_steal_pointer (&all);
}

/* ---- printing ---- */

static void
print_csv (const AppPlanResult *result)
{
  g_autoptr (CliTable) table = cli_plan_table_new (TRUE, TRUE);

  for (guint i = 0; i < result->points->len; i++) {
    const AppPlanPoint *point = g_ptr_array_index (result->points, i);

    for (guint p = 0; p < point->plans->len; p++)
      cli_plan_table_add (table, g_ptr_array_index (point->plans, p), TRUE, TRUE);
  }
  cli_table_print (table, stdout, TRUE);
}

static void
print_rejections (const AppPlanPoint *point)
{
  g_autoptr (CliTable) table = cli_table_new ();

  cli_table_column (table, "refused because", CLI_LEFT);
  cli_table_column (table, "layouts", CLI_RIGHT);
  for (guint reason = MODEL_LEGAL + 1; reason < MODEL_LEGAL_N; reason++)
    if (point->rejected[reason] > 0) {
      cli_table_row (table);
      cli_table_cell (table, "%s", model_legality_name ((ModelLegality)reason));
      cli_table_cell_owned (table, base_units_format_count (point->rejected[reason]));
    }
  if (point->too_risky_count > 0) {
    cli_table_row (table);
    cli_table_cell (table, "%s", "oom_risk_above_limit (of those looked at)");
    cli_table_cell_owned (table, base_units_format_count (point->too_risky_count));
  }
  puts ("");
  cli_table_print (table, stdout, FALSE);
}

/* Which risk would have been listed. (owned) */
static char *
limit_text (double max_oom_risk)
{
  return max_oom_risk < APP_NO_OOM_RISK ? g_strdup ("less than 0.1 %")
                                        : g_strdup_printf ("%g %% or less", 100 * max_oom_risk);
}

static void
print_misses (const AppPlanPoint *point, double max_oom_risk, const CliCommon *common)
{
  static const char *const headers[]
      = { "layout", "needs GiB", "peak GiB", "usable GiB", "OOM risk", "step" };
  g_autoptr (CliTable) table = cli_table_new ();
  g_autofree char *limit = limit_text (max_oom_risk);
  const double gib = 1073741824.0;

  if (point->misses->len == 0) {
    puts (point->legal_count > 0 ? "nothing fits" : "nothing fits: no layout is legal");
    return;
  }
  printf (
      "nothing fits with a risk of running out of memory of %s (--max-oom-risk): nearest misses\n",
      limit);
  for (gsize i = 0; i < G_N_ELEMENTS (headers); i++)
    cli_table_column (table, headers[i], i == 0 ? CLI_LEFT : CLI_RIGHT);
  cli_table_column (table, "", CLI_LEFT);
  for (guint i = 0; i < point->misses->len; i++) {
    const AppMiss *miss = &g_array_index (point->misses, AppMiss, i);

    cli_table_row (table);
    cli_table_cell_owned (table, model_layout_shorten (miss->layout_text));
    cli_table_cell (table, "%.1f", (double)miss->need_bytes / gib);
    cli_table_cell (table, "%.1f", (double)miss->peak_bytes / gib);
    cli_table_cell (table, "%.1f", (double)miss->usable_bytes / gib);
    cli_table_cell_owned (table, cli_format_risk (miss->oom_risk));
    cli_table_cell_owned (table, base_units_format_seconds (miss->step_s));
    cli_table_cell (table, "%s", cli_risk_word (miss->oom_risk));
  }
  cli_table_print (table, stdout, FALSE);
  if (!common->quiet)
    puts (
        "(peak: as the driver shows it; needs: without the allocator's cache, which it gives back "
        "when memory is short)");
}

static void
print_point (const AppPlanPoint *point, const Options *o, const Asked *asked,
             const CliCommon *common)
{
  g_autofree char *legal = base_units_format_count (point->legal_count);
  guint n = (guint)MIN (asked->top, point->plans->len);

  printf ("%s on %" G_GUINT64_FORMAT " × %s, batch %" G_GUINT64_FORMAT " × %" G_GUINT64_FORMAT
          " tokens: %s legal layouts\n",
          o->model, point->gpus, point->machine, point->global_batch, point->seq, legal);
  if (n > 0) {
    const DbPlan *first = g_ptr_array_index (point->plans, 0);
    gboolean with_price = isfinite (first->plan.usd_per_gpu_h);
    g_autoptr (CliTable) table = cli_plan_table_new (FALSE, with_price);

    for (guint i = 0; i < n; i++)
      cli_plan_table_add (table, g_ptr_array_index (point->plans, i), FALSE, with_price);
    cli_table_print (table, stdout, FALSE);
    if (n < point->plans->len && !common->quiet)
      printf ("(%u of %u kept plans; --top N shows more)\n", n, point->plans->len);
  } else
    print_misses (point, asked->request.max_oom_risk, common);
  if (o->explain || point->legal_count == 0)
    print_rejections (point);
  for (guint i = 0; i < point->advice->len; i++)
    printf ("note: %s\n", (const char *)g_ptr_array_index (point->advice, i));
  puts ("");
}

static void
print_text (const AppPlanResult *result, const Options *o, const Asked *asked, const GArray *ranked,
            const GPtrArray *sensitivity, const CliCommon *common)
{
  for (guint i = 0; i < result->points->len; i++) {
    print_point (g_ptr_array_index (result->points, i), o, asked, common);
    if (sensitivity != NULL && ((GArray *)g_ptr_array_index (sensitivity, i))->len > 0) {
      cli_sensitivity_print (g_ptr_array_index (sensitivity, i));
      puts ("");
    }
  }
  if (ranked != NULL)
    cli_rank_print (&asked->rank, ranked);
}

static void
print_notes (const AppPlanResult *result, const AppPlanRequest *request)
{
  double seconds = 0;
  guint64 tier1 = 0;
  guint64 tier2 = 0;

  for (guint i = 0; i < result->points->len; i++) {
    const AppPlanPoint *point = g_ptr_array_index (result->points, i);

    seconds += point->counts.search_s;
    tier1 += point->counts.costed_count;
    tier2 += point->counts.exact_count;
  }
  fprintf (stderr,
           "searched %.3f s: %" G_GUINT64_FORMAT " layouts costed, %" G_GUINT64_FORMAT
           " by the exact recurrence, %u threads\n",
           seconds, tier1, tier2, request->jobs);
  if (result->resumed)
    fprintf (stderr,
             "went on with run %" G_GINT64_FORMAT ": %u of %u search points were done already\n",
             result->run_id, result->reused_count, result->asked_count);
  else if (result->run_id > 0)
    fprintf (stderr, "stored as run %" G_GINT64_FORMAT " in %s\n", result->run_id,
             request->db_path);
}

static void
print_interrupted (const AppPlanResult *result, const AppPlanRequest *request)
{
  if (result->run_id > 0)
    fprintf (stderr,
             "plait: interrupted: %u of %u search points are done and kept in %s as run "
             "%" G_GINT64_FORMAT "; the same command goes on from there\n",
             result->points->len, result->asked_count, request->db_path, result->run_id);
  else
    fprintf (stderr,
             "plait: interrupted: %u of %u search points are done; nothing is kept with "
             "--no-store, so that the same command starts again\n",
             result->points->len, result->asked_count);
}

static CliExit
verdict (const AppPlanResult *result, const Asked *asked, const GArray *ranked)
{
  if (result->interrupted) {
    print_interrupted (result, &asked->request);
    return CLI_NO;
  }
  if (ranked != NULL && !cli_rank_is_met (&asked->rank, ranked))
    return CLI_NO;
  for (guint i = 0; i < result->points->len; i++)
    if (((AppPlanPoint *)g_ptr_array_index (result->points, i))->plans->len > 0)
      return CLI_DONE;
  return CLI_NO;
}

static CliExit
answer (AppPlanResult *result, const Options *o, Asked *asked, const CliCommon *common)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GArray) ranked = NULL;
  g_autoptr (GPtrArray) sensitivity = NULL;

  if (result->warning != NULL)
    fprintf (stderr, "plait: %s\n", result->warning);
  if (asked->rank.asked || result->points->len > 1) {
    ranked = app_plan_rank (result, &asked->rank.request);
    cli_rank_filter (&asked->rank, ranked);
  }
  if (o->sensitivity)
    sensitivity = find_sensitivity (result, &asked->request, &error);
  if (error != NULL)
    return cli_fail (common, error);
  if (common->json)
    cli_plan_run_json (result, &asked->request, &asked->rank, ranked, sensitivity);
  else if (common->csv)
    print_csv (result);
  else
    print_text (result, o, asked, ranked, sensitivity, common);
  if (!common->quiet)
    print_notes (result, &asked->request);
  return verdict (result, asked, ranked);
}

static CliExit
run (const CliVerb *verb, int argc, char **argv)
{
  g_auto (Options) o = { 0 };
  g_auto (CliCommon) common = { 0 };
  g_auto (Asked) asked = { 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (AppPlanResult) result = NULL;
  CliExit code = CLI_DONE;
  const GOptionEntry entries[] = {
    { "model", 0, 0, G_OPTION_ARG_STRING, &o.model, "Model: slug or file", "MODEL" },
    { "machine", 0, 0, G_OPTION_ARG_STRING, &o.machine, "Machines, comma-separated", "MACHINES" },
    { "gpu", 0, 0, G_OPTION_ARG_STRING, &o.gpu, "Replace the machine's GPU", "GPU" },
    { "what-if", 0, 0, G_OPTION_ARG_STRING, &o.what_if,
      "Change the machine: flops hbm hbm_bw nvlink nic price, e.g. nvlink=+50%,nic=800Gb/s",
      "CHANGES" },
    { "gpus", 0, 0, G_OPTION_ARG_STRING, &o.gpus, "GPU counts: 64, 64,128 or 64..4096", "LIST" },
    { "global-batch", 0, 0, G_OPTION_ARG_STRING, &o.global_batch, "Sequences per step", "LIST" },
    { "seq", 0, 0, G_OPTION_ARG_STRING, &o.seq, "Tokens per sequence", "LIST" },
    { "profile", 0, 0, G_OPTION_ARG_STRING, &o.profile, "Framework profile (megatron)", "PROFILE" },
    { "calibration", 0, 0, G_OPTION_ARG_STRING, &o.calibration, "Calibration (default)", "NAME" },
    { "layout", 0, 0, G_OPTION_ARG_STRING, &o.layout, "Keys to hold fixed, for example tp=8,sp=1",
      "LAYOUT" },
    { "dropout", 0, 0, G_OPTION_ARG_STRING, &o.dropout, "Dropout instead of the model's", "RATIO" },
    { "max-oom-risk", 0, 0, G_OPTION_ARG_STRING, &o.max_oom_risk,
      "Drop plans above it (0.10); 0: above 0.05 %, the least that is shown", "RATIO" },
    { "keep", 0, 0, G_OPTION_ARG_STRING, &o.keep,
      "Plans kept per machine and GPU count (100), or all", "N" },
    { "jobs", 0, 0, G_OPTION_ARG_STRING, &o.jobs, "Threads (cores)", "N" },
    { "top", 0, 0, G_OPTION_ARG_STRING, &o.top, "Plans printed as text (10)", "N" },
    { "limit", 0, 0, G_OPTION_ARG_STRING, &o.limit,
      "Refuse sweeps of more points or layouts than this", "N" },
    { "objective", 0, 0, G_OPTION_ARG_STRING, &o.objective,
      "Rank search points by time, cost, tokens-per-dollar or gpus", "OBJECTIVE" },
    { "pareto", 0, 0, G_OPTION_ARG_NONE, &o.pareto, "Rank only the front of time, GPUs and cost",
      NULL },
    { "tokens", 0, 0, G_OPTION_ARG_STRING, &o.tokens, "Tokens to train on, for example 15T",
      "TOKENS" },
    { "deadline", 0, 0, G_OPTION_ARG_STRING, &o.deadline, "Time for --tokens, for example 30d",
      "TIME" },
    { "sensitivity", 0, 0, G_OPTION_ARG_NONE, &o.sensitivity,
      "What 10 % more of each resource does to the best plan", NULL },
    { "simulate", 0, 0, G_OPTION_ARG_STRING, &o.simulate,
      "Of the best, so many are played event by event (10; in a sweep 100 in all, 1 of a point at "
      "least)",
      "N" },
    { "rank", 0, 0, G_OPTION_ARG_STRING, &o.rank,
      "Order those by 'step' (predicted, the default) or 'simulated'", "WORD" },
    { "exhaustive", 0, 0, G_OPTION_ARG_NONE, &o.exhaustive, "Cost every layout, prune nothing",
      NULL },
    { "explain", 0, 0, G_OPTION_ARG_NONE, &o.explain, "Count refused layouts by reason", NULL },
    { "no-store", 0, 0, G_OPTION_ARG_NONE, &o.no_store, "Store nothing", NULL },
    { "take-over", 0, 0, G_OPTION_ARG_NONE, &o.take_over,
      "Go on with a stopped search even if its host cannot be asked whether it has ended", NULL },
    G_OPTION_ENTRY_NULL
  };

  if (!cli_parse (verb, argc, argv, entries, 0, 0, &common, NULL, &code))
    return code;
  if (!ask (&o, &common, &asked, &error))
    return cli_fail (&common, error);
  cli_catch_interrupt ();
  result = app_plan (&asked.request, &error);
  cli_progress_end ();
  if (result == NULL)
    return cli_fail (&common, error);
  return answer (result, &o, &asked, &common);
}

const CliVerb cli_plan = {
  .name = "plan",
  .arguments = "--model MODEL --machine MACHINES --gpus LIST",
  .summary = "Search layouts, print the best, store them",
  .description
  = "Tries every legal split over tensor, sequence, context, pipeline, expert and data\n"
    "parallelism, ZeRO/FSDP, micro-batch, recomputation and stages, and ranks them by step time\n"
    "among those whose risk of running out of memory is acceptable.\n"
    "Lists and ranges search every combination; the search points are then ranked. A stopped\n"
    "search goes on where it was when the same command is given again.\n"
    "Exit code 1: nothing fits (the nearest misses are shown), nothing meets --deadline, or it "
    "was\n"
    "stopped by Ctrl-C or SIGTERM.",
  .run = run,
};
