/* base/units.c - numbers with units, parsed. Lists are in units_list.c, printing in
 * units_format.c. */
#include "base/units.h"

#include "base/text.h"

#include <math.h>
#include <string.h>

G_DEFINE_QUARK (base_units_error_quark, base_units_error)

#define KI 1024.0
#define MI (1024.0 * KI)
#define GI (1024.0 * MI)
#define TI (1024.0 * GI)
#define PI (1024.0 * TI)

/* Value in SI = number * scale / divisor: two exact integers, so that "3us" is the double nearest
 * to 3e-6 and "85%" the one nearest to 0.85. */
typedef struct {
  const char *name;
  double scale;
  double divisor;
} Unit;

typedef struct {
  const char *what; /* "bytes" in "expected bytes, for example 80GiB" */
  const char *example;
  const char *base_unit;  /* what a value is printed in when a message states it */
  gboolean unit_optional; /* a bare number is complete */
  const Unit *units;      /* ends with a NULL name */
} Dim;

static const Unit units_none[] = { { NULL, 0, 0 } };
static const Unit units_ratio[] = { { "%", 1, 100 }, { NULL, 0, 0 } };
static const Unit units_bytes[] = {
  { "B", 1, 1 },     { "kB", 1e3, 1 },  { "KB", 1e3, 1 }, { "MB", 1e6, 1 }, { "GB", 1e9, 1 },
  { "TB", 1e12, 1 }, { "PB", 1e15, 1 }, { "KiB", KI, 1 }, { "MiB", MI, 1 }, { "GiB", GI, 1 },
  { "TiB", TI, 1 },  { "PiB", PI, 1 },  { NULL, 0, 0 },
};
static const Unit units_seconds[] = {
  { "ns", 1, 1e9 },  { "us", 1, 1e6 }, { "\xc2\xb5s", 1, 1e6 }, { "\xce\xbcs", 1, 1e6 },
  { "ms", 1, 1e3 },  { "s", 1, 1 },    { "min", 60, 1 },        { "h", 3600, 1 },
  { "d", 86400, 1 }, { NULL, 0, 0 },
};
static const Unit units_bytes_per_s[] = {
  { "B/s", 1, 1 },      { "kB/s", 1e3, 1 },   { "KB/s", 1e3, 1 },    { "MB/s", 1e6, 1 },
  { "GB/s", 1e9, 1 },   { "TB/s", 1e12, 1 },  { "PB/s", 1e15, 1 },   { "KiB/s", KI, 1 },
  { "MiB/s", MI, 1 },   { "GiB/s", GI, 1 },   { "TiB/s", TI, 1 },    { "kb/s", 1e3, 8 },
  { "Mb/s", 1e6, 8 },   { "Gb/s", 1e9, 8 },   { "Tb/s", 1e12, 8 },   { "kbit/s", 1e3, 8 },
  { "Mbit/s", 1e6, 8 }, { "Gbit/s", 1e9, 8 }, { "Tbit/s", 1e12, 8 }, { NULL, 0, 0 },
};
static const Unit units_flop_per_s[] = {
  { "FLOP/s", 1, 1 },     { "MFLOP/s", 1e6, 1 },  { "GFLOP/s", 1e9, 1 }, { "TFLOP/s", 1e12, 1 },
  { "PFLOP/s", 1e15, 1 }, { "EFLOP/s", 1e18, 1 }, { NULL, 0, 0 },
};
static const Unit units_hertz[] = {
  { "Hz", 1, 1 }, { "kHz", 1e3, 1 }, { "MHz", 1e6, 1 }, { "GHz", 1e9, 1 }, { NULL, 0, 0 },
};
static const Unit units_watts[] = {
  { "W", 1, 1 },
  { "kW", 1e3, 1 },
  { "MW", 1e6, 1 },
  { NULL, 0, 0 },
};
static const Unit units_tokens[] = {
  { "tokens", 1, 1 }, { "k", 1e3, 1 },  { "K", 1e3, 1 }, { "M", 1e6, 1 },
  { "B", 1e9, 1 },    { "T", 1e12, 1 }, { NULL, 0, 0 },
};
static const Unit units_per_s[] = { { "/s", 1, 1 }, { NULL, 0, 0 } };
static const Unit units_usd_per_h[] = { { "USD/h", 1, 1 }, { NULL, 0, 0 } };

