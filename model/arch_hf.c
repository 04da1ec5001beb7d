/* model/arch_hf.c - Hugging Face config.json: which family it is, or why it is refused. */
#include "base/suggest.h"
#include "base/text.h"
#include "model/arch_hf-private.h"
#include <string.h>

typedef struct {
  const char *model_type;
  void (*read) (HfReader *reader);
} Reader;

static const Reader readers[] = {
  { "llama", hf_read_llama_like },
  { "mistral", hf_read_llama_like },
  { "mixtral", hf_read_llama_like },
  { "qwen2", hf_read_llama_like },
  { "qwen2_moe", hf_read_llama_like },
  { "qwen3", hf_read_llama_like },
  { "qwen3_moe", hf_read_llama_like },
  { "phi3", hf_read_llama_like },
  { "gemma", hf_read_llama_like },
  { "gemma2", hf_read_llama_like },
  { "deepseek_v2", hf_read_deepseek },
  { "deepseek_v3", hf_read_deepseek },
  { "kimi_k2", hf_read_deepseek },
  { "gpt2", hf_read_gpt2 },
  { "gpt_neox", hf_read_gpt_neox },
  { "gpt_oss", hf_read_gpt_oss },
  { "llama4_text", hf_read_llama4 },
  { "opt", hf_read_opt },
  { "bloom", hf_read_bloom },
  { "falcon", hf_read_falcon },
  { "RefinedWeb", hf_read_falcon },
  { "RefinedWebModel", hf_read_falcon },
  { "gemma3_text", hf_read_llama_like },
  { "qwen3_vl_text", hf_read_llama_like },
  { "qwen3_vl_moe_text", hf_read_llama_like },
  { "phi", hf_read_phi },
  { "phi-msft", hf_read_phi_msft },
};

#define HYBRID  "mixes attention with state-space, linear or recurrent layers"
#define ENCODER "has an encoder"
#define VISION  "is a vision model"

/* Real model types that are not plain decoders, and what they are. */
static const struct {
  const char *model_type;
  const char *reason;
} refused[] = {
  { "nemotron_h", HYBRID },
  { "kimi_linear", HYBRID },
  { "qwen3_next", HYBRID },
  { "qwen3_5", HYBRID },
  { "qwen3_5_text", HYBRID },
  { "qwen3_5_moe", HYBRID },
  { "qwen3_5_moe_text", HYBRID },
  { "jamba", HYBRID },
  { "bamba", HYBRID },
  { "falcon_h1", HYBRID },
  { "granitemoehybrid", HYBRID },
  { "zamba", HYBRID },
  { "zamba2", HYBRID },
  { "recurrent_gemma", HYBRID },
  { "minimax", HYBRID },
  { "lfm2", HYBRID },
  { "mamba", HYBRID },
  { "mamba2", HYBRID },
  { "falcon_mamba", HYBRID },
  { "rwkv", HYBRID },
  { "t5", ENCODER },
  { "mt5", ENCODER },
  { "umt5", ENCODER },
  { "bart", ENCODER },
  { "mbart", ENCODER },
  { "pegasus", ENCODER },
  { "marian", ENCODER },
  { "whisper", ENCODER },
  { "bert", ENCODER },
  { "roberta", ENCODER },
  { "xlm-roberta", ENCODER },
  { "deberta-v2", ENCODER },
  { "modernbert", ENCODER },
  { "electra", ENCODER },
  { "vit", VISION },
  { "deit", VISION },
  { "beit", VISION },
  { "swin", VISION },
  { "clip", VISION },
  { "siglip", VISION },
  { "dinov2", VISION },
  { "convnext", VISION },
};

static const Reader *
find_reader (const char *model_type)
{
  for (gsize i = 0; i < G_N_ELEMENTS (readers); i++)
    if (strcmp (readers[i].model_type, model_type) == 0)
      return &readers[i];
  return NULL;
}

/* One line that names the type, why not, and the types that would do. */
static void
refuse_type (HfReader *reader, const char *model_type)
{
  for (gsize i = 0; i < G_N_ELEMENTS (refused); i++)
    if (strcmp (refused[i].model_type, model_type) == 0) {
      hf_fail (reader, MODEL_ERROR_UNSUPPORTED, "model_type",
               "found '%s', which %s; expected a plain decoder", model_type, refused[i].reason);
      return;
    }
  const char *names[G_N_ELEMENTS (readers) + 1] = { NULL };
  for (gsize i = 0; i < G_N_ELEMENTS (readers); i++)
    names[i] = readers[i].model_type;
  const char *near = base_suggest (model_type, names);
  g_autofree char *all = g_strjoinv (" ", (char **)names);
  g_autofree char *shown = base_text_excerpt (model_type, -1);
  hf_fail (reader, MODEL_ERROR_UNSUPPORTED, "model_type", "found '%s', expected one of: %s%s%s%s",
           shown, all, near ? "; was '" : "", near ? near : "", near ? "' meant?" : "");
}

