/* costmodel/memory.c - states, activations in flight, transients, and what lies around them.
 *
 * Reference "memory-model" §2 for every term; bytes per parameter are the profile's.
 */
#include "costmodel/memory-private.h"
#include "model/program.h"
#include <string.h>

#define MAX_CHUNKS 64 /* per rank in a user's own order (model/schedule_file.c) */

static const char *const kind_names[COST_MEMORY_N_KINDS] = {
  [COST_MEMORY_WEIGHTS] = "weights",
  [COST_MEMORY_GRADIENTS] = "gradients",
  [COST_MEMORY_OPTIMIZER] = "optimizer",
  [COST_MEMORY_ACTIVATIONS] = "activations",
  [COST_MEMORY_LOGITS] = "logits",
  [COST_MEMORY_GATHERS] = "gathers",
  [COST_MEMORY_COMM_BUFFERS] = "comm_buffers",
  [COST_MEMORY_WORKSPACE] = "workspace",
  [COST_MEMORY_CONTEXT] = "context",
  [COST_MEMORY_FRAGMENTATION] = "fragmentation",
};

const char *
cost_memory_kind_name (CostMemoryKind kind)
{
  g_return_val_if_fail ((guint)kind < COST_MEMORY_N_KINDS, "?");
  return kind_names[kind];
}

void
cost_weights_count (CostWeights *out, const CostTemplate *tmpl, const CostStageContent *content,
                    gboolean is_pipelined)
{
  CostWeights sum = { 0 };
  for (guint kind = 0; kind < tmpl->n_kinds; kind++) {
    const CostBlock *block = &tmpl->blocks[kind];
    guint64 n = content->blocks[kind];
    sum.dense += n * block->weight_count;
    sum.expert += n * block->expert_weight_count;
    sum.replicated += n * block->replicated_weight_count;
  }
  if (content->has_embedding) {
    sum.dense += tmpl->embedding.weight_count;
    sum.replicated += tmpl->embedding.replicated_weight_count;
  }
  if (content->has_head) {
    /* where embedding and head are on one rank, a tied matrix is there once */
    gboolean is_apart = is_pipelined && !content->has_embedding;
    sum.dense += tmpl->head.weight_count + (is_apart ? tmpl->tied_weight_count : 0);
    sum.replicated += tmpl->head.replicated_weight_count;
  }
  *out = sum;
}

/* Parameters of a rank as numbers: all of them, and those of its shard; the rank with the most of
 * an uneven split counts. */
typedef struct {
  double full, sharded;
} Counts;

/* Counts of parameters and bytes of one GPU are far below 2⁶³: signed conversions are one
 * instruction, unsigned ones are not. */
static double
real (guint64 count)
{
  return (double)(gint64)count;
}

static guint64
whole (double bytes)
{
  return (guint64)(gint64)bytes;
}

/* Beyond so many bytes nothing fits: products stop there, so that sums cannot wrap round. */
#define MOST_BYTES (G_GUINT64_CONSTANT (1) << 60)

static guint64
times (guint64 count, guint64 bytes)
{
  guint64 product;
  return __builtin_mul_overflow (count, bytes, &product) ? MOST_BYTES : MIN (product, MOST_BYTES);
}

static void
fill_states (guint64 *bytes, const CostMemoryPlan *plan, const Counts *counts)
{
  double full = counts->full, sharded = counts->sharded;
  bytes[COST_MEMORY_WEIGHTS]
      = whole (plan->weight_full * full + plan->weight_sharded * sharded + 0.5);
  bytes[COST_MEMORY_GRADIENTS]
      = whole (plan->gradient_full * full + plan->gradient_sharded * sharded + 0.5);
  bytes[COST_MEMORY_OPTIMIZER] = whole (plan->optimizer * sharded + 0.5);
}

static guint32
uniform_layers (const ModelLayout *layout)
{
  gboolean is_uniform = layout->recompute.kind == MODEL_RECOMPUTE_FULL
                        && layout->recompute.method == MODEL_RECOMPUTE_UNIFORM;
  return is_uniform ? MAX (layout->recompute.n, 1) : 1;
}

