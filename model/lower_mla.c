/* model/lower_mla.c - multi-head latent attention (DeepSeek-V2): q and kv through low-rank latents.
 *
 * The down projections are whole on every tp rank and work on its tokens; with sequence parallelism
 * the latents are gathered, not the hidden states: q_lora + kv_lora + rope columns per token
 * instead of h. Kept per token (reference: memory formulas, section 6): input 2h, latents before
 * and after their norms, expanded q, k, v and the attention output, 2a(2·dqk + 2·dv). The rope
 * part of k stays with the kv latent, of whose tensor it is a slice.
 * Without sequence parallelism the gradient of that rope part (2·64 B per token) is not summed
 * over tp here.
 */
#include "model/lower-private.h"

static guint32
project_down (Lower *b, guint32 x, const char *name, const char *weight, const char *bias,
              guint64 columns)
{
  guint32 in = lower_quantize (b, x);
  guint32 out = lower_activation (b, "latent", LOWER_SEQUENCE, columns);
  LowerGemm gemm = {
    .name = name,
    .weight = weight,
    .bias = bias,
    .m = b->rows_sequence,
    .n = columns,
    .k = b->arch->hidden,
    .batch = 1,
  };
  lower_gemm (b, &gemm, in, &out, 1);
  return out;
}

static guint32
project_q (Lower *b, guint32 normed)
{
  const ModelAttention *a = &b->arch->attention;
  guint64 columns = (guint64)a->heads * a->head_dim, k = b->arch->hidden;
  guint32 latent = normed, q = MODEL_TENSOR_NONE;
  const char *name = "linear_q_proj", *weight = "linear_q_proj.weight";
  if (a->q_lora_rank > 0) {
    k = a->q_lora_rank;
    name = "linear_q_up_proj";
    weight = "linear_q_up_proj.weight";
    guint32 down = project_down (b, normed, "linear_q_down_proj", "linear_q_down_proj.weight",
                                 "linear_q_down_proj.bias", k);
    latent = lower_norm (b, down, LOWER_SEQUENCE, k, "q_layernorm.weight", "q_layernorm.bias");
  }
  b->modules |= MODEL_RECOMPUTE_MLA_UP_PROJ;
  guint32 in = lower_column_input (b, latent, k);
  q = lower_activation (b, "q", LOWER_COLUMN, columns);
  LowerGemm gemm = {
    .name = name,
    .weight = weight,
    .parallel = LOWER_COLUMN_PARALLEL,
    .m = b->rows,
    .n = model_shard_ceil (columns, b->layout->tp),
    .k = k,
    .batch = 1,
  };
  lower_gemm (b, &gemm, in, &q, 1);
  b->modules &= (guint16)~MODEL_RECOMPUTE_MLA_UP_PROJ;
  return q;
}

/* Expanded keys without their rope part, and values. */
static void
project_kv (Lower *b, guint32 down, guint32 *k_nope, guint32 *v)
{
  const ModelAttention *a = &b->arch->attention;
  guint64 latent = a->kv_lora_rank, heads = a->heads;
  guint64 columns = heads * ((guint64)a->qk_nope_dim + a->v_head_dim);
  guint32 normed
      = lower_norm (b, down, LOWER_SEQUENCE, latent, "kv_layernorm.weight", "kv_layernorm.bias");
  b->modules |= MODEL_RECOMPUTE_MLA_UP_PROJ;
  guint32 in = lower_column_input (b, normed, latent);
  guint32 outs[2] = { lower_activation (b, "k_nope", LOWER_COLUMN, heads * a->qk_nope_dim),
                      lower_activation (b, "v", LOWER_COLUMN, heads * a->v_head_dim) };
  LowerGemm gemm = {
    .name = "linear_kv_up_proj",
    .weight = "linear_kv_up_proj.weight",
    .parallel = LOWER_COLUMN_PARALLEL,
    .m = b->rows,
    .n = model_shard_ceil (columns, b->layout->tp),
    .k = latent,
    .batch = 1,
  };
  lower_gemm (b, &gemm, in, outs, 2);
  b->modules &= (guint16)~MODEL_RECOMPUTE_MLA_UP_PROJ;
  *k_nope = outs[0];
  *v = outs[1];
}

/* The rope part of k is one for all heads: gathered with sequence parallelism. */
static guint32
gather_rope (Lower *b, guint32 down)
{
  if (!b->gathers)
    return down;
  guint32 gathered = lower_activation (b, "k_rope", LOWER_GATHERED, b->arch->attention.qk_rope_dim);
  lower_begin_collective (b, "tp_rope_input", MODEL_COLLECTIVE_ALL_GATHER, MODEL_GROUP_TP,
                          MODEL_STREAM_TP, b->tensors[gathered].local_bytes);
  lower_in (b, down);
  lower_out (b, gathered);
  lower_end (b);
  return gathered;
}

/* Rotates the rope parts of q and k and joins k: outputs are q and k with all head_dim columns. */
static void
rotate (Lower *b, guint32 *q, guint32 k_nope, guint32 rope, guint32 *k)
{
  const ModelAttention *a = &b->arch->attention;
  guint64 columns = (guint64)a->heads * a->head_dim;
  guint32 rotated = lower_clone (b, *q);
  *k = lower_activation (b, "k", LOWER_COLUMN, columns);
  lower_begin (b, MODEL_OP_ROPE, "rope");
  lower_in (b, *q);
  lower_in (b, k_nope);
  lower_in (b, rope);
  lower_out (b, rotated);
  lower_out (b, *k);
  lower_end (b);
  *q = rotated;
}

guint32
lower_attention_mla (Lower *b, guint32 normed)
{
  const ModelAttention *a = &b->arch->attention;
  guint32 k, v, k_nope, q = project_q (b, normed);
  guint32 down
      = project_down (b, normed, "linear_kv_down_proj", "linear_kv_down_proj.weight",
                      "linear_kv_down_proj.bias", (guint64)a->kv_lora_rank + a->qk_rope_dim);
  project_kv (b, down, &k_nope, &v);
  b->modules |= MODEL_RECOMPUTE_MLA_UP_PROJ;
  rotate (b, &q, k_nope, gather_rope (b, down), &k);
  b->modules &= (guint16)~MODEL_RECOMPUTE_MLA_UP_PROJ;
  LowerAttention core = { q, k, v, a->heads, a->heads, a->head_dim, a->v_head_dim, b->run->window };
  return lower_attention_core (b, &core);
}
