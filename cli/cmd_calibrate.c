/* cli/cmd_calibrate.c - plait calibrate: fit the numbers of the cost model. */
#include "app/calibrate.h"
#include "app/calibrate_collectives.h"
#include "app/calibrate_gemm.h"
#include "base/catalog.h"
#include "base/suggest.h"
#include "base/units.h"
#include "cli/calibrate_node.h"
#include "cli/cli.h"
#include "cli/collectives_json.h"
#include "cli/gemm_json.h"
#include "cli/plan_json.h"
#include "cli/validate_json.h"

#include <math.h>
#include <string.h>

typedef struct {
  char **from_runs, **from_collectives, **gemm;
  char **more; /* further files of collectives */
  char *cv, *base, *out, *name, *by;
  char *backend, *budget, *ranks, *machine, *timeout;
  gboolean few_shot, residuals, fresh, from_exec, show, compare;
} Options;

static void
options_clear (Options *o)
{
  char **all[] = { &o->cv,      &o->base,   &o->out,   &o->name,    &o->by,
                   &o->backend, &o->budget, &o->ranks, &o->machine, &o->timeout };

  for (gsize i = 0; i < G_N_ELEMENTS (all); i++)
    g_clear_pointer (all[i], g_free);
  g_clear_pointer (&o->from_runs, g_strfreev);
  g_clear_pointer (&o->from_collectives, g_strfreev);
  g_clear_pointer (&o->gemm, g_strfreev);
  g_clear_pointer (&o->more, g_strfreev);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

/* The words of --cv, each list in the order of its enum. */
static const char *const run_cvs[] = { "group", "family", "none", NULL };
static const char *const collective_cvs[] = { "none", "group", "machine", NULL };
static const char *const gemm_cvs[] = { "none", "shape", "gpu", NULL };

/* @otherwise where nothing is said. */
static gboolean
parse_cv (const char *text, const char *const *words, guint otherwise, guint *out, GError **error)
{
  gint index = text != NULL ? base_name_index (text, words) : (gint)otherwise;
  if (index < 0) {
    g_autofree char *expected = base_suggest_one_of (text, words);
    g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE, "--cv is '%s': expected %s here", text,
                 expected);
    return FALSE;
  }
  *out = (guint)index;
  return TRUE;
}

static void
add_parameters (JsonBuilder *builder, const GArray *parameters)
{
  json_builder_set_member_name (builder, "parameters");
  json_builder_begin_array (builder);
  for (guint i = 0; i < parameters->len; i++) {
    const AppFitted *fitted = &g_array_index (parameters, AppFitted, i);

    json_builder_begin_object (builder);
    cli_json_text (builder, "name", fitted->name);
    cli_json_number (builder, "value", fitted->value);
    cli_json_number (builder, "prior", fitted->prior);
    cli_json_number (builder, "sd", fitted->sd);
    cli_json_number (builder, "prior_sd", fitted->prior_sd);
    cli_json_text (builder, "source", fitted->source);
    json_builder_end_object (builder);
  }
  json_builder_end_array (builder);
}

static void
add_few_shot (JsonBuilder *builder, const GArray *few_shot)
{
  if (few_shot->len == 0)
    return;
  json_builder_set_member_name (builder, "few_shot");
  json_builder_begin_array (builder);
  for (guint i = 0; i < few_shot->len; i++) {
    const AppFewShot *result = &g_array_index (few_shot, AppFewShot, i);

    json_builder_begin_object (builder);
    cli_json_count (builder, "seen", result->seen);
    cli_json_count (builder, "n", result->step_time.n);
    cli_json_number (builder, "median_abs_err", result->step_time.median_abs_err);
    cli_json_number (builder, "mean_abs_err", result->step_time.mean_abs_err);
    json_builder_end_object (builder);
  }
  json_builder_end_array (builder);
}

/* "gemm": what is printed when there are products only. */
static void
add_gemm (JsonBuilder *builder, const AppGemmCalibration *gemm)
{
  json_builder_set_member_name (builder, "gemm");
  json_builder_begin_object (builder);
  cli_json_gemm (builder, gemm->validation, FALSE);
  add_parameters (builder, gemm->parameters);
  json_builder_end_object (builder);
}

