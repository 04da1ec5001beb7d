/* model/lower_backward.c - backward, derived from the forward ops.
 *
 * Backward walks the forward ops from the last to the first. An op takes the gradients of its
 * outputs and what its kernel saved, and gives gradients of its inputs; a tensor that two ops read
 * gets the sum of two gradients (an ADD). GEMMs give an input and a weight gradient; the weight
 * gradient is written after the collective that follows the input gradient, so that it can run
 * beside it, as Megatron orders them.
 */
#include "model/lower-private.h"

/* Weight gradient that waits until the collective of the input gradient is written. */
typedef struct {
  gboolean waits;
  guint op;      /* forward GEMM */
  guint32 input; /* its input as backward sees it */
  guint32 grads[MODEL_OP_MAX_OUT];
  guint n_grads;
} PendingWeightGrad;

static gboolean
is_differentiable (const ModelTensor *tensor)
{
  return (tensor->role == MODEL_ROLE_ACTIVATION && tensor->dtype != MODEL_DTYPE_INT64)
         || tensor->role == MODEL_ROLE_LOGITS;
}

/* A new tensor for the gradient of @id: its shape, in the storage dtype where @id is narrower. */
static guint32
new_grad (Lower *b, guint32 id)
{
  ModelTensor grad = b->tensors[id];
  if (grad.role != MODEL_ROLE_LOGITS) {
    grad.role = MODEL_ROLE_ACTIVATION_GRAD;
    grad.name = "grad";
  }
  if (model_dtype_bits ((ModelDtype)grad.dtype) < model_dtype_bits (b->store)) {
    grad.dtype = (guint8)b->store;
    grad.local_bytes = model_tensor_local_bytes (&grad, b->mesh);
  }
  return lower_push_tensor (b, &grad);
}

static guint32
new_weight_grad (Lower *b, guint32 weight)
{
  ModelTensor grad = b->tensors[weight];
  gboolean wide = model_profile_states (b->profile, b->layout->dtype).main_grad_bytes >= 4;
  grad.role = MODEL_ROLE_WEIGHT_GRAD;
  grad.dtype = wide ? MODEL_DTYPE_FP32 : (guint8)b->store;
  grad.local_bytes = model_tensor_local_bytes (&grad, b->mesh);
  return lower_push_tensor (b, &grad);
}

static void
contribute (Lower *b, guint32 id, guint32 grad)
{
  guint32 before = b->grad[id];
  if (before == MODEL_TENSOR_NONE) {
    b->grad[id] = grad;
    return;
  }
  guint32 sum = new_grad (b, id);
  lower_begin (b, MODEL_OP_ADD, "grad_add");
  lower_in (b, before);
  lower_in (b, grad);
  lower_out (b, sum);
  lower_end (b);
  b->grad[id] = sum;
}

/* Gradients of the outputs of @op that have one. */
static guint
output_grads (const Lower *b, const ModelOp *op, guint32 *out)
{
  guint n = 0;
  for (guint i = 0; i < op->n_out; i++)
    if (b->grad[op->out[i]] != MODEL_TENSOR_NONE)
      out[n++] = b->grad[op->out[i]];
  return n;
}

/* One projection whose outputs were taken apart as views (q, k, v; gate and up): their gradients are
 * put together. */
static void
join_grads (Lower *b, guint32 *grads, guint n)
{
  if (n < 2 || !b->profile->joins_grads)
    return;
  for (guint i = 0; i < n; i++)
    grads[i] = lower_copy (b, grads[i], "join");
}

/* Gradients as the GEMMs of backward read them: cast where the forward GEMM was. */
static void
quantize_grads (Lower *b, const ModelOp *forward, guint32 *grads, guint n)
{
  if (model_dtype_bits ((ModelDtype)forward->dtype) >= model_dtype_bits (b->store))
    return;
  for (guint i = 0; i < n; i++)
    grads[i] = lower_quantize (b, grads[i]);
}

/* A row-parallel bias is added to this rank's part of the sequence, where that is split: its
 * gradient reads 1/tp of what others read, and is left out. */
static gboolean
sums_bias_grad_apart (const Lower *b, guint forward_index, gboolean has_bias)
{
  gboolean is_small = b->gathers && b->meta[forward_index].parallel == LOWER_ROW_PARALLEL;
  return has_bias && !is_small && !b->profile->fused_bias_grad;
}

