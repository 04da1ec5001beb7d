/* cli/calibrate_node.c - see the header. */
#include "cli/calibrate_node.h"

#include "base/units.h"
#include "cli/plan_json.h"

#include <math.h>
#include <string.h>

static void
json_values (JsonBuilder *b, const GArray *values)
{
  json_builder_set_member_name (b, "parameters");
  json_builder_begin_array (b);
  for (guint i = 0; i < values->len; i++) {
    const AppNodeValue *v = &g_array_index (values, AppNodeValue, i);
    g_autofree char *name = g_strdup_printf ("%s: %s", v->group, v->key);
    json_builder_begin_object (b);
    cli_json_text (b, "name", name);
    cli_json_number (b, "value", v->value);
    cli_json_text (b, "unit", v->unit);
    cli_json_number (b, "sd", v->spread);
    cli_json_number (b, "prior", v->base_value);
    cli_json_number (b, "prior_sd", v->base_spread);
    cli_json_text (b, "source", v->provenance);
    cli_json_count (b, "points", v->n_points);
    json_builder_end_object (b);
  }
  json_builder_end_array (b);
}

static void
json_errors (JsonBuilder *b, const GArray *errors)
{
  json_builder_set_member_name (b, "errors");
  json_builder_begin_array (b);
  for (guint i = 0; i < errors->len; i++) {
    const AppNodeErrors *e = &g_array_index (errors, AppNodeErrors, i);
    json_builder_begin_object (b);
    cli_json_text (b, "kind", e->kind);
    cli_json_count (b, "n", e->n);
    cli_json_number (b, "median_abs_err", e->median_abs_err);
    cli_json_number (b, "prior_median_abs_err", e->base_median_abs_err);
    json_builder_end_object (b);
  }
  json_builder_end_array (b);
}

static void
json_resident (JsonBuilder *b, const guint64 *bytes)
{
  json_builder_set_member_name (b, "resident_bytes");
  json_builder_begin_object (b);
  cli_json_count (b, "context", bytes[EXEC_RESIDENT_CONTEXT]);
  cli_json_count (b, "communicator", bytes[EXEC_RESIDENT_COMMUNICATOR]);
  cli_json_count (b, "workspace", bytes[EXEC_RESIDENT_WORKSPACE]);
  json_builder_end_object (b);
}

static void
print_json (const AppNodeCalibration *c, gboolean measured)
{
  g_autoptr (JsonBuilder) b = json_builder_new ();
  json_builder_begin_object (b);
  cli_json_text (b, "name", c->name);
  cli_json_text (b, "base", c->base);
  cli_json_text (b, "backend", c->backend != NULL ? c->backend : "");
  cli_json_count (b, "ranks", c->ranks);
  if (measured) {
    json_builder_set_member_name (b, "benchmarks");
    json_builder_begin_object (b);
    cli_json_count (b, "all", c->n_benchmarks);
    cli_json_count (b, "known", c->n_known);
    cli_json_count (b, "measured", c->n_measured);
    cli_json_count (b, "without_result", c->n_without_result);
    json_builder_end_object (b);
    cli_json_count (b, "exec_runs", c->n_exec_runs);
    if (c->resident_bytes[EXEC_RESIDENT_CONTEXT] > 0)
      json_resident (b, c->resident_bytes);
  }
  cli_json_count (b, "points", c->n_points);
  cli_json_number (b, "sigma", c->sigma);
  json_errors (b, c->errors);
  json_values (b, c->values);
  json_builder_set_member_name (b, "warnings");
  json_builder_begin_array (b);
  for (guint i = 0; i < c->warnings->len; i++)
    json_builder_add_string_value (b, g_ptr_array_index (c->warnings, i));
  json_builder_end_array (b);
  json_builder_end_object (b);
  cli_json_print (b);
}

