/* model/params.c - the one list of parameter tensors, and what is counted from it. */
#include "model/params.h"
#include "model/shard.h"

typedef struct {
  const ModelArch *arch;
  ModelParam *out;
  guint n;
} ParamList;

static ModelParam *
add (ParamList *list, const char *name, ModelParamSplit split, guint64 d0, guint64 d1, guint64 d2)
{
  ModelParam *param = &list->out[list->n++];
  *param = (ModelParam){ .name = name, .split = split, .n_dims = d2 ? 3 : d1 ? 2 : 1 };
  param->shape[0] = d0;
  param->shape[1] = d1;
  param->shape[2] = d2;
  param->count = d0 * (d1 ? d1 : 1) * (d2 ? d2 : 1);
  return param;
}

/* A norm over @width; LayerNorm has a bias beside the weight. */
static void
add_norm (ParamList *list, const char *weight, const char *bias, guint64 width)
{
  add (list, weight, MODEL_PARAM_SPLIT_NONE, width, 0, 0);
  if (list->arch->norm == MODEL_NORM_LAYER)
    add (list, bias, MODEL_PARAM_SPLIT_NONE, width, 0, 0);
}

static void
list_embedding (ParamList *list)
{
  const ModelArch *arch = list->arch;
  add (list, "word_embeddings.weight", MODEL_PARAM_SPLIT_COLUMN, arch->vocab, arch->hidden, 0)
      ->by_vocab
      = TRUE;
  if (arch->position == MODEL_POSITION_LEARNED)
    add (list, "position_embeddings.weight", MODEL_PARAM_SPLIT_NONE, arch->position_rows,
         arch->hidden, 0);
  if (arch->embedding_norm)
    add_norm (list, "embedding_norm.weight", "embedding_norm.bias", arch->hidden);
}

static void
list_head (ParamList *list)
{
  const ModelArch *arch = list->arch;
  add_norm (list, "final_layernorm.weight", "final_layernorm.bias", arch->hidden);
  if (!arch->tied)
    add (list, "output_layer.weight", MODEL_PARAM_SPLIT_COLUMN, arch->vocab, arch->hidden, 0)
        ->by_vocab
        = TRUE;
  if (arch->head_bias)
    add (list, "output_layer.bias", MODEL_PARAM_SPLIT_COLUMN, arch->vocab, 0, 0)->by_vocab = TRUE;
}

static void
list_gqa (ParamList *list)
{
  const ModelAttention *a = &list->arch->attention;
  guint64 qkv = ((guint64)a->heads + 2 * (guint64)a->kv_heads) * a->head_dim;
  add (list, "linear_qkv.weight", MODEL_PARAM_SPLIT_COLUMN, qkv, list->arch->hidden, 0);
  if (a->qkv_bias)
    add (list, "linear_qkv.bias", MODEL_PARAM_SPLIT_COLUMN, qkv, 0, 0);
  if (a->qk_norm) {
    add_norm (list, "q_layernorm.weight", "q_layernorm.bias", a->head_dim);
    add_norm (list, "k_layernorm.weight", "k_layernorm.bias", a->head_dim);
  }
  if (a->sinks)
    add (list, "core_attention.sinks", MODEL_PARAM_SPLIT_COLUMN, a->heads, 0, 0);
}

/* Down projections and their norms are the same on every tp rank, up projections split by head.
 * A bias sits on the down projections only (DeepSeek's modelling code). */
static void
list_mla (ParamList *list)
{
  const ModelAttention *a = &list->arch->attention;
  guint64 hidden = list->arch->hidden;
  guint64 q = (guint64)a->heads * a->head_dim;
  guint64 kv_down = (guint64)a->kv_lora_rank + a->qk_rope_dim;
  guint64 kv_up = (guint64)a->heads * (a->qk_nope_dim + a->v_head_dim);
  if (a->q_lora_rank == 0) {
    add (list, "linear_q_proj.weight", MODEL_PARAM_SPLIT_COLUMN, q, hidden, 0);
  } else {
    add (list, "linear_q_down_proj.weight", MODEL_PARAM_SPLIT_NONE, a->q_lora_rank, hidden, 0);
    if (a->qkv_bias)
      add (list, "linear_q_down_proj.bias", MODEL_PARAM_SPLIT_NONE, a->q_lora_rank, 0, 0);
    add_norm (list, "q_layernorm.weight", "q_layernorm.bias", a->q_lora_rank);
    add (list, "linear_q_up_proj.weight", MODEL_PARAM_SPLIT_COLUMN, q, a->q_lora_rank, 0);
  }
  add (list, "linear_kv_down_proj.weight", MODEL_PARAM_SPLIT_NONE, kv_down, hidden, 0);
  if (a->qkv_bias)
    add (list, "linear_kv_down_proj.bias", MODEL_PARAM_SPLIT_NONE, kv_down, 0, 0);
  add_norm (list, "kv_layernorm.weight", "kv_layernorm.bias", a->kv_lora_rank);
  add (list, "linear_kv_up_proj.weight", MODEL_PARAM_SPLIT_COLUMN, kv_up, a->kv_lora_rank, 0);
}

