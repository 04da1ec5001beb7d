/* cli/table.c - aligned text by libsmartcols, CSV by ourselves. */
#include "cli/cli.h"

#include "base/csv.h"

#include <libsmartcols/libsmartcols.h>

typedef struct {
  char *header;
  CliAlign align;
} Column;

struct _CliTable {
  GArray *columns; /* Column */
  GPtrArray *rows; /* GPtrArray * of char * */
};

static void
column_clear (gpointer column)
{
  g_free (((Column *)column)->header);
}

CliTable *
cli_table_new (void)
{
  CliTable *table = g_new0 (CliTable, 1);

  table->columns = g_array_new (FALSE, TRUE, sizeof (Column));
  g_array_set_clear_func (table->columns, column_clear);
  table->rows = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);
  return table;
}

void
cli_table_free (CliTable *table)
{
  if (table == NULL)
    return;
  g_array_unref (table->columns);
  g_ptr_array_unref (table->rows);
  g_free (table);
}

void
cli_table_column (CliTable *table, const char *header, CliAlign align)
{
  Column column = { g_strdup (header), align };

  g_array_append_val (table->columns, column);
}

void
cli_table_row (CliTable *table)
{
  g_ptr_array_add (table->rows, g_ptr_array_new_with_free_func (g_free));
}

void
cli_table_cell_owned (CliTable *table, char *text)
{
  g_return_if_fail (table->rows->len > 0);
  g_ptr_array_add (g_ptr_array_index (table->rows, table->rows->len - 1), text);
}

void
cli_table_cell (CliTable *table, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  cli_table_cell_owned (table, g_strdup_vprintf (format, arguments));
  va_end (arguments);
}

guint
cli_table_n_rows (const CliTable *table)
{
  return table->rows->len;
}

static void
print_csv (const CliTable *table, FILE *out)
{
  for (guint c = 0; c < table->columns->len; c++) {
    if (c > 0)
      fputc (',', out);
    base_csv_write_field (out, g_array_index (table->columns, Column, c).header);
  }
  fputs ("\r\n", out);
  for (guint r = 0; r < table->rows->len; r++) {
    const GPtrArray *cells = g_ptr_array_index (table->rows, r);

    for (guint c = 0; c < cells->len; c++) {
      if (c > 0)
        fputc (',', out);
      base_csv_write_field (out, g_ptr_array_index (cells, c));
    }
    fputs ("\r\n", out);
  }
}

static void
print_text (const CliTable *table, FILE *out)
{
  struct libscols_table *scols = scols_new_table ();

  if (scols == NULL)
    g_error ("out of memory"); /* as GLib's own allocators end */
  scols_table_set_stream (scols, out);
  scols_table_set_termforce (scols, SCOLS_TERMFORCE_NEVER);
  scols_table_set_column_separator (scols, "  ");
  for (guint c = 0; c < table->columns->len; c++) {
    const Column *column = &g_array_index (table->columns, Column, c);

    scols_table_new_column (scols, column->header, 0,
                            column->align == CLI_RIGHT ? SCOLS_FL_RIGHT : 0);
  }
  for (guint r = 0; r < table->rows->len; r++) {
    const GPtrArray *cells = g_ptr_array_index (table->rows, r);
    struct libscols_line *line = scols_table_new_line (scols, NULL);

    for (guint c = 0; line != NULL && c < cells->len; c++)
      scols_line_set_data (line, c, g_ptr_array_index (cells, c));
  }
  scols_print_table (scols);
  scols_unref_table (scols);
}

void
cli_table_print (const CliTable *table, FILE *out, gboolean csv)
{
  if (csv)
    print_csv (table, out);
  else
    print_text (table, out);
}
