/* costmodel/tail.c - what a step does after the last backward: gradients, optimizer, parameters.
 *
 * Dense parameters reduce over dp·cp (or the HSDP shard group, then across its copies), routed
 * experts over their own group. ZeRO 0 all-reduces; 1 to 3 reduce-scatter and gather the updated
 * parameters. ZeRO 2 reduces after every micro-batch. FSDP with a pipeline keeps parameters
 * gathered over the step, so its traffic is that of ZeRO 1; without one it is in the passes.
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

typedef struct {
  double reduce_s, gather_s;
} Traffic;

static Traffic
traffic_of (const CostGroup *all, const CostGroup *shard, const CostGroup *replicate,
            guint32 shard_ranks, guint zero, double count, double reduce_bytes,
            double element_bytes)
{
  Traffic traffic = { 0 };
  if (!(count > 0))
    return traffic;
  if (zero == 0) {
    traffic.reduce_s = cost_collective_s (all, MODEL_COLLECTIVE_ALL_REDUCE, count * reduce_bytes);
    return traffic;
  }
  traffic.reduce_s
      = cost_collective_s (shard, MODEL_COLLECTIVE_REDUCE_SCATTER, count * reduce_bytes);
  traffic.gather_s = cost_collective_s (shard, MODEL_COLLECTIVE_ALL_GATHER, count * element_bytes);
  if (replicate != NULL && replicate->ranks > 1)
    traffic.reduce_s += cost_collective_s (replicate, MODEL_COLLECTIVE_ALL_REDUCE,
                                           count / shard_ranks * reduce_bytes);
  return traffic;
}

static double
exposed_s (double traffic_s, double hidden_s)
{
  return MAX (traffic_s - hidden_s, 0);
}

static double
dp_s (const CostProblem *problem, const ModelLayout *layout, const CostTemplate *tmpl,
      const CostPlacement *placement, const CostWeights *weights, guint64 microbatches,
      double stage_s)
{
  const ModelProfile *profile = problem->profile;
  double hidden_s = layout->overlap_dp ? problem->numbers->profile.overlap_dp_ratio * stage_s : 0;
  if (cost_is_fsdp (layout)) {
    /* Only the copies' all-reduce is left for the end of the step. */
    double shard_bytes = sharded_count (placement, weights) * profile->reduce_bytes;
    return placement->replicate.ranks > 1
               ? exposed_s (cost_collective_s (&placement->replicate, MODEL_COLLECTIVE_ALL_REDUCE,
                                               shard_bytes),
                            hidden_s)
               : 0;
  }
  Traffic dense = traffic_of (&placement->dp, &placement->shard, &placement->replicate,
                              placement->shards.shard_ranks, layout->zero, real (weights->dense),
                              profile->reduce_bytes, tmpl->element_bytes);
  Traffic expert = traffic_of (&placement->edp, &placement->edp, NULL, 1, layout->zero,
                               real (weights->expert), profile->reduce_bytes, tmpl->element_bytes);
  double reduce_s = dense.reduce_s + expert.reduce_s;
  double all_s = exposed_s (reduce_s + dense.gather_s + expert.gather_s, hidden_s);
  if (layout->zero == 2)
    all_s += real (microbatches - 1) * exposed_s (reduce_s, hidden_s);
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
                            real (tmpl->tied_weight_count) * problem->profile->reduce_bytes);
}

/*
 * HBM traffic of the optimizer: the gradient is read for its norm and for the update, master
 * weights and moments are read and written, the 16-bit copy is written: 34 bytes with fp32
 * gradients and Adam (the time model's fit assumed 32).
 */
static double
optimizer_s (const CostProblem *problem, const ModelLayout *layout, const CostPlacement *placement,
             const CostWeights *weights)
{
  const ModelProfile *profile = problem->profile;
  double gradient = profile->main_grad_bytes > 0 ? profile->main_grad_bytes : profile->grad_bytes;
  double bytes
      = 2 * gradient + 2 * (profile->master_bytes + profile->moment_bytes) + profile->param_bytes;
  double count = updated_count (layout, placement, weights);
  const CostGpuNumbers *gpu = &problem->numbers->gpu;
  return count * bytes * gpu->kernel_factor[MODEL_OP_ADAM]
         / (problem->machine->gpu->hbm_bytes_per_s * gpu->hbm_ratio);
}

void
cost_tail (CostTail *out, const CostProblem *problem, const ModelLayout *layout,
           const CostTemplate *tmpl, const CostPlacement *placement,
           const CostStageContent *content, const CostWeights *weights, guint64 microbatches,
           double stage_s)
{
  out->dp_s = dp_s (problem, layout, tmpl, placement, weights, microbatches, stage_s)
              + embedding_s (problem, layout, tmpl, placement, content)
              + mirror_s (problem, layout, placement, weights);
  /* With sequence parallelism each tp rank saw its own tokens only. */
  out->tp_s = layout->sp && layout->tp > 1 && weights->replicated > 0
                  ? cost_collective_s (&placement->tp, MODEL_COLLECTIVE_ALL_REDUCE,
                                       real (weights->replicated) * problem->profile->reduce_bytes)
                  : 0;
  out->optimizer_s = optimizer_s (problem, layout, placement, weights);
  out->sum_s = out->dp_s + out->tp_s + out->optimizer_s;
}
