/* model/arch_hf_moe.c - config.json of gpt-oss and Llama 4: experts and mixed attention spans. */
#include "model/arch_hf-private.h"

static guint32
read_common (HfReader *reader)
{
  ModelArch *arch = reader->arch;
  guint32 layers = hf_read_size (reader, HF_KEYS ("hidden_size"), HF_KEYS ("num_hidden_layers"));
  arch->norm = MODEL_NORM_RMS;
  arch->gated = TRUE;
  hf_read_rotary (reader, "partial_rotary_factor", 1);
  hf_read_activation (reader, "hidden_act", MODEL_ACTIVATION_SILU);
  hf_read_dropout (reader, HF_KEYS ("attention_dropout"), 0);
  hf_read_tied (reader, FALSE);
  return layers;
}

static void
read_experts (HfReader *reader, const char *const *topk_keys, ModelMoe *moe)
{
  moe->experts = (guint32)hf_count (reader, HF_KEYS ("num_local_experts", "num_experts"), 1,
                                    MODEL_MAX_EXPERTS);
  moe->topk = (guint32)hf_count (reader, topk_keys, 1, MODEL_MAX_EXPERTS);
  moe->expert_ffn = (guint32)hf_count (reader, HF_KEYS ("intermediate_size"), 1, MODEL_MAX_FFN);
}

/* Experts and router have biases, attention has a sink per head, every other layer a window. */
void
hf_read_gpt_oss (HfReader *reader)
{
  ModelArch *arch = reader->arch;
  guint32 layers = read_common (reader);
  hf_read_heads (reader, HF_KEYS ("num_attention_heads"), HF_KEYS ("num_key_value_heads"), 64);
  hf_set_biases (arch, hf_bool (reader, "attention_bias", TRUE));
  arch->mlp_bias = TRUE;
  arch->attention.sinks = TRUE;
  ModelBlockRun moe = { .kind = MODEL_BLOCK_MOE, .count = 1 };
  read_experts (reader, HF_KEYS ("num_experts_per_tok", "experts_per_token"), &moe.moe);
  moe.moe.router_bias = TRUE;
  guint64 window
      = hf_count_or (reader, HF_KEYS ("sliding_window"), 1, G_MAXUINT32, 128, HF_DEFAULT);
  g_autofree guint32 *windows = g_new0 (guint32, layers);
  for (guint32 i = 0; i < layers; i += 2)
    windows[i] = (guint32)window;
  hf_apply_layer_types (reader, "sliding_attention", (guint32)window, windows, layers);
  for (guint32 i = 0; i < layers; i++) {
    moe.window = windows[i];
    model_arch_add_blocks (arch, &moe);
  }
}

/* Entry @layer of "no_rope_layers": 1 where positions are rotary. */
static gboolean
is_rotary_layer (HfReader *reader, JsonArray *flags, guint layer)
{
  JsonNode *node = json_array_get_element (flags, layer);
  gboolean whole = JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_INT64;
  gint64 value = whole ? json_node_get_int (node) : -1;
  if (value != 0 && value != 1)
    hf_fail (reader, MODEL_ERROR_BAD_VALUE, "no_rope_layers", "entry %u is neither 0 nor 1", layer);
  return value == 1;
}

/* Layers with rotary positions attend within chunks, the others (every fourth) to everything. */
static guint32 *
read_llama4_windows (HfReader *reader, guint32 layers)
{
  guint32 *windows = g_new0 (guint32, layers);
  guint32 chunk
      = (guint32)hf_count_quiet (reader, HF_KEYS ("attention_chunk_size"), 1, G_MAXUINT32, 0);
  guint64 every
      = hf_count_quiet (reader, HF_KEYS ("no_rope_layer_interval"), 1, MODEL_MAX_LAYERS, 4);
  JsonArray *flags = hf_array (reader, "no_rope_layers");
  guint n_flags = flags != NULL ? json_array_get_length (flags) : 0;
  if (n_flags != 0 && n_flags != layers)
    hf_fail (reader, MODEL_ERROR_BAD_VALUE, "no_rope_layers",
             "found %u entries, expected one for each of the %u layers", n_flags, layers);
  for (guint32 i = 0; i < layers && reader->error == NULL; i++) {
    gboolean rotary = n_flags > 0 ? is_rotary_layer (reader, flags, i) : (i + 1) % every != 0;
    windows[i] = rotary ? chunk : 0;
  }
  hf_apply_layer_types (reader, "chunked_attention", chunk, windows, layers);
  if (chunk > 0)
    model_arch_assume (reader->arch, "window",
                       "attention in chunks, taken as a sliding window (equal up to this length)",
                       "%u", chunk);
  return windows;
}

/* Experts in every "interleave_moe_layer_step"-th layer, with one shared expert of their width. */
void
hf_read_llama4 (HfReader *reader)
{
  ModelArch *arch = reader->arch;
  guint32 layers = read_common (reader);
  hf_read_heads (reader, HF_KEYS ("num_attention_heads"), HF_KEYS ("num_key_value_heads"), 0);
  arch->attention.qkv_bias = arch->attention.out_bias = hf_bool (reader, "attention_bias", FALSE);
  ModelBlockRun moe = { .kind = MODEL_BLOCK_MOE, .count = 1 };
  read_experts (reader, HF_KEYS ("num_experts_per_tok"), &moe.moe);
  moe.moe.shared_ffn = moe.moe.expert_ffn;
  guint64 step = hf_count_or (reader, HF_KEYS ("interleave_moe_layer_step"), 1, MODEL_MAX_LAYERS, 1,
                              HF_DEFAULT);
  guint64 ffn
      = step > 1 ? hf_count (reader, HF_KEYS ("intermediate_size_mlp"), 1, MODEL_MAX_FFN) : 0;
  g_autofree guint32 *windows = read_llama4_windows (reader, layers);
  for (guint32 i = 0; i < layers && reader->error == NULL; i++) {
    moe.window = windows[i];
    if ((i + 1) % step == 0)
      model_arch_add_blocks (arch, &moe);
    else
      hf_add_dense (arch, 1, windows[i], (guint32)ffn);
  }
}
