/* model/arch_hf_deepseek.c - config.json of DeepSeek-V2, -V3 and Kimi K2: multi-head latent
 * attention, first layers dense, then routed and shared experts. */
#include "model/arch_hf-private.h"
#include <string.h>

static void
read_mla (HfReader *reader)
{
  ModelAttention *a = &reader->arch->attention;
  a->kind = MODEL_ATTENTION_MLA;
  a->heads = (guint32)hf_count (reader, HF_KEYS ("num_attention_heads"), 1, MODEL_MAX_HEADS);
  a->kv_heads = a->heads;
  if (!hf_is_null (reader, "q_lora_rank"))
    a->q_lora_rank = (guint32)hf_count_or (reader, HF_KEYS ("q_lora_rank"), 1, MODEL_MAX_HIDDEN, 0,
                                           "absent, queries are projected directly");
  a->kv_lora_rank = (guint32)hf_count (reader, HF_KEYS ("kv_lora_rank"), 1, MODEL_MAX_HIDDEN);
  a->qk_nope_dim = (guint32)hf_count (reader, HF_KEYS ("qk_nope_head_dim"), 1, MODEL_MAX_HEAD_DIM);
  a->qk_rope_dim = (guint32)hf_count (reader, HF_KEYS ("qk_rope_head_dim"), 1, MODEL_MAX_HEAD_DIM);
  a->v_head_dim = (guint32)hf_count (reader, HF_KEYS ("v_head_dim"), 1, MODEL_MAX_HEAD_DIM);
  a->head_dim = a->qk_nope_dim + a->qk_rope_dim;
  a->rotary_ratio = a->head_dim > 0 ? (double)a->qk_rope_dim / a->head_dim : 0;
  a->qkv_bias = a->out_bias = hf_bool (reader, "attention_bias", FALSE);
}

/* A router that balances by a correction per expert ("noaux_tc") keeps it as a parameter. */
static gboolean
read_router_bias (HfReader *reader)
{
  const char *method = hf_string (reader, "topk_method");
  if (method != NULL)
    return strcmp (method, "noaux_tc") == 0;
  return strcmp (reader->arch->family, "deepseek_v2") != 0;
}

static void
read_moe (HfReader *reader, ModelMoe *moe)
{
  moe->experts = (guint32)hf_count (reader, HF_KEYS ("n_routed_experts", "num_experts"), 1,
                                    MODEL_MAX_EXPERTS);
  moe->topk = (guint32)hf_count (reader, HF_KEYS ("num_experts_per_tok"), 1, MODEL_MAX_EXPERTS);
  moe->expert_ffn = (guint32)hf_count (reader, HF_KEYS ("moe_intermediate_size"), 1, MODEL_MAX_FFN);
  guint64 shared = hf_count_quiet (reader, HF_KEYS ("n_shared_experts"), 0, MODEL_MAX_EXPERTS, 0);
  if (shared * moe->expert_ffn > MODEL_MAX_FFN)
    hf_fail (reader, MODEL_ERROR_BAD_VALUE, "n_shared_experts",
             "found %" G_GUINT64_FORMAT ", expected at most %u in all for experts of width %u",
             shared, MODEL_MAX_FFN, moe->expert_ffn);
  moe->shared_ffn = (guint32)(shared * moe->expert_ffn);
  moe->router_bias = read_router_bias (reader);
}

static void
read_blocks (HfReader *reader, guint32 layers)
{
  ModelArch *arch = reader->arch;
  gboolean is_v2 = strcmp (arch->family, "deepseek_v2") == 0;
  gboolean has_experts = hf_has (reader, HF_KEYS ("n_routed_experts", "num_experts"));
  guint64 ffn = hf_count (reader, HF_KEYS ("intermediate_size"), 1, MODEL_MAX_FFN);
  ModelBlockRun moe = { .kind = MODEL_BLOCK_MOE, .count = 1 };
  guint64 first = layers, every = 1;
  if (has_experts) {
    read_moe (reader, &moe.moe);
    first = hf_count_or (reader, HF_KEYS ("first_k_dense_replace"), 0, MODEL_MAX_LAYERS,
                         is_v2 ? 0 : 3, HF_DEFAULT);
    every = hf_count_quiet (reader, HF_KEYS ("moe_layer_freq"), 1, MODEL_MAX_LAYERS, 1);
  }
  for (guint32 i = 0; i < layers && reader->error == NULL; i++) {
    if (i >= first && i % every == 0)
      model_arch_add_blocks (arch, &moe);
    else
      hf_add_dense (arch, 1, 0, (guint32)ffn);
  }
}

void
hf_read_deepseek (HfReader *reader)
{
  ModelArch *arch = reader->arch;
  guint32 layers = hf_read_size (reader, HF_KEYS ("hidden_size"), HF_KEYS ("num_hidden_layers"));
  arch->norm = MODEL_NORM_RMS;
  arch->gated = TRUE;
  arch->position = MODEL_POSITION_ROTARY;
  read_mla (reader);
  hf_read_activation (reader, "hidden_act", MODEL_ACTIVATION_SILU);
  hf_read_dropout (reader, HF_KEYS ("attention_dropout"), 0);
  hf_read_tied (reader, FALSE);
  read_blocks (reader, layers);
}
