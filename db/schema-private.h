/* db/schema-private.h - the tables and how an older file gets them. */
#pragma once
#include "db/sql-private.h"
G_BEGIN_DECLS

/* SQL that takes an empty file to schema version 1. */
extern const char db_schema_v1_sql[];
/* From version 1 to version 2. */
extern const char db_schema_v2_sql[];
/* From version 2 to version 3. */
extern const char db_schema_v3_sql[];
/* From version 3 to version 4. */
extern const char db_schema_v4_sql[];
/* From version 4 to version 5. */
extern const char db_schema_v5_sql[];
/* From version 5 to version 6. */
extern const char db_schema_v6_sql[];

/*
 * Brings the file to this build's schema, one transaction per version.
 *
 * Refuses, before any change, a file that is newer or holds somebody else's tables.
 */
gboolean db_schema_migrate (DbDatabase *db, GError **error);

/* Refuses version numbers that are newer than this build's, or that no build wrote. */
gboolean db_schema_check_known (const char *path, gint64 version, GError **error);

/* Refuses a file of another version (read-only connections cannot migrate). */
gboolean db_schema_check_version (DbDatabase *db, GError **error);

/* What a table, view or column is. */
typedef struct {
  const char *name;
  const char *text;
} DbColumnDoc;

typedef struct {
  const char *name;
  const char *text;
  const char *like; /* (nullable) objects, blank between, that describe its other columns */
  const DbColumnDoc *columns;
  guint n_columns;
} DbObjectDoc;

/* Every table and view, in reading order. */
const DbObjectDoc *db_schema_docs (guint *out_n);

/* Description of @object.@column, or NULL. (borrowed) */
const char *db_schema_column_text (const char *object, const char *column);

G_END_DECLS
