/* Search points of a run: stored one by one, and found again by a run that goes on. */
#include "db/process-private.h"
#include "db/store-private.h"

gboolean
db_store_begin_search (DbDatabase *db, const DbRunRecord *run, gint64 *out_run_id, GError **error)
{
  gint64 run_id = 0;
  if (!db_sql_begin (db, "storing a run", error))
    return FALSE;
  gboolean ok = db_insert_run (db, run, &run_id, error) && db_process_claim (db, run_id, error);
  if (!db_sql_end (db, ok, "storing a run", error))
    return FALSE;
  *out_run_id = run_id;
  return TRUE;
}

/* Why an unfinished run is left alone, for its user. (owned) */
static char *
describe_left_alone (gint64 run_id, const DbProcess *process, gint64 n_points, DbProcessState state)
{
  if (state == DB_PROCESS_AT_WORK)
    return g_strdup_printf ("process %" G_GINT64_FORMAT " is at work on run %" G_GINT64_FORMAT
                            ", which asks the same: this run begins anew",
                            process->pid, run_id);
  return g_strdup_printf ("run %" G_GINT64_FORMAT ", which asks the same and has %" G_GINT64_FORMAT
                          " search points, is marked as running on host '%s' (process"
                          " %" G_GINT64_FORMAT "), and whether it still does cannot be seen from"
                          " this host or container: this run begins anew; if that one has ended,"
                          " --take-over goes on with it",
                          run_id, n_points, process->host, process->pid);
}

/* Whether the unfinished run in @row may go on here. Else *out_note (nullable: said already). */
static gboolean
is_stopped (DbStmt *row, gboolean take_over, char **out_note)
{
  const DbProcess process = db_process_of_row (row, 3);
  DbProcessState state = DB_PROCESS_GONE;
  if (g_strcmp0 ((const char *)sqlite3_column_text (row, 1), "running") == 0)
    state = db_process_state (&process);
  if (state == DB_PROCESS_GONE || (state == DB_PROCESS_UNKNOWN && take_over))
    return TRUE;
  if (*out_note == NULL)
    *out_note = describe_left_alone (sqlite3_column_int64 (row, 0), &process,
                                     sqlite3_column_int64 (row, 2), state);
  return FALSE;
}

/* Of the runs of @inputs_hash by this version since the last that was done, the stopped one with
 * most search points: 0 if there is none. */
static gboolean
find_stopped (DbDatabase *db, const char *inputs_hash, gboolean take_over, gint64 *out_run_id,
              char **out_note, GError **error)
{
  g_autoptr (DbStmt) stmt = db_sql_prepare (
      db,
      "WITH same AS (SELECT run_id, status FROM run"
      "   WHERE inputs_hash = :hash AND plait_version = :version)"
      " SELECT run_id, status, (SELECT count(*) FROM search_point p WHERE p.run_id = same.run_id),"
      "   host, pid, pid_space, start_ticks FROM same JOIN run_process USING (run_id)"
      " WHERE status IN ('running', 'interrupted')"
      "   AND run_id > (SELECT coalesce(max(run_id), 0) FROM same WHERE status = 'done')"
      " ORDER BY 3 DESC, run_id DESC",
      error);
  gboolean row = TRUE;
  *out_run_id = 0;
  if (stmt == NULL || !db_sql_bind_text (db, stmt, ":hash", inputs_hash, error)
      || !db_sql_bind_text (db, stmt, ":version", PLAIT_VERSION, error))
    return FALSE;
  while (*out_run_id == 0) {
    if (!db_sql_next (db, stmt, "looking for a stopped run", &row, error))
      return FALSE;
    if (!row)
      return TRUE;
    if (is_stopped (stmt, take_over, out_note))
      *out_run_id = sqlite3_column_int64 (stmt, 0);
  }
  return TRUE;
}

gboolean
db_store_resume_search (DbDatabase *db, const char *inputs_hash, gboolean take_over,
                        gint64 *out_run_id, char **out_note, GError **error)
{
  static const char doing[] = "going on with a run";
  g_autofree char *note = NULL;
  gint64 run_id = 0;
  if (!db_sql_begin (db, doing, error))
    return FALSE;
  gboolean ok = find_stopped (db, inputs_hash, take_over, &run_id, &note, error);
  if (ok && run_id > 0)
    ok = db_sql_run_with_id (db,
                             "UPDATE run SET status = 'running', finished_at = NULL, message = NULL"
                             " WHERE run_id = :id",
                             run_id, doing, error)
         && db_sql_run_with_id (db, "DELETE FROM rejected WHERE run_id = :id", run_id, doing, error)
         && db_process_claim (db, run_id, error);
  if (!db_sql_end (db, ok, doing, error))
    return FALSE;
  *out_run_id = run_id;
  *out_note = run_id == 0 ? g_steal_pointer (&note) : NULL;
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