/* "2.1 us", "0.35", "17 MiB". (owned) */
static char *
value_text (double value, const char *unit)
{
  if (!isfinite (value))
    return g_strdup ("-");
  if (g_str_equal (unit, "s"))
    return g_strdup_printf ("%.4g us", value * 1e6);
  if (g_str_equal (unit, "B"))
    return g_strdup_printf ("%.4g MiB", value / 1048576);
  return g_strdup_printf ("%.4g", value);
}

static void
percent_cell (CliTable *table, double ratio)
{
  if (isfinite (ratio))
    cli_table_cell (table, "%.1f", 100 * ratio);
  else
    cli_table_cell (table, "-");
}

static void
print_values (const GArray *values, const CliCommon *common)
{
  static const char *const headers[]
      = { "NUMBER", "VALUE", "SD %", "BEFORE", "SD %", "POINTS", "FROM" };
  g_autoptr (CliTable) table = cli_table_new ();
  for (guint i = 0; i < G_N_ELEMENTS (headers); i++)
    cli_table_column (table, headers[i], i == 0 || i == 6 ? CLI_LEFT : CLI_RIGHT);
  for (guint i = 0; i < values->len; i++) {
    const AppNodeValue *v = &g_array_index (values, AppNodeValue, i);
    cli_table_row (table);
    cli_table_cell (table, "%s: %s", v->group, v->key);
    cli_table_cell_owned (table, value_text (v->value, v->unit));
    percent_cell (table, v->spread);
    cli_table_cell_owned (table, value_text (v->base_value, v->unit));
    percent_cell (table, v->base_spread);
    cli_table_cell (table, "%" G_GUINT64_FORMAT, v->n_points);
    cli_table_cell (table, "%s", v->provenance);
  }
  cli_table_print (table, stdout, common->csv);
}

static void
print_errors (const GArray *errors)
{
  static const char *const headers[] = { "FITTED", "N", "MEDIAN ERROR %", "BEFORE %" };
  g_autoptr (CliTable) table = cli_table_new ();
  for (guint i = 0; i < G_N_ELEMENTS (headers); i++)
    cli_table_column (table, headers[i], i == 0 ? CLI_LEFT : CLI_RIGHT);
  for (guint i = 0; i < errors->len; i++) {
    const AppNodeErrors *e = &g_array_index (errors, AppNodeErrors, i);
    cli_table_row (table);
    cli_table_cell (table, "%s", e->kind);
    cli_table_cell (table, "%u", e->n);
    percent_cell (table, e->median_abs_err);
    percent_cell (table, e->base_median_abs_err);
  }
  cli_table_print (table, stdout, FALSE);
}

void
cli_print_node_calibration (const AppNodeCalibration *c, const CliCommon *common)
{
  if (common->csv) {
    print_values (c->values, common);
    return;
  }
  print_errors (c->errors);
  puts ("");
  print_values (c->values, common);
  if (isfinite (c->sigma))
    printf ("steps not seen are predicted within %.0f %% (one standard deviation)\n",
            100 * c->sigma);
  for (guint i = 0; i < c->warnings->len; i++)
    printf ("warning: %s\n", (char *)g_ptr_array_index (c->warnings, i));
}

static void
show_progress (guint done, guint all, double left_s, const char *what, gpointer user_data)
{
  g_autofree char *text = g_strdup_printf ("%.0f s left, %s", left_s, what);
  cli_progress (text, done, all);
}

