/* cli/plan_json.c - a DbPlan as JSON: plain SI numbers, units in the keys. */
#include "cli/plan_json.h"

#include <math.h>
#include <stdio.h>

void
cli_json_text (JsonBuilder *builder, const char *key, const char *value)
{
  json_builder_set_member_name (builder, key);
  if (value != NULL)
    json_builder_add_string_value (builder, value);
  else
    json_builder_add_null_value (builder);
}

void
cli_json_count (JsonBuilder *builder, const char *key, gint64 value)
{
  json_builder_set_member_name (builder, key);
  json_builder_add_int_value (builder, value);
}

void
cli_json_number (JsonBuilder *builder, const char *key, double value)
{
  json_builder_set_member_name (builder, key);
  if (isfinite (value))
    json_builder_add_double_value (builder, value);
  else
    json_builder_add_null_value (builder);
}

void
cli_json_bool (JsonBuilder *builder, const char *key, gboolean value)
{
  json_builder_set_member_name (builder, key);
  json_builder_add_boolean_value (builder, value);
}

void
cli_json_print (JsonBuilder *builder)
{
  g_autoptr (JsonNode) root = json_builder_get_root (builder);
  g_autofree char *text = json_to_string (root, TRUE);

  puts (text);
}

static void
add_layout (JsonBuilder *builder, const DbPlanRecord *plan)
{
  json_builder_set_member_name (builder, "layout");
  json_builder_begin_object (builder);
  cli_json_count (builder, "tp", plan->tp);
  cli_json_count (builder, "sp", plan->sp);
  cli_json_count (builder, "cp", plan->cp);
  cli_json_count (builder, "pp", plan->pp);
  cli_json_count (builder, "vpp", plan->vpp);
  cli_json_count (builder, "ep", plan->ep);
  cli_json_count (builder, "etp", plan->etp);
  cli_json_count (builder, "dp", plan->dp);
  cli_json_count (builder, "mbs", plan->mbs);
  cli_json_count (builder, "zero", plan->zero);
  if (plan->hsdp > 0)
    cli_json_count (builder, "hsdp", plan->hsdp);
  else
    cli_json_text (builder, "hsdp", NULL);
  cli_json_text (builder, "recompute", plan->recompute);
  cli_json_text (builder, "schedule", plan->schedule);
  cli_json_text (builder, "stages", plan->stages);
  cli_json_text (builder, "attn", plan->attn);
  cli_json_text (builder, "dtype", plan->dtype);
  cli_json_text (builder, "cp_comm", plan->cp_comm);
  cli_json_number (builder, "tp_sync", plan->tp_sync);
  cli_json_count (builder, "overlap_tp", plan->overlap_tp);
  cli_json_count (builder, "overlap_dp", plan->overlap_dp);
  cli_json_count (builder, "overlap_p2p", plan->overlap_p2p);
  json_builder_end_object (builder);
}

static void
add_memory (JsonBuilder *builder, const DbStageMemoryRecord *row)
{
  json_builder_set_member_name (builder, "memory_bytes");
  json_builder_begin_object (builder);
  cli_json_count (builder, "weights", (gint64)row->weights_bytes);
  cli_json_count (builder, "gradients", (gint64)row->gradients_bytes);
  cli_json_count (builder, "optimizer", (gint64)row->optimizer_bytes);
  cli_json_count (builder, "activations", (gint64)row->activations_bytes);
  cli_json_count (builder, "logits", (gint64)row->logits_bytes);
  cli_json_count (builder, "gathers", (gint64)row->gathers_bytes);
  cli_json_count (builder, "comm_buffers", (gint64)row->comm_buffers_bytes);
  cli_json_count (builder, "workspace", (gint64)row->workspace_bytes);
  cli_json_count (builder, "context", (gint64)row->context_bytes);
  cli_json_count (builder, "fragmentation", (gint64)row->fragmentation_bytes);
  json_builder_end_object (builder);
}

static void
add_stages (JsonBuilder *builder, const DbPlanRecord *plan)
{
  json_builder_set_member_name (builder, "stages");
  json_builder_begin_array (builder);
  for (gsize i = 0; i < plan->n_stage_rows; i++) {
    const DbStageMemoryRecord *row = &plan->stage_rows[i];

    json_builder_begin_object (builder);
    cli_json_count (builder, "stage", row->stage);
    cli_json_count (builder, "layers", row->layers);
    cli_json_count (builder, "in_flight_count", row->in_flight_count);
    cli_json_number (builder, "compute_s", row->compute_s);
    cli_json_count (builder, "peak_bytes", (gint64)row->peak_bytes);
    cli_json_count (builder, "allocated_bytes", (gint64)row->allocated_bytes);
    cli_json_count (builder, "reserved_bytes", (gint64)row->reserved_bytes);
    cli_json_number (builder, "oom_risk", row->oom_risk);
    add_memory (builder, row);
    json_builder_end_object (builder);
  }
  json_builder_end_array (builder);
}

