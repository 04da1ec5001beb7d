/* db/file-private.h - what can be told about a database file without letting SQLite touch it. */
#pragma once
#include "db/database.h"
G_BEGIN_DECLS

typedef struct {
  char *full_path; /* absolute */
  gboolean exists;
  gboolean empty;          /* no bytes, or no file */
  gboolean write_ahead;    /* its header says that it uses a write-ahead log */
  gboolean has_log;        /* a file PATH-wal is beside it */
  gboolean shared_memory;  /* its file system can hold a write-ahead log's index */
  const char *file_system; /* name of a network file system, or NULL */
} DbFile;

void db_file_clear (DbFile *file);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (DbFile, db_file_clear)

/*
 * Looks at the file and its folder. Refuses folders, devices, a missing parent folder, files of
 * other programs, newer schemas, and (with @must_exist) a missing or empty file.
 */
gboolean db_file_inspect (const char *path, gboolean must_exist, DbFile *out, GError **error);

/* Name of the network file system whose statfs() type is @type, or NULL. (borrowed) */
const char *db_file_network_name (gint64 type);

G_END_DECLS
