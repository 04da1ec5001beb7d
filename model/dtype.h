/* model/dtype.h - number formats and their sizes. */
#pragma once
#include <glib.h>
G_BEGIN_DECLS
typedef enum {
  MODEL_DTYPE_BF16,
  MODEL_DTYPE_FP16,
  MODEL_DTYPE_FP8, /* per-tensor or block scaling: GEMM inputs in 8 bits */
  MODEL_DTYPE_MXFP8,
  MODEL_DTYPE_NVFP4,
  MODEL_DTYPE_FP32,
  MODEL_DTYPE_UINT8, /* from here on never a layout's dtype: masks, one byte each; */
  MODEL_DTYPE_INT64, /* token ids */
  MODEL_DTYPE_N_KINDS
} ModelDtype;
const char *model_dtype_name (ModelDtype dtype);
/* Names of the dtypes that a layout may ask for, in the enum's order; NULL-terminated. */
extern const char *const model_dtype_names[];
/* Bits of one element as stored (nvfp4: 4, without scales). */
guint model_dtype_bits (ModelDtype dtype);
/* What activations and parameters are kept in when GEMMs run in @dtype: fp8 and fp4 GEMMs live
 * in a 16-bit model. */
ModelDtype model_dtype_storage (ModelDtype dtype);
G_END_DECLS
