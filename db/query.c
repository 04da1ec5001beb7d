#include "db/query.h"
#include "db/readonly-private.h"
#include "db/sql-private.h"

/* Instructions of SQLite's machine between two questions whether to stop: below a millisecond. */
#define PROGRESS_STEP_COUNT 10000

/* Longest text or blob a statement may build, so that a query cannot eat the memory. */
#define CELL_MAX_BYTES (256 * 1024 * 1024)

typedef struct {
  const char *action; /* (nullable) what the authorizer refused, in words */
  char *detail;       /* (owned) (nullable) */
} Refusal;

static const char *
action_name (int action)
{
  switch (action) {
  case SQLITE_ATTACH:
    return "ATTACH";
  case SQLITE_DETACH:
    return "DETACH";
  case SQLITE_PRAGMA:
    return "PRAGMA";
  case SQLITE_INSERT:
    return "INSERT";
  case SQLITE_UPDATE:
    return "UPDATE";
  case SQLITE_DELETE:
    return "DELETE";
  case SQLITE_TRANSACTION:
  case SQLITE_SAVEPOINT:
    return "a transaction";
  case SQLITE_FUNCTION:
    return "function";
  case SQLITE_ANALYZE:
    return "ANALYZE";
  case SQLITE_REINDEX:
    return "REINDEX";
  case SQLITE_DROP_TABLE:
  case SQLITE_DROP_VIEW:
  case SQLITE_DROP_INDEX:
  case SQLITE_DROP_TRIGGER:
  case SQLITE_DROP_VTABLE:
    return "DROP";
  default:
    return "changing the database";
  }
}

/* Functions that reach outside the database or print what memory holds. */
static gboolean
is_harmful_function (const char *name)
{
  static const char *const harmful[]
      = { "load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", NULL };
  for (gsize i = 0; harmful[i] != NULL; i++)
    if (name == NULL || g_ascii_strcasecmp (name, harmful[i]) == 0)
      return TRUE;
  return FALSE;
}

static int
authorize (void *user_data, int action, const char *first, const char *second, const char *schema,
           const char *trigger)
{
  Refusal *refusal = user_data;
  gboolean allowed = action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_RECURSIVE
                     || (action == SQLITE_FUNCTION && !is_harmful_function (second));
  if (allowed)
    return SQLITE_OK;
  if (refusal->action == NULL) {
    refusal->action = action_name (action);
    refusal->detail = g_strdup (action == SQLITE_FUNCTION ? second : first);
  }
  return SQLITE_DENY;
}

/* SQL spans lines, a message does not. Returns: (owned). */
static char *
one_line (const char *text)
{
  char *line = g_utf8_make_valid (text, -1);
  g_strdelimit (line, "\r\n\t\v\f", ' ');
  return g_strstrip (line);
}

static DbStmt *
set_prepare_error (DbDatabase *db, int code, const Refusal *refusal, GError **error)
{
  int kind = code & 0xff;
  g_autofree char *said = one_line (sqlite3_errmsg (db->handle));
  g_autofree char *detail = one_line (refusal->detail != NULL ? refusal->detail : "");
  if (refusal->action != NULL)
    g_set_error (error, DB_ERROR, DB_ERROR_QUERY,
                 "not allowed in a query: %s%s%s; only reading (SELECT, VALUES, WITH) is",
                 refusal->action, *detail != '\0' ? " " : "", detail);
  else if (kind == SQLITE_ERROR || kind == SQLITE_TOOBIG || kind == SQLITE_AUTH)
    g_set_error (error, DB_ERROR, DB_ERROR_QUERY, "%s; 'plait query --schema' lists the columns",
                 said);
  else
    db_sql_set_error (db->handle, db->path, code, "reading the query", error);
  return NULL;
}

/* First statement of *@sql, skipping empty ones; NULL without error if there is none. *@sql moves
 * behind it. */
