/* app/plan_point.c - a search point and what the database keeps of it. */
#include "app/plan-private.h"

#include "base/hash.h"

#include <json-glib/json-glib.h>
#include <math.h>

static void
miss_clear (gpointer data)
{
  g_free (((AppMiss *)data)->layout_text);
}

AppPlanPoint *
app_plan_point_new (const AppProblem *problem)
{
  AppPlanPoint *point = g_new0 (AppPlanPoint, 1);

  point->machine = g_strdup (problem->setting->machine->slug);
  point->usd_per_gpu_h = problem->setting->machine->price_usd_per_gpu_hour;
  point->gpus = problem->problem.gpus;
  point->global_batch = problem->job.global_batch;
  point->seq = problem->job.seq;
  point->plans = g_ptr_array_new_with_free_func ((GDestroyNotify)db_plan_free);
  point->misses = g_array_new (FALSE, TRUE, sizeof (AppMiss));
  g_array_set_clear_func (point->misses, miss_clear);
  point->advice = g_ptr_array_new_with_free_func (g_free);
  return point;
}

void
app_plan_point_free (AppPlanPoint *point)
{
  if (point == NULL)
    return;
  g_free (point->machine);
  g_ptr_array_unref (point->plans);
  g_array_unref (point->misses);
  g_ptr_array_unref (point->advice);
  g_free (point);
}

char *
app_plan_point_hash (const AppPlanPoint *point, const char *run_hash)
{
  g_autofree char *text
      = g_strdup_printf ("%s\n%s\n%" G_GUINT64_FORMAT "\n%" G_GUINT64_FORMAT "\n%" G_GUINT64_FORMAT,
                         run_hash, point->machine, point->gpus, point->global_batch, point->seq);

  return base_hash_text (text);
}

/* ---- what there is beside the plans, as JSON ---- */

static void
add_count (JsonBuilder *builder, const char *name, guint64 count)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_int_value (builder, (gint64)count);
}

static void
add_misses (JsonBuilder *builder, const AppPlanPoint *point)
{
  json_builder_set_member_name (builder, "misses");
  json_builder_begin_array (builder);
  for (guint i = 0; i < point->misses->len; i++) {
    const AppMiss *miss = &g_array_index (point->misses, AppMiss, i);

    json_builder_begin_object (builder);
    json_builder_set_member_name (builder, "layout_text");
    json_builder_add_string_value (builder, miss->layout_text);
    add_count (builder, "need_bytes", miss->need_bytes);
    add_count (builder, "peak_bytes", miss->peak_bytes);
    add_count (builder, "usable_bytes", miss->usable_bytes);
    json_builder_set_member_name (builder, "oom_risk");
    json_builder_add_double_value (builder, miss->oom_risk);
    json_builder_set_member_name (builder, "step_s");
    json_builder_add_double_value (builder, miss->step_s);
    json_builder_end_object (builder);
  }
  json_builder_end_array (builder);
}

static char *
answer_text (const AppPlanPoint *point)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;

  json_builder_begin_object (builder);
  add_count (builder, "legal_count", point->legal_count);
  add_count (builder, "too_risky_count", point->too_risky_count);
  json_builder_set_member_name (builder, "rejected");
  json_builder_begin_object (builder);
  for (guint i = MODEL_LEGAL + 1; i < MODEL_LEGAL_N; i++)
    if (point->rejected[i] > 0)
      add_count (builder, model_legality_name ((ModelLegality)i), point->rejected[i]);
  json_builder_end_object (builder);
  add_misses (builder, point);
  json_builder_set_member_name (builder, "advice");
  json_builder_begin_array (builder);
  for (guint i = 0; i < point->advice->len; i++)
    json_builder_add_string_value (builder, g_ptr_array_index (point->advice, i));
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  return json_to_string (root, FALSE);
}

static void
read_misses (AppPlanPoint *point, JsonArray *misses)
{
  for (guint i = 0; misses != NULL && i < json_array_get_length (misses); i++) {
    JsonObject *object = json_array_get_object_element (misses, i);
    AppMiss miss = {
      .layout_text
      = g_strdup (json_object_get_string_member_with_default (object, "layout_text", "")),
      .need_bytes = (guint64)json_object_get_int_member_with_default (object, "need_bytes", 0),
      .peak_bytes = (guint64)json_object_get_int_member_with_default (object, "peak_bytes", 0),
      .usable_bytes = (guint64)json_object_get_int_member_with_default (object, "usable_bytes", 0),
      .oom_risk = json_object_get_double_member_with_default (object, "oom_risk", 1),
      .step_s = json_object_get_double_member_with_default (object, "step_s", 0),
    };

    g_array_append_val (point->misses, miss);
  }
}