/* Diffusers configurations have no model_type. */
static void
refuse_no_type (HfReader *reader)
{
  const char *class_name = hf_string (reader, "_class_name");
  if (class_name != NULL) {
    g_autofree char *shown = base_text_excerpt (class_name, -1);
    hf_fail (reader, MODEL_ERROR_UNSUPPORTED, "_class_name",
             "found '%s', which is a diffusion model; expected a decoder with a model_type", shown);
  }
  hf_fail (reader, MODEL_ERROR_PARSE, "model_type", "found nothing, expected the family's name");
}

/* Multimodal files keep the language model in "text_config". */
static void
descend (HfReader *reader)
{
  JsonObject *outer = reader->object;
  if (hf_has (reader, HF_KEYS ("hidden_size", "n_embd", "n_embed", "d_model")))
    return;
  JsonObject *inner = hf_object (reader, "text_config");
  if (inner == NULL)
    return;
  if (!json_object_has_member (inner, "tie_word_embeddings")
      && json_object_has_member (outer, "tie_word_embeddings"))
    json_object_set_member (inner, "tie_word_embeddings",
                            json_object_dup_member (outer, "tie_word_embeddings"));
  reader->object = inner;
  reader->prefix = "text_config.";
  model_arch_assume (reader->arch, "text_config", "only the language model is counted",
                     "language model");
}

/* A name that is safe to repeat in a note. */
static const char *
plain_name (const char *name)
{
  if (name == NULL || *name == '\0' || strlen (name) > 40)
    return "unknown";
  for (const char *c = name; *c != '\0'; c++)
    if (!g_ascii_isalnum (*c) && strchr ("_.-", *c) == NULL)
      return "unknown";
  return name;
}

static void
note_quantization (HfReader *reader)
{
  JsonObject *object = hf_object (reader, "quantization_config");
  if (object == NULL)
    return;
  HfReader inner = *reader;
  inner.object = object;
  inner.prefix = "quantization_config.";
  const char *method = plain_name (hf_string (&inner, "quant_method"));
  reader->error = inner.error;
  model_arch_assume (reader->arch, "quantization_config",
                     "describes the stored weights, not the training, and is ignored", "%s",
                     method);
}

/* Keys that any family may have. */
static void
read_common_keys (HfReader *reader)
{
  if (hf_bool (reader, "is_encoder_decoder", FALSE))
    hf_fail (reader, MODEL_ERROR_UNSUPPORTED, "is_encoder_decoder",
             "found true, expected false (an encoder is not modelled)");
  hf_string (reader, "torch_dtype");
  hf_string (reader, "dtype");
  guint64 mtp
      = hf_count_quiet (reader, HF_KEYS ("num_nextn_predict_layers"), 0, MODEL_MAX_LAYERS, 0);
  if (mtp > 0)
    model_arch_assume (reader->arch, "num_nextn_predict_layers",
                       "multi-token prediction layers are neither counted nor priced",
                       "%" G_GUINT64_FORMAT, mtp);
  note_quantization (reader);
}

static void
read_family (HfReader *reader)
{
  const char *model_type = hf_string (reader, "model_type");
  if (reader->error != NULL)
    return;
  if (model_type == NULL) {
    refuse_no_type (reader);
    return;
  }
  const Reader *found = find_reader (model_type);
  if (found == NULL) {
    refuse_type (reader, model_type);
    return;
  }
  reader->arch->family = g_strdup (model_type);
  read_common_keys (reader);
  if (reader->error == NULL)
    found->read (reader);
}

ModelArch *
model_arch_from_hf_json (const char *json, gssize length, const char *name, GError **error)
{
  gsize n_bytes = length < 0 ? strlen (json) : (gsize)length;
  g_autofree char *text = model_json_check (json, n_bytes, name, error);
  if (text == NULL)
    return NULL;
  g_autoptr (JsonParser) parser = json_parser_new ();
  if (!json_parser_load_from_data (parser, text, -1, error)) {
    g_prefix_error (error, "%s: ", name);
    return NULL;
  }
  JsonNode *root = json_parser_get_root (parser);
  if (root == NULL || !JSON_NODE_HOLDS_OBJECT (root)) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_PARSE, "%s: found no object, expected '{'", name);
    return NULL;
  }
  g_autoptr (ModelArch) arch = model_arch_new (name);
  HfReader reader = { json_node_get_object (root), name, "", arch, NULL };
  descend (&reader);
  read_family (&reader);
  if (reader.error != NULL) {
    g_propagate_error (error, reader.error);
    return NULL;
  }
  return model_arch_validate (arch, error) ? g_steal_pointer (&arch) : NULL;
}
