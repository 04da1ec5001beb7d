/* cli/validate_json.c - a validation as JSON. */
#include "cli/validate_json.h"

#include "cli/plan_json.h"

static void
begin (JsonBuilder *builder, const char *key)
{
  json_builder_set_member_name (builder, key);
  json_builder_begin_object (builder);
}

void
cli_json_stats_members (JsonBuilder *builder, const AppErrorStats *stats)
{
  cli_json_count (builder, "n", stats->n);
  cli_json_number (builder, "median_abs_err", stats->median_abs_err);
  cli_json_number (builder, "mean_abs_err", stats->mean_abs_err);
  cli_json_number (builder, "p90_abs_err", stats->p90_abs_err);
  cli_json_number (builder, "bias", stats->bias);
  cli_json_number (builder, "coverage_80", stats->coverage_80);
  cli_json_number (builder, "width_80", stats->width_80);
}

void
cli_json_stats (JsonBuilder *builder, const char *key, const AppErrorStats *stats)
{
  begin (builder, key);
  cli_json_stats_members (builder, stats);
  json_builder_end_object (builder);
}

void
cli_json_counts (JsonBuilder *builder, const char *key, const GArray *counts)
{
  begin (builder, key);
  for (guint i = 0; i < counts->len; i++) {
    const AppCount *count = &g_array_index (counts, AppCount, i);

    cli_json_count (builder, count->name, count->count);
  }
  json_builder_end_object (builder);
}

static void
add_memory (JsonBuilder *builder, const AppValidation *v)
{
  begin (builder, "memory");
  cli_json_stats_members (builder, &v->memory);
  begin (builder, "by_kind");
  for (AppMemKind kind = APP_MEM_ALLOCATED; kind < APP_MEM_N_KINDS; kind++)
    cli_json_stats (builder, app_mem_kind_name (kind), &v->memory_by_kind[kind]);
  json_builder_end_object (builder);
  json_builder_end_object (builder);
}

static void
add_reliability (JsonBuilder *builder, const AppOomStats *oom)
{
  json_builder_set_member_name (builder, "reliability");
  json_builder_begin_array (builder);
  for (guint i = 0; i < G_N_ELEMENTS (oom->bin_n); i++) {
    if (oom->bin_n[i] == 0)
      continue;
    json_builder_begin_object (builder);
    cli_json_number (builder, "risk_from", i / 10.0);
    cli_json_count (builder, "n", oom->bin_n[i]);
    cli_json_number (builder, "mean_risk", oom->bin_risk[i] / oom->bin_n[i]);
    cli_json_number (builder, "oom_ratio", (double)oom->bin_n_oom[i] / oom->bin_n[i]);
    json_builder_end_object (builder);
  }
  json_builder_end_array (builder);
}

static void
add_oom (JsonBuilder *builder, const AppOomStats *oom)
{
  begin (builder, "oom");
  cli_json_count (builder, "n_oom", oom->n_oom);
  cli_json_count (builder, "n_ran", oom->n_ran);
  cli_json_count (builder, "n_unknown", oom->n_unknown);
  cli_json_count (builder, "oom_below_half", oom->oom_below_half);
  cli_json_count (builder, "ran_above_half", oom->ran_above_half);
  cli_json_number (builder, "brier", oom->brier);
  cli_json_number (builder, "noisy_auc", oom->noisy_auc);
  cli_json_number (builder, "noisy_auc_pp8", oom->noisy_auc_pp8);
  add_reliability (builder, oom);
  json_builder_end_object (builder);
}

static void
add_groups (JsonBuilder *builder, const AppValidation *v)
{
  begin (builder, "by");
  for (guint i = 0; v->by[i] != NULL; i++) {
    const GArray *groups = g_ptr_array_index (v->groups, i);

    begin (builder, v->by[i]);
    for (guint j = 0; j < groups->len; j++) {
      const AppErrorGroup *group = &g_array_index (groups, AppErrorGroup, j);

      begin (builder, group->name);
      cli_json_stats (builder, "step_time", &group->step_time);
      cli_json_stats (builder, "memory", &group->memory);
      json_builder_end_object (builder);
    }
    json_builder_end_object (builder);
  }
  json_builder_end_object (builder);
}

