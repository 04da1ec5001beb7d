/* model/lower_dense.c - a transformer block: attention with grouped queries, dense MLP, residuals.
 *
 * Kept per token and layer with flash attention, RMSNorm and a fused gated MLP, in bytes
 * (reference: memory formulas, section 3): norm inputs 2·2h, norm outputs 2·2h, q 2h, k and v
 * 4h·k/a, attention output 2h, fc1 output 4f, activation 2f, softmax statistics 4a.
 * GPT with dropout and unfused attention: 34h + 5as (Korthikanti et al. 2022, Table 2).
 */
#include "model/lower-private.h"

/* Rotates q and k. Backward only needs the angles: q and k before rotation are not kept. */
static void
rotate (Lower *b, guint32 *q, guint32 *k)
{
  guint32 rotated[2] = { lower_clone (b, *q), lower_clone (b, *k) };
  lower_begin (b, MODEL_OP_ROPE, "rope");
  lower_in (b, *q);
  lower_in (b, *k);
  lower_out (b, rotated[0]);
  lower_out (b, rotated[1]);
  lower_end (b);
  *q = rotated[0];
  *k = rotated[1];
}

/* Eager Python copies every key and value head to the heads that share it, and keeps the copies. */
static guint32
repeat_heads (Lower *b, guint32 x, guint64 columns)
{
  guint32 repeated = lower_activation (b, "repeated_kv", LOWER_COLUMN, columns);
  lower_begin (b, MODEL_OP_CAST, "repeat_kv");
  lower_in (b, x);
  lower_out (b, repeated);
  lower_end (b);
  return repeated;
}

static void
project_qkv (Lower *b, guint32 normed, guint32 *q, guint32 *k, guint32 *v)
{
  const ModelAttention *a = &b->arch->attention;
  guint64 hidden = b->arch->hidden, tp = b->layout->tp;
  guint64 wide = (guint64)a->heads * a->head_dim, narrow = (guint64)a->kv_heads * a->head_dim;
  guint32 in = lower_column_input (b, normed, hidden);
  guint32 outs[3] = { lower_activation (b, "q", LOWER_COLUMN, wide),
                      lower_activation (b, "k", LOWER_COLUMN, narrow),
                      lower_activation (b, "v", LOWER_COLUMN, narrow) };
  LowerGemm gemm = {
    .name = "linear_qkv",
    .weight = "linear_qkv.weight",
    .bias = "linear_qkv.bias",
    .parallel = LOWER_COLUMN_PARALLEL,
    .m = b->rows,
    .n = model_shard_ceil (wide + 2 * narrow, tp),
    .k = hidden,
    .batch = 1,
  };
  lower_gemm (b, &gemm, in, outs, 3);
  *q = outs[0];
  *k = outs[1];
  *v = outs[2];
  if (a->qk_norm) {
    *q = lower_head_norm (b, *q, wide, "q_layernorm.weight", "q_layernorm.bias");
    *k = lower_head_norm (b, *k, narrow, "k_layernorm.weight", "k_layernorm.bias");
  }
}

static guint32
project_out (Lower *b, guint32 core)
{
  const ModelAttention *a = &b->arch->attention;
  guint64 hidden = b->arch->hidden;
  guint64 local = model_shard_ceil ((guint64)a->heads * a->v_head_dim, b->layout->tp);
  guint32 in = lower_quantize (b, core);
  guint32 partial = lower_activation (b, "proj_partial", LOWER_PARTIAL, hidden);
  LowerGemm gemm = {
    .name = "linear_proj",
    .weight = "linear_proj.weight",
    .bias = "linear_proj.bias",
    .parallel = LOWER_ROW_PARALLEL,
    .m = b->rows,
    .n = hidden,
    .k = local,
    .batch = 1,
  };
  lower_gemm (b, &gemm, in, &partial, 1);
  return lower_reduce (b, partial, "attention_branch", hidden, b->layout->tp_sync);
}

