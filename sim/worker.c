/* sim/worker.c - a thread: takes families, and keeps the candidates that may be among the K best. */
#include "sim/worker-private.h"

#include <math.h>
#include <string.h>

#define N_PLACED        512 /* 8.6 kB each */
#define LEAST_COMPACTED 4096

void
sim_worker_init (SimWorker *worker, SimShared *shared, double slack_ratio, double most_s)
{
  guint32 layers = shared->problem->arch->layers;

  *worker = (SimWorker){ .shared = shared,
                         .least_dropped_s = INFINITY,
                         .slack_ratio = slack_ratio,
                         .most_s = most_s,
                         .compact_at = LEAST_COMPACTED };
  worker->layer_s = g_new (double, layers);
  worker->balanced = g_new (guint32, layers);
  worker->most_layers = g_new (guint32, layers);
  worker->pipelines = sim_uneven_table_new ();
  worker->pending = g_array_new (FALSE, FALSE, sizeof (SimCandidate));
  worker->shapes = g_array_new (FALSE, FALSE, sizeof (SimShape));
  worker->own_tmpl = g_new (CostTemplate, 1);
  worker->gemm_memo = cost_gemm_memo_new ();
  worker->placed = g_new0 (SimPlaced, N_PLACED);
  worker->placements = g_new (CostPlacement, N_PLACED);
  sim_topk_init (&worker->estimates, shared->options->keep);
}

void
sim_worker_clear (SimWorker *worker)
{
  g_clear_pointer (&worker->layer_s, g_free);
  g_clear_pointer (&worker->balanced, g_free);
  g_clear_pointer (&worker->most_layers, g_free);
  g_clear_pointer (&worker->pipelines, g_hash_table_unref);
  g_clear_pointer (&worker->pending, g_array_unref);
  g_clear_pointer (&worker->shapes, g_array_unref);
  g_clear_pointer (&worker->placed, g_free);
  g_clear_pointer (&worker->placements, g_free);
  g_clear_pointer (&worker->own_tmpl, g_free);
  g_clear_pointer (&worker->gemm_memo, cost_gemm_memo_free);
  sim_topk_clear (&worker->estimates);
}

void
sim_shared_fail (SimShared *shared, GError *error)
{
  g_mutex_lock (&shared->lock);
  if (shared->error == NULL)
    shared->error = error;
  else
    g_error_free (error);
  g_mutex_unlock (&shared->lock);
  atomic_store (&shared->stop, TRUE);
}

/* ---- candidates ---- */

/* Bounds above the K-th best estimate will hardly win; search.c finds out if one might. Any
 * thread's K-th best is above the K-th best of all. */
static double
worth_keeping_s (const SimWorker *worker)
{
  double threshold_s = atomic_load_explicit (&worker->shared->threshold_s, memory_order_relaxed);

  return MIN (threshold_s * (1 + worker->slack_ratio), worker->most_s);
}

static void
lower_threshold (SimWorker *worker)
{
  double own_s = sim_topk_threshold_s (&worker->estimates);
  double best_s = atomic_load_explicit (&worker->shared->threshold_s, memory_order_relaxed);

  while (own_s < best_s
         && !atomic_compare_exchange_weak (&worker->shared->threshold_s, &best_s, own_s))
    ;
}

gboolean
sim_worker_prunes (SimWorker *worker, double least_s)
{
  if (worker->shared->options->exhaustive || !(least_s > worth_keeping_s (worker)))
    return FALSE;
  worker->least_dropped_s = fmin (worker->least_dropped_s, least_s);
  return TRUE;
}

/* Forgets pending candidates that later, better estimates have made hopeless. */
static void
compact (SimWorker *worker)
{
  double limit_s = worth_keeping_s (worker);
  guint kept = 0;

  for (guint i = 0; i < worker->pending->len; i++) {
    const SimCandidate *candidate = &g_array_index (worker->pending, SimCandidate, i);

    if (candidate->lower_bound_s <= limit_s)
      g_array_index (worker->pending, SimCandidate, kept++) = *candidate;
    else
      worker->least_dropped_s = fmin (worker->least_dropped_s, candidate->lower_bound_s);
  }
  g_array_set_size (worker->pending, kept);
}

void
sim_worker_offer (SimWorker *worker, const CostBound *bound)
{
  SimCandidate candidate;

  if (bound->lower_bound_s > worth_keeping_s (worker)) {
    worker->least_dropped_s = fmin (worker->least_dropped_s, bound->lower_bound_s);
    return;
  }
  candidate = (SimCandidate){ bound->step_s, bound->lower_bound_s, worker->layout };
  sim_topk_offer (&worker->estimates, &candidate);
  lower_threshold (worker);
  g_array_append_val (worker->pending, candidate);
  if (worker->pending->len >= worker->compact_at) {
    compact (worker);
    worker->compact_at = MAX (2 * worker->pending->len, LEAST_COMPACTED);
  }
}

void
sim_worker_refuse (SimWorker *worker, const CostBound *bound)
{
  SimNear newcomer = { bound->need_bytes, *bound, worker->layout };
  guint at = worker->n_near;

  if (worker->estimates.n > 0)
    return;
  while (at > 0
         && (worker->near[at - 1].need_bytes > newcomer.need_bytes
             || (worker->near[at - 1].need_bytes == newcomer.need_bytes
                 && sim_layout_compare (&newcomer.layout, &worker->near[at - 1].layout) < 0)))
    at--;
  if (at == SIM_MAX_MISSES)
    return;
  if (worker->n_near < SIM_MAX_MISSES)
    worker->n_near++;
  memmove (&worker->near[at + 1], &worker->near[at], (worker->n_near - 1 - at) * sizeof newcomer);
  worker->near[at] = newcomer;
}

