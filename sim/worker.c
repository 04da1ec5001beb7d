/* sim/worker.c - every candidate of a template: legality, tier 1, and tier 2 where it may win. */
#include "sim/worker-private.h"

#include "base/hash.h"
#include "sim/balance.h"

#include <math.h>
#include <string.h>

/* Both placements of one (template, pp): shards over all ranks, and inside the domain. */
typedef struct {
  guint32 pp;
  guint32 hsdp[2];
  gboolean ready[2];
  CostPlacement placements[2];
} Placements;

static void
pipeline_free (gpointer data)
{
  sim_pipeline_clear (data);
  g_free (data);
}

static guint32
n_stages_of (const SimPipeline *p)
{
  return (guint32)model_schedule_n_stages (p->schedule, p->pp, p->vpp);
}

static guint
pipeline_hash (gconstpointer data)
{
  const SimPipeline *p = data;
  gsize length = n_stages_of (p) * sizeof *p->stage_layers;

  return (guint)base_hash_bytes (p->stage_layers, length, ((guint64)p->pp << 32) | p->vpp);
}

static gboolean
pipeline_equal (gconstpointer a, gconstpointer b)
{
  const SimPipeline *p = a;
  const SimPipeline *q = b;

  return p->pp == q->pp && p->vpp == q->vpp && p->schedule == q->schedule
         && memcmp (p->stage_layers, q->stage_layers, n_stages_of (p) * sizeof *p->stage_layers)
                == 0;
}

void
sim_worker_init (SimWorker *worker, SimShared *shared, double slack_ratio)
{
  *worker
      = (SimWorker){ .shared = shared, .least_dropped_s = INFINITY, .slack_ratio = slack_ratio };
  worker->layer_s = g_new (double, shared->problem->arch->layers);
  worker->balanced = g_new (guint32, shared->problem->arch->layers);
  worker->pipelines = g_hash_table_new_full (pipeline_hash, pipeline_equal, pipeline_free, NULL);
  worker->pending = g_array_new (FALSE, FALSE, sizeof (SimCandidate));
  sim_topk_init (&worker->estimates, shared->options->keep);
}

