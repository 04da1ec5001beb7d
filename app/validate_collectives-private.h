/* app/validate_collectives-private.h - shared with the fit: rows to results. */
#pragma once
#include "app/collective_rows.h"
#include "app/validate_collectives.h"
G_BEGIN_DECLS
/* An empty result; rows come by add, in any number of calls, and finish sums them up. */
AppCollectiveValidation *collective_validation_new (const CollectiveRows *rows);
/* Row @i as predicted by the numbers that rows->settings have now. */
void collective_validation_add (AppCollectiveValidation *out, const CollectiveRows *rows, guint i,
                                double predicted_s);
void collective_validation_finish (AppCollectiveValidation *out);
/* Statistics of the rows that @filter accepts. */
typedef gboolean (*CollectiveFilter) (const AppCollectiveRow *row, gconstpointer data);
void collective_stats (AppErrorStats *out, const GPtrArray *rows, CollectiveFilter filter,
                       gconstpointer data);
G_END_DECLS
