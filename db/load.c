/* Stored plans and calibrations, read back. */
#include "db/fields-private.h"
#include "db/store.h"

DbPlan *
db_plan_new (void)
{
  DbPlan *plan = g_new0 (DbPlan, 1);
  plan->strings = g_string_chunk_new (4096);
  plan->arrays = g_ptr_array_new_with_free_func (g_free);
  return plan;
}

void
db_plan_free (DbPlan *plan)
{
  if (plan == NULL)
    return;
  g_clear_pointer (&plan->strings, g_string_chunk_free);
  g_clear_pointer (&plan->arrays, g_ptr_array_unref);
  g_free (plan);
}

static gboolean
set_not_found (DbDatabase *db, const char *what, gint64 id, GError **error)
{
  g_set_error (error, DB_ERROR, DB_ERROR_NOT_FOUND, "database '%s': no %s %" G_GINT64_FORMAT,
               db->path, what, id);
  return FALSE;
}

/* Reads the row of @table whose @key is @id. */
static gboolean
load_row (DbDatabase *db, const DbTable *table, const char *key, gint64 id, gpointer record,
          GStringChunk *strings, GError **error)
{
  g_autoptr (DbStmt) stmt = db_table_prepare_select (db, table, key, NULL, error);
  gboolean row = FALSE;
  if (stmt == NULL || !db_sql_bind_int (db, stmt, ":key", id, error)
      || !db_sql_next (db, stmt, "reading a plan", &row, error))
    return FALSE;
  if (!row)
    return set_not_found (db, table->name, id, error);
  db_table_read (stmt, 0, table, record, strings);
  return TRUE;
}

/* Reads the rows of @table that belong to @plan; *out_rows has @row_bytes each. */
static gboolean
load_rows (DbDatabase *db, const DbTable *table, const char *order, DbPlan *plan, gsize row_bytes,
           gconstpointer *out_rows, gsize *out_n_rows, GError **error)
{
  g_autoptr (DbStmt) stmt = db_table_prepare_select (db, table, "plan_id", order, error);
  g_autoptr (GByteArray) rows = g_byte_array_new ();
  g_autofree guint8 *row = g_malloc0 (row_bytes);
  if (stmt == NULL || !db_sql_bind_int (db, stmt, ":key", plan->plan.plan_id, error))
    return FALSE;
  for (;;) {
    gboolean found = FALSE;
    if (!db_sql_next (db, stmt, "reading a plan", &found, error))
      return FALSE;
    if (!found)
      break;
    db_table_read (stmt, 0, table, row, plan->strings);
    g_byte_array_append (rows, row, (guint)row_bytes);
  }
  *out_n_rows = rows->len / row_bytes;
  *out_rows = rows->len > 0 ? g_memdup2 (rows->data, rows->len) : NULL;
  g_ptr_array_add (plan->arrays, (gpointer)*out_rows);
  return TRUE;
}

static gboolean
load_plan_rows (DbDatabase *db, DbPlan *out, GError **error)
{
  DbPlanRecord *plan = &out->plan;
  return load_rows (db, &db_stage_memory_table, "stage", out, sizeof *plan->stage_rows,
                    (gconstpointer *)&plan->stage_rows, &plan->n_stage_rows, error)
         && load_rows (db, &db_breakdown_table, "position", out, sizeof *plan->breakdown,
                       (gconstpointer *)&plan->breakdown, &plan->n_breakdown, error)
         && load_rows (db, &db_comm_group_table, "position", out, sizeof *plan->groups,
                       (gconstpointer *)&plan->groups, &plan->n_groups, error)
         && load_rows (db, &db_assumed_table, "position", out, sizeof *plan->assumed,
                       (gconstpointer *)&plan->assumed, &plan->n_assumed, error);
}

static gboolean
load_run_id (DbDatabase *db, DbPlanRecord *plan, GError **error)
{
  g_autofree char *sql
      = g_strdup_printf ("SELECT run_id FROM plan WHERE plan_id = %" G_GINT64_FORMAT,
                         plan->plan_id);
  return db_sql_get_int (db, sql, "reading a plan", &plan->run_id, error);
}

