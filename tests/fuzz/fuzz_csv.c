/* tests/fuzz/fuzz_csv.c - any bytes as a table; what is read survives being written and read. */
#include "base/csv.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

static void
write_table (const BaseCsv *csv, FILE *out)
{
  guint n = base_csv_n_columns (csv);
  for (guint column = 0; column < n; column++) {
    base_csv_write_field (out, base_csv_column_name (csv, column));
    fputc (column + 1 < n ? ',' : '\n', out);
  }
  for (guint row = 0; row < base_csv_n_rows (csv); row++) {
    for (guint column = 0; column < n; column++) {
      base_csv_write_field (out, base_csv_cell (csv, row, column));
      fputc (column + 1 < n ? ',' : '\n', out);
    }
  }
}

static void
require_equal (const BaseCsv *a, const BaseCsv *b)
{
  fuzz_require (base_csv_n_rows (a) == base_csv_n_rows (b));
  fuzz_require (base_csv_n_columns (a) == base_csv_n_columns (b));
  for (guint column = 0; column < base_csv_n_columns (a); column++) {
    const char *name = base_csv_column_name (a, column);
    fuzz_require (strcmp (name, base_csv_column_name (b, column)) == 0);
    fuzz_require (base_csv_column (a, name) == (gint)column);
    for (guint row = 0; row < base_csv_n_rows (a); row++) {
      const char *cell = base_csv_cell (a, row, column);
      fuzz_require (strcmp (cell, base_csv_cell (b, row, column)) == 0);
      fuzz_require (cell == base_csv_get (a, row, name));
      base_csv_number (a, row, name);
    }
  }
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  static const char *const columns[] = { "id", "step_s", NULL };
  GError *error = NULL;
  g_autoptr (BaseCsv) csv
      = base_csv_new_from_data ((const char *)data, (gssize)size, "fuzz.csv", &error);
  fuzz_require_outcome (csv != NULL, &error);
  if (csv == NULL)
    return 0;
  gboolean ok = base_csv_require_columns (csv, columns, &error);
  fuzz_require_outcome (ok, &error);
  for (guint row = 0; row < base_csv_n_rows (csv); row++)
    fuzz_require (base_csv_line (csv, row) > (row > 0 ? base_csv_line (csv, row - 1) : 1));

  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream (&text, &length);
  write_table (csv, out);
  fclose (out);
  g_autoptr (BaseCsv) again = base_csv_new_from_data (text, (gssize)length, "again.csv", &error);
  fuzz_require (again != NULL);
  require_equal (csv, again);
  free (text);
  return 0;
}
