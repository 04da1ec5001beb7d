/* sim/search.c - threads, merging, and the full prediction of what is reported. */
#include "sim/search.h"

#include "sim/worker-private.h"

#include <math.h>

static gpointer
run_thread (gpointer data)
{
  sim_worker_run (data);
  return NULL;
}

static void
run_workers (SimWorker *workers, guint n)
{
  g_autofree GThread **threads = g_new0 (GThread *, n);

  for (guint i = 1; i < n; i++)
    threads[i] = g_thread_new ("plait-search", run_thread, &workers[i]);
  sim_worker_run (&workers[0]);
  for (guint i = 1; i < n; i++)
    g_thread_join (threads[i]);
}

static void
merge_counts (SimSearchResult *out, const SimWorker *workers, guint n)
{
  for (guint i = 0; i < n; i++) {
    out->legal_count += workers[i].legal_count;
    out->too_risky_count += workers[i].too_risky_count;
    out->tier1_count += workers[i].tier1_count;
    out->tier2_count += workers[i].tier2_count;
    out->templates_count += workers[i].templates_count;
    for (guint r = 0; r < MODEL_LEGAL_N; r++)
      out->rejected[r] += workers[i].rejected[r];
  }
}

/* Whole copies: the workers' lists go with the workers. */
static gboolean
fill_plans (SimSearchResult *out, const CostProblem *problem, const SimTopK *top, GError **error)
{
  out->plans = g_new0 (SimPlan, MAX (top->n, 1));
  for (guint i = 0; i < top->n; i++) {
    SimPlan *plan = &out->plans[i];

    model_layout_copy (&plan->layout, &top->items[i].layout);
    out->n_plans++;
    if (!cost_predict (problem, &plan->layout, &plan->prediction, error))
      return FALSE;
  }
  return TRUE;
}

static gint
compare_near (gconstpointer a, gconstpointer b)
{
  const SimNear *x = a;
  const SimNear *y = b;

  if (x->need_bytes != y->need_bytes)
    return x->need_bytes < y->need_bytes ? -1 : 1;
  return sim_layout_compare (&x->layout, &y->layout);
}

static void
fill_misses (SimSearchResult *out, const SimWorker *workers, guint n)
{
  g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (SimNear));

  for (guint i = 0; i < n; i++)
    g_array_append_vals (all, workers[i].near, workers[i].n_near);
  g_array_sort (all, compare_near);
  out->misses = g_new0 (SimMiss, SIM_MAX_MISSES);
  for (guint i = 0; i < MIN (all->len, SIM_MAX_MISSES); i++) {
    const SimNear *near = &g_array_index (all, SimNear, i);

    model_layout_copy (&out->misses[i].layout, &near->layout);
    out->misses[i].bound = near->bound;
    out->n_misses++;
  }
}

static gboolean
collect (SimSearchResult *out, const CostProblem *problem, const SimSpace *space,
         const SimSearchOptions *options, SimWorker *workers, GError **error)
{
  SimTopK top;
  gboolean done = FALSE;

  merge_counts (out, workers, options->jobs);
  out->rejected[MODEL_ILLEGAL_STAGES] += space->refused_stages * space->templates->len;
  sim_topk_init (&top, options->keep);
  for (guint i = 0; i < options->jobs; i++)
    for (guint k = 0; k < workers[i].top.n; k++)
      sim_topk_offer (&top, &workers[i].top.items[k]);
  sim_topk_sort (&top);
  done = fill_plans (out, problem, &top, error);
  sim_topk_clear (&top);
  if (done && out->n_plans == 0)
    fill_misses (out, workers, options->jobs);
  return done;
}

static gboolean
check_size (const SimSpace *space, guint64 limit, GError **error)
{
  guint64 size = (guint64) space->templates->len * space->pipelines->len * space->zero->len;

  if (limit == 0 || size <= limit)
    return TRUE;
  g_set_error (error, SIM_ERROR, SIM_ERROR_SPACE,
               "the space has %" G_GUINT64_FORMAT " layouts, above the limit of %" G_GUINT64_FORMAT
               ": pin some keys or raise --limit", size, limit);
  return FALSE;
}

gboolean
sim_search (const CostProblem *problem, const SimSpace *space, const SimSearchOptions *options,
            SimSearchResult *out, GError **error)
{
  SimShared shared = { .problem = problem, .space = space, .options = options };
  g_autofree SimWorker *workers = NULL;
  gint64 start_us = g_get_monotonic_time ();
  gboolean done = FALSE;

  *out = (SimSearchResult){ 0 };
  if (!check_size (space, options->limit, error))
    return FALSE;
  atomic_init (&shared.threshold_s, INFINITY);
  g_mutex_init (&shared.lock);
  workers = g_new0 (SimWorker, options->jobs);
  for (guint i = 0; i < options->jobs; i++)
    sim_worker_init (&workers[i], &shared);
  run_workers (workers, options->jobs);
  if (shared.error != NULL)
    g_propagate_error (error, shared.error);
  else
    done = collect (out, problem, space, options, workers, error);
  for (guint i = 0; i < options->jobs; i++)
    sim_worker_clear (&workers[i]);
  g_mutex_clear (&shared.lock);
  out->elapsed_s = (double) (g_get_monotonic_time () - start_us) * 1e-6;
  if (!done)
    sim_search_result_clear (out);
  return done;
}

void
sim_search_result_clear (SimSearchResult *result)
{
  if (result == NULL)
    return;
  for (guint i = 0; i < result->n_plans; i++) {
    model_layout_clear (&result->plans[i].layout);
    cost_prediction_clear (&result->plans[i].prediction);
  }
  for (guint i = 0; i < result->n_misses; i++)
    model_layout_clear (&result->misses[i].layout);
  g_clear_pointer (&result->plans, g_free);
  g_clear_pointer (&result->misses, g_free);
  result->n_plans = 0;
  result->n_misses = 0;
}
