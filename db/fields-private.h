/* db/fields-private.h - which member of a record is which column, once, for writing and reading.
 *
 * From such a table come the INSERT and the SELECT text, the binding and the reading, so that a
 * column cannot be written to one place and read from another.
 */
#pragma once
#include "db/sql-private.h"
G_BEGIN_DECLS

typedef enum {
  DB_FIELD_TEXT,        /* const char *, NULL is NULL */
  DB_FIELD_INT,         /* gint64 */
  DB_FIELD_INT_OR_NULL, /* gint64, 0 is NULL */
  DB_FIELD_FLAG,        /* gboolean, stored as 0 or 1 */
  DB_FIELD_COUNT,       /* guint64, refused above 2^63 - 1 */
  DB_FIELD_REAL,        /* double, NaN is NULL */
} DbFieldKind;

typedef struct {
  const char *column;
  DbFieldKind kind;
  gsize offset; /* of the member in the record */
} DbField;

typedef struct {
  const char *name; /* of the SQL table */
  const DbField *fields;
  guint n_fields;
} DbTable;

extern const DbTable db_machine_table;
extern const DbTable db_model_table;
extern const DbTable db_job_table;
extern const DbTable db_calibration_table;
extern const DbTable db_run_counts_table; /* columns of "run" */
extern const DbTable db_plan_table;
extern const DbTable db_prediction_table;
extern const DbTable db_stage_memory_table;
extern const DbTable db_breakdown_table;
extern const DbTable db_comm_group_table;
extern const DbTable db_assumed_table;
extern const DbTable db_rejected_table;
extern const DbTable db_validation_table;
extern const DbTable db_exec_table; /* "exec_run" */
extern const DbTable db_exec_op_table;
extern const DbTable db_exec_memory_table;
extern const DbTable db_exec_loaded_table; /* columns of "exec_run" */
extern const DbTable db_calibration_run_table;
extern const DbTable db_calibration_value_table;
extern const DbTable db_calibration_residual_table;
extern const DbTable db_point_table; /* "calibration_point" */

/* "INSERT INTO name (KEY, columns) VALUES (:KEY, :columns)"; @key leads, @last comes last (both
 * nullable: columns that are no members of the record). */
DbStmt *db_table_prepare_insert (DbDatabase *db, const DbTable *table, const char *key,
                                 const char *last, GError **error);

/* "SELECT columns FROM name WHERE KEY = :key ORDER BY @order" (nullable). */
DbStmt *db_table_prepare_select (DbDatabase *db, const DbTable *table, const char *key,
                                 const char *order, GError **error);

/* Binds the fields of @record to consecutive parameters from @first (1 = first of all). */
gboolean db_table_bind (DbDatabase *db, DbStmt *stmt, int first, const DbTable *table,
                        gconstpointer record, GError **error);

/* Fills @record from consecutive columns of the current row; text goes to @strings. */
void db_table_read (DbStmt *stmt, int first_column, const DbTable *table, gpointer record,
                    GStringChunk *strings);

/* Inserts @record with @key_value for the leading key column. */
gboolean db_table_insert (DbDatabase *db, DbStmt *insert, const DbTable *table, gint64 key_value,
                          gconstpointer record, GError **error);

/* Hash of every field of @record. Returns: (owned). */
char *db_table_hash (const DbTable *table, gconstpointer record);

G_END_DECLS
