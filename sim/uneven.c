/* sim/uneven.c - stage lists that balance time, within the memory of each stage. */
#include "sim/worker-private.h"

#include "base/hash.h"
#include "sim/balance.h"

#include <math.h>
#include <string.h>

/* ---- pipelines made by a thread ---- */

static guint32
n_stages_of (const SimPipeline *p)
{
  return (guint32)model_schedule_n_stages (p->schedule, p->pp, p->vpp);
}

static void
pipeline_free (gpointer data)
{
  sim_pipeline_clear (data);
  g_free (data);
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

GHashTable *
sim_uneven_table_new (void)
{
  return g_hash_table_new_full (pipeline_hash, pipeline_equal, pipeline_free, NULL);
}

/* The pipeline like @pipeline with worker->balanced as its stages, NULL if that is the same. */
static SimPipeline *
with_balanced (SimWorker *worker, const SimPipeline *pipeline)
{
  const SimSpace *space = worker->shared->space;
  gsize n_bytes = n_stages_of (pipeline) * sizeof *worker->balanced;
  SimPipeline like = *pipeline;
  SimPipeline *made = NULL;

  if (memcmp (worker->balanced, pipeline->stage_layers, n_bytes) == 0)
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
  made->stage_layers = g_memdup2 (worker->balanced, n_bytes);
  sim_pipeline_map (made, worker->shared->problem->arch, &space->kinds);
  g_hash_table_insert (worker->pipelines, made, made);
  return made;
}

/* ---- by time ---- */

gboolean
sim_uneven_is_tried (const SimWorker *worker, const SimPipeline *pipeline)
{
  const SimShared *shared = worker->shared;
  ModelScheduleKind kind = pipeline->schedule;

  return shared->options->balance_stages && pipeline->pp > 1
         && !(shared->space->pinned & SIM_PIN_STAGES) && !model_schedule_is_folded (kind)
         && !model_schedule_is_bidirectional (kind) && !model_schedule_is_file (kind);
}

static double
block_s (const CostBlock *block)
{
  double total_s = 0;

  for (guint i = 0; i < COST_PASS_N_KINDS; i++)
    total_s += block->pass_s[i];
  return total_s;
}

static SimBalance
balance_of (SimWorker *worker, const SimPipeline *pipeline)
{
  const ModelArch *arch = worker->shared->problem->arch;
  const CostBlockKinds *kinds = &worker->shared->space->kinds;
  guint32 layer = 0;

  for (guint run = 0; kinds->n_kinds > 1 && run < arch->n_runs; run++) {
    double run_s = block_s (&worker->tmpl->blocks[kinds->kind_of_run[run]]);

    for (guint32 i = 0; i < arch->runs[run].count; i++)
      worker->layer_s[layer++] = run_s;
  }
  return (SimBalance){ .layer_s = kinds->n_kinds > 1 ? worker->layer_s : NULL,
                       .equal_layer_s = block_s (&worker->tmpl->blocks[0]),
                       .n_layers = arch->layers,
                       .embedding_s = block_s (&worker->tmpl->embedding),
                       .head_s = block_s (&worker->tmpl->head),
                       .n_stages = pipeline->pp };
}

const SimPipeline *
sim_uneven_by_time (SimWorker *worker, const SimPipeline *pipeline)
{
  const SimSpace *space = worker->shared->space;
  SimBalance balance = balance_of (worker, pipeline);
  gboolean cut = pipeline->vpp > 1 ? sim_balance_chunks (&balance, pipeline->vpp, worker->balanced)
                                   : sim_balance_stages (&balance, worker->balanced);
  SimPipeline *made = cut ? with_balanced (worker, pipeline) : NULL;
  guint32 pinned = sim_space_pinned_partial (space);
  gboolean full = worker->layout.recompute.kind == MODEL_RECOMPUTE_FULL;

  if (made != NULL && (pinned > 0 || (full && sim_space_tries_partial (space))))
    sim_pipeline_map_partial (made, worker->shared->problem->arch, &space->kinds, pinned);
  return made;
}

/* ---- by memory ---- */

/* Memory questions about a stage of the current template. */
typedef struct {
  const SimWorker *worker;
  CostMemoryPlan plan;
  guint kind; /* the neediest kind of block: every layer counts as one of it */
} Stages;

static double
need_bytes (const Stages *stages, guint32 rank, guint32 layers)
{
  const CostStageMap *map = stages->plan.map;
  CostStageClass class = { .first_rank = rank,
                           .n_ranks = 1,
                           .n_chunks = 1,
                           .max_chunk_layers = layers,
                           .chunk_kinds = G_GUINT64_CONSTANT (1) << stages->kind };
  gboolean recomputes = stages->worker->layout.recompute.kind != MODEL_RECOMPUTE_NONE;
  CostWeights weights;
  CostStageMemory memory;

  class.content.blocks[stages->kind] = (guint16)layers;
  class.content.recomputed[stages->kind] = (guint16)(recomputes ? layers : 0);
  class.content.layers = (guint16)layers;
  class.content.has_embedding = rank == 0;
  class.content.has_head = rank + 1 == map->pp;
  cost_weights_count (&weights, stages->plan.tmpl, &class.content, map->pp > 1);
  cost_stage_memory (&memory, &stages->plan, &class, &weights);
  return (double)memory.need_bytes;
}

static guint
neediest_kind (const CostTemplate *tmpl)
{
  guint kind = 0;

  for (guint i = 1; i < tmpl->n_kinds; i++) {
    const CostBlock *block = &tmpl->blocks[i];
    const CostBlock *most = &tmpl->blocks[kind];

    if (block->weight_count + block->expert_weight_count
        > most->weight_count + most->expert_weight_count)
      kind = i;
  }
  return kind;
}

/* Most layers of @rank within @limit, 0 if not even one: found from @guess, which the rank after it
 * gives, one off at most between equal ranks. */
static guint32
most_layers (const Stages *stages, guint32 rank, guint32 n_layers, guint32 guess, double limit)
{
  guint32 n = guess;

  while (n > 0 && need_bytes (stages, rank, n) > limit)
    n--;
  while (n == guess && n < n_layers && need_bytes (stages, rank, n + 1) <= limit)
    guess = ++n;
  return n;
}

/* The guess for the last rank: its need grows nearly straight with its layers. */
static guint32
guess_layers (const Stages *stages, guint32 n_layers, double limit)
{
  guint32 last = stages->plan.map->pp - 1;
  double one = need_bytes (stages, last, 1);
  double slope = need_bytes (stages, last, 2) - one;
  double guess = one > limit ? 0 : 1 + floor ((limit - one) / slope);

  return (guint32)CLAMP (guess, 0, (double)n_layers);
}

/* Fills worker->most_layers. FALSE: the stages cannot hold all layers. A stage never holds more
 * than the one after it, which has no more micro-batches in flight, the last apart. */
static gboolean
find_most_layers (SimWorker *worker, const Stages *stages, guint32 n_layers, double limit)
{
  guint64 sum = 0;
  guint32 most = guess_layers (stages, n_layers, limit);

  for (guint32 rank = stages->plan.map->pp; rank-- > 0;) {
    most = most_layers (stages, rank, n_layers, most, limit);
    worker->most_layers[rank] = most;
    sum += most;
    if (most == 0 || (rank < stages->plan.map->pp - 1 && sum + (guint64)most * rank < n_layers))
      return FALSE;
  }
  return TRUE;
}

const SimPipeline *
sim_uneven_by_memory (SimWorker *worker, const SimPipeline *pipeline,
                      const CostPlacement *placement)
{
  const CostProblem *problem = worker->shared->problem;
  SimBalance balance = { 0 };
  Stages stages = { .worker = worker, .kind = neediest_kind (worker->tmpl) };
  double limit = sim_worker_most_need_bytes (worker, cost_need_sigma (problem, &worker->layout,
                                                                      worker->tmpl));
  guint32 last = pipeline->pp - 1;

  cost_memory_plan_init (&stages.plan, worker->tmpl, &worker->layout,
                         model_layout_microbatches (&worker->layout, problem->job),
                         &placement->shards, &pipeline->map);
  /* The emptiest stage: where that has no room, none has. */
  if (need_bytes (&stages, last, 1) > limit
      || need_bytes (&stages, last - 1, pipeline->stage_layers[last - 1]) > limit)
    return NULL;
  balance = balance_of (worker, pipeline);
  balance.most_layers = worker->most_layers;
  if (!find_most_layers (worker, &stages, balance.n_layers, limit)
      || !sim_balance_stages (&balance, worker->balanced))
    return NULL;
  return with_balanced (worker, pipeline);
}
