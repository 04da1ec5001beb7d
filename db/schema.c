#include "db/schema-private.h"

/* Version i + 1 is reached from version i by the statements at index i. */
static const char *const migrations[] = { db_schema_v1_sql, db_schema_v2_sql, db_schema_v3_sql,
                                          db_schema_v4_sql, db_schema_v5_sql, db_schema_v6_sql };

gint64
db_schema_version (void)
{
  return G_N_ELEMENTS (migrations);
}

gboolean
db_schema_check_known (const char *path, gint64 version, GError **error)
{
  if (version < 0) {
    g_set_error (error, DB_ERROR, DB_ERROR_CORRUPT,
                 "database '%s' has schema version %" G_GINT64_FORMAT
                 ", which no plait writes; restore a copy or name another file with --db",
                 path, version);
    return FALSE;
  }
  if (version <= db_schema_version ())
    return TRUE;
  g_set_error (error, DB_ERROR, DB_ERROR_UNUSABLE,
               "database '%s' has schema version %" G_GINT64_FORMAT
               ", this plait knows up to %" G_GINT64_FORMAT
               "; use a newer plait or name another file with --db",
               path, version, db_schema_version ());
  return FALSE;
}

static gboolean
refuse_foreign (DbDatabase *db, GError **error)
{
  g_set_error (error, DB_ERROR, DB_ERROR_UNUSABLE,
               "database '%s' belongs to another program; name another file with --db", db->path);
  return FALSE;
}

/* Whose file it is, read from the header SQLite holds. */
static gboolean
read_identity (DbDatabase *db, gint64 *out_version, gboolean *out_ours, gboolean *out_empty,
               GError **error)
{
  gint64 application_id = 0;
  gint64 n_objects = 0;
  if (!db_sql_get_int (db, "PRAGMA application_id", "opening", &application_id, error)
      || !db_sql_get_int (db, "PRAGMA user_version", "opening", out_version, error)
      || !db_sql_get_int (db, "SELECT count(*) FROM sqlite_schema", "opening", &n_objects, error))
    return FALSE;
  *out_ours = application_id == DB_APPLICATION_ID;
  *out_empty = n_objects == 0 && application_id == 0 && *out_version == 0;
  return TRUE;
}

/* Inside the write lock: another process may have migrated since, then nothing is left to do. */
static gboolean
apply (DbDatabase *db, gint64 from, GError **error)
{
  gint64 version = 0;
  gboolean ours = FALSE;
  gboolean empty = FALSE;
  if (!read_identity (db, &version, &ours, &empty, error))
    return FALSE;
  if (!ours && !empty)
    return refuse_foreign (db, error);
  if (version != from)
    return TRUE;
  g_autofree char *stamp = g_strdup_printf ("PRAGMA application_id = %d; PRAGMA user_version = %d",
                                            DB_APPLICATION_ID, (int)from + 1);
  return db_sql_exec (db, migrations[from], "creating the tables", error)
         && db_sql_exec (db, stamp, "marking the schema version", error);
}

/* The same from outside a transaction: all three from one state of the file, which another process
 * may be creating. */
static gboolean
read_identity_at_once (DbDatabase *db, gint64 *out_version, gboolean *out_ours, gboolean *out_empty,
                       GError **error)
{
  if (!db_sql_exec (db, "BEGIN", "opening", error))
    return FALSE;
  gboolean ok = read_identity (db, out_version, out_ours, out_empty, error);
  return db_sql_end (db, ok, "opening", error);
}

gboolean
db_schema_migrate (DbDatabase *db, GError **error)
{
  gint64 version = 0;
  gboolean ours = FALSE;
  gboolean empty = FALSE;
  if (!read_identity_at_once (db, &version, &ours, &empty, error))
    return FALSE;
  if (!ours && !empty)
    return refuse_foreign (db, error);
  if (!db_schema_check_known (db->path, version, error))
    return FALSE;
  for (; version < db_schema_version (); version++) {
    if (!db_sql_begin (db, "creating the tables", error))
      return FALSE;
    if (!db_sql_end (db, apply (db, version, error), "creating the tables", error))
      return FALSE;
  }
  return TRUE;
}

gboolean
db_schema_check_version (DbDatabase *db, GError **error)
{
  gint64 version = 0;
  gboolean ours = FALSE;
  gboolean empty = FALSE;
  if (!read_identity_at_once (db, &version, &ours, &empty, error))
    return FALSE;
  if (empty) {
    g_set_error (error, DB_ERROR, DB_ERROR_UNUSABLE,
                 "database '%s' is empty; 'plait plan' fills one", db->path);
    return FALSE;
  }
  if (!ours)
    return refuse_foreign (db, error);
  if (!db_schema_check_known (db->path, version, error))
    return FALSE;
  if (version < db_schema_version ()) {
    g_set_error (error, DB_ERROR, DB_ERROR_UNUSABLE,
                 "database '%s' has schema version %" G_GINT64_FORMAT
                 ", this plait reads %" G_GINT64_FORMAT
                 "; any storing command ('plait plan') brings it up to date",
                 db->path, version, db_schema_version ());
    return FALSE;
  }
  return TRUE;
}