guint64
cost_recomputed_kept_bytes (const CostTemplate *tmpl, guint kind)
{
  const ModelSegmentMemory *memory = &tmpl->blocks[kind].memory;
  gboolean input_only = memory->kept_bytes == memory->input_bytes;
  return input_only && tmpl->context.profile->checkpoints_on_host ? 0 : memory->kept_bytes;
}

/* One micro-batch of @content, which is one chunk if @uniform > 1: then one input is kept per
 * @uniform layers, the last group of a chunk being shorter. */
static guint64
kept_bytes (const CostTemplate *tmpl, guint32 uniform, const CostStageContent *content)
{
  guint64 bytes = 0;
  for (guint kind = 0; kind < tmpl->n_kinds && uniform == 1; kind++) {
    guint64 recomputed = content->recomputed[kind];
    bytes += recomputed * cost_recomputed_kept_bytes (tmpl, kind);
    bytes += (content->blocks[kind] - recomputed) * tmpl->plain_blocks[kind].memory.kept_bytes;
  }
  if (uniform > 1)
    bytes = model_shard_ceil (content->layers, uniform) * cost_recomputed_kept_bytes (tmpl, 0);
  if (content->has_embedding)
    bytes += tmpl->embedding.memory.kept_bytes;
  if (content->has_head)
    bytes += tmpl->head.memory.kept_bytes;
  return bytes;
}

/* Share of the activations of @content that belongs to routed experts. */
static double
expert_ratio (const CostTemplate *tmpl, const CostStageContent *content)
{
  guint64 routed = 0, all = 0;
  for (guint kind = 0; kind < tmpl->n_kinds; kind++) {
    guint64 recomputed = content->recomputed[kind], plain = content->blocks[kind] - recomputed;
    const ModelSegmentMemory *again = &tmpl->blocks[kind].memory;
    const ModelSegmentMemory *kept = &tmpl->plain_blocks[kind].memory;
    routed += recomputed * again->routed_kept_bytes + plain * kept->routed_kept_bytes;
    all += recomputed * again->kept_bytes + plain * kept->kept_bytes;
  }
  return all > 0 ? real (routed) / real (all) : 0;
}

static const CostStageContent *
chunk_content (const CostStageMap *map, guint32 rank, guint32 chunk)
{
  guint32 stage = model_schedule_stage (map->schedule, map->pp, rank, chunk);
  return &map->contents[map->content_of_stage[stage]];
}

/* The order that peaks are counted along, for listed schedules. */
static const ModelSchedule *
counted_list (const CostMemoryPlan *plan)
{
  if (model_schedule_is_file (plan->map->schedule))
    return plan->layout->schedule_list;
  return model_schedule_is_listed (plan->map->schedule)
             ? model_schedule_peaks (plan->map->schedule, plan->map->pp, plan->microbatches)
             : NULL;
}

/* The largest sum of what the chunks of a rank keep, along its list. What full recompute rebuilds
 * for the input gradient stays until the weight gradient has run. */
static guint64
listed_bytes (const CostMemoryPlan *plan, const ModelSchedule *list, guint32 rank)
{
  gboolean rebuilds = plan->layout->recompute.kind == MODEL_RECOMPUTE_FULL;
  guint64 kept[MAX_CHUNKS], waiting[MAX_CHUNKS];
  for (guint32 chunk = 0; chunk < MIN (list->vpp, MAX_CHUNKS); chunk++) {
    const CostStageContent *content = chunk_content (plan->map, rank, chunk);
    CostStageContent rebuilt = *content;
    memset (rebuilt.recomputed, 0, sizeof rebuilt.recomputed);
    kept[chunk] = kept_bytes (plan->tmpl, plan->uniform, content);
    waiting[chunk] = rebuilds ? kept_bytes (plan->tmpl, 1, &rebuilt) : kept[chunk];
  }
  return model_schedule_peak (list, rank, kept, waiting);
}

/* Where a stage's output stays until its backward: it is the next stage's input, so the first layer
 * of a stage keeps its own anyway. */
