/* app/plan.c - one search per (machine, GPU count, batch, sequence), stored point by point. */
#include "app/plan-private.h"

#include "app/advice-private.h"
#include "base/hash.h"

#include <json-glib/json-glib.h>
#include <math.h>

void
app_plan_result_free (AppPlanResult *result)
{
  if (result == NULL)
    return;
  g_free (result->inputs_json);
  g_free (result->hash);
  g_free (result->warning);
  g_ptr_array_unref (result->points);
  g_free (result);
}

/* ---- what was asked, as canonical text ---- */

static void
add_counts (JsonBuilder *builder, const char *name, const GArray *values)
{
  json_builder_set_member_name (builder, name);
  json_builder_begin_array (builder);
  for (guint i = 0; values != NULL && i < values->len; i++)
    json_builder_add_int_value (builder, (gint64)g_array_index (values, guint64, i));
  json_builder_end_array (builder);
}

static void
add_text (JsonBuilder *builder, const char *name, const char *value)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_string_value (builder, value != NULL ? value : "");
}

static char *
inputs_json (const AppPlanRequest *request)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;

  json_builder_begin_object (builder);
  add_text (builder, "model", request->inputs.model);
  json_builder_set_member_name (builder, "machines");
  json_builder_begin_array (builder);
  for (const char *const *m = request->machines; *m != NULL; m++)
    json_builder_add_string_value (builder, *m);
  json_builder_end_array (builder);
  add_text (builder, "gpu", request->inputs.gpu);
  add_counts (builder, "gpus", request->gpus);
  add_counts (builder, "global_batch", request->batches);
  add_counts (builder, "seq", request->seqs);
  add_text (builder, "profile",
            request->inputs.profile != NULL ? request->inputs.profile : "megatron");
  add_text (builder, "calibration",
            request->inputs.calibration != NULL ? request->inputs.calibration : "default");
  json_builder_set_member_name (builder, "dropout");
  if (request->inputs.dropout >= 0)
    json_builder_add_double_value (builder, request->inputs.dropout);
  else
    json_builder_add_null_value (builder);
  if (request->inputs.what_if != NULL)
    add_text (builder, "what_if", request->inputs.what_if);
  add_text (builder, "layout", request->pins);
  json_builder_set_member_name (builder, "max_oom_risk");
  json_builder_add_double_value (builder, request->max_oom_risk);
  json_builder_set_member_name (builder, "keep");
  json_builder_add_int_value (builder, request->keep);
  json_builder_set_member_name (builder, "exhaustive");
  json_builder_add_boolean_value (builder, request->exhaustive);
  json_builder_set_member_name (builder, "simulate");
  json_builder_add_int_value (builder, request->simulate);
  add_text (builder, "rank", request->rank_simulated ? "simulated" : "step");
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  return json_to_string (root, FALSE);
}

/* ---- one point ---- */

typedef struct {
  const AppPlanRequest *request;
  char *label;
} Progress;

static void
report_progress (guint64 done, guint64 total, gpointer user_data)
{
  const Progress *progress = user_data;

  if (progress->request->progress != NULL)
    progress->request->progress (progress->label, done, total, progress->request->user_data);
}

static gboolean
ask_cancelled (gpointer user_data)
{
  const AppPlanRequest *request = ((const Progress *)user_data)->request;

  return request->cancelled != NULL && request->cancelled (request->user_data);
}

static void
fill_point (AppPlanPoint *point, const AppProblem *problem, const AppPlanRequest *request,
            const SimSearchResult *result)
{
  /* whichever comes first in the end carries the texts of the inputs */
  guint n_first = request->rank_simulated ? MAX (request->simulate, 1) : 1;

  for (guint i = 0; i < result->n_plans; i++) {
    const SimPlan *plan = &result->plans[i];

    g_ptr_array_add (point->plans,
                     i < n_first
                         ? app_record_plan (problem, &plan->layout, &plan->prediction, i + 1)
                         : app_record_next_plan (problem, &plan->layout, &plan->prediction, i + 1));
  }
  for (guint i = 0; i < result->n_misses; i++) {
    const SimMiss *miss = &result->misses[i];
    AppMiss row = {
      .layout_text = model_layout_format (&miss->layout, problem->setting->profile),
      .need_bytes = miss->bound.need_bytes,
      .peak_bytes = miss->bound.peak_bytes,
      .usable_bytes = problem->setting->machine->gpu->usable_bytes,
      .oom_risk = miss->bound.oom_risk,
      .step_s = miss->bound.step_s,
    };

    g_array_append_val (point->misses, row);
  }
  point->legal_count = result->legal_count;
  point->too_risky_count = result->too_risky_count;
  for (guint i = 0; i < MODEL_LEGAL_N; i++)
    point->rejected[i] = result->rejected[i];
  point->counts = (DbRunCounts){
    .legal_count = result->legal_count,
    .costed_count = result->tier1_count,
    .exact_count = result->tier2_count,
    .pruned_bound_count = result->legal_count - MIN (result->legal_count, result->tier1_count),
    .pruned_risk_count = result->too_risky_count,
    .elapsed_s = NAN,
    .search_s = result->elapsed_s,
    .simulate_s = 0,
    .jobs_count = request->jobs,
  };
}