static void
list_attention (ParamList *list)
{
  const ModelAttention *a = &list->arch->attention;
  if (a->kind == MODEL_ATTENTION_MLA)
    list_mla (list);
  else
    list_gqa (list);
  add (list, "linear_proj.weight", MODEL_PARAM_SPLIT_ROW, list->arch->hidden,
       (guint64)a->heads * a->v_head_dim, 0);
  if (a->out_bias)
    add (list, "linear_proj.bias", MODEL_PARAM_SPLIT_NONE, list->arch->hidden, 0, 0);
}

static void
list_dense_mlp (ParamList *list, guint64 ffn)
{
  const ModelArch *arch = list->arch;
  guint64 in = (arch->gated ? 2 : 1) * ffn;
  add (list, "linear_fc1.weight", MODEL_PARAM_SPLIT_COLUMN, in, arch->hidden, 0);
  if (arch->mlp_bias)
    add (list, "linear_fc1.bias", MODEL_PARAM_SPLIT_COLUMN, in, 0, 0);
  add (list, "linear_fc2.weight", MODEL_PARAM_SPLIT_ROW, arch->hidden, ffn, 0);
  if (arch->mlp_bias)
    add (list, "linear_fc2.bias", MODEL_PARAM_SPLIT_NONE, arch->hidden, 0, 0);
}

static void
list_experts (ParamList *list, const ModelMoe *moe)
{
  const ModelArch *arch = list->arch;
  guint64 in = (arch->gated ? 2 : 1) * (guint64)moe->expert_ffn;
  guint first = list->n;
  add (list, "experts.linear_fc1.weight", MODEL_PARAM_SPLIT_EXPERT_COLUMN, moe->experts, in,
       arch->hidden);
  if (arch->mlp_bias)
    add (list, "experts.linear_fc1.bias", MODEL_PARAM_SPLIT_EXPERT_COLUMN, moe->experts, in, 0);
  add (list, "experts.linear_fc2.weight", MODEL_PARAM_SPLIT_EXPERT_ROW, moe->experts, arch->hidden,
       moe->expert_ffn);
  if (arch->mlp_bias)
    add (list, "experts.linear_fc2.bias", MODEL_PARAM_SPLIT_EXPERT_ROW, moe->experts, arch->hidden,
         0);
  for (guint i = first; i < list->n; i++)
    list->out[i].routed = TRUE;
}

static void
list_shared_experts (ParamList *list, const ModelMoe *moe)
{
  const ModelArch *arch = list->arch;
  guint64 in = (arch->gated ? 2 : 1) * (guint64)moe->shared_ffn;
  add (list, "shared_experts.linear_fc1.weight", MODEL_PARAM_SPLIT_COLUMN, in, arch->hidden, 0);
  if (arch->mlp_bias)
    add (list, "shared_experts.linear_fc1.bias", MODEL_PARAM_SPLIT_COLUMN, in, 0, 0);
  add (list, "shared_experts.linear_fc2.weight", MODEL_PARAM_SPLIT_ROW, arch->hidden,
       moe->shared_ffn, 0);
  if (arch->mlp_bias)
    add (list, "shared_experts.linear_fc2.bias", MODEL_PARAM_SPLIT_NONE, arch->hidden, 0, 0);
  if (moe->shared_gate)
    add (list, "shared_experts.gate_weight", MODEL_PARAM_SPLIT_NONE, 1, arch->hidden, 0);
}

static void
list_moe (ParamList *list, const ModelMoe *moe)
{
  add (list, "router.weight", MODEL_PARAM_SPLIT_NONE, moe->experts, list->arch->hidden, 0);
  if (moe->router_bias)
    add (list, "router.bias", MODEL_PARAM_SPLIT_NONE, moe->experts, 0, 0);
  list_experts (list, moe);
  if (moe->shared_ffn > 0)
    list_shared_experts (list, moe);
}