/* ---- placements ---- */

const CostPlacement *
sim_worker_placement (SimWorker *worker)
{
  const ModelLayout *layout = &worker->layout;
  guint64 hash = layout->tp * 31u + layout->cp;
  SimPlaced *placed = NULL;
  CostPlacement *placement = NULL;

  hash = ((hash * 31 + layout->ep) * 31 + layout->etp) * 31 + layout->pp;
  hash = (hash * 31 + layout->hsdp) * G_GUINT64_CONSTANT (0x9E3779B97F4A7C15);
  placed = &worker->placed[(hash >> 32) % N_PLACED];
  placement = &worker->placements[(hash >> 32) % N_PLACED];
  if (placed->tp != layout->tp || placed->cp != layout->cp || placed->ep != layout->ep
      || placed->etp != layout->etp || placed->pp != layout->pp || placed->hsdp != layout->hsdp) {
    cost_placement_init_groups (placement, worker->shared->problem, layout);
    placed->tp = layout->tp;
    placed->cp = layout->cp;
    placed->ep = layout->ep;
    placed->etp = layout->etp;
    placed->pp = layout->pp;
    placed->hsdp = layout->hsdp;
    placed->template_serial = 0;
  }
  if (placed->template_serial != worker->template_serial) {
    cost_placement_set_template (placement, worker->shared->problem, layout, worker->tmpl);
    placed->template_serial = worker->template_serial;
  }
  return placement;
}

/* ---- the thread ---- */

static gboolean
is_cancelled (const SimShared *shared)
{
  const SimSearchOptions *options = shared->options;

  return options->cancelled != NULL && options->cancelled (options->user_data);
}

static void
report (SimShared *shared)
{
  const SimSearchOptions *options = shared->options;
  guint64 done = atomic_fetch_add (&shared->done, 1) + 1;
  gint64 now_us = 0;

  if (is_cancelled (shared))
    sim_shared_fail (shared,
                     g_error_new (SIM_ERROR, SIM_ERROR_CANCELLED, "the search was stopped"));
  if (options->progress == NULL)
    return;
  now_us = g_get_monotonic_time ();
  g_mutex_lock (&shared->lock);
  if (now_us - shared->last_progress_us >= 50000) {
    shared->last_progress_us = now_us;
    options->progress (done, shared->space->families->len, options->user_data);
  }
  g_mutex_unlock (&shared->lock);
}

static const SimFamily *
family_at (const SimShared *shared, guint32 index)
{
  return &g_array_index (shared->space->families, SimFamily, index);
}

/* For the visit: the template is priced in place, shapes that may fit are copied. */
static void
keep_shapes (const SimWorker *worker, SimPriced *priced)
{
  priced->n_shapes = worker->shapes->len;
  g_free (priced->shapes);
  priced->shapes = g_memdup2 (worker->shapes->data, worker->shapes->len * sizeof (SimShape));
}

/* Of the family whose legal shapes are in worker->shapes. */
static gboolean
rank_family (SimWorker *worker, const SimFamily *family, SimPriced *priced, SimRanked *out)
{
  worker->tmpl = priced != NULL ? priced->tmpl : worker->own_tmpl;
  if (!sim_worker_price_family (worker, family, &out->least_s))
    return FALSE;
  out->guess_s = sim_worker_guess_s (worker);
  if (priced != NULL)
    keep_shapes (worker, priced);
  return TRUE;
}

void
sim_worker_rank (SimWorker *worker)
{
  SimShared *shared = worker->shared;

  while (!atomic_load (&shared->stop)) {
    guint index = atomic_fetch_add (&shared->next, 1);
    SimRanked *ranked = NULL;
    const SimFamily *family = NULL;

    if (index >= shared->space->families->len)
      return;
    ranked = &shared->ranked[index];
    family = family_at (shared, index);
    *ranked = (SimRanked){ index, INFINITY, INFINITY };
    sim_family_shapes (shared->problem, shared->space, family, worker->shapes, &worker->counts);
    if (worker->shapes->len == 0)
      continue;
    ranked->guess_s = ranked->least_s = 0;
    if (!shared->options->exhaustive
        && !rank_family (worker, family, shared->priced != NULL ? &shared->priced[index] : NULL,
                         ranked))
      return;
    if (is_cancelled (shared))
      sim_shared_fail (shared,
                       g_error_new (SIM_ERROR, SIM_ERROR_CANCELLED, "the search was stopped"));
  }
}

void
sim_worker_run (SimWorker *worker)
{
  SimShared *shared = worker->shared;
  guint n = shared->space->families->len;

  while (!atomic_load (&shared->stop)) {
    guint index = atomic_fetch_add (&shared->next, 1);
    const SimRanked *ranked = index < n ? &shared->ranked[index] : NULL;

    if (ranked == NULL || isinf (ranked->guess_s))
      return;
    if (sim_worker_prunes (worker, ranked->least_s))
      continue;
    if (!sim_worker_visit (worker, family_at (shared, ranked->index),
                           shared->priced != NULL ? &shared->priced[ranked->index] : NULL))
      return;
    report (shared);
  }
}
