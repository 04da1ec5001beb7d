/* Calibrating a node: its run, what was measured, and what came of it. */
#include "db/fields-private.h"
#include "db/process-private.h"
#include "db/store-private.h"

#include <string.h>

gboolean
db_store_begin_calibration (DbDatabase *db, const DbRunRecord *run,
                            const DbCalibrationRunRecord *made, gint64 *out_run_id, GError **error)
{
  gint64 run_id = 0;
  if (!db_sql_begin (db, "storing a calibration", error))
    return FALSE;
  gboolean ok = db_insert_run (db, run, &run_id, error) && db_process_claim (db, run_id, error);
  g_autoptr (DbStmt) stmt
      = ok ? db_table_prepare_insert (db, &db_calibration_run_table, "run_id", NULL, error) : NULL;
  ok = stmt != NULL && db_table_insert (db, stmt, &db_calibration_run_table, run_id, made, error);
  if (!db_sql_end (db, ok, "storing a calibration", error))
    return FALSE;
  *out_run_id = run_id;
  return TRUE;
}

gboolean
db_store_points (DbDatabase *db, gint64 run_id, const DbPointRecord *points, gsize n_points,
                 GError **error)
{
  g_autofree char *now = db_now_utc ();
  if (!db_sql_begin (db, "storing a measurement", error))
    return FALSE;
  g_autoptr (DbStmt) stmt
      = db_table_prepare_insert (db, &db_point_table, "run_id", "measured_at", error);
  gboolean ok = stmt != NULL;
  for (gsize i = 0; ok && i < n_points; i++)
    ok = db_sql_bind_text (db, stmt, ":measured_at", now, error)
         && db_table_insert (db, stmt, &db_point_table, run_id, &points[i], error);
  return db_sql_end (db, ok, "storing a measurement", error);
}

static gboolean
insert_rows (DbDatabase *db, const DbTable *table, gint64 calibration_id, gconstpointer rows,
             gsize size, gsize n_rows, GError **error)
{
  g_autoptr (DbStmt) stmt
      = db_table_prepare_insert (db, table, "calibration_id", "position", error);
  if (stmt == NULL)
    return FALSE;
  for (gsize i = 0; i < n_rows; i++)
    if (!db_sql_bind_int (db, stmt, ":position", (gint64)i, error)
        || !db_table_insert (db, stmt, table, calibration_id, (const char *)rows + i * size, error))
      return FALSE;
  return TRUE;
}

/* The run's row as it was begun is completed. */
static gboolean
complete_run (DbDatabase *db, gint64 run_id, gint64 calibration_id, const DbCalibrationMade *made,
              GError **error)
{
  g_autoptr (DbStmt) stmt = db_sql_prepare (
      db,
      "UPDATE calibration_run SET calibration_id = :calibration_id, point_count = :point_count,"
      " median_abs_err = :median, median_abs_err_base = :base WHERE run_id = :run_id",
      error);
  return stmt != NULL && db_sql_bind_int (db, stmt, ":calibration_id", calibration_id, error)
         && db_sql_bind_int (db, stmt, ":point_count", (gint64)made->n_residuals, error)
         && db_sql_bind_real (db, stmt, ":median", made->median_abs_err, error)
         && db_sql_bind_real (db, stmt, ":base", made->median_abs_err_base, error)
         && db_sql_bind_int (db, stmt, ":run_id", run_id, error)
         && db_sql_run (db, stmt, "storing a calibration", error);
}

gboolean
db_store_finish_calibration (DbDatabase *db, gint64 run_id, const DbCalibrationRecord *calibration,
                             const DbCalibrationMade *made, GError **error)
{
  const DbRunCounts none = { .elapsed_s = 0 };
  const char *doing = "storing a calibration";
  gint64 id = 0;
  if (!db_store_calibration (db, calibration, &id, error) || !db_sql_begin (db, doing, error))
    return FALSE;
  /* rows of one that was stored before, with the same content, are replaced */
  gboolean ok
      = db_sql_run_with_id (db, "DELETE FROM calibration_value WHERE calibration_id = :id", id,
                            doing, error)
        && db_sql_run_with_id (db, "DELETE FROM calibration_residual WHERE calibration_id = :id",
                               id, doing, error)
        && insert_rows (db, &db_calibration_value_table, id, made->values, sizeof *made->values,
                        made->n_values, error)
        && insert_rows (db, &db_calibration_residual_table, id, made->residuals,
                        sizeof *made->residuals, made->n_residuals, error)
        && complete_run (db, run_id, id, made, error)
        && db_finish_run (db, run_id, DB_RUN_DONE, NULL, NULL, &none, error);
  return db_sql_end (db, ok, doing, error);
}

