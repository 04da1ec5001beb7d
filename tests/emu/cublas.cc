/* tests/emu/cublas.cc - column-major matrix products in fp32, from fp32 or bf16. */
#include "tests/emu/stream.hh"

#include <cublas_v2.h>
#include <cuda_bf16.h>

#include <vector>

struct cublasContext {
  cudaStream_t stream;
};

static float
get (const void *from, cudaDataType type, long long at)
{
  return type == CUDA_R_32F ? ((const float *)from)[at]
                            : __bfloat162float (((const __nv_bfloat16 *)from)[at]);
}

static void
put (void *to, cudaDataType type, long long at, float value)
{
  if (type == CUDA_R_32F)
    ((float *)to)[at] = value;
  else
    ((__nv_bfloat16 *)to)[at] = __float2bfloat16 (value);
}

/* op (X)[rows, columns] row by row. */
static std::vector<float>
unpack (const void *x, cudaDataType type, bool transposed, int rows, int columns, long long ld,
        long long first)
{
  std::vector<float> out ((size_t)rows * (size_t)columns);
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < columns; c++)
      out[(size_t)r * (size_t)columns + (size_t)c]
          = get (x, type, first + (transposed ? r * ld + c : c * ld + r));
  return out;
}

cublasStatus_t
cublasCreate (cublasHandle_t *out)
{
  *out = new cublasContext{ NULL };
  emu_take (EMU_CUBLAS_BYTES);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasDestroy (cublasHandle_t handle)
{
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasSetStream (cublasHandle_t handle, cudaStream_t stream)
{
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasSetWorkspace (cublasHandle_t, void *, size_t)
{
  return CUBLAS_STATUS_SUCCESS;
}

const char *
cublasGetStatusString (cublasStatus_t)
{
  return "CUBLAS_STATUS_INVALID_VALUE";
}

cublasStatus_t
cublasGemmStridedBatchedEx (cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                            int m, int n, int k, const void *alpha, const void *a,
                            cudaDataType type_a, int lda, long long stride_a, const void *b,
                            cudaDataType type_b, int ldb, long long stride_b, const void *beta,
                            void *c, cudaDataType type_c, int ldc, long long stride_c, int batch,
                            int compute, int)
{
  const float scale = *(const float *)alpha, keep = *(const float *)beta;
  const bool turn_a = op_a == CUBLAS_OP_T, turn_b = op_b == CUBLAS_OP_T;
  /* as cuBLAS: leading dimensions reach over a column */
  if (m < 0 || n < 0 || k < 0 || lda < (turn_a ? k : m) || ldb < (turn_b ? n : k) || ldc < m
      || type_a != type_b || compute != CUBLAS_COMPUTE_32F)
    return CUBLAS_STATUS_INVALID_VALUE;
  emu_enqueue (handle->stream, [=] {
    for (int i = 0; i < batch; i++) {
      const std::vector<float> left = unpack (a, type_a, turn_a, m, k, lda, i * stride_a);
      const std::vector<float> right = unpack (b, type_b, !turn_b, n, k, ldb, i * stride_b);
      for (int y = 0; y < n; y++)
        for (int x = 0; x < m; x++) {
          const float *p = &left[(size_t)x * (size_t)k], *q = &right[(size_t)y * (size_t)k];
          const long long at = i * stride_c + (long long)y * ldc + x;
          float sum = 0;
          for (int z = 0; z < k; z++)
            sum += p[z] * q[z];
          put (c, type_c, at, scale * sum + (keep != 0 ? keep * get (c, type_c, at) : 0));
        }
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}
