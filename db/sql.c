#include "db/sql-private.h"

#include <errno.h>
#include <math.h>

G_DEFINE_QUARK (db_error_quark, db_error)

gboolean
db_error_is_environment (const GError *error)
{
  if (error == NULL || error->domain != DB_ERROR)
    return FALSE;
  switch ((DbError)error->code) {
  case DB_ERROR_UNUSABLE:
  case DB_ERROR_BUSY:
  case DB_ERROR_FULL:
  case DB_ERROR_CORRUPT:
  case DB_ERROR_IO:
    return TRUE;
  case DB_ERROR_BAD_VALUE:
  case DB_ERROR_NOT_FOUND:
  case DB_ERROR_QUERY:
  case DB_ERROR_CANCELLED:
    break;
  }
  return FALSE;
}

/* What the system said, where SQLite kept it; else SQLite's own words. */
static const char *
system_reason (sqlite3 *handle, int code)
{
  int system_errno = handle != NULL ? sqlite3_system_errno (handle) : 0;
  if (system_errno != 0)
    return g_strerror (system_errno);
  return sqlite3_errstr (code);
}

static gboolean
ran_out_of_space (sqlite3 *handle, int code)
{
  if ((code & 0xff) == SQLITE_FULL)
    return TRUE;
  int system_errno = handle != NULL ? sqlite3_system_errno (handle) : 0;
  return (code & 0xff) == SQLITE_IOERR && (system_errno == ENOSPC || system_errno == EDQUOT);
}

gboolean
db_sql_set_error (sqlite3 *handle, const char *path, int code, const char *doing, GError **error)
{
  const char *said = handle != NULL ? sqlite3_errmsg (handle) : sqlite3_errstr (code);
  if (ran_out_of_space (handle, code)) {
    g_set_error (error, DB_ERROR, DB_ERROR_FULL,
                 "database '%s': %s: no space left on the disk; what was stored before is kept",
                 path, doing);
    return FALSE;
  }
  if (code == SQLITE_READONLY_ROLLBACK || code == SQLITE_READONLY_RECOVERY) {
    g_set_error (error, DB_ERROR, DB_ERROR_UNUSABLE,
                 "database '%s': %s: a writer was stopped in the middle; any storing command "
                 "('plait plan') repairs it",
                 path, doing);
    return FALSE;
  }
  switch (code & 0xff) {
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    g_set_error (error, DB_ERROR, DB_ERROR_BUSY,
                 "database '%s': %s: locked by another process (waited %d s); let it finish, or "
                 "name another file with --db",
                 path, doing, DB_BUSY_TIMEOUT_MS / 1000);
    break;
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB:
    g_set_error (error, DB_ERROR, DB_ERROR_CORRUPT,
                 "database '%s': %s: the file is damaged (%s); restore a copy or name another "
                 "file with --db",
                 path, doing, said);
    break;
  case SQLITE_READONLY:
    g_set_error (error, DB_ERROR, DB_ERROR_UNUSABLE,
                 "database '%s': %s: the file, its folder or the file system is read-only (%s)",
                 path, doing, said);
    break;
  case SQLITE_CANTOPEN:
  case SQLITE_PERM:
    g_set_error (error, DB_ERROR, DB_ERROR_UNUSABLE, "database '%s': %s: cannot be opened (%s)",
                 path, doing, system_reason (handle, code));
    break;
  case SQLITE_CONSTRAINT:
  case SQLITE_MISMATCH:
  case SQLITE_TOOBIG:
    g_set_error (error, DB_ERROR, DB_ERROR_BAD_VALUE, "database '%s': %s: %s", path, doing, said);
    break;
  case SQLITE_INTERRUPT:
    g_set_error (error, DB_ERROR, DB_ERROR_CANCELLED, "database '%s': %s: stopped", path, doing);
    break;
  case SQLITE_IOERR:
    g_set_error (error, DB_ERROR, DB_ERROR_IO, "database '%s': %s: cannot read or write (%s)", path,
                 doing, system_reason (handle, code));
    break;
  default:
    g_set_error (error, DB_ERROR, DB_ERROR_IO, "database '%s': %s: %s", path, doing, said);
    break;
  }
  return FALSE;
}

static gboolean
fail (DbDatabase *db, int code, const char *doing, GError **error)
{
  return db_sql_set_error (db->handle, db->path, code, doing, error);
}

gboolean
db_sql_exec (DbDatabase *db, const char *sql, const char *doing, GError **error)
{
  int code = sqlite3_exec (db->handle, sql, NULL, NULL, NULL);
  return code == SQLITE_OK ? TRUE : fail (db, code, doing, error);
}

