/* app/node_result-private.h - what a calibration of a node says and stores. */
#pragma once
#include "app/calibrate_node.h"
#include "app/node-private.h"
G_BEGIN_DECLS
AppNodeCalibration *node_result_new (void); /* (owned) empty */
void node_result_fill (AppNodeCalibration *out, const NodeFit *fit, const GPtrArray *benches,
                       const char *backend);
/* Ends the run with the calibration, its values and its residuals. */
gboolean node_result_store (DbDatabase *db, gint64 run_id, const NodeFit *fit,
                            const AppNodeCalibration *out, const char *source, GError **error);
void node_result_add_value (AppNodeCalibration *out, const char *group, const char *key,
                            const char *unit, double value, double spread, double base_value,
                            double base_spread, const char *provenance, guint64 n_points);
/* Medians of the errors by kind, steps first. @kinds, …: @n each. */
void node_result_add_errors (AppNodeCalibration *out, const char *const *kinds,
                             const double *measured_s, const double *predicted_s,
                             const double *base_s, guint n);
/* Devices and links that are slower than the others (app/node_slow.c). */
void node_slow_find (const GPtrArray *benches, guint32 ranks, const char *backend,
                     GPtrArray *warnings);
G_END_DECLS
