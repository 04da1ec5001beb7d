#include "base/hash.h"
#include "db/fields-private.h"
#include <math.h>

#define MEMBER(record, type, field) (*(type *)((char *)(record) + (field)->offset))
#define CONST_MEMBER(record, type, field)                                                          \
  (*(type const *)((const char *)(record) + (field)->offset))

static void
append_column (GString *columns, GString *values, const char *column)
{
  const char *comma = columns->len > 0 ? ", " : "";
  if (column == NULL)
    return;
  g_string_append_printf (columns, "%s%s", comma, column);
  g_string_append_printf (values, "%s:%s", comma, column);
}

DbStmt *
db_table_prepare_insert (DbDatabase *db, const DbTable *table, const char *key, const char *last,
                         GError **error)
{
  g_autoptr (GString) columns = g_string_new (NULL);
  g_autoptr (GString) values = g_string_new (NULL);
  append_column (columns, values, key);
  for (guint i = 0; i < table->n_fields; i++)
    append_column (columns, values, table->fields[i].column);
  append_column (columns, values, last);
  g_autofree char *sql
      = g_strdup_printf ("INSERT INTO %s (%s) VALUES (%s)", table->name, columns->str, values->str);
  return db_sql_prepare (db, sql, error);
}

DbStmt *
db_table_prepare_select (DbDatabase *db, const DbTable *table, const char *key, const char *order,
                         GError **error)
{
  g_autoptr (GString) sql = g_string_new ("SELECT ");
  for (guint i = 0; i < table->n_fields; i++)
    g_string_append_printf (sql, "%s%s", i > 0 ? ", " : "", table->fields[i].column);
  g_string_append_printf (sql, " FROM %s WHERE %s = :key", table->name, key);
  if (order != NULL)
    g_string_append_printf (sql, " ORDER BY %s", order);
  return db_sql_prepare (db, sql->str, error);
}

static gboolean
refuse_count (DbDatabase *db, const DbTable *table, const DbField *field, guint64 value,
              GError **error)
{
  g_set_error (error, DB_ERROR, DB_ERROR_BAD_VALUE,
               "database '%s': %s.%s is %" G_GUINT64_FORMAT ", above what can be stored (2^63 - 1)",
               db->path, table->name, field->column, value);
  return FALSE;
}

gboolean
db_table_bind (DbDatabase *db, DbStmt *stmt, int first, const DbTable *table, gconstpointer record,
               GError **error)
{
  for (guint i = 0; i < table->n_fields; i++) {
    const DbField *field = &table->fields[i];
    int index = first + (int)i;
    int code = SQLITE_OK;
    switch (field->kind) {
    case DB_FIELD_TEXT:
      code = sqlite3_bind_text (stmt, index, CONST_MEMBER (record, char *, field), -1,
                                SQLITE_STATIC);
      break;
    case DB_FIELD_INT:
      code = sqlite3_bind_int64 (stmt, index, CONST_MEMBER (record, gint64, field));
      break;
    case DB_FIELD_INT_OR_NULL:
      if (CONST_MEMBER (record, gint64, field) == 0)
        code = sqlite3_bind_null (stmt, index);
      else
        code = sqlite3_bind_int64 (stmt, index, CONST_MEMBER (record, gint64, field));
      break;
    case DB_FIELD_FLAG:
      code = sqlite3_bind_int64 (stmt, index, CONST_MEMBER (record, gboolean, field) ? 1 : 0);
      break;
    case DB_FIELD_COUNT:
      if (CONST_MEMBER (record, guint64, field) > G_MAXINT64)
        return refuse_count (db, table, field, CONST_MEMBER (record, guint64, field), error);
      code = sqlite3_bind_int64 (stmt, index, (gint64)CONST_MEMBER (record, guint64, field));
      break;
    case DB_FIELD_REAL: /* SQLite itself stores NaN as NULL */
      code = sqlite3_bind_double (stmt, index, CONST_MEMBER (record, double, field));
      break;
    }
    if (code != SQLITE_OK)
      return db_sql_set_error (db->handle, db->path, code, field->column, error);
  }
  return TRUE;
}

static const char *
read_text (DbStmt *stmt, int column, GStringChunk *strings)
{
  const char *text = (const char *)sqlite3_column_text (stmt, column);
  if (text == NULL)
    return NULL;
  if (g_utf8_validate (text, -1, NULL))
    return g_string_chunk_insert_const (strings, text);
  g_autofree char *valid = g_utf8_make_valid (text, -1);
  return g_string_chunk_insert_const (strings, valid);
}

void
db_table_read (DbStmt *stmt, int first_column, const DbTable *table, gpointer record,
               GStringChunk *strings)
{
  for (guint i = 0; i < table->n_fields; i++) {
    const DbField *field = &table->fields[i];
    int column = first_column + (int)i;
    gboolean null = sqlite3_column_type (stmt, column) == SQLITE_NULL;
    switch (field->kind) {
    case DB_FIELD_TEXT:
      MEMBER (record, const char *, field) = read_text (stmt, column, strings);
      break;
    case DB_FIELD_INT:
    case DB_FIELD_INT_OR_NULL:
      MEMBER (record, gint64, field) = sqlite3_column_int64 (stmt, column);
      break;
    case DB_FIELD_FLAG:
      MEMBER (record, gboolean, field) = sqlite3_column_int64 (stmt, column) != 0;
      break;
    case DB_FIELD_COUNT:
      MEMBER (record, guint64, field) = (guint64)sqlite3_column_int64 (stmt, column);
      break;
    case DB_FIELD_REAL:
      MEMBER (record, double, field) = null ? (double)NAN : sqlite3_column_double (stmt, column);
      break;
    }
  }
}

gboolean
db_table_insert (DbDatabase *db, DbStmt *insert, const DbTable *table, gint64 key_value,
                 gconstpointer record, GError **error)
{
  int code = sqlite3_bind_int64 (insert, 1, key_value);
  if (code != SQLITE_OK)
    return db_sql_set_error (db->handle, db->path, code, "binding a key", error);
  return db_table_bind (db, insert, 2, table, record, error)
         && db_sql_run (db, insert, "storing", error);
}

char *
db_table_hash (const DbTable *table, gconstpointer record)
{
  g_autoptr (GString) text = g_string_new (NULL);
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  for (guint i = 0; i < table->n_fields; i++) {
    const DbField *field = &table->fields[i];
    const char *value = NULL;
    switch (field->kind) {
    case DB_FIELD_TEXT:
      value = CONST_MEMBER (record, char *, field);
      break;
    case DB_FIELD_INT:
    case DB_FIELD_INT_OR_NULL:
    case DB_FIELD_COUNT:
      g_snprintf (number, sizeof number, "%" G_GINT64_FORMAT, CONST_MEMBER (record, gint64, field));
      value = number;
      break;
    case DB_FIELD_FLAG:
      value = CONST_MEMBER (record, gboolean, field) ? "1" : "0";
      break;
    case DB_FIELD_REAL:
      value = g_ascii_dtostr (number, sizeof number, CONST_MEMBER (record, double, field));
      break;
    }
    /* Lengths keep "a" + "bc" apart from "ab" + "c", and NULL apart from "". */
    g_string_append_printf (text, "%s:%" G_GSSIZE_FORMAT ":%s\n", field->column,
                            value != NULL ? (gssize)strlen (value) : (gssize)-1,
                            value != NULL ? value : "");
  }
  return base_hash_text (text->str);
}
