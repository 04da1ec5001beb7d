/* costmodel/tail.c - what a step does after the last backward: gradients, optimizer, parameters.
 *
 * Dense parameters reduce over dp·cp (or the HSDP shard group, then across its copies), routed
 * experts over their own group. ZeRO 0 all-reduces; 1 to 3 reduce-scatter and gather the updated
 * parameters. ZeRO 2 without a pipeline reduces after every micro-batch, FSDP's traffic is then in
 * the passes; with a pipeline both move once per step, as ZeRO 1 does (model/lower_tail.c).
 */
#include "costmodel/evaluate-private.h"

/* Counts are far below 2⁶³: a signed conversion is one instruction. */
static double
real (guint64 count)
{
  return (double)(gint64)count;
}

/* Parameters of one rank's shard. */
static double
sharded_count (const CostPlacement *placement, const CostWeights *weights)
{
  return real (weights->dense) / placement->shards.shard_ranks
         + real (weights->expert) / placement->shards.expert_shard_ranks;
}

/* Parameters that one rank updates. */
static double
updated_count (const ModelLayout *layout, const CostPlacement *placement,
               const CostWeights *weights)
{
  return layout->zero > 0 ? sharded_count (placement, weights)
                          : real (weights->dense) + real (weights->expert);
}

/* Where one kind of weights reduces and lies. */
typedef struct {
  const CostGroup *all, *shard, *replicate;
  guint32 shard_ranks;
  double count; /* weights of the rank */
} Weights;

typedef struct {
  double reduce_s; /* of the shard, or of everything without ZeRO */
  double gather_s;
  double copies_s; /* sum of a shard over its copies, once per step */
} Traffic;

static void
add_traffic (Traffic *sum, const Weights *weights, const ModelLayout *layout,
             const ModelProfile *profile, double element_bytes)
{
  double count = weights->count, reduce_bytes = profile->reduce_bytes;
  if (!(count > 0))
    return;
  if (layout->zero > 0)
    sum->gather_s
        += cost_collective_s (weights->shard, MODEL_COLLECTIVE_ALL_GATHER, count * element_bytes);
  if (model_zero_all_reduces (layout, profile)) {
    sum->reduce_s
        += cost_collective_s (weights->all, MODEL_COLLECTIVE_ALL_REDUCE, count * reduce_bytes);
    return;
  }
  sum->reduce_s
      += cost_collective_s (weights->shard, MODEL_COLLECTIVE_REDUCE_SCATTER, count * reduce_bytes);
  if (weights->replicate->ranks > 1)
    sum->copies_s += cost_collective_s (weights->replicate, MODEL_COLLECTIVE_ALL_REDUCE,
                                        count / weights->shard_ranks * reduce_bytes);
}

static double
exposed_s (double traffic_s, double hidden_s)
{
  return MAX (traffic_s - hidden_s, 0);
}

/* @out_reduction_s: once per step, what of the reduction shows. */
static double
dp_s (const CostProblem *problem, const ModelLayout *layout, const CostTemplate *tmpl,
      const CostPlacement *placement, const CostWeights *weights, guint64 microbatches,
      const CostStageTime *stage, double *out_reduction_s)
{
  const ModelProfile *profile = problem->profile;
  const CostShards *shards = &placement->shards;
  const Weights dense = { &placement->dp, &placement->shard, &placement->replicate,
                          shards->shard_ranks, real (weights->dense) };
  const Weights expert = { &placement->edp, &placement->expert_shard, &placement->expert_replicate,
                           shards->expert_shard_ranks, real (weights->expert) };
  double overlap = layout->overlap_dp ? problem->numbers->profile.overlap_dp_ratio : 0;
  double under_backward_s
      = model_layout_reduces_under_backward (layout, profile) ? overlap * stage->backward_s : 0;
  double under_forward_s = profile->overlap_param_gather ? overlap * stage->forward_s : 0;
  Traffic sum = { 0 };
  add_traffic (&sum, &dense, layout, profile, tmpl->element_bytes);
  add_traffic (&sum, &expert, layout, profile, tmpl->element_bytes);
  *out_reduction_s = model_zero_moves_per_microbatch (layout, 3)
                         ? exposed_s (sum.copies_s, under_backward_s)
                         : exposed_s (sum.reduce_s + sum.copies_s, under_backward_s);
  if (model_zero_moves_per_microbatch (layout, 3))
    return *out_reduction_s;
  double all_s = *out_reduction_s + exposed_s (sum.gather_s, under_forward_s);
  if (model_zero_moves_per_microbatch (layout, 2))
    all_s += real (microbatches - 1) * exposed_s (sum.reduce_s, under_backward_s);
  return all_s;
}