static void
add_residual (JsonBuilder *builder, const AppValidateRow *row)
{
  gboolean has_memory = row->mem_kind != APP_MEM_NONE;

  json_builder_begin_object (builder);
  cli_json_text (builder, "id", row->id);
  cli_json_number (builder, "use", row->use);
  cli_json_text (builder, "profile", row->profile);
  cli_json_text (builder, "machine", row->machine);
  cli_json_text (builder, "layout_text", row->layout_text);
  cli_json_number (builder, "predicted_s", row->predicted_s);
  cli_json_number (builder, "predicted_s_p10", row->predicted_p10_s);
  cli_json_number (builder, "predicted_s_p90", row->predicted_p90_s);
  cli_json_number (builder, "measured_s", row->measured_s);
  begin (builder, "breakdown_s");
  for (guint i = 0; i < COST_PART_N_KINDS; i++)
    cli_json_number (builder, cost_part_name ((CostPart)i), row->breakdown_s[i]);
  json_builder_end_object (builder);
  cli_json_number (builder, "predicted_bytes", row->predicted_bytes);
  cli_json_number (builder, "measured_bytes", row->measured_bytes);
  cli_json_text (builder, "mem_kind", has_memory ? app_mem_kind_name (row->mem_kind) : NULL);
  cli_json_count (builder, "memory_stage", row->memory_stage);
  begin (builder, "memory_bytes");
  for (guint i = 0; i < COST_MEMORY_N_KINDS; i++)
    cli_json_count (builder, cost_memory_kind_name ((CostMemoryKind)i),
                    (gint64)row->memory.bytes[i]);
  json_builder_end_object (builder);
  cli_json_count (builder, "need_bytes", (gint64)row->need_bytes);
  cli_json_count (builder, "usable_bytes", (gint64)row->usable_bytes);
  cli_json_number (builder, "oom_risk", row->oom_risk);
  cli_json_bool (builder, "ran", row->ran);
  json_builder_set_member_name (builder, "assumed");
  json_builder_begin_array (builder);
  for (guint i = 0; i < row->assumed->len; i++)
    json_builder_add_string_value (builder, g_ptr_array_index (row->assumed, i));
  json_builder_end_array (builder);
  json_builder_end_object (builder);
}

static void
add_skipped_rows (JsonBuilder *builder, const GArray *rows)
{
  json_builder_set_member_name (builder, "skipped_rows");
  json_builder_begin_array (builder);
  for (guint i = 0; rows != NULL && i < rows->len; i++) {
    const AppSkipped *row = &g_array_index (rows, AppSkipped, i);

    json_builder_begin_object (builder);
    cli_json_text (builder, "id", row->id);
    cli_json_count (builder, "line", row->line);
    cli_json_text (builder, "reason", row->reason);
    json_builder_end_object (builder);
  }
  json_builder_end_array (builder);
}

void
cli_json_validation (JsonBuilder *builder, const AppValidation *v, gboolean with_residuals)
{
  cli_json_text (builder, "calibration", v->calibration);
  cli_json_count (builder, "rows", v->n_rows);
  cli_json_count (builder, "simulated", v->rows->len);
  cli_json_counts (builder, "skipped", v->skipped);
  cli_json_counts (builder, "assumed", v->assumed);
  cli_json_stats (builder, "step_time", &v->step_time);
  cli_json_stats (builder, "step_time_all", &v->step_time_all);
  add_memory (builder, v);
  add_oom (builder, &v->oom);
  add_groups (builder, v);
  if (with_residuals) {
    json_builder_set_member_name (builder, "residuals");
    json_builder_begin_array (builder);
    for (guint i = 0; i < v->rows->len; i++)
      add_residual (builder, g_ptr_array_index (v->rows, i));
    json_builder_end_array (builder);
    if (v->skipped_rows != NULL)
      add_skipped_rows (builder, v->skipped_rows);
  }
}
