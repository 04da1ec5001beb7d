/* sim/search.c - threads, merging, and the full prediction of what is reported. */
#include "sim/search.h"

#include "sim/worker-private.h"

#include <math.h>

/* ---- threads ---- */

static gpointer
run_worker (gpointer worker)
{
  sim_worker_run (worker);
  return NULL;
}

static gpointer
rank_families (gpointer worker)
{
  sim_worker_rank (worker);
  return NULL;
}

static gpointer
run_exact (gpointer exact)
{
  sim_exact_run (exact);
  return NULL;
}

/* Runs @n times @function at once, on data @stride bytes apart, the first on the calling thread. */
static void
run_threads (GThreadFunc function, gpointer data, gsize stride, guint n)
{
  g_autofree GThread **threads = g_new0 (GThread *, n);

  for (guint i = 1; i < n; i++)
    threads[i] = g_thread_new ("plait-search", function, (char *)data + i * stride);
  function (data);
  for (guint i = 1; i < n; i++)
    g_thread_join (threads[i]);
}

/* ---- merging ---- */

static void
merge_counts (SimSearchResult *out, const SimWorker *workers, guint n)
{
  for (guint i = 0; i < n; i++) {
    out->legal_count += workers[i].counts.legal_count;
    out->too_risky_count += workers[i].too_risky_count;
    out->tier1_count += workers[i].tier1_count;
    out->templates_count += workers[i].templates_count;
    for (guint r = 0; r < MODEL_LEGAL_N; r++)
      out->rejected[r] += workers[i].counts.rejected[r];
  }
}

static gint
compare_pending (gconstpointer a, gconstpointer b)
{
  const SimCandidate *x = a;
  const SimCandidate *y = b;

  if (x->lower_bound_s != y->lower_bound_s)
    return x->lower_bound_s < y->lower_bound_s ? -1 : 1;
  return sim_layout_compare (&x->layout, &y->layout);
}