static void
print_json (const AppCalibration *calibration, gboolean residuals)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  cli_json_validation (builder, calibration->validation, residuals);
  add_parameters (builder, calibration->parameters);
  add_few_shot (builder, calibration->few_shot);
  if (calibration->gemm != NULL)
    add_gemm (builder, calibration->gemm);
  json_builder_end_object (builder);
  cli_json_print (builder);
}

static void
print_parameters (const GArray *parameters)
{
  g_autoptr (CliTable) table = cli_table_new ();
  static const char *const headers[] = { "FITTED", "VALUE", "PRIOR", "PRIOR SD %", "SD %" };

  for (gsize i = 0; i < G_N_ELEMENTS (headers); i++)
    cli_table_column (table, headers[i], i == 0 ? CLI_LEFT : CLI_RIGHT);
  for (guint i = 0; i < parameters->len; i++) {
    const AppFitted *fitted = &g_array_index (parameters, AppFitted, i);

    cli_table_row (table);
    cli_table_cell (table, "%s", fitted->name);
    cli_table_cell (table, "%.4g", fitted->value);
    cli_table_cell (table, "%.4g", fitted->prior);
    cli_table_cell (table, "%.0f", 100 * fitted->prior_sd);
    cli_table_cell (table, "%.1f", 100 * fitted->sd);
  }
  cli_table_print (table, stdout, FALSE);
}

static void
print_text (const AppCalibration *calibration, const CliCommon *common)
{
  cli_print_validation (calibration->validation, 0, common);
  puts ("");
  print_parameters (calibration->parameters);
  if (calibration->gemm != NULL) {
    puts ("");
    cli_print_gemm (calibration->gemm->validation, common);
    puts ("");
    print_parameters (calibration->gemm->parameters);
  }
  for (guint i = 0; i < calibration->few_shot->len; i++) {
    const AppFewShot *result = &g_array_index (calibration->few_shot, AppFewShot, i);

    if (result->step_time.n == 0) {
      puts ("no family has 13 measured rows: none is left out and seen in part");
      break;
    }
    printf ("a left-out family after %2u of its rows: median %.1f %%, mean %.1f %% (%u rows)\n",
            result->seen, 100 * result->step_time.median_abs_err,
            100 * result->step_time.mean_abs_err, result->step_time.n);
  }
  if (calibration->written != NULL)
    printf ("written: %s\n", calibration->written);
  else
    printf ("stored in %s: see plait calibrate --show\n", cli_db_path (common));
}

static CliExit
fit (const Options *o, const CliCommon *common)
{
  g_auto (GStrv) by = g_strsplit (o->by != NULL ? o->by : "family", ",", -1);
  g_autoptr (GError) error = NULL;
  g_autoptr (AppCalibration) calibration = NULL;
  AppCalibrateRequest request = { .gemm = (const char *const *)o->gemm,
                                  .name = o->name,
                                  .out_dir = o->out,
                                  .db_path = o->out == NULL ? cli_db_path (common) : NULL,
                                  .few_shot = o->few_shot };

  request.validate = (AppValidateRequest){ .catalog_dir = common->catalog,
                                           .calibration = o->base,
                                           .db_path = cli_db_path (common),
                                           .files = (const char *const *)o->from_runs,
                                           .phase = "train",
                                           .by = (const char *const *)by };
  guint cv;

  if (!parse_cv (o->cv, run_cvs, APP_CV_GROUP, &cv, &error))
    return cli_fail (common, error);
  request.cv = (AppCv)cv;
  if (request.cv != APP_CV_NONE && (o->base == NULL || g_str_equal (o->base, "default"))
      && !common->quiet)
    fputs (
        "plait: note: 'default' was itself fitted to published runs; where these are among them, "
        "only --base prior shows errors of rows that nothing saw\n",
        stderr);
  calibration = app_calibrate_runs (&request, &error);
  if (calibration == NULL)
    return cli_fail (common, error);
  if (!common->quiet)
    cli_print_hints (calibration->validation);
  if (common->json)
    print_json (calibration, o->residuals);
  else
    print_text (calibration, common);
  return CLI_DONE;
}

/* ---- collectives ---- */

