/* cli/cmd_exec.c - plait exec. */
#include "app/calibrate_node.h"
#include "app/exec.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/exec_sbatch.h"
#include "cli/plan_json.h"

#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>

typedef struct {
  char *model, *machine, *gpu, *ranks, *global_batch, *seq, *layout, *backend, *inject;
  char *calibration, *dropout, *steps, *warmup, *timeout, *limit;
  gboolean verify, dry_run, sbatch, update, slice;
  char **plan; /* at most one: a plan id or "best" */
} Options;

static void
options_clear (Options *o)
{
  char *all[] = { o->model,   o->machine, o->gpu,     o->ranks,   o->global_batch,
                  o->seq,     o->layout,  o->backend, o->inject,  o->calibration,
                  o->dropout, o->steps,   o->warmup,  o->timeout, o->limit };
  for (gsize i = 0; i < G_N_ELEMENTS (all); i++)
    g_free (all[i]);
  g_strfreev (o->plan);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

static gboolean
make_request (const Options *o, const CliCommon *common, const AppExecPlan *plan,
              AppExecRequest *request, GError **error)
{
  double dropout = -1;
  guint64 steps = 5, warmup = 2;
  *request = (AppExecRequest){ .limit_bytes = G_MAXUINT64, .timeout_s = 60 };
  if ((plan->plan == NULL
       && (!cli_require ("--model", o->model, "tiny", error)
           || !cli_require ("--ranks", o->ranks, "2", error)))
      || !cli_count ("--ranks", o->ranks, 1, 1024, &request->ranks, error)
      || !cli_count ("--global-batch", o->global_batch, 1, 1u << 30, &request->global_batch, error)
      || !cli_count ("--seq", o->seq, 1, 1u << 24, &request->seq, error)
      || !cli_count ("--steps", o->steps, 1, 1000000, &steps, error)
      || !cli_count ("--warmup", o->warmup, 0, 1000000, &warmup, error)
      || !cli_ratio ("--dropout", o->dropout, &dropout, error)
      || (o->timeout != NULL
          && !base_units_parse (o->timeout, BASE_DIM_SECONDS, &request->timeout_s, error))
      || (o->limit != NULL && !base_units_parse_bytes (o->limit, &request->limit_bytes, error)))
    return FALSE;
  request->steps = (guint)steps;
  request->warmup = (guint)warmup;
  request->layout = o->layout != NULL ? o->layout : "";
  request->backend = o->backend != NULL ? o->backend : "cpu";
  request->inject = o->inject;
  request->db_path = common->db;
  request->verify = o->verify;
  request->dry_run = o->dry_run;
  request->slice = o->slice;
  request->inputs = (AppInputs){ .catalog_dir = common->catalog,
                                 .model = plan->plan != NULL ? plan->model : o->model,
                                 .model_content = plan->model_content,
                                 .machine = o->machine != NULL ? o->machine : "live",
                                 .gpu = o->gpu,
                                 .profile = "plait",
                                 .calibration = o->calibration,
                                 .db_path = cli_db_path (common),
                                 .dropout = dropout };
  if (plan->plan != NULL) {
    request->ranks = plan->ranks;
    request->global_batch = plan->global_batch;
    request->seq = plan->seq;
    request->layout = plan->layout;
  }
  return TRUE;
}

/* A stored plan says what the options else would. */
static gboolean
find_plan (const Options *o, const CliCommon *common, AppExecPlan *plan, GError **error)
{
  const char *const said[] = { o->model, o->ranks, o->layout, o->global_batch, o->seq };
  if (o->plan == NULL || o->plan[0] == NULL)
    return TRUE;
  for (gsize i = 0; i < G_N_ELEMENTS (said); i++)
    if (said[i] != NULL) {
      g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE,
                   "plan '%s' says its model, ranks, layout, batch and sequence: leave --model, "
                   "--ranks, --layout, --global-batch and --seq out",
                   o->plan[0]);
      return FALSE;
    }
  return app_exec_plan (plan, cli_db_path (common), o->plan[0], error);
}

static gboolean
check_update (const Options *o, const CliCommon *common, GError **error)
{
  if (!o->update || (common->db != NULL && !o->dry_run && !o->sbatch && o->inject == NULL))
    return TRUE;
  g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE,
               "--update adds a run to the calibration in a database: give --db, and neither "
               "--dry-run, --sbatch nor --inject");
  return FALSE;
}

