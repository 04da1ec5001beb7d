/* app/stored.c - reading the database. */
#include "app/stored.h"

#include "app/error.h"
#include "base/units.h"

DbPlan *
app_stored_plan (const char *db_path, const char *which, GError **error)
{
  g_autoptr (DbDatabase) db = NULL;
  guint64 id = 0;
  gint64 plan_id = 0;

  /* input is judged before the database is opened */
  if (!g_str_equal (which, "best") && !base_units_parse_count (which, 1, G_MAXINT64, &id, NULL)) {
    g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
                 "'%s' is no plan: expected a plan id (a whole number) or 'best'", which);
    return NULL;
  }
  db = db_database_open (db_path, DB_OPEN_READ_ONLY, NULL, error);
  if (db == NULL)
    return NULL;
  plan_id = (gint64)id;
  if (g_str_equal (which, "best") && !db_find_best_plan (db, &plan_id, error))
    return NULL;
  return db_load_plan (db, plan_id, error);
}

gboolean
app_stored_query (const char *db_path, const char *sql, const DbQueryHandler *handler,
                  GError **error)
{
  g_autoptr (DbDatabase) db = db_database_open (db_path, DB_OPEN_READ_ONLY, NULL, error);

  return db != NULL && db_query_run (db, sql, handler, error);
}

char *
app_stored_schema (void)
{
  return db_schema_describe ();
}
