/* model/arch_hf_gpt.c - config.json of decoders with LayerNorm and an ungated MLP. */
#include "model/arch_hf-private.h"
#include <string.h>

/* What all of them share. */
static void
start (HfReader *reader)
{
  ModelArch *arch = reader->arch;
  arch->norm = MODEL_NORM_LAYER;
  arch->gated = FALSE;
  arch->activation = MODEL_ACTIVATION_GELU;
}

void
hf_read_gpt2 (HfReader *reader)
{
  ModelArch *arch = reader->arch;
  start (reader);
  guint32 layers = hf_read_size (reader, HF_KEYS ("n_embd", "hidden_size"),
                                 HF_KEYS ("n_layer", "num_hidden_layers"));
  hf_read_heads (reader, HF_KEYS ("n_head", "num_attention_heads"), NULL, 0);
  if (hf_bool (reader, "add_cross_attention", FALSE))
    hf_fail (reader, MODEL_ERROR_UNSUPPORTED, "add_cross_attention",
             "found true, expected false (an encoder beside the decoder is not modelled)");
  hf_set_biases (arch, TRUE);
  arch->position = MODEL_POSITION_LEARNED;
  arch->position_rows
      = (guint32)hf_count_or (reader, HF_KEYS ("n_positions", "max_position_embeddings"), 1,
                              MODEL_MAX_VOCAB, 1024, HF_DEFAULT);
  hf_read_activation (reader, "activation_function", MODEL_ACTIVATION_GELU);
  hf_read_dropout (reader, HF_KEYS ("resid_pdrop", "attn_pdrop", "embd_pdrop"), 0.1);
  hf_read_tied (reader, TRUE);
  hf_add_dense (arch, layers, 0, hf_read_ffn_or_4h (reader, HF_KEYS ("n_inner")));
}

void
hf_read_gpt_neox (HfReader *reader)
{
  ModelArch *arch = reader->arch;
  start (reader);
  guint32 layers = hf_read_size (reader, HF_KEYS ("hidden_size"), HF_KEYS ("num_hidden_layers"));
  hf_read_heads (reader, HF_KEYS ("num_attention_heads"), NULL, 0);
  hf_set_biases (arch, hf_bool (reader, "attention_bias", TRUE));
  arch->mlp_bias = TRUE;
  arch->parallel_residual = hf_bool_or (reader, "use_parallel_residual", TRUE, HF_DEFAULT);
  hf_read_rotary (reader, "rotary_pct", 0.25);
  hf_read_activation (reader, "hidden_act", MODEL_ACTIVATION_GELU);
  hf_read_dropout (reader, HF_KEYS ("hidden_dropout", "attention_dropout"), 0);
  hf_read_tied (reader, FALSE);
  guint64 ffn = hf_count (reader, HF_KEYS ("intermediate_size"), 1, MODEL_MAX_FFN);
  hf_add_dense (arch, layers, 0, (guint32)ffn);
}

/* opt-350m projects its embedding and normalises after each part: refused. */
static void
check_opt (HfReader *reader)
{
  guint64 width = hf_count_quiet (reader, HF_KEYS ("word_embed_proj_dim"), 1, MODEL_MAX_HIDDEN,
                                  reader->arch->hidden);
  if (width != reader->arch->hidden)
    hf_fail (reader, MODEL_ERROR_UNSUPPORTED, "word_embed_proj_dim",
             "found %" G_GUINT64_FORMAT ", expected hidden_size %" G_GUINT64_FORMAT
             " (a projected embedding is not modelled)",
             width, reader->arch->hidden);
  if (!hf_bool (reader, "do_layer_norm_before", TRUE))
    hf_fail (reader, MODEL_ERROR_UNSUPPORTED, "do_layer_norm_before",
             "found false, expected true (norms after the block are not modelled)");
  if (!hf_bool (reader, "layer_norm_elementwise_affine", TRUE))
    hf_fail (reader, MODEL_ERROR_UNSUPPORTED, "layer_norm_elementwise_affine",
             "found false, expected true (norms without weights are not modelled)");
  if (hf_bool (reader, "_remove_final_layer_norm", FALSE))
    hf_fail (reader, MODEL_ERROR_UNSUPPORTED, "_remove_final_layer_norm",
             "found true, expected false (a head without a norm is not modelled)");
}

void
hf_read_opt (HfReader *reader)
{
  ModelArch *arch = reader->arch;
  start (reader);
  guint32 layers = hf_read_size (reader, HF_KEYS ("hidden_size"), HF_KEYS ("num_hidden_layers"));
  hf_read_heads (reader, HF_KEYS ("num_attention_heads"), NULL, 0);
  check_opt (reader);
  hf_set_biases (arch, hf_bool (reader, "enable_bias", TRUE));
  arch->position = MODEL_POSITION_LEARNED;
  /* Positions start at 2: the table has two rows more than there are positions. */
  arch->position_rows
      = 2 + (guint32)hf_count (reader, HF_KEYS ("max_position_embeddings"), 1, MODEL_MAX_VOCAB - 2);
  hf_read_activation (reader, "activation_function", MODEL_ACTIVATION_RELU);
  hf_read_dropout (reader, HF_KEYS ("dropout"), 0.1);
  hf_read_tied (reader, TRUE);
  guint64 ffn = hf_count (reader, HF_KEYS ("ffn_dim"), 1, MODEL_MAX_FFN);
  hf_add_dense (arch, layers, 0, (guint32)ffn);
}

