/* base/units_format.c - SI values as people read them: three significant digits and a prefix. */
#include "base/units.h"

#include <math.h>

/* @below: the unit is used while the value in it rounds to less than this. */
typedef struct {
  const char *name;
  double scale;
  double below;
} Step;

/* 999.5 is where three digits round to 1000; a KiB ends at 1024, a minute at 60. */
static const Step bytes_steps[] = {
  { "B", 1, 1023.5 },        { "KiB", 0x1p10, 1023.5 }, { "MiB", 0x1p20, 1023.5 },
  { "GiB", 0x1p30, 1023.5 }, { "TiB", 0x1p40, 1023.5 }, { "PiB", 0x1p50, INFINITY },
};
static const Step seconds_steps[] = {
  { "ns", 1e-9, 999.5 }, { "us", 1e-6, 999.5 }, { "ms", 1e-3, 999.5 },    { "s", 1, 999.5 },
  { "min", 60, 59.95 },  { "h", 3600, 23.95 },  { "d", 86400, INFINITY },
};
static const Step rate_steps[] = {
  { "B/s", 1, 999.5 },    { "kB/s", 1e3, 999.5 },     { "MB/s", 1e6, 999.5 },
  { "GB/s", 1e9, 999.5 }, { "TB/s", 1e12, INFINITY },
};

/* Limits where rounding to the next digit would show one digit more. */
static const char *
three_digits_format (double magnitude)
{
  if (magnitude < 0.995)
    return "%.3g";
  if (magnitude < 9.995)
    return "%.2f";
  if (magnitude < 99.95)
    return "%.1f";
  return magnitude < 1e6 ? "%.0f" : "%.3g";
}

static char *
format_steps (double value, const Step *steps, gboolean whole_base)
{
  double magnitude = fabs (value);
  const Step *step = steps;
  while (magnitude / step->scale >= step->below)
    step++;

  char digits[G_ASCII_DTOSTR_BUF_SIZE];
  double shown = value / step->scale;
  const char *format = three_digits_format (fabs (shown));
  if (whole_base && step == steps && shown == floor (shown))
    format = "%.0f";
  g_ascii_formatd (digits, sizeof digits, format, shown);
  return g_strdup_printf ("%s %s", digits, step->name);
}

static gboolean
is_plain (double value, const char *unit, char **out)
{
  if (isnan (value))
    *out = g_strdup_printf ("? %s", unit);
  else if (isinf (value))
    *out = g_strdup_printf ("%sinf %s", value < 0 ? "-" : "", unit);
  else if (value == 0)
    *out = g_strdup_printf ("0 %s", unit);
  else
    return FALSE;
  return TRUE;
}

char *
base_units_format_bytes (double bytes)
{
  char *text;
  return is_plain (bytes, "B", &text) ? text : format_steps (bytes, bytes_steps, TRUE);
}

char *
base_units_format_seconds (double seconds)
{
  char *text;
  return is_plain (seconds, "s", &text) ? text : format_steps (seconds, seconds_steps, FALSE);
}

char *
base_units_format_rate (double bytes_per_s)
{
  char *text;
  return is_plain (bytes_per_s, "B/s", &text) ? text
                                              : format_steps (bytes_per_s, rate_steps, FALSE);
}

char *
base_units_format_count (guint64 count)
{
  /* 20 digits and 6 commas at most. */
  char reversed[32];
  guint n = 0, digits = 0;
  do {
    if (digits > 0 && digits % 3 == 0)
      reversed[n++] = ',';
    reversed[n++] = (char)('0' + count % 10);
    digits++;
    count /= 10;
  } while (count > 0);

  char *text = g_malloc (n + 1);
  for (guint i = 0; i < n; i++)
    text[i] = reversed[n - 1 - i];
  text[n] = '\0';
  return text;
}