/* The calibration again, with the run that was just stored. */
static CliExit
update (const AppExecRequest *request, const CliCommon *common)
{
  const AppCalibrateNodeRequest refit = { .catalog_dir = common->catalog,
                                          .db_path = common->db,
                                          .backend = request->backend,
                                          .machine = request->inputs.machine,
                                          .ranks = request->ranks,
                                          .from_exec = TRUE };
  g_autoptr (GError) error = NULL;
  g_autoptr (AppNodeCalibration) c = app_calibrate_node (&refit, &error);
  if (c == NULL)
    return cli_fail (common, error);
  if (!common->quiet)
    fprintf (stderr, "plait: calibration '%s' refitted to %u measurements, %u runs of exec\n",
             c->name, c->n_points, c->n_exec_runs);
  return CLI_DONE;
}

static void
json_ops (JsonBuilder *b, const AppExecResult *r)
{
  json_builder_set_member_name (b, "ops");
  json_builder_begin_array (b);
  for (guint i = 0; i < EXEC_N_BUCKETS; i++) {
    if (r->predicted_ops[i].count == 0 && r->result.ops[i].count == 0)
      continue;
    json_builder_begin_object (b);
    json_builder_set_member_name (b, "kind");
    json_builder_add_string_value (b, exec_bucket_name (i));
    cli_json_count (b, "count",
                    (gint64)(r->has_result ? r->result.ops[i].count : r->predicted_ops[i].count));
    cli_json_number (b, "predicted_s", r->predicted_ops[i].seconds);
    cli_json_number (b, "measured_s", r->has_result ? r->result.ops[i].seconds : NAN);
    cli_json_number (b, "exposed_s", r->has_result ? r->result.ops[i].exposed_s : NAN);
    json_builder_end_object (b);
  }
  json_builder_end_array (b);
}

/* What is not known is left out. */
static void
json_used (JsonBuilder *b, const AppExecResult *r)
{
  json_builder_set_member_name (b, "driver_used_bytes");
  json_builder_begin_object (b);
  for (guint i = 0; i < EXEC_USED_N_PHASES; i++)
    if (r->result.used_bytes[i] > 0)
      cli_json_count (b, exec_used_names[i], (gint64)r->result.used_bytes[i]);
  json_builder_end_object (b);
}

static void
print_json (const AppExecRequest *request, const AppExecResult *r)
{
  g_autoptr (JsonBuilder) b = json_builder_new ();
  json_builder_begin_object (b);
  cli_json_count (b, "ranks", (gint64)request->ranks);
  json_builder_set_member_name (b, "backend");
  json_builder_add_string_value (b, request->backend);
  json_builder_set_member_name (b, "layout_text");
  json_builder_add_string_value (b, r->layout_text);
  json_builder_set_member_name (b, "verified");
  if (request->verify && r->has_result)
    json_builder_add_boolean_value (b, r->result.verdict.passed);
  else
    json_builder_add_null_value (b);
  json_builder_set_member_name (b, "measured");
  if (r->has_result) {
    json_builder_begin_object (b);
    cli_json_number (b, "step_s", r->result.step_s);
    cli_json_number (b, "step_s_min", r->result.step_s_min);
    cli_json_number (b, "step_s_max", r->result.step_s_max);
    cli_json_count (b, "peak_bytes", (gint64)r->result.peak_bytes);
    cli_json_count (b, "moved_bytes", (gint64)r->result.moved_bytes);
    cli_json_number (b, "loss_first", r->result.loss_first);
    cli_json_number (b, "loss_last", r->result.loss_last);
    json_used (b, r);
    json_builder_end_object (b);
  } else {
    json_builder_add_null_value (b);
  }
  json_builder_set_member_name (b, "predicted");
  json_builder_begin_object (b);
  cli_json_number (b, "step_s", r->predicted_step_s);
  cli_json_count (b, "peak_bytes", (gint64)r->predicted_peak_bytes);
  json_builder_end_object (b);
  json_ops (b, r);
  if (request->slice && r->has_result) {
    json_builder_set_member_name (b, "slice");
    json_builder_begin_object (b);
    cli_json_count (b, "rank", (gint64)r->predicted_fullest_rank);
    cli_json_number (b, "measured_compute_s", r->result.step_s);
    cli_json_number (b, "priced_communication_s", r->priced_s);
    cli_json_number (b, "step_s", r->result.step_s + r->priced_s);
    json_builder_end_object (b);
  }
  json_builder_end_object (b);
  g_autoptr (JsonNode) root = json_builder_get_root (b);
  g_autofree char *text = json_to_string (root, TRUE);
  puts (text);
}

