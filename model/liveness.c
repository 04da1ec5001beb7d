/* model/liveness.c - memory of one micro-batch, read off the life of the tensors.
 *
 * A tensor is alive from the op that makes it (or from the start, if it comes from outside) to the
 * last op that reads it. Kept tensors are counted apart and in full: in a pipeline others of their
 * kind, from other micro-batches, are alive beside them. Weights and their gradients belong to the
 * step, not to the micro-batch.
 */
#include "model/segment.h"

/* Which tensors a sweep counts. */
typedef enum { SWEEP_WORK, SWEEP_LOGITS } SweepKind;

static gboolean
is_counted (const ModelTensor *tensor, SweepKind kind)
{
  if (kind == SWEEP_LOGITS)
    return tensor->role == MODEL_ROLE_LOGITS;
  return !tensor->kept && tensor->role != MODEL_ROLE_WEIGHT
         && tensor->role != MODEL_ROLE_WEIGHT_GRAD && tensor->role != MODEL_ROLE_LOGITS;
}

/*
 * Bytes alive during each of the ops [first, end), into @change: end − first + 1 zeroed numbers.
 * A tensor without reader lives during its op; @result lives to the end. Returns: the most.
 */
static guint64
sweep (const ModelSegment *segment, SweepKind kind, guint first, guint end, guint32 result,
       gint64 *change)
{
  for (guint i = 0; i < segment->n_tensors; i++) {
    const ModelTensor *tensor = &segment->tensors[i];
    gboolean outside = tensor->producer == MODEL_TENSOR_NONE;
    if (!is_counted (tensor, kind) || (outside && tensor->last_user == MODEL_TENSOR_NONE))
      continue;
    guint from = outside ? first : tensor->producer;
    guint to = tensor->last_user == MODEL_TENSOR_NONE ? from : tensor->last_user;
    if (i == result)
      to = end - 1;
    if (to < first || from >= end)
      continue;
    change[MAX (from, first) - first] += (gint64)tensor->local_bytes;
    change[MIN (to, end - 1) + 1 - first] -= (gint64)tensor->local_bytes;
  }
  gint64 alive = 0, most = 0;
  for (guint i = 0; i < end - first; i++) {
    alive += change[i];
    change[i] = alive;
    most = MAX (most, alive);
  }
  return (guint64)most;
}

static guint64
peak (const ModelSegment *segment, SweepKind kind, guint first, guint end, guint32 result)
{
  if (end <= first)
    return 0;
  g_autofree gint64 *change = g_new0 (gint64, end - first + 1);
  return sweep (segment, kind, first, end, result, change);
}

void
model_segment_memory (const ModelSegment *segment, ModelSegmentMemory *out)
{
  *out = (ModelSegmentMemory){ 0 };
  for (guint i = 0; i < segment->n_tensors; i++) {
    const ModelTensor *tensor = &segment->tensors[i];
    if (!tensor->kept)
      continue;
    if (tensor->role == MODEL_ROLE_LOGITS)
      out->logits_kept_bytes += tensor->local_bytes;
    else
      out->kept_bytes += tensor->local_bytes;
    if (tensor->routed)
      out->routed_kept_bytes += tensor->local_bytes;
    if (i == segment->input)
      out->input_bytes = tensor->local_bytes;
  }
  for (guint i = 0; i < MODEL_RECOMPUTE_N_MODULES; i++)
    out->module_kept_bytes[i] = segment->module_kept_bytes[i];
  guint n_forward = segment->n_forward, n_ops = segment->n_ops;
  out->logits_peak_bytes = peak (segment, SWEEP_LOGITS, 0, n_ops, MODEL_TENSOR_NONE);
  out->forward_work_bytes = peak (segment, SWEEP_WORK, 0, n_forward, segment->output);
  out->backward_work_bytes = peak (segment, SWEEP_WORK, n_forward, n_ops, segment->input_grad);
}

static void
fill_alive (const ModelSegment *segment, SweepKind kind, guint first, guint end, guint32 result,
            guint64 *out)
{
  if (end <= first)
    return;
  g_autofree gint64 *change = g_new0 (gint64, end - first + 1);
  sweep (segment, kind, first, end, result, change);
  for (guint i = first; i < end; i++)
    out[i] = (guint64)change[i - first];
}

void
model_segment_alive (const ModelSegment *segment, guint64 *work_bytes, guint64 *logits_bytes)
{
  guint n_forward = segment->n_forward, n_ops = segment->n_ops;
  fill_alive (segment, SWEEP_LOGITS, 0, n_ops, MODEL_TENSOR_NONE, logits_bytes);
  fill_alive (segment, SWEEP_WORK, 0, n_forward, segment->output, work_bytes);
  fill_alive (segment, SWEEP_WORK, n_forward, n_ops, segment->input_grad, work_bytes);
}
