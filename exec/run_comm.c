/* exec/run_comm.c - collectives within a pass, and messages between stages. */
#include "exec/runner.h"

/* Tickets of what runs beside compute: those below are of the gradients' buckets. */
#define FIRST_TICKET EXEC_MAX_BUCKETS
#define N_TICKETS    (EXEC_MAX_TICKETS - EXEC_MAX_BUCKETS)

gboolean
exec_run_strikes (ExecRunner *r, ExecInject inject)
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

static guint
ticket_of (guint number)
{
  return FIRST_TICKET + number % N_TICKETS;
}

/* Now, or beside compute where the layout asks for it: then it has begun. */
static gboolean
run (ExecRunner *r, const ModelOp *op, const ExecCollective *c, GError **error)
{
  const ExecComm *comm = r->elements->comm;
  if (r->runs_beside && exec_rank_runs_beside (r->rank, op)) {
    r->posted = TRUE;
    return comm->start (c, ticket_of (r->memory.n_beside), exec_run_clock_beside (r, op, -1),
                        error);
  }
  switch (c->kind) {
  case MODEL_COLLECTIVE_ALL_REDUCE:
    return comm->all_reduce (c->group, EXEC_REDUCE_SUM, c->out, c->count, error);
  case MODEL_COLLECTIVE_ALL_GATHER:
    return comm->all_gather (c->group, c->in, c->out, c->count, error);
  default:
    return comm->reduce_scatter (c->group, c->in, c->out, c->count, error);
  }
}

static gboolean
sum (ExecRunner *r, const ModelOp *op, guint32 mb, GError **error)
{
  void *to = exec_run_tensor (r, op->out[0], mb);
  guint64 count = local_count (r, op->out[0]);
  const ExecCollective c = { MODEL_COLLECTIVE_ALL_REDUCE, op->group, to, to, count };
  r->elements->copy (to, exec_run_tensor (r, op->in[0], mb), count);
  return exec_run_strikes (r, EXEC_INJECT_SKIP_ALLREDUCE) || run (r, op, &c, error);
}

static gboolean
gather (ExecRunner *r, const ModelOp *op, guint32 mb, GError **error)
{
  void *to = exec_run_tensor (r, op->out[0], mb), *from = exec_run_tensor (r, op->in[0], mb);
  guint64 count = local_count (r, op->in[0]);
  const ExecCollective c = { MODEL_COLLECTIVE_ALL_GATHER, op->group, from, to, count };
  if (r->rank->layout->zero > 0 || !exec_run_strikes (r, EXEC_INJECT_STALE_GATHER))
    return run (r, op, &c, error);
  r->elements->copy (shifted (r, to, r->rank->at.tp * count), from, count);
  return TRUE;
}

static gboolean
scatter (ExecRunner *r, const ModelOp *op, guint32 mb, GError **error)
{
  void *to = exec_run_tensor (r, op->out[0], mb), *from = exec_run_tensor (r, op->in[0], mb);
  guint64 count = local_count (r, op->out[0]);
  const ExecCollective c = { MODEL_COLLECTIVE_REDUCE_SCATTER, op->group, from, to, count };
  if (!exec_run_strikes (r, EXEC_INJECT_SKIP_ALLREDUCE))
    return run (r, op, &c, error);
  r->elements->copy (to, shifted (r, from, r->rank->at.tp * count), count);
  return TRUE;
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

gboolean
exec_run_join (ExecRunner *r, const ModelOp *op, guint32 microbatch, GError **error)
{
  ExecBeside ended;
  while (exec_memory_end_beside (&r->memory, op, microbatch, &ended)) {
    if (!r->runs_beside)
      continue;
    if (!r->elements->comm->join (ticket_of (ended.number), error))
      return FALSE;
    exec_run_clock_mark (r, EXEC_MARK_WAIT, ended.op);
  }
  return TRUE;
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
  r->posted = r->backend->mark != NULL;
  return comm->send (neighbour (r->rank, forward ? 1 : -1), tag, buffer, count, slot,
                     exec_run_clock_beside (r, op, -1), error);
}