static guint64
output_bytes (const CostMemoryPlan *plan, const CostStageClass *class, guint64 in_flight)
{
  gboolean sends = plan->layout->pp > 1 && !class->content.has_head;
  return sends && plan->tmpl->context.profile->keeps_stage_output
             ? times (in_flight, plan->tmpl->boundary_bytes)
             : 0;
}

/* Micro-batches whose logits' gradient waits for the head's weight gradient, beside the one the
 * head works on: the weight gradient needs it, whenever it runs. */
static guint64
waiting_logits (const CostMemoryPlan *plan, guint32 rank, guint64 in_flight)
{
  const CostStageMap *map = plan->map;
  const ModelSchedule *list = counted_list (plan);
  guint64 last = model_schedule_n_stages (map->schedule, map->pp, map->vpp) - 1;
  guint64 most = in_flight;
  for (guint32 chunk = 0; chunk < map->vpp && list != NULL; chunk++)
    if (model_schedule_stage (map->schedule, map->pp, rank, chunk) == last)
      most = model_schedule_chunk_peak (list, rank, chunk);
  return most - 1;
}

/* Interleaved chunks may be of unequal size, and block:N recomputes unequal shares of them. */
static guint64
activation_bytes (const CostMemoryPlan *plan, const CostStageClass *class, guint64 in_flight)
{
  const CostStageMap *map = plan->map;
  if (map->vpp == 1)
    return times (in_flight, kept_bytes (plan->tmpl, plan->uniform, &class->content));
  guint64 *kept = g_newa (guint64, map->vpp), most = MOST_BYTES / MAX (in_flight, 1);
  gboolean is_even = TRUE;
  for (guint32 chunk = 0; chunk < map->vpp; chunk++) {
    const CostStageContent *content = chunk_content (map, class->first_rank, chunk);
    kept[chunk] = MIN (kept_bytes (plan->tmpl, plan->uniform, content), most);
    is_even = is_even && kept[chunk] == kept[0];
  }
  if (is_even)
    return times (in_flight, kept[0]);
  return model_schedule_interleaved_peak (map->pp, map->vpp, plan->microbatches, class->first_rank,
                                          kept);
}

/*
 * Offloaded, layer by layer on streams of their own: of all layers in flight the GPU holds
 * layers_on_gpu; embedding and head keep what they keep.
 */
static guint64
offloaded_bytes (const CostMemoryPlan *plan, const CostStageClass *class, guint64 in_flight)
{
  const CostTemplate *tmpl = plan->tmpl;
  const CostStageContent *content = &class->content;
  guint64 layer = 0, ends = 0;
  for (guint kind = 0; kind < tmpl->n_kinds; kind++) {
    guint32 plain = content->blocks[kind] - content->recomputed[kind];
    if (content->recomputed[kind] > 0)
      layer = MAX (layer, tmpl->blocks[kind].memory.kept_bytes);
    if (plain > 0)
      layer = MAX (layer, tmpl->plain_blocks[kind].memory.kept_bytes);
  }
  if (content->has_embedding)
    ends += tmpl->embedding.memory.kept_bytes;
  if (content->has_head)
    ends += tmpl->head.memory.kept_bytes;
  guint64 on_gpu = MIN (times (in_flight, class->max_chunk_layers), plan->layout->layers_on_gpu);
  return on_gpu * layer + times (in_flight, ends);
}

guint64
cost_block_work_bytes (const CostBlock *block)
{
  return MAX (block->memory.forward_work_bytes, block->memory.backward_work_bytes);
}

/* What the layers of a stage need at once beside what is kept: the neediest layer, and for
 * full:uniform:N what N − 1 other layers of the group keep while it runs backward. */
static guint64
layer_work_bytes (const CostTemplate *tmpl, guint32 uniform, const CostStageClass *class)
{
  guint64 work = 0, rebuilt = 0;
  for (guint kind = 0; kind < tmpl->n_kinds; kind++) {
    guint16 n = class->content.blocks[kind], recomputed = class->content.recomputed[kind];
    if (recomputed > 0)
      work = MAX (work, cost_block_work_bytes (&tmpl->blocks[kind]));
    if (recomputed < n)
      work = MAX (work, cost_block_work_bytes (&tmpl->plain_blocks[kind]));
    if (n > 0)
      rebuilt = MAX (rebuilt, tmpl->plain_blocks[kind].memory.kept_bytes);
  }
  if (uniform > 1)
    work += (MIN (uniform, class->max_chunk_layers) - 1) * rebuilt;
  if (class->content.has_embedding)
    work = MAX (work, cost_block_work_bytes (&tmpl->embedding));
  return work;
}

