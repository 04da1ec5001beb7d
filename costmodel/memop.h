/* costmodel/memop.h - time of a kernel that only moves bytes.
 *
 *   t = t0 + bytes / (HBM · hbm_ratio) · kernel · factor
 *
 * factor is the profile's memory_factor (how well its pointwise kernels run and fuse) for norms,
 * activations, residuals and the like; 1 for plain copies and the optimizer, which are one good
 * kernel everywhere. kernel is the device's own factor of the kind, times that of its backward (1 unless
 * calibrated: a forward with exponentials in it may take longer than its bytes, its backward not).
 * Source: reference "time-model" §3.7, §3.12.
 */
#pragma once
#include "costmodel/calibration.h"
#include "model/op.h"
#include <glib.h>
G_BEGIN_DECLS
double cost_memop_s (const CostNumbers *numbers, double hbm_bytes_per_s, ModelOpKind kind,
                     gboolean backward, double bytes);
G_END_DECLS
