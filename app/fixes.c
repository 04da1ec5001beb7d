/* app/fixes.c - variants of a layout, each predicted. */
#include "app/fixes.h"

#include "app/stored.h"

#define WORTH_FIXING 0.001 /* risk below which nothing is said */

typedef struct {
  const AppProblem *problem;
  const ModelLayout *layout;
  const CostPrediction *before;
  GPtrArray *fixes;
} Work;

static void
fix_free (gpointer data)
{
  AppFix *fix = data;

  g_free (fix->what);
  g_free (fix->layout_text);
  g_free (fix);
}

/* Predicts @layout with @profile and keeps it if the risk falls. Layouts that are not legal are
 * no fixes. */
static void
consider (Work *work, const char *what, ModelLayout *layout, const ModelProfile *profile)
{
  CostProblem problem = work->problem->problem;
  g_auto (CostPrediction) after = { 0 };
  AppFix *fix = NULL;

  problem.profile = profile;
  if (model_layout_check (problem.arch, problem.job, layout, profile, problem.gpus) != MODEL_LEGAL
      || !cost_predict (&problem, layout, &after, NULL)
      || !(after.oom_risk < work->before->oom_risk - 1e-4))
    return;
  fix = g_new0 (AppFix, 1);
  fix->layout_text = model_layout_format (layout, profile);
  fix->what = g_strdup (what);
  fix->step_s = after.step_s;
  fix->cost_ratio = after.step_s / work->before->step_s - 1;
  fix->oom_risk = after.oom_risk;
  fix->peak_bytes = after.stages[after.fullest_stage].memory.peak_bytes;
  g_ptr_array_add (work->fixes, fix);
}

static ModelLayout
copy_of (const ModelLayout *layout)
{
  ModelLayout copy = *layout; /* what it points at stays the original's */

  return copy;
}

/* A degree doubled, its ranks taken from data parallelism. */
static void
consider_degree (Work *work, const char *key, gsize offset)
{
  ModelLayout layout = copy_of (work->layout);
  guint32 *degree = G_STRUCT_MEMBER_P (&layout, offset);
  g_autofree char *what = NULL;

  if (layout.dp % 2 != 0)
    return;
  *degree *= 2;
  layout.dp /= 2;
  if (layout.pp != work->layout->pp) { /* stages as balanced, chunks as before where they divide */
    layout.stage_layers = NULL;
    if (layout.pp > 1 && work->layout->pp == 1)
      layout.vpp = 1;
  }
  layout.sp = layout.sp || (layout.tp > 1 && work->layout->tp == 1);
  what = g_strdup_printf ("%s=%u,dp=%u", key, *degree, layout.dp);
  consider (work, what, &layout, work->problem->problem.profile);
}

static void
consider_degrees (Work *work)
{
  static const struct {
    const char *key;
    gsize offset;
  } degrees[] = { { "tp", G_STRUCT_OFFSET (ModelLayout, tp) },
                  { "pp", G_STRUCT_OFFSET (ModelLayout, pp) },
                  { "cp", G_STRUCT_OFFSET (ModelLayout, cp) } };
  const ModelProfile *profile = work->problem->problem.profile;
  ModelLayout layout = copy_of (work->layout);
  g_autofree char *mbs = NULL;

  for (gsize i = 0; i < G_N_ELEMENTS (degrees); i++)
    consider_degree (work, degrees[i].key, degrees[i].offset);
  if (layout.mbs > 1 && layout.mbs % 2 == 0) {
    layout.mbs /= 2;
    mbs = g_strdup_printf ("mbs=%u", layout.mbs);
    consider (work, mbs, &layout, profile);
  }
  layout = copy_of (work->layout);
  if (layout.tp > 1 && !layout.sp) {
    layout.sp = TRUE;
    consider (work, "sp=1", &layout, profile);
  }
}

