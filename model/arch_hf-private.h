/* model/arch_hf-private.h - what the config.json readers of the model families share.
 *
 * A family reader fills reader->arch from reader->object and leaves the first failure in
 * reader->error. Family rules are those of the transformers classes of the same model_type.
 */
#pragma once
#include "model/arch-private.h"
#include "model/json-private.h"
G_BEGIN_DECLS

#define HF_DEFAULT "absent, the default of this model_type"

/* Family readers. arch->family holds the model_type. */
void hf_read_llama_like (HfReader *reader);
void hf_read_gpt_oss (HfReader *reader);
void hf_read_llama4 (HfReader *reader);
void hf_read_deepseek (HfReader *reader);
void hf_read_gpt2 (HfReader *reader);
void hf_read_gpt_neox (HfReader *reader);
void hf_read_opt (HfReader *reader);
void hf_read_bloom (HfReader *reader);
void hf_read_falcon (HfReader *reader);
void hf_read_phi (HfReader *reader);
void hf_read_phi_msft (HfReader *reader);

/* Hidden size and vocabulary into the arch. Returns: the number of layers. */
guint32 hf_read_size (HfReader *reader, const char *const *hidden_keys,
                      const char *const *layers_keys);

/*
 * Heads, key-value heads and head size.
 *
 * @kv_keys: (nullable) absent: every head has its own
 * @default_head_dim: where "head_dim" is absent; 0: hidden / heads, which must divide
 */
void hf_read_heads (HfReader *reader, const char *const *heads_keys, const char *const *kv_keys,
                    guint32 default_head_dim);

/* The larger of the dropouts under @keys; a key that is absent counts as @fallback. */
void hf_read_dropout (HfReader *reader, const char *const *keys, double fallback);

/* Share of the head that is rotated: @key, rope_parameters.partial_rotary_factor, or @fallback. */
void hf_read_rotary (HfReader *reader, const char *key, double fallback);

void hf_read_tied (HfReader *reader, gboolean fallback);

/* Biases of every linear layer: attention in and out, MLP. */
void hf_set_biases (ModelArch *arch, gboolean bias);

/* Activation named under @key; @fallback if absent. */
void hf_read_activation (HfReader *reader, const char *key, ModelActivation fallback);

/* Feed-forward width under @keys, four times hidden if absent. */
guint32 hf_read_ffn_or_4h (HfReader *reader, const char *const *keys);

/*
 * Replaces the windows of @n_layers layers by what "layer_types" says, if it is there: @window for
 * @sliding_type, 0 for "full_attention". Any other type is a hybrid stack and refused.
 */
void hf_apply_layer_types (HfReader *reader, const char *sliding_type, guint32 window,
                           guint32 *windows, guint32 n_layers);

/* Dense blocks, all alike. */
void hf_add_dense (ModelArch *arch, guint32 count, guint32 window, guint32 ffn);

G_END_DECLS
