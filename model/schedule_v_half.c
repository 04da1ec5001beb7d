/* model/schedule_v_half.c - folded pipeline with half of 1F1B's activations, for large p.
 *
 * Qi et al., Pipeline Parallelism with Controllable Memory, arXiv 2405.15362; offsets of
 * reference "schedules" §8.
 */
#include "model/schedule-private.h"

void
model_schedule_block_v_half (ModelVBlock *ranks, guint32 pp)
{
  guint32 gap = pp % 2 == 0 ? 3 : 0; /* keeps the four passes in different slots of the period */
  for (guint32 r = 0; r < pp; r++) {
    ranks[r][0] = 2 * r;
    ranks[r][1] = 3 * pp - 2 - r;
    ranks[r][2] = 3 * pp + gap - 1 + 2 * r;
    ranks[r][3] = 6 * pp + gap - 2 - r;
  }
}