/* @x in another order of dimensions, or without padding, @n times in a row. */
static guint32
lay_out (Lower *b, guint32 x, guint32 n)
{
  for (guint32 i = 0; i < n; i++)
    x = lower_copy (b, x, "layout");
  return x;
}

guint32
lower_attention_gqa (Lower *b, guint32 normed)
{
  const ModelAttention *a = &b->arch->attention;
  const ModelProfile *profile = b->profile;
  guint32 q, k, v, kv_heads = a->kv_heads;
  project_qkv (b, normed, &q, &k, &v);
  q = lay_out (b, q, profile->qkv_copies);
  k = lay_out (b, k, profile->qkv_copies + profile->kv_copies);
  v = lay_out (b, v, profile->qkv_copies + profile->kv_copies);
  if (a->rotary_ratio > 0)
    rotate (b, &q, &k);
  if (profile->keeps_everything && kv_heads < a->heads) {
    k = repeat_heads (b, k, (guint64)a->heads * a->head_dim);
    v = repeat_heads (b, v, (guint64)a->heads * a->head_dim);
    kv_heads = a->heads;
  }
  LowerAttention core = { q, k, v, a->heads, kv_heads, a->head_dim, a->v_head_dim, b->run->window };
  return lay_out (b, lower_attention_core (b, &core), profile->core_copies);
}

static guint32
attention_branch (Lower *b, guint32 normed)
{
  guint32 core = b->arch->attention.kind == MODEL_ATTENTION_MLA ? lower_attention_mla (b, normed)
                                                                : lower_attention_gqa (b, normed);
  guint32 out = project_out (b, core);
  if (b->arch->norms_per_block == 4)
    out = lower_norm (b, out, LOWER_SEQUENCE, b->arch->hidden, "post_self_attn_layernorm.weight",
                      "post_self_attn_layernorm.bias");
  return out;
}

static guint32
mlp_branch (Lower *b, guint32 normed)
{
  static const char *const post[2] = { "post_mlp_layernorm.weight", "post_mlp_layernorm.bias" };
  guint32 out;
  if (b->run->kind == MODEL_BLOCK_MOE) {
    out = lower_moe (b, normed);
  } else {
    LowerMlp mlp
        = { "linear_fc1",        "linear_fc1.weight", "linear_fc1.bias", "linear_fc2",
            "linear_fc2.weight", "linear_fc2.bias",   b->run->ffn,       b->layout->tp_sync };
    b->modules = MODEL_RECOMPUTE_MLP;
    out = lower_mlp (b, normed, &mlp);
  }
  b->modules = 0;
  if (b->arch->norms_per_block == 4)
    out = lower_norm (b, out, LOWER_SEQUENCE, b->arch->hidden, post[0], post[1]);
  return out;
}

/* Norm before the MLP. In a dense block it is part of fc1's module (Transformer Engine's
 * LayerNormLinear), so recompute of the MLP rebuilds it; before experts it stands alone. */
static guint32
norm_before_mlp (Lower *b, guint32 x)
{
  b->modules = MODEL_RECOMPUTE_LAYERNORM;
  if (b->run->kind == MODEL_BLOCK_DENSE)
    b->modules |= MODEL_RECOMPUTE_MLP;
  guint32 normed = lower_norm (b, x, LOWER_SEQUENCE, b->arch->hidden, "pre_mlp_layernorm.weight",
                               "pre_mlp_layernorm.bias");
  b->modules = 0;
  return normed;
}

guint32
lower_block (Lower *b, guint32 x)
{
  b->modules = MODEL_RECOMPUTE_LAYERNORM;
  guint32 normed = lower_norm (b, x, LOWER_SEQUENCE, b->arch->hidden, "input_layernorm.weight",
                               "input_layernorm.bias");
  b->modules = 0;
  guint32 attention = attention_branch (b, normed);
  guint32 middle = lower_residual (b, x, attention);
  gboolean parallel = b->arch->parallel_residual;
  guint32 mlp_in = normed;
  if (b->arch->norms_per_block >= 2)
    mlp_in = norm_before_mlp (b, parallel ? x : middle);
  return lower_residual (b, middle, mlp_branch (b, mlp_in));
}
