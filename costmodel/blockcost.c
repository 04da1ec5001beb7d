/* costmodel/blockcost.c - see blockcost.h. */
#include "costmodel/blockcost.h"

#include <math.h>
#include <string.h>

/* What is added up while walking the ops. */
typedef struct {
  const CostContext *context;
  double tp_exposed_ratio;
  gboolean overlap_ep;
  double ring_s[COST_PASS_N_KINDS];      /* cp ring exchanges */
  double attention_s[COST_PASS_N_KINDS]; /* what they hide under */
  double regather_s;                     /* waits for the GEMM it runs beside */
  double reduction_s;                    /* exposed so far; waits for a weight gradient */
  guint32 local_experts;
} Walk;

static CostPass
pass_of (const ModelOp *op)
{
  switch (op->phase) {
  case MODEL_PHASE_FORWARD:
    return COST_PASS_FORWARD;
  case MODEL_PHASE_BACKWARD_WEIGHT:
    return COST_PASS_BACKWARD_WEIGHT;
  default:
    return COST_PASS_BACKWARD_INPUT;
  }
}

static void
add_tp (CostBlock *block, Walk *walk, const ModelOp *op, double time_s)
{
  CostPass pass = pass_of (op);
  block->tp_s[pass] += time_s;
  if (op->phase != MODEL_PHASE_BACKWARD_INPUT)
    block->exposed_tp_s[pass] += time_s * walk->tp_exposed_ratio;
  else if (op->flags & MODEL_OP_REGATHER)
    walk->regather_s += time_s;
  else
    walk->reduction_s += time_s * walk->tp_exposed_ratio;
}

/* A compute op runs beside the collectives before it: what of them still shows. */
static void
hide_tp (CostBlock *block, Walk *walk, const ModelOp *op, double time_s)
{
  double *exposed_s = &block->exposed_tp_s[COST_PASS_BACKWARD_INPUT];
  if (op->kind == MODEL_OP_GEMM && op->phase == MODEL_PHASE_BACKWARD_INPUT) {
    *exposed_s += fmax (0, walk->regather_s - time_s);
    walk->regather_s = 0;
  }
  if (op->kind == MODEL_OP_GEMM && op->phase == MODEL_PHASE_BACKWARD_WEIGHT) {
    double hidden_s
        = walk->context->numbers->profile.overlap_wgrad_ratio * fmin (walk->reduction_s, time_s);
    walk->reduction_s -= hidden_s;
    block->wgrad_hidden_s += hidden_s;
  }
  *exposed_s += walk->reduction_s;
  walk->reduction_s = 0;
}

static void
add_cp (CostBlock *block, Walk *walk, const ModelOp *op, double time_s)
{
  CostPass pass = pass_of (op);
  block->cp_s[pass] += time_s;
  if (op->collective == MODEL_COLLECTIVE_SEND_RECV)
    walk->ring_s[pass] += time_s;
  else
    block->exposed_cp_s[pass] += time_s;
}

static void
add_compute (CostBlock *block, Walk *walk, const ModelOp *op, double time_s)
{
  CostPass pass = pass_of (op);
  block->compute_s[pass] += time_s;
  if (op->phase == MODEL_PHASE_RECOMPUTE)
    block->recompute_s += time_s;
  if (op->kind == MODEL_OP_ATTENTION)
    walk->attention_s[pass] += time_s;
  if (op->kind == MODEL_OP_GEMM && op->flags & MODEL_OP_GROUPED)
    walk->local_experts = MAX (walk->local_experts, op->batch);
  hide_tp (block, walk, op, time_s);
}

static void
add_op (CostBlock *block, Walk *walk, const ModelOp *op)
{
  double time_s = cost_op_s (walk->context, op);
  CostPass pass = pass_of (op);
  switch (op->stream) {
  case MODEL_STREAM_TP:
    add_tp (block, walk, op, time_s);
    break;
  case MODEL_STREAM_CP:
    add_cp (block, walk, op, time_s);
    break;
  case MODEL_STREAM_EP:
    block->ep_s[pass] += time_s;
    block->exposed_ep_s[pass] += time_s * (1 - walk->context->numbers->profile.overlap_ep_ratio);
    break;
  default:
    add_compute (block, walk, op, time_s);
    break;
  }
}

/* Beside the compute of another micro-batch: what is longer than a direction's compute shows. */
static void
hide_exchanges (CostBlock *block)
{
  double *exposed_s = block->exposed_ep_s;
  const double *compute_s = block->compute_s;
  double backward_s = compute_s[COST_PASS_BACKWARD_INPUT] + compute_s[COST_PASS_BACKWARD_WEIGHT];
  exposed_s[COST_PASS_FORWARD]
      = fmax (0, exposed_s[COST_PASS_FORWARD] - compute_s[COST_PASS_FORWARD]);
  exposed_s[COST_PASS_BACKWARD_INPUT] = fmax (0, exposed_s[COST_PASS_BACKWARD_INPUT] - backward_s);
}

