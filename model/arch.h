/* model/arch.h - what the model computes: embedding, a run-length list of blocks, head.
 *
 * A ModelArch is a list of facts, without machine, layout or time. Sizes are elements, counts
 * are per model. Blocks of one run are identical; sliding windows and MoE placement are what
 * makes runs differ. Attention dimensions are the same in every block.
 */
#pragma once
#include "base/catalog.h"
#include "model/error.h"
#include <glib.h>
G_BEGIN_DECLS

typedef enum {
  MODEL_ATTENTION_GQA, /* heads share kv_heads; MHA is kv_heads == heads, MQA kv_heads == 1 */
  MODEL_ATTENTION_MLA, /* multi-head latent attention (DeepSeek-V2) */
} ModelAttentionKind;

typedef enum { MODEL_NORM_RMS, MODEL_NORM_LAYER } ModelNormKind; /* LAYER has a bias */
typedef enum {
  MODEL_POSITION_ROTARY,
  MODEL_POSITION_LEARNED, /* a table of position_rows × hidden */
  MODEL_POSITION_ALIBI,
  MODEL_POSITION_NONE,
} ModelPositionKind;
typedef enum {
  MODEL_ACTIVATION_SILU,
  MODEL_ACTIVATION_GELU,
  MODEL_ACTIVATION_RELU
} ModelActivation;
typedef enum { MODEL_BLOCK_DENSE, MODEL_BLOCK_MOE, MODEL_BLOCK_N_KINDS } ModelBlockKind;

typedef struct {
  ModelAttentionKind kind;
  guint32 heads;
  guint32 kv_heads;   /* == heads for MLA */
  guint32 head_dim;   /* of q and k; MLA: qk_nope_dim + qk_rope_dim */
  guint32 v_head_dim; /* == head_dim unless MLA */
  /* MLA only */
  guint32 q_lora_rank; /* 0: q is projected directly */
  guint32 kv_lora_rank;
  guint32 qk_nope_dim;
  guint32 qk_rope_dim;
  gboolean qkv_bias;
  gboolean out_bias;
  gboolean qk_norm;    /* norm over head_dim of q and k */
  gboolean sinks;      /* one learned logit per head (gpt-oss) */
  double rotary_ratio; /* share of head_dim that is rotated, 0 without rotary */
} ModelAttention;

typedef struct {
  guint32 experts; /* routed */
  guint32 topk;
  guint32 expert_ffn;   /* intermediate size of one routed expert */
  guint32 shared_ffn;   /* summed intermediate size of the shared experts, 0: none */
  gboolean shared_gate; /* a sigmoid gate (hidden -> 1) on the shared experts */
  gboolean router_bias; /* one bias (or correction) per expert, counted as a parameter */
} ModelMoe;

/* @count equal blocks in a row. */
typedef struct {
  ModelBlockKind kind;
  guint32 count;
  guint32 window; /* sliding window of the attention in tokens, 0: full */
  guint32 ffn;    /* dense MLP; 0 in MoE blocks */
  ModelMoe moe;   /* MoE blocks */
} ModelBlockRun;

typedef struct {
  char *name;   /* slug or file stem */
  char *family; /* HF model_type, or as given in the INI */
  guint64 hidden;
  guint64 vocab;
  guint32 layers;            /* sum of the runs' counts */
  guint32 prediction_layers; /* of them, the last: they predict tokens further ahead, need the
                                embedding and have losses of their own; no file says it */
  ModelAttention attention;
  gboolean gated;    /* SwiGLU-like MLPs: three matrices */
  gboolean mlp_bias; /* biases in the MLP, dense and experts */
  ModelActivation activation;
  ModelNormKind norm;
  guint32 norms_per_block;    /* 2; gemma2 4; phi, falcon-7b 1 */
  gboolean parallel_residual; /* attention and MLP read the same input (gpt-neox, falcon, phi) */
  ModelPositionKind position;
  guint32 position_rows;   /* LEARNED: rows of the table (opt: max positions + 2) */
  gboolean embedding_norm; /* bloom: a norm after the embedding */
  gboolean tied;           /* output head shares the embedding matrix */
  gboolean head_bias;
  ModelBlockRun *runs; /* (owned) */
  guint n_runs;
  double dropout;       /* hidden and attention dropout, 0..1 */
  guint64 seq;          /* training length, 0: unknown */
  guint64 global_batch; /* 0: unknown */
  GPtrArray *assumed;   /* (owned) of char *: "key=value: why", in file order */
} ModelArch;

void model_arch_free (ModelArch *arch);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ModelArch, model_arch_free)

/* Checks every relation between the fields; every loader ends with it. */
gboolean model_arch_validate (const ModelArch *arch, GError **error);

/* model/arch_ini.c: our own INI ("[model]", "[attention]", "[blocks N]"…), catalog or user's. */
ModelArch *model_arch_from_ini (BaseIni *ini, const char *name, GError **error);
/* model/arch_hf.c: Hugging Face config.json. @name: for messages and as the arch's name. */
ModelArch *model_arch_from_hf_json (const char *json, gssize length, const char *name,
                                    GError **error);
/* A slug of the catalog, an INI file, or a config.json (detected by content).
 * @catalog: (nullable) when @slug_or_path is a path */
ModelArch *model_arch_load (const BaseCatalog *catalog, const char *slug_or_path, GError **error);
/* INI text that loads back to an equal arch. Returns: (owned) */
char *model_arch_to_ini (const ModelArch *arch);

/* The run that block @layer (0-based) belongs to. */
const ModelBlockRun *model_arch_run_of (const ModelArch *arch, guint32 layer);

G_END_DECLS
