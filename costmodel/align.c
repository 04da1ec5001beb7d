/* costmodel/align.c - see align.h. */
#include "costmodel/align.h"

#define ALIGNED_LOG2 6 /* 64 elements: a tensor-core tile's side */
#define VECTOR_LOAD  8 /* elements: 16 bytes of 16-bit values, below which loads fall apart */

/* Logarithm of the power of 2 that divides @x, at most that of a tile. */
static gint
log2_divisor (guint64 x)
{
  return x < VECTOR_LOAD ? ALIGNED_LOG2 : MIN (__builtin_ctzll (x), ALIGNED_LOG2);
}

double
cost_align_slowdown (const CostStepNumbers *step, guint64 a, guint64 b)
{
  gint divisor = MIN (log2_divisor (a), log2_divisor (b));
  double loss = step->align_loss * (ALIGNED_LOG2 - divisor) / ALIGNED_LOG2;
  gboolean misaligned = (1 << divisor) < VECTOR_LOAD;
  return 1 + loss * (misaligned ? 1 + step->misalign_loss : 1);
}