static void
write_weight_grad (Lower *b, PendingWeightGrad *pending)
{
  if (!pending->waits)
    return;
  pending->waits = FALSE;
  ModelOp forward = b->ops[pending->op];
  guint32 outs[2];
  guint n_outs = 0;
  for (guint i = 1; i < forward.n_in; i++)
    outs[n_outs++] = new_weight_grad (b, forward.in[i]);
  b->phase = MODEL_PHASE_BACKWARD_WEIGHT;
  ModelOp *op = lower_begin (b, MODEL_OP_GEMM, forward.name);
  op->m = forward.n; /* [out, in] = gradientᵀ [out, tokens] · input [tokens, in] */
  op->n = forward.k;
  op->k = forward.m;
  op->batch = forward.batch;
  op->dtype = forward.dtype;
  op->flags = forward.flags;
  ModelStates states = model_profile_states (b->profile, b->layout->dtype);
  if (states.main_grad_bytes >= 4)
    op->flags |= states.grad_bytes > 0 ? MODEL_OP_ACCUMULATE_APART : MODEL_OP_ACCUMULATE;
  if (sums_bias_grad_apart (b, pending->op, n_outs > 1))
    op->flags |= MODEL_OP_BIAS_GRAD_APART;
  for (guint i = 0; i < pending->n_grads; i++)
    lower_in (b, pending->grads[i]);
  lower_in (b, pending->input);
  for (guint i = 0; i < n_outs; i++)
    lower_out (b, outs[i]);
  lower_end (b);
  b->phase = MODEL_PHASE_BACKWARD_INPUT;
}

/* Without sequence parallelism the input gradients of a column-parallel layer are summed here; with
 * it, the mirror of the forward gather does it. */
static guint32
reduce_column_grad (Lower *b, const ModelOp *forward, guint16 modules, guint32 grad)
{
  guint64 bytes = b->tensors[grad].local_bytes;
  if (!b->reduces)
    return grad;
  gboolean whole = forward->flags & MODEL_OP_HEAD || modules & MODEL_RECOMPUTE_SHARED_EXPERTS;
  if (!whole && b->layout->tp_sync < 1)
    bytes = bytes / forward->k * (guint64)((double)forward->k * b->layout->tp_sync);
  guint32 sum = lower_clone (b, grad);
  lower_begin_collective (b, "tp_input", MODEL_COLLECTIVE_ALL_REDUCE, MODEL_GROUP_TP,
                          MODEL_STREAM_TP, bytes);
  lower_in (b, grad);
  lower_out (b, sum);
  lower_end (b);
  return sum;
}

static void
backward_gemm (Lower *b, guint index, PendingWeightGrad *pending)
{
  ModelOp forward = b->ops[index];
  LowerMeta meta = b->meta[index];
  pending->n_grads = output_grads (b, &forward, pending->grads);
  join_grads (b, pending->grads, pending->n_grads);
  quantize_grads (b, &forward, pending->grads, pending->n_grads);
  pending->input = lower_need (b, meta.saved[0], meta.modules);
  pending->op = index;
  pending->waits = TRUE;
  guint32 grad = new_grad (b, forward.in[0]);
  ModelOp *op = lower_begin (b, MODEL_OP_GEMM, forward.name);
  op->m = forward.m;
  op->n = forward.k;
  op->k = forward.n;
  op->batch = forward.batch;
  op->dtype = forward.dtype;
  op->flags = forward.flags;
  for (guint i = 0; i < pending->n_grads; i++)
    lower_in (b, pending->grads[i]);
  lower_in (b, forward.in[1]);
  lower_out (b, grad);
  lower_end (b);
  if (meta.parallel == LOWER_COLUMN_PARALLEL)
    grad = reduce_column_grad (b, &forward, meta.modules, grad);
  contribute (b, forward.in[0], grad);
}

static ModelCollectiveKind
mirror (ModelCollectiveKind kind)
{
  switch (kind) {
  case MODEL_COLLECTIVE_ALL_GATHER:
    return MODEL_COLLECTIVE_REDUCE_SCATTER;
  case MODEL_COLLECTIVE_REDUCE_SCATTER:
    return MODEL_COLLECTIVE_ALL_GATHER;
  default:
    return kind;
  }
}

/* Gather ↔ reduce-scatter, all-to-all both ways. The sum of an all-reduce hands its gradient on. */
static void
backward_collective (Lower *b, guint index)
{
  ModelOp forward = b->ops[index];
  guint32 grads[MODEL_OP_MAX_OUT], outs[MODEL_OP_MAX_IN];
  guint n = output_grads (b, &forward, grads);
  if (forward.collective == MODEL_COLLECTIVE_ALL_REDUCE) {
    contribute (b, forward.in[0], grads[0]);
    return;
  }
  guint64 bytes = forward.message_bytes;
  if (model_dtype_bits ((ModelDtype)b->tensors[forward.out[0]].dtype)
      < model_dtype_bits (b->store)) /* gathered in 8 bits, gradients summed in 16 */
    bytes = bytes * model_dtype_bits (b->store)
            / model_dtype_bits ((ModelDtype)b->tensors[forward.out[0]].dtype);
  for (guint i = 0; i < forward.n_in; i++)
    outs[i] = new_grad (b, forward.in[i]);
  lower_begin_collective (b, forward.name, mirror (forward.collective), forward.group,
                          forward.stream, bytes);
  for (guint i = 0; i < n; i++)
    lower_in (b, grads[i]);
  for (guint i = 0; i < forward.n_in; i++)
    lower_out (b, outs[i]);
  lower_end (b);
  for (guint i = 0; i < forward.n_in; i++)
    contribute (b, forward.in[i], outs[i]);
}