void
sim_worker_clear (SimWorker *worker)
{
  g_clear_pointer (&worker->layer_s, g_free);
  g_clear_pointer (&worker->balanced, g_free);
  g_clear_pointer (&worker->pipelines, g_hash_table_unref);
  g_clear_pointer (&worker->pending, g_array_unref);
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

/* ---- one candidate ---- */

static void
remember_near (SimWorker *worker, const ModelLayout *layout, const CostBound *bound)
{
  SimNear newcomer = { bound->need_bytes, *bound, *layout };
  guint at = worker->n_near;

  while (at > 0
         && (worker->near[at - 1].need_bytes > newcomer.need_bytes
             || (worker->near[at - 1].need_bytes == newcomer.need_bytes
                 && sim_layout_compare (layout, &worker->near[at - 1].layout) < 0)))
    at--;
  if (at == SIM_MAX_MISSES)
    return;
  if (worker->n_near < SIM_MAX_MISSES)
    worker->n_near++;
  memmove (&worker->near[at + 1], &worker->near[at], (worker->n_near - 1 - at) * sizeof newcomer);
  worker->near[at] = newcomer;
}

/* Bounds above the K-th best estimate will hardly win; search.c finds out if one might. */
static double
worth_keeping_s (const SimWorker *worker)
{
  return sim_topk_threshold_s (&worker->estimates) * (1 + worker->slack_ratio);
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

static void
consider (SimWorker *worker, const ModelLayout *layout, const CostStageMap *map,
          const CostPlacement *placement)
{
  const SimSearchOptions *options = worker->shared->options;
  SimCandidate candidate;
  CostBound bound;

  worker->tier1_count++;
  cost_evaluate_bound (worker->shared->problem, layout, &worker->tmpl, map, placement, &bound);
  if (bound.oom_risk > options->max_oom_risk) {
    worker->too_risky_count++;
    if (worker->estimates.n == 0)
      remember_near (worker, layout, &bound);
    return;
  }
  if (bound.lower_bound_s > worth_keeping_s (worker)) {
    worker->least_dropped_s = fmin (worker->least_dropped_s, bound.lower_bound_s);
    return;
  }
  candidate = (SimCandidate){ bound.step_s, bound.lower_bound_s, *layout };
  sim_topk_offer (&worker->estimates, &candidate);
  g_array_append_val (worker->pending, candidate);
  /* amortised: at most as many again as could matter */
  if (worker->pending->len >= 4096 && worker->pending->len > 8 * worker->estimates.n)
    compact (worker);
}

/* ---- the variants of one pipeline ---- */

static gboolean
price_template (SimWorker *worker, const ModelLayout *layout)
{
  const CostProblem *problem = worker->shared->problem;
  GError *error = NULL;

  if (worker->priced)
    return TRUE;
  worker->templates_count++;
  if (!cost_template_init (&worker->tmpl, problem->arch, &worker->shared->space->kinds,
                           problem->job, layout, problem->profile, problem->machine,
                           problem->numbers, problem->gpus, &error)) {
    sim_shared_fail (worker->shared, error);
    return FALSE;
  }
  worker->priced = TRUE;
  return TRUE;
}

static const CostPlacement *
placement_for (SimWorker *worker, const ModelLayout *layout, Placements *cache)
{
  guint slot = layout->hsdp > 0;

  if (!cache->ready[slot] || cache->hsdp[slot] != layout->hsdp) {
    cost_placement_init (&cache->placements[slot], worker->shared->problem, layout, &worker->tmpl);
    cache->hsdp[slot] = layout->hsdp;
    cache->ready[slot] = TRUE;
  }
  return &cache->placements[slot];
}

static gboolean
try_layout (SimWorker *worker, const ModelLayout *layout, const CostStageMap *map,
            Placements *cache)
{
  const CostProblem *problem = worker->shared->problem;
  ModelLegality legality
      = model_layout_check (problem->arch, problem->job, layout, problem->profile, problem->gpus);

  if (legality != MODEL_LEGAL) {
    worker->rejected[legality]++;
    return TRUE;
  }
  worker->legal_count++;
  if (!price_template (worker, layout))
    return FALSE;
  consider (worker, layout, map, placement_for (worker, layout, cache));
  return TRUE;
}

/* Full recomputation also of a part of each chunk. */
static gboolean
try_recompute (SimWorker *worker, ModelLayout *layout, const SimPipeline *pipeline,
               Placements *cache)
{
  const SimSpace *space = worker->shared->space;

  if (space->pinned & SIM_PIN_RECOMPUTE) {
    layout->recompute = space->base.recompute;
    return try_layout (worker, layout,
                       pipeline->n_partial > 0 ? &pipeline->partial[0] : &pipeline->map, cache);
  }
  layout->recompute
      = (ModelRecompute){ .kind = worker->key->recompute, .modules = worker->key->modules };
  if (layout->recompute.kind != MODEL_RECOMPUTE_FULL)
    return try_layout (worker, layout, &pipeline->map, cache);
  layout->recompute.method = MODEL_RECOMPUTE_UNIFORM;
  layout->recompute.n = 1;
  if (!try_layout (worker, layout, &pipeline->map, cache))
    return FALSE;
  layout->recompute.method = MODEL_RECOMPUTE_BLOCK;
  for (guint i = 0; i < pipeline->n_partial; i++) {
    layout->recompute.n = pipeline->partial_layers[i];
    if (!try_layout (worker, layout, &pipeline->partial[i], cache))
      return FALSE;
  }
  return TRUE;
}

/* Ranks of one NVLink domain that share a shard, where that is fewer than all. */
static guint32
domain_shard_size (const CostProblem *problem, const ModelLayout *layout)
{
  guint32 all = layout->dp * layout->cp;
  guint32 inside = topo_machine_domain_in_use (problem->machine, problem->gpus) / layout->tp;

  return inside > 1 && inside < all && all % inside == 0 ? inside : 0;
}

static gboolean
try_sharding (SimWorker *worker, ModelLayout *layout, const SimPipeline *pipeline,
              Placements *cache)
{
  const SimSpace *space = worker->shared->space;

  for (guint z = 0; z < space->zero->len; z++) {
    guint32 inside = 0;

    layout->zero = (guint8)g_array_index (space->zero, guint32, z);
    layout->hsdp = space->pinned & SIM_PIN_HSDP ? space->base.hsdp : 0;
    /* nothing to shard over: the same layout as ZeRO 0 */
    if (layout->zero > 0 && layout->dp * layout->cp == 1 && space->zero->len > 1)
      continue;
    if (!try_recompute (worker, layout, pipeline, cache))
      return FALSE;
    inside = domain_shard_size (worker->shared->problem, layout);
    if (layout->zero != 3 || inside == 0 || (space->pinned & SIM_PIN_HSDP))
      continue;
    layout->hsdp = inside;
    if (!try_recompute (worker, layout, pipeline, cache))
      return FALSE;
  }
  return TRUE;
}

/* ---- stages balanced by time ---- */

static double
block_s (const CostBlock *block)
{
  double total_s = 0;

  for (guint i = 0; i < COST_PASS_N_KINDS; i++)
    total_s += block->pass_s[i];
  return total_s;
}

/* The pipeline like @pipeline whose stages take equal time, NULL where that is the same one. */
static const SimPipeline *
balanced_pipeline (SimWorker *worker, const SimPipeline *pipeline)
{
  const CostProblem *problem = worker->shared->problem;
  const SimSpace *space = worker->shared->space;
  guint32 n = n_stages_of (pipeline);
  guint32 layer = 0;
  SimPipeline like = *pipeline;
  SimPipeline *made = NULL;

  for (guint run = 0; run < problem->arch->n_runs; run++)
    for (guint32 i = 0; i < problem->arch->runs[run].count; i++)
      worker->layer_s[layer++] = block_s (&worker->tmpl.blocks[space->kinds.kind_of_run[run]]);
  if (!sim_balance_stages (worker->layer_s, layer, block_s (&worker->tmpl.embedding),
                           block_s (&worker->tmpl.head), n, worker->balanced)
      || memcmp (worker->balanced, pipeline->stage_layers, n * sizeof *worker->balanced) == 0)
    return NULL;
  like.stage_layers = worker->balanced;
  made = g_hash_table_lookup (worker->pipelines, &like);
  if (made != NULL)
    return made;
  made = g_new0 (SimPipeline, 1);
  made->pp = pipeline->pp;
  made->vpp = pipeline->vpp;
  made->schedule = pipeline->schedule;
  made->explicit_stages = TRUE;
  made->stage_layers = g_memdup2 (worker->balanced, n * sizeof *worker->balanced);
  sim_pipeline_map (made, problem->arch, &space->kinds, sim_space_partial (space),
                    sim_space_partial_layers (space));
  g_hash_table_insert (worker->pipelines, made, made);
  return made;
}

static gboolean
try_pipeline (SimWorker *worker, ModelLayout *layout, const SimPipeline *pipeline,
              Placements *cache)
{
  layout->pp = pipeline->pp;
  layout->vpp = pipeline->vpp;
  layout->schedule = pipeline->schedule;
  layout->stage_layers = pipeline->explicit_stages ? pipeline->stage_layers : NULL;
  return try_sharding (worker, layout, pipeline, cache);
}

static gboolean
try_template (SimWorker *worker, const SimTemplateKey *key)
{
  const CostProblem *problem = worker->shared->problem;
  const SimSpace *space = worker->shared->space;
  Placements cache = { 0 };
  ModelLayout layout = space->base;

  worker->key = key;
  worker->priced = FALSE;
  layout.tp = key->tp;
  layout.sp = key->sp;
  layout.cp = key->cp;
  layout.ep = key->ep;
  layout.etp = key->etp;
  layout.mbs = key->mbs;
  for (guint i = 0; i < space->pipelines->len; i++) {
    const SimPipeline *pipeline = &g_array_index (space->pipelines, SimPipeline, i);
    guint64 ranks = (guint64)key->tp * key->cp * pipeline->pp;
    guint64 before = worker->legal_count;
    const SimPipeline *balanced = NULL;

    if (ranks > problem->gpus || problem->gpus % ranks != 0) {
      worker->rejected[MODEL_ILLEGAL_WORLD]++;
      continue;
    }
    if ((space->pinned & SIM_PIN_DP) && space->base.dp != problem->gpus / ranks)
      continue;
    if (cache.pp != pipeline->pp)
      cache = (Placements){ .pp = pipeline->pp };
    layout.dp = (guint32)(problem->gpus / ranks);
    if (!try_pipeline (worker, &layout, pipeline, &cache))
      return FALSE;
    if (!worker->shared->options->balance_stages || pipeline->pp == 1 || pipeline->vpp > 1
        || !worker->priced || worker->legal_count == before || (space->pinned & SIM_PIN_STAGES))
      continue;
    balanced = balanced_pipeline (worker, pipeline);
    if (balanced != NULL && !try_pipeline (worker, &layout, balanced, &cache))
      return FALSE;
  }
  return TRUE;
}

/* ---- the thread ---- */

static void
report (SimWorker *worker)
{
  SimShared *shared = worker->shared;
  const SimSearchOptions *options = shared->options;
  guint64 done = atomic_fetch_add (&shared->done, 1) + 1;
  gint64 now_us = 0;

  if (options->cancelled != NULL && options->cancelled (options->user_data))
    sim_shared_fail (shared,
                     g_error_new (SIM_ERROR, SIM_ERROR_CANCELLED, "the search was stopped"));
  if (options->progress == NULL)
    return;
  now_us = g_get_monotonic_time ();
  g_mutex_lock (&shared->lock);
  if (now_us - shared->last_progress_us >= 50000) {
    shared->last_progress_us = now_us;
    options->progress (done, shared->space->templates->len, options->user_data);
  }
  g_mutex_unlock (&shared->lock);
}

void
sim_worker_run (SimWorker *worker)
{
  SimShared *shared = worker->shared;
  const GArray *templates = shared->space->templates;

  while (!atomic_load (&shared->stop)) {
    guint index = atomic_fetch_add (&shared->next, 1);

    if (index >= templates->len
        || !try_template (worker, &g_array_index (templates, SimTemplateKey, index)))
      return;
    report (worker);
  }
}
