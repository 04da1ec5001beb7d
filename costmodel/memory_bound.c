/* costmodel/memory_bound.c - may a pipeline fit, however its layers are cut?
 *
 * On rank r a layer of kind k needs at least s(k,r) bytes: its states, and what it keeps of every
 * micro-batch in flight; f(r) bytes are needed beside the layers. With a limit of B bytes the rank
 * has room for (B − f(r)) / s(k,r) of them. Layers of several kinds are weighed: with any weights
 * a(r) > 0 and w(k) = min over r of s(k,r) / a(r), what the ranks hold sums to at most
 *   sum_k n(k)·w(k) <= sum_r (B − f(r)) / a(r)
 * and a(r) is the mean layer's s. Where all layers are alike, w = 1 and the rooms are whole numbers.
 */
#include "costmodel/memory-private.h"
#include <math.h>

/* Bytes are rounded to whole ones component by component. */
#define ROUNDING_BYTES 64
#define ROUNDING       1e-9

typedef struct {
  guint n_kinds;
  double states[COST_MAX_RUN_KINDS]; /* of one layer, in need */
  double kept[COST_MAX_RUN_KINDS];   /* of one layer and micro-batch, in need */
  double layers[COST_MAX_RUN_KINDS];
  double mean_states, mean_kept, least_kept, most_kept, n_layers;
  double around;     /* beside the layers on every rank */
  double first_more; /* on the first and the last rank, beyond that */
  double last_more;
} Bound;

static double
real (guint64 count)
{
  return (double)(gint64)count;
}

/* Need of the states of so many parameters, with the copy that computes. */
static double
states_need (const CostMemoryPlan *plan, double ratio, double changing_ratio, double dense,
             double expert)
{
  const CostShards *shards = plan->shards;
  double full = dense + expert, sharded = full, copy = 0;
  if (plan->layout->zero > 0)
    sharded = dense / shards->shard_ranks + expert / shards->expert_shard_ranks;
  if (plan->layout->zero < 3 || shards->shard_ranks == 1)
    copy = cost_compute_copy_bytes (plan);
  else if (plan->layout->pp > 1 || !plan->tmpl->context.profile->reshard_after_forward)
    copy = plan->tmpl->element_bytes;
  return ratio
             * ((plan->weight_full + plan->gradient_full) * full
                + (plan->weight_sharded + plan->gradient_sharded + plan->optimizer) * sharded)
         + changing_ratio * copy * full;
}

static double
least_kept_bytes (const CostMemoryPlan *plan, guint kind, CostKept kept)
{
  const CostTemplate *tmpl = plan->tmpl;
  const ModelSegmentMemory *plain = &tmpl->plain_blocks[kind].memory;
  if (plan->uniform > 1)
    return 0;
  if (kept == COST_KEPT_INPUTS)
    return tmpl->context.profile->checkpoints_on_host ? 0 : real (plain->input_bytes);
  if (kept == COST_KEPT_PLAIN)
    return real (plain->kept_bytes);
  guint64 bytes = cost_recomputed_kept_bytes (tmpl, kind);
  return real (kept == COST_KEPT_EITHER ? MIN (bytes, plain->kept_bytes) : bytes);
}

/* What the smallest layer works with; every stage has one. */
static double
least_work_bytes (const CostTemplate *tmpl, CostKept kept)
{
  guint64 least = G_MAXUINT64;
  if (kept == COST_KEPT_INPUTS)
    return 0;
  for (guint kind = 0; kind < tmpl->n_kinds; kind++) {
    if (kept != COST_KEPT_PLAIN)
      least = MIN (least, cost_block_work_bytes (&tmpl->blocks[kind]));
    if (kept != COST_KEPT_BLOCKS)
      least = MIN (least, cost_block_work_bytes (&tmpl->plain_blocks[kind]));
  }
  return real (least);
}