/* Bytes of kernels whose traffic is not their operands'. */
static void
count_backward_bytes (Lower *b, const ModelOp *forward)
{
  ModelOp *op = lower_current (b);
  if (op->kind == MODEL_OP_ATTENTION && op->attention.kernel == MODEL_ATTN_UNFUSED) {
    const ModelAttentionShape *shape = &op->attention;
    guint64 scores = (guint64)shape->batch * shape->heads * shape->seq_q * shape->seq_kv;
    op->read_bytes = op->write_bytes = 8 * scores; /* 16 B per score (time model, 3.2) */
  }
  if (op->kind == MODEL_OP_CROSS_ENTROPY) { /* all tokens, whatever piece of them is held at once */
    guint64 count = lower_logits_count (b);
    op->read_bytes = (guint64)(b->profile->logits_kept_bytes * (double)count);
    op->write_bytes = count * b->element_bytes;
  }
  if (op->kind == MODEL_OP_ROPE) {
    guint64 bytes = 0;
    for (guint i = 0; i < forward->n_in; i++)
      bytes += b->tensors[forward->in[i]].local_bytes;
    op->read_bytes = 2 * bytes; /* 6 B per element: the rotated gradient is also copied into the */
    op->write_bytes = bytes;    /* joint gradient of q, k and v (time model, 3.7) */
  }
}

/* Operands of a backward kernel. */
typedef struct {
  guint32 ins[MODEL_OP_MAX_IN], outs[MODEL_OP_MAX_IN]; /* forward inputs, and their gradients */
  guint32 weights[MODEL_OP_MAX_IN], weight_grads[MODEL_OP_MAX_IN];
  guint n_ins, n_weights;
} KernelOperands;

static void
new_operand_grads (Lower *b, const ModelOp *forward, KernelOperands *operands)
{
  *operands = (KernelOperands){ .n_ins = 0 };
  for (guint i = 0; i < forward->n_in; i++) {
    guint32 id = forward->in[i];
    if (b->tensors[id].role == MODEL_ROLE_WEIGHT) {
      operands->weights[operands->n_weights] = id;
      operands->weight_grads[operands->n_weights++] = new_weight_grad (b, id);
    } else if (is_differentiable (&b->tensors[id])) {
      operands->ins[operands->n_ins] = id;
      operands->outs[operands->n_ins++] = new_grad (b, id);
    }
  }
}

/* Unfused: the gradient of what dropout left is a tensor of its own; that of the softmax' output
 * becomes the scores' in place, as in the fused softmax kernels of apex, Megatron-LM and TE. */
static void
add_score_grads (Lower *b, const ModelOp *forward)
{
  if (forward->kind != MODEL_OP_ATTENTION || forward->attention.kernel != MODEL_ATTN_UNFUSED)
    return;
  for (guint i = 0; i < (forward->attention.dropout ? 2 : 1); i++)
    lower_out (b, lower_scores (b, "scores_grad", MODEL_ROLE_SCRATCH, b->store,
                                b->arch->attention.heads));
}

/* One kernel that reads gradients, what forward saved, and weights. */
static void
backward_kernel (Lower *b, guint index)
{
  ModelOp forward = b->ops[index];
  LowerMeta meta = b->meta[index];
  guint32 grads[MODEL_OP_MAX_OUT], saved[LOWER_MAX_SAVED];
  guint n_grads = output_grads (b, &forward, grads);
  KernelOperands operands;
  for (guint i = 0; i < meta.n_saved; i++)
    saved[i] = lower_need (b, meta.saved[i], meta.modules);
  new_operand_grads (b, &forward, &operands);
  ModelOp *op = lower_begin (b, forward.kind, forward.name);
  op->attention = forward.attention;
  op->dtype = forward.dtype;
  if (operands.n_ins == 0)
    op->phase = MODEL_PHASE_BACKWARD_WEIGHT;
  for (guint i = 0; i < n_grads; i++)
    lower_in (b, grads[i]);
  for (guint i = 0; i < meta.n_saved; i++)
    lower_in (b, saved[i]);
  for (guint i = 0; i < operands.n_weights; i++)
    lower_in (b, operands.weights[i]);
  for (guint i = 0; i < operands.n_ins; i++)
    lower_out (b, operands.outs[i]);
  for (guint i = 0; i < operands.n_weights; i++)
    lower_out (b, operands.weight_grads[i]);
  add_score_grads (b, &forward);
  count_backward_bytes (b, &forward);
  lower_end (b);
  for (guint i = 0; i < operands.n_ins; i++)
    contribute (b, operands.ins[i], operands.outs[i]);
}

