/* exec/memory.c - life of tensors in the arena. */
#include "exec/memory.h"
#include "exec/backend.h"

static const char *const names[EXEC_MEMORY_N_KINDS]
    = { "weights", "gradients", "optimizer", "activations", "logits", "comm_buffers", "workspace" };

const char *
exec_memory_kind_name (ExecMemoryKind kind)
{
  g_return_val_if_fail ((guint)kind < EXEC_MEMORY_N_KINDS, "?");
  return names[kind];
}

static gboolean
take (ExecMemory *m, ExecMemoryKind kind, guint64 bytes, const char *what, guint64 *out,
      GError **error)
{
  guint64 before = m->arena.peak_bytes, offset = exec_arena_take (&m->arena, bytes);
  if (offset == EXEC_ARENA_NONE) {
    g_set_error (error, EXEC_ERROR, EXEC_ERROR_UNAVAILABLE,
                 "no room for %" G_GUINT64_FORMAT " bytes of %s: the arena is limited to "
                 "%" G_GUINT64_FORMAT " bytes",
                 bytes, what, m->arena.limit_bytes);
    return FALSE;
  }
  *out = offset;
  m->live_bytes[kind] += exec_arena_round (bytes);
  for (guint i = 0; m->arena.peak_bytes > before && i < EXEC_MEMORY_N_KINDS; i++)
    m->peak_bytes[i] = m->live_bytes[i];
  return TRUE;
}

static guint64
boundary_bytes (const ExecRank *rank)
{
  const ModelLayout *layout = rank->layout;
  guint64 rows = layout->mbs * rank->job->seq / (layout->sp ? layout->tp : 1);
  return rows * rank->arch->hidden * rank->element_bytes;
}

gboolean
exec_memory_init (ExecMemory *m, const ExecRank *rank, guint64 limit_bytes, GError **error)
{
  gsize n = (gsize)rank->program->n_tensors * rank->program->microbatches;
  guint64 rows = rank->layout->mbs * rank->job->seq;
  guint n_messages = rank->layout->pp > 1 ? 2 * rank->n_slots : 0;
  *m = (ExecMemory){ .rank = rank };
  exec_arena_init (&m->arena, limit_bytes);
  m->offset = g_new (guint64, n);
  m->users_left = g_new0 (guint32, n);
  m->beside = g_array_new (FALSE, FALSE, sizeof (ExecBeside));
  for (gsize i = 0; i < n; i++)
    m->offset[i] = EXEC_ARENA_NONE;
  m->attention_count
      = exec_attention_scratch_all (rank->arch->attention.heads / rank->layout->tp,
                                    rank->arch->attention.kv_heads / rank->layout->tp,
                                    rank->arch->attention.head_dim, rank->job->seq);
  m->message_bytes = exec_arena_round (boundary_bytes (rank));
  gboolean ok
      = take (m, EXEC_MEMORY_WEIGHTS, rank->element_bytes * rank->padded_count, "weights",
              &m->weights, error)
        && take (m, EXEC_MEMORY_GRADIENTS, 4 * rank->padded_count, "gradients", &m->gradients,
                 error)
        && take (m, EXEC_MEMORY_OPTIMIZER, 8 * rank->shard_count, "moments", &m->moments, error)
        && (rank->element_bytes == 4
            || take (m, EXEC_MEMORY_OPTIMIZER, 4 * rank->shard_count, "fp32 weights", &m->master,
                     error))
        && take (m, EXEC_MEMORY_COMM_BUFFERS, n_messages * m->message_bytes, "message buffers",
                 &m->messages, error)
        && take (m, EXEC_MEMORY_WORKSPACE, 4 * m->attention_count, "attention scratch",
                 &m->attention, error)
        && take (m, EXEC_MEMORY_WORKSPACE, 8 * rows + 4, "loss sums", &m->sums, error)
        && take (m, EXEC_MEMORY_WORKSPACE, 4 * rows, "targets", &m->targets, error);
  m->loss = m->sums + 8 * rows;
  return ok;
}

