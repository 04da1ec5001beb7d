/* exec/run_grads.c - gradients and parameters: the tail of a step, and what of it runs under passes.
 *
 * With overlap_dp a bucket of gradients is reduced as soon as the last op that adds to it has run,
 * which is in the backward of the last micro-batch, and its updated parameters are gathered under
 * the forward of the next step; compute waits for the sums before the optimizer, and for a bucket's
 * parameters before the first op that reads one of them. All ranks of a data-parallel group run the
 * same schedule, so they start the same buckets in the same order.
 *
 * The program has one reduction and one gather, at its end: the buckets are their pieces, and are
 * charged to them.
 */
#include "exec/runner.h"

static gboolean
overlaps (const ExecRunner *r)
{
  return r->rank->layout->overlap_dp && r->runs_beside && r->rank->map.dp > 1;
}

/* NULL: this layout has none. */
static const ModelOp *
tail_op (const ExecRunner *r, const char *name)
{
  const ModelProgram *program = r->rank->program;
  for (guint32 i = program->tail.first; i < program->tail.first + program->tail.count; i++)
    if (g_str_equal (program->ops[i].name, name))
      return &program->ops[i];
  return NULL;
}

void
exec_grads_begin_step (ExecRunner *r)
{
  for (guint i = 0; i < r->rank->n_buckets; i++) {
    r->reductions[i].writes_left = r->rank->buckets[i].n_writes;
    r->reductions[i].started = FALSE;
  }
}

static ExecCollective
reduction_of (const ExecRunner *r, const ModelOp *op, const ExecGradBucket *b)
{
  float *in = exec_gradients (r) + b->first, *own = exec_gradients (r) + b->own_first;
  if (r->rank->layout->zero == 0)
    return (ExecCollective){ MODEL_COLLECTIVE_ALL_REDUCE, op->group, in, in, b->count };
  return (ExecCollective){ MODEL_COLLECTIVE_REDUCE_SCATTER, op->group, in, own, b->shard_count };
}

/* Sums bucket @i over the data-parallel ranks: now, or beside compute. */
static gboolean
reduce (ExecRunner *r, const ModelOp *op, guint i, GError **error)
{
  const ExecComm *comm = r->backend->comm;
  const ExecCollective c = reduction_of (r, op, &r->rank->buckets[i]);
  r->reductions[i].started = TRUE;
  if (exec_run_strikes (r, EXEC_INJECT_SKIP_ALLREDUCE))
    return TRUE;
  if (overlaps (r))
    return comm->start (&c, i, exec_run_clock_beside (r, op, -1), error);
  return c.kind == MODEL_COLLECTIVE_ALL_REDUCE
             ? comm->all_reduce (c.group, EXEC_REDUCE_SUM, c.out, c.count, error)
             : comm->reduce_scatter (c.group, c.in, c.out, c.count, error);
}

gboolean
exec_grads_after_op (ExecRunner *r, const ModelOp *op, GError **error)
{
  const ExecRank *rank = r->rank;
  if (!overlaps (r))
    return TRUE;
  for (guint j = 0; j < op->n_out; j++) {
    if (rank->program->tensors[op->out[j]].role != MODEL_ROLE_WEIGHT_GRAD)
      continue;
    guint bucket = rank->params[rank->param_of[op->out[j]]].bucket;
    if (--r->reductions[bucket].writes_left == 0 && !rank->buckets[bucket].is_shared
        && !reduce (r, tail_op (r, "gradients"), bucket, error))
      return FALSE;
  }
  return TRUE;
}

/* Sums over dp ranks become means. With ZeRO-1 only the own shard of a sum is there. */
static void
average (const ExecRunner *r)
{
  const ExecRank *rank = r->rank;
  float factor = 1.0f / (float)rank->map.dp;
  if (r->inject == EXEC_INJECT_WRONG_DP_AVERAGE)
    return;
  if (rank->layout->zero == 0)
    r->backend->scale (exec_gradients (r), factor, rank->padded_count);
  for (guint i = 0; rank->layout->zero > 0 && i < rank->n_buckets; i++)
    r->backend->scale (exec_gradients (r) + rank->buckets[i].own_first, factor,
                       rank->buckets[i].shard_count);
}

static gboolean
reduce_gradients (ExecRunner *r, const ModelOp *op, GError **error)
{
  for (guint i = 0; i < r->rank->n_buckets; i++)
    if (!r->reductions[i].started && !reduce (r, op, i, error))
      return FALSE;
  r->posted = overlaps (r);
  for (guint i = 0; overlaps (r) && i < r->rank->n_buckets; i++)
    if (!r->backend->comm->join (i, error))
      return FALSE;
  average (r);
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
  const ExecComm *comm = r->elements->comm;
  for (guint i = 0; i < r->rank->n_buckets; i++) {
    const ExecGradBucket *b = &r->rank->buckets[i];
    const ExecCollective c
        = { MODEL_COLLECTIVE_ALL_GATHER, op->group, exec_weight (r, b->own_first),
            exec_weight (r, b->first), b->shard_count };
    if (exec_run_strikes (r, EXEC_INJECT_STALE_GATHER))
      continue;
    if (!overlaps (r)) {
      if (!comm->all_gather (c.group, c.in, c.out, c.count, error))
        return FALSE;
      continue;
    }
    r->posted = r->reductions[i].gathering = TRUE;
    if (!comm->start (&c, i, exec_run_clock_beside (r, op, (gint)i), error))
      return FALSE;
  }
  return TRUE;
}

static gboolean
await_gather (ExecRunner *r, guint bucket, GError **error)
{
  if (!r->reductions[bucket].gathering)
    return TRUE;
  r->reductions[bucket].gathering = FALSE;
  if (!r->elements->comm->join (bucket, error))
    return FALSE;
  exec_run_clock_mark (r, EXEC_MARK_WAIT, tail_op (r, "parameters"));
  return TRUE;
}

gboolean
exec_grads_before_op (ExecRunner *r, const ModelOp *op, GError **error)
{
  const ExecRank *rank = r->rank;
  for (guint i = 0; i < op->n_in; i++)
    if (rank->program->tensors[op->in[i]].role == MODEL_ROLE_WEIGHT
        && !await_gather (r, rank->params[rank->param_of[op->in[i]]].bucket, error))
      return FALSE;
  return TRUE;
}

gboolean
exec_grads_settle (ExecRunner *r, GError **error)
{
  for (guint i = 0; i < r->rank->n_buckets; i++)
    if (!await_gather (r, i, error))
      return FALSE;
  return TRUE;
}

static void
update (ExecRunner *r)
{
  const ExecRank *rank = r->rank;
  gboolean wide = rank->element_bytes == 4;
  for (guint i = 0; i < rank->n_buckets; i++) {
    const ExecGradBucket *b = &rank->buckets[i];
    float *moments = exec_at (r, r->memory.moments) + b->state_first;
    float *weights
        = wide ? exec_weight (r, b->own_first) : exec_at (r, r->memory.master) + b->state_first;
    r->backend->adam (weights, moments, moments + rank->shard_count,
                      exec_gradients (r) + b->own_first, b->shard_count, r->step + 1, r->hyper);
    if (!wide)
      r->elements->cast (exec_weight (r, b->own_first), weights, b->shard_count);
  }
}

gboolean
exec_run_tail (ExecRunner *r, const ModelOp *op, GError **error)
{
  r->moved_bytes += op->kind == MODEL_OP_COLLECTIVE ? op->message_bytes : 0;
  if (op->kind == MODEL_OP_ADAM) {
    if (!exec_grads_settle (r, error))
      return FALSE;
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
