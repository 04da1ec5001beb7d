/* costmodel/pipeline.c - the longest of a few chains through a schedule, in closed form.
 *
 * Chain through rank r (F0, B0: its chunk 0; F1, B1: its last chunk; F, B: all its chunks;
 * c: a message; w: forwards before the first backward):
 *   head    the last chunk's first forward starts no earlier than the forwards on the way to it
 *   work    everything rank r does between that forward and the last chunk's last backward
 *   idle    the first backward waits for the trip through the ranks above, less the forwards done
 *           meanwhile; the last one likewise, less the backwards
 *   tail    backwards on the way out, the mirror image of the head
 */
#include "costmodel/pipeline.h"
#include <math.h>

/* Signed, since a signed number becomes a double in one instruction. */
typedef struct {
  gint64 microbatches;
  gint64 pp, vpp;
  double p2p_s;
  /* sums over all ranks */
  double above_s;        /* F1 + B1 of the ranks not yet passed */
  double ring_forward_s; /* forwards of all chunks but the last */
  double ring_backward_s;
  /* sums over the ranks passed */
  gint64 rank;
  double first_forward_s, first_backward_s, last_forward_s, last_backward_s;
  double best_s;
} Walk;

static void
walk_count (Walk *walk, const CostPipelineRun *run)
{
  double n = run->n_ranks;
  walk->above_s += n * (run->last_forward_s + run->last_backward_s);
  walk->ring_forward_s += n * (run->forward_s - run->last_forward_s);
  walk->ring_backward_s += n * (run->backward_s - run->last_backward_s);
}

/* What rank @hops below the top waits for its first and its last backward. */
static double
walk_idle (const Walk *walk, const CostPipelineRun *run, gint64 hops, double trip_s)
{
  gint64 total = walk->microbatches * walk->vpp;
  gint64 before = (walk->vpp - 1) * walk->pp; /* forwards before the last chunk's first */
  gint64 warmup = MIN (total, walk->vpp == 1 ? hops : 2 * hops + before);
  gint64 between = MIN (warmup, total - 1) - before;
  gint64 of_last = walk->vpp == 1 ? between : MIN (between, walk->pp - 1);
  double n_last = (double)of_last, n_first = (double)(between - of_last);
  double at_start = trip_s - n_last * run->last_forward_s - n_first * run->first_forward_s;
  double at_end = trip_s - n_last * run->last_backward_s - n_first * run->first_backward_s;
  at_start = MAX (at_start, 0);
  at_end = MAX (at_end, 0);
  /* The two waits are apart only if a backward runs before the last forward. */
  return warmup + 1 < total ? at_start + at_end : MAX (at_start, at_end);
}

/* Passes @run; its last rank has the longest chain: the way to it is longest, and what a wait
 * loses by one rank less above it, the way gains. */
static void
walk_pass (Walk *walk, const CostPipelineRun *run)
{
  double c = walk->p2p_s, n = run->n_ranks - 1.0;
  gint64 rank = walk->rank + run->n_ranks - 1, hops = walk->pp - 1 - rank;
  double inner_forward_s = run->forward_s - run->last_forward_s;
  double inner_backward_s = run->backward_s - run->last_backward_s;
  double p = (double)walk->pp, r = (double)rank;
  double around_s = ((double)(walk->vpp - 1) * p + r) * c;

  walk->above_s -= (n + 1) * (run->last_forward_s + run->last_backward_s);
  double head_s = walk->first_forward_s + n * run->first_forward_s + r * c + p * inner_forward_s;
  double head_ring_s
      = walk->ring_forward_s + walk->last_forward_s + n * run->last_forward_s + around_s;
  double tail_s = walk->first_backward_s + n * run->first_backward_s + r * c + p * inner_backward_s;
  double tail_ring_s
      = walk->ring_backward_s + walk->last_backward_s + n * run->last_backward_s + around_s;
  double work_s = (double)walk->microbatches * (run->forward_s + run->backward_s)
                  - p * (inner_forward_s + inner_backward_s);
  double idle_s = walk_idle (walk, run, hops, MAX (walk->above_s, 0) + 2.0 * (double)hops * c);
  double chain_s = MAX (head_s, head_ring_s) + work_s + idle_s + MAX (tail_s, tail_ring_s);
  walk->best_s = MAX (walk->best_s, chain_s);

  walk->rank += run->n_ranks;
  walk->first_forward_s += (n + 1) * run->first_forward_s;
  walk->first_backward_s += (n + 1) * run->first_backward_s;
  walk->last_forward_s += (n + 1) * run->last_forward_s;
  walk->last_backward_s += (n + 1) * run->last_backward_s;
}

