/* app/fixes.h - use case: what would lower the risk that a plan runs out of memory, and its price.
 *
 * Each fix changes one thing of the plan: a key of the layout, or a switch that is the user's to
 * set (growing allocator segments, the optimizer on the host). The GPUs and the batch stay.
 */
#pragma once
#include "app/predict.h"
#include <glib.h>
G_BEGIN_DECLS

typedef struct {
  char *what;         /* (owned) "recompute=full", "expandable segments", … */
  char *layout_text;  /* (owned) the plan with it */
  double step_s;      /* of the plan with it */
  double cost_ratio;  /* step_s over the plan's, less 1; negative: faster */
  double oom_risk;    /* below the plan's */
  guint64 peak_bytes; /* fullest stage, driver's view */
} AppFix;

/* Fixes that lower the risk, cheapest in time first; of equals the lower risk. Empty where the risk
 * is below 0.1 %. Returns: (owned) GPtrArray of owned AppFix, or NULL for bad input. */
GPtrArray *app_fixes (const AppPredictRequest *request, GError **error);
/* The same for a stored plan (app_stored_inputs). @catalog_dir: (nullable) */
GPtrArray *app_fixes_of_plan (DbPlan *plan, const char *catalog_dir, const char *db_path,
                              GError **error);
G_END_DECLS
