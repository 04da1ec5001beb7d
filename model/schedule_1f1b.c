/* model/schedule_1f1b.c - one forward, one backward (PipeDream-Flush, Megatron-LM). */
#include "model/schedule-private.h"

/* w = min(m, p − 1 − r) forwards, m − w pairs of forward and backward, w backwards. */
void
model_schedule_fill_1f1b (ModelStep *steps, guint32 pp, guint32 microbatches, guint32 rank)
{
  guint32 warm_up = MIN (microbatches, pp - 1 - rank);
  guint32 forward = 0, backward = 0;
  gsize at = 0;
  while (forward < warm_up)
    steps[at++] = model_step (MODEL_STEP_FORWARD, 0, forward++);
  while (backward < microbatches) {
    if (forward < microbatches)
      steps[at++] = model_step (MODEL_STEP_FORWARD, 0, forward++);
    steps[at++] = model_step (MODEL_STEP_BACKWARD, 0, backward++);
  }
}
