/* cli/cmd_predict.c - plait predict: one layout, one prediction. */
#include "app/fixes.h"
#include "cli/cli.h"
#include "cli/plan_text.h"

typedef struct {
  char *model, *machine, *gpu, *what_if, *profile, *calibration, *layout;
  char *gpus, *global_batch, *seq, *dropout;
} Options;

static void
options_clear (Options *o)
{
  char **all[] = { &o->what_if, &o->model, &o->machine,      &o->gpu, &o->profile, &o->calibration,
                   &o->layout,  &o->gpus,  &o->global_batch, &o->seq, &o->dropout };

  for (gsize i = 0; i < G_N_ELEMENTS (all); i++)
    g_clear_pointer (all[i], g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

static gboolean
make_request (const Options *o, const CliCommon *common, AppPredictRequest *request, GError **error)
{
  double dropout = -1;

  if (!cli_require ("--model", o->model, "llama-3.1-70b", error)
      || !cli_require ("--machine", o->machine, "hgx-h100", error)
      || !cli_require ("--gpus", o->gpus, "64", error)
      || !cli_count ("--gpus", o->gpus, 1, 1u << 24, &request->gpus, error)
      || !cli_count ("--global-batch", o->global_batch, 1, 1u << 30, &request->global_batch, error)
      || !cli_count ("--seq", o->seq, 1, 1u << 30, &request->seq, error)
      || !cli_ratio ("--dropout", o->dropout, &dropout, error))
    return FALSE;
  request->layout = o->layout;
  request->inputs = (AppInputs){
    .catalog_dir = common->catalog,
    .model = o->model,
    .machine = o->machine,
    .gpu = o->gpu,
    .what_if = o->what_if,
    .profile = o->profile,
    .calibration = o->calibration,
    .db_path = common->db,
    .live_ranks = (guint32)MIN (request->gpus, G_MAXUINT32),
    .dropout = dropout,
  };
  return TRUE;
}

static CliExit
run (const CliVerb *verb, int argc, char **argv)
{
  g_auto (Options) o = { 0 };
  g_auto (CliCommon) common = { 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (DbPlan) plan = NULL;
  g_autoptr (GPtrArray) fixes = NULL;
  AppPredictRequest request = { 0 };
  gboolean with_fixes = FALSE;
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
    { "fixes", 0, 0, G_OPTION_ARG_NONE, &with_fixes,
      "With --json: also what lowers the memory risk", NULL },
    G_OPTION_ENTRY_NULL
  };

  if (!cli_parse (verb, argc, argv, entries, 0, 0, &common, NULL, &code))
    return code;
  if (!make_request (&o, &common, &request, &error))
    return cli_fail (&common, error);
  plan = app_predict (&request, &error);
  if (plan == NULL || (common.db != NULL && !app_predict_store (&request, plan, common.db, &error)))
    return cli_fail (&common, error);
  if (with_fixes || (!common.csv && !common.json))
    fixes = app_fixes (&request, NULL);
  cli_output_plan (plan, fixes, &common);
  return plan->plan.prediction.fits ? CLI_DONE : CLI_NO;
}

const CliVerb cli_predict = {
  .name = "predict",
  .arguments = "--model MODEL --machine MACHINE --gpus N [--layout LAYOUT]",
  .summary = "Predict one layout: step time, memory by component and stage, OOM risk",
  .description = "Prints the answer also where the layout does not fit; the exit code is then 1.\n"
                 "Nothing is stored unless --db is given.",
  .run = run,
};
