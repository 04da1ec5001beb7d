/* Search points of a run: stored one by one, and found again by a run that goes on. */
#include "db/store-private.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

/* ---- whose run it is ---- */

static gboolean
claim (DbDatabase *db, gint64 run_id, GError **error)
{
  g_autoptr (DbStmt) stmt
      = db_sql_prepare (db,
                        "INSERT INTO search_process (run_id, host, pid)"
                        " VALUES (:run_id, :host, :pid)"
                        " ON CONFLICT DO UPDATE SET host = excluded.host, pid = excluded.pid",
                        error);
  return stmt != NULL && db_sql_bind_int (db, stmt, ":run_id", run_id, error)
         && db_sql_bind_text (db, stmt, ":host", g_get_host_name (), error)
         && db_sql_bind_int (db, stmt, ":pid", getpid (), error)
         && db_sql_run (db, stmt, "storing a run", error);
}

gboolean
db_store_begin_search (DbDatabase *db, const DbRunRecord *run, gint64 *out_run_id, GError **error)
{
  gint64 run_id = 0;
  if (!db_sql_begin (db, "storing a run", error))
    return FALSE;
  gboolean ok = db_insert_run (db, run, &run_id, error) && claim (db, run_id, error);
  if (!db_sql_end (db, ok, "storing a run", error))
    return FALSE;
  *out_run_id = run_id;
  return TRUE;
}

/* A run that says "running" goes on by itself unless its process is known to be gone. */
static gboolean
is_stopped (DbStmt *row)
{
  const char *status = (const char *)sqlite3_column_text (row, 1);
  const char *host = (const char *)sqlite3_column_text (row, 2);
  if (g_strcmp0 (status, "interrupted") == 0)
    return TRUE;
  if (g_strcmp0 (status, "running") != 0 || g_strcmp0 (host, g_get_host_name ()) != 0)
    return FALSE;
  return kill ((pid_t)sqlite3_column_int64 (row, 3), 0) != 0 && errno == ESRCH;
}

/* The newest run of @inputs_hash by this version, 0 unless it was stopped. */
static gboolean
find_stopped (DbDatabase *db, const char *inputs_hash, gint64 *out_run_id, GError **error)
{
  g_autoptr (DbStmt) stmt = db_sql_prepare (
      db,
      "SELECT run_id, status, host, pid FROM run JOIN search_process USING (run_id)"
      " WHERE inputs_hash = :hash AND plait_version = :version ORDER BY run_id DESC LIMIT 1",
      error);
  gboolean row = FALSE;
  *out_run_id = 0;
  if (stmt == NULL || !db_sql_bind_text (db, stmt, ":hash", inputs_hash, error)
      || !db_sql_bind_text (db, stmt, ":version", PLAIT_VERSION, error)
      || !db_sql_next (db, stmt, "looking for a stopped run", &row, error))
    return FALSE;
  if (row && is_stopped (stmt))
    *out_run_id = sqlite3_column_int64 (stmt, 0);
  return TRUE;
}

gboolean
db_store_resume_search (DbDatabase *db, const char *inputs_hash, gint64 *out_run_id, GError **error)
{
  static const char doing[] = "going on with a run";
  gint64 run_id = 0;
  if (!db_sql_begin (db, doing, error))
    return FALSE;
  gboolean ok = find_stopped (db, inputs_hash, &run_id, error);
  if (ok && run_id > 0)
    ok = db_sql_run_with_id (db,
                             "UPDATE run SET status = 'running', finished_at = NULL, message = NULL"
                             " WHERE run_id = :id",
                             run_id, doing, error)
         && db_sql_run_with_id (db, "DELETE FROM rejected WHERE run_id = :id", run_id, doing, error)
         && claim (db, run_id, error);
  if (!db_sql_end (db, ok, doing, error))
    return FALSE;
  *out_run_id = run_id;
  return TRUE;
}

/* ---- points ---- */

static gboolean
insert_point (DbDatabase *db, gint64 run_id, const char *hash, const char *answer,
              gint64 first_plan_id, gsize n_plans, GError **error)
{
  g_autoptr (DbStmt) stmt = db_sql_prepare (
      db,
      "INSERT INTO search_point (run_id, point_hash, answer, first_plan_id, plan_count)"
      " VALUES (:run_id, :hash, :answer, nullif (:first, 0), :count)",
      error);
  return stmt != NULL && db_sql_bind_int (db, stmt, ":run_id", run_id, error)
         && db_sql_bind_text (db, stmt, ":hash", hash, error)
         && db_sql_bind_text (db, stmt, ":answer", answer, error)
         && db_sql_bind_int (db, stmt, ":first", first_plan_id, error)
         && db_sql_bind_int (db, stmt, ":count", (gint64)n_plans, error)
         && db_sql_run (db, stmt, "storing a search point", error);
}

gboolean
db_store_point (DbDatabase *db, gint64 run_id, const char *point_hash, const char *answer,
                const DbPlanRecord *plans, gsize n_plans, gint64 *out_plan_ids, GError **error)
{
  if (!db_sql_begin (db, "storing a search point", error))
    return FALSE;
  gboolean ok = db_insert_plans (db, run_id, plans, n_plans, out_plan_ids, error)
                && insert_point (db, run_id, point_hash, answer, n_plans > 0 ? out_plan_ids[0] : 0,
                                 n_plans, error);
  return db_sql_end (db, ok, "storing a search point", error);
}

gboolean
db_load_point (DbDatabase *db, gint64 run_id, const char *point_hash, char **out_answer,
               gint64 *out_first_plan_id, gsize *out_n_plans, GError **error)
{
  g_autoptr (DbStmt) stmt
      = db_sql_prepare (db,
                        "SELECT answer, first_plan_id, plan_count FROM search_point"
                        " WHERE run_id = :run_id AND point_hash = :hash",
                        error);
  gboolean row = FALSE;
  *out_answer = NULL;
  if (stmt == NULL || !db_sql_bind_int (db, stmt, ":run_id", run_id, error)
      || !db_sql_bind_text (db, stmt, ":hash", point_hash, error)
      || !db_sql_next (db, stmt, "reading a search point", &row, error))
    return FALSE;
  if (!row)
    return TRUE;
  *out_answer = g_strdup ((const char *)sqlite3_column_text (stmt, 0));
  *out_first_plan_id = sqlite3_column_int64 (stmt, 1);
  *out_n_plans = (gsize)sqlite3_column_int64 (stmt, 2);
  return TRUE;
}