/* *out_plays: those of its plans, begun. */
static gboolean
search_point (AppPlanPoint *point, const AppProblem *problem, const AppPlanRequest *request,
              AppPlanPlays **out_plays, GError **error)
{
  const char *text = request->pins != NULL ? request->pins : "";
  g_auto (ModelLayout) pins = { 0 };
  g_auto (SimSpace) space = { 0 };
  g_auto (SimSearchResult) result = { 0 };
  g_autofree char *label
      = g_strdup_printf ("%s × %" G_GUINT64_FORMAT ", batch %" G_GUINT64_FORMAT
                         " × %" G_GUINT64_FORMAT " tokens",
                         point->machine, point->gpus, point->global_batch, point->seq);
  Progress progress = { request, label };
  SimSearchOptions options = {
    .keep = request->keep,
    .max_oom_risk = MAX (request->max_oom_risk, APP_NO_OOM_RISK),
    .jobs = request->jobs,
    .exhaustive = request->exhaustive,
    .balance_stages = TRUE,
    .progress = report_progress,
    .cancelled = ask_cancelled,
    .user_data = &progress,
  };

  if (!app_layout_from_text (&pins, problem, text, error)
      || !sim_space_init (&space, &problem->problem, &pins, sim_space_pins_of_text (text), error)
      || !sim_search (&problem->problem, &space, &options, &result, error))
    return FALSE;
  fill_point (point, problem, request, &result);
  if (!app_advise (point, problem, &options, &pins, sim_space_pins_of_text (text), error))
    return FALSE;
  *out_plays = app_plan_plays_start (point, problem, request, &result);
  return TRUE;
}

/* ---- the run in the database ---- */

static gboolean
finish_run (DbDatabase *db, const AppPlanResult *result, DbRunStatus status, const char *message,
            GError **error)
{
  DbRunCounts total = { .elapsed_s = NAN, .search_s = 0, .simulate_s = 0 };
  guint64 rejected[MODEL_LEGAL_N] = { 0 };
  DbRejectedRecord rows[MODEL_LEGAL_N];
  gsize n = 0;

  for (guint p = 0; p < result->points->len; p++) {
    const AppPlanPoint *point = g_ptr_array_index (result->points, p);

    total.legal_count += point->counts.legal_count;
    total.costed_count += point->counts.costed_count;
    total.exact_count += point->counts.exact_count;
    total.pruned_bound_count += point->counts.pruned_bound_count;
    total.pruned_risk_count += point->counts.pruned_risk_count;
    total.search_s += point->counts.search_s;
    total.simulate_s += point->counts.simulate_s;
    total.jobs_count = point->counts.jobs_count;
    for (guint i = 0; i < MODEL_LEGAL_N; i++)
      rejected[i] += point->rejected[i];
  }
  for (guint i = 0; i < MODEL_LEGAL_N; i++)
    if (i != MODEL_LEGAL && rejected[i] > 0)
      rows[n++] = (DbRejectedRecord){ model_legality_name ((ModelLegality)i), rejected[i] };
  return db_store_finish_run (db, result->run_id, status, message, &total, rows, n, error);
}

static DbDatabase *
begin_run (const AppPlanRequest *request, AppPlanResult *result, GError **error)
{
  g_autoptr (DbDatabase) db
      = db_database_open (request->db_path, DB_OPEN_READ_WRITE, &result->warning, error);
  DbRunRecord run
      = { .command = "plan", .inputs = result->inputs_json, .inputs_hash = result->hash };
  g_autofree char *note = NULL;

  if (db == NULL
      || !db_store_resume_search (db, result->hash, request->take_over, &result->run_id, &note,
                                  error))
    return NULL;
  if (note != NULL && request->note != NULL)
    request->note (note, request->user_data);
  result->resumed = result->run_id > 0;
  if (!result->resumed && !db_store_begin_search (db, &run, &result->run_id, error))
    return NULL;
  return g_steal_pointer (&db);
}

/* ---- the use case ---- */

/* A point whose plans are being played while the next one is searched. */
typedef struct {
  AppPlanPoint *point; /* (owned) (nullable) */
  AppPlanPlays *plays; /* (owned) (nullable) */
  gboolean found;      /* a stopped run has stored it already */
} Pending;

