#include "db/file-private.h"
#include "db/schema-private.h"
#include <errno.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* Offsets in the header of a database file: https://www.sqlite.org/fileformat2.html section 1.3.
 * Numbers are big-endian. */
#define HEADER_BYTES          100
#define HEADER_READ_VERSION   19 /* 2: write-ahead log */
#define HEADER_USER_VERSION   60
#define HEADER_APPLICATION_ID 68

/* f_type values of file systems whose clients on two machines do not share memory, which the
 * write-ahead log needs (https://www.sqlite.org/wal.html). Numbers: statfs(2), linux/magic.h, and
 * the headers of Lustre, GPFS and BeeGFS. */
static const struct {
  gint64 type;
  const char *name;
} network_file_systems[] = {
  { 0x6969, "NFS" },     { 0x0bd00bd0, "Lustre" }, { 0x47504653, "GPFS" }, { 0x19830326, "BeeGFS" },
  { 0x517b, "SMB" },     { 0xff534d42, "CIFS" },   { 0xfe534d42, "SMB2" }, { 0x00c36400, "Ceph" },
  { 0x5346414f, "AFS" }, { 0x73757245, "Coda" },   { 0x01021997, "9P" },   { 0x7461636f, "OCFS2" },
};

void
db_file_clear (DbFile *file)
{
  g_clear_pointer (&file->full_path, g_free);
}

const char *
db_file_network_name (gint64 type)
{
  for (gsize i = 0; i < G_N_ELEMENTS (network_file_systems); i++)
    if (network_file_systems[i].type == (type & 0xffffffff))
      return network_file_systems[i].name;
  return NULL;
}

static guint32
big_endian (const guint8 *bytes)
{
  return ((guint32)bytes[0] << 24) | ((guint32)bytes[1] << 16) | ((guint32)bytes[2] << 8)
         | (guint32)bytes[3];
}

static gboolean
refuse (GError **error, const char *path, const char *why)
{
  g_set_error (error, DB_ERROR, DB_ERROR_UNUSABLE, "database '%s': %s", path, why);
  return FALSE;
}

/* A missing file needs a folder to be made in. */
static gboolean
check_parent (const char *path, const char *full_path, GError **error)
{
  g_autofree char *parent = g_path_get_dirname (full_path);
  if (g_file_test (parent, G_FILE_TEST_IS_DIR))
    return TRUE;
  g_autofree char *why
      = g_strdup_printf ("its folder '%s' does not exist; create it first", parent);
  return refuse (error, path, why);
}

static gboolean
check_header (const char *path, const guint8 *header, GError **error)
{
  if (memcmp (header, "SQLite format 3", 16) != 0)
    return refuse (error, path, "not a database; name another file with --db");
  if (big_endian (header + HEADER_APPLICATION_ID) != DB_APPLICATION_ID)
    return refuse (error, path, "belongs to another program; name another file with --db");
  return db_schema_check_known (path, (gint32)big_endian (header + HEADER_USER_VERSION), error);
}

/* Reads through SQLite's file layer, without locks: closing a descriptor of our own would drop the
 * locks that this process may hold on the file. @header: HEADER_BYTES long, zeroed. */
static gboolean
read_header (const char *path, const char *full_path, guint8 *header, GError **error)
{
  sqlite3 *handle = NULL;
  sqlite3_file *file = NULL;
  int code = sqlite3_open_v2 (full_path, &handle, SQLITE_OPEN_READONLY, NULL);
  if (code == SQLITE_OK)
    code = sqlite3_file_control (handle, "main", SQLITE_FCNTL_FILE_POINTER, &file);
  if (code == SQLITE_OK)
    code = file->pMethods->xRead (file, header, HEADER_BYTES, 0);
  gboolean ok = code == SQLITE_OK || code == SQLITE_IOERR_SHORT_READ;
  if (!ok)
    db_sql_set_error (handle, path, code, "reading its header", error);
  sqlite3_close (handle);
  return ok;
}

static gboolean
inspect_existing (const char *path, const struct stat *info, DbFile *file, GError **error)
{
  if (S_ISDIR (info->st_mode))
    return refuse (error, path, "is a folder, expected a file");
  if (!S_ISREG (info->st_mode))
    return refuse (error, path, "is a device or pipe, expected a file");
  file->exists = TRUE;
  file->empty = info->st_size == 0;
  if (file->empty)
    return TRUE;
  guint8 header[HEADER_BYTES] = { 0 };
  if (!read_header (path, file->full_path, header, error) || !check_header (path, header, error))
    return FALSE;
  g_autofree char *log = g_strconcat (file->full_path, "-wal", NULL);
  file->write_ahead = header[HEADER_READ_VERSION] == 2;
  file->has_log = g_file_test (log, G_FILE_TEST_EXISTS);
  return TRUE;
}

gboolean
db_file_inspect (const char *path, gboolean must_exist, DbFile *out, GError **error)
{
  struct stat info;
  g_auto (DbFile) file = { 0 };
  if (*path == '\0')
    return refuse (error, path, "the name is empty");
  file.full_path = g_canonicalize_filename (path, NULL);
  file.empty = TRUE;
  if (stat (file.full_path, &info) == 0) {
    if (!inspect_existing (path, &info, &file, error))
      return FALSE;
  } else if (errno != ENOENT) {
    return refuse (error, path, g_strerror (errno));
  } else if (must_exist) {
    return refuse (error, path, "does not exist; 'plait plan' makes one");
  } else if (!check_parent (path, file.full_path, error)) {
    return FALSE;
  }
  if (must_exist && file.empty)
    return refuse (error, path, "is empty; 'plait plan' fills one");
  g_autofree char *parent = g_path_get_dirname (file.full_path);
  struct statfs system;
  if (statfs (file.exists ? file.full_path : parent, &system) == 0)
    file.file_system = db_file_network_name ((gint64)system.f_type);
  file.shared_memory = file.file_system == NULL;
  *out = file;
  memset (&file, 0, sizeof file);
  return TRUE;
}
