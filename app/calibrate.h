/* app/calibrate.h - use case: fit the calibration to measured runs, and say what that is worth.
 *
 * A few physical factors (app/calibrate_parameters.c) on the numbers of a base calibration, each
 * with the base's spread as its prior; none is keyed on who measured a run, a model or a row.
 * Errors are those of predictions for rows that the fit did not see: folds never split a `group`
 * of near-identical configurations, or leave out whole families.
 */
#pragma once
#include "app/validate.h"
#include <glib.h>
G_BEGIN_DECLS

typedef enum { APP_CV_GROUP, APP_CV_FAMILY, APP_CV_NONE } AppCv;

typedef struct {
  AppValidateRequest validate; /* files, base calibration, by; phase is train */
  AppCv cv;
  const char *const *gemm; /* (nullable) times of matrix products that are fitted first, see
                              calibrate_gemm.h; NULL-terminated files and folders */
  gboolean few_shot;       /* also: a left-out family after 0, 3 and 10 of its rows */
  const char *name;        /* of the new calibration, NULL: "fitted" */
  const char *out_dir;     /* (nullable) where NAME.ini is written */
  const char *db_path;     /* (nullable) else where it is stored */
} AppCalibrateRequest;

/* One fitted factor, shown by the first number it moves. */
typedef struct {
  char *name;          /* (owned) "gpu hopper: step" */
  double value, prior; /* of that number, SI */
  double prior_sd, sd; /* of their logarithms, before and after */
  char *source;        /* (owned) */
} AppFitted;

/* Errors of families after some of their rows were seen: over all families, by row. The scored rows
 * are the same for every number seen, none of them in a group of a row that any number shows. */
typedef struct {
  guint seen;
  AppErrorStats step_time;
} AppFewShot;

typedef struct {
  AppValidation *validation; /* (owned) rows as predicted by the fold that did not see them */
  GArray *parameters;        /* (owned) AppFitted */
  GArray *few_shot;          /* (owned) AppFewShot; empty unless asked for */
  struct _AppGemmCalibration *gemm; /* (owned) (nullable) what the products gave */
  char *written;                    /* (owned, nullable) path of the file */
} AppCalibration;

AppCalibration *app_calibrate_runs (const AppCalibrateRequest *request, GError **error);
void app_calibration_free (AppCalibration *calibration);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AppCalibration, app_calibration_free)
G_END_DECLS
