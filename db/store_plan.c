/* Plans with all that belongs to them. */
#include "db/fields-private.h"
#include "db/store-private.h"

/* One prepared statement per table, for many plans. */
typedef struct {
  DbStmt *plan;
  DbStmt *prediction;
  DbStmt *stage_memory;
  DbStmt *breakdown;
  DbStmt *comm_group;
  DbStmt *assumed;
} PlanWriter;

static void
plan_writer_clear (PlanWriter *writer)
{
  sqlite3_finalize (writer->plan);
  sqlite3_finalize (writer->prediction);
  sqlite3_finalize (writer->stage_memory);
  sqlite3_finalize (writer->breakdown);
  sqlite3_finalize (writer->comm_group);
  sqlite3_finalize (writer->assumed);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PlanWriter, plan_writer_clear)

static gboolean
plan_writer_init (PlanWriter *writer, DbDatabase *db, GError **error)
{
  const struct {
    DbStmt **out;
    const DbTable *table;
    const char *key;
    const char *last;
  } statements[] = {
    { &writer->plan, &db_plan_table, "run_id", NULL },
    { &writer->prediction, &db_prediction_table, "plan_id", NULL },
    { &writer->stage_memory, &db_stage_memory_table, "plan_id", NULL },
    { &writer->breakdown, &db_breakdown_table, "plan_id", "position" },
    { &writer->comm_group, &db_comm_group_table, "plan_id", "position" },
    { &writer->assumed, &db_assumed_table, "plan_id", "position" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (statements); i++) {
    *statements[i].out = db_table_prepare_insert (db, statements[i].table, statements[i].key,
                                                  statements[i].last, error);
    if (*statements[i].out == NULL)
      return FALSE;
  }
  return TRUE;
}

/* Parameter behind the key and the fields, where a table keeps the order of its rows. */
static gboolean
bind_position (DbDatabase *db, DbStmt *stmt, const DbTable *table, gsize position, GError **error)
{
  int index = (int)table->n_fields + 2;
  if (sqlite3_bind_parameter_count (stmt) < index)
    return TRUE;
  int code = sqlite3_bind_int64 (stmt, index, (gint64)position);
  return code == SQLITE_OK
             ? TRUE
             : db_sql_set_error (db->handle, db->path, code, "binding a position", error);
}

/* Rows of one table that belong to plan @plan_id. */
static gboolean
insert_rows (DbDatabase *db, DbStmt *stmt, const DbTable *table, gint64 plan_id, gconstpointer rows,
             gsize n_rows, gsize row_bytes, GError **error)
{
  for (gsize i = 0; i < n_rows; i++)
    if (!bind_position (db, stmt, table, i, error)
        || !db_table_insert (db, stmt, table, plan_id, (const char *)rows + i * row_bytes, error))
      return FALSE;
  return TRUE;
}

static gboolean
insert_plan (DbDatabase *db, const PlanWriter *writer, gint64 run_id, const DbPlanRecord *plan,
             gint64 *out_plan_id, GError **error)
{
  if (!db_table_insert (db, writer->plan, &db_plan_table, run_id, plan, error))
    return FALSE;
  gint64 id = sqlite3_last_insert_rowid (db->handle);
  *out_plan_id = id;
  return db_table_insert (db, writer->prediction, &db_prediction_table, id, &plan->prediction,
                          error)
         && insert_rows (db, writer->stage_memory, &db_stage_memory_table, id, plan->stage_rows,
                         plan->n_stage_rows, sizeof *plan->stage_rows, error)
         && insert_rows (db, writer->breakdown, &db_breakdown_table, id, plan->breakdown,
                         plan->n_breakdown, sizeof *plan->breakdown, error)
         && insert_rows (db, writer->comm_group, &db_comm_group_table, id, plan->groups,
                         plan->n_groups, sizeof *plan->groups, error)
         && insert_rows (db, writer->assumed, &db_assumed_table, id, plan->assumed, plan->n_assumed,
                         sizeof *plan->assumed, error);
}

gboolean
db_insert_plans (DbDatabase *db, gint64 run_id, const DbPlanRecord *plans, gsize n_plans,
                 gint64 *out_plan_ids, GError **error)
{
  g_auto (PlanWriter) writer = { 0 };
  if (!plan_writer_init (&writer, db, error))
    return FALSE;
  for (gsize i = 0; i < n_plans; i++) {
    gint64 plan_id = 0;
    if (!insert_plan (db, &writer, run_id, &plans[i], &plan_id, error)) {
      g_prefix_error (error,
                      "plan '%s': ", plans[i].layout_text != NULL ? plans[i].layout_text : "");
      return FALSE;
    }
    if (out_plan_ids != NULL)
      out_plan_ids[i] = plan_id;
  }
  return TRUE;
}

gboolean
db_store_plans (DbDatabase *db, gint64 run_id, const DbPlanRecord *plans, gsize n_plans,
                gint64 *out_plan_ids, GError **error)
{
  if (!db_sql_begin (db, "storing plans", error))
    return FALSE;
  gboolean ok = db_insert_plans (db, run_id, plans, n_plans, out_plan_ids, error);
  return db_sql_end (db, ok, "storing plans", error);
}
