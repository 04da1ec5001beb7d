/* base/csv.c - see base/csv.h. */
#include "base/csv.h"

#include "base/suggest.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

#define FILE_MAX_BYTES ((gsize)256 << 20)

G_DEFINE_QUARK (base_csv_error_quark, base_csv_error)

struct _BaseCsv {
  char *name;
  char *text;        /* every field, unquoted, each with its NUL */
  GArray *cells;     /* gsize: where in @text each field starts; row by row, header first */
  GArray *lines;     /* guint: the line each row starts on, header first */
  GHashTable *index; /* column name (borrowed) -> column */
  guint n_columns;
};

/* Where the reader stands; it copies fields from @p to @out, which never overtakes. */
typedef struct {
  BaseCsv *csv;
  const char *p, *end;
  char *out;
  guint line;
} Reader;

static gboolean
refuse (const Reader *reader, guint line, GError **error, const char *problem)
{
  g_set_error (error, BASE_CSV_ERROR, BASE_CSV_ERROR_PARSE, "%s:%u: %s", reader->csv->name, line,
               problem);
  return FALSE;
}

static gboolean
at_line_end (const Reader *reader)
{
  return reader->p == reader->end || *reader->p == '\n'
         || (*reader->p == '\r' && reader->p + 1 < reader->end && reader->p[1] == '\n');
}

/* Copies a quoted field; @reader stands on the opening quote. */
static gboolean
read_quoted (Reader *reader, GError **error)
{
  guint first_line = reader->line;
  reader->p++;
  for (;;) {
    if (reader->p == reader->end)
      return refuse (reader, first_line, error,
                     "found a quote that never ends, expected '\"' at the end of the field");
    char c = *reader->p++;
    if (c == '"') {
      if (reader->p == reader->end || *reader->p != '"')
        break;
      reader->p++;
    }
    reader->line += c == '\n';
    *reader->out++ = c;
  }
  if (at_line_end (reader) || *reader->p == ',')
    return TRUE;
  return refuse (reader, reader->line, error,
                 "found text after a closing quote, expected a comma or the end of the line");
}

static gboolean
read_plain (Reader *reader, GError **error)
{
  while (!at_line_end (reader) && *reader->p != ',') {
    if (*reader->p == '"')
      return refuse (reader, reader->line, error,
                     "found a quote inside a field, expected the whole field in quotes and the "
                     "quote doubled");
    *reader->out++ = *reader->p++;
  }
  return TRUE;
}

/* Reads one row and steps behind its line end. */
static gboolean
read_row (Reader *reader, guint *out_n_fields, GError **error)
{
  guint n_fields = 0;
  for (;;) {
    gsize start = (gsize)(reader->out - reader->csv->text);
    g_array_append_val (reader->csv->cells, start);
    n_fields++;
    gboolean quoted = reader->p < reader->end && *reader->p == '"';
    if (!(quoted ? read_quoted (reader, error) : read_plain (reader, error)))
      return FALSE;

    gboolean more = !at_line_end (reader);
    if (more)
      reader->p++; /* the comma */
    *reader->out++ = '\0';
    if (!more)
      break;
  }
  if (reader->p < reader->end)
    reader->p += *reader->p == '\r' ? 2 : 1;
  *out_n_fields = n_fields;
  return TRUE;
}

/* @row counts the header as 0. */
static const char *
field (const BaseCsv *csv, gsize row, guint column)
{
  return csv->text + g_array_index (csv->cells, gsize, row * csv->n_columns + column);
}

static gboolean
index_header (const Reader *reader, guint line, GError **error)
{
  BaseCsv *csv = reader->csv;
  for (guint column = 0; column < csv->n_columns; column++) {
    const char *name = base_csv_column_name (csv, column);
    if (g_hash_table_insert (csv->index, (gpointer)name, GUINT_TO_POINTER (column)))
      continue;
    g_autofree char *shown = base_text_excerpt (name, -1);
    g_autofree char *problem
        = g_strdup_printf ("column '%s' is there twice, expected every column once", shown);
    return refuse (reader, line, error, problem);
  }
  return TRUE;
}

static gboolean
read_rows (Reader *reader, GError **error)
{
  BaseCsv *csv = reader->csv;
  while (reader->p < reader->end) {
    guint line = reader->line, n_fields = 0;
    if (!read_row (reader, &n_fields, error))
      return FALSE;
    reader->line++;
    g_array_append_val (csv->lines, line);

    gboolean is_header = csv->lines->len == 1;
    if (is_header) {
      csv->n_columns = n_fields;
      if (!index_header (reader, line, error))
        return FALSE;
    } else if (n_fields != csv->n_columns) {
      if (n_fields == 1 && *field (csv, csv->lines->len - 1, 0) == '\0')
        return refuse (reader, line, error, "found an empty line, expected none between the rows");
      g_autofree char *problem = g_strdup_printf ("found %u fields, expected %u as in the header",
                                                  n_fields, csv->n_columns);
      return refuse (reader, line, error, problem);
    }
  }
  return TRUE;
}

static gboolean
check_bytes (const Reader *reader, const char *data, gsize length, GError **error)
{
  const char *bad = NULL;
  if (length == 0)
    return refuse (reader, 1, error, "found nothing, expected a header with the column names");
  if (g_utf8_validate_len (data, length, &bad))
    return TRUE;
  guint line = base_text_line_at (data, (gsize)(bad - data));
  return refuse (reader, line, error,
                 *bad == '\0' ? "found a NUL byte, expected UTF-8 text"
                              : "found bytes that are not UTF-8, expected UTF-8 text");
}

