/* db/store-private.h - the steps of storing a run, for callers that hold the transaction. */
#pragma once
#include "db/sql-private.h"
#include "db/store.h"
G_BEGIN_DECLS

gboolean db_insert_run (DbDatabase *db, const DbRunRecord *run, gint64 *out_run_id, GError **error);
gboolean db_insert_plans (DbDatabase *db, gint64 run_id, const DbPlanRecord *plans, gsize n_plans,
                          gint64 *out_plan_ids, GError **error);

gboolean db_insert_rejected (DbDatabase *db, gint64 run_id, const DbRejectedRecord *rejected,
                             gsize n_rejected, GError **error);
/* @finished_at: NULL is now. */
gboolean db_finish_run (DbDatabase *db, gint64 run_id, DbRunStatus status, const char *message,
                        const char *finished_at, const DbRunCounts *counts, GError **error);
G_END_DECLS