static GArray *
merge_pending (const SimWorker *workers, guint n, double *out_least_dropped_s)
{
  GArray *pending = g_array_new (FALSE, FALSE, sizeof (SimCandidate));

  *out_least_dropped_s = INFINITY;
  for (guint i = 0; i < n; i++) {
    g_array_append_vals (pending, workers[i].pending->data, workers[i].pending->len);
    *out_least_dropped_s = fmin (*out_least_dropped_s, workers[i].least_dropped_s);
  }
  g_array_sort (pending, compare_pending);
  return pending;
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
check_size (const SimSpace *space, guint64 limit, GError **error)
{
  guint64 size = sim_space_size (space);

  if (limit == 0 || size <= limit)
    return TRUE;
  g_set_error (error, SIM_ERROR, SIM_ERROR_SPACE,
               "the space has %" G_GUINT64_FORMAT " layouts, above the limit of %" G_GUINT64_FORMAT
               ": pin some keys or raise --limit",
               size, limit);
  return FALSE;
}

static int
compare_ranked (const void *a, const void *b)
{
  const SimRanked *x = a;
  const SimRanked *y = b;

  if (x->guess_s != y->guess_s)
    return x->guess_s < y->guess_s ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

/* Tier 1 of all threads: families ranked by what they may reach, then visited. */
static void
run_tier1 (SimShared *shared, SimWorker *workers)
{
  guint jobs = shared->options->jobs;

  atomic_store (&shared->next, 0);
  atomic_store (&shared->done, 0);
  run_threads (rank_families, workers, sizeof *workers, jobs);
  qsort (shared->ranked, shared->space->families->len, sizeof *shared->ranked, compare_ranked);
  atomic_store (&shared->next, 0);
  atomic_store (&shared->threshold_s, INFINITY);
  run_threads (run_worker, workers, sizeof *workers, jobs);
}

/*
 * Both tiers once. *out_complete: no candidate that tier 1 let go could have been among the K best;
 * else the same again, with all that is no slower than *out_most_s, will tell.
 */
static gboolean
search_once (SimShared *shared, double slack_ratio, double most_s, SimSearchResult *out,
             gboolean *out_complete, double *out_most_s, GError **error)
{
  guint jobs = shared->options->jobs;
  g_autofree SimWorker *workers = g_new0 (SimWorker, jobs);
  g_autoptr (GArray) pending = NULL;
  double least_dropped_s = INFINITY;
  SimExact exact;

  for (guint i = 0; i < jobs; i++)
    sim_worker_init (&workers[i], shared, slack_ratio, most_s);
  run_tier1 (shared, workers);
  merge_counts (out, workers, jobs);
  pending = merge_pending (workers, jobs, &least_dropped_s);
  sim_exact_init (&exact, shared, pending);
  atomic_store (&shared->next, 0);
  run_threads (run_exact, &exact, 0, jobs);
  *out_most_s = sim_exact_threshold_s (&exact);
  *out_complete = least_dropped_s > *out_most_s || isinf (least_dropped_s);
  out->tier2_count += exact.tier2_count;
  if (shared->error == NULL && *out_complete) {
    out->n_plans = exact.plans->len;
    out->plans = g_memdup2 (exact.plans->data, MAX (exact.plans->len, 1) * sizeof (SimPlan));
    g_array_set_size (exact.plans, 0);
    if (out->n_plans == 0)
      fill_misses (out, workers, jobs);
  }
  sim_exact_clear (&exact);
  for (guint i = 0; i < jobs; i++)
    sim_worker_clear (&workers[i]);
  if (shared->error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&shared->error));
  return FALSE;
}

/* Exact steps are this much longer than their bounds, mostly; where one is not, a second search
 * follows. */
#define SLACK_RATIO 0.01

/* What ranking prices is kept for the visit up to this; beyond, it is priced again. */
#define MOST_PRICED_BYTES (64u << 20)

/* At most. */
static guint64
priced_bytes (const SimSpace *space)
{
  return (guint64)space->families->len
         * (sizeof (SimPriced) + sizeof (CostTemplate) + space->pipelines->len * sizeof (SimShape));
}

static void
priced_new (SimShared *shared)
{
  guint n = shared->space->families->len;

  shared->priced = g_new0 (SimPriced, MAX (n, 1));
  shared->templates = g_new (CostTemplate, MAX (n, 1));
  for (guint i = 0; i < n; i++)
    shared->priced[i].tmpl = &shared->templates[i];
}

static void
priced_free (SimShared *shared)
{
  for (guint i = 0; shared->priced != NULL && i < shared->space->families->len; i++)
    g_free (shared->priced[i].shapes);
  g_free (shared->priced);
  g_free (shared->templates);
}

gboolean
sim_search (const CostProblem *problem, const SimSpace *space, const SimSearchOptions *options,
            SimSearchResult *out, GError **error)
{
  SimShared shared = { .problem = problem, .space = space, .options = options };
  gint64 start_us = g_get_monotonic_time ();
  gboolean done = check_size (space, options->limit, error);
  gboolean complete = FALSE;
  double slack_ratio = SLACK_RATIO;
  double most_s = INFINITY;

  *out = (SimSearchResult){ 0 };
  g_mutex_init (&shared.lock);
  shared.skips_unfit = !options->exhaustive;
  shared.ranked = g_new0 (SimRanked, MAX (space->families->len, 1));
  if (!options->exhaustive && priced_bytes (space) <= MOST_PRICED_BYTES)
    priced_new (&shared);
  while (done && !complete) {
    sim_search_result_clear (out);
    *out = (SimSearchResult){ .tier2_count = out->tier2_count };
    done = search_once (&shared, slack_ratio, most_s, out, &complete, &most_s, error);
    slack_ratio = INFINITY;
    /* nothing fits: what came nearest is asked for, and must be looked at */
    if (done && complete && out->n_plans == 0 && atomic_load (&shared.unfit_skipped)) {
      shared.skips_unfit = FALSE;
      atomic_store (&shared.unfit_skipped, FALSE);
      complete = FALSE;
    }
  }
  g_mutex_clear (&shared.lock);
  g_free (shared.ranked);
  priced_free (&shared);
  out->rejected[MODEL_ILLEGAL_STAGES]
      += space->refused_stages * space->families->len * space->recomputes->len;
  out->elapsed_s = (double)(g_get_monotonic_time () - start_us) * 1e-6;
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
