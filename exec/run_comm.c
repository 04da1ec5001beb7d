/* exec/run_comm.c - collectives, messages between stages, and the tail of the step. */
#include "exec/runner.h"

#include <string.h>

/* The injected fault strikes once per step. */
static gboolean
strikes (ExecRunner *r, ExecInject inject)
{
  if (r->inject != inject || r->skipped)
    return FALSE;
  r->skipped = TRUE;
  return TRUE;
}

static guint64
local_count (const ExecRunner *r, guint32 id)
{
  return r->rank->program->tensors[id].local_bytes / r->rank->element_bytes;
}

static void *
shifted (const ExecRunner *r, void *tensor, guint64 elements)
{
  return (char *)tensor + elements * r->rank->element_bytes;
}

static gboolean
sum (ExecRunner *r, const ModelOp *op, guint32 mb, GError **error)
{
  void *to = exec_run_tensor (r, op->out[0], mb);
  guint64 count = local_count (r, op->out[0]);
  r->elements->copy (to, exec_run_tensor (r, op->in[0], mb), count);
  return strikes (r, EXEC_INJECT_SKIP_ALLREDUCE)
         || r->elements->comm->all_reduce (op->group, EXEC_REDUCE_SUM, to, count, error);
}

static gboolean
gather (ExecRunner *r, const ModelOp *op, guint32 mb, GError **error)
{
  void *to = exec_run_tensor (r, op->out[0], mb), *from = exec_run_tensor (r, op->in[0], mb);
  guint64 count = local_count (r, op->in[0]);
  if (r->rank->layout->zero == 0 && strikes (r, EXEC_INJECT_STALE_GATHER)) {
    r->elements->copy (shifted (r, to, r->rank->at.tp * count), from, count);
    return TRUE;
  }
  return r->elements->comm->all_gather (op->group, from, to, count, error);
}

static gboolean
scatter (ExecRunner *r, const ModelOp *op, guint32 mb, GError **error)
{
  void *to = exec_run_tensor (r, op->out[0], mb), *from = exec_run_tensor (r, op->in[0], mb);
  guint64 count = local_count (r, op->out[0]);
  if (strikes (r, EXEC_INJECT_SKIP_ALLREDUCE)) {
    r->elements->copy (to, shifted (r, from, r->rank->at.tp * count), count);
    return TRUE;
  }
  return r->elements->comm->reduce_scatter (op->group, from, to, count, error);
}

gboolean
exec_run_collective (ExecRunner *r, const ModelOp *op, guint32 microbatch, GError **error)
{
  r->moved_bytes += op->message_bytes;
  if (g_str_has_prefix (op->name, "loss_"))
    return exec_run_loss_exchange (r, op, microbatch, error);
  if (op->collective == MODEL_COLLECTIVE_ALL_REDUCE)
    return sum (r, op, microbatch, error);
  if (op->collective == MODEL_COLLECTIVE_ALL_GATHER)
    return gather (r, op, microbatch, error);
  return scatter (r, op, microbatch, error);
}

/* Rank @by stages further on in the same pipeline; the last stage's neighbour is the first. */
static guint32
neighbour (const ExecRank *rank, gint by)
{
  ModelRankCoordinates at = rank->at;
  at.pp = (at.pp + rank->map.pp + (guint32)by) % rank->map.pp;
  return model_rankmap_rank (&rank->map, at);
}

