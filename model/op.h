/* model/op.h - one operation of a program: a semantic kind with the shapes that decide its cost.
 *
 * All sizes are those of one rank. FLOPs and HBM bytes are functions of the kind (op.c); what a
 * kind takes on a real GPU is the cost model's matter, how it is done the executor's.
 */
#pragma once
#include "model/dtype.h"
#include "model/rankmap.h"
#include <glib.h>
G_BEGIN_DECLS

typedef enum {
  MODEL_OP_EMBED, /* gather rows of a table; backward-weight: scatter-add */
  MODEL_OP_NORM,
  MODEL_OP_GEMM, /* C[m,n] (+)= A[m,k] · B[k,n], batch times (grouped experts) */
  MODEL_OP_ROPE,
  MODEL_OP_ATTENTION,
  MODEL_OP_ACT_MUL, /* activation, and the product with the gate where gated */
  MODEL_OP_ADD,     /* residual */
  MODEL_OP_DROPOUT,
  MODEL_OP_CROSS_ENTROPY,
  MODEL_OP_ROUTE,    /* softmax + top-k over expert scores */
  MODEL_OP_DISPATCH, /* permute tokens into expert order (the exchange is a COLLECTIVE) */
  MODEL_OP_COMBINE,  /* un-permute and weighted sum */
  MODEL_OP_ADAM,
  MODEL_OP_CAST, /* dtype conversion, quantization, copies */
  MODEL_OP_COLLECTIVE,
  MODEL_OP_SEND,
  MODEL_OP_RECV,
  MODEL_OP_N_KINDS
} ModelOpKind;
const char *model_op_kind_name (ModelOpKind kind);

typedef enum {
  MODEL_PHASE_FORWARD,
  MODEL_PHASE_RECOMPUTE, /* forward again, at the start of backward */
  MODEL_PHASE_BACKWARD_INPUT,
  MODEL_PHASE_BACKWARD_WEIGHT,
  MODEL_PHASE_TAIL, /* once per step */
  MODEL_PHASE_N_KINDS
} ModelOpPhase;

typedef enum {
  MODEL_STREAM_COMPUTE,
  MODEL_STREAM_TP,
  MODEL_STREAM_CP,
  MODEL_STREAM_EP,
  MODEL_STREAM_PP,
  MODEL_STREAM_DP,
  MODEL_STREAM_N_KINDS
} ModelStream;

typedef enum {
  MODEL_COLLECTIVE_ALL_REDUCE,
  MODEL_COLLECTIVE_ALL_GATHER,
  MODEL_COLLECTIVE_REDUCE_SCATTER,
  MODEL_COLLECTIVE_ALL_TO_ALL,
  MODEL_COLLECTIVE_BROADCAST,
  MODEL_COLLECTIVE_REDUCE,
  MODEL_COLLECTIVE_SEND_RECV, /* ring exchange with both neighbours (context parallel p2p) */
  MODEL_COLLECTIVE_N_KINDS
} ModelCollectiveKind;
const char *model_collective_name (ModelCollectiveKind kind); /* "all_reduce", … */
extern const char *const model_collective_names[];            /* the same, NULL-terminated */

/* Shape of an ATTENTION op on one rank. */
typedef struct {
  guint32 batch;           /* sequences */
  guint32 heads, kv_heads; /* local */
  guint32 dim_qk, dim_v;
  guint64 seq_q;  /* local queries per sequence (seq / cp) */
  guint64 seq_kv; /* keys those queries see before the mask (full sequence) */
  guint64 window; /* 0: full */
  guint8 causal;
  guint8 kernel;  /* ModelAttnKernel */
  guint8 dropout; /* a mask is made (unfused) */
  guint8 sinks;   /* one learned logit per head beside the keys (gpt-oss) */
} ModelAttentionShape;

