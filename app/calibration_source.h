/* app/calibration_source.h - where the calibration called so comes from.
 *
 * "default", another slug of the catalog, or a file; else one that the database holds; "latest" is
 * the newest that calibrate stored, of this machine if there is one. A database is opened only
 * where its path is given.
 */
#pragma once
#include "costmodel/calibration.h"
G_BEGIN_DECLS
/* @name: (nullable) default. @db_path: (nullable). @machine: for "latest". Returns: (owned). */
CostCalibration *app_calibration_load (const BaseCatalog *catalog, const char *name,
                                       const char *db_path, const TopoMachine *machine,
                                       GError **error);
/* A calibration that was fitted to files, to be stored. All borrowed. */
typedef struct {
  const char *db_path, *name, *base;
  const GArray *values; /* AppFitted */
  double median_abs_err;
} AppStoredFit;
/* Names @calibration and stores it with its values, as a run of its own. */
gboolean app_calibration_store_fit (CostCalibration *calibration, const AppStoredFit *fit,
                                    const char *source, GError **error);
G_END_DECLS
