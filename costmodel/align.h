/* costmodel/align.h - how much slower a product is whose dimensions do not divide by 64.
 *
 *   1 + align · log2 (64/d)/6 · (1 + misalign where d < 8),  d = the largest power of 2 that divides
 *   both dimensions, at most 64
 *
 * Dimensions below 8 (one score per token) count as aligned. Source: reference "time-model"
 * §3.10: a sweep of shapes on A100 (head size 108 or 150: attention about 12 times slower; GEMM
 * dimensions not a multiple of 64: up to 15 %). Weight dimensions only; tokens come in any number.
 */
#pragma once
#include "costmodel/calibration.h"
#include <glib.h>
G_BEGIN_DECLS
double cost_align_slowdown (const CostStepNumbers *step, guint64 a, guint64 b);
G_END_DECLS
