/* model/lower_head.c - embedding and output head with the loss.
 *
 * Both are split over tp by vocabulary. The embedding's partial rows are summed (all-reduce, or
 * reduce-scatter with sequence parallelism); the loss exchanges three numbers per token: maximum,
 * the target's logit, sum of exponentials (two messages where the kernel is fused).
 */
#include "model/lower-private.h"

guint32
lower_embedding (Lower *b)
{
  guint64 hidden = b->arch->hidden;
  guint32 ids = lower_tensor (b, "token_ids", MODEL_ROLE_ACTIVATION, MODEL_DTYPE_INT64,
                              LOWER_GATHERED, b->tokens, 1);
  guint32 partial = lower_activation (b, "embedding_partial", LOWER_PARTIAL, hidden);
  lower_begin (b, MODEL_OP_EMBED, "word_embeddings");
  lower_in (b, ids);
  lower_in (b, lower_weight (b, "word_embeddings.weight"));
  lower_in (b, lower_weight (b, "position_embeddings.weight"));
  lower_out (b, partial);
  lower_save (b, ids);
  /* A row of the table is read and written per token. */
  ModelOp *op = lower_current (b);
  op->write_bytes = b->tensors[partial].local_bytes;
  op->read_bytes = op->write_bytes + b->tensors[ids].local_bytes;
  lower_end (b);
  guint32 x = lower_reduce (b, partial, "embedding_out", hidden, 1);
  if (b->arch->embedding_norm)
    x = lower_norm (b, x, LOWER_SEQUENCE, hidden, "embedding_norm.weight", "embedding_norm.bias");
  return lower_dropout (b, x);
}

guint64
lower_logits_count (const Lower *b)
{
  return b->rows * model_shard_ceil (b->padded_vocab, b->layout->tp);
}

/* A LOGITS tensor of @bytes_per_logit, of one piece of the tokens where the loss is chunked. */
static guint32
logits_tensor (Lower *b, const char *name, ModelDtype dtype, double bytes_per_logit)
{
  guint64 chunks = b->profile->loss_chunks;
  guint64 rows = model_shard_ceil (b->tokens, chunks);
  guint32 id
      = lower_tensor (b, name, MODEL_ROLE_LOGITS, dtype, LOWER_COLUMN, rows, b->padded_vocab);
  guint64 elements = b->tensors[id].local_bytes * 8 / model_dtype_bits (dtype);
  b->tensors[id].local_bytes = (guint64)((double)elements * bytes_per_logit + 0.5);
  return id;
}

/* All-reduce of one or two fp32 numbers per token. */
static guint32
exchange_statistic (Lower *b, guint32 statistic, guint64 numbers, const char *name)
{
  if (b->layout->tp == 1)
    return statistic;
  guint32 sum = lower_clone (b, statistic);
  lower_begin_collective (b, name, MODEL_COLLECTIVE_ALL_REDUCE, MODEL_GROUP_TP, MODEL_STREAM_TP,
                          b->rows * numbers * 4);
  lower_in (b, statistic);
  lower_out (b, sum);
  lower_end (b);
  return sum;
}

static double
peak_bytes (const Lower *b)
{
  double split = b->layout->tp > 1 ? b->profile->logits_tp_peak_bytes : 0;
  return split > 0 ? split : b->profile->logits_peak_bytes;
}

/*
 * Bytes per logit by profile: at the peak of the loss the 16-bit logits, what is kept and a
 * temporary are alive together. Where kept and peak leave no room for logits, the loss overwrites
 * them in place.
 */
static guint32
lower_loss (Lower *b, guint32 logits, double logit_bytes)
{
  const ModelProfile *profile = b->profile;
  double kept_bytes = profile->logits_kept_bytes;
  double temporary_bytes = MAX (peak_bytes (b) - kept_bytes - logit_bytes, 0);
  guint32 statistic = lower_tensor (b, "loss_statistic", MODEL_ROLE_STATISTIC, MODEL_DTYPE_FP32,
                                    LOWER_GATHERED, b->tokens, 1);
  guint32 kept = logits_tensor (b, "loss_kept", MODEL_DTYPE_FP32, kept_bytes);
  guint32 temporary = logits_tensor (b, "loss_temporary", MODEL_DTYPE_FP32, temporary_bytes);
  guint32 loss = lower_clone (b, statistic);
  b->tensors[loss].name = "loss";
  lower_begin (b, MODEL_OP_CROSS_ENTROPY, "cross_entropy");
  lower_in (b, logits);
  lower_out (b, statistic);
  lower_out (b, kept);
  lower_out (b, temporary);
  lower_out (b, loss);
  lower_save (b, kept);
  /* The logits are read once and what is kept and temporary is written, for all tokens. */
  ModelOp *op = lower_current (b);
  guint64 count = lower_logits_count (b);
  op->read_bytes = count * b->element_bytes;
  op->write_bytes = (guint64)((kept_bytes + temporary_bytes) * (double)count);
  lower_end (b);
  guint32 shared = exchange_statistic (b, statistic, 1, "loss_maximum");
  if (profile->fused_cross_entropy) {
    exchange_statistic (b, shared, 2, "loss_target_and_sum");
  } else {
    shared = exchange_statistic (b, shared, 1, "loss_target");
    exchange_statistic (b, shared, 1, "loss_sum");
  }
  return loss;
}

guint32
lower_head (Lower *b, guint32 x)
{
  guint64 hidden = b->arch->hidden;
  gboolean quantizes = b->quantizes;
  guint32 normed
      = lower_norm (b, x, LOWER_SEQUENCE, hidden, "final_layernorm.weight", "final_layernorm.bias");
  b->quantizes = FALSE; /* the head stays in 16 bits */
  guint32 in = lower_column_input (b, normed, hidden);
  b->quantizes = quantizes;
  double logit_bytes
      = CLAMP (peak_bytes (b) - b->profile->logits_kept_bytes, 0, (double)b->element_bytes);
  guint32 logits = logits_tensor (b, "logits", b->store, logit_bytes);
  LowerGemm gemm = { .name = "output_layer",
                     .weight = "output_layer.weight",
                     .bias = "output_layer.bias",
                     .parallel = LOWER_COLUMN_PARALLEL,
                     .m = b->rows,
                     .n = model_shard_ceil (b->padded_vocab, b->layout->tp),
                     .k = hidden,
                     .batch = 1,
                     .flags = MODEL_OP_HEAD | MODEL_OP_UNQUANTIZED };
  lower_gemm (b, &gemm, in, &logits, 1);
  return lower_loss (b, logits, logit_bytes);
}