/* ---- reading back ---- */

static void
rows_clear (DbRows *rows)
{
  g_clear_pointer (&rows->records, g_array_unref);
  g_clear_pointer (&rows->strings, g_string_chunk_free);
}

void
db_rows_free (DbRows *rows)
{
  if (rows == NULL)
    return;
  rows_clear (rows);
  g_free (rows);
}

/* Reads every row of @stmt, whose columns are those of @table. */
static DbRows *
read_rows (DbDatabase *db, DbStmt *stmt, const DbTable *table, gsize size, GError **error)
{
  g_autoptr (DbRows) rows = g_new0 (DbRows, 1);
  g_autofree char *record = g_malloc0 (size);
  rows->records = g_array_new (FALSE, TRUE, (guint)size);
  rows->strings = g_string_chunk_new (4096);
  for (;;) {
    gboolean row = FALSE;
    if (!db_sql_next (db, stmt, "reading a calibration", &row, error))
      return NULL;
    if (!row)
      return g_steal_pointer (&rows);
    memset (record, 0, size);
    db_table_read (stmt, 0, table, record, rows->strings);
    g_array_append_vals (rows->records, record, 1);
  }
}

/* "SELECT columns FROM name …" with the columns of @table. */
static DbStmt *
prepare_rows (DbDatabase *db, const DbTable *table, const char *rest, GError **error)
{
  g_autoptr (GString) sql = g_string_new ("SELECT ");
  for (guint i = 0; i < table->n_fields; i++)
    g_string_append_printf (sql, "%st.%s", i > 0 ? ", " : "", table->fields[i].column);
  g_string_append_printf (sql, " FROM %s t %s", table->name, rest);
  return db_sql_prepare (db, sql->str, error);
}

DbRows *
db_load_points (DbDatabase *db, const DbCalibrationRunRecord *node, gint64 after_run_id,
                GError **error)
{
  g_autoptr (DbStmt) stmt = prepare_rows (
      db, &db_point_table,
      "JOIN calibration_run m USING (run_id) WHERE m.host = :host AND m.backend = :backend"
      " AND m.topology_hash = :topology AND m.math_version IS :math AND m.comm_version IS :comm"
      " AND t.run_id > :after ORDER BY t.point_id",
      error);
  if (stmt == NULL || !db_sql_bind_text (db, stmt, ":host", node->host, error)
      || !db_sql_bind_text (db, stmt, ":backend", node->backend, error)
      || !db_sql_bind_text (db, stmt, ":topology", node->topology_hash, error)
      || !db_sql_bind_text (db, stmt, ":math", node->math_version, error)
      || !db_sql_bind_text (db, stmt, ":comm", node->comm_version, error)
      || !db_sql_bind_int (db, stmt, ":after", after_run_id, error))
    return NULL;
  return read_rows (db, stmt, &db_point_table, sizeof (DbPointRecord), error);
}

DbRows *
db_load_exec_runs (DbDatabase *db, const char *topology_hash, const char *backend, GError **error)
{
  g_autoptr (DbStmt) stmt = prepare_rows (
      db, &db_exec_loaded_table,
      "JOIN run r USING (run_id) WHERE t.topology_hash = :topology AND t.backend = :backend"
      " AND r.status = 'done' AND t.measured_s_min IS NOT NULL AND t.seq IS NOT NULL"
      " ORDER BY t.run_id",
      error);
  if (stmt == NULL || !db_sql_bind_text (db, stmt, ":topology", topology_hash, error)
      || !db_sql_bind_text (db, stmt, ":backend", backend, error))
    return NULL;
  return read_rows (db, stmt, &db_exec_loaded_table, sizeof (DbExecLoaded), error);
}

DbRows *
db_load_exec_ops (DbDatabase *db, gint64 run_id, GError **error)
{
  g_autoptr (DbStmt) stmt
      = prepare_rows (db, &db_exec_op_table, "WHERE t.run_id = :run_id ORDER BY t.position", error);
  if (stmt == NULL || !db_sql_bind_int (db, stmt, ":run_id", run_id, error))
    return NULL;
  return read_rows (db, stmt, &db_exec_op_table, sizeof (DbExecOpRecord), error);
}

