/* app/plan_rank.c - ordering search points. */
#include "app/plan_rank.h"

#include "app/error.h"

#include <math.h>

static const char *const objective_names[] = {
  [APP_OBJECTIVE_TIME] = "time",
  [APP_OBJECTIVE_COST] = "cost",
  [APP_OBJECTIVE_TOKENS_PER_DOLLAR] = "tokens-per-dollar",
  [APP_OBJECTIVE_GPUS] = "gpus",
  [APP_OBJECTIVE_N_KINDS] = NULL,
};

#define REFERENCE_TOKENS 1e12 /* what time and cost are for where no total is given */

const char *
app_objective_name (AppObjective objective)
{
  g_return_val_if_fail ((guint)objective < APP_OBJECTIVE_N_KINDS, "?");
  return objective_names[objective];
}

gboolean
app_objective_parse (const char *text, AppObjective *out, GError **error)
{
  for (guint i = 0; i < APP_OBJECTIVE_N_KINDS; i++)
    if (g_str_equal (objective_names[i], text)) {
      *out = (AppObjective)i;
      return TRUE;
    }
  g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
               "found '%s', expected time, cost, tokens-per-dollar or gpus", text);
  return FALSE;
}

static AppRanked
judge (const AppPlanPoint *point, const AppRankRequest *request)
{
  const DbPlan *best = g_ptr_array_index (point->plans, 0);
  double tokens = request->tokens > 0 ? request->tokens : REFERENCE_TOKENS;
  AppRanked ranked = { .point = point };
  double usd_per_s = point->usd_per_gpu_h * (double)point->gpus / 3600;

  ranked.tokens_per_s = best->plan.prediction.tokens_per_s_per_gpu * (double)point->gpus;
  ranked.time_s = tokens / ranked.tokens_per_s;
  ranked.cost_usd = ranked.time_s * usd_per_s;
  ranked.tokens_per_usd = usd_per_s > 0 ? ranked.tokens_per_s / usd_per_s : NAN;
  ranked.meets_deadline = ranked.time_s <= request->deadline_s;
  return ranked;
}

/* ---- order ---- */

static gint
compare (double a, double b)
{
  return a < b ? -1 : a > b;
}

/* Numbers that are not known come last. */
static gint
compare_known (double a, double b)
{
  if (isnan (a) || isnan (b))
    return (isnan (a) ? 1 : 0) - (isnan (b) ? 1 : 0);
  return compare (a, b);
}

static gint
compare_objective (const AppRanked *a, const AppRanked *b, AppObjective objective)
{
  switch (objective) {
  case APP_OBJECTIVE_COST:
    return compare_known (a->cost_usd, b->cost_usd);
  case APP_OBJECTIVE_TOKENS_PER_DOLLAR:
    return compare_known (-a->tokens_per_usd, -b->tokens_per_usd);
  case APP_OBJECTIVE_GPUS:
    return compare ((double)a->point->gpus, (double)b->point->gpus);
  default:
    return compare (a->time_s, b->time_s);
  }
}

/* The whole order: nothing is left to how the sort works. */
static gint
compare_ranked (gconstpointer first, gconstpointer second, gpointer request)
{
  const AppRanked *a = first;
  const AppRanked *b = second;
  gint order = b->meets_deadline - a->meets_deadline;

  if (order == 0)
    order = compare_objective (a, b, ((const AppRankRequest *)request)->objective);
  if (order == 0)
    order = compare (a->time_s, b->time_s);
  if (order == 0)
    order = compare ((double)a->point->gpus, (double)b->point->gpus);
  if (order == 0)
    order = g_strcmp0 (a->point->machine, b->point->machine);
  if (order == 0)
    order = compare ((double)a->point->global_batch, (double)b->point->global_batch);
  return order != 0 ? order : compare ((double)a->point->seq, (double)b->point->seq);
}

/* ---- the front ---- */

/* Is @a no worse than @b in all, and better in one? Unknown prices compare as equal. */
static gboolean
dominates (const AppRanked *a, const AppRanked *b)
{
  gint orders[]
      = { compare (a->time_s, b->time_s), compare ((double)a->point->gpus, (double)b->point->gpus),
          isnan (a->cost_usd) || isnan (b->cost_usd) ? 0 : compare (a->cost_usd, b->cost_usd) };
  gboolean better = FALSE;

  for (guint i = 0; i < G_N_ELEMENTS (orders); i++) {
    if (orders[i] > 0)
      return FALSE;
    better = better || orders[i] < 0;
  }
  return better;
}

static void
mark_front (GArray *ranked)
{
  for (guint i = 0; i < ranked->len; i++) {
    AppRanked *one = &g_array_index (ranked, AppRanked, i);

    one->is_pareto = one->meets_deadline;
    for (guint j = 0; j < ranked->len && one->is_pareto; j++) {
      const AppRanked *other = &g_array_index (ranked, AppRanked, j);

      one->is_pareto = !(other->meets_deadline && dominates (other, one));
    }
  }
}

GArray *
app_plan_rank (const AppPlanResult *result, const AppRankRequest *request)
{
  GArray *ranked = g_array_new (FALSE, FALSE, sizeof (AppRanked));

  for (guint i = 0; i < result->points->len; i++) {
    const AppPlanPoint *point = g_ptr_array_index (result->points, i);

    if (point->plans->len > 0) {
      AppRanked one = judge (point, request);

      g_array_append_val (ranked, one);
    }
  }
  g_array_sort_with_data (ranked, compare_ranked, (gpointer)request);
  mark_front (ranked);
  return ranked;
}