/* A rate, and its share of what the machine's GPU is said to reach. */
static void
print_rate (CliTable *table, double rate, double unit, double most)
{
  if (rate > 0 && isfinite (rate))
    cli_table_cell (table, "%.3g", rate / unit);
  else
    cli_table_cell (table, "%s", "");
  if (rate > 0 && isfinite (rate) && most > 0)
    cli_table_cell (table, "%.1f %%", rate / most * 100);
  else
    cli_table_cell (table, "%s", "");
}

/* Milliseconds, "-" where there is no prediction. */
static void
print_ms (CliTable *table, double seconds, gboolean priced, gboolean with_sign)
{
  g_autofree char *text = g_strdup_printf (with_sign ? "%+.3f" : "%.3f", seconds * 1e3);
  cli_table_cell (table, "%s%s", priced ? "(priced) " : "", isfinite (seconds) ? text : "-");
}

/* Did anything run beside compute? */
static gboolean
overlaps (const AppExecResult *r)
{
  for (guint i = 0; r->has_result && i < EXEC_N_BUCKETS; i++)
    if (r->result.ops[i].seconds != r->result.ops[i].exposed_s)
      return TRUE;
  return FALSE;
}

static void
print_ops (const AppExecResult *r, gboolean slice)
{
  gboolean with_exposed = overlaps (r);
  g_autoptr (CliTable) table = cli_table_new ();
  cli_table_column (table, "op", CLI_LEFT);
  cli_table_column (table, "count", CLI_RIGHT);
  cli_table_column (table, "predicted ms", CLI_RIGHT);
  if (r->has_result) {
    cli_table_column (table, "measured ms", CLI_RIGHT);
    if (with_exposed)
      cli_table_column (table, "exposed ms", CLI_RIGHT);
    cli_table_column (table, "of the step's error ms", CLI_RIGHT);
    cli_table_column (table, "TFLOP/s", CLI_RIGHT);
    cli_table_column (table, "of peak", CLI_RIGHT);
    cli_table_column (table, "GB/s", CLI_RIGHT);
    cli_table_column (table, "of memory's", CLI_RIGHT);
  }
  for (guint i = 0; i < EXEC_N_BUCKETS; i++) {
    const ExecBucket *p = &r->predicted_ops[i], *m = &r->result.ops[i];
    if (p->count == 0 && m->count == 0)
      continue;
    cli_table_row (table);
    cli_table_cell (table, "%s", exec_bucket_name (i));
    cli_table_cell (table, "%" G_GUINT64_FORMAT, r->has_result ? m->count : p->count);
    print_ms (table, p->seconds, FALSE, FALSE);
    if (r->has_result) {
      gboolean priced
          = slice && (i >= MODEL_OP_N_KINDS || i == MODEL_OP_SEND || i == MODEL_OP_RECV);
      print_ms (table, m->seconds, priced, FALSE);
      if (with_exposed)
        print_ms (table, m->exposed_s, FALSE, FALSE);
      print_ms (table, p->seconds - m->exposed_s, FALSE, TRUE);
      print_rate (table, r->op_flop[i] / m->seconds, 1e12, r->peak_flop_per_s);
      print_rate (table, r->op_bytes[i] / m->seconds, 1e9, r->memory_bytes_per_s);
    }
  }
  cli_table_print (table, stdout, FALSE);
}

static void
print_groups (const AppExecRequest *request, const AppExecResult *r)
{
  printf ("ranks %u", r->map.world);
  if (g_str_equal (request->backend, "cpu"))
    printf (", %u BLAS thread%s each", r->threads, r->threads > 1 ? "s" : "");
  printf (":");
  static const ModelGroupKind shown[] = { MODEL_GROUP_TP, MODEL_GROUP_DP, MODEL_GROUP_PP };
  for (guint i = 0; i < G_N_ELEMENTS (shown); i++)
    if (r->map.groups[shown[i]].size > 1)
      printf ("  %s %u (stride %u)", model_group_name (shown[i]), r->map.groups[shown[i]].size,
              r->map.groups[shown[i]].stride);
  puts ("");
  printf ("memory of the fullest rank (%u), predicted:", r->predicted_fullest_rank);
  for (guint i = 0; i < EXEC_MEMORY_N_KINDS; i++)
    printf (" %s %" G_GUINT64_FORMAT, exec_memory_kind_name ((ExecMemoryKind)i),
            r->predicted_memory_bytes[i]);
  puts (" bytes");
}