/* Transformer Engine's 16-bit stand-in for the weight gradients of one layer's MLP. */
static guint64
dummy_bytes (const CostTemplate *tmpl, const CostStageClass *class)
{
  guint64 largest = 0;
  for (guint kind = 0; kind < tmpl->n_kinds && tmpl->context.profile->dummy_wgrad; kind++)
    if (class->content.blocks[kind] > 0)
      largest = MAX (largest, tmpl->blocks[kind].largest_mlp_weight_count);
  return 2 * largest;
}

/*
 * Bytes per parameter of a whole copy to compute with, where the profile's parameters are its fp32
 * master weights (param_bytes 0) and ZeRO 3 does not gather them unit by unit: gathered from their
 * shards over the step (ZeRO 1 and 2), or cast to 16 bits and kept for backward (no ZeRO).
 */
double
cost_compute_copy_bytes (const CostMemoryPlan *plan)
{
  guint zero = plan->layout->zero;
  double element_bytes = plan->tmpl->element_bytes;
  if (plan->param_bytes > 0 || zero >= 3)
    return 0;
  gboolean has_whole_master = zero == 0 || plan->shards->shard_ranks == 1;
  return has_whole_master && element_bytes >= COST_FP32_BYTES ? 0 : element_bytes;
}

/*
 * FSDP: the units in flight in 16 bits, the embedding or head, and the largest unit's fp32 gradient;
 * everything of the stage where it stays gathered (pipelines, or no reshard). Otherwise the copy to
 * compute with, and one gradient bucket where gradients are not made in the buffer they are
 * reduced from.
 */
static guint64
gather_bytes (const CostMemoryPlan *plan, const CostStageClass *class, const CostWeights *weights)
{
  const CostTemplate *tmpl = plan->tmpl;
  const ModelLayout *layout = plan->layout;
  const ModelProfile *profile = tmpl->context.profile;
  guint64 all = weights->dense + weights->expert, bucket = 0;
  if (plan->has_bucket)
    bucket = whole (real (MIN (profile->bucket_elements, all)) * profile->reduce_bytes);
  if (layout->zero < 3 || plan->shards->shard_ranks == 1)
    return bucket + whole (cost_compute_copy_bytes (plan) * real (all));
  if (layout->pp > 1 || !profile->reshard_after_forward)
    return bucket + whole (tmpl->element_bytes * real (all));
  guint64 unit = 0, ends = 0, live;
  for (guint kind = 0; kind < tmpl->n_kinds; kind++)
    if (class->content.blocks[kind] > 0)
      unit = MAX (unit, tmpl->blocks[kind].weight_count + tmpl->blocks[kind].expert_weight_count);
  if (class->content.has_embedding)
    ends = tmpl->embedding.weight_count;
  if (class->content.has_head)
    ends = MAX (ends, tmpl->head.weight_count);
  live = MAX (profile->fsdp_units_in_flight, 1) * unit;
  live = MAX (live, MIN (profile->live_elements, all));
  return bucket
         + whole (tmpl->element_bytes * real (live + ends)
                  + COST_FP32_BYTES * real (MAX (unit, ends)));
}

/*
 * Logits and a layer's temporaries are not alive together: workspace is what is needed beside the
 * logits. The optimizer's copies find the activations freed: they count as far as they exceed them.
 */