/* All reads of one plan see one state of the file. */
static gboolean
load_whole_plan (DbDatabase *db, gint64 plan_id, DbPlan *out, GError **error)
{
  DbPlanRecord *plan = &out->plan;
  GStringChunk *strings = out->strings;
  plan->plan_id = plan_id;
  return load_row (db, &db_plan_table, "plan_id", plan_id, plan, strings, error)
         && load_run_id (db, plan, error)
         && load_row (db, &db_prediction_table, "plan_id", plan_id, &plan->prediction, strings,
                      error)
         && load_row (db, &db_machine_table, "machine_id", plan->machine_id, &out->machine, strings,
                      error)
         && load_row (db, &db_model_table, "model_id", plan->model_id, &out->model, strings, error)
         && load_row (db, &db_job_table, "job_id", plan->job_id, &out->job, strings, error)
         && load_row (db, &db_calibration_table, "calibration_id", plan->calibration_id,
                      &out->calibration, strings, error)
         && load_plan_rows (db, out, error);
}

DbPlan *
db_load_plan (DbDatabase *db, gint64 plan_id, GError **error)
{
  g_autoptr (DbPlan) out = db_plan_new ();
  if (!db_sql_exec (db, "BEGIN", "reading a plan", error))
    return NULL;
  gboolean ok = load_whole_plan (db, plan_id, out, error);
  return db_sql_end (db, ok, "reading a plan", error) ? g_steal_pointer (&out) : NULL;
}

gboolean
db_find_best_plan (DbDatabase *db, gint64 *out_plan_id, GError **error)
{
  g_autoptr (GError) failure = NULL;
  if (db_sql_get_int (db,
                      "SELECT best_plan_id FROM run_summary"
                      " WHERE status = 'done' AND best_plan_id IS NOT NULL"
                      " ORDER BY run_id DESC LIMIT 1",
                      "looking for the best plan", out_plan_id, &failure))
    return TRUE;
  if (failure->code == DB_ERROR_NOT_FOUND)
    g_set_error (error, DB_ERROR, DB_ERROR_NOT_FOUND,
                 "database '%s': no finished run with plans yet; 'plait plan' makes one", db->path);
  else
    g_propagate_error (error, g_steal_pointer (&failure));
  return FALSE;
}

GArray *
db_list_plans (DbDatabase *db, gint64 run_id, GError **error)
{
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint64));
  g_autoptr (DbStmt) stmt = db_sql_prepare (db,
                                            "SELECT plan_id FROM plan WHERE run_id = :run_id"
                                            " ORDER BY model_id, machine_id, gpus, job_id, rank",
                                            error);
  if (stmt == NULL || !db_sql_bind_int (db, stmt, ":run_id", run_id, error))
    return NULL;
  for (;;) {
    gboolean row = FALSE;
    if (!db_sql_next (db, stmt, "listing plans", &row, error))
      return NULL;
    if (!row)
      return g_steal_pointer (&ids);
    gint64 id = sqlite3_column_int64 (stmt, 0);
    g_array_append_val (ids, id);
  }
}

char *
db_load_calibration (DbDatabase *db, const char *name, GError **error)
{
  g_autoptr (DbStmt) stmt = db_sql_prepare (
      db, "SELECT content FROM calibration WHERE name = :name ORDER BY calibration_id DESC LIMIT 1",
      error);
  gboolean row = FALSE;
  if (stmt == NULL || !db_sql_bind_text (db, stmt, ":name", name, error)
      || !db_sql_next (db, stmt, "reading a calibration", &row, error))
    return NULL;
  if (row)
    return g_strdup ((const char *)sqlite3_column_text (stmt, 0));
  g_set_error (error, DB_ERROR, DB_ERROR_NOT_FOUND, "database '%s': no calibration '%s'", db->path,
               name);
  return NULL;
}
