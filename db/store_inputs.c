/* Machines, models, jobs and calibrations: a row per distinct content. */
#include "db/fields-private.h"
#include "db/store.h"

/* Row whose hash is @hash, 0 if none. */
static gboolean
find_by_hash (DbDatabase *db, const DbTable *table, const char *hash, gint64 *out_id,
              GError **error)
{
  g_autofree char *sql
      = g_strdup_printf ("SELECT %s_id FROM %s WHERE hash = :hash", table->name, table->name);
  g_autoptr (DbStmt) stmt = db_sql_prepare (db, sql, error);
  gboolean row = FALSE;
  if (stmt == NULL || !db_sql_bind_text (db, stmt, ":hash", hash, error)
      || !db_sql_next (db, stmt, "looking up an input", &row, error))
    return FALSE;
  *out_id = row ? sqlite3_column_int64 (stmt, 0) : 0;
  return TRUE;
}

static gboolean
insert_input (DbDatabase *db, const DbTable *table, const char *hash, gconstpointer record,
              gint64 *out_id, GError **error)
{
  g_autofree char *doing = g_strdup_printf ("storing a %s", table->name);
  g_autoptr (DbStmt) stmt = db_table_prepare_insert (db, table, "hash", NULL, error);
  if (stmt == NULL || !db_sql_bind_text (db, stmt, ":hash", hash, error)
      || !db_table_bind (db, stmt, 2, table, record, error) || !db_sql_run (db, stmt, doing, error))
    return FALSE;
  *out_id = sqlite3_last_insert_rowid (db->handle);
  return TRUE;
}

static gboolean
store_input (DbDatabase *db, const DbTable *table, gconstpointer record, gint64 *out_id,
             GError **error)
{
  g_autofree char *hash = db_table_hash (table, record);
  gint64 id = 0;
  if (!db_sql_begin (db, "storing an input", error))
    return FALSE;
  gboolean ok = find_by_hash (db, table, hash, &id, error)
                && (id != 0 || insert_input (db, table, hash, record, &id, error));
  if (!db_sql_end (db, ok, "storing an input", error))
    return FALSE;
  *out_id = id;
  return TRUE;
}

gboolean
db_store_machine (DbDatabase *db, const DbMachineRecord *machine, gint64 *out_id, GError **error)
{
  return store_input (db, &db_machine_table, machine, out_id, error);
}

gboolean
db_store_model (DbDatabase *db, const DbModelRecord *model, gint64 *out_id, GError **error)
{
  return store_input (db, &db_model_table, model, out_id, error);
}

gboolean
db_store_job (DbDatabase *db, const DbJobRecord *job, gint64 *out_id, GError **error)
{
  return store_input (db, &db_job_table, job, out_id, error);
}

gboolean
db_store_calibration (DbDatabase *db, const DbCalibrationRecord *calibration, gint64 *out_id,
                      GError **error)
{
  return store_input (db, &db_calibration_table, calibration, out_id, error);
}
