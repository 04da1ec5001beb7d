/* The schema in words: the tables are made in memory, so that names, order and types are theirs. */
#include "db/schema-private.h"

static const char introduction[]
    = "# Database schema\n"
      "\n"
      "Tables and views of a plait database, schema version %d. Made from `db/schema_doc.c`; do "
      "not "
      "edit.\n"
      "\n"
      "Scripts should read the views, whose columns stay. Bytes are bytes, seconds are seconds;\n"
      "`_p10` and `_p90` bound the middle 80 %%. A value that is not known is NULL.\n";

static int
column_width (const char *object, DbStmt *columns)
{
  int width = (int)strlen ("column");
  sqlite3_bind_text (columns, 1, object, -1, SQLITE_STATIC);
  while (sqlite3_step (columns) == SQLITE_ROW)
    width = MAX (width, sqlite3_column_bytes (columns, 0));
  sqlite3_reset (columns);
  return width;
}

static void
describe_object (const DbObjectDoc *object, DbStmt *columns, GString *out)
{
  int width = column_width (object->name, columns);
  g_string_append_printf (out, "\n## %s\n\n%s\n\n", object->name, object->text);
  g_string_append_printf (out, "| %-*s | type    | meaning |\n", width, "column");
  g_string_append_printf (out, "|%.*s|---------|---------|\n", width + 2,
                          "----------------------------------------------------------------");
  sqlite3_bind_text (columns, 1, object->name, -1, SQLITE_STATIC);
  while (sqlite3_step (columns) == SQLITE_ROW) {
    const char *name = (const char *)sqlite3_column_text (columns, 0);
    const char *type = (const char *)sqlite3_column_text (columns, 1);
    const char *text = db_schema_column_text (object->name, name);
    g_string_append_printf (out, "| %-*s | %-7s | %s |\n", width, name, type,
                            text != NULL ? text : "");
  }
  sqlite3_reset (columns);
}

char *
db_schema_describe (void)
{
  g_autoptr (GString) out = g_string_new (NULL);
  g_autoptr (DbDatabase) memory = g_new0 (DbDatabase, 1);
  g_autoptr (DbStmt) columns = NULL;
  g_autoptr (GError) error = NULL;
  memory->path = g_strdup (":memory:");
  guint n_objects = 0;
  const DbObjectDoc *objects = db_schema_docs (&n_objects);

  if (sqlite3_open (":memory:", &memory->handle) != SQLITE_OK
      || !db_schema_migrate (memory, &error)) {
    g_critical ("schema cannot be built in memory: %s", error != NULL ? error->message : "");
    return NULL;
  }
  columns = db_sql_prepare (memory, "SELECT name, type FROM pragma_table_info(:object)", &error);
  if (columns == NULL)
    return NULL;
  g_string_append_printf (out, introduction, (int)db_schema_version ());
  for (guint i = 0; i < n_objects; i++)
    describe_object (&objects[i], columns, out);
  return g_string_free (g_steal_pointer (&out), FALSE);
}
