/* Measured runs beside their predictions. */
#include "db/fields-private.h"
#include "db/store-private.h"

static gboolean
insert_rows (DbDatabase *db, gint64 run_id, const DbValidationRecord *rows, gsize n_rows,
             GError **error)
{
  g_autoptr (DbStmt) stmt
      = db_table_prepare_insert (db, &db_validation_table, "run_id", "position", error);
  if (stmt == NULL)
    return FALSE;
  for (gsize i = 0; i < n_rows; i++) {
    if (!db_sql_bind_int (db, stmt, ":position", (gint64)i, error)
        || !db_table_insert (db, stmt, &db_validation_table, run_id, &rows[i], error)) {
      g_prefix_error (error, "row '%s': ", rows[i].row_id != NULL ? rows[i].row_id : "");
      return FALSE;
    }
  }
  return TRUE;
}

gboolean
db_store_validation (DbDatabase *db, const DbRunRecord *run, const DbValidationRecord *rows,
                     gsize n_rows, const DbRejectedRecord *skipped, gsize n_skipped,
                     gint64 *out_run_id, GError **error)
{
  g_return_val_if_fail (run->status != DB_RUN_RUNNING && (guint)run->status < DB_RUN_N_STATUSES,
                        FALSE);
  gint64 run_id = 0;
  if (!db_sql_begin (db, "storing a validation", error))
    return FALSE;
  gboolean ok = db_insert_run (db, run, &run_id, error)
                && insert_rows (db, run_id, rows, n_rows, error)
                && db_finish_run (db, run_id, run->status, run->message, run->finished_at,
                                  &run->counts, error)
                && db_insert_rejected (db, run_id, skipped, n_skipped, error);
  if (!db_sql_end (db, ok, "storing a validation", error))
    return FALSE;
  if (out_run_id != NULL)
    *out_run_id = run_id;
  return TRUE;
}