static void
fill_transients (guint64 *bytes, const CostMemoryPlan *plan, guint64 in_flight,
                 const CostStageClass *class, guint64 layer_work, guint64 step_copy)
{
  const CostTemplate *tmpl = plan->tmpl;
  ModelScheduleKind schedule = plan->map->schedule;
  guint64 work = layer_work;
  if (class->content.has_head) {
    const ModelSegmentMemory *head = &tmpl->head.memory;
    /* The last stage turns round at once: one micro-batch, unless all go forward first, or
     * weight gradients wait. */
    guint64 others = 0;
    if (schedule == MODEL_SCHEDULE_GPIPE)
      others = in_flight - 1;
    else if (model_schedule_is_listed (schedule))
      others = waiting_logits (plan, class->first_rank, in_flight);
    others = (others + 1) * (1 + (guint64)tmpl->prediction_layers) - 1;
    bytes[COST_MEMORY_LOGITS] = head->logits_peak_bytes + times (others, head->logits_kept_bytes);
    guint64 beside = work > head->logits_peak_bytes ? work - head->logits_peak_bytes : 0;
    work = MAX (beside, cost_block_work_bytes (&tmpl->head));
  }
  guint64 freed = bytes[COST_MEMORY_ACTIVATIONS] + bytes[COST_MEMORY_LOGITS]
                  + bytes[COST_MEMORY_GATHERS] + work;
  if (step_copy > freed)
    work += step_copy - freed;
  bytes[COST_MEMORY_WORKSPACE] = work;
}

/*
 * Where segments cannot grow, more is needed than is held: cache that is cut into pieces too small is
 * not given back whole. Which bytes leave such gaps, all or those that come and go within a step, is
 * the framework's. Activations of experts are those of the hottest rank.
 */
static guint64
need_bytes (const CostMemoryPlan *plan, const guint64 *bytes, guint64 allocated,
            double expert_ratio)
{
  const CostContext *context = &plan->tmpl->context;
  guint64 states
      = bytes[COST_MEMORY_WEIGHTS] + bytes[COST_MEMORY_GRADIENTS] + bytes[COST_MEMORY_OPTIMIZER];
  const CostProfileNumbers *numbers = &context->numbers->profile;
  gboolean grows = context->profile->expandable_segments;
  double ratio = grows ? 1 : numbers->need_ratio;
  double further = grows ? 0 : numbers->need_changing_ratio - 1;
  double hottest = (context->numbers->memory.imbalance_ratio - 1) * expert_ratio;
  double changing = real (allocated - states) + hottest * real (bytes[COST_MEMORY_ACTIVATIONS]);
  return whole (ratio * (real (states) + changing) + further * changing);
}

static void
fill_views (CostStageMemory *out, const CostMemoryPlan *plan, double expert_ratio)
{
  guint64 *bytes = out->bytes;
  guint64 allocated = bytes[COST_MEMORY_WORKSPACE];
  for (guint kind = COST_MEMORY_WEIGHTS; kind <= COST_MEMORY_GATHERS; kind++)
    allocated += bytes[kind];
  guint64 around = plan->communicator_bytes + plan->context_bytes;
  bytes[COST_MEMORY_COMM_BUFFERS] = plan->communicator_bytes;
  bytes[COST_MEMORY_CONTEXT] = plan->context_bytes;
  bytes[COST_MEMORY_FRAGMENTATION] = whole (plan->slack_ratio * real (allocated));
  out->allocated_bytes = allocated;
  out->reserved_bytes = allocated + bytes[COST_MEMORY_FRAGMENTATION];
  out->peak_bytes = out->reserved_bytes + around;
  out->need_bytes = need_bytes (plan, bytes, allocated, expert_ratio) + around;
}

/*
 * ZeRO 1 shards master weights and moments (and the main gradient where the profile reduces into
 * a shard), 2 the gradients too, 3 the parameters too. Without ZeRO a rank's shard is everything.
 * Gradients that are reduced once per step, as with pipelining, are whole until then.
 */
static void
plan_states (CostMemoryPlan *plan, const ModelProfile *profile, const ModelLayout *layout)
{
  ModelStates states = model_profile_states (profile, layout->dtype);
  gboolean shards = model_zero_moves_per_microbatch (layout, 2);
  gboolean shards_main = shards || (layout->zero == 1 && profile->shards_main_grad_zero1);
  *(layout->zero == 3 ? &plan->weight_sharded : &plan->weight_full) += states.param_bytes;
  *(shards ? &plan->gradient_sharded : &plan->gradient_full) += states.grad_bytes;
  *(shards_main ? &plan->gradient_sharded : &plan->gradient_full) += states.main_grad_bytes;
  plan->optimizer = profile->offloads_optimizer ? 0 : states.master_bytes + states.moment_bytes;
  plan->step_copy = states.step_copy_bytes;
  plan->param_bytes = states.param_bytes;
  plan->has_bucket = states.grad_bytes > 0 && layout->dp > 1;
}