static void
pending_clear (Pending *pending)
{
  g_clear_pointer (&pending->plays, app_plan_plays_free);
  g_clear_pointer (&pending->point, app_plan_point_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Pending, pending_clear)

/* Searched, unless a stopped run has done it already. */
static gboolean
begin_point (Pending *pending, const AppProblem *problem, const AppPlanRequest *request,
             DbDatabase *db, AppPlanResult *result, GError **error)
{
  pending->point = app_plan_point_new (problem);
  if (result->resumed
      && !app_plan_point_load (pending->point, db, result->run_id, result->hash, &pending->found,
                               error))
    return FALSE;
  return pending->found || search_point (pending->point, problem, request, &pending->plays, error);
}

/* Waits for its plays, stores it and takes it into @result. */
static gboolean
finish_point (Pending *pending, DbDatabase *db, AppPlanResult *result, GError **error)
{
  if (pending->point == NULL)
    return TRUE;
  if (pending->plays != NULL && !app_plan_plays_finish (pending->plays, error))
    return FALSE;
  if (!pending->found && db != NULL
      && !app_plan_point_store (pending->point, db, result->run_id, result->hash, error))
    return FALSE;
  result->reused_count += pending->found;
  g_ptr_array_add (result->points, g_steal_pointer (&pending->point));
  pending_clear (pending);
  *pending = (Pending){ 0 };
  return TRUE;
}

/* A kill costs what is not stored: only points that are quick to search wait for the next one. */
#define QUICK_SEARCH_S 1

static gboolean
may_wait (const Pending *pending)
{
  return pending->plays != NULL && pending->point->counts.search_s < QUICK_SEARCH_S;
}

static gboolean
run_point (Pending *before, const AppProblem *problem, const AppPlanRequest *request,
           DbDatabase *db, AppPlanResult *result, GError **error)
{
  g_auto (Pending) pending = { 0 };
  g_autoptr (GError) local = NULL;
  gboolean done = begin_point (&pending, problem, request, db, result, &local);

  /* also where this one has been stopped or has failed */
  if (!finish_point (before, db, result, done ? &local : NULL))
    done = FALSE;
  if (!done) {
    g_propagate_error (error, g_steal_pointer (&local));
    return FALSE;
  }
  *before = pending;
  pending = (Pending){ 0 };
  return may_wait (before) || finish_point (before, db, result, error);
}

static gboolean
run_points (const AppPlanRequest *request, const AppPlanPoints *points, DbDatabase *db,
            AppPlanResult *result, GError **error)
{
  g_auto (Pending) pending = { 0 };
  g_autoptr (GError) local = NULL;
  gboolean done = TRUE;

  result->asked_count = points->problems->len;
  for (guint i = 0; done && i < points->problems->len; i++)
    done = run_point (&pending, g_ptr_array_index (points->problems, i), request, db, result,
                      &local);
  done = done && finish_point (&pending, db, result, &local);
  result->interrupted = g_error_matches (local, SIM_ERROR, SIM_ERROR_CANCELLED);
  if (done || result->interrupted)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&local));
  return FALSE;
}

/* A run is known by what was asked and by what the names in it stood for. */
static char *
run_hash (const AppPlanResult *result, const AppPlanPoints *points)
{
  GString *text = g_string_new (result->inputs_json);
  char *hash = NULL;

  for (guint i = 0; i < points->settings->len; i++) {
    const AppSetting *setting = g_ptr_array_index (points->settings, i);
    g_autofree char *model = model_arch_to_ini (setting->arch);
    g_autofree char *machine = app_record_machine_whole (setting->machine);
    g_autofree char *profile = model_profile_format (setting->profile);
    g_autofree char *calibration = cost_calibration_hash (setting->calibration);

    g_string_append_printf (text, "\n%s\n%s\n%g\n%s\n%s", model, machine,
                            setting->machine->price_usd_per_gpu_hour, profile, calibration);
  }
  hash = base_hash_text (text->str);
  g_string_free (text, TRUE);
  return hash;
}

AppPlanResult *
app_plan (const AppPlanRequest *request, GError **error)
{
  g_auto (AppPlanPoints) points = { 0 };
  g_autoptr (AppPlanResult) result = g_new0 (AppPlanResult, 1);
  g_autoptr (DbDatabase) db = NULL;
  g_autoptr (GError) local = NULL;

  result->points = g_ptr_array_new_with_free_func ((GDestroyNotify)app_plan_point_free);
  if (!app_plan_points_resolve (&points, request, error))
    return NULL;
  result->inputs_json = inputs_json (request);
  result->hash = run_hash (result, &points);
  if (request->db_path != NULL) {
    db = begin_run (request, result, error);
    if (db == NULL)
      return NULL;
  }
  if (!run_points (request, &points, db, result, &local)) {
    if (db != NULL)
      finish_run (db, result, DB_RUN_FAILED, local->message, NULL);
    g_propagate_error (error, g_steal_pointer (&local));
    return NULL;
  }
  if (db != NULL
      && !finish_run (db, result, result->interrupted ? DB_RUN_INTERRUPTED : DB_RUN_DONE, NULL,
                      error))
    return NULL;
  return g_steal_pointer (&result);
}
