/* model/params.h - every parameter tensor of a model, with its shape and how it may be split.
 *
 * The one list that parameter counts, lowering, memory and verification read. Shapes are global
 * (unsharded), as Megatron stores them: a linear layer is [out, in]. A gated MLP's two input
 * matrices are one tensor [2·ffn, hidden]; q, k and v are one tensor.
 *
 * Names, in the order they are listed (".bias" follows its ".weight" where the model has it):
 *   embedding  word_embeddings.weight, position_embeddings.weight, embedding_norm.{weight,bias}
 *   block      input_layernorm, then the attention
 *     GQA        linear_qkv, q_layernorm, k_layernorm, core_attention.sinks, linear_proj
 *     MLA        linear_q_proj, or linear_q_down_proj, q_layernorm, linear_q_up_proj; then
 *                linear_kv_down_proj, kv_layernorm, linear_kv_up_proj, linear_proj
 *   then       post_self_attn_layernorm, pre_mlp_layernorm, and the MLP
 *     dense      linear_fc1, linear_fc2
 *     MoE        router, experts.linear_fc1, experts.linear_fc2, shared_experts.linear_fc1,
 *                shared_experts.linear_fc2, shared_experts.gate_weight
 *   then       post_mlp_layernorm
 *   head       final_layernorm, output_layer.{weight,bias}
 */
#pragma once
#include "model/arch.h"
#include <glib.h>
G_BEGIN_DECLS

typedef enum {
  MODEL_PARAM_SPLIT_NONE, /* the same on every tp rank (norms, router, biases after row-parallel) */
  MODEL_PARAM_SPLIT_COLUMN,        /* tp shards dim 0 (column-parallel, embedding by vocabulary) */
  MODEL_PARAM_SPLIT_ROW,           /* tp shards dim 1 (row-parallel) */
  MODEL_PARAM_SPLIT_EXPERT_COLUMN, /* ep shards the experts, etp shards dim 1 of [E, out, in] */
  MODEL_PARAM_SPLIT_EXPERT_ROW,    /* ep shards the experts, etp shards dim 2 */
} ModelParamSplit;

typedef enum {
  MODEL_PART_EMBEDDING, /* word embedding, position table, embedding norm */
  MODEL_PART_BLOCK,     /* one block of a run */
  MODEL_PART_HEAD,      /* final norm and output matrix (absent when tied) */
} ModelPart;

typedef struct {
  const char *name; /* static, Megatron's: "linear_qkv.weight", "linear_fc1.weight", … */
  ModelParamSplit split;
  guint n_dims;
  guint64 shape[3];
  guint64 count;     /* elements in all */
  gboolean routed;   /* routed expert: inactive for most tokens */
  gboolean by_vocab; /* dim 0 is the vocabulary (its padded size is stored on the ranks) */
} ModelParam;

#define MODEL_PARAMS_MAX 40

/*
 * Parameters of one part. @run: which run of blocks (ignored for the other parts).
 * @out: caller's array of MODEL_PARAMS_MAX. Returns: how many were written.
 */
guint model_params_list (const ModelArch *arch, ModelPart part, guint run, ModelParam *out);

/* Exact number of parameters of the whole model; active: less the routed experts not chosen. */
guint64 model_params_total (const ModelArch *arch);
guint64 model_params_active (const ModelArch *arch);

/* The same tensor with a vocabulary of @padded_vocab where dim 0 is the vocabulary. */
ModelParam model_param_with_vocab (const ModelParam *param, guint64 padded_vocab);

/* Elements of @param on one rank with these sizes. Uneven splits round up (the fullest rank). */
guint64 model_param_local_count (const ModelParam *param, guint tp, guint ep, guint etp);

/* Vocabulary rounded up to a multiple of @multiple·tp (Megatron: 128). */
guint64 model_params_padded_vocab (guint64 vocab, guint tp, guint multiple);
/* Elements of the word embedding, with its padded vocabulary, on one of @tp ranks: what a tied
 * head's stage holds a copy of. */
guint64 model_params_word_embedding_count (const ModelArch *arch, guint tp, guint multiple);

G_END_DECLS
