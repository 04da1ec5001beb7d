/* app/plan_play.c - plays the best plans of a search point, while the next point is searched. */
#include "app/plan-private.h"

#include "app/simulate.h"

#include <math.h>
#include <stdatomic.h>

struct _AppPlanPlays {
  AppPlanPoint *point;           /* (borrowed) */
  const AppProblem *problem;     /* (borrowed) */
  const AppPlanRequest *request; /* (borrowed) */
  SimSearchResult result;        /* (owned) */
  guint n;                       /* plans to play */
  GError **errors;               /* (owned) of each */
  GThread **threads;             /* (owned) */
  guint n_threads;
  atomic_uint next;
  atomic_bool stopped;
  gint64 start_us;
  _Atomic gint64 end_us; /* of the thread that ended last */
};

/* ---- a thread ---- */

/* A plan that is too long to play keeps its prediction alone. */
static gboolean
play_plan (AppPlanPlays *plays, guint i)
{
  DbPlan *plan = g_ptr_array_index (plays->point->plans, i);
  const SimPlan *found = &plays->result.plans[i];

  if (app_simulated_s (plays->problem, &found->layout, &found->prediction,
                       &plan->plan.prediction.simulated_s, &plays->errors[i]))
    return TRUE;
  if (!g_error_matches (plays->errors[i], MODEL_ERROR, MODEL_ERROR_BAD_VALUE))
    return FALSE;
  g_clear_error (&plays->errors[i]);
  return TRUE;
}

static gboolean
is_cancelled (const AppPlanRequest *request)
{
  return request->cancelled != NULL && request->cancelled (request->user_data);
}

static gpointer
play_some (gpointer data)
{
  AppPlanPlays *plays = data;

  for (guint i = atomic_fetch_add (&plays->next, 1); i < plays->n && !atomic_load (&plays->stopped);
       i = atomic_fetch_add (&plays->next, 1)) {
    if (is_cancelled (plays->request))
      plays->errors[i] = g_error_new (SIM_ERROR, SIM_ERROR_CANCELLED, "the search was stopped");
    if (plays->errors[i] != NULL || !play_plan (plays, i))
      atomic_store (&plays->stopped, TRUE);
  }
  atomic_store (&plays->end_us, g_get_monotonic_time ());
  return NULL;
}

/* ---- order ---- */

static gint
compare_simulated (gconstpointer a, gconstpointer b)
{
  const DbPlanRecord *x = &(*(DbPlan *const *)a)->plan;
  const DbPlanRecord *y = &(*(DbPlan *const *)b)->plan;
  double x_s = x->prediction.simulated_s;
  double y_s = y->prediction.simulated_s;

  if (x_s != y_s)
    return x_s < y_s ? -1 : 1;
  return x->rank < y->rank ? -1 : x->rank > y->rank; /* by tier 2, then by layout */
}

/* Orders the first @n, all of them played, and numbers them anew. */
static void
rank_by_simulation (AppPlanPoint *point, guint n)
{
  for (guint i = 0; i < n; i++) {
    const DbPlan *plan = g_ptr_array_index (point->plans, i);

    if (!isfinite (plan->plan.prediction.simulated_s))
      n = i;
  }
  qsort (point->plans->pdata, n, sizeof (gpointer), compare_simulated);
  for (guint i = 0; i < n; i++)
    ((DbPlan *)g_ptr_array_index (point->plans, i))->plan.rank = i + 1;
}

/* ---- the whole ---- */

AppPlanPlays *
app_plan_plays_start (AppPlanPoint *point, const AppProblem *problem, const AppPlanRequest *request,
                      SimSearchResult *result)
{
  AppPlanPlays *plays = NULL;
  guint n = MIN (request->simulate, result->n_plans);

  if (n == 0)
    return NULL;
  plays = g_new0 (AppPlanPlays, 1);
  plays->point = point;
  plays->problem = problem;
  plays->request = request;
  plays->result = *result;
  *result = (SimSearchResult){ 0 };
  plays->n = n;
  plays->errors = g_new0 (GError *, n);
  plays->start_us = plays->end_us = g_get_monotonic_time ();
  plays->n_threads = MIN (n, MAX (request->jobs, 1));
  plays->threads = g_new0 (GThread *, plays->n_threads);
  for (guint i = 0; i < plays->n_threads; i++)
    plays->threads[i] = g_thread_new ("plait-play", play_some, plays);
  return plays;
}

static void
join (AppPlanPlays *plays)
{
  for (guint i = 0; i < plays->n_threads; i++)
    g_thread_join (plays->threads[i]);
  plays->n_threads = 0;
}

gboolean
app_plan_plays_finish (AppPlanPlays *plays, GError **error)
{
  join (plays);
  plays->point->counts.simulate_s = (double)(atomic_load (&plays->end_us) - plays->start_us) * 1e-6;
  for (guint i = 0; i < plays->n; i++)
    if (plays->errors[i] != NULL) {
      g_propagate_error (error, g_steal_pointer (&plays->errors[i]));
      return FALSE;
    }
  if (plays->request->rank_simulated)
    rank_by_simulation (plays->point, plays->n);
  return TRUE;
}

void
app_plan_plays_free (AppPlanPlays *plays)
{
  if (plays == NULL)
    return;
  join (plays);
  for (guint i = 0; i < plays->n; i++)
    g_clear_error (&plays->errors[i]);
  sim_search_result_clear (&plays->result);
  g_free (plays->errors);
  g_free (plays->threads);
  g_free (plays);
}
