/* db/sql-private.h - SQLite with GError: statements, transactions, what a result code means. */
#pragma once
#include "db/database.h"
#include <sqlite3.h>
G_BEGIN_DECLS

struct _DbDatabase {
  sqlite3 *handle;
  sqlite3 *guard; /* (nullable) keeps the log's side files tidy while reading; see readonly.c */
  char *path;     /* as the user wrote it, for messages */
  char *full_path;
  gboolean read_only;
  gboolean immutable;       /* opened without locks: the file system cannot hold any */
  gint64 immutable_size;    /* bytes of the file then */
  gint64 immutable_time_ns; /* its modification time then */
};

typedef sqlite3_stmt DbStmt;
G_DEFINE_AUTOPTR_CLEANUP_FUNC (DbStmt, sqlite3_finalize)

/* How long a connection waits for a lock before it gives up. */
#define DB_BUSY_TIMEOUT_MS 5000

/* First bytes of our files after SQLite's own: "plai" as a big-endian number. */
#define DB_APPLICATION_ID 0x706c6169

/* Turns result code @code of the last call on @handle (nullable) into an error, worded as
 * "database 'PATH': DOING: reason". Returns: FALSE. */
gboolean db_sql_set_error (sqlite3 *handle, const char *path, int code, const char *doing,
                           GError **error);

/* Runs statements that return no rows. */
gboolean db_sql_exec (DbDatabase *db, const char *sql, const char *doing, GError **error);

/* Returns: (owned) or NULL. */
DbStmt *db_sql_prepare (DbDatabase *db, const char *sql, GError **error);

/* Binds by name (":plan_id"); a name the statement lacks is a bug and fails. */
gboolean db_sql_bind_int (DbDatabase *db, DbStmt *stmt, const char *name, gint64 value,
                          GError **error);
gboolean db_sql_bind_text (DbDatabase *db, DbStmt *stmt, const char *name, const char *value,
                           GError **error); /* NULL binds NULL */
gboolean db_sql_bind_real (DbDatabase *db, DbStmt *stmt, const char *name, double value,
                           GError **error); /* NaN binds NULL */

/* Runs a statement to its end and resets it. */
gboolean db_sql_run (DbDatabase *db, DbStmt *stmt, const char *doing, GError **error);
/* Prepares, runs and forgets @sql, whose one parameter is :id. */
gboolean db_sql_run_with_id (DbDatabase *db, const char *sql, gint64 id, const char *doing,
                             GError **error);

/* Next row: *out_row says whether there is one. */
gboolean db_sql_next (DbDatabase *db, DbStmt *stmt, const char *doing, gboolean *out_row,
                      GError **error);

/* One number from one row; *out untouched and FALSE without such a row (then NOT_FOUND). */
gboolean db_sql_get_int (DbDatabase *db, const char *sql, const char *doing, gint64 *out,
                         GError **error);

/* Takes the write lock at once, so that a transaction never fails halfway for want of it. */
gboolean db_sql_begin (DbDatabase *db, const char *doing, GError **error);

/* Commits if @ok; else, or if that fails, undoes everything. Returns: TRUE if committed. */
gboolean db_sql_end (DbDatabase *db, gboolean ok, const char *doing, GError **error);

G_END_DECLS