/* A database that somebody has edited must not crash: what is not there stays empty. */
static gboolean
read_answer (AppPlanPoint *point, const char *text, GError **error)
{
  g_autoptr (JsonNode) root = json_from_string (text, error);
  JsonObject *object = NULL;
  JsonObject *rejected = NULL;
  JsonArray *advice = NULL;

  if (root == NULL || !JSON_NODE_HOLDS_OBJECT (root)) {
    g_clear_error (error);
    g_set_error_literal (error, DB_ERROR, DB_ERROR_CORRUPT,
                         "a stored search point is not readable; use another --db");
    return FALSE;
  }
  object = json_node_get_object (root);
  point->legal_count = (guint64)json_object_get_int_member_with_default (object, "legal_count", 0);
  point->too_risky_count
      = (guint64)json_object_get_int_member_with_default (object, "too_risky_count", 0);
  if (json_object_has_member (object, "rejected"))
    rejected = json_object_get_object_member (object, "rejected");
  for (guint i = MODEL_LEGAL + 1; rejected != NULL && i < MODEL_LEGAL_N; i++)
    point->rejected[i]
        = (guint64)json_object_get_int_member_with_default (rejected,
                                                            model_legality_name ((ModelLegality)i),
                                                            0);
  if (json_object_has_member (object, "misses"))
    read_misses (point, json_object_get_array_member (object, "misses"));
  if (json_object_has_member (object, "advice"))
    advice = json_object_get_array_member (object, "advice");
  for (guint i = 0; advice != NULL && i < json_array_get_length (advice); i++)
    g_ptr_array_add (point->advice, g_strdup (json_array_get_string_element (advice, i)));
  return TRUE;
}

/* ---- the database ---- */

gboolean
app_plan_point_store (const AppPlanPoint *point, DbDatabase *db, gint64 run_id,
                      const char *run_hash, GError **error)
{
  g_autofree DbPlanRecord *records = g_new0 (DbPlanRecord, MAX (point->plans->len, 1));
  g_autofree gint64 *ids = g_new0 (gint64, MAX (point->plans->len, 1));
  g_autofree char *hash = app_plan_point_hash (point, run_hash);
  g_autofree char *answer = answer_text (point);

  for (guint i = 0; i < point->plans->len; i++) {
    DbPlan *plan = g_ptr_array_index (point->plans, i);
    const DbPlan *first = g_ptr_array_index (point->plans, 0);

    if (i == 0 && !app_record_store_inputs (db, plan, error))
      return FALSE;
    plan->plan.machine_id = first->plan.machine_id;
    plan->plan.model_id = first->plan.model_id;
    plan->plan.job_id = first->plan.job_id;
    plan->plan.calibration_id = first->plan.calibration_id;
    records[i] = plan->plan;
  }
  if (!db_store_point (db, run_id, hash, answer, records, point->plans->len, ids, error))
    return FALSE;
  for (guint i = 0; i < point->plans->len; i++) {
    DbPlan *plan = g_ptr_array_index (point->plans, i);

    plan->plan.plan_id = ids[i];
    plan->plan.run_id = run_id;
  }
  return TRUE;
}

gboolean
app_plan_point_load (AppPlanPoint *point, DbDatabase *db, gint64 run_id, const char *run_hash,
                     gboolean *out_found, GError **error)
{
  g_autofree char *hash = app_plan_point_hash (point, run_hash);
  g_autofree char *answer = NULL;
  gint64 first_id = 0;
  gsize n_plans = 0;

  *out_found = FALSE;
  if (!db_load_point (db, run_id, hash, &answer, &first_id, &n_plans, error))
    return FALSE;
  if (answer == NULL)
    return TRUE;
  *out_found = TRUE;
  for (gsize i = 0; i < n_plans; i++) {
    DbPlan *plan = db_load_plan (db, first_id + (gint64)i, error);

    if (plan == NULL)
      return FALSE;
    g_ptr_array_add (point->plans, plan);
  }
  point->counts = (DbRunCounts){ .elapsed_s = NAN, .simulate_s = 0 };
  return read_answer (point, answer, error);
}