void
exec_memory_clear (ExecMemory *m)
{
  if (m == NULL)
    return;
  exec_arena_clear (&m->arena);
  g_clear_pointer (&m->offset, g_free);
  g_clear_pointer (&m->users_left, g_free);
  g_clear_pointer (&m->beside, g_array_unref);
}

static ExecMemoryKind
kind_of (const ModelTensor *tensor)
{
  if (tensor->role == MODEL_ROLE_LOGITS)
    return EXEC_MEMORY_LOGITS;
  return tensor->kept ? EXEC_MEMORY_ACTIVATIONS : EXEC_MEMORY_WORKSPACE;
}

static gboolean
is_ours (const ModelTensor *tensor)
{
  return tensor->role != MODEL_ROLE_WEIGHT && tensor->role != MODEL_ROLE_WEIGHT_GRAD;
}

static gboolean
take_tensor (ExecMemory *m, guint32 id, guint32 microbatch, GError **error)
{
  const ModelTensor *tensor = &m->rank->program->tensors[id];
  gsize at = (gsize)microbatch * m->rank->program->n_tensors + id;
  if (!is_ours (tensor) || m->offset[at] != EXEC_ARENA_NONE)
    return TRUE;
  m->users_left[at] = m->rank->n_users[id];
  return take (m, kind_of (tensor), tensor->local_bytes, tensor->name, &m->offset[at], error);
}

gboolean
exec_memory_before_op (ExecMemory *m, const ModelOp *op, guint32 microbatch, GError **error)
{
  for (guint i = 0; i < op->n_in; i++) /* inputs of the program: the tokens */
    if (!take_tensor (m, op->in[i], microbatch, error))
      return FALSE;
  for (guint i = 0; i < op->n_out; i++)
    if (!take_tensor (m, op->out[i], microbatch, error))
      return FALSE;
  return TRUE;
}

static gboolean
has (const guint32 *ids, guint n, guint32 id)
{
  for (guint i = 0; i < n; i++)
    if (ids[i] == id)
      return TRUE;
  return FALSE;
}

/* May another stream still read or write it? */
static gboolean
is_held (const ExecMemory *m, guint32 id, guint32 microbatch)
{
  for (guint i = 0; i < m->beside->len; i++) {
    const ExecBeside *b = &g_array_index (m->beside, ExecBeside, i);
    if (b->microbatch == microbatch
        && (has (b->op->in, b->op->n_in, id) || has (b->op->out, b->op->n_out, id)))
      return TRUE;
  }
  return FALSE;
}

static void
drop_if_unused (ExecMemory *m, guint32 id, guint32 microbatch)
{
  const ModelTensor *tensor = &m->rank->program->tensors[id];
  gsize at = (gsize)microbatch * m->rank->program->n_tensors + id;
  if (!is_ours (tensor) || m->offset[at] == EXEC_ARENA_NONE || m->users_left[at] > 0
      || is_held (m, id, microbatch))
    return;
  exec_arena_give (&m->arena, m->offset[at]);
  m->live_bytes[kind_of (tensor)] -= exec_arena_round (tensor->local_bytes);
  m->offset[at] = EXEC_ARENA_NONE;
}

void
exec_memory_after_op (ExecMemory *m, const ModelOp *op, guint32 microbatch)
{
  gsize first = (gsize)microbatch * m->rank->program->n_tensors;
  for (guint i = 0; i < op->n_in; i++)
    if (is_ours (&m->rank->program->tensors[op->in[i]])) {
      m->users_left[first + op->in[i]]--;
      drop_if_unused (m, op->in[i], microbatch);
    }
  for (guint i = 0; i < op->n_out; i++)
    drop_if_unused (m, op->out[i], microbatch);
}

guint
exec_memory_begin_beside (ExecMemory *m, const ModelOp *op, guint32 microbatch)
{
  const ExecBeside beside = { op, microbatch, m->n_beside++ };
  g_array_append_val (m->beside, beside);
  return beside.number;
}

