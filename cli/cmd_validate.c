/* cli/cmd_validate.c - plait validate: predictions against measured runs. */
#include "cli/cli.h"
#include "cli/collectives_json.h"
#include "cli/gemm_json.h"
#include "cli/plan_json.h"
#include "cli/validate_json.h"

typedef struct {
  char *phase, *by, *crash_labels, *calibration, *mem_kind, *mem_scope, *worst;
  gboolean residuals, collectives, gemm;
} Options;

static void
options_clear (Options *o)
{
  char **all[] = { &o->phase,    &o->by,        &o->crash_labels, &o->calibration,
                   &o->mem_kind, &o->mem_scope, &o->worst };

  for (gsize i = 0; i < G_N_ELEMENTS (all); i++)
    g_clear_pointer (all[i], g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

/* NULL text is fine; else it must be one of @words (NULL-terminated). */
static gboolean
check_word (const char *option, const char *text, const char *const *words, GError **error)
{
  g_autofree char *list = g_strjoinv (", ", (char **)words);

  if (text == NULL || g_strv_contains (words, text))
    return TRUE;
  g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE, "%s is '%s': expected one of %s", option, text,
               list);
  return FALSE;
}

static gboolean
check_words (const Options *o, GError **error)
{
  static const char *const phases[] = { "train", "prefill", "decode", NULL };
  static const char *const kinds[] = { "allocated", "reserved", "driver", NULL };
  static const char *const scopes[] = { "fullest", "rank0", "last-rank", NULL };

  return check_word ("--phase", o->phase, phases, error)
         && check_word ("--mem-kind", o->mem_kind, kinds, error)
         && check_word ("--mem-scope", o->mem_scope, scopes, error);
}

/* "family,gpu" as a list without blanks, empty names or repetitions. */
static char **
parse_by (const char *text, GError **error)
{
  g_auto (GStrv) names = g_strsplit (text != NULL ? text : "family", ",", -1);

  for (guint i = 0; names[i] != NULL; i++) {
    g_strstrip (names[i]);
    gboolean repeated = FALSE;
    for (guint j = 0; j < i; j++)
      repeated |= g_str_equal (names[i], names[j]);
    if (*names[i] != '\0' && !repeated)
      continue;
    g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE,
                 "--by: %s name in '%s': expected different columns, as in family,gpu",
                 repeated ? "a repeated" : "an empty", text);
    return NULL;
  }
  return g_steal_pointer (&names);
}

static void
progress (const char *what, guint64 done, guint64 total, gpointer unused)
{
  cli_progress (what, done, total);
}

static CliExit
answer (const AppValidation *validation, const Options *o, guint64 n_worst, const CliCommon *common)
{
  if (common->json) {
    g_autoptr (JsonBuilder) builder = json_builder_new ();

    json_builder_begin_object (builder);
    cli_json_validation (builder, validation, o->residuals);
    json_builder_end_object (builder);
    cli_json_print (builder);
  } else
    cli_print_validation (validation, (guint)n_worst, common);
  return CLI_DONE;
}

static CliExit
run (const CliVerb *verb, int argc, char **argv)
{
  g_auto (Options) o = { 0 };
  g_auto (CliCommon) common = { 0 };
  g_auto (GStrv) files = NULL;
  g_auto (GStrv) by = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (AppValidation) validation = NULL;
  AppValidateRequest request = { 0 };
  guint64 n_worst = 10;
  CliExit code = CLI_DONE;
  const GOptionEntry entries[]
      = { { "phase", 0, 0, G_OPTION_ARG_STRING, &o.phase, "Rows of this phase only", "PHASE" },
          { "by", 0, 0, G_OPTION_ARG_STRING, &o.by, "Columns to group by (family)", "COLUMN,…" },
          { "residuals", 0, 0, G_OPTION_ARG_NONE, &o.residuals, "With --json: every row", NULL },
          { "crash-labels", 0, 0, G_OPTION_ARG_FILENAME, &o.crash_labels,
            "Rows that crashed, to judge the risk by", "FILE" },
          { "calibration", 0, 0, G_OPTION_ARG_STRING, &o.calibration, "Calibration (default)",
            "NAME" },
          { "mem-kind", 0, 0, G_OPTION_ARG_STRING, &o.mem_kind,
            "What rows measured that leave mem_kind empty", "KIND" },
          { "mem-scope", 0, 0, G_OPTION_ARG_STRING, &o.mem_scope,
            "Where rows measured that leave mem_scope empty", "SCOPE" },
          { "collectives", 0, 0, G_OPTION_ARG_NONE, &o.collectives,
            "FILE holds nccl-tests figures instead of runs", NULL },
          { "gemm", 0, 0, G_OPTION_ARG_NONE, &o.gemm,
            "FILE or folder holds times of single kernels instead of runs", NULL },
          { "worst", 0, 0, G_OPTION_ARG_STRING, &o.worst, "Worst rows to show (10)", "N" },
          G_OPTION_ENTRY_NULL };

  if (!cli_parse (verb, argc, argv, entries, 1, 64, &common, &files, &code))
    return code;
  if (o.collectives && o.gemm) {
    error = g_error_new (CLI_ERROR, CLI_ERROR_USAGE,
                         "--collectives and --gemm name two kinds of files: give one");
    return cli_fail (&common, error);
  }
  if (o.gemm)
    return cli_validate_gemm (&common, o.calibration, (const char *const *)files, o.residuals);
  if (o.collectives)
    return cli_validate_collectives (&common, o.calibration, (const char *const *)files,
                                     o.residuals);
  by = check_words (&o, &error) ? parse_by (o.by, &error) : NULL;
  if (by == NULL || !cli_count ("--worst", o.worst, 0, 100000, &n_worst, &error))
    return cli_fail (&common, error);
  request = (AppValidateRequest){ .catalog_dir = common.catalog,
                                  .calibration = o.calibration,
                                  .db_path = cli_db_path (&common),
                                  .files = (const char *const *)files,
                                  .phase = o.phase,
                                  .by = (const char *const *)by,
                                  .crash_labels = o.crash_labels,
                                  .mem_kind = o.mem_kind,
                                  .mem_scope = o.mem_scope,
                                  .progress = progress,
                                  .cancelled = cli_interrupted };
  cli_catch_interrupt ();
  validation = app_validate (&request, &error);
  cli_progress_end ();
  if (validation != NULL && !common.quiet)
    cli_print_hints (validation);
  if (validation == NULL
      || (common.db != NULL && !app_validation_store (validation, &request, common.db, &error)))
    return cli_fail (&common, error);
  return answer (validation, &o, n_worst, &common);
}

const CliVerb cli_validate = {
  .name = "validate",
  .arguments = "[--collectives] FILE… [--by COLUMN,…] [--residuals]",
  .summary = "Predict every row of measured runs and report how far off the predictions are",
  .description
  = "FILE is a CSV with a row per run: model, GPU, layout and what was measured; a folder\n"
    "stands for the *.csv in it, as catalog/validation, the published figures.\n"
    "Error = predicted / measured - 1. Rows that cannot be predicted are counted by\n"
    "reason; fields that a row leaves empty are filled from its framework's profile\n"
    "and counted too. With --db every prediction is stored: see table validation and view\n"
    "accuracy.",
  .run = run,
};
