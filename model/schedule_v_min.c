/* model/schedule_v_min.c - folded pipeline with a third of 1F1B's activations, for large p.
 *
 * Qi et al., Pipeline Parallelism with Controllable Memory, arXiv 2405.15362; offsets of
 * reference "schedules" §8.
 */
#include "model/schedule-private.h"

void
model_schedule_block_v_min (ModelVBlock *ranks, guint32 pp)
{
  guint32 gap = pp % 3 == 0 ? 2 : 0; /* keeps the four passes in different slots of the period */
  for (guint32 r = 0; r < pp; r++) {
    ranks[r][0] = r;
    ranks[r][1] = 2 * pp - 1 - r;
    ranks[r][2] = 2 * pp + gap + r;
    ranks[r][3] = 4 * pp + gap - 1 - r;
  }
}
