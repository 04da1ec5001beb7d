/* costmodel/gemm.h - time of C[m,n] = A[m,k]·B[k,n]: best of three tiles and five K splits.
 *
 * Reference "gemm-model" §2: each candidate is the soft maximum of tensor-core time over whole or
 * partial waves, the time to feed the SMs, and the DRAM time; plus a launch.
 */
#pragma once
#include "costmodel/calibration.h"
#include <glib.h>
G_BEGIN_DECLS
typedef struct {
  double peak_flop_per_s;
  double hbm_bytes_per_s;
  guint32 sm_count;
  const CostGemm *numbers; /* (borrowed) */
  guint precision;         /* 0: 16-bit, 1: fp8, 2: fp4: which ceiling */
  double in_bytes, out_bytes; /* per element of A and B, of C (4 and read-modify-write when accumulating) */
  gboolean accumulate;
} CostGemmContext;
double cost_gemm_s (const CostGemmContext *context, guint64 m, guint64 n, guint64 k, guint32 batch);
G_END_DECLS