DbRows *
db_load_calibration_values (DbDatabase *db, gint64 calibration_id, GError **error)
{
  g_autoptr (DbStmt) stmt
      = prepare_rows (db, &db_calibration_value_table,
                      "WHERE t.calibration_id = :id ORDER BY t.position", error);
  if (stmt == NULL || !db_sql_bind_int (db, stmt, ":id", calibration_id, error))
    return NULL;
  return read_rows (db, stmt, &db_calibration_value_table, sizeof (DbCalibrationValueRecord),
                    error);
}

DbRows *
db_load_calibration_residuals (DbDatabase *db, gint64 calibration_id, GError **error)
{
  g_autoptr (DbStmt) stmt
      = prepare_rows (db, &db_calibration_residual_table,
                      "WHERE t.calibration_id = :id ORDER BY t.position", error);
  if (stmt == NULL || !db_sql_bind_int (db, stmt, ":id", calibration_id, error))
    return NULL;
  return read_rows (db, stmt, &db_calibration_residual_table, sizeof (DbCalibrationResidualRecord),
                    error);
}

void
db_made_calibration_free (DbMadeCalibration *made)
{
  if (made == NULL)
    return;
  g_free (made->name);
  g_free (made->content);
  g_free (made->source);
  g_free (made->created_at);
  g_free (made->host);
  g_free (made->backend);
  g_free (made->topology_hash);
  g_free (made->versions);
  g_free (made);
}

static char *
text_at (DbStmt *stmt, int column)
{
  return g_strdup ((const char *)sqlite3_column_text (stmt, column));
}

static DbMadeCalibration *
read_made (DbStmt *stmt)
{
  DbMadeCalibration *made = g_new0 (DbMadeCalibration, 1);
  made->calibration_id = sqlite3_column_int64 (stmt, 0);
  made->name = text_at (stmt, 1);
  made->content = text_at (stmt, 2);
  made->source = text_at (stmt, 3);
  made->created_at = text_at (stmt, 4);
  made->host = text_at (stmt, 5);
  made->backend = text_at (stmt, 6);
  made->topology_hash = text_at (stmt, 7);
  made->versions = text_at (stmt, 8);
  made->rank_count = sqlite3_column_int64 (stmt, 9);
  return made;
}

/* Newest that some calibrate made; @where: a condition with :text. */
static DbMadeCalibration *
find_made (DbDatabase *db, const char *where, const char *text, GError **error)
{
  g_autofree char *sql = g_strdup_printf (
      "SELECT c.calibration_id, c.name, c.content, c.source, r.started_at, m.host, m.backend,"
      " m.topology_hash, concat_versions, m.rank_count FROM (SELECT *, coalesce(math_version, '')"
      " || CASE WHEN comm_version IS NULL THEN '' ELSE ', ' || comm_version END"
      " AS concat_versions FROM calibration_run) m JOIN run r USING (run_id)"
      " JOIN calibration c USING (calibration_id) WHERE %s ORDER BY m.run_id DESC LIMIT 1",
      where);
  g_autoptr (DbStmt) stmt = db_sql_prepare (db, sql, error);
  gboolean row = FALSE;
  if (stmt == NULL
      || (strstr (where, ":text") != NULL && !db_sql_bind_text (db, stmt, ":text", text, error))
      || !db_sql_next (db, stmt, "reading a calibration", &row, error))
    return NULL;
  if (row)
    return read_made (stmt);
  g_set_error (error, DB_ERROR, DB_ERROR_NOT_FOUND, "database '%s': no calibration%s%s%s", db->path,
               text != NULL ? " '" : " yet", text != NULL ? text : "", text != NULL ? "'" : "");
  return NULL;
}

DbMadeCalibration *
db_find_calibration (DbDatabase *db, const char *name, GError **error)
{
  return find_made (db, "c.name = :text", name, error);
}

DbMadeCalibration *
db_find_latest_calibration (DbDatabase *db, const char *topology_hash, GError **error)
{
  if (topology_hash != NULL) {
    g_autoptr (GError) none = NULL;
    DbMadeCalibration *made = find_made (db, "m.topology_hash = :text", topology_hash, &none);
    if (made != NULL)
      return made;
  }
  return find_made (db, "1", NULL, error);
}
