/* costmodel/gemm_memo.h - times of products that have been asked for, for who prices many templates.
 *
 * Layouts of one model multiply few different shapes: sequence parallelism, recompute and what
 * trades cp for micro-batch size change none. A memo is for one (machine, calibration, profile):
 * its keys are what else decides a product's time. For one thread.
 */
#pragma once
#include "model/op.h"
#include <glib.h>
G_BEGIN_DECLS

typedef struct {
  guint64 m, n, k; /* m 0: empty */
  guint32 batch;
  guint16 dtype; /* ModelDtype */
  gboolean accumulate;
  double slowdown;
} CostGemmKey;

typedef struct _CostGemmMemo CostGemmMemo;
CostGemmMemo *cost_gemm_memo_new (void);
void cost_gemm_memo_free (CostGemmMemo *memo);
/* Where the time of @key is: @out_known says whether it has been written. The caller writes it
 * where it has not. Valid until the next call. */
double *cost_gemm_memo_at (CostGemmMemo *memo, const CostGemmKey *key, gboolean *out_known);
G_END_DECLS