static void
finish_exposure (CostBlock *block, const Walk *walk)
{
  /* Collectives with nothing after them hide under nothing. */
  block->exposed_tp_s[COST_PASS_BACKWARD_INPUT] += walk->regather_s + walk->reduction_s;
  if (walk->overlap_ep)
    hide_exchanges (block);
  for (guint i = 0; i < COST_PASS_N_KINDS; i++) {
    block->exposed_cp_s[i] += fmax (0, walk->ring_s[i] - walk->attention_s[i]);
    block->pass_s[i] = block->compute_s[i] + block->exposed_tp_s[i] + block->exposed_cp_s[i]
                       + block->exposed_ep_s[i];
  }
}

/* Stretches @n passes from @first, as one, to at least @least_s. */
static void
stretch (CostBlock *block, guint first, guint n, double least_s)
{
  double sum_s = 0;
  for (guint i = first; i < first + n; i++)
    sum_s += block->pass_s[i];
  if (!(sum_s > 0) || sum_s >= least_s)
    return;
  for (guint i = first; i < first + n; i++) {
    block->host_s[i] = block->pass_s[i] * (least_s / sum_s - 1);
    block->pass_s[i] += block->host_s[i];
  }
}

/* Graphs of layers leave out the experts, whose shapes change with the routing. */
static double
one_host_s (const Walk *walk, ModelCudaGraph graph)
{
  const CostStepNumbers *step = &walk->context->numbers->step;
  double layer_s = walk->context->numbers->profile.host_layer_s;
  double experts_s = walk->local_experts * step->expert_host_s;
  if (walk->local_experts > 0)
    layer_s *= step->moe_host_factor;
  if (graph == MODEL_GRAPH_FULL_ITERATION)
    return (layer_s + experts_s) * step->graph_full_ratio;
  return layer_s * (graph == MODEL_GRAPH_LAYER ? step->graph_layer_ratio : 1) + experts_s;
}

/* Hosts are late now and then, each on its own, and the ranks of a TP group wait for every one. */
static double
host_s (const Walk *walk, const ModelLayout *layout)
{
  double wait_ratio = walk->context->numbers->step.host_wait_ratio * (layout->tp - 1.0);
  return one_host_s (walk, layout->cuda_graph) * (1 + wait_ratio);
}

static void
apply_host_bound (CostBlock *block, const Walk *walk, const ModelLayout *layout,
                  const ModelSegment *segment)
{
  double least_s = host_s (walk, layout);
  double forward_s = least_s * walk->context->numbers->step.host_forward_share;
  double rebuilt = segment->n_forward > 0 ? (double)segment->n_recompute / segment->n_forward : 0;
  stretch (block, COST_PASS_FORWARD, 1, forward_s);
  stretch (block, COST_PASS_BACKWARD_INPUT, 2, least_s - forward_s + forward_s * rebuilt);
}

static guint64
mlp_weight_count (const ModelSegment *segment)
{
  guint64 count = 0;
  for (guint i = 0; i < segment->n_forward; i++) {
    const ModelOp *op = &segment->ops[i];
    if (op->kind == MODEL_OP_GEMM
        && (g_str_has_suffix (op->name, "fc1") || g_str_has_suffix (op->name, "fc2")))
      count += op->n * op->k;
  }
  return count;
}

void
cost_block_init (CostBlock *block, const CostContext *context, const ModelLayout *layout,
                 const ModelSegment *segment)
{
  const CostNumbers *numbers = context->numbers;
  /* Userbuffers and asynchronous collectives act on sequence-parallel ones only. */
  double overlap = layout->overlap_tp && layout->sp ? numbers->profile.overlap_tp_ratio
                                                    : numbers->step.unoverlapped_tp_ratio;
  Walk walk
      = { .context = context, .tp_exposed_ratio = 1 - overlap, .overlap_ep = layout->overlap_ep };
  memset (block, 0, sizeof *block);
  for (guint i = 0; i < segment->n_ops; i++)
    add_op (block, &walk, &segment->ops[i]);
  finish_exposure (block, &walk);
  if (segment->part == MODEL_PART_BLOCK)
    apply_host_bound (block, &walk, layout, segment);
  model_segment_memory (segment, &block->memory);
  block->weight_count = segment->weight_count;
  block->expert_weight_count = segment->expert_weight_count;
  block->replicated_weight_count = segment->replicated_weight_count;
  block->largest_mlp_weight_count = mlp_weight_count (segment);
}
