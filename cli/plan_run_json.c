/* cli/plan_run_json.c - what a search found, as JSON. */
#include "cli/plan_run_json.h"

#include "cli/json_stream.h"
#include "cli/plan_json.h"
#include "cli/sensitivity.h"

static void
add_run (JsonBuilder *builder, const AppPlanResult *result)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *inputs = NULL;
  g_autoptr (GList) members = NULL;
  guint64 legal = 0;

  for (guint i = 0; i < result->points->len; i++)
    legal += ((AppPlanPoint *)g_ptr_array_index (result->points, i))->legal_count;
  json_parser_load_from_data (parser, result->inputs_json, -1, NULL);
  inputs = json_node_get_object (json_parser_get_root (parser));
  members = json_object_get_members (inputs);
  json_builder_set_member_name (builder, "run");
  json_builder_begin_object (builder);
  for (GList *member = members; member != NULL; member = member->next) {
    json_builder_set_member_name (builder, member->data);
    json_builder_add_value (builder, json_object_dup_member (inputs, member->data));
  }
  cli_json_text (builder, "hash", result->hash);
  cli_json_count (builder, "legal_count", (gint64)legal);
  cli_json_bool (builder, "interrupted", result->interrupted);
  cli_json_count (builder, "points_count", result->asked_count);
  cli_json_count (builder, "points_done_count", result->points->len);
  json_builder_end_object (builder);
}

static void
add_rejected (JsonBuilder *builder, const AppPlanResult *result, gboolean exhaustive)
{
  guint64 too_risky = 0;

  json_builder_set_member_name (builder, "rejected");
  json_builder_begin_array (builder);
  for (guint reason = MODEL_LEGAL + 1; reason < MODEL_LEGAL_N; reason++) {
    guint64 count = 0;

    for (guint i = 0; i < result->points->len; i++)
      count += ((AppPlanPoint *)g_ptr_array_index (result->points, i))->rejected[reason];
    if (count == 0)
      continue;
    json_builder_begin_object (builder);
    cli_json_text (builder, "reason", model_legality_name ((ModelLegality)reason));
    cli_json_count (builder, "count", (gint64)count);
    json_builder_end_object (builder);
  }
  for (guint i = 0; i < result->points->len; i++)
    too_risky += ((AppPlanPoint *)g_ptr_array_index (result->points, i))->too_risky_count;
  if (exhaustive && too_risky > 0) {
    json_builder_begin_object (builder);
    cli_json_text (builder, "reason", "oom_risk_above_limit");
    cli_json_count (builder, "count", (gint64)too_risky);
    json_builder_end_object (builder);
  }
  json_builder_end_array (builder);
}

/* Which search point a row is of. */
static void
add_point (JsonBuilder *builder, const AppPlanPoint *point)
{
  cli_json_text (builder, "machine", point->machine);
  cli_json_count (builder, "gpus", (gint64)point->gpus);
  cli_json_count (builder, "global_batch", (gint64)point->global_batch);
  cli_json_count (builder, "seq", (gint64)point->seq);
}

static void
add_misses (JsonBuilder *builder, const AppPlanPoint *point)
{
  for (guint i = 0; i < point->misses->len; i++) {
    const AppMiss *miss = &g_array_index (point->misses, AppMiss, i);

    json_builder_begin_object (builder);
    add_point (builder, point);
    cli_json_text (builder, "layout_text", miss->layout_text);
    cli_json_count (builder, "need_bytes", (gint64)miss->need_bytes);
    cli_json_count (builder, "peak_bytes", (gint64)miss->peak_bytes);
    cli_json_count (builder, "usable_bytes", (gint64)miss->usable_bytes);
    cli_json_number (builder, "oom_risk", miss->oom_risk);
    cli_json_number (builder, "step_s", miss->step_s);
    json_builder_end_object (builder);
  }
}

static void
add_notes (JsonBuilder *builder, const AppPlanPoint *point)
{
  for (guint i = 0; i < point->advice->len; i++) {
    json_builder_begin_object (builder);
    add_point (builder, point);
    cli_json_text (builder, "note", g_ptr_array_index (point->advice, i));
    json_builder_end_object (builder);
  }
}

/* An array of what @add finds to say of each search point. */
static void
add_of_points (JsonBuilder *builder, const char *name, const AppPlanResult *result,
               void (*add) (JsonBuilder *builder, const AppPlanPoint *point))
{
  json_builder_set_member_name (builder, name);
  json_builder_begin_array (builder);
  for (guint i = 0; i < result->points->len; i++)
    add (builder, g_ptr_array_index (result->points, i));
  json_builder_end_array (builder);
}

static void
add_sensitivity (JsonBuilder *builder, const AppPlanResult *result, const GPtrArray *all)
{
  json_builder_set_member_name (builder, "sensitivity");
  json_builder_begin_array (builder);
  for (guint i = 0; i < all->len; i++) {
    const AppPlanPoint *point = g_ptr_array_index (result->points, i);

    json_builder_begin_object (builder);
    add_point (builder, point);
    json_builder_set_member_name (builder, "resources");
    cli_sensitivity_json (builder, g_ptr_array_index (all, i));
    json_builder_end_object (builder);
  }
  json_builder_end_array (builder);
}

static void
print_json_run (CliJsonStream *stream, const AppPlanResult *result)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  add_run (builder, result);
  json_builder_end_object (builder);
  cli_json_stream_members (stream, builder);
}

static void
make_plan (JsonBuilder *builder, gconstpointer plan)
{
  cli_json_plan (builder, plan);
}

/* Plan by plan: a sweep has thousands. */
static void
print_json_plans (CliJsonStream *stream, const AppPlanResult *result, guint jobs)
{
  g_autoptr (GPtrArray) plans = g_ptr_array_new ();

  for (guint i = 0; i < result->points->len; i++) {
    const AppPlanPoint *point = g_ptr_array_index (result->points, i);

    for (guint p = 0; p < point->plans->len; p++)
      g_ptr_array_add (plans, g_ptr_array_index (point->plans, p));
  }
  cli_json_stream_begin_array (stream, "plans");
  cli_json_stream_elements (stream, plans, make_plan, jobs);
  cli_json_stream_end (stream);
}

void
cli_plan_run_json (const AppPlanResult *result, const AppPlanRequest *request, const CliRank *rank,
                   const GArray *ranked, const GPtrArray *sensitivity)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  CliJsonStream stream = { 0 };

  cli_json_stream_begin_object (&stream, NULL);
  print_json_run (&stream, result);
  print_json_plans (&stream, result, request->jobs);
  json_builder_begin_object (builder);
  add_rejected (builder, result, request->exhaustive);
  add_of_points (builder, "misses", result, add_misses);
  add_of_points (builder, "notes", result, add_notes);
  if (ranked != NULL)
    cli_rank_json (builder, rank, ranked);
  if (sensitivity != NULL)
    add_sensitivity (builder, result, sensitivity);
  json_builder_end_object (builder);
  cli_json_stream_members (&stream, builder);
  cli_json_stream_end (&stream);
}
