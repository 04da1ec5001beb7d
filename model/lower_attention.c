/* model/lower_attention.c - the attention kernel and the exchanges of context parallelism.
 *
 * p2p: keys and values travel round the ring in cp − 1 rounds while queries stay; causal work is
 * evened out by zig-zag order. allgather: keys and values are gathered before the kernel. a2a:
 * heads are exchanged for sequence, so that each rank sees the whole sequence of heads/cp heads.
 */
#include "model/lower-private.h"

static guint64
bytes_of (const Lower *b, guint32 tensor)
{
  return b->tensors[tensor].local_bytes;
}

guint32
lower_ring_exchange (Lower *b, const char *name, guint32 k, guint32 v)
{
  guint64 block = bytes_of (b, k) + bytes_of (b, v);
  ModelTensor buffer = b->tensors[k];
  buffer.name = "cp_ring";
  buffer.role = MODEL_ROLE_SCRATCH;
  buffer.local_bytes = block; /* the block being received while another is in use */
  guint32 ring = lower_push_tensor (b, &buffer);
  lower_begin_collective (b, name, MODEL_COLLECTIVE_SEND_RECV, MODEL_GROUP_CP, MODEL_STREAM_CP,
                          (b->layout->cp - 1) * block);
  lower_in (b, k);
  lower_in (b, v);
  lower_out (b, ring);
  lower_end (b);
  return ring;
}

/* Keys and values of the whole sequence; backward gathers them again. */
static void
gather_kv (Lower *b, guint32 *k, guint32 *v)
{
  guint32 whole[2] = { *k, *v };
  guint64 bytes = 0;
  for (guint i = 0; i < 2; i++) {
    ModelTensor tensor = b->tensors[whole[i]];
    tensor.name = i == 0 ? "k_gathered" : "v_gathered";
    tensor.placement[MODEL_MESH_CP] = (ModelPlacement){ .kind = MODEL_PLACEMENT_REPLICATE };
    tensor.local_bytes = model_tensor_local_bytes (&tensor, b->mesh);
    whole[i] = lower_push_tensor (b, &tensor);
    bytes += tensor.local_bytes;
  }
  lower_begin_collective (b, "cp_kv", MODEL_COLLECTIVE_ALL_GATHER, MODEL_GROUP_CP, MODEL_STREAM_CP,
                          bytes);
  lower_in (b, *k);
  lower_in (b, *v);
  lower_out (b, whole[0]);
  lower_out (b, whole[1]);
  lower_current_meta (b)->regather = TRUE;
  lower_end (b);
  *k = whole[0];
  *v = whole[1];
}

/* Sequence-sharded to head-sharded, or back: the same bytes on every rank. */
static void
exchange_heads (Lower *b, const char *name, guint32 **tensors, guint n)
{
  guint32 outs[3];
  guint64 bytes = 0;
  for (guint i = 0; i < n; i++) {
    outs[i] = lower_clone (b, *tensors[i]);
    bytes += bytes_of (b, outs[i]);
  }
  lower_begin_collective (b, name, MODEL_COLLECTIVE_ALL_TO_ALL, MODEL_GROUP_CP, MODEL_STREAM_CP,
                          bytes);
  for (guint i = 0; i < n; i++) {
    lower_in (b, *tensors[i]);
    lower_out (b, outs[i]);
    *tensors[i] = outs[i];
  }
  lower_end (b);
}

static ModelAttentionShape
shape_of (const Lower *b, const LowerAttention *a)
{
  const ModelLayout *layout = b->layout;
  ModelAttentionShape shape = {
    .batch = layout->mbs,
    .heads = (guint32)model_shard_ceil (a->heads, layout->tp),
    .kv_heads = (guint32)model_shard_ceil (a->kv_heads, layout->tp),
    .dim_qk = a->dim_qk,
    .dim_v = a->dim_v,
    .seq_q = model_shard_ceil (b->job->seq, layout->cp),
    .seq_kv = b->job->seq,
    .window = a->window,
    .sinks = b->arch->attention.sinks,
    .causal = TRUE,
    .kernel = (guint8)layout->attn,
    .dropout = b->job->dropout > 0,
  };
  if (layout->cp > 1 && layout->cp_comm == MODEL_CP_A2A) {
    shape.heads = (guint32)model_shard_ceil (shape.heads, layout->cp);
    shape.kv_heads = (guint32)model_shard_ceil (shape.kv_heads, layout->cp);
    shape.seq_q = b->job->seq;
  }
  return shape;
}

