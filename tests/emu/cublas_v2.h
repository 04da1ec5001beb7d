/* tests/emu/cublas_v2.h - the part of cuBLAS that exec/cuda/ uses. */
#pragma once
#include <cuda_runtime.h>
#ifdef __cplusplus
extern "C" {
#endif
#define CUBLAS_VERSION 130000
typedef struct cublasContext *cublasHandle_t;
typedef enum {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_INVALID_VALUE = 7,
} cublasStatus_t;
typedef enum { CUBLAS_OP_N, CUBLAS_OP_T } cublasOperation_t;
enum { CUBLAS_COMPUTE_32F = 68, CUBLAS_GEMM_DEFAULT = -1 };
cublasStatus_t cublasCreate (cublasHandle_t *out);
cublasStatus_t cublasDestroy (cublasHandle_t handle);
cublasStatus_t cublasSetStream (cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSetWorkspace (cublasHandle_t handle, void *workspace, size_t bytes);
const char *cublasGetStatusString (cublasStatus_t status);
/* Column-major: C[m,n] = alpha·op(A)·op(B) + beta·C. */
cublasStatus_t cublasGemmStridedBatchedEx (
    cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
    const void *alpha, const void *a, cudaDataType type_a, int lda, long long stride_a,
    const void *b, cudaDataType type_b, int ldb, long long stride_b, const void *beta, void *c,
    cudaDataType type_c, int ldc, long long stride_c, int batch, int compute, int algorithm);
#ifdef __cplusplus
}
#endif