CliExit
cli_calibrate_node (const AppCalibrateNodeRequest *asked, const CliCommon *common)
{
  g_autoptr (GError) error = NULL;
  AppCalibrateNodeRequest request = *asked;
  request.progress = show_progress;
  g_autoptr (AppNodeCalibration) c = app_calibrate_node (&request, &error);
  cli_progress_end ();
  if (c == NULL)
    return cli_fail (common, error);
  if (c->is_silent)
    return CLI_DONE;
  if (common->json) {
    print_json (c, TRUE);
    return CLI_DONE;
  }
  if (!common->csv) {
    printf ("calibration '%s': %u of %u benchmarks (%u now, in %.0f s", c->name,
            c->n_known + c->n_measured, c->n_benchmarks, c->n_measured, c->measuring_s);
    if (c->n_without_result > 0)
      printf ("; %u do not fit", c->n_without_result);
    printf (") and %u runs of exec, around '%s'\n\n", c->n_exec_runs, c->base);
  }
  cli_print_node_calibration (c, common);
  if (!common->csv && c->resident_bytes[EXEC_RESIDENT_CONTEXT] > 0)
    printf (
        "resident beside a model: context %.0f MiB, communicators %.0f MiB, workspace %.0f MiB\n",
        (double)c->resident_bytes[EXEC_RESIDENT_CONTEXT] / 1048576,
        (double)c->resident_bytes[EXEC_RESIDENT_COMMUNICATOR] / 1048576,
        (double)c->resident_bytes[EXEC_RESIDENT_WORKSPACE] / 1048576);
  return CLI_DONE;
}

CliExit
cli_calibrate_show (const char *name, const CliCommon *common)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (AppNodeCalibration) c = app_calibrate_show (cli_db_path (common), name, &error);
  if (c == NULL)
    return cli_fail (common, error);
  if (common->json) {
    print_json (c, FALSE);
    return CLI_DONE;
  }
  if (!common->csv)
    printf ("calibration '%s': %s\nversions: %s\n\n", c->name, c->base,
            c->versions != NULL && *c->versions != '\0' ? c->versions : "-");
  cli_print_node_calibration (c, common);
  return CLI_DONE;
}

static void
json_changes (const GArray *changes, const char *a, const char *b)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_object (builder);
  cli_json_text (builder, "a", a);
  cli_json_text (builder, "b", b);
  json_builder_set_member_name (builder, "changes");
  json_builder_begin_array (builder);
  for (guint i = 0; i < changes->len; i++) {
    const AppNodeChange *c = &g_array_index (changes, AppNodeChange, i);
    g_autofree char *name = g_strdup_printf ("%s: %s", c->group, c->key);
    json_builder_begin_object (builder);
    cli_json_text (builder, "name", name);
    cli_json_text (builder, "unit", c->unit);
    cli_json_number (builder, "a", c->values[0]);
    cli_json_number (builder, "b", c->values[1]);
    cli_json_number (builder, "ratio", c->values[1] / c->values[0]);
    cli_json_number (builder, "change_sd", c->change_sd);
    json_builder_end_object (builder);
  }
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  cli_json_print (builder);
}

CliExit
cli_calibrate_compare (const char *a, const char *b, const CliCommon *common)
{
  static const char *const headers[] = { "NUMBER", "A", "B", "CHANGE %", "IN SD" };
  g_autoptr (GError) error = NULL;
  g_autoptr (GArray) changes = app_calibrate_compare (cli_db_path (common), a, b, &error);
  g_autoptr (CliTable) table = cli_table_new ();
  if (changes == NULL)
    return cli_fail (common, error);
  if (common->json) {
    json_changes (changes, a, b);
    return CLI_DONE;
  }
  for (guint i = 0; i < G_N_ELEMENTS (headers); i++)
    cli_table_column (table, headers[i], i == 0 ? CLI_LEFT : CLI_RIGHT);
  for (guint i = 0; i < changes->len; i++) {
    const AppNodeChange *c = &g_array_index (changes, AppNodeChange, i);
    cli_table_row (table);
    cli_table_cell (table, "%s: %s", c->group, c->key);
    cli_table_cell_owned (table, value_text (c->values[0], c->unit));
    cli_table_cell_owned (table, value_text (c->values[1], c->unit));
    percent_cell (table, c->values[1] / c->values[0] - 1);
    cli_table_cell_owned (table, value_text (c->change_sd, ""));
  }
  if (!common->csv)
    printf ("A: %s\nB: %s\n", a, b);
  cli_table_print (table, stdout, common->csv);
  return CLI_DONE;
}