guint32
lower_scores (Lower *b, const char *name, ModelTensorRole role, ModelDtype dtype, guint32 heads)
{
  ModelTensor tensor = { .name = name,
                         .role = (guint8)role,
                         .dtype = (guint8)dtype,
                         .n_dims = 4,
                         .shape = { b->layout->mbs, heads, b->job->seq, b->job->seq } };
  gboolean by_heads = b->layout->cp_comm == MODEL_CP_A2A;
  tensor.placement[MODEL_MESH_TP] = (ModelPlacement){ .kind = MODEL_PLACEMENT_SHARD, .dim = 1 };
  tensor.placement[MODEL_MESH_CP]
      = (ModelPlacement){ .kind = MODEL_PLACEMENT_SHARD, .dim = by_heads ? 1 : 2 };
  tensor.local_bytes = model_tensor_local_bytes (&tensor, b->mesh);
  return lower_push_tensor (b, &tensor);
}

/*
 * What the kernel keeps beside q, k, v and its output. Flash and fused kernels: the logarithm of
 * the softmax' sum, fp32, one per query and head. Unfused: softmax output (16-bit), and with
 * dropout its mask (1 B) and the dropped-out copy (16-bit): the 5as/h of Korthikanti et al. 2022.
 * The scores themselves are read by the softmax and go.
 */
static void
write_statistics (Lower *b, const LowerAttention *a)
{
  if (b->layout->attn != MODEL_ATTN_UNFUSED) {
    guint32 lse = lower_tensor (b, "softmax_lse", MODEL_ROLE_STATISTIC, MODEL_DTYPE_FP32,
                                LOWER_COLUMN, b->tokens, a->heads);
    lower_out (b, lse);
    lower_save (b, lse);
    return;
  }
  guint32 kept[3] = { lower_scores (b, "softmax", MODEL_ROLE_ACTIVATION, b->store, a->heads),
                      MODEL_TENSOR_NONE, MODEL_TENSOR_NONE };
  if (b->job->dropout > 0) {
    kept[1] = lower_scores (b, "softmax_mask", MODEL_ROLE_MASK, MODEL_DTYPE_UINT8, a->heads);
    kept[2] = lower_scores (b, "softmax_dropped", MODEL_ROLE_ACTIVATION, b->store, a->heads);
  }
  for (guint i = 0; i < G_N_ELEMENTS (kept); i++) {
    lower_out (b, kept[i]);
    lower_save (b, kept[i]);
  }
  lower_out (b, lower_scores (b, "scores", MODEL_ROLE_SCRATCH, b->store, a->heads));
}

/* Unfused kernels stream the scores through memory: 12 B per score forward (reference: time model,
 * section 3, item 2), half read and half written. */
static void
count_score_bytes (ModelOp *op)
{
  const ModelAttentionShape *shape = &op->attention;
  guint64 scores = (guint64)shape->batch * shape->heads * shape->seq_q * shape->seq_kv;
  if (shape->kernel == MODEL_ATTN_UNFUSED)
    op->read_bytes = op->write_bytes = 6 * scores;
}

guint32
lower_attention_core (Lower *b, const LowerAttention *attention)
{
  LowerAttention a = *attention;
  ModelCpComm comm = b->layout->cp_comm;
  gboolean cp = b->layout->cp > 1;
  guint32 ring = MODEL_TENSOR_NONE;
  guint16 modules = b->modules;
  b->modules |= MODEL_RECOMPUTE_CORE_ATTN;
  if (cp && comm == MODEL_CP_P2P)
    ring = lower_ring_exchange (b, "cp_ring_kv", a.k, a.v);
  else if (cp && comm == MODEL_CP_ALLGATHER)
    gather_kv (b, &a.k, &a.v);
  else if (cp)
    exchange_heads (b, "cp_all_to_all_qkv", (guint32 *[]){ &a.q, &a.k, &a.v }, 3);
  guint32 out = lower_activation (b, "attention_out", LOWER_COLUMN, (guint64)a.heads * a.dim_v);
  ModelOp *op = lower_begin (b, MODEL_OP_ATTENTION, "core_attention");
  op->attention = shape_of (b, &a);
  count_score_bytes (op);
  lower_in (b, a.q);
  lower_in (b, a.k);
  lower_in (b, a.v);
  lower_in (b, ring);
  lower_in (b, lower_weight (b, "core_attention.sinks"));
  lower_out (b, out);
  lower_save (b, a.q);
  lower_save (b, a.k);
  lower_save (b, a.v);
  if (b->layout->attn != MODEL_ATTN_UNFUSED)
    lower_save (b, out);
  write_statistics (b, &a);
  lower_end (b);
  if (cp && comm == MODEL_CP_A2A)
    exchange_heads (b, "cp_all_to_all_out", (guint32 *[]){ &out }, 1);
  b->modules = modules;
  return out;
}