static void
print_collectives_json (const AppCollectiveCalibration *calibration, gboolean residuals)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  cli_json_collectives (builder, calibration->validation, residuals);
  add_parameters (builder, calibration->parameters);
  if (calibration->few_shot.n > 0) {
    json_builder_set_member_name (builder, "few_shot");
    json_builder_begin_object (builder);
    cli_json_count (builder, "seen", 3);
    cli_json_count (builder, "n", calibration->few_shot.n);
    cli_json_number (builder, "median_abs_err", calibration->few_shot.median_abs_err);
    cli_json_number (builder, "p90_abs_err", calibration->few_shot.p90_abs_err);
    json_builder_end_object (builder);
  }
  json_builder_end_object (builder);
  cli_json_print (builder);
}

static CliExit
fit_collectives (const Options *o, const CliCommon *common)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (AppCollectiveCalibration) calibration = NULL;
  g_autoptr (GPtrArray) files = g_ptr_array_new ();
  AppCalibrateCollectivesRequest request
      = { .catalog_dir = common->catalog,
          .base = o->base,
          .files = NULL,
          .few_shot = o->few_shot,
          .name = o->name,
          .out_dir = o->out,
          .db_path = o->out == NULL ? cli_db_path (common) : NULL };

  guint cv;

  if (!parse_cv (o->cv, collective_cvs, APP_COLLECTIVE_CV_NONE, &cv, &error))
    return cli_fail (common, error);
  request.cv = (AppCollectiveCv)cv;
  for (char **file = o->from_collectives; *file != NULL; file++)
    g_ptr_array_add (files, *file);
  for (char **file = o->more; *file != NULL; file++)
    g_ptr_array_add (files, *file);
  g_ptr_array_add (files, NULL);
  request.files = (const char *const *)files->pdata;
  calibration = app_calibrate_collectives (&request, &error);
  if (calibration == NULL)
    return cli_fail (common, error);
  if (common->json) {
    print_collectives_json (calibration, o->residuals);
    return CLI_DONE;
  }
  cli_print_collectives (calibration->validation, common);
  puts ("");
  print_parameters (calibration->parameters);
  if (calibration->few_shot.n > 0)
    printf ("a left-out log over domains after 3 points of one curve: median %.1f %% (%u rows)\n",
            100 * calibration->few_shot.median_abs_err, calibration->few_shot.n);
  if (calibration->written != NULL)
    printf ("written: %s\n", calibration->written);
  else
    printf ("stored in %s: see plait calibrate --show\n", cli_db_path (common));
  return CLI_DONE;
}

/* ---- matrix products ---- */

static void
print_gemm_json (const AppGemmCalibration *calibration, gboolean residuals)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  cli_json_gemm (builder, calibration->validation, residuals);
  add_parameters (builder, calibration->parameters);
  json_builder_set_member_name (builder, "only_of_its_generation");
  json_builder_begin_array (builder);
  for (guint i = 0; i < calibration->alone->len; i++)
    json_builder_add_string_value (builder, g_ptr_array_index (calibration->alone, i));
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  cli_json_print (builder);
}

static CliExit
fit_gemm (const Options *o, const CliCommon *common)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (AppGemmCalibration) calibration = NULL;
  AppCalibrateGemmRequest request = { .catalog_dir = common->catalog,
                                      .base = o->base,
                                      .paths = (const char *const *)o->gemm,
                                      .name = o->name,
                                      .out_dir = o->out,
                                      .db_path = o->out == NULL ? cli_db_path (common) : NULL };

  guint cv;

  if (!parse_cv (o->cv, gemm_cvs, APP_GEMM_CV_SHAPE, &cv, &error))
    return cli_fail (common, error);
  request.cv = (AppGemmCv)cv;
  calibration = app_calibrate_gemm (&request, &error);
  if (calibration == NULL)
    return cli_fail (common, error);
  if (common->json) {
    print_gemm_json (calibration, o->residuals);
    return CLI_DONE;
  }
  cli_print_gemm (calibration->validation, common);
  if (common->csv)
    return CLI_DONE;
  for (guint i = 0; i < calibration->alone->len; i++)
    printf ("%s is the only one of its generation: predicted from other generations\n",
            (const char *)g_ptr_array_index (calibration->alone, i));
  puts ("");
  print_parameters (calibration->parameters);
  if (calibration->written != NULL)
    printf ("written: %s\n", calibration->written);
  else
    printf ("stored in %s: see plait calibrate --show\n", cli_db_path (common));
  return CLI_DONE;
}

