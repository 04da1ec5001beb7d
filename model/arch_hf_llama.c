/* model/arch_hf_llama.c - config.json of decoders built like Llama: RMSNorm, rotary positions,
 * gated MLP; dense, or with experts as in Mixtral and Qwen. */
#include "model/arch_hf-private.h"
#include <string.h>

/* Which layers attend through a sliding window when "layer_types" does not say. */
typedef enum {
  WINDOW_NONE,
  WINDOW_ALL,   /* "sliding_window" in every layer */
  WINDOW_EVEN,  /* in layers 0, 2, 4, … */
  WINDOW_MOST,  /* in all but every "sliding_window_pattern"-th layer */
  WINDOW_UPPER, /* from layer "max_window_layers" on, if "use_sliding_window" */
  WINDOW_ASKED, /* in every layer, if "use_sliding_window" */
} WindowRule;

typedef enum { EXPERTS_NONE, EXPERTS_MIXTRAL, EXPERTS_QWEN2, EXPERTS_QWEN3 } ExpertRule;

/* What a model_type means beyond its keys; from the transformers class of that name. */
typedef struct {
  const char *model_type;
  ExpertRule experts;
  WindowRule window;
  guint32 default_window;   /* where "sliding_window" is absent, 0: none */
  guint32 default_head_dim; /* where "head_dim" is absent, 0: hidden / heads */
  guint32 norms_per_block;
  ModelActivation activation;
  gboolean tied;     /* where "tie_word_embeddings" is absent */
  gboolean qkv_bias; /* always, whatever "attention_bias" says */
  gboolean qk_norm;
} Family;

static const Family families[] = {
  { "llama", EXPERTS_NONE, WINDOW_NONE, 0, 0, 2, MODEL_ACTIVATION_SILU, FALSE, FALSE, FALSE },
  { "mistral", EXPERTS_NONE, WINDOW_ALL, 4096, 0, 2, MODEL_ACTIVATION_SILU, FALSE, FALSE, FALSE },
  { "mixtral", EXPERTS_MIXTRAL, WINDOW_ALL, 0, 0, 2, MODEL_ACTIVATION_SILU, FALSE, FALSE, FALSE },
  { "qwen2", EXPERTS_NONE, WINDOW_UPPER, 4096, 0, 2, MODEL_ACTIVATION_SILU, FALSE, TRUE, FALSE },
  { "qwen3", EXPERTS_NONE, WINDOW_UPPER, 4096, 128, 2, MODEL_ACTIVATION_SILU, FALSE, FALSE, TRUE },
  { "qwen2_moe", EXPERTS_QWEN2, WINDOW_UPPER, 4096, 0, 2, MODEL_ACTIVATION_SILU, FALSE, TRUE,
    FALSE },
  { "qwen3_moe", EXPERTS_QWEN3, WINDOW_ASKED, 4096, 0, 2, MODEL_ACTIVATION_SILU, FALSE, FALSE,
    TRUE },
  { "phi3", EXPERTS_NONE, WINDOW_ALL, 0, 0, 2, MODEL_ACTIVATION_SILU, FALSE, FALSE, FALSE },
  { "gemma", EXPERTS_NONE, WINDOW_NONE, 0, 256, 2, MODEL_ACTIVATION_GELU, TRUE, FALSE, FALSE },
  { "gemma2", EXPERTS_NONE, WINDOW_EVEN, 4096, 256, 4, MODEL_ACTIVATION_GELU, TRUE, FALSE, FALSE },
  { "gemma3_text", EXPERTS_NONE, WINDOW_MOST, 4096, 256, 4, MODEL_ACTIVATION_GELU, TRUE, FALSE,
    TRUE },
  { "qwen3_vl_text", EXPERTS_NONE, WINDOW_NONE, 0, 128, 2, MODEL_ACTIVATION_SILU, FALSE, FALSE,
    TRUE },
  { "qwen3_vl_moe_text", EXPERTS_QWEN3, WINDOW_NONE, 0, 0, 2, MODEL_ACTIVATION_SILU, FALSE, FALSE,
    TRUE },
};

