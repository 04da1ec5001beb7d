/* model/lower_recompute.c - forward ops written again, and what backward reads of forward.
 *
 * A recomputed module's ops are repeated in phase RECOMPUTE with fresh tensors. Backward then reads
 * a rebuilt tensor or the original; an original that no one reads after forward is not kept. What
 * was gathered over a group is not kept either, but gathered again from its shard.
 */
#include "model/lower-private.h"

/* Modules whose output is dropped and rebuilt for whoever reads it in backward; the others are
 * checkpoints, rebuilt for their own backward only (reference: profiles, block B, mcore-26). */
#define DROPS_OUTPUT                                                                               \
  (MODEL_RECOMPUTE_LAYERNORM | MODEL_RECOMPUTE_MOE_ACT | MODEL_RECOMPUTE_MLA_UP_PROJ)

guint32
lower_view (const Lower *b, guint32 id, guint16 modules)
{
  guint32 producer = b->tensors[id].producer;
  if (producer == MODEL_TENSOR_NONE)
    return id;
  guint16 active = b->meta[producer].modules & b->rebuilt_modules;
  gboolean whole = b->rebuilt_modules == LOWER_ALL_MODULES;
  guint32 copy = b->rebuilt[id];
  if (copy != MODEL_TENSOR_NONE && (whole || active & DROPS_OUTPUT || active & modules))
    return copy;
  return id;
}

/* Gathers the outputs of forward op @index again, unless the op before did (keys and values come
 * together). Returns: the op that gathered. */
static const ModelOp *
gather_again (Lower *b, guint index, guint16 modules)
{
  ModelOp forward = b->ops[index];
  guint32 ins[MODEL_OP_MAX_IN];
  if (b->gathered_again == index && b->gathered_again_at == b->n_ops - 1)
    return lower_current (b);
  for (guint i = 0; i < forward.n_in; i++)
    ins[i] = lower_view (b, forward.in[i], modules);
  lower_begin_collective (b, forward.name, forward.collective, forward.group, forward.stream,
                          forward.message_bytes);
  lower_current (b)->flags |= MODEL_OP_REGATHER;
  for (guint i = 0; i < forward.n_in; i++)
    lower_in (b, ins[i]);
  for (guint i = 0; i < forward.n_out; i++)
    lower_out (b, lower_clone (b, forward.out[i]));
  lower_end (b);
  b->gathered_again = index;
  b->gathered_again_at = b->n_ops - 1;
  return lower_current (b);
}

guint32
lower_need (Lower *b, guint32 id, guint16 modules)
{
  guint32 producer = b->tensors[id].producer;
  if (producer == MODEL_TENSOR_NONE || !b->meta[producer].regather)
    return lower_view (b, id, modules);
  guint which = 0;
  while (b->ops[producer].out[which] != id)
    which++;
  return gather_again (b, producer, modules)->out[which];
}

/*
 * How many of the first outputs of forward op @op stay where the profile chooses ops: attention,
 * what was routed, exchanged or reduced, and every second GEMM, the first one included; gate and
 * up are two, the router's are never kept (reference: profiles, block B, titan).
 */
static guint
saved_outputs (const ModelOp *op, guint *n_gemms)
{
  if (op->kind == MODEL_OP_ATTENTION || op->kind == MODEL_OP_ROUTE)
    return op->n_out;
  if (op->kind == MODEL_OP_COLLECTIVE)
    return op->collective == MODEL_COLLECTIVE_REDUCE_SCATTER
                   || op->collective == MODEL_COLLECTIVE_ALL_TO_ALL
               ? op->n_out
               : 0;
  if (op->kind != MODEL_OP_GEMM || op->flags & MODEL_OP_ROUTER)
    return 0;
  guint before = *n_gemms;
  *n_gemms += op->n_out == 2 ? 2 : 1;
  if (op->n_out == 2)
    return 1; /* one of a pair is kept in any case, and both are of one size */
  return before % 2 == 0 ? op->n_out : 0;
}

/* Writes forward op @index again; its first @n_saved outputs are there already. */
static void
recompute_op (Lower *b, guint index, guint n_saved)
{
  ModelOp forward = b->ops[index];
  LowerMeta meta = b->meta[index];
  guint32 ins[MODEL_OP_MAX_IN];
  for (guint i = 0; i < forward.n_in; i++) {
    guint32 copy = b->rebuilt[forward.in[i]];
    ins[i] = copy != MODEL_TENSOR_NONE ? lower_view (b, forward.in[i], meta.modules)
                                       : lower_need (b, forward.in[i], meta.modules);
  }
  ModelOp *op = lower_begin (b, forward.kind, forward.name);
  guint8 phase = op->phase;
  *op = forward;
  op->phase = phase;
  op->n_in = op->n_out = 0;
  for (guint i = 0; i < forward.n_in; i++)
    lower_in (b, ins[i]);
  if (n_saved > 0)
    op->n = forward.n * (forward.n_out - n_saved) / forward.n_out;
  for (guint i = n_saved; i < forward.n_out; i++) {
    guint32 copy = lower_clone (b, forward.out[i]);
    b->rebuilt[forward.out[i]] = copy;
    lower_out (b, copy);
  }
}

/* Is a block rebuilt for itself, or also for the next of its group, which reads its output? */
static gboolean
stands_alone (const ModelRecompute *recompute)
{
  return recompute->method != MODEL_RECOMPUTE_UNIFORM || recompute->n <= 1;
}

/* Ops that have run when the last tensor which backward needs is there: what follows, the last GEMM
 * and the residual, need not run again. */
static guint
n_needed (const Lower *b)
{
  guint n = 0;
  for (guint i = 0; i < b->n_ops; i++)
    for (guint j = 0; j < b->meta[i].n_saved; j++) {
      guint32 producer = b->tensors[b->meta[i].saved[j]].producer;
      if (producer != MODEL_TENSOR_NONE)
        n = MAX (n, producer + 1);
    }
  return n;
}

void
lower_recompute (Lower *b)
{
  guint n_forward = b->n_ops;
  gboolean whole = b->rebuilt_modules == LOWER_ALL_MODULES;
  if (whole && b->profile->recompute_stops_early && stands_alone (&b->layout->recompute))
    n_forward = n_needed (b);
  b->phase = MODEL_PHASE_RECOMPUTE;
  guint n_gemms = 0;
  for (guint i = 0; b->rebuilt_modules != 0 && i < n_forward; i++) {
    guint n_saved = b->saves_ops ? saved_outputs (&b->ops[i], &n_gemms) : 0;
    if (n_saved > 0 && n_saved == b->ops[i].n_out)
      continue;
    if (whole || b->meta[i].modules & b->rebuilt_modules)
      recompute_op (b, i, n_saved);
  }
}
