/* db/query.h - the user's own SQL, which can read everything and change nothing.
 *
 * One SELECT (or VALUES, WITH, EXPLAIN) on a read-only connection. An authorizer lets only
 * reading through: no writes, ATTACH, PRAGMA, transactions or loading of code. Rows are handed on
 * one by one as they are found.
 */
#pragma once
#include "db/database.h"
G_BEGIN_DECLS

typedef enum { DB_CELL_NULL, DB_CELL_INTEGER, DB_CELL_REAL, DB_CELL_TEXT, DB_CELL_BLOB } DbCellKind;

/* One value of a row; the member named by @kind counts. */
typedef struct {
  DbCellKind kind;
  gint64 integer;
  double real;
  const char *text;   /* (borrowed) until the callback returns; NUL-terminated valid UTF-8, with
                       U+FFFD in place of bytes that are neither */
  const guint8 *blob; /* (borrowed) (nullable if empty) until the callback returns */
  gsize length;       /* bytes of @text or @blob */
} DbCell;

typedef struct {
  /* Once, before any row, also when there is none. Names may repeat. (nullable) */
  gboolean (*columns) (const char *const *names, guint n_columns, gpointer user_data,
                       GError **error);
  /* Per row. FALSE with an error stops with that error; FALSE without one stops quietly. */
  gboolean (*row) (const DbCell *cells, guint n_columns, gpointer user_data, GError **error);
  /* Asked every few milliseconds; TRUE stops with DB_ERROR_CANCELLED. (nullable) */
  gboolean (*cancelled) (gpointer user_data);
  gpointer user_data;
} DbQueryHandler;

/*
 * Runs @sql, a single statement (a closing ';' and comments may follow).
 *
 * @db: opened with DB_OPEN_READ_ONLY
 *
 * Returns: FALSE with DB_ERROR_QUERY for SQL that is wrong, not allowed, more than one statement,
 *   none, or has parameters.
 */
gboolean db_query_run (DbDatabase *db, const char *sql, const DbQueryHandler *handler,
                       GError **error);

G_END_DECLS
