/* app/calibrate_node.h - use case: measure this node, and fit the calibration to what was measured.
 *
 * Every benchmark is stored when it is done, so that an interrupted calibration goes on where it
 * stopped. What is measured next is what the fit knows least about. The result is stored under a
 * name, with every number's base value, spread and count of measurements.
 */
#pragma once
#include "app/error.h"
#include "db/store.h"
#include "exec/bench.h"
#include "exec/launch.h"
#include <glib.h>
G_BEGIN_DECLS

typedef struct {
  const char *catalog_dir;
  const char *db_path;
  const char *backend; /* "cpu", "cuda" */
  const char *machine; /* (nullable) live */
  const char *base;    /* (nullable) default: whose numbers are the priors */
  const char *name;    /* (nullable) HOST-BACKEND-RANKS */
  guint64 ranks;       /* 0: one per device, or core */
  double budget_s;     /* of measuring */
  gboolean fresh;      /* measure anew what is known already */
  gboolean from_exec;  /* measure nothing; exec runs and what was measured before */
  double timeout_s;
  const char *const *argv; /* the command line, for the ranks */
  void (*progress) (guint done, guint all, double left_s, const char *what, gpointer user_data);
  gpointer user_data; /* of progress (nullable) */
} AppCalibrateNodeRequest;

/* Errors of one kind of measurement. */
typedef struct {
  const char *kind; /* static: of op or collective, "step", … */
  guint n;
  double median_abs_err, base_median_abs_err;
} AppNodeErrors;

typedef struct {
  char *group, *key, *unit; /* (owned) */
  double value, spread, base_value, base_spread;
  char *provenance; /* (owned) fitted, measured */
  guint64 n_points;
} AppNodeValue;

typedef struct {
  gboolean is_silent; /* a rank: nothing to say */
  char *name, *base;  /* (owned) */
  char *backend, *versions;
  guint64 ranks;
  guint n_benchmarks, n_known, n_measured, n_without_result; /* of all: before, now, neither */
  guint n_exec_runs, n_points;
  double measuring_s;
  GArray *values;      /* (owned) AppNodeValue */
  GArray *errors;      /* (owned) AppNodeErrors */
  GPtrArray *warnings; /* (owned) char *: devices and links slower than their kind */
  double sigma;        /* log sd of unseen steps, NaN: unknown */
  guint64 resident_bytes[EXEC_RESIDENT_N_KINDS]; /* context 0: not known. Of rank 0 */
} AppNodeCalibration;
void app_node_calibration_free (AppNodeCalibration *calibration);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AppNodeCalibration, app_node_calibration_free)

AppNodeCalibration *app_calibrate_node (const AppCalibrateNodeRequest *request, GError **error);
/* A stored calibration: @name, "latest" (NULL). */
AppNodeCalibration *app_calibrate_show (const char *db_path, const char *name, GError **error);

/* One number of two calibrations; NaN: that one did not fit it. */
typedef struct {
  char *group, *key, *unit; /* (owned) */
  double values[2], spreads[2];
  double change_sd; /* difference of logarithms over their spreads, NaN: not in both */
} AppNodeChange;
/* Returns: (owned) array of AppNodeChange, which frees what they own. */
GArray *app_calibrate_compare (const char *db_path, const char *a, const char *b, GError **error);
G_END_DECLS
