#include "db/readonly-private.h"
#include <sys/stat.h>

static gboolean
read_stamp (const char *full_path, gint64 *out_size, gint64 *out_time_ns)
{
  struct stat info;
  if (stat (full_path, &info) != 0)
    return FALSE;
  *out_size = info.st_size;
  *out_time_ns = info.st_mtim.tv_sec * G_GINT64_CONSTANT (1000000000) + info.st_mtim.tv_nsec;
  return TRUE;
}

/* A first read makes SQLite look at the file, its log and its locks. */
static int
touch (sqlite3 *handle)
{
  return sqlite3_exec (handle, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL);
}

static int
open_handle (const char *name, int flags, sqlite3 **out)
{
  int code = sqlite3_open_v2 (name, out, flags, NULL);
  if (code != SQLITE_OK)
    return code;
  sqlite3_extended_result_codes (*out, 1);
  return sqlite3_busy_timeout (*out, DB_BUSY_TIMEOUT_MS);
}

static void
close_handle (sqlite3 **handle)
{
  sqlite3_close (*handle);
  *handle = NULL;
}

/* The writable companion. Where the file or folder cannot be written it is done without, and
 * *out_lockless says so. */
static int
open_guard (DbDatabase *db, const DbFile *file, gboolean *out_lockless)
{
  int code = open_handle (file->full_path, SQLITE_OPEN_READWRITE, &db->guard);
  gboolean writable = code == SQLITE_OK && sqlite3_db_readonly (db->guard, "main") == 0;
  if (writable)
    code = touch (db->guard);
  if (writable && code == SQLITE_OK)
    return SQLITE_OK;
  close_handle (&db->guard);
  int kind = code & 0xff;
  *out_lockless = kind == SQLITE_OK || kind == SQLITE_CANTOPEN || kind == SQLITE_READONLY;
  return *out_lockless ? SQLITE_OK : code;
}

static int
open_immutable (DbDatabase *db, const DbFile *file)
{
  g_autofree char *uri = g_filename_to_uri (file->full_path, NULL, NULL);
  g_autofree char *name = g_strconcat (uri, "?immutable=1", NULL);
  db->immutable = read_stamp (file->full_path, &db->immutable_size, &db->immutable_time_ns);
  return open_handle (name, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, &db->handle);
}

gboolean
db_readonly_open (DbDatabase *db, const DbFile *file, GError **error)
{
  gboolean lockless = FALSE;
  int code = SQLITE_OK;
  if (file->write_ahead && !file->has_log)
    code = open_guard (db, file, &lockless);
  if (code == SQLITE_OK && lockless)
    code = open_immutable (db, file);
  else if (code == SQLITE_OK)
    code = open_handle (file->full_path, SQLITE_OPEN_READONLY, &db->handle);
  if (code == SQLITE_OK)
    code = touch (db->handle);
  return code == SQLITE_OK ? TRUE : db_sql_set_error (db->handle, db->path, code, "opening", error);
}

gboolean
db_readonly_check (const DbDatabase *db, GError **error)
{
  gint64 size = 0;
  gint64 time_ns = 0;
  g_autofree char *log = g_strconcat (db->full_path, "-wal", NULL);
  if (!db->immutable
      || (read_stamp (db->full_path, &size, &time_ns) && size == db->immutable_size
          && time_ns == db->immutable_time_ns && !g_file_test (log, G_FILE_TEST_EXISTS)))
    return TRUE;
  g_set_error (error, DB_ERROR, DB_ERROR_BUSY,
               "database '%s': somebody changed it while it was read; ask again", db->path);
  return FALSE;
}