static const Dim dims[BASE_DIM_N_KINDS] = {
  [BASE_DIM_COUNT] = { "a bare number", "64", "", TRUE, units_none },
  [BASE_DIM_RATIO] = { "a ratio", "0.85 or 85%", "", TRUE, units_ratio },
  [BASE_DIM_BYTES] = { "bytes", "80GiB or 85.1GB", " bytes", FALSE, units_bytes },
  [BASE_DIM_SECONDS] = { "a time", "1.5us or 13.8s", " s", FALSE, units_seconds },
  [BASE_DIM_BYTES_PER_SECOND]
  = { "bytes or bits per second", "25GB/s or 400Gb/s", " bytes/s", FALSE, units_bytes_per_s },
  [BASE_DIM_FLOP_PER_SECOND]
  = { "FLOP per second", "989TFLOP/s", " FLOP/s", FALSE, units_flop_per_s },
  [BASE_DIM_HERTZ] = { "a frequency", "1.98GHz or 1980MHz", " Hz", FALSE, units_hertz },
  [BASE_DIM_WATTS] = { "a power", "700W", " W", FALSE, units_watts },
  [BASE_DIM_TOKENS] = { "a count of tokens", "15T or 300B", " tokens", FALSE, units_tokens },
  [BASE_DIM_PER_SECOND] = { "a rate", "20/s", "/s", FALSE, units_per_s },
  [BASE_DIM_USD_PER_HOUR]
  = { "US dollars per hour", "$2.50/h or 2.50USD/h", " USD/h", FALSE, units_usd_per_h },
};

/* A number and the unit it was written with. */
typedef struct {
  double number;
  const Unit *unit; /* NULL for a bare number */
  gboolean whole;   /* written in digits alone */
  guint64 integer;  /* its value, if @whole and it fits */
} Quantity;

const char *
base_units_dim_name (BaseDim dim)
{
  g_return_val_if_fail ((guint)dim < BASE_DIM_N_KINDS, "");
  return dims[dim].what;
}

char *
base_units_describe (BaseDim dim)
{
  g_return_val_if_fail ((guint)dim < BASE_DIM_N_KINDS, NULL);
  return g_strdup_printf ("%s, for example %s", dims[dim].what, dims[dim].example);
}

char *
base_units_format_si (double value, BaseDim dim)
{
  g_return_val_if_fail ((guint)dim < BASE_DIM_N_KINDS, NULL);
  char digits[G_ASCII_DTOSTR_BUF_SIZE];
  return g_strconcat (g_ascii_formatd (digits, sizeof digits, "%.10g", value), dims[dim].base_unit,
                      NULL);
}

static char *
list_units (const Dim *dim)
{
  GString *names = g_string_new (NULL);
  for (const Unit *unit = dim->units; unit->name != NULL; unit++)
    g_string_append_printf (names, "%s%s", names->len > 0 ? " " : "", unit->name);
  return g_string_free (names, FALSE);
}

static void
set_unit_error (const char *text, const char *unit, const Dim *dim, GError **error)
{
  g_autofree char *shown = base_text_excerpt (text, -1);
  g_autofree char *shown_unit = base_text_excerpt (unit, -1);
  g_autofree char *accepted = list_units (dim);

  if (*unit == '\0')
    g_set_error (error, BASE_UNITS_ERROR, BASE_UNITS_ERROR_UNIT,
                 "'%s' has no unit: expected %s, for example %s", shown, dim->what, dim->example);
  else if (*accepted == '\0')
    g_set_error (error, BASE_UNITS_ERROR, BASE_UNITS_ERROR_UNIT,
                 "'%s' has '%s' after the number: expected %s, for example %s", shown, shown_unit,
                 dim->what, dim->example);
  else
    g_set_error (error, BASE_UNITS_ERROR, BASE_UNITS_ERROR_UNIT,
                 "'%s' has the unit '%s': expected %s, for example %s (units: %s)", shown,
                 shown_unit, dim->what, dim->example, accepted);
}

/* No number at the start of @text: says which of the usual reasons it is. */
static void
set_number_error (const char *text, const Dim *dim, GError **error)
{
  static const char *const special[] = { "nan", "inf", "+nan", "+inf" };
  g_autofree char *shown = base_text_excerpt (text, -1);

  if (*text == '-') {
    g_set_error (error, BASE_UNITS_ERROR, BASE_UNITS_ERROR_RANGE,
                 "'%s' is negative: expected %s, for example %s", shown, dim->what, dim->example);
    return;
  }
  for (gsize i = 0; i < G_N_ELEMENTS (special); i++) {
    if (g_ascii_strncasecmp (text, special[i], strlen (special[i])) == 0) {
      g_set_error (error, BASE_UNITS_ERROR, BASE_UNITS_ERROR_RANGE,
                   "'%s' is not finite: expected %s, for example %s", shown, dim->what,
                   dim->example);
      return;
    }
  }
  g_set_error (error, BASE_UNITS_ERROR, BASE_UNITS_ERROR_SYNTAX,
               "'%s' is not a number: expected %s, for example %s", shown, dim->what, dim->example);
}

static void
set_range_error (const char *text, const Dim *dim, GError **error)
{
  g_autofree char *shown = base_text_excerpt (text, -1);
  g_set_error (error, BASE_UNITS_ERROR, BASE_UNITS_ERROR_RANGE,
               "'%s' is too large: expected %s, for example %s", shown, dim->what, dim->example);
}

/* @name: what follows the number; "$2.50/h" names its unit in two halves. */
static const Unit *
find_unit (const Dim *dim, gboolean has_dollar, const char *name)
{
  if (has_dollar)
    return strcmp (name, "/h") == 0 ? dim->units : NULL;
  for (const Unit *unit = dim->units; unit->name != NULL; unit++) {
    if (strcmp (unit->name, name) == 0)
      return unit;
  }
  return NULL;
}

