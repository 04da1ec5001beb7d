/* costmodel/opcost.c - see opcost.h. */
#include "costmodel/opcost.h"

#include "costmodel/align.h"
#include "costmodel/attention.h"
#include "costmodel/memop.h"

/* As priced before, where the context remembers. */
static double
known_gemm_s (const CostContext *context, const CostGemmContext *gemm, const ModelOp *op,
              guint32 batch)
{
  const CostGemmKey key = { .m = op->m,
                            .n = op->n,
                            .k = op->k,
                            .batch = batch,
                            .dtype = (guint16)op->dtype,
                            .accumulate = gemm->accumulate,
                            .slowdown = gemm->slowdown };
  gboolean known = FALSE;
  if (context->gemm_memo == NULL || op->m == 0)
    return cost_gemm_s (gemm, op->m, op->n, op->k, batch);
  double *time_s = cost_gemm_memo_at (context->gemm_memo, &key, &known);
  if (!known)
    *time_s = cost_gemm_s (gemm, op->m, op->n, op->k, batch);
  return *time_s;
}

/* Experts: one launch whose tiles share the waves, or a loop of GEMMs. */
static double
grouped_gemm_s (const CostContext *context, const CostGemmContext *gemm, const ModelOp *op)
{
  const CostStepNumbers *step = &context->numbers->step;
  if (!context->profile->grouped_gemm)
    return op->batch * known_gemm_s (context, gemm, op, 1);
  double low = gemm->precision == COST_PRECISION_16BIT ? 1 : step->grouped_low_ratio;
  return step->grouped_ratio * low * known_gemm_s (context, gemm, op, op->batch);
}

static double
product_s (const CostContext *context, const ModelOp *op)
{
  const CostStepNumbers *step = &context->numbers->step;
  CostGemmContext gemm = context->gemm[op->dtype];
  /* The weight's two dimensions: (n, k), in a weight gradient (m, n). */
  guint64 other = op->phase == MODEL_PHASE_BACKWARD_WEIGHT ? op->m : op->k;
  gemm.accumulate = (op->flags & MODEL_OP_ACCUMULATE) != 0;
  gemm.slowdown = cost_align_slowdown (step, op->n, other);
  if (op->flags & MODEL_OP_GROUPED)
    return grouped_gemm_s (context, &gemm, op);
  double time_s = known_gemm_s (context, &gemm, op, op->batch);
  return op->flags & MODEL_OP_HEAD ? time_s * step->head_ratio : time_s;
}

/* An addition apart is a plain copy's kind of kernel. */
static double
gemm_s (const CostContext *context, const ModelOp *op)
{
  double time_s = product_s (context, op);
  if (op->flags & MODEL_OP_ACCUMULATE_APART)
    time_s += cost_memop_s (context->numbers, context->hbm_bytes_per_s, MODEL_OP_CAST, FALSE,
                            model_op_addition_bytes (op));
  if (op->flags & MODEL_OP_BIAS_GRAD_APART)
    time_s += cost_memop_s (context->numbers, context->hbm_bytes_per_s, MODEL_OP_ADD, FALSE,
                            model_op_bias_grad_bytes (op));
  return time_s;
}

static double
attention_s (const CostContext *context, const ModelOp *op)
{
  CostAttentionContext attention = { .peak_flop_per_s = context->peak_flop_per_s[op->dtype],
                                     .hbm_bytes_per_s = context->hbm_bytes_per_s,
                                     .numbers = context->numbers };
  return cost_attention_s (&attention, &op->attention, model_op_is_backward (op));
}

double
cost_op_s (const CostContext *context, const ModelOp *op)
{
  switch (op->kind) {
  case MODEL_OP_GEMM:
    return gemm_s (context, op);
  case MODEL_OP_ATTENTION:
    return attention_s (context, op);
  case MODEL_OP_COLLECTIVE:
    return cost_collective_s (&context->groups[op->group], op->collective,
                              (double)op->message_bytes);
  case MODEL_OP_SEND:
  case MODEL_OP_RECV:
    return 0;
  default:
    return cost_memop_s (context->numbers, context->hbm_bytes_per_s, op->kind,
                         model_op_is_backward (op),
                         (double)op->read_bytes + (double)op->write_bytes);
  }
}