static const Family *
family_of (const char *model_type)
{
  for (gsize i = 0; i < G_N_ELEMENTS (families); i++)
    if (strcmp (families[i].model_type, model_type) == 0)
      return &families[i];
  return NULL;
}

static guint32
read_window (HfReader *reader, const Family *family)
{
  const char *const *keys = HF_KEYS ("sliding_window");
  if (hf_is_null (reader, "sliding_window"))
    return 0;
  if (family->default_window == 0)
    return (guint32)hf_count_quiet (reader, keys, 1, G_MAXUINT32, 0);
  return (guint32)hf_count_or (reader, keys, 1, G_MAXUINT32, family->default_window, HF_DEFAULT);
}

/* Layers from @first on have the window, except those with index % @every == @except. */
typedef struct {
  guint64 first, every, except;
} WindowPattern;

static WindowPattern
read_pattern (HfReader *reader, const Family *family)
{
  WindowPattern pattern = { 0, 1, 1 };
  if (family->window == WINDOW_UPPER) {
    pattern.first
        = hf_count_or (reader, HF_KEYS ("max_window_layers"), 0, G_MAXUINT32, 28, HF_DEFAULT);
  } else if (family->window == WINDOW_EVEN) {
    pattern.every = 2;
  } else if (family->window == WINDOW_MOST) {
    guint64 every
        = hf_count_quiet (reader, HF_KEYS ("sliding_window_pattern", "_sliding_window_pattern"), 1,
                          MODEL_MAX_LAYERS, 6);
    pattern.every = MAX (every, 1);
    pattern.except = pattern.every - 1;
  }
  return pattern;
}

/* The window of every layer. Returns: (owned) @n_layers entries. */
static guint32 *
read_windows (HfReader *reader, const Family *family, guint32 n_layers)
{
  guint32 *windows = g_new0 (guint32, n_layers);
  gboolean optional = family->window == WINDOW_UPPER || family->window == WINDOW_ASKED;
  gboolean asked = optional ? hf_bool (reader, "use_sliding_window", FALSE) : TRUE;
  if (family->window == WINDOW_NONE || !asked)
    return windows;
  guint32 window = read_window (reader, family);
  WindowPattern pattern = read_pattern (reader, family);
  for (guint32 i = 0; i < n_layers; i++)
    windows[i] = i >= pattern.first && i % pattern.every != pattern.except ? window : 0;
  hf_apply_layer_types (reader, "sliding_attention", window, windows, n_layers);
  return windows;
}

/* The three names of the expert count, and how many are chosen. */
static void
read_experts (HfReader *reader, ModelMoe *moe)
{
  moe->experts
      = (guint32)hf_count (reader, HF_KEYS ("num_experts", "num_local_experts", "n_routed_experts"),
                           1, MODEL_MAX_EXPERTS);
  moe->topk = (guint32)hf_count (reader, HF_KEYS ("num_experts_per_tok"), 1, MODEL_MAX_EXPERTS);
}

/* Flags of the layers whose MLP stays dense. Returns: (owned) @n_layers entries. */
static gboolean *
read_dense_layers (HfReader *reader, guint32 n_layers)
{
  gboolean *dense = g_new0 (gboolean, n_layers);
  guint64 step
      = hf_count_or (reader, HF_KEYS ("decoder_sparse_step"), 1, MODEL_MAX_LAYERS, 1, HF_DEFAULT);
  for (guint32 i = 0; i < n_layers && step > 0; i++)
    dense[i] = (i + 1) % step != 0;
  JsonArray *list = hf_array (reader, "mlp_only_layers");
  for (guint i = 0; list != NULL && i < json_array_get_length (list); i++) {
    JsonNode *node = json_array_get_element (list, i);
    gboolean whole
        = JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_INT64;
    gint64 layer = whole ? json_node_get_int (node) : -1;
    if (layer >= 0 && layer < n_layers)
      dense[layer] = TRUE;
    else
      hf_fail (reader, MODEL_ERROR_BAD_VALUE, "mlp_only_layers",
               "entry %u is no layer, expected whole numbers below %u", i, n_layers);
  }
  return dense;
}

