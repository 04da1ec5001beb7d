/* model/lower-private.h - how a piece of the model is written down as ops and tensors.
 *
 * The lowerers (dense, moe, mla, head) write the forward pass only. lower_backward.c derives the
 * rest: a recompute op is a forward op of a recomputed module written again with fresh tensors,
 * and backward walks the forward ops from the last to the first. What a kernel saves for backward
 * is listed with its forward op (LowerMeta.saved); what is kept in memory follows from who reads
 * which tensor and is never stated.
 */
#pragma once
#include "model/segment.h"
G_BEGIN_DECLS

#define LOWER_MAX_SAVED 8

/* How the rows (tokens) and columns of an activation lie over the ranks. */
typedef enum {
  LOWER_SEQUENCE,       /* rows split by cp, and by tp with sequence parallelism; columns whole */
  LOWER_GATHERED,       /* rows split by cp only; columns whole */
  LOWER_COLUMN,         /* rows split by cp, columns by tp */
  LOWER_PARTIAL,        /* rows split by cp; every tp rank holds one summand */
  LOWER_EXPERT_COLUMN,  /* rows as LOWER_SEQUENCE, columns split by etp */
  LOWER_EXPERT_PARTIAL, /* rows as LOWER_SEQUENCE; every etp rank holds one summand */
} LowerSplit;

typedef enum { LOWER_WHOLE, LOWER_COLUMN_PARALLEL, LOWER_ROW_PARALLEL } LowerParallel;

/* What backward must know about a forward op and no one else. */
typedef struct {
  guint16 modules;   /* ModelRecomputeModule bits the op belongs to */
  guint8 parallel;   /* LowerParallel of a GEMM */
  gboolean regather; /* a gather whose result is not kept: backward gathers again */
  guint8 n_saved;
  guint32 saved[LOWER_MAX_SAVED]; /* tensors its kernel saves for backward, beside its weights */
} LowerMeta;

typedef struct {
  const ModelArch *arch;
  const ModelJob *job;
  const ModelLayout *layout;
  const ModelProfile *profile;
  const ModelBlockRun *run; /* of a block, else NULL */
  ModelOp *ops;
  LowerMeta *meta; /* per op */
  guint n_ops, ops_capacity;
  ModelTensor *tensors;
  guint32 *rebuilt; /* per tensor: its recomputed copy, or MODEL_TENSOR_NONE */
  guint32 *grad;    /* per tensor: its gradient so far, or MODEL_TENSOR_NONE */
  guint n_tensors, tensors_capacity;
  guint n_weights;         /* tensors [0, n_weights) are the weights */
  guint8 phase;            /* of the ops being written */
  guint16 modules;         /* of the ops being written */
  guint16 rebuilt_modules; /* modules that are recomputed; all bits: the whole piece */
  gboolean saves_ops; /* of these, what attention, every second GEMM and exchanges made is kept */
  guint32 mesh[MODEL_MESH_N_DIMS];
  guint64 tokens;        /* of one micro-batch, all ranks */
  guint64 rows;          /* tokens of this rank: tokens / cp, rounded up */
  guint64 rows_sequence; /* rows / tp with sequence parallelism, else rows */
  gboolean gathers;      /* tp > 1 with sequence parallelism */
  gboolean reduces;      /* tp > 1 without */
  ModelDtype store;      /* of activations and weights */
  guint8 element_bytes;  /* of @store */
  gboolean quantizes;    /* GEMM inputs are cast to 8 or 4 bits */
  guint64 padded_vocab;
  guint gathered_again, gathered_again_at; /* forward op last gathered again, and by which op */
} Lower;

#define LOWER_ALL_MODULES G_MAXUINT16

/* model/lower.c */
void lower_init (Lower *b, const ModelArch *arch, const ModelJob *job, const ModelLayout *layout,
                 const ModelProfile *profile);
void lower_clear (Lower *b);
/* Adds a WEIGHT tensor per parameter of the part. */
void lower_weights (Lower *b, ModelPart part, guint run);
guint32 lower_weight (const Lower *b,
                      const char *name); /* MODEL_TENSOR_NONE if the model has none */
guint32 lower_tensor (Lower *b, const char *name, ModelTensorRole role, ModelDtype dtype,
                      LowerSplit split, guint64 rows, guint64 columns);
/* An activation of the storage dtype with one row per token. */
guint32 lower_activation (Lower *b, const char *name, LowerSplit split, guint64 columns);
guint32 lower_clone (Lower *b, guint32 tensor);
guint32 lower_push_tensor (Lower *b, const ModelTensor *tensor);
/* Starts an op; lower_in and lower_out add operands (NONE is skipped), lower_end counts bytes. */
ModelOp *lower_begin (Lower *b, ModelOpKind kind, const char *name);
void lower_in (Lower *b, guint32 tensor);
void lower_out (Lower *b, guint32 tensor);
void lower_save (Lower *b, guint32 tensor);
void lower_end (Lower *b);
static inline ModelOp *
lower_current (Lower *b)
{
  return &b->ops[b->n_ops - 1];
}
static inline LowerMeta *
lower_current_meta (Lower *b)
{
  return &b->meta[b->n_ops - 1];
}
/* Starts a COLLECTIVE of @message_bytes. */
void lower_begin_collective (Lower *b, const char *name, ModelCollectiveKind kind,
                             ModelGroupKind group, ModelStream stream, guint64 message_bytes);