/*
 * 1F1B with messages: a micro-batch goes up, its backward comes down, and rank 0 answers with the
 * forward of the p-th micro-batch after it. Such round trips follow one another; what is left
 * over (@rest micro-batches) turns round @rest − 1 ranks below the top.
 */
static double
round_trips_s (const Walk *walk, double above_s)
{
  gint64 trips = (walk->microbatches - 1) / walk->pp;
  gint64 rest = (walk->microbatches - 1) % walk->pp;
  double hops = 2.0 * (double)(walk->pp - 1) * walk->p2p_s;
  double trip_s = walk->first_forward_s + walk->first_backward_s + hops;
  double rest_s = rest > 0 ? above_s + 2.0 * (double)(rest - 1) * walk->p2p_s : 0;
  return (double)(trips + 1) * trip_s + rest_s;
}

static CostPipelineRun
run_of_rank (const CostPipeline *pipeline, guint32 rank)
{
  CostPipelineRun run = { .n_ranks = 1 };
  for (guint32 chunk = 0; chunk < pipeline->vpp; chunk++) {
    guint32 stage = model_schedule_stage (pipeline->schedule, pipeline->pp, rank, chunk);
    double forward_ep_s = pipeline->forward_ep_s != NULL ? pipeline->forward_ep_s[stage] : 0;
    double backward_ep_s = pipeline->forward_ep_s != NULL ? pipeline->backward_ep_s[stage] : 0;
    run.last_forward_s = pipeline->forward_s[stage] - forward_ep_s;
    run.last_backward_s
        = pipeline->backward_input_s[stage] + pipeline->backward_weight_s[stage] - backward_ep_s;
    run.forward_s += run.last_forward_s;
    run.backward_s += run.last_backward_s;
    if (chunk == 0) {
      run.first_forward_s = run.last_forward_s;
      run.first_backward_s = run.last_backward_s;
    }
  }
  return run;
}

/* Either source of runs: an array, or one rank after the other in @own. */
static const CostPipelineRun *
run_at (const CostPipeline *pipeline, const CostPipelineRun *runs, guint index,
        CostPipelineRun *own)
{
  if (runs != NULL)
    return &runs[index];
  *own = run_of_rank (pipeline, index);
  return own;
}

static double
gpipe_bound_s (const CostPipeline *pipeline, const CostPipelineRun *runs, guint n_runs)
{
  double forward_s = 0, backward_s = 0, max_forward_s = 0, max_backward_s = 0;
  CostPipelineRun own;
  for (guint i = 0; i < n_runs; i++) {
    const CostPipelineRun *run = run_at (pipeline, runs, i, &own);
    forward_s += run->n_ranks * run->forward_s;
    backward_s += run->n_ranks * run->backward_s;
    max_forward_s = MAX (max_forward_s, run->forward_s);
    max_backward_s = MAX (max_backward_s, run->backward_s);
  }
  return forward_s + backward_s
         + (double)(pipeline->microbatches - 1) * (max_forward_s + max_backward_s)
         + 2.0 * (pipeline->pp - 1.0) * pipeline->p2p_s;
}

/*
 * Listed schedules: the way to a rank, and all its work. The last rank of a run has the longest
 * way from rank 0; fed from both ends, every rank of a run is looked at, and the shorter way counts.
 */
