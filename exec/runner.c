/* exec/runner.c - one rank's step: its schedule, op by op, then the tail. */
#include "exec/runner.h"

#include <string.h>

const char *const exec_inject_names[]
    = { "none",         "swap_shards", "skip_allreduce", "wrong_dp_average", "rotary_offset",
        "stale_gather", NULL };
G_STATIC_ASSERT (G_N_ELEMENTS (exec_inject_names) == EXEC_INJECT_N_KINDS + 1);

const char *
exec_bucket_name (guint bucket)
{
  return bucket < MODEL_OP_N_KINDS
             ? model_op_kind_name ((ModelOpKind)bucket)
             : model_collective_name ((ModelCollectiveKind)(bucket - MODEL_OP_N_KINDS));
}

/* The table for the layout's dtype, or NULL. */
static const ExecBackend *
elements_of (const ExecBackend *backend, const ExecRank *rank)
{
  return rank->element_bytes == 4 ? backend : backend->bf16;
}

/* Does work run beside compute on this backend? */
static gboolean
rehearses (const ExecRunner *r)
{
  return r->rank->map.world > 1 && r->backend->comm->start != NULL;
}

gboolean
exec_runner_init (ExecRunner *r, const ExecRank *rank, const ExecBackend *backend,
                  ExecInject inject, guint64 limit_bytes, GError **error)
{
  g_auto (ExecMemory) play = { 0 }, rehearsal = { 0 };
  *r = (ExecRunner){ .rank = rank, .backend = backend, .inject = inject };
  const float hyper[4] = { 1e-3f, 0.9f, 0.95f, 1e-8f };
  memcpy (r->hyper, hyper, sizeof hyper);
  r->elements = elements_of (backend, rank);
  if (r->elements == NULL) {
    g_set_error (error, EXEC_ERROR, EXEC_ERROR_UNSUPPORTED, "backend '%s' computes in fp32 only",
                 backend->name);
    return FALSE;
  }
  if (!exec_memory_play (&play, rank, error)
      || !exec_memory_init (&r->memory, rank, MIN (limit_bytes, play.arena.peak_bytes), error)
      || !exec_memory_play_rehearsal (&rehearsal, rank, error))
    return FALSE;
  r->base_bytes = play.arena.peak_bytes;
  if (rehearses (
          r)) /* hardly ever the larger one: fewer tensors, but first fit may lay them worse */
    r->base_bytes = MAX (r->base_bytes, rehearsal.arena.peak_bytes);
  if (r->base_bytes > limit_bytes || (r->base = backend->memory_new (r->base_bytes)) == NULL) {
    g_set_error (error, EXEC_ERROR, EXEC_ERROR_UNAVAILABLE,
                 "could not allocate the arena of %" G_GUINT64_FORMAT " bytes%s", r->base_bytes,
                 r->base_bytes > limit_bytes ? ": more than --memory-limit" : "");
    return FALSE;
  }
  r->marks = g_array_new (FALSE, TRUE, sizeof (ExecMark));
  r->ids = g_new (gint32, (gsize)rank->layout->mbs * rank->job->seq);
  exec_run_fill (r);
  backend->fill (exec_at (r, r->memory.moments), 0, 2 * rank->shard_count);
  return TRUE;
}

void
exec_runner_clear (ExecRunner *r)
{
  if (r == NULL)
    return;
  if (r->base != NULL) {
    for (guint i = 0; i < EXEC_MAX_BUCKETS; i++) /* gathers that nobody waited for */
      if (r->reductions[i].gathering)
        r->elements->comm->join (i, NULL);
    r->backend->memory_free (r->base, r->base_bytes);
  }
  r->base = NULL;
  g_clear_pointer (&r->ids, g_free);
  g_clear_pointer (&r->marks, g_array_unref);
  exec_memory_clear (&r->memory);
}