static void
consider_words (Work *work)
{
  static const char *const words[] = {
    "recompute=selective",         "recompute=selective:layernorm",     "recompute=selective:mlp",
    "recompute=selective:moe_act", "recompute=selective:core_attn+mlp", "recompute=full"
  };
  const ModelProfile *profile = work->problem->problem.profile;

  if (work->layout->recompute.kind == MODEL_RECOMPUTE_FULL)
    return;
  for (gsize i = 0; i < G_N_ELEMENTS (words); i++) {
    g_auto (ModelLayout) parsed = { 0 };
    ModelLayout layout = copy_of (work->layout);

    if (!model_layout_parse (&parsed, words[i], profile, NULL))
      continue;
    layout.recompute = parsed.recompute;
    consider (work, words[i], &layout, profile);
  }
}

static void
consider_sharding (Work *work)
{
  for (guint zero = work->layout->zero + 1; zero <= 3 && work->layout->dp > 1; zero++) {
    ModelLayout layout = copy_of (work->layout);
    g_autofree char *what = g_strdup_printf ("zero=%u", zero);

    layout.zero = (guint8)zero;
    consider (work, what, &layout, work->problem->problem.profile);
  }
}

static void
consider_switches (Work *work)
{
  ModelProfile grows = *work->problem->problem.profile, offloads = grows;
  ModelLayout layout = copy_of (work->layout);

  grows.expandable_segments = TRUE;
  offloads.offloads_optimizer = TRUE;
  if (!work->problem->problem.profile->expandable_segments)
    consider (work, "expandable segments", &layout, &grows);
  if (!work->problem->problem.profile->offloads_optimizer)
    consider (work, "optimizer on the host", &layout, &offloads);
}

static gint
cheapest_first (gconstpointer a, gconstpointer b)
{
  const AppFix *x = *(const AppFix *const *)a, *y = *(const AppFix *const *)b;

  if (x->step_s != y->step_s)
    return x->step_s < y->step_s ? -1 : 1;
  if (x->oom_risk != y->oom_risk)
    return x->oom_risk < y->oom_risk ? -1 : 1;
  return g_strcmp0 (x->what, y->what);
}

static GPtrArray *
find_fixes (const AppSetting *setting, const AppPredictRequest *request, GError **error)
{
  g_auto (ModelLayout) layout = { 0 };
  g_auto (CostPrediction) before = { 0 };
  g_autoptr (GPtrArray) fixes = g_ptr_array_new_with_free_func (fix_free);
  AppProblem problem;
  Work work = { &problem, &layout, &before, fixes };

  if (!app_problem_init (&problem, setting, request->gpus, request->global_batch, request->seq,
                         error)
      || !app_layout_from_text (&layout, &problem, request->layout != NULL ? request->layout : "",
                                error)
      || !model_layout_resolve (&layout, setting->arch, &problem.job, setting->profile,
                                problem.problem.gpus, error)
      || !cost_predict (&problem.problem, &layout, &before, error))
    return NULL;
  if (before.oom_risk < WORTH_FIXING)
    return g_steal_pointer (&fixes);
  consider_words (&work);
  consider_degrees (&work);
  consider_sharding (&work);
  consider_switches (&work);
  g_ptr_array_sort (fixes, cheapest_first);
  return g_steal_pointer (&fixes);
}

GPtrArray *
app_fixes (const AppPredictRequest *request, GError **error)
{
  g_auto (AppSetting) setting = { 0 };

  return app_setting_init (&setting, &request->inputs, error)
             ? find_fixes (&setting, request, error)
             : NULL;
}

GPtrArray *
app_fixes_of_plan (DbPlan *plan, const char *catalog_dir, const char *db_path, GError **error)
{
  g_auto (AppSetting) setting = { 0 };
  AppPredictRequest request = {
    .inputs = { .catalog_dir = catalog_dir, .db_path = db_path, .dropout = -1 },
    .gpus = (guint64)plan->plan.gpus,
    .global_batch = (guint64)plan->plan.global_batch,
    .seq = (guint64)plan->plan.seq,
    .layout = plan->plan.layout_text,
  };

  app_stored_inputs (plan, db_path, 0, &request.inputs);
  return app_setting_init (&setting, &request.inputs, error)
                 && app_stored_plan_is_of_machine (plan, setting.machine, "", error)
             ? find_fixes (&setting, &request, error)
             : NULL;
}