/* Ring attention: keys and values go round again, and their gradients with them. */
static void
backward_attention (Lower *b, guint index)
{
  ModelOp forward = b->ops[index];
  guint16 modules = b->meta[index].modules;
  gboolean ring = b->layout->cp > 1 && b->layout->cp_comm == MODEL_CP_P2P;
  guint32 k = forward.in[1], v = forward.in[2], buffer = MODEL_TENSOR_NONE;
  if (ring)
    buffer = lower_ring_exchange (b, "cp_ring_kv", lower_view (b, k, modules),
                                  lower_view (b, v, modules));
  if (buffer != MODEL_TENSOR_NONE) {
    LowerMeta *meta = &b->meta[index];
    meta->saved[meta->n_saved++] = buffer;
  }
  backward_kernel (b, index);
  if (!ring)
    return;
  guint32 sums[2] = { new_grad (b, k), new_grad (b, v) };
  guint64 block = b->tensors[sums[0]].local_bytes + b->tensors[sums[1]].local_bytes;
  lower_begin_collective (b, "cp_ring_dkv", MODEL_COLLECTIVE_SEND_RECV, MODEL_GROUP_CP,
                          MODEL_STREAM_CP, (b->layout->cp - 1) * block);
  lower_in (b, b->grad[k]);
  lower_in (b, b->grad[v]);
  lower_out (b, sums[0]);
  lower_out (b, sums[1]);
  lower_end (b);
  b->grad[k] = sums[0];
  b->grad[v] = sums[1];
}

/* Sums hand their gradient to every summand; so does a cast. */
static void
backward_add (Lower *b, guint index)
{
  ModelOp forward = b->ops[index];
  guint32 grad = b->grad[forward.out[0]];
  for (guint i = forward.n_in; i-- > 0;)
    if (is_differentiable (&b->tensors[forward.in[i]]))
      contribute (b, forward.in[i], grad);
}

/* Dropout on a branch that is then added: the branch goes through the mask, the residual as is. */
static void
backward_dropout (Lower *b, guint index)
{
  ModelOp forward = b->ops[index];
  guint32 grad = b->grad[forward.out[0]];
  guint32 mask = lower_need (b, b->meta[index].saved[0], b->meta[index].modules);
  guint32 masked = new_grad (b, forward.in[0]);
  lower_begin (b, MODEL_OP_DROPOUT, "dropout");
  lower_in (b, grad);
  lower_in (b, mask);
  lower_out (b, masked);
  lower_end (b);
  contribute (b, forward.in[0], masked);
  if (forward.n_in > 1)
    contribute (b, forward.in[1], grad);
}

/* A cast that widens or copies (repeated heads) is a kernel in backward too; quantization is not. */
static void
backward_cast (Lower *b, guint index)
{
  const ModelOp *forward = &b->ops[index];
  if (b->tensors[forward->out[0]].dtype != b->tensors[forward->in[0]].dtype)
    backward_add (b, index);
  else
    backward_kernel (b, index);
}

static void
backward_op (Lower *b, guint index, PendingWeightGrad *pending)
{
  switch (b->ops[index].kind) {
  case MODEL_OP_GEMM:
    backward_gemm (b, index, pending);
    break;
  case MODEL_OP_COLLECTIVE:
    backward_collective (b, index);
    break;
  case MODEL_OP_ATTENTION:
    backward_attention (b, index);
    break;
  case MODEL_OP_ADD:
    backward_add (b, index);
    break;
  case MODEL_OP_DROPOUT:
    backward_dropout (b, index);
    break;
  case MODEL_OP_CAST:
    backward_cast (b, index);
    break;
  default:
    backward_kernel (b, index);
    break;
  }
}

void
lower_backward (Lower *b, guint n_forward)
{
  PendingWeightGrad pending = { .waits = FALSE };
  b->phase = MODEL_PHASE_BACKWARD_INPUT;
  for (guint i = n_forward; i-- > 0;) {
    guint32 ignored[MODEL_OP_MAX_OUT];
    ModelOp op = b->ops[i];
    gboolean is_tp = op.kind == MODEL_OP_COLLECTIVE && op.group == MODEL_GROUP_TP;
    if (!is_tp)
      write_weight_grad (b, &pending);
    if (op.kind != MODEL_OP_CROSS_ENTROPY && output_grads (b, &op, ignored) == 0)
      continue;
    backward_op (b, i, &pending);
  }
  write_weight_grad (b, &pending);
}
