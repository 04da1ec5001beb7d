/* model/dtype.c - names and sizes of number formats. */
#include "model/dtype.h"

typedef struct {
  const char *name;
  guint bits;
  ModelDtype storage;
  gboolean in_layouts; /* may a layout ask for it */
} DtypeFacts;

/* Sizes: IEEE 754 (fp16, fp32), bfloat16, OCP 8-bit and MX formats, NVFP4 (E2M1 elements). */
static const DtypeFacts facts[MODEL_DTYPE_N_KINDS] = {
  [MODEL_DTYPE_BF16] = { "bf16", 16, MODEL_DTYPE_BF16, TRUE },
  [MODEL_DTYPE_FP16] = { "fp16", 16, MODEL_DTYPE_FP16, TRUE },
  [MODEL_DTYPE_FP8] = { "fp8", 8, MODEL_DTYPE_BF16, TRUE },
  [MODEL_DTYPE_MXFP8] = { "mxfp8", 8, MODEL_DTYPE_BF16, TRUE },
  [MODEL_DTYPE_NVFP4] = { "nvfp4", 4, MODEL_DTYPE_BF16, TRUE },
  [MODEL_DTYPE_FP32] = { "fp32", 32, MODEL_DTYPE_FP32, TRUE },
  [MODEL_DTYPE_UINT8] = { "uint8", 8, MODEL_DTYPE_UINT8, FALSE },
  [MODEL_DTYPE_INT64] = { "int64", 64, MODEL_DTYPE_INT64, FALSE },
};

const char *
model_dtype_name (ModelDtype dtype)
{
  g_return_val_if_fail ((guint)dtype < MODEL_DTYPE_N_KINDS, "?");
  return facts[dtype].name;
}

gboolean
model_dtype_parse (const char *text, ModelDtype *out)
{
  for (guint i = 0; i < MODEL_DTYPE_N_KINDS; i++)
    if (facts[i].in_layouts && g_str_equal (text, facts[i].name)) {
      *out = (ModelDtype)i;
      return TRUE;
    }
  return FALSE;
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