gboolean
exec_run_message (ExecRunner *r, const ModelOp *op, const ModelChunk *chunk, guint32 microbatch,
                  GError **error)
{
  const ExecComm *comm = r->elements->comm;
  gboolean forward = op->phase == MODEL_PHASE_FORWARD, sends = op->kind == MODEL_OP_SEND;
  guint32 stage = sends ? (forward ? chunk->stage + 1 : chunk->stage - 1) : chunk->stage;
  guint32 stages = r->rank->layout->pp * r->rank->layout->vpp;
  guint32 tag = (microbatch * stages + stage) * 2 + (forward ? 0 : 1);
  guint64 count = op->message_bytes / r->rank->element_bytes;
  if (!sends)
    return comm->receive (neighbour (r->rank, forward ? -1 : 1), tag,
                          exec_run_tensor (r, op->out[0], microbatch), count, error);
  guint side = forward ? 0 : 1;
  guint slot = side * r->rank->n_slots + (guint)(r->sent[side]++ % r->rank->n_slots);
  float *buffer = exec_at (r, r->memory.messages + slot * r->memory.message_bytes);
  if (!comm->wait (slot, error))
    return FALSE;
  r->moved_bytes += op->message_bytes;
  r->elements->copy (buffer, exec_run_tensor (r, op->in[0], microbatch), count);
  return comm->send (neighbour (r->rank, forward ? 1 : -1), tag, buffer, count, slot, error);
}

static gboolean
reduce_gradients (ExecRunner *r, const ModelOp *op, GError **error)
{
  const ExecRank *rank = r->rank;
  float *gradients = exec_gradients (r);
  gboolean skip = strikes (r, EXEC_INJECT_SKIP_ALLREDUCE);
  if (rank->layout->zero == 0) {
    if (!skip
        && !r->backend->comm->all_reduce (op->group, EXEC_REDUCE_SUM, gradients, rank->flat_count,
                                          error))
      return FALSE;
  } else if (!skip) {
    if (!r->backend->comm->reduce_scatter (op->group, gradients, gradients, rank->shard_count,
                                           error))
      return FALSE;
    r->backend->copy (gradients + rank->shard_first, gradients, rank->shard_count);
  }
  if (r->inject != EXEC_INJECT_WRONG_DP_AVERAGE)
    r->backend->scale (gradients, 1.0f / (float)rank->map.dp, rank->padded_count);
  return TRUE;
}

/* The embedding's matrix lies on the first stage, a tied head's copy on the last. */
static gboolean
reduce_embedding (ExecRunner *r, const ModelOp *op, GError **error)
{
  for (guint i = 0; i < r->rank->n_params; i++) {
    const ExecParam *p = &r->rank->params[i];
    if (p->part == MODEL_PART_EMBEDDING && p->index == 0)
      return r->backend->comm->all_reduce (op->group, EXEC_REDUCE_SUM,
                                           exec_gradients (r) + p->offset, p->count, error);
  }
  return TRUE;
}

static gboolean
gather_parameters (ExecRunner *r, const ModelOp *op, GError **error)
{
  if (strikes (r, EXEC_INJECT_STALE_GATHER))
    return TRUE;
  return r->elements->comm->all_gather (op->group, exec_weight (r, r->rank->shard_first),
                                        exec_weight (r, 0), r->rank->shard_count, error);
}

static void
update (ExecRunner *r)
{
  const ExecRank *rank = r->rank;
  float *moments = exec_at (r, r->memory.moments);
  guint64 first = rank->shard_first;
  guint64 count = MIN (rank->shard_count, rank->padded_count - first);
  gboolean wide = rank->element_bytes == 4;
  float *weights = wide ? exec_weight (r, first) : exec_at (r, r->memory.master);
  r->backend->adam (weights, moments, moments + rank->shard_count, exec_gradients (r) + first,
                    count, r->step + 1, r->hyper);
  if (!wide)
    r->elements->cast (exec_weight (r, first), weights, count);
}

gboolean
exec_run_tail (ExecRunner *r, const ModelOp *op, GError **error)
{
  r->moved_bytes += op->kind == MODEL_OP_COLLECTIVE ? op->message_bytes : 0;
  if (op->kind == MODEL_OP_ADAM) {
    update (r);
    return TRUE;
  }
  if (g_str_equal (op->name, "replicated_gradients"))
    return r->backend->comm->all_reduce (op->group, EXEC_REDUCE_SUM, exec_gradients (r),
                                         r->rank->replicated_count, error);
  if (g_str_equal (op->name, "embedding_gradient"))
    return reduce_embedding (r, op, error);
  if (g_str_equal (op->name, "gradients"))
    return reduce_gradients (r, op, error);
  return gather_parameters (r, op, error);
}