static DbStmt *
prepare_next (DbDatabase *db, const char **sql, Refusal *refusal, GError **error)
{
  DbStmt *stmt = NULL;
  while (stmt == NULL && **sql != '\0') {
    const char *tail = *sql;
    int code = sqlite3_prepare_v2 (db->handle, *sql, -1, &stmt, &tail);
    if (code != SQLITE_OK)
      return set_prepare_error (db, code, refusal, error);
    *sql = tail;
  }
  return stmt;
}

/* Refuses anything but blanks, ';' and comments behind the statement. */
static gboolean
check_nothing_follows (DbDatabase *db, const char *rest, GError **error)
{
  Refusal ignored = { NULL, NULL };
  g_autoptr (GError) failure = NULL;
  const char *position = rest;
  g_autoptr (DbStmt) second = prepare_next (db, &position, &ignored, &failure);
  if (second == NULL && failure == NULL)
    return TRUE;
  g_autofree char *start = g_strndup (rest, 60);
  g_autofree char *text = one_line (start);
  g_set_error (error, DB_ERROR, DB_ERROR_QUERY, "one statement only, found another: '%s'", text);
  return FALSE;
}

static gboolean
check_statement (DbStmt *stmt, GError **error)
{
  if (!sqlite3_stmt_readonly (stmt)) {
    g_set_error (error, DB_ERROR, DB_ERROR_QUERY,
                 "not allowed in a query: a statement that writes");
    return FALSE;
  }
  if (sqlite3_bind_parameter_count (stmt) > 0) {
    const char *name = sqlite3_bind_parameter_name (stmt, 1);
    g_set_error (error, DB_ERROR, DB_ERROR_QUERY,
                 "the query has a parameter '%s'; write the value itself",
                 name != NULL ? name : "?");
    return FALSE;
  }
  return TRUE;
}

static DbStmt *
prepare_query (DbDatabase *db, const char *sql, Refusal *refusal, GError **error)
{
  const char *rest = sql;
  if (!g_utf8_validate (sql, -1, NULL)) {
    g_set_error (error, DB_ERROR, DB_ERROR_QUERY, "the query is not valid UTF-8");
    return NULL;
  }
  g_autoptr (GError) failure = NULL;
  g_autoptr (DbStmt) stmt = prepare_next (db, &rest, refusal, &failure);
  if (failure != NULL) {
    g_propagate_error (error, g_steal_pointer (&failure));
    return NULL;
  }
  if (stmt == NULL) {
    g_set_error (error, DB_ERROR, DB_ERROR_QUERY,
                 "the query is empty, expected one SELECT statement");
    return NULL;
  }
  if (!check_nothing_follows (db, rest, error) || !check_statement (stmt, error))
    return NULL;
  return g_steal_pointer (&stmt);
}

/* Text from SQL may be any bytes (CAST of a blob): @spare keeps a copy with those replaced. */
static void
read_text_cell (DbStmt *stmt, int column, DbCell *cell, GPtrArray *spare)
{
  const char *text = (const char *)sqlite3_column_text (stmt, column);
  gsize length = (gsize)sqlite3_column_bytes (stmt, column);
  if (text != NULL && !g_utf8_validate (text, (gssize)length, NULL)) {
    char *valid = g_utf8_make_valid (text, (gssize)length);
    g_ptr_array_add (spare, valid);
    text = valid;
    length = strlen (valid);
  }
  *cell = (DbCell){ .kind = DB_CELL_TEXT, .text = text != NULL ? text : "", .length = length };
}

static void
read_cell (DbStmt *stmt, int column, DbCell *cell, GPtrArray *spare)
{
  switch (sqlite3_column_type (stmt, column)) {
  case SQLITE_INTEGER:
    *cell = (DbCell){ .kind = DB_CELL_INTEGER, .integer = sqlite3_column_int64 (stmt, column) };
    break;
  case SQLITE_FLOAT:
    *cell = (DbCell){ .kind = DB_CELL_REAL, .real = sqlite3_column_double (stmt, column) };
    break;
  case SQLITE_TEXT:
    read_text_cell (stmt, column, cell, spare);
    break;
  case SQLITE_BLOB:
    *cell = (DbCell){ .kind = DB_CELL_BLOB, .blob = sqlite3_column_blob (stmt, column) };
    cell->length = (gsize)sqlite3_column_bytes (stmt, column);
    break;
  default:
    *cell = (DbCell){ .kind = DB_CELL_NULL };
    break;
  }
}