/* ---- this node ---- */

static CliExit
measure (const Options *o, const CliCommon *common, const char *const *command)
{
  g_autoptr (GError) error = NULL;
  AppCalibrateNodeRequest request = { .catalog_dir = common->catalog,
                                      .db_path = cli_db_path (common),
                                      .backend = o->backend != NULL ? o->backend : "cpu",
                                      .machine = o->machine,
                                      .base = o->base,
                                      .name = o->name,
                                      .budget_s = 60,
                                      .fresh = o->fresh,
                                      .from_exec = o->from_exec,
                                      .timeout_s = 60,
                                      .argv = command };

  if (!cli_count ("--ranks", o->ranks, 1, 64, &request.ranks, &error)
      || (o->budget != NULL
          && !base_units_parse (o->budget, BASE_DIM_SECONDS, &request.budget_s, &error))
      || (o->timeout != NULL
          && !base_units_parse (o->timeout, BASE_DIM_SECONDS, &request.timeout_s, &error)))
    return cli_fail (common, error);
  if (!(request.budget_s > 0) || !(request.timeout_s > 0)) {
    error = g_error_new (CLI_ERROR, CLI_ERROR_USAGE,
                         "--budget and --timeout: expected more than 0 s");
    return cli_fail (common, error);
  }
  return cli_calibrate_node (&request, common);
}

/* ---- which of them ---- */

/* A name becomes a file's with --out, and what --calibration looks up first in the catalog else. */
static gboolean
check_name (const Options *o, const CliCommon *common, GError **error)
{
  g_autoptr (BaseCatalog) catalog = NULL;
  g_auto (GStrv) known = NULL;

  if (o->name == NULL)
    return TRUE;
  if (*o->name == '\0' || *o->name == '.' || strpbrk (o->name, "/\\") != NULL) {
    g_set_error (
        error, CLI_ERROR, CLI_ERROR_USAGE,
        "--name '%s': expected a word without '/' that does not begin with '.'; --out says "
        "in which folder",
        o->name);
    return FALSE;
  }
  if (o->out != NULL)
    return TRUE;
  catalog = base_catalog_new (common->catalog, error);
  if (catalog == NULL)
    return FALSE;
  known = base_catalog_list (catalog, "calibrations");
  if (!g_str_equal (o->name, "latest") && !g_strv_contains ((const char *const *)known, o->name))
    return TRUE;
  g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE,
               "--name '%s': has a meaning of its own; give another name", o->name);
  return FALSE;
}

static gboolean
check_forms (const Options *o, GError **error)
{
  guint forms = (o->from_runs != NULL || o->gemm != NULL) + (o->from_collectives != NULL)
                + (o->from_exec != 0) + (o->show != 0) + (o->compare != 0);
  guint n_more = g_strv_length (o->more);
  guint most = o->from_collectives != NULL ? G_MAXUINT : o->compare ? 2 : o->show ? 1 : 0;

  if (forms > 1)
    g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE,
                 "--from-runs (with --gemm or not), --from-collectives, --from-exec, --show and "
                 "--compare exclude each other: give one");
  else if (forms == 0 && o->backend == NULL)
    g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE,
                 "nothing to calibrate from: give --backend cpu to measure this node, --from-exec, "
                 "--from-runs FILE, --gemm DIR or --from-collectives FILE");
  else if (n_more > most)
    g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE, "too many arguments, from '%s' on",
                 o->more[most]);
  else if (o->compare && n_more < 2)
    g_set_error (error, CLI_ERROR, CLI_ERROR_USAGE,
                 "--compare: give the names of two calibrations");
  else
    return TRUE;
  return FALSE;
}

static CliExit
dispatch (const Options *o, const CliCommon *common, const char *const *command)
{
  if (o->from_collectives != NULL)
    return fit_collectives (o, common);
  if (o->from_runs != NULL)
    return fit (o, common);
  if (o->gemm != NULL)
    return fit_gemm (o, common);
  if (o->show)
    return cli_calibrate_show (o->more[0], common);
  if (o->compare)
    return cli_calibrate_compare (o->more[0], o->more[1], common);
  return measure (o, common, command);
}

