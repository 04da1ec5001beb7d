/* exec/cuda/gemm.c - linear layers through cuBLAS. Our tensors are row-major, cuBLAS' are
 * column-major: it is asked for the transpose of C, operands in the other order. */
#include "exec/cuda/gemm-private.h"

static cublasOperation_t
operation (gboolean transposed)
{
  return transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

void
cuda_gemm (const CudaGemm *g)
{
  const float one = 1;
  cublasStatus_t status
      = cublasGemmStridedBatchedEx (cuda_device.cublas, operation (g->transpose_b),
                                    operation (g->transpose_a), (int)g->n, (int)g->m, (int)g->k,
                                    &one, g->b, g->type, (int)g->ldb, g->stride_b, g->a, g->type,
                                    (int)g->lda, g->stride_a, &g->beta, g->c, g->type_c,
                                    (int)g->ldc, g->stride_c, (int)g->batch, CUBLAS_COMPUTE_32F,
                                    CUBLAS_GEMM_DEFAULT);
  if (status != CUBLAS_STATUS_SUCCESS)
    cuda_note ("cublasGemmStridedBatchedEx", cublasGetStatusString (status));
}

#define EXPORT(P, TYPE)                                                                            \
  void P##_gemm (gboolean transpose_a, gboolean transpose_b, guint64 m, guint64 n, guint64 k,      \
                 const void *a, guint64 lda, const void *b, guint64 ldb, float beta, void *c,      \
                 guint64 ldc)                                                                      \
  {                                                                                                \
    cuda_gemm (&(CudaGemm){ transpose_a, transpose_b, m, n, k, a, lda, 0, b, ldb, 0, beta, c, ldc, \
                            0, TYPE, TYPE, 1 });                                                   \
  }                                                                                                \
  void P##_gemm_wide (gboolean transpose_a, gboolean transpose_b, guint64 m, guint64 n, guint64 k, \
                      const void *a, guint64 lda, const void *b, guint64 ldb, float beta,          \
                      float *c, guint64 ldc)                                                       \
  {                                                                                                \
    cuda_gemm (&(CudaGemm){ transpose_a, transpose_b, m, n, k, a, lda, 0, b, ldb, 0, beta, c, ldc, \
                            0, TYPE, CUDA_R_32F, 1 });                                             \
  }
EXPORT (f32, CUDA_R_32F)
EXPORT (bf16, CUDA_R_16BF)