static void
bound_layers (Bound *bound, const CostMemoryPlan *plan, const ModelArch *arch,
              const CostBlockKinds *kinds, CostKept kept, double ratio, double changing_ratio)
{
  const CostNumbers *numbers = plan->tmpl->context.numbers;
  /* activations of experts count by the hottest rank: no less than by the mean one */
  double kept_ratio = changing_ratio + ratio * MIN (numbers->memory.imbalance_ratio - 1, 0);
  for (guint run = 0; run < arch->n_runs; run++)
    bound->layers[kinds->kind_of_run[run]] += arch->runs[run].count;
  for (guint kind = 0; kind < bound->n_kinds; kind++) {
    const CostBlock *block = &plan->tmpl->plain_blocks[kind];
    double states = states_need (plan, ratio, changing_ratio, real (block->weight_count),
                                 real (block->expert_weight_count));
    double bytes = MAX (kept_ratio, 0) * least_kept_bytes (plan, kind, kept);
    bound->states[kind] = states;
    bound->kept[kind] = bytes;
    bound->least_kept = kind == 0 ? bytes : MIN (bound->least_kept, bytes);
    bound->most_kept = MAX (bound->most_kept, bytes);
    bound->n_layers += bound->layers[kind];
    bound->mean_states += bound->layers[kind] * states;
    bound->mean_kept += bound->layers[kind] * bytes;
  }
  bound->mean_states /= bound->n_layers;
  bound->mean_kept /= bound->n_layers;
}

static void
bound_around (Bound *bound, const CostMemoryPlan *plan, CostKept kept, double ratio,
              double changing_ratio)
{
  const CostTemplate *tmpl = plan->tmpl;
  double work = least_work_bytes (tmpl, kept), first = work;
  double last
      = real (tmpl->head.memory.logits_peak_bytes) + real (cost_block_work_bytes (&tmpl->head));
  gboolean is_apart = plan->layout->pp > 1;
  first = MAX (work, real (cost_block_work_bytes (&tmpl->embedding)));
  bound->around = changing_ratio * (real (plan->fixed_bytes) + work)
                  + real (plan->communicator_bytes) + real (plan->context_bytes);
  bound->first_more
      = changing_ratio * (first - work)
        + states_need (plan, ratio, changing_ratio, real (tmpl->embedding.weight_count), 0);
  bound->last_more = changing_ratio * MAX (last - work, 0)
                     + states_need (plan, ratio, changing_ratio,
                                    real (tmpl->head.weight_count)
                                        + (is_apart ? real (tmpl->tied_weight_count) : 0),
                                    0);
  if (!is_apart) /* the work of the two is not needed at once */
    bound->first_more -= changing_ratio * (first - work);
}

/* Micro-batches in flight of rank @rank's layers. Interleaved ranks have p of every chunk and so
 * many more of the first, or fewer of the last, which has a (vpp)th of the layers, give or take
 * one: *out_more per layer of the smallest or largest kind, less *out_beside. */
static double
in_flight (const Bound *bound, const CostStageMap *map, guint64 microbatches, guint32 rank,
           double *out_more, double *out_beside)
{
  double all
      = real (model_schedule_in_flight (map->schedule, map->pp, map->vpp, microbatches, rank));
  double vpp = map->vpp, further = all - (double)map->pp * vpp;
  *out_more = *out_beside = 0;
  if (map->vpp == 1)
    return all;
  double kept = further >= 0 ? bound->least_kept : bound->most_kept;
  *out_more = further * kept / vpp;
  *out_beside = (further >= 0 ? further : -further) * kept * (vpp - 1) / vpp;
  return map->pp;
}

/* What can be told without looking at every rank. */
typedef enum { ROOM_ENOUGH, ROOM_TOO_LITTLE, ROOM_UNKNOWN } Room;

/*
 * Of layers of one kind: those of the first rank, with the most micro-batches in flight, need the
 * most, those of the last the least. If ranks as bad as the worst hold all layers, or ranks better
 * than the best do not, that is the answer.
 */
