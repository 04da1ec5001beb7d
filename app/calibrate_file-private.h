/* app/calibrate_file-private.h - what every fit reports and writes. */
#pragma once
#include "app/calibrate.h"
#include "costmodel/calibration.h"
G_BEGIN_DECLS
/* Returns: (owned) array of AppFitted that frees what they own. */
GArray *calibrate_fitted_new (void);
/* Four digits: more would claim what no run can tell. */
double calibrate_rounded (double value);
/* @calibration as @out_dir/@name.ini ("fitted.ini" for NULL), named so, with @source as its origin.
 * @out_written: (out) (owned) the path */
gboolean calibrate_write (CostCalibration *calibration, const char *name, const char *source,
                          const char *out_dir, char **out_written, GError **error);
G_END_DECLS
