/* base/csv.h - CSV tables (RFC 4180: quotes, embedded commas and newlines, CRLF), by column name. */
#pragma once
#include <glib.h>
#include <stdio.h>
G_BEGIN_DECLS
#define BASE_CSV_ERROR (base_csv_error_quark ())
GQuark base_csv_error_quark (void);
typedef enum { BASE_CSV_ERROR_PARSE, BASE_CSV_ERROR_READ, BASE_CSV_ERROR_COLUMN } BaseCsvError;

typedef struct _BaseCsv BaseCsv;
/* First row is the header. Rows of another width, an unterminated quote, a NUL: error with line. */
BaseCsv *base_csv_new_from_file (const char *path, GError **error);
BaseCsv *base_csv_new_from_data (const char *data, gssize length, const char *name, GError **error);
void base_csv_free (BaseCsv *csv);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (BaseCsv, base_csv_free)
guint base_csv_n_rows (const BaseCsv *csv);
guint base_csv_n_columns (const BaseCsv *csv);
const char *base_csv_column_name (const BaseCsv *csv, guint column);
gint base_csv_column (const BaseCsv *csv, const char *name); /* -1 if absent */
/* Cell by column name, "" if there is no such column. (borrowed) */
const char *base_csv_get (const BaseCsv *csv, guint row, const char *name);
const char *base_csv_cell (const BaseCsv *csv, guint row, guint column);
guint base_csv_line (const BaseCsv *csv, guint row); /* line in the file where the row starts */
/* Number in a cell: NaN if empty or not a number. */
double base_csv_number (const BaseCsv *csv, guint row, const char *name);
/* Refuses a table that lacks one of the NULL-terminated @names, with the nearest that it has. */
gboolean base_csv_require_columns (const BaseCsv *csv, const char *const *names, GError **error);
/* @paths with every folder replaced by its *.csv, in name order. Subfolders are not looked into; a
 * folder without any is an error. Returns: (owned) strv. */
char **base_csv_paths (const char *const *paths, GError **error);
/* Writes one field with the quoting RFC 4180 asks for. */
void base_csv_write_field (FILE *out, const char *text);
G_END_DECLS
