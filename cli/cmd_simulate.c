/* cli/cmd_simulate.c - plait simulate: one plan, event by event. */
#include "app/simulate.h"
#include "cli/cli.h"
#include "cli/simulate_output.h"

typedef struct {
  char *model, *machine, *gpu, *what_if, *profile, *calibration, *layout;
  char *gpus, *global_batch, *seq, *dropout;
  char *straggler, *jitter, *runs, *seed, *trace;
  gboolean full, no_contention;
} Options;

static void
options_clear (Options *o)
{
  char **all[]
      = { &o->model, &o->machine, &o->gpu,     &o->profile,      &o->calibration, &o->layout,
          &o->gpus,  &o->seq,     &o->dropout, &o->global_batch, &o->straggler,   &o->jitter,
          &o->runs,  &o->seed,    &o->trace,   &o->what_if };

  for (gsize i = 0; i < G_N_ELEMENTS (all); i++)
    g_clear_pointer (all[i], g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

static gboolean
ask_plan (const Options *o, const CliCommon *common, const char *plan, AppSimulateRequest *request,
          GError **error)
{
  double dropout = -1;

  if (plan == NULL
      && (!cli_require ("--model", o->model, "llama-3.1-70b", error)
          || !cli_require ("--machine", o->machine, "hgx-h100", error)
          || !cli_require ("--gpus", o->gpus, "64", error)))
    return FALSE;
  if (!cli_count ("--gpus", o->gpus, 1, 1u << 24, &request->gpus, error)
      || !cli_count ("--global-batch", o->global_batch, 1, 1u << 30, &request->global_batch, error)
      || !cli_count ("--seq", o->seq, 1, 1u << 30, &request->seq, error)
      || !cli_ratio ("--dropout", o->dropout, &dropout, error))
    return FALSE;
  request->plan = plan;
  request->db_path = cli_db_path (common);
  request->layout = o->layout;
  request->inputs = (AppInputs){ .catalog_dir = common->catalog,
                                 .db_path = plan != NULL ? cli_db_path (common) : common->db,
                                 .model = o->model,
                                 .machine = o->machine,
                                 .gpu = o->gpu,
                                 .what_if = o->what_if,
                                 .profile = o->profile,
                                 .calibration = o->calibration,
                                 .live_ranks = (guint32)MIN (request->gpus, G_MAXUINT32),
                                 .dropout = dropout };
  return TRUE;
}

static void
show_progress (guint64 done, guint64 total, gpointer unused)
{
  (void)unused;
  cli_progress ("simulate", done, total);
}

static gboolean
ask_disturbance (const Options *o, AppSimulateRequest *request, GError **error)
{
  guint64 runs = 1, seed = 0;

  if (!cli_ratio ("--jitter", o->jitter, &request->jitter_ratio, error)
      || !cli_count ("--runs", o->runs, 1, 1000000, &runs, error)
      || !cli_count ("--seed", o->seed, 0, G_MAXINT64, &seed, error))
    return FALSE;
  if (runs > 1 && !(request->jitter_ratio > 0)) {
    g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE,
                 "--runs: %" G_GUINT64_FORMAT " runs of a step without --jitter are all the same: "
                 "add --jitter 3%%",
                 runs);
    return FALSE;
  }
  request->stragglers = o->straggler;
  request->runs = (guint)runs;
  request->seed = seed;
  request->full = o->full;
  request->ideal = o->no_contention;
  request->trace_path = o->trace;
  request->cancelled = cli_interrupted;
  request->progress = show_progress;
  return TRUE;
}

static CliExit
output (const AppSimulateResult *result, const AppSimulateRequest *request, const CliCommon *common)
{
  if (common->json)
    cli_simulate_json (result, request);
  else if (common->csv)
    cli_simulate_csv (result);
  else
    cli_simulate_text (result, request, common);
  if (!result->interrupted)
    return CLI_DONE;
  fprintf (stderr, "plait: interrupted: %u of %u runs are in the distribution\n", result->runs,
           request->runs);
  return CLI_NO;
}

static CliExit
run (const CliVerb *verb, int argc, char **argv)
{
  g_auto (Options) o = { 0 };
  g_auto (CliCommon) common = { 0 };
  g_auto (GStrv) rest = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (AppSimulateResult) result = NULL;
  AppSimulateRequest request = { 0 };
  CliExit code = CLI_DONE;
  const GOptionEntry entries[] = {
    { "model", 0, 0, G_OPTION_ARG_STRING, &o.model, "Model: slug or file", "MODEL" },
    { "machine", 0, 0, G_OPTION_ARG_STRING, &o.machine, "Machine: slug or file", "MACHINE" },
    { "gpu", 0, 0, G_OPTION_ARG_STRING, &o.gpu, "Replace the machine's GPU", "GPU" },
    { "what-if", 0, 0, G_OPTION_ARG_STRING, &o.what_if,
      "Change the machine: flops hbm hbm_bw nvlink nic price, e.g. nvlink=+50%,nic=800Gb/s",
      "CHANGES" },
    { "gpus", 0, 0, G_OPTION_ARG_STRING, &o.gpus, "Number of GPUs", "N" },
    { "global-batch", 0, 0, G_OPTION_ARG_STRING, &o.global_batch, "Sequences per step", "N" },
    { "seq", 0, 0, G_OPTION_ARG_STRING, &o.seq, "Tokens per sequence", "N" },
    { "profile", 0, 0, G_OPTION_ARG_STRING, &o.profile, "Framework profile (megatron)", "PROFILE" },
    { "calibration", 0, 0, G_OPTION_ARG_STRING, &o.calibration, "Calibration (default)", "NAME" },
    { "layout", 0, 0, G_OPTION_ARG_STRING, &o.layout, "Layout, for example tp=8,pp=2,mbs=1",
      "LAYOUT" },
    { "dropout", 0, 0, G_OPTION_ARG_STRING, &o.dropout, "Dropout instead of the model's", "RATIO" },
    { "full", 0, 0, G_OPTION_ARG_NONE, &o.full, "Play every rank, not one for all alike", NULL },
    { "no-contention", 0, 0, G_OPTION_ARG_NONE, &o.no_contention,
      "Links, streams and SMs are shared without loss", NULL },
    { "straggler", 0, 0, G_OPTION_ARG_STRING, &o.straggler,
      "Slow ranks: rank=7,slow=1.3, several with ';'", "LIST" },
    { "jitter", 0, 0, G_OPTION_ARG_STRING, &o.jitter,
      "Standard deviation of a pass's compute time, for example 3%", "RATIO" },
    { "runs", 0, 0, G_OPTION_ARG_STRING, &o.runs, "Runs with jitter (1)", "N" },
    { "seed", 0, 0, G_OPTION_ARG_STRING, &o.seed, "Of the jitter (0)", "N" },
    { "trace", 0, 0, G_OPTION_ARG_STRING, &o.trace, "Write the first run as Chrome trace JSON",
      "FILE" },
    G_OPTION_ENTRY_NULL
  };

  if (!cli_parse (verb, argc, argv, entries, 0, 1, &common, &rest, &code))
    return code;
  if (!ask_plan (&o, &common, rest != NULL ? rest[0] : NULL, &request, &error)
      || !ask_disturbance (&o, &request, &error))
    return cli_fail (&common, error);
  cli_catch_interrupt ();
  result = app_simulate (&request, &error);
  cli_progress_end ();
  if (result == NULL)
    return cli_fail (&common, error);
  return output (result, &request, &common);
}

const CliVerb cli_simulate = {
  .name = "simulate",
  .arguments = "PLAN | --model MODEL --machine MACHINE --gpus N [--layout LAYOUT]",
  .summary = "Play one step of a plan event by event: contention, stragglers, critical path, trace",
  .description
  = "PLAN is a plan id or 'best', as in 'plait show'; options given beside it replace what the\n"
    "plan was made for. Every rank has a compute stream and communication streams; traffic that\n"
    "meets on a link shares it. Ranks that behave alike are played once; --full plays them all.\n"
    "Nothing is stored. --trace writes a file for Perfetto (ui.perfetto.dev).",
  .run = run,
};