BaseCsv *
base_csv_new_from_data (const char *data, gssize length, const char *name, GError **error)
{
  g_return_val_if_fail (name != NULL && (data != NULL || length == 0), NULL);

  gsize n_bytes = length < 0 ? strlen (data) : (gsize)length;
  gsize bom = n_bytes > 0 ? base_text_bom_length (data, n_bytes) : 0;
  g_autoptr (BaseCsv) csv = g_new0 (BaseCsv, 1);
  csv->name = base_text_path_excerpt (name);
  csv->cells = g_array_new (FALSE, FALSE, sizeof (gsize));
  csv->lines = g_array_new (FALSE, FALSE, sizeof (guint));
  csv->index = g_hash_table_new (g_str_hash, g_str_equal);
  /* Every field shrinks or keeps its length, and its NUL takes the place of the comma or line end;
   * only the last field of the file may have none. */
  csv->text = g_malloc (n_bytes - bom + 1);

  Reader reader
      = { .csv = csv, .p = data + bom, .end = data + n_bytes, .out = csv->text, .line = 1 };
  if (!check_bytes (&reader, data, n_bytes - bom == 0 ? 0 : n_bytes, error)
      || !read_rows (&reader, error))
    return NULL;
  return g_steal_pointer (&csv);
}

BaseCsv *
base_csv_new_from_file (const char *path, GError **error)
{
  g_return_val_if_fail (path != NULL, NULL);

  gsize length = 0;
  g_autofree char *data = base_text_read_file (path, FILE_MAX_BYTES, &length, BASE_CSV_ERROR,
                                               BASE_CSV_ERROR_READ, error);
  return data != NULL ? base_csv_new_from_data (data, (gssize)length, path, error) : NULL;
}

void
base_csv_free (BaseCsv *csv)
{
  if (csv == NULL)
    return;
  g_hash_table_unref (csv->index);
  g_array_unref (csv->lines);
  g_array_unref (csv->cells);
  g_free (csv->text);
  g_free (csv->name);
  g_free (csv);
}

guint
base_csv_n_rows (const BaseCsv *csv)
{
  return csv->lines->len - 1;
}

guint
base_csv_n_columns (const BaseCsv *csv)
{
  return csv->n_columns;
}

const char *
base_csv_column_name (const BaseCsv *csv, guint column)
{
  g_return_val_if_fail (column < csv->n_columns, "");
  return field (csv, 0, column);
}

gint
base_csv_column (const BaseCsv *csv, const char *name)
{
  gpointer column;
  return g_hash_table_lookup_extended (csv->index, name, NULL, &column)
             ? (gint)GPOINTER_TO_UINT (column)
             : -1;
}

gboolean
base_csv_require_columns (const BaseCsv *csv, const char *const *names, GError **error)
{
  for (gsize i = 0; names[i] != NULL; i++) {
    if (base_csv_column (csv, names[i]) >= 0)
      continue;
    g_autofree const char **present = g_new0 (const char *, csv->n_columns + 1);
    for (guint column = 0; column < csv->n_columns; column++)
      present[column] = base_csv_column_name (csv, column);
    const char *near = base_suggest (names[i], present);
    g_autofree char *shown = base_text_excerpt (near != NULL ? near : "", -1);
    g_set_error (error, BASE_CSV_ERROR, BASE_CSV_ERROR_COLUMN, "%s: no column '%s'%s%s%s",
                 csv->name, names[i], near != NULL ? "; was '" : "", shown,
                 near != NULL ? "' meant?" : "");
    return FALSE;
  }
  return TRUE;
}

const char *
base_csv_cell (const BaseCsv *csv, guint row, guint column)
{
  g_return_val_if_fail (row < base_csv_n_rows (csv) && column < csv->n_columns, "");
  return field (csv, (gsize)row + 1, column);
}

const char *
base_csv_get (const BaseCsv *csv, guint row, const char *name)
{
  gint column = base_csv_column (csv, name);
  return column >= 0 ? base_csv_cell (csv, row, (guint)column) : "";
}

guint
base_csv_line (const BaseCsv *csv, guint row)
{
  g_return_val_if_fail (row < base_csv_n_rows (csv), 0);
  return g_array_index (csv->lines, guint, row + 1);
}

double
base_csv_number (const BaseCsv *csv, guint row, const char *name)
{
  g_autofree char *text = g_strstrip (g_strdup (base_csv_get (csv, row, name)));
  gboolean has_sign = *text == '-' || *text == '+';
  double value = NAN;
  const char *end = base_text_scan_decimal (text + has_sign, &value);
  if (end == NULL || *end != '\0' || !isfinite (value))
    return NAN;
  return *text == '-' ? -value : value;
}

void
base_csv_write_field (FILE *out, const char *text)
{
  /* In quotes a leading byte order mark stays part of the first field of a file. */
  if (strpbrk (text, ",\"\r\n") == NULL && base_text_bom_length (text, strlen (text)) == 0) {
    fputs (text, out);
    return;
  }
  fputc ('"', out);
  for (; *text != '\0'; text++) {
    if (*text == '"')
      fputc ('"', out);
    fputc (*text, out);
  }
  fputc ('"', out);
}