DbStmt *
db_sql_prepare (DbDatabase *db, const char *sql, GError **error)
{
  DbStmt *stmt = NULL;
  int code = sqlite3_prepare_v2 (db->handle, sql, -1, &stmt, NULL);
  if (code == SQLITE_OK)
    return stmt;
  /* Our own text is right, so a plain error means that the schema is not what it says it is. */
  if (code == SQLITE_ERROR)
    g_set_error (error, DB_ERROR, DB_ERROR_CORRUPT,
                 "database '%s': its tables are not those of schema version %" G_GINT64_FORMAT
                 " (%s)",
                 db->path, db_schema_version (), sqlite3_errmsg (db->handle));
  else
    fail (db, code, "reading the schema", error);
  return NULL;
}

static int
parameter_index (DbDatabase *db, DbStmt *stmt, const char *name, GError **error)
{
  int index = sqlite3_bind_parameter_index (stmt, name);
  if (index == 0)
    g_set_error (error, DB_ERROR, DB_ERROR_IO, "database '%s': no parameter '%s' in '%s'", db->path,
                 name, sqlite3_sql (stmt));
  return index;
}

gboolean
db_sql_bind_int (DbDatabase *db, DbStmt *stmt, const char *name, gint64 value, GError **error)
{
  int index = parameter_index (db, stmt, name, error);
  if (index == 0)
    return FALSE;
  int code = sqlite3_bind_int64 (stmt, index, value);
  return code == SQLITE_OK ? TRUE : fail (db, code, "binding a value", error);
}

gboolean
db_sql_bind_text (DbDatabase *db, DbStmt *stmt, const char *name, const char *value, GError **error)
{
  int index = parameter_index (db, stmt, name, error);
  if (index == 0)
    return FALSE;
  int code = sqlite3_bind_text (stmt, index, value, -1, SQLITE_TRANSIENT);
  return code == SQLITE_OK ? TRUE : fail (db, code, "binding a value", error);
}

gboolean
db_sql_bind_real (DbDatabase *db, DbStmt *stmt, const char *name, double value, GError **error)
{
  int index = parameter_index (db, stmt, name, error);
  if (index == 0)
    return FALSE;
  int code
      = isnan (value) ? sqlite3_bind_null (stmt, index) : sqlite3_bind_double (stmt, index, value);
  return code == SQLITE_OK ? TRUE : fail (db, code, "binding a value", error);
}

gboolean
db_sql_run (DbDatabase *db, DbStmt *stmt, const char *doing, GError **error)
{
  int code = sqlite3_step (stmt);
  gboolean ok = code == SQLITE_DONE || code == SQLITE_ROW;
  if (!ok)
    fail (db, code, doing, error);
  sqlite3_reset (stmt);
  return ok;
}

gboolean
db_sql_run_with_id (DbDatabase *db, const char *sql, gint64 id, const char *doing, GError **error)
{
  g_autoptr (DbStmt) stmt = db_sql_prepare (db, sql, error);
  return stmt != NULL && db_sql_bind_int (db, stmt, ":id", id, error)
         && db_sql_run (db, stmt, doing, error);
}

gboolean
db_sql_next (DbDatabase *db, DbStmt *stmt, const char *doing, gboolean *out_row, GError **error)
{
  int code = sqlite3_step (stmt);
  *out_row = code == SQLITE_ROW;
  return code == SQLITE_ROW || code == SQLITE_DONE ? TRUE : fail (db, code, doing, error);
}

gboolean
db_sql_get_int (DbDatabase *db, const char *sql, const char *doing, gint64 *out, GError **error)
{
  g_autoptr (DbStmt) stmt = db_sql_prepare (db, sql, error);
  gboolean row = FALSE;
  if (stmt == NULL || !db_sql_next (db, stmt, doing, &row, error))
    return FALSE;
  if (!row) {
    g_set_error (error, DB_ERROR, DB_ERROR_NOT_FOUND, "database '%s': %s: nothing found", db->path,
                 doing);
    return FALSE;
  }
  *out = sqlite3_column_int64 (stmt, 0);
  return TRUE;
}

gboolean
db_sql_begin (DbDatabase *db, const char *doing, GError **error)
{
  return db_sql_exec (db, "BEGIN IMMEDIATE", doing, error);
}

gboolean
db_sql_end (DbDatabase *db, gboolean ok, const char *doing, GError **error)
{
  if (ok && db_sql_exec (db, "COMMIT", doing, error))
    return TRUE;
  /* Some failures have undone the transaction already; then there is nothing to undo. */
  if (!sqlite3_get_autocommit (db->handle))
    sqlite3_exec (db->handle, "ROLLBACK", NULL, NULL, NULL);
  return FALSE;
}
