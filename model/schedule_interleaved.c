/* model/schedule_interleaved.c - 1F1B over v chunks per rank, Megatron-LM's order. */
#include "model/schedule-private.h"

/*
 * Entry @index of the table of virtual micro-batches: groups of pp micro-batches, each group
 * through all chunks before the next. The backward table is the forward one with chunks reversed.
 */
static ModelStep
entry (ModelStepKind kind, guint32 pp, guint32 vpp, guint64 index)
{
  guint64 per_group = (guint64)pp * vpp;
  guint64 group = index / per_group, within = index % per_group;
  guint32 chunk = (guint32)(within / pp);
  if (kind != MODEL_STEP_FORWARD)
    chunk = vpp - 1 - chunk;
  return model_step (kind, chunk, (guint32)(group * pp + within % pp));
}

/* w = min(m·v, 2(p − r − 1) + (v − 1)p) forwards, then pairs, then w backwards. */
void
model_schedule_fill_interleaved (ModelStep *steps, guint32 pp, guint32 vpp, guint32 microbatches,
                                 guint32 rank)
{
  guint64 total = (guint64)microbatches * vpp;
  guint64 warm_up = MIN (total, 2 * (guint64)(pp - rank - 1) + (guint64)(vpp - 1) * pp);
  guint64 forward = 0, backward = 0;
  gsize at = 0;
  while (forward < warm_up)
    steps[at++] = entry (MODEL_STEP_FORWARD, pp, vpp, forward++);
  while (backward < total) {
    if (forward < total)
      steps[at++] = entry (MODEL_STEP_FORWARD, pp, vpp, forward++);
    steps[at++] = entry (MODEL_STEP_BACKWARD, pp, vpp, backward++);
  }
}