static void
read_qwen_blocks (HfReader *reader, const Family *family, guint32 n_layers, const guint32 *windows)
{
  ModelBlockRun moe = { .kind = MODEL_BLOCK_MOE, .count = 1 };
  read_experts (reader, &moe.moe);
  moe.moe.expert_ffn
      = (guint32)hf_count (reader, HF_KEYS ("moe_intermediate_size"), 1, MODEL_MAX_FFN);
  if (family->experts == EXPERTS_QWEN2) {
    moe.moe.shared_ffn
        = (guint32)hf_count (reader, HF_KEYS ("shared_expert_intermediate_size"), 1, MODEL_MAX_FFN);
    moe.moe.shared_gate = TRUE;
  }
  g_autofree gboolean *dense = read_dense_layers (reader, n_layers);
  guint32 ffn = 0;
  for (guint32 i = 0; i < n_layers && reader->error == NULL; i++) {
    if (dense[i] && ffn == 0)
      ffn = (guint32)hf_count (reader, HF_KEYS ("intermediate_size"), 1, MODEL_MAX_FFN);
    moe.window = windows[i];
    if (dense[i])
      hf_add_dense (reader->arch, 1, windows[i], ffn);
    else
      model_arch_add_blocks (reader->arch, &moe);
  }
}

/* Every layer has experts; "intermediate_size" is the width of one. */
static void
read_mixtral_blocks (HfReader *reader, guint32 n_layers, const guint32 *windows)
{
  ModelBlockRun moe = { .kind = MODEL_BLOCK_MOE, .count = 1 };
  read_experts (reader, &moe.moe);
  moe.moe.expert_ffn = (guint32)hf_count (reader, HF_KEYS ("intermediate_size"), 1, MODEL_MAX_FFN);
  for (guint32 i = 0; i < n_layers; i++) {
    moe.window = windows[i];
    model_arch_add_blocks (reader->arch, &moe);
  }
}

static void
read_dense_blocks (HfReader *reader, guint32 n_layers, const guint32 *windows)
{
  guint32 ffn = (guint32)hf_count (reader, HF_KEYS ("intermediate_size"), 1, MODEL_MAX_FFN);
  for (guint32 i = 0; i < n_layers; i++)
    hf_add_dense (reader->arch, 1, windows[i], ffn);
}

void
hf_read_llama_like (HfReader *reader)
{
  ModelArch *arch = reader->arch;
  const Family *family = family_of (arch->family);
  g_return_if_fail (family != NULL);
  guint32 layers = hf_read_size (reader, HF_KEYS ("hidden_size"), HF_KEYS ("num_hidden_layers"));
  hf_read_heads (reader, HF_KEYS ("num_attention_heads"), HF_KEYS ("num_key_value_heads"),
                 family->default_head_dim);
  hf_read_rotary (reader, "partial_rotary_factor", 1);
  hf_read_activation (reader,
                      family->activation == MODEL_ACTIVATION_GELU ? "hidden_activation"
                                                                  : "hidden_act",
                      family->activation);
  hf_read_dropout (reader, HF_KEYS ("attention_dropout", "resid_pdrop", "embd_pdrop"), 0);
  hf_read_tied (reader, family->tied);
  gboolean bias = hf_bool (reader, "attention_bias", FALSE);
  arch->attention.qkv_bias = family->qkv_bias || bias;
  arch->attention.out_bias = bias;
  arch->attention.qk_norm = family->qk_norm;
  arch->mlp_bias = hf_bool (reader, "mlp_bias", FALSE);
  arch->gated = TRUE;
  arch->norm = MODEL_NORM_RMS;
  arch->norms_per_block = family->norms_per_block;
  g_autofree guint32 *windows = read_windows (reader, family, layers);
  if (family->experts == EXPERTS_NONE)
    read_dense_blocks (reader, layers, windows);
  else if (family->experts == EXPERTS_MIXTRAL)
    read_mixtral_blocks (reader, layers, windows);
  else
    read_qwen_blocks (reader, family, layers, windows);
}