gboolean
exec_groups_make (const ExecRank *rank, const ExecBackend *backend, GError **error)
{
  static const struct {
    ModelGroupKind kind;
    ModelStream stream;
  } used[] = { { MODEL_GROUP_TP, MODEL_STREAM_TP },
               { MODEL_GROUP_DPCP, MODEL_STREAM_DP },
               { MODEL_GROUP_EMBEDDING, MODEL_STREAM_PP } };
  for (guint i = 0; i < G_N_ELEMENTS (used); i++) {
    const ModelGroup *group = &rank->map.groups[used[i].kind];
    guint32 base = model_rankmap_group_base (&rank->map, used[i].kind, rank->rank);
    if (group->size > 1
        && !backend->comm->make_group (used[i].kind, used[i].stream, base, group->size,
                                       group->stride, error))
      return FALSE;
  }
  const ModelGroup *pipeline = &rank->map.groups[MODEL_GROUP_PP];
  if (pipeline->size > 1 && backend->comm->make_pipeline != NULL
      && !backend->comm->make_pipeline (model_rankmap_group_base (&rank->map, MODEL_GROUP_PP,
                                                                  rank->rank),
                                        pipeline->size, pipeline->stride, error))
    return FALSE;
  return rank->map.world == 1
         || backend->comm->make_group (EXEC_GROUP_WORLD, MODEL_STREAM_COMPUTE, 0, rank->map.world,
                                       1, error);
}

static void
note (ExecRunner *r, const ModelOp *op)
{
  ExecProgress *progress = r->progress;
  if (progress == NULL)
    return;
  gboolean talks
      = op->kind == MODEL_OP_COLLECTIVE || op->kind == MODEL_OP_SEND || op->kind == MODEL_OP_RECV;
  g_strlcpy (progress->what, op->name, sizeof progress->what);
  progress->state = talks ? EXEC_STATE_WAITING : EXEC_STATE_COMPUTING;
  progress->ops_done++;
}

static gboolean
run_op (ExecRunner *r, const ModelOp *op, const ModelChunk *chunk, guint32 microbatch,
        GError **error)
{
  if (op->phase == MODEL_PHASE_TAIL)
    return exec_run_tail (r, op, error);
  if (op->kind == MODEL_OP_COLLECTIVE)
    return exec_run_collective (r, op, microbatch, error);
  if (op->kind == MODEL_OP_SEND || op->kind == MODEL_OP_RECV)
    return exec_run_message (r, op, chunk, microbatch, error);
  exec_run_compute (r, op, microbatch);
  return TRUE;
}

static gboolean
check_device (const ExecRunner *r, GError **error)
{
  const char *failure = r->backend->failure != NULL ? r->backend->failure () : NULL;
  if (failure != NULL)
    g_set_error (error, EXEC_ERROR, EXEC_ERROR_FAILED, "%s", failure);
  return failure == NULL;
}

/* The test hook's slow device works on for a while. */
static void
linger (const ExecRunner *r, const ModelOp *op, double start_s)
{
  gboolean computes
      = op->kind != MODEL_OP_COLLECTIVE && op->kind != MODEL_OP_SEND && op->kind != MODEL_OP_RECV;
  double end_s = start_s + r->slowdown * (exec_clock_s () - start_s);
  while (r->slowdown > 1 && computes && exec_clock_s () < end_s)
    ;
}

/* On a device with a clock of its own the host runs ahead, and looks at the marks after the step. */
static gboolean
timed_op (ExecRunner *r, const ModelOp *op, const ModelChunk *chunk, guint32 microbatch,
          GError **error)
{
  note (r, op);
  double start_s = exec_clock_s ();
  r->posted = FALSE;
  gboolean ok = run_op (r, op, chunk, microbatch, error);
  if (r->backend->mark != NULL) {
    exec_run_clock_mark (r, r->posted ? EXEC_MARK_POSTED : EXEC_MARK_OP, op);
  } else {
    r->backend->synchronize ();
    linger (r, op, start_s);
    exec_run_clock_account (r, op, exec_clock_s () - start_s);
  }
  return ok && check_device (r, error);
}

