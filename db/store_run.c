/* Runs: begin, finish, or all at once. */
#include "base/hash.h"
#include "db/fields-private.h"
#include "db/store-private.h"

static const char *const status_names[] = { "running", "done", "failed", "interrupted" };
G_STATIC_ASSERT (G_N_ELEMENTS (status_names) == DB_RUN_N_STATUSES);

const char *
db_run_status_name (DbRunStatus status)
{
  g_return_val_if_fail ((guint)status < DB_RUN_N_STATUSES, NULL);
  return status_names[status];
}

char *
db_now_utc (void)
{
  g_autoptr (GDateTime) now = g_date_time_new_now_utc ();
  return g_date_time_format (now, "%Y-%m-%dT%H:%M:%SZ");
}

gboolean
db_insert_run (DbDatabase *db, const DbRunRecord *run, gint64 *out_run_id, GError **error)
{
  g_autofree char *now = db_now_utc ();
  g_autofree char *hash = base_hash_text (run->inputs != NULL ? run->inputs : "");
  g_autoptr (DbStmt) stmt = db_sql_prepare (
      db,
      "INSERT INTO run (command, inputs, inputs_hash, plait_version, status, started_at)"
      " VALUES (:command, :inputs, :inputs_hash, :plait_version, 'running', :started_at)",
      error);
  if (stmt == NULL || !db_sql_bind_text (db, stmt, ":command", run->command, error)
      || !db_sql_bind_text (db, stmt, ":inputs", run->inputs, error)
      || !db_sql_bind_text (db, stmt, ":inputs_hash",
                            run->inputs_hash != NULL ? run->inputs_hash : hash, error)
      || !db_sql_bind_text (db, stmt, ":plait_version",
                            run->plait_version != NULL ? run->plait_version : PLAIT_VERSION, error)
      || !db_sql_bind_text (db, stmt, ":started_at",
                            run->started_at != NULL ? run->started_at : now, error)
      || !db_sql_run (db, stmt, "storing a run", error))
    return FALSE;
  *out_run_id = sqlite3_last_insert_rowid (db->handle);
  return TRUE;
}

gboolean
db_insert_rejected (DbDatabase *db, gint64 run_id, const DbRejectedRecord *rejected,
                    gsize n_rejected, GError **error)
{
  g_autoptr (DbStmt) stmt = db_sql_prepare (
      db,
      "INSERT INTO rejected (run_id, reason, count) VALUES (:run_id, :reason, :count)"
      " ON CONFLICT DO UPDATE SET count = count + excluded.count",
      error);
  if (stmt == NULL)
    return FALSE;
  for (gsize i = 0; i < n_rejected; i++)
    if (rejected[i].count > 0
        && !db_table_insert (db, stmt, &db_rejected_table, run_id, &rejected[i], error))
      return FALSE;
  return TRUE;
}

/* Fails unless the last statement changed a row: the run is not there or has ended. */
static gboolean
require_changed (DbDatabase *db, gint64 run_id, GError **error)
{
  if (sqlite3_changes64 (db->handle) == 1)
    return TRUE;
  g_set_error (error, DB_ERROR, DB_ERROR_NOT_FOUND,
               "database '%s': no running run %" G_GINT64_FORMAT, db->path, run_id);
  return FALSE;
}

static DbStmt *
prepare_finish (DbDatabase *db, GError **error)
{
  g_autoptr (GString) sql = g_string_new ("UPDATE run SET ");
  for (guint i = 0; i < db_run_counts_table.n_fields; i++) {
    const char *column = db_run_counts_table.fields[i].column;
    g_string_append_printf (sql, "%s = :%s, ", column, column);
  }
  g_string_append (sql, "status = :status, message = :message, finished_at = :finished_at"
                        " WHERE run_id = :run_id AND status = 'running'");
  return db_sql_prepare (db, sql->str, error);
}

gboolean
db_finish_run (DbDatabase *db, gint64 run_id, DbRunStatus status, const char *message,
               const char *finished_at, const DbRunCounts *counts, GError **error)
{
  g_autofree char *now = db_now_utc ();
  g_autoptr (DbStmt) stmt = prepare_finish (db, error);
  return stmt != NULL && db_table_bind (db, stmt, 1, &db_run_counts_table, counts, error)
         && db_sql_bind_text (db, stmt, ":status", db_run_status_name (status), error)
         && db_sql_bind_text (db, stmt, ":message", message, error)
         && db_sql_bind_text (db, stmt, ":finished_at", finished_at != NULL ? finished_at : now,
                              error)
         && db_sql_bind_int (db, stmt, ":run_id", run_id, error)
         && db_sql_run (db, stmt, "finishing a run", error) && require_changed (db, run_id, error);
}

gboolean
db_store_begin_run (DbDatabase *db, const DbRunRecord *run, gint64 *out_run_id, GError **error)
{
  gint64 run_id = 0;
  if (!db_sql_begin (db, "storing a run", error))
    return FALSE;
  gboolean ok = db_insert_run (db, run, &run_id, error);
  if (!db_sql_end (db, ok, "storing a run", error))
    return FALSE;
  *out_run_id = run_id;
  return TRUE;
}

gboolean
db_store_finish_run (DbDatabase *db, gint64 run_id, DbRunStatus status, const char *message,
                     const DbRunCounts *counts, const DbRejectedRecord *rejected, gsize n_rejected,
                     GError **error)
{
  g_return_val_if_fail (status != DB_RUN_RUNNING && (guint)status < DB_RUN_N_STATUSES, FALSE);
  if (!db_sql_begin (db, "finishing a run", error))
    return FALSE;
  gboolean ok = db_finish_run (db, run_id, status, message, NULL, counts, error)
                && db_insert_rejected (db, run_id, rejected, n_rejected, error);
  return db_sql_end (db, ok, "finishing a run", error);
}

gboolean
db_store_whole_run (DbDatabase *db, const DbRunRecord *run, const DbPlanRecord *plans,
                    gsize n_plans, const DbRejectedRecord *rejected, gsize n_rejected,
                    gint64 *out_run_id, gint64 *out_plan_ids, GError **error)
{
  g_return_val_if_fail (run->status != DB_RUN_RUNNING && (guint)run->status < DB_RUN_N_STATUSES,
                        FALSE);
  gint64 run_id = 0;
  if (!db_sql_begin (db, "storing a run", error))
    return FALSE;
  gboolean ok = db_insert_run (db, run, &run_id, error)
                && db_insert_plans (db, run_id, plans, n_plans, out_plan_ids, error)
                && db_finish_run (db, run_id, run->status, run->message, run->finished_at,
                                  &run->counts, error)
                && db_insert_rejected (db, run_id, rejected, n_rejected, error);
  if (!db_sql_end (db, ok, "storing a run", error))
    return FALSE;
  if (out_run_id != NULL)
    *out_run_id = run_id;
  return TRUE;
}