/* It writes its outputs and reads its inputs. */
static gboolean
meets (const ExecBeside *b, const ModelOp *op, guint32 microbatch)
{
  if (op == NULL)
    return TRUE;
  gboolean found = FALSE;
  for (guint i = 0; i < op->n_in; i++)
    found |= has (b->op->out, b->op->n_out, op->in[i]);
  for (guint i = 0; i < op->n_out; i++)
    found |= has (b->op->out, b->op->n_out, op->out[i]) || has (b->op->in, b->op->n_in, op->out[i]);
  return found && b->microbatch == microbatch;
}

gboolean
exec_memory_end_beside (ExecMemory *m, const ModelOp *op, guint32 microbatch, ExecBeside *out)
{
  for (guint i = 0; i < m->beside->len; i++) {
    *out = g_array_index (m->beside, ExecBeside, i);
    if (!meets (out, op, microbatch))
      continue;
    g_array_remove_index (m->beside, i);
    for (guint j = 0; j < out->op->n_in; j++)
      drop_if_unused (m, out->op->in[j], out->microbatch);
    for (guint j = 0; j < out->op->n_out; j++)
      drop_if_unused (m, out->op->out[j], out->microbatch);
    return TRUE;
  }
  return FALSE;
}

gboolean
exec_op_belongs (const ModelOp *op, ModelStepKind kind)
{
  gboolean weight = op->phase == MODEL_PHASE_BACKWARD_WEIGHT;
  return kind == MODEL_STEP_FORWARD || kind == MODEL_STEP_BACKWARD
         || weight == (kind == MODEL_STEP_BACKWARD_WEIGHT);
}

static void
end_all_before (ExecMemory *m, const ModelOp *op, guint32 microbatch)
{
  ExecBeside ended;
  while (exec_memory_end_beside (m, op, microbatch, &ended))
    ;
}

static gboolean
play_pass (ExecMemory *m, const ModelStep *step, GError **error)
{
  const ModelProgram *program = m->rank->program;
  const ModelChunk *chunk = &program->chunks[step->chunk];
  ModelOpRange range = step->kind == MODEL_STEP_FORWARD ? chunk->forward : chunk->backward;
  for (guint32 i = range.first; i < range.first + range.count; i++) {
    const ModelOp *op = &program->ops[i];
    if (!exec_op_belongs (op, (ModelStepKind)step->kind))
      continue;
    end_all_before (m, op, step->microbatch);
    if (!exec_memory_before_op (m, op, step->microbatch, error))
      return FALSE;
    if (exec_rank_runs_beside (m->rank, op))
      exec_memory_begin_beside (m, op, step->microbatch);
    exec_memory_after_op (m, op, step->microbatch);
  }
  end_all_before (m, NULL, 0);
  return TRUE;
}

gboolean
exec_memory_play (ExecMemory *out, const ExecRank *rank, GError **error)
{
  const ModelProgram *program = rank->program;
  const ModelStep *steps = model_schedule_rank (program->schedule, rank->at.pp);
  if (!exec_memory_init (out, rank, G_MAXUINT64, error))
    return FALSE;
  for (guint32 i = 0; i < program->schedule->n_steps; i++)
    if (!play_pass (out, &steps[i], error))
      return FALSE;
  return TRUE;
}

gboolean
exec_memory_play_rehearsal (ExecMemory *out, const ExecRank *rank, GError **error)
{
  if (!exec_memory_init (out, rank, G_MAXUINT64, error))
    return FALSE;
  for (guint32 i = 0; i < rank->program->n_chunks; i++) {
    const ModelStep forward = { .kind = MODEL_STEP_FORWARD, .chunk = (guint16)i };
    const ModelStep backward = { .kind = MODEL_STEP_BACKWARD, .chunk = (guint16)i };
    if (!play_pass (out, &forward, error) || !play_pass (out, &backward, error))
      return FALSE;
  }
  return TRUE;
}
