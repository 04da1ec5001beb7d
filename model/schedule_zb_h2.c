/* model/schedule_zb_h2.c - a parallelogram without bubbles, for almost twice 1F1B's activations.
 *
 * Qi et al., arXiv 2401.10241 §2 (pictures); rule of reference "schedules" §6.
 */
#include "model/schedule-private.h"

/* min(m, 2(p − 1 − r) + 1) forwards; then input gradient, the oldest weight gradient once 2r are
 * pending, and a forward; then the other weight gradients. */
guint32
model_schedule_fill_zb_h2 (ModelStep *steps, guint32 pp, guint32 microbatches, guint32 rank)
{
  guint32 warm_up = MIN (microbatches, 2 * (pp - 1 - rank) + 1);
  guint32 forward = 0, weight = 0, n = 0;
  while (forward < warm_up)
    steps[n++] = model_step (MODEL_STEP_FORWARD, 0, forward++);
  for (guint32 input = 0; input < microbatches; input++) {
    steps[n++] = model_step (MODEL_STEP_BACKWARD_INPUT, 0, input);
    if (input >= 2 * rank)
      steps[n++] = model_step (MODEL_STEP_BACKWARD_WEIGHT, 0, weight++);
    if (forward < microbatches)
      steps[n++] = model_step (MODEL_STEP_FORWARD, 0, forward++);
  }
  while (weight < microbatches)
    steps[n++] = model_step (MODEL_STEP_BACKWARD_WEIGHT, 0, weight++);
  return n;
}
