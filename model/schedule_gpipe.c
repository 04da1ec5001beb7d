/* model/schedule_gpipe.c - all forwards, then all backwards in the same order (PyTorch). */
#include "model/schedule-private.h"

void
model_schedule_fill_gpipe (ModelStep *steps, guint32 microbatches)
{
  for (guint32 i = 0; i < microbatches; i++) {
    steps[i] = model_step (MODEL_STEP_FORWARD, 0, i);
    steps[(gsize)microbatches + i] = model_step (MODEL_STEP_BACKWARD, 0, i);
  }
}
