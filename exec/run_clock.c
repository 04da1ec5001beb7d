/* exec/run_clock.c - times of ops from marks on the device's streams.
 *
 * The compute stream passes a mark after every op: the time of an op is that between the mark before
 * and its own. What runs on another stream has a mark at either end there, and on the compute stream
 * one where compute has waited for it: that time is exposed, the rest of it is hidden.
 *
 * Gathers of parameters end in the step after theirs. Their marks are the first ones, two sets by
 * turns, and are read with the step that waited for them.
 */
#include "exec/runner.h"

static guint
gather_mark (const ExecRunner *r, guint32 step, guint bucket)
{
  return 2 * (step % 2 * r->rank->n_buckets + bucket);
}

/* What was given to the device before is not the first op's. */
void
exec_run_clock_start (ExecRunner *r)
{
  for (guint32 i = 0; r->op_times != NULL && i < r->rank->program->n_ops; i++)
    r->op_times[i].step_s = r->op_times[i].count = 0;
  /* those of the gathers that began in the step before stay */
  guint first = 4 * r->rank->n_buckets, own = gather_mark (r, r->step, 0);
  g_array_set_size (r->marks, first);
  for (guint i = 0; i < 2 * r->rank->n_buckets; i++)
    g_array_index (r->marks, ExecMark, own + i) = (ExecMark){ 0 };
  exec_run_clock_mark (r, EXEC_MARK_NOTHING, NULL);
}

void
exec_run_clock_mark (ExecRunner *r, ExecMarkKind kind, const ModelOp *op)
{
  const ExecMark mark = { kind, op, r->last_mark };
  if (r->backend->mark == NULL)
    return;
  r->last_mark = r->marks->len;
  g_array_append_val (r->marks, mark);
  r->backend->mark (r->last_mark);
}

guint
exec_run_clock_beside (ExecRunner *r, const ModelOp *op, gint bucket)
{
  if (r->backend->mark == NULL)
    return EXEC_NO_MARK;
  guint at = bucket >= 0 ? gather_mark (r, r->step, (guint)bucket) : r->marks->len;
  const ExecMark ends[2] = { { EXEC_MARK_NOTHING, NULL, at }, { EXEC_MARK_BESIDE, op, at } };
  if (bucket < 0)
    g_array_append_vals (r->marks, ends, 2);
  else
    g_array_index (r->marks, ExecMark, at + 1) = ends[1];
  return at;
}

static void
on_compute (ExecRunner *r, const ModelOp *op, double seconds, gboolean counts)
{
  r->buckets[exec_op_bucket (op)].exposed_s += seconds;
  r->buckets[exec_op_bucket (op)].count += counts;
  if (r->op_times == NULL)
    return;
  ExecOpTime *time = &r->op_times[op - r->rank->program->ops];
  time->step_s += seconds;
  time->count += counts;
  if (counts)
    time->least_s = MIN (time->least_s, seconds);
}

void
exec_run_clock_account (ExecRunner *r, const ModelOp *op, double seconds)
{
  r->buckets[exec_op_bucket (op)].seconds += seconds;
  on_compute (r, op, seconds, TRUE);
}

void
exec_run_clock_read (ExecRunner *r)
{
  guint own = gather_mark (r, r->step, 0);
  for (guint i = 0; i < r->marks->len; i++) {
    const ExecMark *mark = &g_array_index (r->marks, ExecMark, i);
    gboolean goes_on = i >= own && i < own + 2 * r->rank->n_buckets;
    if (mark->kind == EXEC_MARK_NOTHING || goes_on)
      continue;
    double seconds = r->backend->elapsed_s (mark->from, i);
    if (mark->kind == EXEC_MARK_OP)
      exec_run_clock_account (r, mark->op, seconds);
    else if (mark->kind == EXEC_MARK_BESIDE)
      r->buckets[exec_op_bucket (mark->op)].seconds += seconds;
    else
      on_compute (r, mark->op, seconds, mark->kind == EXEC_MARK_POSTED);
  }
}