void
hf_read_bloom (HfReader *reader)
{
  ModelArch *arch = reader->arch;
  start (reader);
  guint32 layers = hf_read_size (reader, HF_KEYS ("hidden_size", "n_embed"),
                                 HF_KEYS ("n_layer", "num_hidden_layers"));
  hf_read_heads (reader, HF_KEYS ("n_head", "num_attention_heads"), NULL, 0);
  if (hf_bool (reader, "apply_residual_connection_post_layernorm", FALSE))
    hf_fail (reader, MODEL_ERROR_UNSUPPORTED, "apply_residual_connection_post_layernorm",
             "found true, expected false");
  hf_set_biases (arch, TRUE);
  arch->position = MODEL_POSITION_ALIBI;
  arch->embedding_norm = TRUE;
  hf_read_dropout (reader, HF_KEYS ("hidden_dropout", "attention_dropout"), 0);
  hf_read_tied (reader, TRUE);
  hf_add_dense (arch, layers, 0, (guint32)(4 * arch->hidden));
}

/* Fused query-key-value layouts: grouped in the new architecture, one shared pair with
 * multi_query, otherwise one pair per head. */
static void
read_falcon_heads (HfReader *reader, gboolean new_architecture)
{
  ModelAttention *a = &reader->arch->attention;
  const char *const *heads = HF_KEYS ("num_attention_heads", "n_head");
  if (new_architecture) {
    hf_read_heads (reader, heads, HF_KEYS ("num_kv_heads", "n_head_kv"), 0);
    return;
  }
  hf_read_heads (reader, heads, NULL, 0);
  if (hf_bool_or (reader, "multi_query", TRUE, HF_DEFAULT))
    a->kv_heads = 1;
}

static guint32
falcon_norms (HfReader *reader, gboolean new_architecture)
{
  guint64 norms = hf_count_quiet (reader, HF_KEYS ("num_ln_in_parallel_attn"), 1, 2,
                                  new_architecture ? 2 : 1);
  return reader->arch->parallel_residual ? (guint32)norms : 2;
}

void
hf_read_falcon (HfReader *reader)
{
  ModelArch *arch = reader->arch;
  start (reader);
  guint32 layers
      = hf_read_size (reader, HF_KEYS ("hidden_size"), HF_KEYS ("num_hidden_layers", "n_layer"));
  /* RefinedWeb is the first name of the 40B model, which has the new architecture. */
  gboolean is_new = hf_bool_or (reader, "new_decoder_architecture",
                                strcmp (arch->family, "RefinedWeb") == 0, HF_DEFAULT);
  read_falcon_heads (reader, is_new);
  hf_set_biases (arch, hf_bool (reader, "bias", FALSE));
  arch->parallel_residual = hf_bool_or (reader, "parallel_attn", TRUE, HF_DEFAULT);
  arch->norms_per_block = falcon_norms (reader, is_new);
  if (hf_bool (reader, "alibi", FALSE))
    arch->position = MODEL_POSITION_ALIBI;
  else
    hf_read_rotary (reader, "partial_rotary_factor", 1);
  hf_read_activation (reader, "activation", MODEL_ACTIVATION_GELU);
  hf_read_dropout (reader, HF_KEYS ("hidden_dropout", "attention_dropout"), 0);
  hf_read_tied (reader, TRUE);
  hf_add_dense (arch, layers, 0, hf_read_ffn_or_4h (reader, HF_KEYS ("ffn_hidden_size")));
}

/* One norm feeds attention and MLP; biases everywhere, in the head too. */
static void
set_phi (ModelArch *arch)
{
  hf_set_biases (arch, TRUE);
  arch->head_bias = TRUE;
  arch->parallel_residual = TRUE;
  arch->norms_per_block = 1;
}

void
hf_read_phi (HfReader *reader)
{
  ModelArch *arch = reader->arch;
  start (reader);
  set_phi (arch);
  guint32 layers = hf_read_size (reader, HF_KEYS ("hidden_size"), HF_KEYS ("num_hidden_layers"));
  hf_read_heads (reader, HF_KEYS ("num_attention_heads"), HF_KEYS ("num_key_value_heads"), 0);
  arch->attention.qk_norm = hf_bool (reader, "qk_layernorm", FALSE);
  hf_read_rotary (reader, "partial_rotary_factor", 0.5);
  hf_read_activation (reader, "hidden_act", MODEL_ACTIVATION_GELU);
  hf_read_dropout (reader, HF_KEYS ("resid_pdrop", "embd_pdrop", "attention_dropout"), 0);
  hf_read_tied (reader, FALSE);
  guint64 ffn = hf_count (reader, HF_KEYS ("intermediate_size"), 1, MODEL_MAX_FFN);
  hf_add_dense (arch, layers, 0, (guint32)ffn);
}

/* The names phi-1.5 and phi-2 had before transformers knew them. */
void
hf_read_phi_msft (HfReader *reader)
{
  ModelArch *arch = reader->arch;
  ModelAttention *a = &arch->attention;
  start (reader);
  set_phi (arch);
  guint32 layers = hf_read_size (reader, HF_KEYS ("n_embd"), HF_KEYS ("n_layer"));
  hf_read_heads (reader, HF_KEYS ("n_head"), HF_KEYS ("n_head_kv"), 0);
  arch->position = MODEL_POSITION_ROTARY;
  guint64 rotary
      = hf_count_or (reader, HF_KEYS ("rotary_dim"), 0, MODEL_MAX_HEAD_DIM, 32, HF_DEFAULT);
  a->rotary_ratio = a->head_dim > 0 ? (double)MIN (rotary, a->head_dim) / a->head_dim : 0;
  hf_read_activation (reader, "activation_function", MODEL_ACTIVATION_GELU);
  hf_read_dropout (reader, HF_KEYS ("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0);
  hf_read_tied (reader, FALSE);
  hf_add_dense (arch, layers, 0, hf_read_ffn_or_4h (reader, HF_KEYS ("n_inner")));
}
