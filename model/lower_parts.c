/* model/lower_parts.c - norms, linear layers, residuals and MLPs: the parts of every block.
 *
 * Bytes of memory-bound parts per token of width h (16-bit): norm 4h, residual 6h, activation 6f
 * gated and 4f not; a block thus moves 20h + 6f forward, and 24h + 10f backward. That is the count
 * the time model was fitted with (reference: time-model, section 3, item 7).
 */
#include "model/lower-private.h"

/* Plain Python RMSNorm: keeps an fp32 copy of its input and the normalized tensor before the
 * weight is applied (Hugging Face modelling code). A LayerNorm is one kernel everywhere. */
static gboolean
norm_is_unfused (const Lower *b)
{
  return b->arch->norm == MODEL_NORM_RMS && !b->profile->fused_norm && !b->profile->compiled;
}

static guint32
write_norm (Lower *b, guint32 x, LowerSplit split, guint64 columns, const char *weight,
            const char *bias, gboolean saves_input)
{
  guint32 y = lower_activation (b, "norm_out", split, columns);
  lower_begin (b, MODEL_OP_NORM, weight);
  lower_in (b, x);
  lower_in (b, lower_weight (b, weight));
  lower_in (b, lower_weight (b, bias));
  lower_out (b, y);
  if (saves_input)
    lower_save (b, x);
  if (norm_is_unfused (b)) {
    guint32 wide = lower_tensor (b, "norm_fp32", MODEL_ROLE_STATISTIC, MODEL_DTYPE_FP32, split,
                                 b->tokens, columns);
    guint32 normalized
        = lower_tensor (b, "normalized", MODEL_ROLE_STATISTIC, b->store, split, b->tokens, columns);
    lower_out (b, wide);
    lower_out (b, normalized);
    lower_save (b, wide);
    lower_save (b, normalized);
  }
  lower_end (b);
  return y;
}

guint32
lower_norm (Lower *b, guint32 x, LowerSplit split, guint64 columns, const char *weight,
            const char *bias)
{
  return write_norm (b, x, split, columns, weight, bias, TRUE);
}

guint32
lower_head_norm (Lower *b, guint32 x, guint64 columns, const char *weight, const char *bias)
{
  /* Where the fp32 copy is kept, the 16-bit q or k before the norm is not (measured on models with
   * and without it: 76h and 59.6h per layer of Qwen3-4B and a distilled Qwen3-8B). */
  return write_norm (b, x, LOWER_COLUMN, columns, weight, bias, !norm_is_unfused (b));
}

guint32
lower_copy (Lower *b, guint32 x, const char *name)
{
  guint32 copy = lower_clone (b, x);
  lower_begin (b, MODEL_OP_CAST, name);
  lower_in (b, x);
  lower_out (b, copy);
  lower_end (b);
  return copy;
}

guint32
lower_quantize (Lower *b, guint32 x)
{
  if (!b->quantizes)
    return x;
  ModelTensor narrow = b->tensors[x];
  narrow.name = "quantized";
  narrow.dtype = (guint8)b->layout->dtype;
  narrow.local_bytes = model_tensor_local_bytes (&narrow, b->mesh);
  guint32 quantized = lower_push_tensor (b, &narrow);
  /* The kernel writes the row-wise and the column-wise copy in one pass; one of them is kept. */
  narrow.role = MODEL_ROLE_SCRATCH;
  guint32 transposed = lower_push_tensor (b, &narrow);
  lower_begin (b, MODEL_OP_CAST, "quantize");
  lower_in (b, x);
  lower_out (b, quantized);
  lower_out (b, transposed);
  lower_end (b);
  return quantized;
}

guint32
lower_column_input (Lower *b, guint32 x, guint64 columns)
{
  guint32 input = lower_quantize (b, x);
  if (!b->gathers)
    return input;
  ModelDtype dtype = (ModelDtype)b->tensors[input].dtype;
  guint32 gathered = lower_tensor (b, "gathered", MODEL_ROLE_ACTIVATION, dtype, LOWER_GATHERED,
                                   b->tokens, columns);
  lower_begin_collective (b, "tp_input", MODEL_COLLECTIVE_ALL_GATHER, MODEL_GROUP_TP,
                          MODEL_STREAM_TP, b->tensors[gathered].local_bytes);
  lower_current (b)->dtype = (guint8)dtype;
  lower_in (b, input);
  lower_out (b, gathered);
  lower_current_meta (b)->regather = TRUE;
  lower_end (b);
  return gathered;
}

void
lower_gemm (Lower *b, const LowerGemm *gemm, guint32 input, const guint32 *outs, guint n_outs)
{
  ModelOp *op = lower_begin (b, MODEL_OP_GEMM, gemm->name);
  op->m = gemm->m;
  op->n = gemm->n;
  op->k = gemm->k;
  op->batch = gemm->batch;
  op->flags = gemm->flags;
  if (gemm->flags & MODEL_OP_ROUTER)
    op->dtype = MODEL_DTYPE_FP32;
  else if (b->quantizes && !(gemm->flags & MODEL_OP_UNQUANTIZED))
    op->dtype = (guint8)b->layout->dtype;
  lower_in (b, input);
  lower_in (b, lower_weight (b, gemm->weight));
  /* The bias of a row-parallel layer is added after the sum, with the residual; it is listed here
   * because its gradient is made beside the weight's. */
  lower_in (b, lower_weight (b, gemm->bias));
  for (guint i = 0; i < n_outs; i++)
    lower_out (b, outs[i]);
  lower_save (b, input);
  lower_current_meta (b)->parallel = (guint8)gemm->parallel;
  lower_end (b);
}

