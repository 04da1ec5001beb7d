/* A stored run, read back. */
#include "db/fields-private.h"
#include "db/store.h"

void
db_run_free (DbRun *run)
{
  if (run == NULL)
    return;
  g_clear_pointer (&run->strings, g_string_chunk_free);
  g_free (run->rejected);
  g_free (run);
}

static const char *
copy_text (DbStmt *stmt, int column, GStringChunk *strings)
{
  const char *text = (const char *)sqlite3_column_text (stmt, column);
  return text != NULL ? g_string_chunk_insert (strings, text) : NULL;
}

static DbRunStatus
status_from_name (const char *name)
{
  for (guint i = 0; i < DB_RUN_N_STATUSES; i++)
    if (g_strcmp0 (name, db_run_status_name ((DbRunStatus)i)) == 0)
      return (DbRunStatus)i;
  return DB_RUN_FAILED; /* the schema lets no other name in */
}

/* The columns of "run" that are not counts. */
static gboolean
load_head (DbDatabase *db, gint64 run_id, DbRun *out, GError **error)
{
  g_autoptr (DbStmt) stmt
      = db_sql_prepare (db,
                        "SELECT command, inputs, inputs_hash, plait_version, status, started_at,"
                        " finished_at, message FROM run WHERE run_id = :run_id",
                        error);
  gboolean row = FALSE;
  if (stmt == NULL || !db_sql_bind_int (db, stmt, ":run_id", run_id, error)
      || !db_sql_next (db, stmt, "reading a run", &row, error))
    return FALSE;
  if (!row) {
    g_set_error (error, DB_ERROR, DB_ERROR_NOT_FOUND, "database '%s': no run %" G_GINT64_FORMAT,
                 db->path, run_id);
    return FALSE;
  }
  DbRunRecord *run = &out->run;
  run->run_id = run_id;
  run->command = copy_text (stmt, 0, out->strings);
  run->inputs = copy_text (stmt, 1, out->strings);
  run->inputs_hash = copy_text (stmt, 2, out->strings);
  run->plait_version = copy_text (stmt, 3, out->strings);
  run->status = status_from_name ((const char *)sqlite3_column_text (stmt, 4));
  run->started_at = copy_text (stmt, 5, out->strings);
  run->finished_at = copy_text (stmt, 6, out->strings);
  run->message = copy_text (stmt, 7, out->strings);
  return TRUE;
}

static gboolean
load_counts (DbDatabase *db, gint64 run_id, DbRun *out, GError **error)
{
  g_autoptr (DbStmt) stmt
      = db_table_prepare_select (db, &db_run_counts_table, "run_id", NULL, error);
  gboolean row = FALSE;
  if (stmt == NULL || !db_sql_bind_int (db, stmt, ":key", run_id, error)
      || !db_sql_next (db, stmt, "reading a run", &row, error))
    return FALSE;
  if (row)
    db_table_read (stmt, 0, &db_run_counts_table, &out->run.counts, out->strings);
  return TRUE;
}

static gboolean
load_rejected (DbDatabase *db, gint64 run_id, DbRun *out, GError **error)
{
  g_autoptr (GArray) rows = g_array_new (FALSE, TRUE, sizeof (DbRejectedRecord));
  g_autoptr (DbStmt) stmt
      = db_table_prepare_select (db, &db_rejected_table, "run_id", "count DESC, reason", error);
  if (stmt == NULL || !db_sql_bind_int (db, stmt, ":key", run_id, error))
    return FALSE;
  for (;;) {
    DbRejectedRecord rejected = { 0 };
    gboolean row = FALSE;
    if (!db_sql_next (db, stmt, "reading a run", &row, error))
      return FALSE;
    if (!row)
      break;
    db_table_read (stmt, 0, &db_rejected_table, &rejected, out->strings);
    g_array_append_val (rows, rejected);
  }
  out->n_rejected = rows->len;
  out->rejected = (DbRejectedRecord *)(void *)g_array_free (g_steal_pointer (&rows), FALSE);
  return TRUE;
}

DbRun *
db_load_run (DbDatabase *db, gint64 run_id, GError **error)
{
  g_autoptr (DbRun) out = g_new0 (DbRun, 1);
  out->strings = g_string_chunk_new (1024);
  if (!db_sql_exec (db, "BEGIN", "reading a run", error))
    return NULL;
  gboolean ok = load_head (db, run_id, out, error) && load_counts (db, run_id, out, error)
                && load_rejected (db, run_id, out, error);
  return db_sql_end (db, ok, "reading a run", error) ? g_steal_pointer (&out) : NULL;
}
