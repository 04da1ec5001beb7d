/* sim/tail.c - what every pipeline rank does after its last backward, as ops. */
#include "sim/setup-private.h"

#include <string.h>

static const CostTransfer *
longest (const CostTransfer *transfers, guint n, double *out_sum_s)
{
  const CostTransfer *best = NULL;
  *out_sum_s = 0;
  for (guint i = 0; i < n; i++) {
    *out_sum_s += transfers[i].time_s;
    if (transfers[i].time_s > 0 && (best == NULL || transfers[i].time_s > best->time_s))
      best = &transfers[i];
  }
  return best;
}

/* Several transfers one after the other as one op, with the load of the longest. */
static SimOp
transfer_op (const SimCase *c, const CostTransfer *transfers, guint n, const char *name,
             SimStream stream, CostPart part)
{
  const TopoGroupShape *shape;
  SimOp op
      = { .name = name, .stream = (guint8)stream, .part = (guint8)part, .phase = MODEL_PHASE_TAIL };
  const CostTransfer *main = longest (transfers, n, &op.duration_s);
  op.exposed_s = op.duration_s;
  if (main == NULL)
    return op;
  op.traffic = (guint8)main->group;
  const CostGroup *group = sim_case_group (c, main->group, &shape);
  sim_op_set_load (&op, group, shape, main->collective, main->bytes, main->time_s);
  return op;
}

static void
add_transfer (Tail *tail, SimOp op)
{
  if (op.duration_s > 0)
    tail->transfers[tail->n_transfers++] = op;
}

void
sim_tail_init (Tail *tail, const SimCase *c, guint32 pp_rank)
{
  const CostStageClass *class = &c->map.classes[c->map.class_of_rank[pp_rank]];
  CostWeights weights;
  CostStageTime time;
  CostTailPieces pieces;

  cost_weights_count (&weights, c->tmpl, &class->content, c->layout.pp > 1);
  cost_stage_time (&time, c->tmpl, &c->placement, &c->layout, &class->content);
  cost_tail_pieces (&pieces, c->problem, &c->layout, c->tmpl, &c->placement, &class->content,
                    &weights, &time);
  *tail
      = (Tail){ .hidden_s = pieces.hidden_s,
                .is_per_microbatch = pieces.is_per_microbatch,
                .is_before_send = model_layout_reduces_in_turn (&c->layout, c->problem->profile) };
  const CostTransfer gradients[]
      = { pieces.reduces[0], pieces.copies[0], pieces.reduces[1], pieces.copies[1] };
  tail->gradients = transfer_op (c, gradients, G_N_ELEMENTS (gradients), "reduce_gradients",
                                 SIM_STREAM_DP, COST_PART_DP);
  tail->each = transfer_op (c, pieces.reduces, G_N_ELEMENTS (pieces.reduces), "reduce_gradients",
                            SIM_STREAM_DP, COST_PART_DP);
  tail->gather = transfer_op (c, pieces.gathers, G_N_ELEMENTS (pieces.gathers), "gather_parameters",
                              SIM_STREAM_DP, COST_PART_DP);
  tail->gather.exposed_s = MAX (tail->gather.duration_s - pieces.gather_hidden_s, 0);
  add_transfer (tail, transfer_op (c, &pieces.embedding, 1, "embedding_gradient",
                                   SIM_STREAM_PP_NEXT, COST_PART_DP));
  SimOp mirror
      = transfer_op (c, &pieces.mirror, 1, "mirror_gradients", SIM_STREAM_PP_NEXT, COST_PART_DP);
  mirror.traffic = SIM_TRAFFIC_MIRROR;
  add_transfer (tail, mirror);
  add_transfer (tail, transfer_op (c, &pieces.replicated, 1, "replicated_gradients", SIM_STREAM_TP,
                                   COST_PART_TP));
  tail->optimizer = (SimOp){ .duration_s = pieces.optimizer_s,
                             .name = "adam",
                             .stream = SIM_STREAM_COMPUTE,
                             .part = COST_PART_OPTIMIZER,
                             .phase = MODEL_PHASE_TAIL };
}

/* Transformer Engine's 16-bit stand-in for the weight gradients of one layer's MLP. */
static guint64
dummy_bytes (const SimCase *c, const CostStageClass *class)
{
  guint64 most = 0;
  for (guint kind = 0; kind < c->tmpl->n_kinds && c->problem->profile->dummy_wgrad; kind++)
    if (class->content.blocks[kind] > 0)
      most = MAX (most, c->tmpl->blocks[kind].largest_mlp_weight_count);
  return 2 * most;
}

void
sim_rank_memory (const SimCase *c, guint32 pp_rank, guint64 *out_static, guint64 *out_step,
                 guint64 *out_closed)
{
  CostMemoryPlan plan;
  CostWeights weights;
  CostStageMemory memory;
  CostStageClass class = c->map.classes[c->map.class_of_rank[pp_rank]];

  class.first_rank = pp_rank;
  cost_memory_plan_init (&plan, c->tmpl, &c->layout, c->microbatches, &c->placement.shards,
                         &c->map);
  cost_weights_count (&weights, c->tmpl, &class.content, c->layout.pp > 1);
  cost_stage_memory (&memory, &plan, &class, &weights);
  guint64 states = memory.bytes[COST_MEMORY_WEIGHTS] + memory.bytes[COST_MEMORY_GRADIENTS]
                   + memory.bytes[COST_MEMORY_OPTIMIZER] + plan.fixed_bytes
                   + dummy_bytes (c, &class);
  double shard_count
      = plan.optimizer > 0 ? (double)memory.bytes[COST_MEMORY_OPTIMIZER] / plan.optimizer : 0;
  *out_static = states + memory.bytes[COST_MEMORY_GATHERS];
  *out_step = states + (guint64)(plan.step_copy * shard_count);
  *out_closed = memory.allocated_bytes;
}
