/* costmodel/optimes.c - blockcost's rules of exposure, given to the single ops.
 *
 * Where a rule speaks of several collectives at once (rings of a pass, reductions before one weight
 * gradient) each shows in proportion to its own time.
 */
#include "costmodel/pieces.h"

#include <math.h>

static gboolean
is_compute (const ModelOp *op)
{
  return op->stream != MODEL_STREAM_TP && op->stream != MODEL_STREAM_CP
         && op->stream != MODEL_STREAM_EP;
}

static CostPass
pass_of (const ModelOp *op)
{
  return op->phase == MODEL_PHASE_FORWARD           ? COST_PASS_FORWARD
         : op->phase == MODEL_PHASE_BACKWARD_WEIGHT ? COST_PASS_BACKWARD_WEIGHT
                                                    : COST_PASS_BACKWARD_INPUT;
}

typedef struct {
  const CostNumbers *numbers;
  const ModelSegment *segment;
  const CostBlock *block;
  CostOpTime *out;
  double tp_exposed_ratio;
} Times;

static gboolean
is_regather (const ModelOp *op)
{
  return op->stream == MODEL_STREAM_TP && op->phase == MODEL_PHASE_BACKWARD_INPUT
         && op->flags & MODEL_OP_REGATHER;
}

/* A gather that backward makes again: shows beyond the first input-gradient GEMM after it. */
static void
expose_regathers (Times *t)
{
  const ModelSegment *segment = t->segment;
  double waiting_s = 0;
  for (guint i = 0, first = 0; i < segment->n_ops; i++) {
    const ModelOp *op = &segment->ops[i];
    if (is_regather (op))
      waiting_s += t->out[i].time_s;
    if (!is_compute (op) || op->kind != MODEL_OP_GEMM || op->phase != MODEL_PHASE_BACKWARD_INPUT)
      continue;
    double ratio = waiting_s > 0 ? fmax (0, waiting_s - t->out[i].time_s) / waiting_s : 0;
    for (; first < i; first++)
      if (is_regather (&segment->ops[first]))
        t->out[first].exposed_s = ratio * t->out[first].time_s;
    waiting_s = 0;
  }
}

static gboolean
is_reduction (const ModelOp *op)
{
  return op->stream == MODEL_STREAM_TP && op->phase == MODEL_PHASE_BACKWARD_INPUT
         && !(op->flags & MODEL_OP_REGATHER);
}

/* What shows of a reduction hides under the weight gradient that is the next compute op. */
static void
hide_reductions (Times *t)
{
  const ModelSegment *segment = t->segment;
  double waiting_s = 0;
  for (guint i = 0, first = 0; i < segment->n_ops; i++) {
    const ModelOp *op = &segment->ops[i];
    if (is_reduction (op))
      waiting_s += t->out[i].exposed_s;
    if (!is_compute (op))
      continue;
    double hidden_s = 0;
    if (op->kind == MODEL_OP_GEMM && op->phase == MODEL_PHASE_BACKWARD_WEIGHT)
      hidden_s = t->numbers->profile.overlap_wgrad_ratio * fmin (waiting_s, t->out[i].time_s);
    for (; first < i; first++)
      if (is_reduction (&segment->ops[first]) && waiting_s > 0)
        t->out[first].exposed_s *= 1 - hidden_s / waiting_s;
    waiting_s = 0;
  }
}

static gboolean
is_ring (const ModelOp *op)
{
  return op->stream == MODEL_STREAM_CP && op->collective == MODEL_COLLECTIVE_SEND_RECV;
}

static void
expose_rings (Times *t)
{
  const ModelSegment *segment = t->segment;
  double ring_s[COST_PASS_N_KINDS] = { 0 }, attention_s[COST_PASS_N_KINDS] = { 0 };
  for (guint i = 0; i < segment->n_ops; i++) {
    const ModelOp *op = &segment->ops[i];
    if (is_ring (op))
      ring_s[pass_of (op)] += t->out[i].time_s;
    else if (is_compute (op) && op->kind == MODEL_OP_ATTENTION)
      attention_s[pass_of (op)] += t->out[i].time_s;
  }
  for (guint i = 0; i < segment->n_ops; i++) {
    const ModelOp *op = &segment->ops[i];
    double all_s = ring_s[pass_of (op)];
    if (is_ring (op) && all_s > 0)
      t->out[i].exposed_s = t->out[i].time_s * fmax (0, all_s - attention_s[pass_of (op)]) / all_s;
  }
}

/* The host's share of a pass, before each of its compute ops alike. */
static void
fill_gaps (Times *t, const CostBlock *block)
{
  guint count[COST_PASS_N_KINDS] = { 0 };
  for (guint i = 0; i < t->segment->n_ops; i++)
    count[pass_of (&t->segment->ops[i])] += is_compute (&t->segment->ops[i]);
  for (guint i = 0; i < t->segment->n_ops; i++) {
    CostPass pass = pass_of (&t->segment->ops[i]);
    if (is_compute (&t->segment->ops[i]))
      t->out[i].gap_s = block->host_s[pass] / count[pass];
  }
}

static double
plain_exposed_s (const Times *t, const ModelOp *op, double time_s)
{
  switch (op->stream) {
  case MODEL_STREAM_TP:
    return is_regather (op) ? time_s : time_s * t->tp_exposed_ratio;
  case MODEL_STREAM_CP:
    return time_s;
  case MODEL_STREAM_EP:
    return t->block->ep_s[pass_of (op)] > 0
               ? time_s * t->block->exposed_ep_s[pass_of (op)] / t->block->ep_s[pass_of (op)]
               : 0;
  default:
    return 0;
  }
}

void
cost_op_times (const CostContext *context, const ModelLayout *layout, const ModelSegment *segment,
               const CostBlock *block, CostOpTime *out)
{
  const CostNumbers *numbers = context->numbers;
  double overlap = layout->overlap_tp && layout->sp ? numbers->profile.overlap_tp_ratio
                                                    : numbers->step.unoverlapped_tp_ratio;
  Times times = { numbers, segment, block, out, 1 - overlap };
  for (guint i = 0; i < segment->n_ops; i++) {
    double time_s = cost_op_s (context, &segment->ops[i]);
    out[i] = (CostOpTime){ .time_s = time_s,
                           .exposed_s = plain_exposed_s (&times, &segment->ops[i], time_s) };
  }
  expose_regathers (&times);
  expose_rings (&times);
  for (guint i = 0; i < segment->n_ops; i++)
    out[i].apart_exposed_s = out[i].exposed_s;
  hide_reductions (&times);
  fill_gaps (&times, block);
}
