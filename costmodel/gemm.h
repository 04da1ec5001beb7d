/* costmodel/gemm.h - time of C[m,n] = A[m,k]·B[k,n]: best of eight tiles and five K splits.
 *
 *   F = 2 b m n k; bytes = b (in (m k + k n) + out m n); b independent products, one launch
 *   e' = step · e / slowdown · max (1/2, 1 - a · max (0, log2 (F / peak / 10 us)))
 *   for (bm, bn) in 512x256 (two SMs as one), 256x256, 256x128, 128x256, 128x128, 128x64, 64x128,
 *       64x64, s in 1 2 4 8 16:
 *     tiles along m: m/bm + z (ceil (m/bm) - m/bm); along n alike     padding costs the share z
 *     w  = b · tiles along m · tiles along n · s / SMs;  W = q ceil (w) + (1-q) max (1, w)
 *     Tc = W · 2 bm bn (k/s + k0) · SMs / (peak e')                   tensor cores
 *     Tf = W · in (min (bm, m) + min (bn, n)) (k/s) slowdown / (step feed)  bytes one SM takes in
 *     Td = bytes / (eb hbm) + (s > 1 ? 2 b m n (s+1) / (eb hbm) : 0)  partial sums, half from L2
 *     T  = (Tc^p + Tf^p + Td^p)^(1/p) + (s > 1 ? ts : 0)
 *   time = t0 + min T
 *
 * Benchmarks that repeat one product find a part of it in L2. For comparing with them, bytes are
 * divided by 1 + (warm / bytes)^4, warm the part of L2 that stays warm; in a step nothing does.
 * Adding into an fp32 C moves 8 bytes per element; what shows of the 6 beyond 16-bit output is
 * accumulate_ratio. Fixed time in prologues does not shrink with the data type: k0 doubles with
 * the rate. step scales what the SM clock scales: tensor cores and feed, not DRAM.
 * Source: the form of reference "gemm-model" §2 with five more tiles and the share z, fitted to
 * 43,205 GEMMs of six GPUs in 16 bits (plait calibrate --gemm; docs/gemm.md has the errors, 4-6 %
 * median); 8 and 4 bits not measured there; step from reference "time-model". Valid from about
 * m, n, k >= 64; below, single errors reach a factor of 2.
 */
#pragma once
#include "costmodel/calibration.h"
#include <glib.h>
G_BEGIN_DECLS

typedef struct {
  double peak_flop_per_s;     /* dense, of the dtype */
  double hbm_bytes_per_s;     /* datasheet */
  double feed_bytes_per_s;    /* one SM: feed_ratio x 16-bit peak / SMs */
  guint32 sm_count;           /* >= 1 */
  const CostGemm *numbers;    /* (borrowed) */
  CostPrecision precision;    /* which ceiling */
  double in_bytes, out_bytes; /* per element of A and B; of C when not accumulating */
  gboolean accumulate;        /* C is fp32, read and written */
  double slowdown;            /* of tensor cores and feed (alignment); 1: none */
  double warm_bytes;          /* of L2, when one product is timed over and over; 0: in a step */
} CostGemmContext;

/* Seconds; 0 when a dimension is 0, INFINITY when the peak is (no such tensor cores). */
double cost_gemm_s (const CostGemmContext *context, guint64 m, guint64 n, guint64 k, guint32 batch);
G_END_DECLS
