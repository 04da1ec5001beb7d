#include "db/database.h"
#include "db/file-private.h"
#include "db/readonly-private.h"
#include "db/schema-private.h"
#include "db/sql-private.h"
#include "db/store.h"
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/stat.h>
#include <unistd.h>

void
db_database_free (DbDatabase *db)
{
  if (db == NULL)
    return;
  sqlite3_close_v2 (db->handle);
  sqlite3_close_v2 (db->guard); /* last, see readonly-private.h */
  g_free (db->path);
  g_free (db->full_path);
  g_free (db);
}

/* A file from elsewhere may hold views that call functions, or text that looks like a name. */
static gboolean
distrust_content (DbDatabase *db, GError **error)
{
  static const int switches[][2] = {
    { SQLITE_DBCONFIG_DEFENSIVE, 1 },
    { SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0 },
    { SQLITE_DBCONFIG_DQS_DML, 0 },
    { SQLITE_DBCONFIG_DQS_DDL, 0 },
    { SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0 },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (switches); i++) {
    int code = sqlite3_db_config (db->handle, switches[i][0], switches[i][1], NULL);
    if (code != SQLITE_OK)
      return db_sql_set_error (db->handle, db->path, code, "opening", error);
  }
  return TRUE;
}

/* Asks for a journal mode (NULL: only asks which it is). The file system may refuse without an
 * error: *out_wal says whether the write-ahead log is in use then. */
static gboolean
set_journal (DbDatabase *db, const char *mode, gboolean *out_wal, GError **error)
{
  g_autofree char *sql = g_strdup_printf ("PRAGMA journal_mode%s%s", mode != NULL ? " = " : "",
                                          mode != NULL ? mode : "");
  g_autoptr (DbStmt) stmt = db_sql_prepare (db, sql, error);
  gboolean row = FALSE;
  if (stmt == NULL || !db_sql_next (db, stmt, "choosing a journal", &row, error))
    return FALSE;
  *out_wal = row && g_strcmp0 ((const char *)sqlite3_column_text (stmt, 0), "wal") == 0;
  return TRUE;
}

static char *
slow_journal_warning (DbDatabase *db, const DbFile *file)
{
  g_autofree char *name
      = file->file_system != NULL ? g_strdup_printf (" (%s)", file->file_system) : g_strdup ("");
  return g_strdup_printf ("database '%s': its file system%s cannot hold a write-ahead log; using a "
                          "slower journal",
                          db->path, name);
}

static gboolean
choose_journal (DbDatabase *db, const DbFile *file, char **out_warning, GError **error)
{
  gboolean wal = FALSE;
  g_autoptr (GError) refused = NULL;
  if (file->shared_memory)
    set_journal (db, "WAL", &wal, &refused);
  /* While others use the file, its mode cannot change: it stays what it is. */
  gboolean shared = refused != NULL && refused->code == DB_ERROR_BUSY;
  if (!wal && !set_journal (db, shared ? NULL : "DELETE", &wal, error))
    return FALSE;
  if (!wal && !shared && out_warning != NULL)
    *out_warning = slow_journal_warning (db, file);
  /* With the log a power cut can lose the last commits but damages nothing. */
  return db_sql_exec (db, wal ? "PRAGMA synchronous = NORMAL" : "PRAGMA synchronous = FULL",
                      "opening", error);
}

static gboolean
prepare_writable (DbDatabase *db, const DbFile *file, char **out_warning, GError **error)
{
  static const char settings[] = "PRAGMA foreign_keys = ON; PRAGMA cache_size = -65536";
  gint64 foreign_keys = 0;
  if (sqlite3_db_readonly (db->handle, "main") != 0) {
    g_set_error (error, DB_ERROR, DB_ERROR_UNUSABLE,
                 "database '%s': the file or its file system is read-only; name another file with "
                 "--db",
                 db->path);
    return FALSE;
  }
  /* Until the version is known to be ours, closing must not fold a log found beside the file into
   * it. Where there was none, closing only removes the empty one that opening makes. */
  sqlite3_db_config (db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, file->has_log ? 1 : 0, NULL);
  if (!distrust_content (db, error) || !db_sql_exec (db, settings, "opening", error)
      || !db_sql_get_int (db, "PRAGMA foreign_keys", "opening", &foreign_keys, error)
      || !db_schema_migrate (db, error))
    return FALSE;
  if (foreign_keys != 1) {
    g_set_error (error, DB_ERROR, DB_ERROR_UNUSABLE,
                 "database '%s': this SQLite library has no foreign keys", db->path);
    return FALSE;
  }
  sqlite3_db_config (db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
  return choose_journal (db, file, out_warning, error);
}

/* A file that this call made and could not fill is no use to anybody. */
static void
remove_if_new (const DbFile *file)
{
  struct stat info;
  if (!file->exists && stat (file->full_path, &info) == 0 && info.st_size == 0)
    g_unlink (file->full_path);
}

/* SQLite tries a missing file again for reading, and then only says that it is missing: asks the
 * system itself why it cannot be made. */
static gboolean
set_create_error (const char *path, const DbFile *file, int code, sqlite3 *handle, GError **error)
{
  int fd
      = file->exists ? -1 : g_open (file->full_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  int create_errno = errno;
  if (file->exists || fd >= 0) {
    if (fd >= 0) {
      close (fd);
      g_unlink (file->full_path);
    }
    return db_sql_set_error (handle, path, code, "opening", error);
  }
  g_set_error (error, DB_ERROR, create_errno == ENOSPC ? DB_ERROR_FULL : DB_ERROR_UNUSABLE,
               "database '%s': cannot be made (%s); name another file with --db", path,
               g_strerror (create_errno));
  return FALSE;
}

static gboolean
open_writable (DbDatabase *db, const DbFile *file, char **out_warning, GError **error)
{
  int code
      = sqlite3_open_v2 (file->full_path, &db->handle,
                         SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
  if (code != SQLITE_OK)
    return set_create_error (db->path, file, code, db->handle, error);
  sqlite3_extended_result_codes (db->handle, 1);
  sqlite3_busy_timeout (db->handle, DB_BUSY_TIMEOUT_MS);
  if (prepare_writable (db, file, out_warning, error))
    return TRUE;
  remove_if_new (file);
  return FALSE;
}

static gboolean
open_readable (DbDatabase *db, const DbFile *file, GError **error)
{
  db->read_only = TRUE;
  return db_readonly_open (db, file, error) && distrust_content (db, error)
         && db_sql_exec (db, "PRAGMA query_only = ON", "opening", error)
         && db_schema_check_version (db, error);
}

DbDatabase *
db_database_open (const char *path, DbOpenMode mode, char **out_warning, GError **error)
{
  g_return_val_if_fail (path != NULL, NULL);
  g_auto (DbFile) file = { 0 };
  g_autoptr (DbDatabase) db = NULL;
  if (out_warning != NULL)
    *out_warning = NULL;
  if (!db_file_inspect (path, mode == DB_OPEN_READ_ONLY, &file, error))
    return NULL;
  db = g_new0 (DbDatabase, 1);
  db->path = g_strdup (path);
  db->full_path = g_strdup (file.full_path);
  gboolean ok = mode == DB_OPEN_READ_ONLY ? open_readable (db, &file, error)
                                          : open_writable (db, &file, out_warning, error)
                                                && db_store_bury_dead (db, error);
  return ok ? g_steal_pointer (&db) : NULL;
}