static CliExit
run (const CliVerb *verb, int argc, char **argv)
{
  g_auto (Options) o = { 0 };
  g_auto (CliCommon) common = { 0 };
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) command = cli_command_line (argc, argv);
  CliExit code = CLI_DONE;
  const GOptionEntry entries[] = {
    { "backend", 0, 0, G_OPTION_ARG_STRING, &o.backend, "Measure this node with it (cpu)", "NAME" },
    { "budget", 0, 0, G_OPTION_ARG_STRING, &o.budget, "Time to measure (60s)", "TIME" },
    { "ranks", 0, 0, G_OPTION_ARG_STRING, &o.ranks, "Processes that measure together (GPUs, cores)",
      "N" },
    { "machine", 0, 0, G_OPTION_ARG_STRING, &o.machine, "What this node is (live)", "MACHINE" },
    { "fresh", 0, 0, G_OPTION_ARG_NONE, &o.fresh, "Measure anew what is known already", NULL },
    { "timeout", 0, 0, G_OPTION_ARG_STRING, &o.timeout, "Longest standstill (60s)", "TIME" },
    { "from-exec", 0, 0, G_OPTION_ARG_NONE, &o.from_exec,
      "Fit to the stored runs of exec and what was measured before", NULL },
    { "show", 0, 0, G_OPTION_ARG_NONE, &o.show, "Show a stored calibration (the latest)", NULL },
    { "compare", 0, 0, G_OPTION_ARG_NONE, &o.compare, "Two stored calibrations side by side",
      NULL },
    { "from-runs", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &o.from_runs, "Fit to these measured runs",
      "FILE" },
    { "from-collectives", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &o.from_collectives,
      "Fit to these nccl-tests figures", "FILE" },
    { "gemm", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &o.gemm,
      "Fit matrix products to these times, by themselves or before the runs", "DIR" },
    { "base", 0, 0, G_OPTION_ARG_STRING, &o.base, "Calibration to start from (default)", "NAME" },
    { "cv", 0, 0, G_OPTION_ARG_STRING, &o.cv,
      "By group, family or none (group); of collectives: group, machine, none (none); of products "
      "alone: shape, gpu, none (shape)",
      "HOW" },
    { "by", 0, 0, G_OPTION_ARG_STRING, &o.by, "Columns to report by (family)", "COLUMNS" },
    { "few-shot", 0, 0, G_OPTION_ARG_NONE, &o.few_shot,
      "Also a left-out family after 0, 3 and 10 of its rows", NULL },
    { "residuals", 0, 0, G_OPTION_ARG_NONE, &o.residuals, "With --json: every row", NULL },
    { "name", 0, 0, G_OPTION_ARG_STRING, &o.name, "Name of the new calibration", "NAME" },
    { "out", 0, 0, G_OPTION_ARG_FILENAME, &o.out,
      "Fits to files: write NAME.ini into this folder, store nothing", "DIR" },
    G_OPTION_ENTRY_NULL
  };

  if (!cli_parse (verb, argc, argv, entries, 0, 64, &common, &o.more, &code))
    return code;
  if (!check_forms (&o, &error) || !check_name (&o, &common, &error))
    return cli_fail (&common, error);
  return dispatch (&o, &common, (const char *const *)command);
}

const CliVerb cli_calibrate = {
  .name = "calibrate",
  .arguments = "--backend cpu | --from-exec | --show [NAME] | --compare A B | [--from-runs FILE] "
               "[--gemm DIR] | --from-collectives FILE…",
  .summary = "Measure this node, or fit measured runs: the numbers of the cost model",
  .description
  = "A maximum a posteriori fit around the base calibration, with its spreads as priors: a "
    "handful\n"
    "of your own measurements already helps. --backend measures for --budget, stores every\n"
    "measurement when it is done, and goes on where it stopped. With files, errors shown are of\n"
    "rows the fit did not see (--cv). 'plait plan --calibration latest' uses what was stored.",
  .run = run,
};