/* Fed from both ends, every stage is held twice, on ranks r and p − 1 − r, which sum their
 * gradients; taken to be as far apart as the pipeline's ends. */
static double
mirror_s (const CostProblem *problem, const ModelLayout *layout, const CostPlacement *placement,
          const CostWeights *weights)
{
  if (!model_schedule_is_bidirectional (layout->schedule))
    return 0;
  double count = updated_count (layout, placement, weights);
  return cost_collective_s (&placement->embedding, MODEL_COLLECTIVE_ALL_REDUCE,
                            count * problem->profile->reduce_bytes);
}

/* Both ends of the pipeline hold the tied embedding and sum its gradient. */
static double
embedding_s (const CostProblem *problem, const ModelLayout *layout, const CostTemplate *tmpl,
             const CostPlacement *placement, const CostStageContent *content)
{
  if (layout->pp == 1 || tmpl->tied_weight_count == 0
      || content->has_embedding == content->has_head)
    return 0;
  return cost_collective_s (&placement->embedding, MODEL_COLLECTIVE_ALL_REDUCE,
                            real (tmpl->tied_weight_count)
                                * model_profile_gradient_bytes (problem->profile, layout->dtype));
}

/* On the host: gradients down, parameters up the GPU's own link, and an Adam that all ranks of
 * the node run out of one DRAM. A link of unknown rate costs nothing. */
static double
host_optimizer_s (const CostProblem *problem, double count, double element_bytes)
{
  const TopoMachine *machine = problem->machine;
  double link_bytes_per_s
      = machine->gpu->has_c2c ? machine->gpu->c2c_bytes_per_s : machine->pcie_bytes_per_s;
  double bytes = count * (problem->profile->reduce_bytes + element_bytes);
  double ranks = MIN (problem->gpus, machine->gpus_per_node);
  return (link_bytes_per_s > 0 ? bytes / link_bytes_per_s : 0)
         + count * ranks * problem->numbers->step.host_adam_s;
}

static double
optimizer_s (const CostProblem *problem, const ModelLayout *layout, const CostTemplate *tmpl,
             const CostPlacement *placement, const CostWeights *weights)
{
  double bytes = model_profile_adam_read_bytes (problem->profile, layout->dtype)
                 + model_profile_adam_write_bytes (problem->profile, layout->dtype);
  double count = updated_count (layout, placement, weights);
  const CostGpuNumbers *gpu = &problem->numbers->gpu;
  if (problem->profile->offloads_optimizer)
    return host_optimizer_s (problem, count, tmpl->element_bytes);
  return count * bytes * gpu->kernel_factor[MODEL_OP_ADAM]
         / (problem->machine->gpu->hbm_bytes_per_s * gpu->hbm_ratio);
}

void
cost_tail (CostTail *out, const CostProblem *problem, const ModelLayout *layout,
           const CostTemplate *tmpl, const CostPlacement *placement,
           const CostStageContent *content, const CostWeights *weights, guint64 microbatches,
           const CostStageTime *stage)
{
  out->dp_s
      = dp_s (problem, layout, tmpl, placement, weights, microbatches, stage, &out->reduction_s)
        + embedding_s (problem, layout, tmpl, placement, content)
        + mirror_s (problem, layout, placement, weights);
  out->tp_s = 0;
  if (model_layout_sums_replicated (layout) && weights->replicated > 0)
    out->tp_s
        = cost_collective_s (&placement->tp, MODEL_COLLECTIVE_ALL_REDUCE,
                             real (weights->replicated)
                                 * model_profile_gradient_bytes (problem->profile, layout->dtype));
  out->optimizer_s = optimizer_s (problem, layout, tmpl, placement, weights);
  out->sum_s = out->dp_s + out->tp_s + out->optimizer_s;
}
