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

/* Of one plain block under the layout's recompute setting: what other modules than those rebuilt
 * have made stays. */
static double
asked_kept_bytes (const CostMemoryPlan *plan, const ModelSegmentMemory *plain)
{
  const ModelRecompute *recompute = &plan->layout->recompute;
  const ModelProfile *profile = plan->tmpl->context.profile;
  guint modules = recompute->modules != 0 ? recompute->modules : MODEL_RECOMPUTE_CORE_ATTN;
  double least = profile->checkpoints_on_host ? 0 : real (plain->input_bytes);
  double bytes = real (plain->kept_bytes);
  if (recompute->kind == MODEL_RECOMPUTE_NONE)
    return bytes;
  if (recompute->kind == MODEL_RECOMPUTE_FULL || profile->selective_by_op
      || profile->checkpoints_on_host)
    return least;
  for (guint module = 0; module < MODEL_RECOMPUTE_N_MODULES; module++)
    if (modules & (1u << module))
      bytes -= real (plain->module_kept_bytes[module]);
  return MAX (bytes, least);
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
  if (kept == COST_KEPT_ASKED)
    return asked_kept_bytes (plan, plain);
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
  if (kept == COST_KEPT_INPUTS || kept == COST_KEPT_ASKED)
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
bound_layers (CostRoom *room, const CostMemoryPlan *plan, const ModelArch *arch,
              const CostBlockKinds *kinds, CostKept kept, double ratio, double changing_ratio)
{
  const CostNumbers *numbers = plan->tmpl->context.numbers;
  /* activations of experts count by the hottest rank: no less than by the mean one */
  room->kept_ratio = MAX (changing_ratio + ratio * MIN (numbers->memory.imbalance_ratio - 1, 0), 0);
  for (guint run = 0; run < arch->n_runs; run++)
    room->layers[kinds->kind_of_run[run]] += arch->runs[run].count;
  for (guint kind = 0; kind < room->n_kinds; kind++) {
    const CostBlock *block = &plan->tmpl->plain_blocks[kind];
    double states = states_need (plan, ratio, changing_ratio, real (block->weight_count),
                                 real (block->expert_weight_count));
    double bytes = room->kept_ratio * least_kept_bytes (plan, kind, kept);
    room->states[kind] = states;
    room->kept[kind] = bytes;
    room->least_kept = kind == 0 ? bytes : MIN (room->least_kept, bytes);
    room->most_kept = MAX (room->most_kept, bytes);
    room->n_layers += room->layers[kind];
    room->mean_states += room->layers[kind] * states;
    room->mean_kept += room->layers[kind] * bytes;
  }
  room->mean_states /= room->n_layers;
  room->mean_kept /= room->n_layers;
}

static void
bound_around (CostRoom *room, const CostMemoryPlan *plan, CostKept kept, double ratio,
              double changing_ratio)
{
  const CostTemplate *tmpl = plan->tmpl;
  double work = least_work_bytes (tmpl, kept), first = work;
  double last
      = real (tmpl->head.memory.logits_peak_bytes) + real (cost_block_work_bytes (&tmpl->head));
  gboolean is_apart = plan->layout->pp > 1;
  first = MAX (work, real (cost_block_work_bytes (&tmpl->embedding)));
  room->around = changing_ratio * (real (plan->fixed_bytes) + work)
                 + real (plan->communicator_bytes) + real (plan->context_bytes);
  room->first_more
      = changing_ratio * (first - work)
        + states_need (plan, ratio, changing_ratio, real (tmpl->embedding.weight_count), 0);
  room->last_more = changing_ratio * MAX (last - work, 0)
                    + states_need (plan, ratio, changing_ratio,
                                   real (tmpl->head.weight_count)
                                       + (is_apart ? real (tmpl->tied_weight_count) : 0),
                                   0);
  if (!is_apart) /* the work of the two is not needed at once */
    room->first_more -= changing_ratio * (first - work);
}

/* Micro-batches in flight of a rank's layers. */
typedef struct {
  double each; /* of every layer */
  double most; /* of the layer that has the most: one of the first chunk */
  double more; /* need per layer beyond, less @beside */
  double beside;
} Flight;

/* Interleaved ranks have p of every chunk and so many more of the first, or fewer of the last, which
 * has a (vpp)th of the layers, give or take one: counted as of the smallest or largest kind. */
static Flight
in_flight (const CostRoom *room, const CostStageMap *map, guint64 microbatches, guint32 rank)
{
  double all
      = real (model_schedule_in_flight (map->schedule, map->pp, map->vpp, microbatches, rank));
  double vpp = map->vpp, further = all - (double)map->pp * vpp;
  if (map->vpp == 1)
    return (Flight){ .each = all, .most = all };
  double kept = further >= 0 ? room->least_kept : room->most_kept;
  return (Flight){ .each = map->pp,
                   .most = map->pp + MAX (further, 0),
                   .more = further * kept / vpp,
                   .beside = fabs (further) * kept * (vpp - 1) / vpp };
}

static double
mean_layer (const CostRoom *room, const Flight *flight)
{
  return room->mean_states + flight->each * room->mean_kept + flight->more;
}

/* For the layers of @rank. */
static double
room_of (const CostRoom *room, const Flight *flight, guint32 rank, guint32 pp)
{
  return room->limit - room->around + flight->beside - (rank == 0 ? room->first_more : 0)
         - (rank + 1 == pp ? room->last_more : 0);
}

/* What can be told without looking at every rank. */
typedef enum { ROOM_ENOUGH, ROOM_TOO_LITTLE, ROOM_UNKNOWN } Room;

/*
 * Of layers of one kind: those of the first rank, with the most micro-batches in flight, need the
 * most, those of the last the least. If ranks as bad as the worst hold all layers, or ranks better
 * than the best do not, that is the answer.
 */
static Room
room_at_a_glance (const CostRoom *room, const CostStageMap *map, guint64 microbatches)
{
  double beside[2], layers[2];
  if (room->n_kinds > 1)
    return ROOM_UNKNOWN;
  for (guint end = 0; end < 2; end++) {
    Flight flight = in_flight (room, map, microbatches, end * (map->pp - 1));
    beside[end] = flight.beside;
    layers[end] = mean_layer (room, &flight);
  }
  if (!(layers[1] > 0))
    return ROOM_ENOUGH;
  double most = room->limit - room->around + MAX (beside[0], beside[1]);
  double least = room->limit - room->around - MAX (room->first_more, 0) - MAX (room->last_more, 0);
  if ((double)(gint64)(MAX (most, 0) / layers[1]) * map->pp < room->n_layers)
    return ROOM_TOO_LITTLE;
  if ((double)(gint64)(MAX (least, 0) / layers[0]) * map->pp >= room->n_layers)
    return ROOM_ENOUGH;
  return ROOM_UNKNOWN;
}

/* Rooms of all ranks against the layers. FALSE: they have no place. */
static gboolean
has_room (const CostRoom *room, const CostStageMap *map, guint64 microbatches)
{
  double weights[COST_MAX_RUN_KINDS], rooms = 0, wanted = 0;
  for (guint kind = 0; kind < room->n_kinds; kind++)
    weights[kind] = INFINITY;
  for (guint32 rank = 0; rank < map->pp; rank++) {
    Flight flight = in_flight (room, map, microbatches, rank);
    double mean = mean_layer (room, &flight), least = INFINITY;
    double bytes = room_of (room, &flight, rank, map->pp);
    if (room->n_kinds == 1)
      least = mean;
    for (guint kind = 0; kind < room->n_kinds && room->n_kinds > 1; kind++) {
      double layer = room->states[kind] + flight.each * room->kept[kind] + flight.more;
      least = MIN (least, layer);
      weights[kind] = MIN (weights[kind], layer / mean);
    }
    if (!(least > 0))
      return TRUE;
    if (bytes < least)
      return FALSE; /* not even one layer */
    rooms += room->n_kinds == 1 ? (double)(gint64)MIN (bytes / mean, room->n_layers) : bytes / mean;
  }
  for (guint kind = 0; kind < room->n_kinds; kind++)
    wanted += room->layers[kind] * (room->n_kinds == 1 ? 1 : weights[kind]);
  return rooms >= wanted * (1 - ROUNDING);
}

void
cost_room_init (CostRoom *out, const CostMemoryPlan *plan, const ModelArch *arch,
                const CostBlockKinds *kinds, CostKept layers, CostKept work, double most_need_bytes)
{
  const CostContext *context = &plan->tmpl->context;
  const CostProfileNumbers *numbers = &context->numbers->profile;
  gboolean grows = context->profile->expandable_segments;
  double ratio = grows ? 1 : numbers->need_ratio;
  double changing_ratio = grows ? 1 : numbers->need_ratio + numbers->need_changing_ratio - 1;
  *out = (CostRoom){ .n_kinds = plan->tmpl->n_kinds,
                     .is_known
                     = plan->layout->layers_on_gpu == 0 && ratio > 0 && changing_ratio >= 0,
                     .limit = most_need_bytes * (1 + ROUNDING) + ROUNDING_BYTES };
  if (!out->is_known)
    return;
  bound_layers (out, plan, arch, kinds, layers, ratio, changing_ratio);
  bound_around (out, plan, work, ratio, changing_ratio);
}

static gboolean
is_told (const CostRoom *room, ModelScheduleKind schedule)
{
  return room->is_known
         && (schedule == MODEL_SCHEDULE_1F1B || schedule == MODEL_SCHEDULE_INTERLEAVED);
}

gboolean
cost_room_may_fit (const CostRoom *room, const CostStageMap *map, guint64 microbatches)
{
  if (!is_told (room, map->schedule))
    return TRUE;
  Room glance = room_at_a_glance (room, map, microbatches);
  return glance == ROOM_UNKNOWN ? has_room (room, map, microbatches) : glance == ROOM_ENOUGH;
}

double
cost_room_saved_per_s (const CostRoom *room, const CostTemplate *tmpl, const double *extra_s)
{
  double most = 0;
  for (guint kind = 0; kind < tmpl->n_kinds; kind++) {
    double plain = real (tmpl->plain_blocks[kind].memory.kept_bytes);
    double saved = plain - real (cost_recomputed_kept_bytes (tmpl, kind));
    if (!(extra_s[kind] > 0))
      return 0;
    most = MAX (most, room->kept_ratio * saved / extra_s[kind]);
  }
  return most;
}

/*
 * On rank r layers that recompute nothing need a(r) bytes each, weighed as above, and recompute
 * saves b(r) bytes a second: those beyond its room, y(r) in all, take (a(r)·y(r) − room) / b(r)
 * seconds at least. All ranks' rooms are filled first, then the rank where a layer costs least.
 */
double
cost_room_least_recompute_s (const CostRoom *room, const CostStageMap *map, guint64 microbatches,
                             double saved_per_s)
{
  double weights[COST_MAX_RUN_KINDS], rooms = 0, wanted = 0, least_s = INFINITY;
  if (!is_told (room, map->schedule) || !(saved_per_s > 0))
    return 0;
  for (guint kind = 0; kind < room->n_kinds; kind++)
    weights[kind] = INFINITY;
  for (guint32 rank = 0; rank < map->pp; rank++) {
    Flight flight = in_flight (room, map, microbatches, rank);
    double mean = mean_layer (room, &flight);
    if (!(mean > 0))
      return 0;
    for (guint kind = 0; kind < room->n_kinds && room->n_kinds > 1; kind++) {
      double layer = room->states[kind] + flight.each * room->kept[kind] + flight.more;
      weights[kind] = MIN (weights[kind], layer / mean);
    }
    rooms += MAX (room_of (room, &flight, rank, map->pp), 0) / mean;
    least_s = MIN (least_s, mean / (flight.most * saved_per_s));
  }
  for (guint kind = 0; kind < room->n_kinds; kind++)
    wanted += room->layers[kind] * (room->n_kinds == 1 ? 1 : weights[kind]);
  double beyond = wanted * (1 - ROUNDING) - rooms;
  return beyond > 0 ? beyond * least_s : 0;
}
