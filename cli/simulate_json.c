/* cli/simulate_json.c - plait simulate --json. */
#include "cli/plan_json.h"
#include "cli/simulate_output.h"

#include <math.h>

static void
add_parts (JsonBuilder *builder, const char *key, const double *values)
{
  json_builder_set_member_name (builder, key);
  json_builder_begin_object (builder);
  for (guint part = 0; part < COST_PART_N_KINDS; part++)
    cli_json_number (builder, cost_part_name ((CostPart)part), values[part]);
  json_builder_end_object (builder);
}

static void
add_runs (JsonBuilder *builder, const AppSimulateResult *result)
{
  const AppSpread *step = &result->step;

  json_builder_set_member_name (builder, "distribution");
  json_builder_begin_object (builder);
  cli_json_count (builder, "runs", result->runs);
  cli_json_number (builder, "simulated_s_mean", step->mean);
  cli_json_number (builder, "simulated_s_min", step->min);
  cli_json_number (builder, "simulated_s_p10", step->p10);
  cli_json_number (builder, "simulated_s_p50", step->p50);
  cli_json_number (builder, "simulated_s_p90", step->p90);
  cli_json_number (builder, "simulated_s_max", step->max);
  json_builder_end_object (builder);
}

static void
add_rank (JsonBuilder *builder, const SimRank *rank)
{
  json_builder_begin_object (builder);
  cli_json_count (builder, "rank", rank->rank);
  cli_json_count (builder, "pp_rank", rank->pp_rank);
  cli_json_count (builder, "stands_for_count", rank->stands_for);
  add_parts (builder, "parts_s", rank->parts_s);
  cli_json_number (builder, "last_backward_s", rank->end_s);
  cli_json_count (builder, "allocated_bytes", (gint64)rank->peak_bytes);
  cli_json_count (builder, "kept_bytes", (gint64)rank->kept_bytes);
  cli_json_count (builder, "closed_form_bytes", (gint64)rank->closed_bytes);
  cli_json_text (builder, "peak_op", rank->peak_op);
  if (rank->peak_chunk != G_MAXUINT32) {
    cli_json_count (builder, "peak_chunk", rank->peak_chunk);
    cli_json_count (builder, "peak_microbatch", rank->peak_microbatch);
  }
  json_builder_end_object (builder);
}

static void
add_links (JsonBuilder *builder, const SimResult *play)
{
  json_builder_set_member_name (builder, "links");
  json_builder_begin_array (builder);
  for (guint i = 0; i < play->n_links; i++) {
    g_autofree char *traffic = cli_traffic_names (play->links[i].traffic);
    json_builder_begin_object (builder);
    cli_json_text (builder, "name", play->links[i].name);
    cli_json_text (builder, "traffic", traffic);
    cli_json_number (builder, "lost_s", play->links[i].lost_s);
    json_builder_end_object (builder);
  }
  json_builder_end_array (builder);
}

static void
add_critical (JsonBuilder *builder, const AppSimulateResult *result)
{
  const SimResult *play = &result->first;

  json_builder_set_member_name (builder, "critical_path");
  json_builder_begin_object (builder);
  add_parts (builder, "parts_s", play->critical_s);
  add_parts (builder, "saving_ratio_if_10_percent_faster", result->saving_ratio);
  json_builder_set_member_name (builder, "steps");
  json_builder_begin_array (builder);
  for (guint i = play->n_critical; i-- > 0;) {
    const SimCriticalStep *step = &play->critical[i];
    json_builder_begin_object (builder);
    cli_json_count (builder, "rank", step->rank);
    cli_json_text (builder, "kind", cli_step_name (step->kind));
    if (step->chunk != G_MAXUINT32) {
      cli_json_count (builder, "chunk", step->chunk);
      cli_json_count (builder, "microbatch", step->microbatch);
    }
    cli_json_text (builder, "after", step->was_message ? "message" : "rank");
    cli_json_number (builder, "start_s", step->start_s);
    cli_json_number (builder, "end_s", step->end_s);
    json_builder_end_object (builder);
  }
  json_builder_end_array (builder);
  json_builder_end_object (builder);
}

static void
add_inputs (JsonBuilder *builder, const AppSimulateResult *result,
            const AppSimulateRequest *request)
{
  const DbPlan *plan = result->plan;

  cli_json_text (builder, "model", plan->model.name);
  cli_json_text (builder, "machine", plan->machine.name);
  cli_json_count (builder, "gpus", plan->plan.gpus);
  cli_json_count (builder, "global_batch", plan->plan.global_batch);
  cli_json_count (builder, "seq", plan->plan.seq);
  cli_json_text (builder, "profile", plan->plan.profile);
  cli_json_text (builder, "calibration", plan->calibration.name);
  cli_json_text (builder, "layout_text", plan->plan.layout_text);
  cli_json_bool (builder, "full", request->full);
  cli_json_bool (builder, "contention", !request->ideal);
  cli_json_number (builder, "jitter_ratio", request->jitter_ratio);
  cli_json_count (builder, "seed", (gint64)request->seed);
}

void
cli_simulate_json (const AppSimulateResult *result, const AppSimulateRequest *request)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  const SimResult *play = &result->first;

  json_builder_begin_object (builder);
  add_inputs (builder, result, request);
  cli_json_number (builder, "step_s", result->plan->plan.prediction.step_s);
  cli_json_number (builder, "simulated_s", result->simulated_s);
  cli_json_number (builder, "played_s", play->played_s);
  cli_json_number (builder, "undisturbed_s", result->undisturbed_s);
  cli_json_number (builder, "recurrence_s", result->recurrence_s);
  cli_json_number (builder, "pipeline_s", play->pipeline_s);
  cli_json_number (builder, "utilisation_ratio", play->utilisation);
  cli_json_number (builder, "queued_s", play->queued_s);
  cli_json_number (builder, "slowed_s", play->slowed_s);
  cli_json_count (builder, "op_count", (gint64)play->op_count);
  add_runs (builder, result);
  add_critical (builder, result);
  add_links (builder, play);
  json_builder_set_member_name (builder, "ranks");
  json_builder_begin_array (builder);
  for (guint32 r = 0; r < play->n_ranks; r++)
    add_rank (builder, &play->ranks[r]);
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  cli_json_print (builder);
}
