/* app/validate_gemm.h - use case: predict every measured kernel, and say how far off each is.
 * Error = predicted / measured - 1, of a kernel alone on its GPU. Files: gemm_rows.h. */
#pragma once
#include "app/gemm_rows.h"
#include "app/validate.h"
#include <glib.h>
G_BEGIN_DECLS

/* m·n·k, of attention FLOPs / 2. */
typedef enum {
  APP_GEMM_SMALL,  /* below 2^30 */
  APP_GEMM_MEDIUM, /* below 2^36 */
  APP_GEMM_LARGE,
  APP_GEMM_ALL,
  APP_GEMM_N_BANDS
} AppGemmBand;
extern const char *const app_gemm_band_names[]; /* "<2^30", "2^30..2^36", ">=2^36", "all" */
extern const char *const app_kernel_names[];    /* "matmul", … by AppKernelKind */

typedef struct {
  char *gpu; /* (owned) slug */
  AppKernelKind kind;
  ModelDtype dtype;
  guint64 m, n, k;
  guint32 batch;
  double size; /* m·n·k and its like */
  double measured_s, predicted_s;
} AppGemmResult;

typedef struct {
  char *gpu; /* (owned) */
  AppKernelKind kind;
  ModelDtype dtype;
  AppGemmBand band;
  AppErrorStats stats; /* no intervals: coverage and width are NaN */
} AppGemmGroup;

typedef struct {
  guint n_rows;
  GPtrArray *rows; /* (owned) AppGemmResult *, predicted, in the files' order */
  GArray *skipped; /* (owned) AppCount */
  AppErrorStats all, large;
  GArray *groups; /* (owned) AppGemmGroup by GPU, kernel, dtype and band; band "all" last */
} AppGemmValidation;

/* @calibration (nullable): "default". @paths: NULL-terminated. Returns: (owned) or NULL. */
AppGemmValidation *app_validate_gemm (const char *catalog_dir, const char *calibration,
                                      const char *const *paths, GError **error);
void app_gemm_validation_free (AppGemmValidation *validation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AppGemmValidation, app_gemm_validation_free)

/* For fits: an empty result; rows come by add, and finish sums them up. */
AppGemmValidation *gemm_validation_new (const GemmRows *rows);
void gemm_validation_add (AppGemmValidation *out, const GemmRows *rows, guint i,
                          double predicted_s);
void gemm_validation_finish (AppGemmValidation *out);
G_END_DECLS
