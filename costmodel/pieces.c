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
  if (bytes > 0 && group->ranks > 1)
    out.time_s = cost_collective_s (group, collective, bytes);
  return out;
}

/* Where one kind of weights reduces and lies. */
typedef struct {
  const CostGroup *all, *shard, *replicate;
  ModelGroupKind all_kind, shard_kind, replicate_kind;
  guint32 shard_ranks;
  double count;
} Weights;

static void
fill_traffic (CostTailPieces *out, guint i, const Weights *weights, const CostProblem *problem,
              const ModelLayout *layout, double element_bytes)
{
  double count = weights->count, reduce_bytes = problem->profile->reduce_bytes;
  if (!model_zero_moves_per_microbatch (layout, 3)) {
    if (layout->zero > 0)
      out->gathers[i] = transfer (weights->shard, weights->shard_kind, MODEL_COLLECTIVE_ALL_GATHER,
                                  count * element_bytes);
    if (model_zero_all_reduces (layout, problem->profile)) {
      out->reduces[i] = transfer (weights->all, weights->all_kind, MODEL_COLLECTIVE_ALL_REDUCE,
                                  count * reduce_bytes);
      return;
    }
    out->reduces[i] = transfer (weights->shard, weights->shard_kind,
                                MODEL_COLLECTIVE_REDUCE_SCATTER, count * reduce_bytes);
  }
  out->copies[i]
      = transfer (weights->replicate, weights->replicate_kind, MODEL_COLLECTIVE_ALL_REDUCE,
                  count / weights->shard_ranks * reduce_bytes);
}

static void
fill_hidden (CostTailPieces *out, const CostProblem *problem, const ModelLayout *layout,
             const CostStageTime *stage)
{
  double overlap = layout->overlap_dp ? problem->numbers->profile.overlap_dp_ratio : 0;
  out->hidden_s = model_layout_reduces_under_backward (layout, problem->profile)
                      ? overlap * stage->backward_s
                      : 0;
  out->gather_hidden_s = problem->profile->overlap_param_gather ? overlap * stage->forward_s : 0;
  out->is_per_microbatch
      = model_zero_moves_per_microbatch (layout, 2) && !model_zero_moves_per_microbatch (layout, 3);
}

/* Weights that ranks of other groups hold, too. */
static void
fill_shared (CostTailPieces *out, const CostProblem *problem, const ModelLayout *layout,
             const CostTemplate *tmpl, const CostPlacement *at, const CostStageContent *content,
             const CostWeights *weights)
{
  double gradient_bytes = model_profile_gradient_bytes (problem->profile, layout->dtype);
  if (layout->pp > 1 && tmpl->tied_weight_count > 0 && content->has_embedding != content->has_head)
    out->embedding = transfer (&at->embedding, MODEL_GROUP_EMBEDDING, MODEL_COLLECTIVE_ALL_REDUCE,
                               (double)tmpl->tied_weight_count * gradient_bytes);
  if (model_schedule_is_bidirectional (layout->schedule)) {
    double count = (double)weights->dense + (double)weights->expert;
    if (layout->zero > 0)
      count = (double)weights->dense / at->shards.shard_ranks
              + (double)weights->expert / at->shards.expert_shard_ranks;
    out->mirror = transfer (&at->embedding, MODEL_GROUP_EMBEDDING, MODEL_COLLECTIVE_ALL_REDUCE,
                            count * problem->profile->reduce_bytes);
  }
  if (model_layout_sums_replicated (layout))
    out->replicated = transfer (&at->tp, MODEL_GROUP_TP, MODEL_COLLECTIVE_ALL_REDUCE,
                                (double)weights->replicated * gradient_bytes);
}

void
cost_tail_pieces (CostTailPieces *out, const CostProblem *problem, const ModelLayout *layout,
                  const CostTemplate *tmpl, const CostPlacement *placement,
                  const CostStageContent *content, const CostWeights *weights,
                  const CostStageTime *stage)
{
  const Weights dense = { &placement->dp,
                          &placement->shard,
                          &placement->replicate,
                          MODEL_GROUP_DPCP,
                          model_layout_shard_group (layout, FALSE),
                          MODEL_GROUP_HSDP_REPLICATE,
                          placement->shards.shard_ranks,
                          (double)weights->dense };
  const Weights expert = { &placement->edp,
                           &placement->expert_shard,
                           &placement->expert_replicate,
                           MODEL_GROUP_EDP,
                           model_layout_shard_group (layout, TRUE),
                           MODEL_GROUP_EDP_REPLICATE,
                           placement->shards.expert_shard_ranks,
                           (double)weights->expert };
  CostTail tail;
  *out = (CostTailPieces){ 0 };
  fill_traffic (out, 0, &dense, problem, layout, tmpl->element_bytes);
  fill_traffic (out, 1, &expert, problem, layout, tmpl->element_bytes);
  fill_hidden (out, problem, layout, stage);
  fill_shared (out, problem, layout, tmpl, placement, content, weights);
  cost_tail (&tail, problem, layout, tmpl, placement, content, weights, 1, stage);
  out->optimizer_s = tail.optimizer_s;
}

double
cost_tail_pieces_sum (const CostTailPieces *pieces, guint64 microbatches)
{
  double reduce_s = 0, copies_s = 0, gather_s = 0;
  for (guint i = 0; i < 2; i++) {
    reduce_s += pieces->reduces[i].time_s;
    copies_s += pieces->copies[i].time_s;
    gather_s += pieces->gathers[i].time_s;
  }
  double sum_s = exposed_s (reduce_s + copies_s, pieces->hidden_s)
                 + exposed_s (gather_s, pieces->gather_hidden_s) + pieces->embedding.time_s
                 + pieces->mirror.time_s + pieces->replicated.time_s + pieces->optimizer_s;
  if (pieces->is_per_microbatch)
    sum_s += ((double)microbatches - 1) * exposed_s (reduce_s, pieces->hidden_s);
  return sum_s;
}