static gboolean
send_columns (DbStmt *stmt, const DbQueryHandler *handler, GError **error)
{
  guint n_columns = (guint)sqlite3_column_count (stmt);
  g_autofree const char **names = g_new0 (const char *, n_columns + 1);
  for (guint i = 0; i < n_columns; i++)
    names[i] = sqlite3_column_name (stmt, (int)i);
  return handler->columns == NULL || handler->columns (names, n_columns, handler->user_data, error);
}

static gboolean
set_step_error (DbDatabase *db, int code, GError **error)
{
  int kind = code & 0xff;
  if (kind == SQLITE_INTERRUPT) {
    g_set_error (error, DB_ERROR, DB_ERROR_CANCELLED, "query stopped");
  } else if (kind == SQLITE_ERROR || kind == SQLITE_TOOBIG || kind == SQLITE_MISMATCH) {
    g_autofree char *said = one_line (sqlite3_errmsg (db->handle));
    g_set_error (error, DB_ERROR, DB_ERROR_QUERY, "%s", said);
  } else {
    db_sql_set_error (db->handle, db->path, code, "running the query", error);
  }
  return FALSE;
}

static gboolean
send_rows (DbDatabase *db, DbStmt *stmt, const DbQueryHandler *handler, GError **error)
{
  guint n_columns = (guint)sqlite3_column_count (stmt);
  g_autofree DbCell *cells = g_new0 (DbCell, n_columns);
  g_autoptr (GPtrArray) spare = g_ptr_array_new_with_free_func (g_free);
  for (;;) {
    int code = sqlite3_step (stmt);
    if (code == SQLITE_DONE)
      return TRUE;
    if (code != SQLITE_ROW)
      return set_step_error (db, code, error);
    for (guint i = 0; i < n_columns; i++)
      read_cell (stmt, (int)i, &cells[i], spare);
    GError *failure = NULL;
    if (!handler->row (cells, n_columns, handler->user_data, &failure)) {
      if (failure == NULL)
        return TRUE;
      g_propagate_error (error, failure);
      return FALSE;
    }
    g_ptr_array_set_size (spare, 0);
  }
}

static int
poll_cancelled (void *user_data)
{
  const DbQueryHandler *handler = user_data;
  return handler->cancelled (handler->user_data) ? 1 : 0;
}

static gboolean
run_prepared (DbDatabase *db, DbStmt *stmt, const DbQueryHandler *handler, GError **error)
{
  GError *failure = NULL;
  if (!send_columns (stmt, handler, &failure)) {
    gboolean quiet = failure == NULL;
    if (!quiet)
      g_propagate_error (error, failure);
    return quiet;
  }
  if (handler->cancelled != NULL)
    sqlite3_progress_handler (db->handle, PROGRESS_STEP_COUNT, poll_cancelled, (void *)handler);
  gboolean ok = send_rows (db, stmt, handler, error);
  sqlite3_progress_handler (db->handle, 0, NULL, NULL);
  return ok && db_readonly_check (db, error);
}

gboolean
db_query_run (DbDatabase *db, const char *sql, const DbQueryHandler *handler, GError **error)
{
  g_return_val_if_fail (db != NULL && db->read_only, FALSE);
  g_return_val_if_fail (sql != NULL && handler != NULL && handler->row != NULL, FALSE);
  Refusal refusal = { NULL, NULL };
  sqlite3_limit (db->handle, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_limit (db->handle, SQLITE_LIMIT_LENGTH, CELL_MAX_BYTES);
  sqlite3_set_authorizer (db->handle, authorize, &refusal);
  DbStmt *stmt = prepare_query (db, sql, &refusal, error);
  gboolean ok = stmt != NULL && run_prepared (db, stmt, handler, error);
  sqlite3_finalize (stmt);
  sqlite3_set_authorizer (db->handle, NULL, NULL);
  g_free (refusal.detail);
  return ok;
}
