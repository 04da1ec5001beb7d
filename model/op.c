/* model/op.c - names, FLOPs and bytes of operations. */
#include "model/op.h"
#include "model/layout.h"

static const char *const kind_names[MODEL_OP_N_KINDS] = {
  [MODEL_OP_EMBED] = "embed",
  [MODEL_OP_NORM] = "norm",
  [MODEL_OP_GEMM] = "gemm",
  [MODEL_OP_ROPE] = "rope",
  [MODEL_OP_ATTENTION] = "attention",
  [MODEL_OP_ACT_MUL] = "act_mul",
  [MODEL_OP_ADD] = "add",
  [MODEL_OP_DROPOUT] = "dropout",
  [MODEL_OP_CROSS_ENTROPY] = "cross_entropy",
  [MODEL_OP_ROUTE] = "route",
  [MODEL_OP_DISPATCH] = "dispatch",
  [MODEL_OP_COMBINE] = "combine",
  [MODEL_OP_ADAM] = "adam",
  [MODEL_OP_CAST] = "cast",
  [MODEL_OP_COLLECTIVE] = "collective",
  [MODEL_OP_SEND] = "send",
  [MODEL_OP_RECV] = "recv",
};

const char *const model_collective_names[] = {
  [MODEL_COLLECTIVE_ALL_REDUCE] = "all_reduce",
  [MODEL_COLLECTIVE_ALL_GATHER] = "all_gather",
  [MODEL_COLLECTIVE_REDUCE_SCATTER] = "reduce_scatter",
  [MODEL_COLLECTIVE_ALL_TO_ALL] = "alltoall",
  [MODEL_COLLECTIVE_BROADCAST] = "broadcast",
  [MODEL_COLLECTIVE_REDUCE] = "reduce",
  [MODEL_COLLECTIVE_SEND_RECV] = "sendrecv",
  [MODEL_COLLECTIVE_N_KINDS] = NULL,
};

const char *
model_op_kind_name (ModelOpKind kind)
{
  g_return_val_if_fail ((guint)kind < MODEL_OP_N_KINDS, "?");
  return kind_names[kind];
}

const char *
model_collective_name (ModelCollectiveKind kind)
{
  g_return_val_if_fail ((guint)kind < MODEL_COLLECTIVE_N_KINDS, "?");
  return model_collective_names[kind];
}

double
model_attention_pairs (guint64 seq, guint64 window, gboolean causal)
{
  double s = (double)seq, w = window > 0 && window < seq ? (double)window : s;
  return causal ? s * w - w * w / 2 : s * w;
}

double
model_attention_flop (const ModelAttentionShape *shape)
{
  if (shape->seq_kv == 0)
    return 0;
  /* Ranks of a context-parallel group share the pairs evenly (zig-zag order). */
  double share = (double)shape->seq_q / (double)shape->seq_kv;
  double pairs = model_attention_pairs (shape->seq_kv, shape->window, shape->causal) * share;
  return 2.0 * shape->batch * shape->heads * pairs * ((double)shape->dim_qk + shape->dim_v);
}

double
model_op_flop (const ModelOp *op)
{
  if (op->kind == MODEL_OP_GEMM)
    return 2.0 * (double)op->m * (double)op->n * (double)op->k * op->batch;
  if (op->kind != MODEL_OP_ATTENTION)
    return 0;
  double forward = model_attention_flop (&op->attention);
  if (!model_op_is_backward (op))
    return forward;
  return forward * (op->attention.kernel == MODEL_ATTN_UNFUSED ? 2.0 : 2.5);
}

double
model_op_model_flop (const ModelOp *op)
{
  if (op->phase == MODEL_PHASE_RECOMPUTE)
    return 0;
  if (op->kind == MODEL_OP_ATTENTION && model_op_is_backward (op))
    return 2.0 * model_attention_flop (&op->attention);
  return model_op_flop (op);
}

static double
gemm_hbm_bytes (const ModelOp *op)
{
  guint in_bits = model_dtype_bits ((ModelDtype)op->dtype);
  guint out_bits = model_dtype_bits (model_dtype_storage ((ModelDtype)op->dtype));
  double in = (double)op->m * op->k + (double)op->k * op->n, out = (double)op->m * op->n;
  /* Accumulation reads and writes the fp32 buffer: 4 + 4 B. */
  double out_bytes = op->flags & MODEL_OP_ACCUMULATE ? 8.0 : out_bits / 8.0;
  return op->batch * (in * in_bits / 8.0 + out * out_bytes);
}

double
model_op_addition_bytes (const ModelOp *op)
{
  double store_bytes = model_dtype_bits (model_dtype_storage ((ModelDtype)op->dtype)) / 8.0;
  return op->flags & MODEL_OP_ACCUMULATE_APART
             ? op->batch * (double)op->m * (double)op->n * (store_bytes + 4 + 4)
             : 0;
}

double
model_op_bias_grad_bytes (const ModelOp *op)
{
  double store_bytes = model_dtype_bits (model_dtype_storage ((ModelDtype)op->dtype)) / 8.0;
  return op->flags & MODEL_OP_BIAS_GRAD_APART
             ? op->batch * (double)op->m * (double)op->k * store_bytes
             : 0;
}

double
model_op_hbm_bytes (const ModelOp *op)
{
  if (op->kind == MODEL_OP_GEMM)
    return gemm_hbm_bytes (op) + model_op_addition_bytes (op) + model_op_bias_grad_bytes (op);
  return (double)op->read_bytes + (double)op->write_bytes;
}