/* The host is done long before the device: who watches this rank wants to know where that is. */
static void
follow (ExecRunner *r)
{
  for (guint i = 0; i < r->marks->len; i++) {
    const ExecMark *mark = &g_array_index (r->marks, ExecMark, i);
    if (mark->kind != EXEC_MARK_OP && mark->kind != EXEC_MARK_POSTED)
      continue;
    note (r, mark->op);
    if (r->observes && i >= r->marks->len / 2 && r->backend->observe != NULL) {
      r->backend->observe ();
      r->observes = FALSE;
    }
    while (!r->backend->passed (i))
      ;
  }
}

static gboolean
read_clock (ExecRunner *r, GError **error)
{
  if (r->backend->mark == NULL)
    return TRUE;
  follow (r);
  r->backend->synchronize ();
  if (!check_device (r, error))
    return FALSE;
  exec_run_clock_read (r);
  return TRUE;
}

static gboolean
run_pass_op (ExecRunner *r, const ModelOp *op, const ModelChunk *chunk, guint32 mb, GError **error)
{
  gboolean is_message = op->kind == MODEL_OP_SEND || op->kind == MODEL_OP_RECV;
  gboolean runs = r->rehearsed || !is_message;
  if (!exec_run_join (r, op, mb, error) || !exec_grads_before_op (r, op, error)
      || !exec_memory_before_op (&r->memory, op, mb, error)
      || (runs && !timed_op (r, op, chunk, mb, error)))
    return FALSE;
  if (exec_rank_runs_beside (r->rank, op))
    exec_memory_begin_beside (&r->memory, op, mb);
  exec_memory_after_op (&r->memory, op, mb);
  if (!r->rehearsed)
    r->backend->synchronize ();
  return exec_grads_after_op (r, op, error);
}

static gboolean
run_pass (ExecRunner *r, const ModelStep *step, GError **error)
{
  const ModelProgram *program = r->rank->program;
  const ModelChunk *chunk = &program->chunks[step->chunk];
  ModelOpRange range = step->kind == MODEL_STEP_FORWARD ? chunk->forward : chunk->backward;
  for (guint32 i = range.first; i < range.first + range.count; i++) {
    const ModelOp *op = &program->ops[i];
    if (!exec_op_belongs (op, (ModelStepKind)step->kind))
      continue;
    if (!run_pass_op (r, op, chunk, step->microbatch, error)) {
      g_prefix_error (error, "step %u, op '%s': ", r->step + 1, op->name);
      return FALSE;
    }
  }
  return exec_run_join (r, NULL, 0, error);
}

/* All messages are received before the step ends, so that the next one starts with free buffers. */
static gboolean
finish_messages (ExecRunner *r, GError **error)
{
  for (guint slot = 0; r->rank->layout->pp > 1 && slot < 2 * r->rank->n_slots; slot++)
    if (!r->backend->comm->wait (slot, error))
      return FALSE;
  r->sent[0] = r->sent[1] = 0;
  if (r->rank->layout->pp > 1)
    exec_run_clock_mark (r, EXEC_MARK_NOTHING, NULL); /* waiting for them is not the next op's */
  return TRUE;
}

static gboolean
run_tail (ExecRunner *r, GError **error)
{
  const ModelProgram *program = r->rank->program;
  for (guint32 i = program->tail.first; i < program->tail.first + program->tail.count; i++) {
    const ModelOp *op = &program->ops[i];
    if (op->kind == MODEL_OP_ADAM && r->before_optimizer != NULL)
      r->before_optimizer (r->user_data);
    if (!timed_op (r, op, NULL, 0, error)) {
      g_prefix_error (error, "step %u, op '%s': ", r->step + 1, op->name);
      return FALSE;
    }
  }
  return TRUE;
}

/* Marks of a step, so that none has to be made in it. */
static void
reserve_marks (const ExecRunner *r)
{
  const ModelProgram *program = r->rank->program;
  guint most = 7 * r->rank->n_buckets + 2;
  for (guint32 i = 0; i < program->n_ops; i++) {
    gboolean beside = program->ops[i].kind == MODEL_OP_SEND
                      || exec_rank_runs_beside (r->rank, &program->ops[i]);
    most += (beside ? 4 : 1) * (guint)program->microbatches;
  }
  if (r->backend->mark != NULL)
    r->backend->mark (most);
}

