/* app/validate_cells.c - reading the cells of a measured row strictly. */
#include "app/validate-private.h"

#include "base/text.h"

#include <math.h>

const char *
validate_cell (const ValidateCells *cells, const char *column)
{
  return base_csv_get (cells->csv, cells->row, column);
}

static gboolean
refuse (const ValidateCells *cells, const char *column, const char *expected, GError **error)
{
  g_autofree char *found = base_text_excerpt (validate_cell (cells, column), -1);

  g_set_error (error, APP_ERROR, APP_ERROR_USAGE, "%s:%u: column '%s': found '%s', expected %s",
               cells->file, base_csv_line (cells->csv, cells->row), column, found, expected);
  return FALSE;
}

gboolean
validate_cell_number (const ValidateCells *cells, const char *column, double *out, GError **error)
{
  const char *text = validate_cell (cells, column);
  const char *end = NULL;
  double value = NAN;

  *out = NAN;
  if (*text == '\0')
    return TRUE;
  end = base_text_scan_decimal (text, &value);
  if (end == NULL || *end != '\0' || !isfinite (value))
    return refuse (cells, column, "a number, or nothing where it is not known", error);
  *out = value;
  return TRUE;
}

gboolean
validate_cell_count (const ValidateCells *cells, const char *column, gboolean zero_ok, guint64 max,
                     guint64 *out, GError **error)
{
  double value = NAN;

  if (!validate_cell_number (cells, column, &value, error))
    return FALSE;
  if (isnan (value))
    return TRUE;
  if (!(value <= (double)max) || value != floor (value) || (value == 0 && !zero_ok)) {
    g_autofree char *expected
        = g_strdup_printf ("a whole number from %d to %" G_GUINT64_FORMAT ", or nothing",
                           zero_ok ? 0 : 1, max);

    return refuse (cells, column, expected, error);
  }
  *out = (guint64)value;
  return TRUE;
}