/* The stage whose driver view is the plan's peak. */
static const DbStageMemoryRecord *
fullest_stage (const DbPlanRecord *plan)
{
  for (gsize i = 0; i < plan->n_stage_rows; i++)
    if (plan->stage_rows[i].peak_bytes == plan->prediction.peak_bytes)
      return &plan->stage_rows[i];
  return plan->n_stage_rows > 0 ? &plan->stage_rows[0] : NULL;
}

static void
add_breakdown (JsonBuilder *builder, const DbPlanRecord *plan)
{
  json_builder_set_member_name (builder, "breakdown_s");
  json_builder_begin_object (builder);
  for (gsize i = 0; i < plan->n_breakdown; i++)
    cli_json_number (builder, plan->breakdown[i].component, plan->breakdown[i].exposed_s);
  json_builder_end_object (builder);
}

static void
add_groups_and_assumed (JsonBuilder *builder, const DbPlanRecord *plan)
{
  json_builder_set_member_name (builder, "groups");
  json_builder_begin_array (builder);
  for (gsize i = 0; i < plan->n_groups; i++) {
    json_builder_begin_object (builder);
    cli_json_text (builder, "kind", plan->groups[i].kind);
    cli_json_count (builder, "size", plan->groups[i].size);
    cli_json_text (builder, "bottleneck", plan->groups[i].bottleneck);
    json_builder_end_object (builder);
  }
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "assumed");
  json_builder_begin_object (builder);
  for (gsize i = 0; i < plan->n_assumed; i++) {
    const DbAssumedRecord *row = &plan->assumed[i];
    g_autofree char *value = row->why != NULL ? g_strdup_printf ("%s: %s", row->value, row->why)
                                              : g_strdup (row->value);

    cli_json_text (builder, row->key, value);
  }
  json_builder_end_object (builder);
}

static void
add_prediction (JsonBuilder *builder, const DbPredictionRecord *prediction)
{
  cli_json_bool (builder, "fits", prediction->fits);
  cli_json_number (builder, "step_s", prediction->step_s);
  cli_json_number (builder, "step_s_p10", prediction->step_s_p10);
  cli_json_number (builder, "step_s_p90", prediction->step_s_p90);
  if (isfinite (prediction->simulated_s))
    cli_json_number (builder, "simulated_s", prediction->simulated_s);
  cli_json_number (builder, "tokens_per_s_per_gpu", prediction->tokens_per_s_per_gpu);
  cli_json_number (builder, "tflops_per_gpu", prediction->tflops_per_gpu);
  cli_json_number (builder, "mfu", prediction->mfu);
  cli_json_number (builder, "oom_risk", prediction->oom_risk);
  cli_json_count (builder, "peak_bytes", (gint64)prediction->peak_bytes);
  cli_json_count (builder, "allocated_bytes", (gint64)prediction->allocated_bytes);
  cli_json_count (builder, "reserved_bytes", (gint64)prediction->reserved_bytes);
  cli_json_count (builder, "usable_bytes", (gint64)prediction->usable_bytes);
  cli_json_number (builder, "cost_usd_per_1e12_tokens", prediction->cost_usd_per_1e12_tokens);
}

static void
add_fixes (JsonBuilder *builder, const GPtrArray *fixes)
{
  json_builder_set_member_name (builder, "fixes");
  json_builder_begin_array (builder);
  for (guint i = 0; i < fixes->len; i++) {
    const AppFix *fix = g_ptr_array_index (fixes, i);

    json_builder_begin_object (builder);
    cli_json_text (builder, "change", fix->what);
    cli_json_text (builder, "layout_text", fix->layout_text);
    cli_json_number (builder, "step_s", fix->step_s);
    cli_json_number (builder, "step_ratio", 1 + fix->cost_ratio);
    cli_json_number (builder, "oom_risk", fix->oom_risk);
    cli_json_count (builder, "peak_bytes", (gint64)fix->peak_bytes);
    json_builder_end_object (builder);
  }
  json_builder_end_array (builder);
}

void
cli_json_plan (JsonBuilder *builder, const DbPlan *plan)
{
  cli_json_plan_with_fixes (builder, plan, NULL);
}

void
cli_json_plan_with_fixes (JsonBuilder *builder, const DbPlan *plan, const GPtrArray *fixes)
{
  const DbPlanRecord *record = &plan->plan;
  const DbStageMemoryRecord *fullest = fullest_stage (record);

  json_builder_begin_object (builder);
  cli_json_text (builder, "model", plan->model.name);
  cli_json_text (builder, "machine", plan->machine.name);
  cli_json_count (builder, "gpus", record->gpus);
  cli_json_count (builder, "global_batch", record->global_batch);
  cli_json_count (builder, "seq", record->seq);
  cli_json_text (builder, "profile", record->profile);
  cli_json_text (builder, "calibration", plan->calibration.name);
  add_layout (builder, record);
  cli_json_text (builder, "layout_text", record->layout_text);
  add_prediction (builder, &record->prediction);
  add_breakdown (builder, record);
  if (fullest != NULL)
    add_memory (builder, fullest);
  add_stages (builder, record);
  add_groups_and_assumed (builder, record);
  if (fixes != NULL)
    add_fixes (builder, fixes);
  json_builder_end_object (builder);
}
