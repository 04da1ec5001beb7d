/* model/arch_hf_common.c - pieces that several families of config.json share. */
#include "base/text.h"
#include "model/arch_hf-private.h"
#include <string.h>

guint32
hf_read_size (HfReader *reader, const char *const *hidden_keys, const char *const *layers_keys)
{
  reader->arch->hidden = hf_count (reader, hidden_keys, 1, MODEL_MAX_HIDDEN);
  reader->arch->vocab = hf_count (reader, HF_KEYS ("vocab_size"), 1, MODEL_MAX_VOCAB);
  return (guint32)hf_count (reader, layers_keys, 1, MODEL_MAX_LAYERS);
}

static guint32
hidden_per_head (HfReader *reader, const char *heads_key)
{
  guint64 hidden = reader->arch->hidden;
  guint32 heads = reader->arch->attention.heads;
  if (reader->error != NULL)
    return 0;
  if (hidden % heads != 0)
    hf_fail (reader, MODEL_ERROR_BAD_VALUE, heads_key,
             "found %u, expected a divisor of the hidden size %" G_GUINT64_FORMAT, heads, hidden);
  return (guint32)(hidden / heads);
}

void
hf_read_heads (HfReader *reader, const char *const *heads_keys, const char *const *kv_keys,
               guint32 default_head_dim)
{
  ModelAttention *a = &reader->arch->attention;
  const char *const *dim_keys = HF_KEYS ("head_dim");
  a->heads = (guint32)hf_count (reader, heads_keys, 1, MODEL_MAX_HEADS);
  a->kv_heads = a->heads;
  if (kv_keys != NULL)
    a->kv_heads = (guint32)hf_count_or (reader, kv_keys, 1, MODEL_MAX_HEADS, a->heads,
                                        "absent, every head has its own");
  if (hf_has (reader, dim_keys))
    a->head_dim = (guint32)hf_count (reader, dim_keys, 1, MODEL_MAX_HEAD_DIM);
  else if (default_head_dim > 0)
    a->head_dim = (guint32)hf_count_or (reader, dim_keys, 1, MODEL_MAX_HEAD_DIM, default_head_dim,
                                        HF_DEFAULT);
  else
    a->head_dim = hidden_per_head (reader, heads_keys[0]);
  a->v_head_dim = a->head_dim;
}

void
hf_read_dropout (HfReader *reader, const char *const *keys, double fallback)
{
  double largest = 0, smallest = 1;
  for (guint i = 0; keys[i] != NULL; i++) {
    if (!(fallback > 0) && !hf_has (reader, (const char *const[]){ keys[i], NULL }))
      continue; /* not every family of these has it */
    double value = fallback > 0 ? hf_ratio_or (reader, keys[i], fallback, HF_DEFAULT)
                                : hf_ratio (reader, keys[i], fallback);
    largest = MAX (largest, value);
    smallest = MIN (smallest, value);
  }
  if (smallest < largest)
    model_arch_assume (reader->arch, "dropout", "the largest of those in the file, used for all",
                       "%g", largest);
  reader->arch->dropout = largest;
}

void
hf_read_rotary (HfReader *reader, const char *key, double fallback)
{
  reader->arch->position = MODEL_POSITION_ROTARY;
  double ratio = fallback;
  JsonObject *rope = hf_object (reader, "rope_parameters");
  if (rope != NULL) {
    HfReader inner = *reader;
    inner.object = rope;
    inner.prefix = "rope_parameters.";
    ratio = hf_ratio (&inner, "partial_rotary_factor", fallback);
    reader->error = inner.error;
    reader->arch->attention.rotary_ratio = hf_ratio (reader, key, ratio);
  } else if (fallback == 1) {
    reader->arch->attention.rotary_ratio = hf_ratio (reader, key, fallback);
  } else {
    reader->arch->attention.rotary_ratio = hf_ratio_or (reader, key, fallback, HF_DEFAULT);
  }
}

void
hf_read_tied (HfReader *reader, gboolean fallback)
{
  reader->arch->tied = hf_bool_or (reader, "tie_word_embeddings", fallback, HF_DEFAULT);
}

void
hf_set_biases (ModelArch *arch, gboolean bias)
{
  arch->attention.qkv_bias = bias;
  arch->attention.out_bias = bias;
  arch->mlp_bias = bias;
}

void
hf_read_activation (HfReader *reader, const char *key, ModelActivation fallback)
{
  ModelActivation *out = &reader->arch->activation;
  const char *name = hf_string (reader, key);
  *out = fallback;
  if (name == NULL)
    return;
  if (strcmp (name, "silu") == 0 || strcmp (name, "swish") == 0)
    *out = MODEL_ACTIVATION_SILU;
  else if (g_str_has_prefix (name, "gelu") || strcmp (name, "quick_gelu") == 0)
    *out = MODEL_ACTIVATION_GELU;
  else if (strcmp (name, "relu") == 0)
    *out = MODEL_ACTIVATION_RELU;
  else {
    g_autofree char *shown = base_text_excerpt (name, -1);
    hf_fail (reader, MODEL_ERROR_UNSUPPORTED, key,
             "found '%s', expected silu, relu or one of the gelu functions", shown);
  }
}

guint32
hf_read_ffn_or_4h (HfReader *reader, const char *const *keys)
{
  return (guint32)hf_count_quiet (reader, keys, 1, MODEL_MAX_FFN, 4 * reader->arch->hidden);
}

/* Window of entry @layer of "layer_types". */
static guint32
window_of_type (HfReader *reader, JsonArray *types, const char *sliding_type, guint32 window,
                guint layer)
{
  JsonNode *node = json_array_get_element (types, layer);
  gboolean is_text
      = JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING;
  const char *type = is_text ? json_node_get_string (node) : "";
  if (strcmp (type, "full_attention") == 0)
    return 0;
  if (strcmp (type, sliding_type) == 0)
    return window;
  g_autofree char *shown = base_text_excerpt (type, -1);
  hf_fail (
      reader, MODEL_ERROR_UNSUPPORTED, "layer_types",
      "found '%s' for layer %u, expected full_attention or %s (a hybrid stack is not modelled)",
      shown, layer, sliding_type);
  return 0;
}

void
hf_apply_layer_types (HfReader *reader, const char *sliding_type, guint32 window, guint32 *windows,
                      guint32 n_layers)
{
  JsonArray *types = hf_array (reader, "layer_types");
  if (types == NULL)
    return;
  if (json_array_get_length (types) != n_layers) {
    hf_fail (reader, MODEL_ERROR_BAD_VALUE, "layer_types",
             "found %u entries, expected one for each of the %u layers",
             json_array_get_length (types), n_layers);
    return;
  }
  for (guint32 i = 0; i < n_layers && reader->error == NULL; i++)
    windows[i] = window_of_type (reader, types, sliding_type, window, i);
}

void
hf_add_dense (ModelArch *arch, guint32 count, guint32 window, guint32 ffn)
{
  ModelBlockRun run = { .kind = MODEL_BLOCK_DENSE, .count = count, .window = window, .ffn = ffn };
  model_arch_add_blocks (arch, &run);
}
