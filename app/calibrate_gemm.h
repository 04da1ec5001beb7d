/* app/calibrate_gemm.h - use case: fit the numbers of matrix products to their measured times.
 *
 * Ten numbers per GPU (costmodel/gemm.h; an eleventh where the calibration says that part of L2
 * stays warm between repetitions), the same for each generation of which a GPU was measured, over
 * all its GPUs, and for [gpu default], over all whose L2 does not stay warm, where there are several
 * generations. A maximum a posteriori fit of log errors (fit.h), close to the median (small Huber constant); products of
 * m·n·k >= 2^36, where training spends its time, count twice.
 * Cross-validated, priors are [gpu default]'s with a wide spread: folds know nothing of what they
 * are judged by. Otherwise they are the base calibration's numbers and spreads, so that a few of
 * one's own times move what they speak of.
 */
#pragma once
#include "app/calibrate.h"
#include "app/validate_gemm.h"
#include <glib.h>
G_BEGIN_DECLS

typedef enum {
  APP_GEMM_CV_NONE,
  APP_GEMM_CV_SHAPE, /* folds of whole (n, k): every m of one in the same fold */
  APP_GEMM_CV_GPU,   /* a GPU by the others of its generation, else by all others */
} AppGemmCv;

typedef struct {
  const char *catalog_dir;
  const char *base;         /* NULL: default */
  const char *const *paths; /* NULL-terminated files and folders, see gemm_rows.h */
  AppGemmCv cv;
  const char *name;    /* of the new calibration, NULL: "fitted" */
  const char *out_dir; /* (nullable) where NAME.ini is written */
  const char *db_path; /* (nullable) without out_dir: the database it goes to */
} AppCalibrateGemmRequest;

typedef struct _AppGemmCalibration {
  AppGemmValidation *validation; /* (owned) as predicted by the fit that saw them not */
  GPtrArray *alone;   /* (owned) char *: GPUs that CV_GPU predicted from other generations */
  GArray *parameters; /* (owned) AppFitted */
  char *written;      /* (owned, nullable) */
} AppGemmCalibration;

AppGemmCalibration *app_calibrate_gemm (const AppCalibrateGemmRequest *request, GError **error);
/* The same, into @calibration instead of a file: what a fit to whole runs starts from. */
AppGemmCalibration *app_calibrate_gemm_into (const AppCalibrateGemmRequest *request,
                                             CostCalibration *calibration, GError **error);
void app_gemm_calibration_free (AppGemmCalibration *calibration);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AppGemmCalibration, app_gemm_calibration_free)
G_END_DECLS
