/* Plans that were run: a row before the run, its numbers after it. */
#include "db/fields-private.h"
#include "db/process-private.h"
#include "db/store-private.h"

gboolean
db_store_begin_exec (DbDatabase *db, const DbRunRecord *run, const DbExecRecord *exec,
                     gint64 *out_run_id, GError **error)
{
  gint64 run_id = 0;
  if (!db_sql_begin (db, "storing a run", error))
    return FALSE;
  gboolean ok = db_insert_run (db, run, &run_id, error) && db_process_claim (db, run_id, error);
  g_autoptr (DbStmt) stmt
      = ok ? db_table_prepare_insert (db, &db_exec_table, "run_id", NULL, error) : NULL;
  ok = stmt != NULL && db_table_insert (db, stmt, &db_exec_table, run_id, exec, error);
  if (!db_sql_end (db, ok, "storing a run", error))
    return FALSE;
  *out_run_id = run_id;
  return TRUE;
}

static gboolean
insert_rows (DbDatabase *db, const DbTable *table, gint64 run_id, gconstpointer rows, gsize size,
             gsize n_rows, GError **error)
{
  g_autoptr (DbStmt) stmt = db_table_prepare_insert (db, table, "run_id", "position", error);
  if (stmt == NULL)
    return FALSE;
  for (gsize i = 0; i < n_rows; i++)
    if (!db_sql_bind_int (db, stmt, ":position", (gint64)i, error)
        || !db_table_insert (db, stmt, table, run_id, (const char *)rows + i * size, error))
      return FALSE;
  return TRUE;
}

/* The row as it was begun is replaced by the whole one. */
static gboolean
replace_row (DbDatabase *db, gint64 run_id, const DbExecRecord *exec, GError **error)
{
  g_autoptr (DbStmt) drop
      = db_sql_prepare (db, "DELETE FROM exec_run WHERE run_id = :run_id", error);
  if (drop == NULL || !db_sql_bind_int (db, drop, ":run_id", run_id, error)
      || !db_sql_run (db, drop, "storing a run", error))
    return FALSE;
  g_autoptr (DbStmt) stmt = db_table_prepare_insert (db, &db_exec_table, "run_id", NULL, error);
  return stmt != NULL && db_table_insert (db, stmt, &db_exec_table, run_id, exec, error);
}

gboolean
db_store_finish_exec (DbDatabase *db, gint64 run_id, DbRunStatus status, const char *message,
                      const DbExecRecord *exec, const DbExecOpRecord *ops, gsize n_ops,
                      const DbExecMemoryRecord *memory, gsize n_memory, GError **error)
{
  const DbRunCounts none = { .elapsed_s = 0 };
  if (!db_sql_begin (db, "storing a run", error))
    return FALSE;
  gboolean ok
      = (exec == NULL || replace_row (db, run_id, exec, error))
        && insert_rows (db, &db_exec_op_table, run_id, ops, sizeof *ops, n_ops, error)
        && insert_rows (db, &db_exec_memory_table, run_id, memory, sizeof *memory, n_memory, error)
        && db_finish_run (db, run_id, status, message, NULL, &none, error);
  return db_sql_end (db, ok, "storing a run", error);
}
