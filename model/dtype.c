/* model/dtype.c - names and sizes of number formats. */
#include "model/dtype.h"

static const char *const names[MODEL_DTYPE_N_KINDS]
    = { "bf16", "fp16", "fp8", "mxfp8", "nvfp4", "fp32", "uint8", "int64" };
const char *const model_dtype_names[] = { "bf16", "fp16", "fp8", "mxfp8", "nvfp4", "fp32", NULL };

typedef struct {
  guint bits;
  ModelDtype storage;
} DtypeFacts;

/* Sizes: IEEE 754 (fp16, fp32), bfloat16, OCP 8-bit and MX formats, NVFP4 (E2M1 elements). */
static const DtypeFacts facts[MODEL_DTYPE_N_KINDS] = {
  [MODEL_DTYPE_BF16] = { 16, MODEL_DTYPE_BF16 },  [MODEL_DTYPE_FP16] = { 16, MODEL_DTYPE_FP16 },
  [MODEL_DTYPE_FP8] = { 8, MODEL_DTYPE_BF16 },    [MODEL_DTYPE_MXFP8] = { 8, MODEL_DTYPE_BF16 },
  [MODEL_DTYPE_NVFP4] = { 4, MODEL_DTYPE_BF16 },  [MODEL_DTYPE_FP32] = { 32, MODEL_DTYPE_FP32 },
  [MODEL_DTYPE_UINT8] = { 8, MODEL_DTYPE_UINT8 }, [MODEL_DTYPE_INT64] = { 64, MODEL_DTYPE_INT64 },
};

const char *
model_dtype_name (ModelDtype dtype)
{
  g_return_val_if_fail ((guint)dtype < MODEL_DTYPE_N_KINDS, "?");
  return names[dtype];
}

guint
model_dtype_bits (ModelDtype dtype)
{
  g_return_val_if_fail ((guint)dtype < MODEL_DTYPE_N_KINDS, 0);
  return facts[dtype].bits;
}

ModelDtype
model_dtype_storage (ModelDtype dtype)
{
  g_return_val_if_fail ((guint)dtype < MODEL_DTYPE_N_KINDS, dtype);
  return facts[dtype].storage;
}
