/* cli/gemm_json.c - predicted kernels against measured ones, as JSON and as a table. */
#include "cli/gemm_json.h"

#include "cli/plan_json.h"
#include "cli/validate_json.h"

static void
add_groups (JsonBuilder *builder, const GArray *groups)
{
  json_builder_set_member_name (builder, "by");
  json_builder_begin_array (builder);
  for (guint i = 0; i < groups->len; i++) {
    const AppGemmGroup *group = &g_array_index (groups, AppGemmGroup, i);

    json_builder_begin_object (builder);
    cli_json_text (builder, "gpu", group->gpu);
    cli_json_text (builder, "kernel", app_kernel_names[group->kind]);
    cli_json_text (builder, "dtype", model_dtype_name (group->dtype));
    cli_json_text (builder, "band", app_gemm_band_names[group->band]);
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
    const AppGemmResult *row = g_ptr_array_index (rows, i);

    json_builder_begin_object (builder);
    cli_json_text (builder, "gpu", row->gpu);
    cli_json_text (builder, "kernel", app_kernel_names[row->kind]);
    cli_json_text (builder, "dtype", model_dtype_name (row->dtype));
    if (row->kind < APP_KERNEL_ATTENTION) {
      cli_json_count (builder, "m", row->m);
      cli_json_count (builder, "n", row->n);
      cli_json_count (builder, "k", row->k);
      cli_json_count (builder, "batch", row->batch);
    }
    cli_json_number (builder, "predicted_s", row->predicted_s);
    cli_json_number (builder, "measured_s", row->measured_s);
    json_builder_end_object (builder);
  }
  json_builder_end_array (builder);
}

void
cli_json_gemm (JsonBuilder *builder, const AppGemmValidation *validation, gboolean with_residuals)
{
  cli_json_count (builder, "rows", validation->n_rows);
  cli_json_count (builder, "predicted", validation->rows->len);
  cli_json_counts (builder, "skipped", validation->skipped);
  cli_json_stats (builder, "all", &validation->all);
  cli_json_stats (builder, "large", &validation->large);
  add_groups (builder, validation->groups);
  if (with_residuals)
    add_residuals (builder, validation->rows);
}

static void
add_line (CliTable *table, const char *gpu, const char *kernel, const char *dtype, const char *band,
          const AppErrorStats *stats)
{
  cli_table_row (table);
  cli_table_cell (table, "%s", gpu);
  cli_table_cell (table, "%s", kernel);
  cli_table_cell (table, "%s", dtype);
  cli_table_cell (table, "%s", band);
  cli_table_cell (table, "%u", stats->n);
  cli_table_cell (table, "%.1f", 100 * stats->median_abs_err);
  cli_table_cell (table, "%.1f", 100 * stats->p90_abs_err);
  cli_table_cell (table, "%+.1f", 100 * stats->bias);
}

void
cli_print_gemm (const AppGemmValidation *validation, const CliCommon *common)
{
  static const char *const headers[]
      = { "GPU", "KERNEL", "DTYPE", "M*N*K", "N", "MEDIAN %", "P90 %", "BIAS %" };
  g_autoptr (CliTable) table = cli_table_new ();

  for (gsize i = 0; i < G_N_ELEMENTS (headers); i++)
    cli_table_column (table, headers[i], i < 4 ? CLI_LEFT : CLI_RIGHT);
  for (guint i = 0; i < validation->groups->len; i++) {
    const AppGemmGroup *group = &g_array_index (validation->groups, AppGemmGroup, i);

    add_line (table, group->gpu, app_kernel_names[group->kind], model_dtype_name (group->dtype),
              app_gemm_band_names[group->band], &group->stats);
  }
  if (!common->csv) {
    add_line (table, "all", "", "", app_gemm_band_names[APP_GEMM_LARGE], &validation->large);
    add_line (table, "all", "", "", app_gemm_band_names[APP_GEMM_ALL], &validation->all);
  }
  cli_table_print (table, stdout, common->csv);
  if (common->csv)
    return;
  for (guint i = 0; i < validation->skipped->len; i++) {
    const AppCount *count = &g_array_index (validation->skipped, AppCount, i);

    printf ("skipped %u: %s\n", count->count, count->name);
  }
}

CliExit
cli_validate_gemm (const CliCommon *common, const char *calibration, const char *const *paths,
                   gboolean with_residuals)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (AppGemmValidation) validation
      = app_validate_gemm (common->catalog, calibration, paths, &error);

  if (validation == NULL)
    return cli_fail (common, error);
  if (common->json) {
    g_autoptr (JsonBuilder) builder = json_builder_new ();

    json_builder_begin_object (builder);
    cli_json_gemm (builder, validation, with_residuals);
    json_builder_end_object (builder);
    cli_json_print (builder);
  } else
    cli_print_gemm (validation, common);
  return CLI_DONE;
}