static Room
room_at_a_glance (const Bound *bound, const CostMemoryPlan *plan, double limit)
{
  const CostStageMap *map = plan->map;
  double more[2], beside[2], layers[2];
  if (bound->n_kinds > 1)
    return ROOM_UNKNOWN;
  for (guint end = 0; end < 2; end++) {
    double flight
        = in_flight (bound, map, plan->microbatches, end * (map->pp - 1), &more[end], &beside[end]);
    layers[end] = bound->mean_states + flight * bound->mean_kept + more[end];
  }
  if (!(layers[1] > 0))
    return ROOM_ENOUGH;
  double most = limit - bound->around + MAX (beside[0], beside[1]);
  double least = limit - bound->around - MAX (bound->first_more, 0) - MAX (bound->last_more, 0);
  if ((double)(gint64)(MAX (most, 0) / layers[1]) * map->pp < bound->n_layers)
    return ROOM_TOO_LITTLE;
  if ((double)(gint64)(MAX (least, 0) / layers[0]) * map->pp >= bound->n_layers)
    return ROOM_ENOUGH;
  return ROOM_UNKNOWN;
}

/* Rooms of all ranks against the layers. FALSE: they have no place. */
static gboolean
has_room (const Bound *bound, const CostMemoryPlan *plan, double limit)
{
  const CostStageMap *map = plan->map;
  double weights[COST_MAX_RUN_KINDS], rooms = 0, wanted = 0;
  for (guint kind = 0; kind < bound->n_kinds; kind++)
    weights[kind] = INFINITY;
  for (guint32 rank = 0; rank < map->pp; rank++) {
    double more, beside, least = INFINITY;
    double flight = in_flight (bound, map, plan->microbatches, rank, &more, &beside);
    double mean = bound->mean_states + flight * bound->mean_kept + more;
    double room = limit - bound->around + beside - (rank == 0 ? bound->first_more : 0)
                  - (rank + 1 == map->pp ? bound->last_more : 0);
    if (bound->n_kinds == 1)
      least = mean;
    for (guint kind = 0; kind < bound->n_kinds && bound->n_kinds > 1; kind++) {
      double layer = bound->states[kind] + flight * bound->kept[kind] + more;
      least = MIN (least, layer);
      weights[kind] = MIN (weights[kind], layer / mean);
    }
    if (!(least > 0))
      return TRUE;
    if (room < least)
      return FALSE; /* not even one layer */
    rooms += bound->n_kinds == 1 ? (double)(gint64)MIN (room / mean, bound->n_layers) : room / mean;
  }
  for (guint kind = 0; kind < bound->n_kinds; kind++)
    wanted += bound->layers[kind] * (bound->n_kinds == 1 ? 1 : weights[kind]);
  return rooms >= wanted * (1 - ROUNDING);
}

gboolean
cost_memory_may_fit (const CostMemoryPlan *plan, const ModelArch *arch, const CostBlockKinds *kinds,
                     CostKept kept, double most_need_bytes)
{
  const CostContext *context = &plan->tmpl->context;
  const CostProfileNumbers *numbers = &context->numbers->profile;
  gboolean grows = context->profile->expandable_segments;
  double ratio = grows ? 1 : numbers->need_ratio;
  double changing_ratio = grows ? 1 : numbers->need_ratio + numbers->need_changing_ratio - 1;
  ModelScheduleKind schedule = plan->map->schedule;
  Bound bound = { .n_kinds = plan->tmpl->n_kinds };
  if ((schedule != MODEL_SCHEDULE_1F1B && schedule != MODEL_SCHEDULE_INTERLEAVED)
      || !(ratio > 0 && changing_ratio >= 0))
    return TRUE;
  bound_layers (&bound, plan, arch, kinds, kept, ratio, changing_ratio);
  bound_around (&bound, plan, kept, ratio, changing_ratio);
  double limit = most_need_bytes * (1 + ROUNDING) + ROUNDING_BYTES;
  Room room = room_at_a_glance (&bound, plan, limit);
  return room == ROOM_UNKNOWN ? has_room (&bound, plan, limit) : room == ROOM_ENOUGH;
}
