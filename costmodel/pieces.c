/* costmodel/pieces.c - the tail of a step, transfer by transfer; see tail.c for what it rests on. */
#include "costmodel/pieces.h"
#include "costmodel/evaluate-private.h"

static double
exposed_s (double traffic_s, double hidden_s)
{
  return MAX (traffic_s - hidden_s, 0);
}

static CostTransfer
transfer (const CostGroup *group, ModelGroupKind kind, ModelCollectiveKind collective, double bytes)
{
  CostTransfer out = { .group = kind, .collective = collective, .bytes = bytes };
  if (bytes > 0)
    out.time_s = cost_collective_s (group, collective, bytes);
  return out;
}

/* Shards of dense parameters on this rank, and of experts. */
static double
sharded_count (const CostPlacement *placement, const CostWeights *weights)
{
  return (double)weights->dense / placement->shards.shard_ranks
         + (double)weights->expert / placement->shards.expert_shard_ranks;
}

static void
fill_plain (CostTailPieces *out, const CostPlacement *at, const CostWeights *weights,
            double reduce_bytes)
{
  out->reduces[0] = transfer (&at->dp, MODEL_GROUP_DPCP, MODEL_COLLECTIVE_ALL_REDUCE,
                              (double)weights->dense * reduce_bytes);
  out->reduces[1] = transfer (&at->edp, MODEL_GROUP_EDP, MODEL_COLLECTIVE_ALL_REDUCE,
                              (double)weights->expert * reduce_bytes);
}

static void
fill_sharded (CostTailPieces *out, const CostPlacement *at, const CostWeights *weights,
              double reduce_bytes, double element_bytes)
{
  double dense = (double)weights->dense, expert = (double)weights->expert;
  out->reduces[0] = transfer (&at->shard, MODEL_GROUP_HSDP_SHARD, MODEL_COLLECTIVE_REDUCE_SCATTER,
                              dense * reduce_bytes);
  if (at->replicate.ranks > 1)
    out->reduces[1]
        = transfer (&at->replicate, MODEL_GROUP_HSDP_REPLICATE, MODEL_COLLECTIVE_ALL_REDUCE,
                    dense / at->shards.shard_ranks * reduce_bytes);
  out->reduces[2] = transfer (&at->edp, MODEL_GROUP_EDP, MODEL_COLLECTIVE_REDUCE_SCATTER,
                              expert * reduce_bytes);
  out->gathers[0] = transfer (&at->shard, MODEL_GROUP_HSDP_SHARD, MODEL_COLLECTIVE_ALL_GATHER,
                              dense * element_bytes);
  out->gathers[1]
      = transfer (&at->edp, MODEL_GROUP_EDP, MODEL_COLLECTIVE_ALL_GATHER, expert * element_bytes);
}

void
cost_tail_pieces (CostTailPieces *out, const CostProblem *problem, const ModelLayout *layout,
                  const CostTemplate *tmpl, const CostPlacement *placement,
                  const CostStageContent *content, const CostWeights *weights, double stage_s)
{
  double reduce_bytes = problem->profile->reduce_bytes;
  CostTail tail;
  *out = (CostTailPieces){ .hidden_s = layout->overlap_dp
                                           ? problem->numbers->profile.overlap_dp_ratio * stage_s
                                           : 0 };
  if (cost_is_fsdp (layout)) {
    if (placement->replicate.ranks > 1)
      out->reduces[0] = transfer (&placement->replicate, MODEL_GROUP_HSDP_REPLICATE,
                                  MODEL_COLLECTIVE_ALL_REDUCE,
                                  sharded_count (placement, weights) * reduce_bytes);
  } else if (layout->zero == 0)
    fill_plain (out, placement, weights, reduce_bytes);
  else
    fill_sharded (out, placement, weights, reduce_bytes, tmpl->element_bytes);
  out->is_per_microbatch = layout->zero == 2;
  if (layout->pp > 1 && tmpl->tied_weight_count > 0 && content->has_embedding != content->has_head)
    out->embedding
        = transfer (&placement->embedding, MODEL_GROUP_EMBEDDING, MODEL_COLLECTIVE_ALL_REDUCE,
                    (double)tmpl->tied_weight_count * reduce_bytes);
  if (model_schedule_is_bidirectional (layout->schedule)) {
    double count = layout->zero > 0 ? sharded_count (placement, weights)
                                    : (double)weights->dense + (double)weights->expert;
    out->mirror = transfer (&placement->embedding, MODEL_GROUP_EMBEDDING,
                            MODEL_COLLECTIVE_ALL_REDUCE, count * reduce_bytes);
  }
  if (layout->sp && layout->tp > 1)
    out->replicated = transfer (&placement->tp, MODEL_GROUP_TP, MODEL_COLLECTIVE_ALL_REDUCE,
                                (double)weights->replicated * reduce_bytes);
  cost_tail (&tail, problem, layout, tmpl, placement, content, weights, 1, stage_s);
  out->optimizer_s = tail.optimizer_s;
}

double
cost_tail_pieces_sum (const CostTailPieces *pieces, guint64 microbatches)
{
  double reduce_s = 0, gather_s = 0;
  for (guint i = 0; i < G_N_ELEMENTS (pieces->reduces); i++)
    reduce_s += pieces->reduces[i].time_s;
  for (guint i = 0; i < G_N_ELEMENTS (pieces->gathers); i++)
    gather_s += pieces->gathers[i].time_s;
  double sum_s = exposed_s (reduce_s + gather_s, pieces->hidden_s) + pieces->embedding.time_s
                 + pieces->mirror.time_s + pieces->replicated.time_s + pieces->optimizer_s;
  if (pieces->is_per_microbatch)
    sum_s += ((double)microbatches - 1) * exposed_s (reduce_s, pieces->hidden_s);
  return sum_s;
}