static void
print_verdict (const ExecVerdict *v)
{
  printf ("verified against one rank alone: %s; %" G_GUINT64_FORMAT
          " copies of tensors; worst gradient %.2g, weight %.2g, checksum %.2g, loss %.2g "
          "(limit %g)\n",
          v->passed ? "the same function" : "NOT the same function", v->compared_count,
          v->worst_gradient, v->worst_weight, v->worst_checksum, v->worst_loss,
          EXEC_VERIFY_TOLERANCE);
  if (v->first_fault != NULL)
    printf ("  %s\n", v->first_fault);
}

/* Of rank 0's device, or of its process on a CPU. */
static void
print_used (const AppExecResult *r)
{
  const guint64 *used = r->result.used_bytes;
  if (used[EXEC_USED_END] == 0)
    return;
  printf ("memory: predicted %" G_GUINT64_FORMAT ", pool %" G_GUINT64_FORMAT
          ", driver-used %" G_GUINT64_FORMAT " bytes\n",
          r->predicted_peak_bytes, r->result.peak_bytes, used[EXEC_USED_END]);
  if (used[EXEC_USED_CONTEXT] == 0)
    return;
  printf ("driver-used after each phase:");
  for (guint i = 0; i < EXEC_USED_N_PHASES; i++)
    printf ("%s %s %.1f MiB", i > 0 ? "," : "", exec_used_names[i],
            (double)used[i] / (1024 * 1024));
  puts ("");
}

static void
print_text (const AppExecRequest *request, const AppExecResult *r)
{
  printf ("%s on %" G_GUINT64_FORMAT " rank%s, backend %s, layout %s\n", request->inputs.model,
          request->ranks, request->ranks > 1 ? "s" : "", request->backend,
          *r->layout_text != '\0' ? r->layout_text : "(none)");
  print_groups (request, r);
  if (r->has_result && request->verify)
    print_verdict (&r->result.verdict);
  if (r->has_result) {
    printf ("step %.4f s (%.4f to %.4f over %u steps)", r->result.step_s, r->result.step_s_min,
            r->result.step_s_max, request->steps);
    if (isfinite (r->predicted_step_s))
      printf (", predicted %.4f s (%+.0f %%)", r->predicted_step_s,
              (r->predicted_step_s / r->result.step_s - 1) * 100);
    puts ("");
    printf ("peak %" G_GUINT64_FORMAT " bytes, predicted %" G_GUINT64_FORMAT "; moved %" //
            G_GUINT64_FORMAT " bytes per step (rank 0); loss %.4f, then %.4f\n",
            r->result.peak_bytes, r->predicted_peak_bytes, r->result.moved_bytes,
            r->result.loss_first, r->result.loss_last);
    if (request->slice && isfinite (r->priced_s))
      printf ("one rank (%u) of %u alone: compute measured %.4f s, communication and bubble priced "
              "%.4f s, together %.4f s\n",
              r->predicted_fullest_rank, r->map.world, r->result.step_s, r->priced_s,
              r->result.step_s + r->priced_s);
    if (*r->result.device != '\0')
      printf ("device: %s\n", r->result.device);
    print_used (r);
  } else {
    printf ("dry run: nothing was run; expected step %.4f s, peak %" G_GUINT64_FORMAT " bytes\n",
            r->predicted_step_s, r->predicted_peak_bytes);
  }
  print_ops (r, request->slice);
}