static double
listed_bound_s (const CostPipeline *pipeline, const CostPipelineRun *runs, guint n_runs)
{
  gboolean both_ways = model_schedule_is_bidirectional (pipeline->schedule);
  double passes = (double)model_schedule_passes (pipeline->schedule, pipeline->microbatches);
  double way_s = 0, way_back_s = 0, c = pipeline->p2p_s, bound_s = 0;
  CostPipelineRun own;
  for (guint i = 0; i < n_runs && both_ways; i++) {
    const CostPipelineRun *run = run_at (pipeline, runs, i, &own);
    way_back_s += run->n_ranks * (run->last_forward_s + c);
  }
  for (guint i = 0; i < n_runs; i++) {
    const CostPipelineRun *run = run_at (pipeline, runs, i, &own);
    double work_s = passes * (run->forward_s + run->backward_s);
    double hop_s = run->first_forward_s + c, hop_back_s = run->last_forward_s + c;
    guint32 step = both_ways ? 1 : run->n_ranks;
    for (guint32 n = step; n <= run->n_ranks; n += step) {
      double from_first_s = way_s + (n - 1.0) * hop_s;
      double from_last_s = MAX (way_back_s - n * hop_back_s, 0);
      double to_rank_s = both_ways ? MIN (from_first_s, from_last_s) : from_first_s;
      bound_s = MAX (bound_s, to_rank_s + work_s);
    }
    way_s += run->n_ranks * hop_s;
    way_back_s -= run->n_ranks * hop_back_s;
  }
  return bound_s;
}

/* F + B of the topmost ranks that the last, shorter round trip passes. */
static double
top_s (const CostPipeline *pipeline, const CostPipelineRun *runs, guint n_runs)
{
  gint64 from = (gint64)pipeline->pp - (gint64)((pipeline->microbatches - 1) % pipeline->pp);
  gint64 rank = 0;
  double sum_s = 0;
  CostPipelineRun own;
  for (guint i = 0; i < n_runs; i++) {
    const CostPipelineRun *run = run_at (pipeline, runs, i, &own);
    rank += run->n_ranks;
    sum_s += (double)CLAMP (rank - from, 0, (gint64)run->n_ranks)
             * (run->forward_s + run->backward_s);
  }
  return sum_s;
}

static double
bound_from (const CostPipeline *pipeline, const CostPipelineRun *runs, guint n_runs)
{
  if (pipeline->schedule == MODEL_SCHEDULE_GPIPE)
    return gpipe_bound_s (pipeline, runs, n_runs);
  if (model_schedule_is_listed (pipeline->schedule))
    return listed_bound_s (pipeline, runs, n_runs);
  Walk walk = { .microbatches = (gint64)pipeline->microbatches,
                .pp = pipeline->pp,
                .vpp = pipeline->vpp,
                .p2p_s = pipeline->p2p_s };
  CostPipelineRun own;
  for (guint i = 0; i < n_runs; i++)
    walk_count (&walk, run_at (pipeline, runs, i, &own));
  for (guint i = 0; i < n_runs; i++)
    walk_pass (&walk, run_at (pipeline, runs, i, &own));
  if (pipeline->p2p_s > 0 && pipeline->vpp == 1)
    walk.best_s = MAX (walk.best_s, round_trips_s (&walk, top_s (pipeline, runs, n_runs)));
  return walk.best_s;
}

double
cost_pipeline_lower_bound (const CostPipeline *pipeline)
{
  g_return_val_if_fail (pipeline->microbatches > 0 && pipeline->pp > 0 && pipeline->vpp > 0, 0);
  return bound_from (pipeline, NULL, pipeline->pp);
}

double
cost_pipeline_lower_bound_runs (ModelScheduleKind schedule, guint32 pp, guint32 vpp,
                                guint64 microbatches, double p2p_s, const CostPipelineRun *runs,
                                guint n_runs)
{
  CostPipeline pipeline = {
    .schedule = schedule, .pp = pp, .vpp = vpp, .microbatches = microbatches, .p2p_s = p2p_s
  };
  return bound_from (&pipeline, runs, n_runs);
}
