/* app/sensitivity.c - one more prediction per resource. */
#include "app/sensitivity.h"

#include "topo/change.h"

#define FACTOR 1.1

typedef struct {
  const AppInputs *inputs;
  guint64 gpus, global_batch, seq;
  const char *layout;
} Question;

static gboolean
predict (const Question *q, const TopoChanges *changes, CostPrediction *out, GError **error)
{
  g_auto (AppSetting) setting = { 0 };
  g_auto (ModelLayout) layout = { 0 };
  AppInputs inputs = *q->inputs;
  AppProblem problem;

  inputs.changes = changes;
  return app_setting_init (&setting, &inputs, error)
         && app_problem_init (&problem, &setting, q->gpus, q->global_batch, q->seq, error)
         && app_layout_from_text (&layout, &problem, q->layout, error)
         && model_layout_resolve (&layout, setting.arch, &problem.job, setting.profile,
                                  problem.problem.gpus, error)
         && cost_predict (&problem.problem, &layout, out, error);
}

static gint
compare_saving (gconstpointer a, gconstpointer b)
{
  double x = ((const AppSensitivity *)a)->saved_ratio;
  double y = ((const AppSensitivity *)b)->saved_ratio;

  return x > y ? -1 : x < y;
}

GArray *
app_sensitivity (const AppInputs *inputs, guint64 gpus, guint64 global_batch, guint64 seq,
                 const char *layout, GError **error)
{
  const Question q = { inputs, gpus, global_batch, seq, layout };
  g_autoptr (GArray) rows = g_array_new (FALSE, FALSE, sizeof (AppSensitivity));
  g_auto (CostPrediction) now = { 0 };
  TopoChanges base = { 0 };

  if ((inputs->what_if != NULL && !topo_changes_parse (&base, inputs->what_if, error))
      || !predict (&q, &base, &now, error))
    return NULL;
  for (guint resource = 0; resource < TOPO_RESOURCE_PRICE; resource++) {
    g_auto (CostPrediction) more = { 0 };
    TopoChanges changes = base;
    AppSensitivity row = { .resource = topo_resource_name ((TopoResource)resource) };

    topo_changes_scale (&changes, (TopoResource)resource, FACTOR);
    if (!predict (&q, &changes, &more, NULL))
      continue; /* no such resource there */
    row.step_s = more.step_s;
    row.saved_ratio = 1 - more.step_s / now.step_s;
    row.oom_risk = more.oom_risk;
    g_array_append_val (rows, row);
  }
  g_array_sort (rows, compare_saving);
  return g_steal_pointer (&rows);
}
