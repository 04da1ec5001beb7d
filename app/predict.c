/* app/predict.c - one layout, one prediction. */
#include "app/predict.h"

#include <json-glib/json-glib.h>

DbPlan *
app_predict (const AppPredictRequest *request, GError **error)
{
  g_auto (AppSetting) setting = { 0 };
  g_auto (ModelLayout) layout = { 0 };
  g_auto (CostPrediction) prediction = { 0 };
  AppProblem problem;

  if (!app_setting_init (&setting, &request->inputs, error)
      || !app_problem_init (&problem, &setting, request->gpus, request->global_batch, request->seq,
                            error)
      || !app_layout_from_text (&layout, &problem, request->layout != NULL ? request->layout : "",
                                error)
      || !model_layout_resolve (&layout, setting.arch, &problem.job, setting.profile,
                                problem.problem.gpus, error)
      || !cost_predict (&problem.problem, &layout, &prediction, error))
    return NULL;
  return app_record_plan (&problem, &layout, &prediction, 1);
}

static char *
inputs_json (const AppInputs *asked, const DbPlan *plan)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;
  const struct {
    const char *key, *value;
  } texts[] = { { "model", asked->model },
                { "machine", asked->machine },
                { "gpu", asked->gpu != NULL ? asked->gpu : "" },
                { "what_if", asked->what_if != NULL ? asked->what_if : "" },
                { "profile", asked->profile != NULL ? asked->profile : "megatron" },
                { "calibration", plan->calibration.name },
                { "layout", plan->plan.layout_text } };
  const struct {
    const char *key;
    gint64 value;
  } counts[] = { { "gpus", plan->plan.gpus },
                 { "global_batch", plan->plan.global_batch },
                 { "seq", plan->plan.seq } };

  json_builder_begin_object (builder);
  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++) {
    json_builder_set_member_name (builder, texts[i].key);
    json_builder_add_string_value (builder, texts[i].value);
  }
  for (gsize i = 0; i < G_N_ELEMENTS (counts); i++) {
    json_builder_set_member_name (builder, counts[i].key);
    json_builder_add_int_value (builder, counts[i].value);
  }
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  return json_to_string (root, FALSE);
}

gboolean
app_predict_store (const AppPredictRequest *request, DbPlan *plan, const char *db_path,
                   GError **error)
{
  g_autoptr (DbDatabase) db = db_database_open (db_path, DB_OPEN_READ_WRITE, NULL, error);
  g_autofree char *inputs = NULL;
  DbRunRecord run = { .command = "predict", .status = DB_RUN_DONE };

  if (db == NULL || !app_record_store_inputs (db, plan, error))
    return FALSE;
  inputs = inputs_json (&request->inputs, plan);
  run.inputs = inputs;
  return db_store_whole_run (db, &run, &plan->plan, 1, NULL, 0, &plan->plan.run_id,
                             &plan->plan.plan_id, error);
}
