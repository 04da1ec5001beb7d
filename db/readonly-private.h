/* db/readonly-private.h - reading a database so that no byte and no file beside it changes. */
#pragma once
#include "db/file-private.h"
#include "db/sql-private.h"
G_BEGIN_DECLS

/*
 * Opens db->handle (and db->guard) for reading.
 *
 * SQLite reads a write-ahead-log database through two files beside it, PATH-wal and PATH-shm. A
 * read-only connection makes them and cannot remove them. So, where no log is there, a second,
 * writable connection that runs no user SQL comes first and goes last: it removes them on closing.
 * Where the folder cannot be written, no log can appear either without the owner's doing: the file
 * is read without locks, and db_readonly_check() says whether it stayed the same.
 */
gboolean db_readonly_open (DbDatabase *db, const DbFile *file, GError **error);

/* After reading without locks: fails if somebody changed the file meanwhile. */
gboolean db_readonly_check (const DbDatabase *db, GError **error);

G_END_DECLS