static gboolean
rehearse_passes (ExecRunner *r, GError **error)
{
  const ModelProgram *program = r->rank->program;
  for (guint32 i = 0; i < program->n_chunks; i++) {
    const ModelStep forward = { .kind = MODEL_STEP_FORWARD, .chunk = (guint16)i };
    const ModelStep backward = { .kind = MODEL_STEP_BACKWARD, .chunk = (guint16)i };
    if (!run_pass (r, &forward, error) || !run_pass (r, &backward, error))
      return FALSE;
  }
  for (guint32 i = program->tail.first; i < program->tail.first + program->tail.count; i++)
    if (program->ops[i].kind != MODEL_OP_ADAM && !exec_run_tail (r, &program->ops[i], error))
      return FALSE;
  return TRUE;
}

/*
 * Every op of a step once, one when the other is done, without messages between stages and without an
 * update; what it computes is forgotten. A kernel that is loaded, a connection or memory that is
 * made may wait for the whole device (CUDA loads kernels at their first launch, NCCL connects at
 * the first collective), and a collective on it for a rank that waits in turn: none of that may
 * happen when work of other streams is under way. Alone, or where nothing runs beside compute,
 * there is nothing to rehearse.
 */
static gboolean
rehearse (ExecRunner *r, GError **error)
{
  gboolean beside = rehearses (r);
  if (beside) {
    ExecMemory own = r->memory;
    ExecOpTime *op_times = r->op_times;
    r->op_times = NULL;
    reserve_marks (r);
    exec_grads_begin_step (r);
    exec_run_clock_start (r);
    gboolean ok = exec_memory_init (&r->memory, r->rank, r->base_bytes, error)
                  && rehearse_passes (r, error);
    exec_memory_clear (&r->memory);
    r->memory = own;
    r->op_times = op_times;
    r->backend->synchronize ();
    if (!ok || !check_device (r, error)) {
      g_prefix_error (error, "rehearsal: ");
      return FALSE;
    }
  }
  r->rehearsed = TRUE;
  r->runs_beside = beside;
  return TRUE;
}

static void
begin_step (ExecRunner *r)
{
  r->skipped = FALSE;
  r->moved_bytes = 0;
  memset (r->buckets, 0, sizeof r->buckets);
  exec_grads_begin_step (r);
  r->backend->fill (exec_at (r, r->memory.loss), 0, 1);
  r->backend->fill (exec_gradients (r), 0, r->rank->padded_count);
}

/* Mean over the tokens of this rank's micro-batches; 0 on stages without the head. */
static void
read_loss (ExecRunner *r)
{
  const ExecRank *rank = r->rank;
  double tokens
      = (double)rank->layout->mbs * (double)rank->job->seq * (double)rank->program->microbatches;
  float sum = 0;
  r->backend->download (&sum, exec_at (r, r->memory.loss), 1);
  r->loss = sum / tokens;
}

gboolean
exec_runner_step (ExecRunner *r, GError **error)
{
  const ModelProgram *program = r->rank->program;
  const ModelStep *steps = model_schedule_rank (program->schedule, r->rank->at.pp);
  if (r->progress != NULL)
    r->progress->step = r->step + 1;
  if (!r->rehearsed && !rehearse (r, error))
    return FALSE;
  begin_step (r);
  exec_run_clock_start (r);
  for (guint32 i = 0; i < program->schedule->n_steps; i++)
    if (!run_pass (r, &steps[i], error))
      return FALSE;
  if (!finish_messages (r, error) || !run_tail (r, error))
    return FALSE;
  if (!read_clock (r, error)) {
    g_prefix_error (error, "step %u: ", r->step + 1);
    return FALSE;
  }
  read_loss (r);
  r->step++;
  return TRUE;
}
