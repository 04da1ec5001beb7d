/* cli/sensitivity.c - see sensitivity.h. */
#include "cli/sensitivity.h"

#include "base/units.h"
#include "cli/plan_json.h"
#include "cli/plan_text.h"

void
cli_sensitivity_print (const GArray *rows)
{
  g_autoptr (CliTable) table = cli_table_new ();

  puts ("What limits it: the same layout with 10 % more of one resource");
  cli_table_column (table, "resource", CLI_LEFT);
  cli_table_column (table, "step", CLI_RIGHT);
  cli_table_column (table, "saved", CLI_RIGHT);
  cli_table_column (table, "OOM risk", CLI_RIGHT);
  for (guint i = 0; i < rows->len; i++) {
    const AppSensitivity *row = &g_array_index (rows, AppSensitivity, i);

    cli_table_row (table);
    cli_table_cell (table, "%s", row->resource);
    cli_table_cell_owned (table, base_units_format_seconds (row->step_s));
    cli_table_cell (table, "%.2f %%", 100 * row->saved_ratio);
    cli_table_cell_owned (table, cli_format_risk (row->oom_risk));
  }
  cli_table_print (table, stdout, FALSE);
}

static void
add_double (JsonBuilder *builder, const char *name, double value)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_double_value (builder, value);
}

void
cli_sensitivity_json (JsonBuilder *builder, const GArray *rows)
{
  json_builder_begin_array (builder);
  for (guint i = 0; i < rows->len; i++) {
    const AppSensitivity *row = &g_array_index (rows, AppSensitivity, i);

    json_builder_begin_object (builder);
    cli_json_text (builder, "resource", row->resource);
    add_double (builder, "more_ratio", 0.1);
    add_double (builder, "step_s", row->step_s);
    add_double (builder, "saved_ratio", row->saved_ratio);
    add_double (builder, "oom_risk", row->oom_risk);
    json_builder_end_object (builder);
  }
  json_builder_end_array (builder);
}