void
cost_memory_plan_init (CostMemoryPlan *plan, const CostTemplate *tmpl, const ModelLayout *layout,
                       guint64 microbatches, const CostShards *shards, const CostStageMap *map)
{
  const ModelProfile *profile = tmpl->context.profile;
  const CostNumbers *numbers = tmpl->context.numbers;
  *plan = (CostMemoryPlan){ .tmpl = tmpl,
                            .layout = layout,
                            .shards = shards,
                            .map = map,
                            .microbatches = microbatches,
                            .uniform = uniform_layers (layout),
                            .slack_ratio = MAX (numbers->profile.reserved_ratio - 1, 0) };
  plan_states (plan, profile, layout);
  plan->fixed_bytes
      = whole (numbers->memory.cublas_workspace_bytes + numbers->memory.allocated_extra_bytes);
  plan->communicator_bytes = whole (shards->communicators * numbers->memory.communicator_bytes);
  plan->context_bytes = whole (profile->context_bytes);
}

void
cost_stage_kept_init (CostStageKept *out, const CostMemoryPlan *plan, const CostStageClass *class)
{
  const CostTemplate *tmpl = plan->tmpl;
  const CostStageMap *map = plan->map;
  const ModelSchedule *list = counted_list (plan);
  out->in_flight_count = list != NULL
                             ? model_schedule_peak (list, class->first_rank, NULL, NULL)
                             : model_schedule_in_flight (map->schedule, map->pp, map->vpp,
                                                         plan->microbatches, class->first_rank);
  out->activations_bytes = list != NULL ? listed_bytes (plan, list, class->first_rank)
                                        : activation_bytes (plan, class, out->in_flight_count);
  if (plan->layout->layers_on_gpu > 0)
    out->activations_bytes = offloaded_bytes (plan, class, out->in_flight_count);
  out->activations_bytes += output_bytes (plan, class, out->in_flight_count);
  out->layer_work_bytes = layer_work_bytes (tmpl, plan->uniform, class);
  out->dummy_bytes = dummy_bytes (tmpl, class);
}

void
cost_stage_memory_with (CostStageMemory *out, const CostMemoryPlan *plan,
                        const CostStageClass *class, const CostWeights *weights,
                        const CostStageKept *kept)
{
  Counts counts;
  guint64 *bytes = out->bytes;
  counts.full = counts.sharded = real (weights->dense + weights->expert);
  if (plan->layout->zero > 0)
    counts.sharded
        = real (model_shard_ceil (weights->dense, plan->shards->shard_ranks)
                + (weights->expert > 0
                       ? model_shard_ceil (weights->expert, plan->shards->expert_shard_ranks)
                       : 0));
  out->in_flight_count = kept->in_flight_count;
  fill_states (bytes, plan, &counts);
  bytes[COST_MEMORY_ACTIVATIONS] = kept->activations_bytes;
  bytes[COST_MEMORY_LOGITS] = 0;
  bytes[COST_MEMORY_GATHERS] = gather_bytes (plan, class, weights);
  fill_transients (bytes, plan, kept->in_flight_count, class, kept->layer_work_bytes,
                   whole (plan->step_copy * counts.sharded));
  bytes[COST_MEMORY_WORKSPACE] += plan->fixed_bytes + kept->dummy_bytes;
  fill_views (out, plan, expert_ratio (plan->tmpl, &class->content));
}

void
cost_stage_memory (CostStageMemory *out, const CostMemoryPlan *plan, const CostStageClass *class,
                   const CostWeights *weights)
{
  CostStageKept kept;
  cost_stage_kept_init (&kept, plan, class);
  cost_stage_memory_with (out, plan, class, weights, &kept);
}