static void
list_block (ParamList *list, const ModelBlockRun *run)
{
  const ModelArch *arch = list->arch;
  add_norm (list, "input_layernorm.weight", "input_layernorm.bias", arch->hidden);
  list_attention (list);
  if (arch->norms_per_block == 4)
    add_norm (list, "post_self_attn_layernorm.weight", "post_self_attn_layernorm.bias",
              arch->hidden);
  if (arch->norms_per_block >= 2)
    add_norm (list, "pre_mlp_layernorm.weight", "pre_mlp_layernorm.bias", arch->hidden);
  if (run->kind == MODEL_BLOCK_MOE)
    list_moe (list, &run->moe);
  else
    list_dense_mlp (list, run->ffn);
  if (arch->norms_per_block == 4)
    add_norm (list, "post_mlp_layernorm.weight", "post_mlp_layernorm.bias", arch->hidden);
}

guint
model_params_list (const ModelArch *arch, ModelPart part, guint run, ModelParam *out)
{
  ParamList list = { .arch = arch, .out = out, .n = 0 };
  switch (part) {
  case MODEL_PART_EMBEDDING:
    list_embedding (&list);
    break;
  case MODEL_PART_BLOCK:
    g_return_val_if_fail (run < arch->n_runs, 0);
    list_block (&list, &arch->runs[run]);
    break;
  case MODEL_PART_HEAD:
    list_head (&list);
    break;
  default:
    g_return_val_if_reached (0);
  }
  return list.n;
}

/* Sum of one part; of the routed experts @topk of @experts are counted (all when @experts is 0). */
static guint64
count_part (const ModelArch *arch, ModelPart part, guint run, guint64 topk, guint64 experts)
{
  ModelParam params[MODEL_PARAMS_MAX];
  guint n = model_params_list (arch, part, run, params);
  guint64 total = 0;
  for (guint i = 0; i < n; i++)
    total += params[i].routed && experts > 0 ? params[i].count / experts * topk : params[i].count;
  return total;
}

static guint64
count_model (const ModelArch *arch, gboolean active)
{
  guint64 total = count_part (arch, MODEL_PART_EMBEDDING, 0, 0, 0)
                  + count_part (arch, MODEL_PART_HEAD, 0, 0, 0);
  for (guint run = 0; run < arch->n_runs; run++) {
    const ModelMoe *moe = &arch->runs[run].moe;
    total += count_part (arch, MODEL_PART_BLOCK, run, moe->topk, active ? moe->experts : 0)
             * arch->runs[run].count;
  }
  return total;
}

guint64
model_params_total (const ModelArch *arch)
{
  return count_model (arch, FALSE);
}

guint64
model_params_active (const ModelArch *arch)
{
  return count_model (arch, TRUE);
}

ModelParam
model_param_with_vocab (const ModelParam *param, guint64 padded_vocab)
{
  ModelParam padded = *param;
  if (param->by_vocab) {
    padded.count = param->count / param->shape[0] * padded_vocab;
    padded.shape[0] = padded_vocab;
  }
  return padded;
}

/* @param's elements when dimension @dim is split in @parts; a dimension it lacks is not split. */
static guint64
split_count (const ModelParam *param, guint64 count, guint dim, guint parts)
{
  if (dim >= param->n_dims)
    return count;
  return count / param->shape[dim] * model_shard_ceil (param->shape[dim], parts);
}

guint64
model_param_local_count (const ModelParam *param, guint tp, guint ep, guint etp)
{
  guint64 count = param->count;
  switch (param->split) {
  case MODEL_PARAM_SPLIT_COLUMN:
    return split_count (param, count, 0, tp);
  case MODEL_PARAM_SPLIT_ROW:
    return split_count (param, count, 1, tp);
  case MODEL_PARAM_SPLIT_EXPERT_COLUMN:
    return split_count (param, split_count (param, count, 0, ep), 1, etp);
  case MODEL_PARAM_SPLIT_EXPERT_ROW:
    return split_count (param, split_count (param, count, 0, ep), 2, etp);
  case MODEL_PARAM_SPLIT_NONE:
  default:
    return count;
  }
}

guint64
model_params_padded_vocab (guint64 vocab, guint tp, guint multiple)
{
  guint64 unit = (guint64)multiple * tp;
  g_return_val_if_fail (unit > 0, vocab);
  return model_shard_ceil (vocab, unit) * unit;
}

guint64
model_params_word_embedding_count (const ModelArch *arch, guint tp, guint multiple)
{
  return model_params_padded_vocab (arch->vocab, tp, multiple) / tp * arch->hidden;
}