/* model/lower_parts.c: what blocks, embedding and head are made of. */
guint32 lower_norm (Lower *b, guint32 x, LowerSplit split, guint64 columns, const char *weight,
                    const char *bias);
/* Norm over each head of q or k, in place of the tensor's columns. */
guint32 lower_head_norm (Lower *b, guint32 x, guint64 columns, const char *weight,
                         const char *bias);
/* Tensor @x for a column-parallel GEMM: cast where the layout quantizes, gathered over tp with
 * sequence parallelism. @columns: of @x. */
guint32 lower_column_input (Lower *b, guint32 x, guint64 columns);
typedef struct {
  const char *name, *weight, *bias; /* op, and parameters (@bias nullable) */
  LowerParallel parallel;
  guint64 m, n, k; /* of this rank */
  guint32 batch;   /* 1, or local experts */
  guint16 flags;   /* of the op */
} LowerGemm;
/* C = A · Bᵀ into @outs (one or several tensors that lie side by side in the columns). */
void lower_gemm (Lower *b, const LowerGemm *gemm, guint32 input, const guint32 *outs, guint n_outs);
/* A kernel that copies @x: the copy. */
guint32 lower_copy (Lower *b, guint32 x, const char *name);
/* Casts @x to the dtype of GEMMs where the layout quantizes, else returns @x. */
guint32 lower_quantize (Lower *b, guint32 x);
/* Row-parallel sum: all-reduce, or reduce-scatter with sequence parallelism. */
guint32 lower_reduce (Lower *b, guint32 partial, const char *name, guint64 columns, double sync);
/* @x + @branch, with dropout on the branch when the job has it. */
guint32 lower_residual (Lower *b, guint32 x, guint32 branch);
guint32 lower_dropout (Lower *b, guint32 x);
/* Activation, times the other half where gated. @split, @rows: of the MLP's inner tensors. */
guint32 lower_activate (Lower *b, guint32 gate, guint32 up, LowerSplit split, guint64 rows,
                        guint64 columns);
/* fc1, activation, fc2 and the sum over tp: dense MLPs and shared experts. */
typedef struct {
  const char *fc1, *fc1_weight, *fc1_bias, *fc2, *fc2_weight, *fc2_bias;
  guint64 ffn;
  double sync; /* share of the sum that is synchronized */
} LowerMlp;
guint32 lower_mlp (Lower *b, guint32 x, const LowerMlp *mlp);

/* model/lower_attention.c: the kernel, and what context parallelism exchanges around it. */
typedef struct {
  guint32 q, k, v;
  guint32 heads, kv_heads; /* of the whole model */
  guint32 dim_qk, dim_v;
  guint32 window;
} LowerAttention;
guint32 lower_attention_core (Lower *b, const LowerAttention *attention);
/* One value per pair of query and key of every head: [mbs, heads, seq, seq]. */
guint32 lower_scores (Lower *b, const char *name, ModelTensorRole role, ModelDtype dtype,
                      guint32 heads);
/* Backward of context parallelism's ring around the attention op @forward: see lower_backward.c */
guint32 lower_ring_exchange (Lower *b, const char *name, guint32 k, guint32 v);

guint32 lower_attention_gqa (Lower *b, guint32 normed); /* model/lower_dense.c */
guint32 lower_attention_mla (Lower *b, guint32 normed); /* model/lower_mla.c */
guint32 lower_moe (Lower *b, guint32 normed);           /* model/lower_moe.c */
guint32 lower_block (Lower *b, guint32 x);              /* model/lower_dense.c */
guint32 lower_embedding (Lower *b);                     /* model/lower_head.c */
guint32 lower_head (Lower *b, guint32 x);               /* model/lower_head.c */
guint64 lower_logits_count (const Lower *b);            /* of all tokens on this rank */

/* model/lower_recompute.c. Forward ops of rebuilt modules again, in phase RECOMPUTE. */
void lower_recompute (Lower *b);
/* Forward tensor @id as an op of @modules reads it after forward: the rebuilt copy or the kept
 * original. */
guint32 lower_view (const Lower *b, guint32 id, guint16 modules);
/* The same; a tensor that was gathered and is not kept is gathered again (writes an op). */
guint32 lower_need (Lower *b, guint32 id, guint16 modules);

/* model/lower_backward.c. Backward ops of all forward ops; grad[] of the output must be set, the
 * loss needs none. */
void lower_backward (Lower *b, guint n_forward);
G_END_DECLS