static CliExit
run (const CliVerb *verb, int argc, char **argv)
{
  g_auto (Options) o = { 0 };
  g_auto (CliCommon) common = { 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (AppExecResult) result = NULL;
  AppExecRequest request = { 0 };
  CliExit code = CLI_DONE;
  const GOptionEntry entries[] = {
    { "model", 0, 0, G_OPTION_ARG_STRING, &o.model, "Model: slug or file", "MODEL" },
    { "ranks", 0, 0, G_OPTION_ARG_STRING, &o.ranks, "Processes, one device each", "N" },
    { "layout", 0, 0, G_OPTION_ARG_STRING, &o.layout, "Layout, for example tp=2,pp=2", "LAYOUT" },
    { "backend", 0, 0, G_OPTION_ARG_STRING, &o.backend, "Backend: cpu, cuda (cpu)", "NAME" },
    { "machine", 0, 0, G_OPTION_ARG_STRING, &o.machine, "Machine predicted for (live)", "MACHINE" },
    { "gpu", 0, 0, G_OPTION_ARG_STRING, &o.gpu, "Replace the machine's GPU", "GPU" },
    { "global-batch", 0, 0, G_OPTION_ARG_STRING, &o.global_batch, "Sequences per step", "N" },
    { "seq", 0, 0, G_OPTION_ARG_STRING, &o.seq, "Tokens per sequence", "N" },
    { "dropout", 0, 0, G_OPTION_ARG_STRING, &o.dropout, "Dropout instead of the model's", "RATIO" },
    { "calibration", 0, 0, G_OPTION_ARG_STRING, &o.calibration, "Calibration (default)", "NAME" },
    { "verify", 0, 0, G_OPTION_ARG_NONE, &o.verify, "Compare with one rank alone", NULL },
    { "inject", 0, 0, G_OPTION_ARG_STRING, &o.inject, "Break one thing, for --verify", "FAULT" },
    { "steps", 0, 0, G_OPTION_ARG_STRING, &o.steps, "Measured steps (5)", "N" },
    { "warmup", 0, 0, G_OPTION_ARG_STRING, &o.warmup, "Steps before (2)", "N" },
    { "timeout", 0, 0, G_OPTION_ARG_STRING, &o.timeout, "Longest standstill (60s)", "TIME" },
    { "memory-limit", 0, 0, G_OPTION_ARG_STRING, &o.limit, "Most bytes of a rank", "BYTES" },
    { "slice", 0, 0, G_OPTION_ARG_NONE, &o.slice, "One rank alone; communication is priced", NULL },
    { "dry-run", 0, 0, G_OPTION_ARG_NONE, &o.dry_run, "Say what would run, run nothing", NULL },
    { "sbatch", 0, 0, G_OPTION_ARG_NONE, &o.sbatch, "Print a Slurm script, run nothing", NULL },
    { "update", 0, 0, G_OPTION_ARG_NONE, &o.update, "Refit this node's calibration with the run",
      NULL },
    G_OPTION_ENTRY_NULL
  };
  g_auto (AppExecPlan) plan = { 0 };
  g_auto (GStrv) command = cli_command_line (argc, argv);

  if (!cli_parse (verb, argc, argv, entries, 0, 1, &common, &o.plan, &code))
    return code;
  if (!check_update (&o, &common, &error) || !find_plan (&o, &common, &plan, &error)
      || !make_request (&o, &common, &plan, &request, &error))
    return cli_fail (&common, error);
  request.argv = (const char *const *)command;
  request.dry_run |= o.sbatch; /* what cannot run is refused all the same */
  result = app_exec (&request, &error);
  if (result == NULL)
    return cli_fail (&common, error);
  if (result->is_silent)
    return CLI_DONE;
  if (result->note != NULL && !common.quiet)
    fprintf (stderr, "plait: %s\n", result->note);
  if (o.sbatch)
    cli_exec_print_sbatch (request.argv, request.ranks);
  else if (common.json)
    print_json (&request, result);
  else
    print_text (&request, result);
  if (request.verify && result->has_result && !result->result.verdict.passed)
    return CLI_NO;
  return o.update ? update (&request, &common) : CLI_DONE;
}

const CliVerb cli_exec = {
  .name = "exec",
  .arguments = "PLAN | --model MODEL --ranks N [--layout LAYOUT] [--verify]",
  .summary
  = "Run one layout, or a stored plan, for real, prove it right, compare with its prediction",
  .description
  = "Starts one process per rank through mpirun (or takes its place under mpirun, srun or\n"
    "torchrun --no-python), runs "
    "training steps and prints predicted and measured time by kind of op, and peak "
    "memory.\n"
    "--verify compares gradients and weights with one rank alone; exit code 1 when they differ.",
  .run = run,
};