guint32
lower_reduce (Lower *b, guint32 partial, const char *name, guint64 columns, double sync)
{
  if (!b->gathers && !b->reduces)
    return partial;
  guint32 sum = lower_activation (b, name, LOWER_SEQUENCE, columns);
  /* Channels that stay private to each rank are not sent (reference: partial synchronization). */
  guint64 sent = sync < 1 ? (guint64)((double)columns * sync) : columns;
  lower_begin_collective (b, "tp_output",
                          b->gathers ? MODEL_COLLECTIVE_REDUCE_SCATTER
                                     : MODEL_COLLECTIVE_ALL_REDUCE,
                          MODEL_GROUP_TP, MODEL_STREAM_TP, b->rows * sent * b->element_bytes);
  lower_in (b, partial);
  lower_out (b, sum);
  lower_end (b);
  return sum;
}

/* Mask of one byte per element, as Megatron's and PyTorch's kernels keep it. */
static guint32
write_dropout (Lower *b, guint32 x, guint32 residual, const char *name)
{
  ModelTensor mask = b->tensors[x], y = b->tensors[x];
  mask.name = "dropout_mask";
  mask.role = MODEL_ROLE_MASK;
  mask.dtype = MODEL_DTYPE_UINT8;
  mask.local_bytes = model_tensor_local_bytes (&mask, b->mesh);
  y.name = name;
  guint32 out = lower_push_tensor (b, &y), kept = lower_push_tensor (b, &mask);
  lower_begin (b, MODEL_OP_DROPOUT, residual == MODEL_TENSOR_NONE ? "dropout" : "dropout_add");
  lower_in (b, x);
  lower_in (b, residual);
  lower_out (b, out);
  lower_out (b, kept);
  lower_save (b, kept);
  lower_end (b);
  return out;
}

guint32
lower_dropout (Lower *b, guint32 x)
{
  return b->job->dropout > 0 ? write_dropout (b, x, MODEL_TENSOR_NONE, "dropped") : x;
}

guint32
lower_residual (Lower *b, guint32 x, guint32 branch)
{
  if (b->job->dropout > 0 && b->profile->fused_residual)
    return write_dropout (b, branch, x, "residual");
  guint32 dropped = lower_dropout (b, branch);
  guint32 sum = lower_activation (b, "residual", LOWER_SEQUENCE, b->arch->hidden);
  lower_begin (b, MODEL_OP_ADD, "residual_add");
  lower_in (b, x);
  lower_in (b, dropped);
  lower_out (b, sum);
  lower_end (b);
  return sum;
}

/* One pointwise kernel; it saves its inputs. */
static guint32
write_activation (Lower *b, const char *name, guint32 x, guint32 y, LowerSplit split, guint64 rows,
                  guint64 columns)
{
  guint32 out = lower_tensor (b, name, MODEL_ROLE_ACTIVATION, b->store, split, rows, columns);
  lower_begin (b, MODEL_OP_ACT_MUL, name);
  lower_in (b, x);
  lower_in (b, y);
  lower_out (b, out);
  lower_save (b, x);
  lower_save (b, y);
  lower_end (b);
  return out;
}

guint32
lower_activate (Lower *b, guint32 gate, guint32 up, LowerSplit split, guint64 rows, guint64 columns)
{
  gboolean fused = b->profile->fused_activation || b->profile->compiled;
  if (up == MODEL_TENSOR_NONE || fused)
    return write_activation (b, "activated", gate, up, split, rows, columns);
  /* Two kernels: the activated gate is a tensor of its own, which the product saves (8f, not 6f). */
  guint32 activated
      = write_activation (b, "activated_gate", gate, MODEL_TENSOR_NONE, split, rows, columns);
  return write_activation (b, "activated", activated, up, split, rows, columns);
}

guint32
lower_mlp (Lower *b, guint32 x, const LowerMlp *mlp)
{
  guint64 hidden = b->arch->hidden, ffn = mlp->ffn;
  guint64 local = model_shard_ceil (ffn, b->layout->tp);
  guint n_in = b->arch->gated ? 2 : 1;
  guint32 in = lower_column_input (b, x, hidden);
  guint32 outs[2] = { MODEL_TENSOR_NONE, MODEL_TENSOR_NONE };
  for (guint i = 0; i < n_in; i++)
    outs[i] = lower_activation (b, i == 0 ? "fc1_gate" : "fc1_up", LOWER_COLUMN, ffn);
  LowerGemm fc1 = {
    .name = mlp->fc1,
    .weight = mlp->fc1_weight,
    .bias = mlp->fc1_bias,
    .parallel = LOWER_COLUMN_PARALLEL,
    .m = b->rows,
    .n = n_in * local,
    .k = hidden,
    .batch = 1,
  };
  lower_gemm (b, &fc1, in, outs, n_in);
  guint32 activated = lower_activate (b, outs[0], outs[1], LOWER_COLUMN, b->tokens, ffn);
  guint32 fc2_in = lower_quantize (b, activated);
  guint32 partial = lower_activation (b, "fc2_partial", LOWER_PARTIAL, hidden);
  LowerGemm fc2 = {
    .name = mlp->fc2,
    .weight = mlp->fc2_weight,
    .bias = mlp->fc2_bias,
    .parallel = LOWER_ROW_PARALLEL,
    .m = b->rows,
    .n = hidden,
    .k = local,
    .batch = 1,
  };
  lower_gemm (b, &fc2, fc2_in, &partial, 1);
  return lower_reduce (b, partial, "mlp_out", hidden, mlp->sync);
}
