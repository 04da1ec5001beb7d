/* exec/cuda/gemm-private.h - a batch of matrix products on the compute stream. */
#pragma once
#include "exec/cuda/device-private.h"
G_BEGIN_DECLS
/* C[m,n] = op(A)·op(B) + beta·C, row-major, summed in fp32; leading dimensions and strides between
 * the matrices of the batch in elements. */
typedef struct {
  gboolean transpose_a, transpose_b;
  guint64 m, n, k;
  const void *a;
  guint64 lda;
  long long stride_a;
  const void *b;
  guint64 ldb;
  long long stride_b;
  float beta;
  void *c;
  guint64 ldc;
  long long stride_c;
  cudaDataType type, type_c;
  guint64 batch;
} CudaGemm;
void cuda_gemm (const CudaGemm *gemm);
G_END_DECLS
