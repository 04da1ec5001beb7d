/* costmodel/memop.c - see memop.h. */
#include "costmodel/memop.h"

double
cost_memop_s (const CostNumbers *numbers, double hbm_bytes_per_s, ModelOpKind kind,
              gboolean backward, double bytes)
{
  gboolean plain = kind == MODEL_OP_CAST || kind == MODEL_OP_ADAM;
  double factor = (plain ? 1 : numbers->profile.memory_factor) * numbers->gpu.kernel_factor[kind]
                  * (backward ? numbers->gpu.kernel_backward[kind] : 1);
  return numbers->gpu.gemm.launch_s + bytes * factor / (hbm_bytes_per_s * numbers->gpu.hbm_ratio);
}
