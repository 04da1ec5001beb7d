/* cli/collectives_json.c - the collectives object of the contract, and the same as a table. */
#include "cli/collectives_json.h"

#include "cli/plan_json.h"
#include "cli/validate_json.h"

static const char *
band_name (gboolean is_large)
{
  return is_large ? ">=1MiB" : "<1MiB";
}

static void
add_groups (JsonBuilder *builder, const GArray *groups)
{
  json_builder_set_member_name (builder, "by");
  json_builder_begin_array (builder);
  for (guint i = 0; i < groups->len; i++) {
    const AppCollectiveGroup *group = &g_array_index (groups, AppCollectiveGroup, i);

    json_builder_begin_object (builder);
    cli_json_text (builder, "machine", group->machine);
    cli_json_text (builder, "collective", model_collective_name (group->kind));
    cli_json_text (builder, "band", band_name (group->is_large));
    cli_json_stats_members (builder, &group->stats);
    json_builder_end_object (builder);
  }
  json_builder_end_array (builder);
}

static void
add_residuals (JsonBuilder *builder, const GPtrArray *rows)
{
  json_builder_set_member_name (builder, "residuals");
  json_builder_begin_array (builder);
  for (guint i = 0; i < rows->len; i++) {
    const AppCollectiveRow *row = g_ptr_array_index (rows, i);

    json_builder_begin_object (builder);
    cli_json_text (builder, "slug", row->log);
    cli_json_text (builder, "machine", row->machine);
    cli_json_text (builder, "collective", model_collective_name (row->kind));
    cli_json_count (builder, "ranks", row->ranks);
    cli_json_count (builder, "domains", row->domains);
    cli_json_number (builder, "bytes", row->bytes);
    cli_json_number (builder, "predicted_s", row->predicted_s);
    cli_json_number (builder, "measured_s", row->measured_s);
    json_builder_end_object (builder);
  }
  json_builder_end_array (builder);
}

void
cli_json_collectives (JsonBuilder *builder, const AppCollectiveValidation *validation,
                      gboolean with_residuals)
{
  cli_json_count (builder, "rows", validation->n_rows);
  cli_json_count (builder, "predicted", validation->rows->len);
  cli_json_counts (builder, "skipped", validation->skipped);
  json_builder_set_member_name (builder, "left_out");
  json_builder_begin_array (builder);
  for (guint i = 0; i < validation->left_out->len; i++)
    json_builder_add_string_value (builder, g_ptr_array_index (validation->left_out, i));
  json_builder_end_array (builder);
  cli_json_stats (builder, "all", &validation->all);
  cli_json_stats (builder, "one_domain", &validation->node);
  cli_json_stats (builder, "one_domain_nvlink_3_to_5", &validation->nvlink);
  cli_json_stats (builder, "over_domains", &validation->network);
  add_groups (builder, validation->groups);
  if (with_residuals)
    add_residuals (builder, validation->rows);
}

static void
add_line (CliTable *table, const char *machine, const char *collective, const char *band,
          const AppErrorStats *stats)
{
  cli_table_row (table);
  cli_table_cell (table, "%s", machine);
  cli_table_cell (table, "%s", collective);
  cli_table_cell (table, "%s", band);
  cli_table_cell (table, "%u", stats->n);
  cli_table_cell (table, "%.1f", 100 * stats->median_abs_err);
  cli_table_cell (table, "%.1f", 100 * stats->p90_abs_err);
  cli_table_cell (table, "%+.1f", 100 * stats->bias);
}

void
cli_print_collectives (const AppCollectiveValidation *validation, const CliCommon *common)
{
  static const char *const headers[]
      = { "MACHINE", "COLLECTIVE", "BYTES", "N", "MEDIAN %", "P90 %", "BIAS %" };
  g_autoptr (CliTable) table = cli_table_new ();

  for (gsize i = 0; i < G_N_ELEMENTS (headers); i++)
    cli_table_column (table, headers[i], i < 3 ? CLI_LEFT : CLI_RIGHT);
  for (guint i = 0; i < validation->groups->len; i++) {
    const AppCollectiveGroup *group = &g_array_index (validation->groups, AppCollectiveGroup, i);

    add_line (table, group->machine, model_collective_name (group->kind),
              band_name (group->is_large), &group->stats);
  }
  if (!common->csv) {
    add_line (table, "one domain, NVLink 3-5", "", "", &validation->nvlink);
    add_line (table, "one domain", "", "", &validation->node);
    add_line (table, "over domains", "", "", &validation->network);
    add_line (table, "all", "", "", &validation->all);
  }
  cli_table_print (table, stdout, common->csv);
  if (common->csv)
    return;
  for (guint i = 0; i < validation->skipped->len; i++) {
    const AppCount *count = &g_array_index (validation->skipped, AppCount, i);

    printf ("skipped %u: %s\n", count->count, count->name);
  }
  for (guint i = 0; i < validation->left_out->len; i++)
    printf ("left out: %s\n", (const char *)g_ptr_array_index (validation->left_out, i));
}

CliExit
cli_validate_collectives (const CliCommon *common, const char *calibration,
                          const char *const *files, gboolean with_residuals)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (AppCollectiveValidation) validation
      = app_validate_collectives (common->catalog, calibration, files, &error);

  if (validation == NULL)
    return cli_fail (common, error);
  if (common->json) {
    g_autoptr (JsonBuilder) builder = json_builder_new ();

    json_builder_begin_object (builder);
    cli_json_collectives (builder, validation, with_residuals);
    json_builder_end_object (builder);
    cli_json_print (builder);
  } else
    cli_print_collectives (validation, common);
  return CLI_DONE;
}
