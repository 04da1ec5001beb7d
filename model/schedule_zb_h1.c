/* model/schedule_zb_h1.c - 1F1B with weight gradients put off, at 1F1B's peak memory.
 *
 * Qi et al., arXiv 2401.10241; order as in sail-sg's heuristic with a limit of p micro-batches.
 */
#include "model/schedule-private.h"

/* min(m, p − 1 − r) forwards; then forward, input gradient and, once r of those are pending, the
 * oldest weight gradient; then the other weight gradients. */
guint32
model_schedule_fill_zb_h1 (ModelStep *steps, guint32 pp, guint32 microbatches, guint32 rank)
{
  guint32 warm_up = MIN (microbatches, pp - 1 - rank);
  guint32 forward = 0, weight = 0, n = 0;
  while (forward < warm_up)
    steps[n++] = model_step (MODEL_STEP_FORWARD, 0, forward++);
  for (guint32 input = 0; input < microbatches; input++) {
    if (forward < microbatches)
      steps[n++] = model_step (MODEL_STEP_FORWARD, 0, forward++);
    steps[n++] = model_step (MODEL_STEP_BACKWARD_INPUT, 0, input);
    if (input >= rank)
      steps[n++] = model_step (MODEL_STEP_BACKWARD_WEIGHT, 0, weight++);
  }
  while (weight < microbatches)
    steps[n++] = model_step (MODEL_STEP_BACKWARD_WEIGHT, 0, weight++);
  return n;
}
