/* costmodel/attention.h - time of the attention kernel of one rank.
 *
 * Flash and fused kernels: only the pairs that the mask leaves are worked on,
 *   t = t0 + F / (peak · r · d/(d + d0) · (128 + d0)/128),  backward 2.5 F · max (dims)/d at
 *   r · backward
 * d the mean of the head sizes of q·k and of v, F = 2 pairs heads batch (dim_qk + dim_v). Where the
 * profile's kernels are not written for the GPU's generation, r falls by attention_portable_ratio.
 * Unfused: two GEMMs over the whole square, backward four, and the scores through memory,
 *   t = t0 + F2 / (peak · r) · misalignment + scores · bytes / (HBM · hbm_ratio)
 * Source: reference "time-model" §3.2, §3.10 (fitted on training steps; flash 10 % of a step);
 * backward: 56 timed kernels of A100 and B200 (gemm-model §8): .85 of the forward rate at equal head
 * sizes; 192/128 another .80, as tiles of 192 for both would give (.83).
 * Wrong for short sequences (no kernel ramp) and beyond 32 k, where long kernels lose power.
 */
#pragma once
#include "costmodel/calibration.h"
#include "model/op.h"
#include <glib.h>
G_BEGIN_DECLS

typedef struct {
  double peak_flop_per_s;     /* of the dtype attention computes in */
  double hbm_bytes_per_s;     /* datasheet */
  const CostNumbers *numbers; /* (borrowed) */
} CostAttentionContext;

/* Forward, or backward with all gradients. INFINITY when the peak is 0. */
double cost_attention_s (const CostAttentionContext *context, const ModelAttentionShape *shape,
                         gboolean backward);
G_END_DECLS
