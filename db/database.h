/* db/database.h - opening and closing the database file that remembers every answer.
 *
 * The file is SQLite's, marked with application_id "plai" and a schema version. A file that is
 * not ours, is newer than this build, is damaged or cannot be written is refused with one line and
 * left as it was, byte for byte.
 *
 * A connection belongs to one thread at a time.
 */
#pragma once
#include <glib.h>
G_BEGIN_DECLS

#define DB_ERROR (db_error_quark ())
GQuark db_error_quark (void);

typedef enum {
  DB_ERROR_UNUSABLE,  /* missing, a directory, not a database, not ours, newer, not writable */
  DB_ERROR_BUSY,      /* another process holds the lock */
  DB_ERROR_FULL,      /* no space left; what was stored before is still there */
  DB_ERROR_CORRUPT,   /* damaged content */
  DB_ERROR_IO,        /* the system failed to read or write, or memory ran out */
  DB_ERROR_BAD_VALUE, /* a record breaks a rule of the schema */
  DB_ERROR_NOT_FOUND, /* no such plan, run or calibration */
  DB_ERROR_QUERY,     /* the user's SQL is wrong or not allowed */
  DB_ERROR_CANCELLED, /* stopped on request */
} DbError;

/* TRUE when @error means that the database cannot be used (exit code 3), whatever was asked;
 * FALSE for bad usage (exit code 2), cancellation, and errors of other domains. */
gboolean db_error_is_environment (const GError *error);

typedef struct _DbDatabase DbDatabase;

typedef enum {
  DB_OPEN_READ_WRITE, /* creates the file and its tables, migrates an older one */
  DB_OPEN_READ_ONLY,  /* the file must exist; neither it nor its folder changes */
} DbOpenMode;

/*
 * Opens the database at @path.
 *
 * @out_warning: (out, optional, nullable) (owned) one line when the file system cannot hold a
 *   write-ahead log and a slower journal is used instead
 *
 * Returns: (owned) or NULL with an error that names @path.
 */
DbDatabase *db_database_open (const char *path, DbOpenMode mode, char **out_warning,
                              GError **error);
void db_database_free (DbDatabase *db);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (DbDatabase, db_database_free)

/* Version of the schema this build reads and writes. */
gint64 db_schema_version (void);

/* Every table, view and column in words, as Markdown (docs/schema.md). Returns: (owned). */
char *db_schema_describe (void);

G_END_DECLS