enum {
  MODEL_OP_REGATHER = 1 << 0,    /* backward gathers again what forward already gathered (Megatron
                                   sequence parallel keeps the sharded input) */
  MODEL_OP_ACCUMULATE = 1 << 1,  /* GEMM adds into an fp32 buffer */
  MODEL_OP_HEAD = 1 << 2,        /* GEMM of the output head: 16-bit whatever the layout's dtype */
  MODEL_OP_GROUPED = 1 << 3,     /* batch = local experts, as one kernel or a loop (profile) */
  MODEL_OP_ROUTER = 1 << 4,      /* fp32 router GEMM */
  MODEL_OP_UNQUANTIZED = 1 << 5, /* GEMM that stays in the storage dtype whatever the layout's */
  MODEL_OP_ACCUMULATE_APART = 1 << 6, /* what the GEMM makes in the storage dtype, a kernel of its
                                         own adds to an fp32 buffer: 10 bytes an element */
  MODEL_OP_BIAS_GRAD_APART = 1 << 7,  /* a kernel of its own sums the output's gradient over tokens
                                         beside this weight gradient */
};

#define MODEL_OP_MAX_IN  10
#define MODEL_OP_MAX_OUT 6

typedef struct {
  guint8 kind;       /* ModelOpKind */
  guint8 phase;      /* ModelOpPhase */
  guint8 stream;     /* ModelStream */
  guint8 dtype;      /* ModelDtype the op computes in */
  guint8 group;      /* ModelGroupKind, COLLECTIVE SEND RECV only */
  guint8 collective; /* ModelCollectiveKind, COLLECTIVE only */
  guint16 flags;
  guint8 n_in, n_out;
  guint32 in[MODEL_OP_MAX_IN]; /* tensor ids */
  guint32 out[MODEL_OP_MAX_OUT];
  const char *name; /* static: "linear_qkv", "core_attention", … */
  /* GEMM */
  guint64 m, n, k;
  guint32 batch;
  ModelAttentionShape attention;
  /* memory-bound kinds: bytes over HBM */
  guint64 read_bytes, write_bytes;
  /* COLLECTIVE, SEND, RECV: size as nccl-tests counts it: the full buffer of an all-gather or
   * reduce-scatter, the vector of an all-reduce, what one rank holds for all-to-all; for SEND and
   * RECV the message; for SEND_RECV what goes to the next neighbour over all rounds */
  guint64 message_bytes;
} ModelOp;

/* Of either gradient; what is rebuilt for them is not. */
static inline gboolean
model_op_is_backward (const ModelOp *op)
{
  return op->phase == MODEL_PHASE_BACKWARD_INPUT || op->phase == MODEL_PHASE_BACKWARD_WEIGHT;
}

/* Floating-point operations: GEMM 2·m·n·k·batch; attention with causal mask and window counted
 * exactly to first order (half of the square), backward 2.5 × forward for kernels that rebuild the
 * scores, 2 × for unfused; others 0. */
double model_op_flop (const ModelOp *op);
/* The part of model_op_flop that counts for MFU: attention backward at 2 × forward whatever the
 * kernel (what a flash kernel rebuilds is recompute), and nothing for the phase RECOMPUTE. */
double model_op_model_flop (const ModelOp *op);
/* Bytes over HBM if every operand is read and every result written once. */
double model_op_hbm_bytes (const ModelOp *op);
/* Of them those of MODEL_OP_ACCUMULATE_APART's kernel: reads the product and the buffer, writes
 * the buffer. */
double model_op_addition_bytes (const ModelOp *op);
/* Of them those of MODEL_OP_BIAS_GRAD_APART's kernel: reads the output's gradient. */
double model_op_bias_grad_bytes (const ModelOp *op);
/* Query-key pairs of one head and sequence that the mask lets through, to first order: s²/2 causal,
 * s·w − w²/2 with a window of w < s; s·w without a mask. */
double model_attention_pairs (guint64 seq, guint64 window, gboolean causal);
/* Forward FLOPs of an attention shape (both GEMMs), causal halved. */
double model_attention_flop (const ModelAttentionShape *shape);

G_END_DECLS
