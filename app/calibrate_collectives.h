/* app/calibrate_collectives.h - use case: fit the numbers of collectives to nccl-tests figures.
 *
 * Which numbers are fitted is data: those with a spread in the catalog's calibration
 * "collective-prior" (base, hop and bandwidth per link class, hop and bandwidth per fabric, a few
 * constants; none is keyed on who measured). A maximum a posteriori fit of log errors (fit.h).
 * Cross-validated, the priors are that calibration's: folds know nothing of what they are judged
 * by. Otherwise they are the base calibration's values and spreads, so that a few figures of one's
 * own move what they speak of and leave the rest.
 */
#pragma once
#include "app/calibrate.h"
#include "app/validate_collectives.h"
#include <glib.h>
G_BEGIN_DECLS

typedef enum {
  APP_COLLECTIVE_CV_NONE,
  APP_COLLECTIVE_CV_GROUP,
  APP_COLLECTIVE_CV_MACHINE
} AppCollectiveCv;

typedef struct {
  const char *catalog_dir;
  const char *base;         /* NULL: default */
  const char *const *files; /* NULL-terminated */
  AppCollectiveCv cv;       /* GROUP: folds of whole logs (column slug), MACHINE: of machines */
  gboolean few_shot;        /* also: a left-out log after three points of one of its curves */
  const char *name;         /* of the new calibration, NULL: "fitted" */
  const char *out_dir;      /* (nullable) where NAME.ini is written */
  const char *db_path;      /* (nullable) else where it is stored */
} AppCalibrateCollectivesRequest;

typedef struct {
  AppCollectiveValidation *validation; /* (owned) as predicted by the fold that saw them not */
  GArray *parameters;                  /* (owned) AppFitted */
  AppErrorStats few_shot; /* rows over domains, of logs seen in three points; n = 0 if not asked */
  char *written;          /* (owned, nullable) */
} AppCollectiveCalibration;

AppCollectiveCalibration *app_calibrate_collectives (const AppCalibrateCollectivesRequest *request,
                                                     GError **error);
void app_collective_calibration_free (AppCollectiveCalibration *calibration);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AppCollectiveCalibration, app_collective_calibration_free)
G_END_DECLS