static gboolean
parse_quantity (const char *raw, const Dim *dim, Quantity *out, GError **error)
{
  g_autofree char *text = g_strstrip (g_strdup (raw));
  Quantity quantity = { 0 };

  gboolean has_dollar = dim->units == units_usd_per_h && *text == '$';
  const char *start = text + has_dollar;
  const char *end = base_text_scan_decimal (start, &quantity.number);
  if (end == NULL) {
    set_number_error (text, dim, error);
    return FALSE;
  }
  if (!isfinite (quantity.number)) {
    set_range_error (text, dim, error);
    return FALSE;
  }
  quantity.whole = strspn (start, "0123456789") == (gsize)(end - start);
  if (quantity.whole) {
    g_autofree char *digits = g_strndup (start, (gsize)(end - start));
    quantity.whole
        = g_ascii_string_to_unsigned (digits, 10, 0, G_MAXUINT64, &quantity.integer, NULL);
  }

  while (g_ascii_isspace (*end))
    end++;
  quantity.unit = find_unit (dim, has_dollar, end);
  if (quantity.unit == NULL && !(*end == '\0' && dim->unit_optional)) {
    set_unit_error (text, end, dim, error);
    return FALSE;
  }
  *out = quantity;
  return TRUE;
}

gboolean
base_units_parse (const char *text, BaseDim dim, double *out, GError **error)
{
  g_return_val_if_fail (text != NULL && out != NULL, FALSE);
  g_return_val_if_fail ((guint)dim < BASE_DIM_N_KINDS, FALSE);

  Quantity quantity;
  if (!parse_quantity (text, &dims[dim], &quantity, error))
    return FALSE;

  double value = quantity.number;
  if (quantity.unit != NULL)
    value = value * quantity.unit->scale / quantity.unit->divisor;
  if (!isfinite (value)) {
    set_range_error (text, &dims[dim], error);
    return FALSE;
  }
  *out = value;
  return TRUE;
}

#define BYTES_MAX (G_GUINT64_CONSTANT (1) << 62)

gboolean
base_units_parse_bytes (const char *text, guint64 *out, GError **error)
{
  g_return_val_if_fail (text != NULL && out != NULL, FALSE);

  const Dim *dim = &dims[BASE_DIM_BYTES];
  Quantity quantity;
  if (!parse_quantity (text, dim, &quantity, error))
    return FALSE;

  double scale = quantity.unit->scale;
  double value = quantity.number * scale;
  if (!(value <= (double)BYTES_MAX)) {
    set_range_error (text, dim, error);
    return FALSE;
  }
  guint64 bytes = (guint64)llround (value);
  if (quantity.whole && !g_uint64_checked_mul (&bytes, quantity.integer, (guint64)scale)) {
    set_range_error (text, dim, error);
    return FALSE;
  }

  gboolean vanished = bytes == 0 && value > 0;
  if (bytes > BYTES_MAX) {
    set_range_error (text, dim, error);
    return FALSE;
  }
  if (vanished || (scale == 1 && (double)bytes != value && !quantity.whole)) {
    g_autofree char *shown = base_text_excerpt (text, -1);
    g_set_error (error, BASE_UNITS_ERROR, BASE_UNITS_ERROR_SYNTAX,
                 "'%s' is no whole number of bytes: expected bytes, for example %s", shown,
                 dim->example);
    return FALSE;
  }
  *out = bytes;
  return TRUE;
}

static char *
describe_count_range (guint64 min, guint64 max)
{
  if (max == G_MAXUINT64)
    return g_strdup_printf ("a whole number of at least %" G_GUINT64_FORMAT, min);
  return g_strdup_printf ("a whole number from %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT, min,
                          max);
}

gboolean
base_units_parse_count (const char *text, guint64 min, guint64 max, guint64 *out, GError **error)
{
  g_return_val_if_fail (text != NULL && out != NULL, FALSE);

  g_autofree char *digits = g_strstrip (g_strdup (text));
  gboolean all_digits = *digits != '\0' && digits[strspn (digits, "0123456789")] == '\0';
  guint64 value = 0;
  if (all_digits && g_ascii_string_to_unsigned (digits, 10, min, max, &value, NULL)) {
    *out = value;
    return TRUE;
  }

  double unused;
  g_autofree char *shown = base_text_excerpt (digits, -1);
  g_autofree char *range = describe_count_range (min, max);
  const char *unsigned_text = digits + (*digits == '-');
  gboolean negative = *digits == '-' && base_text_scan_decimal (unsigned_text, &unused) != NULL;
  g_set_error (error, BASE_UNITS_ERROR,
               all_digits || negative ? BASE_UNITS_ERROR_RANGE : BASE_UNITS_ERROR_SYNTAX,
               "found '%s', expected %s", shown, range);
  return FALSE;
}
