/* base/units.h - the one place where "450 GB/s" becomes a number and back.
 *
 * Inside plait everything is SI: bytes, seconds, bytes per second, FLOP per second. Prefixed
 * units exist only in files, on the command line and in printed text. GB = 1e9, GiB = 2^30;
 * they are different units and never mixed. A number with a dimension needs its unit.
 */
#pragma once
#include <glib.h>
G_BEGIN_DECLS

#define BASE_UNITS_ERROR (base_units_error_quark ())
GQuark base_units_error_quark (void);

typedef enum {
  BASE_UNITS_ERROR_SYNTAX, /* not a number, or junk after it */
  BASE_UNITS_ERROR_UNIT,   /* missing unit, or a unit of another dimension */
  BASE_UNITS_ERROR_RANGE,  /* negative, NaN, infinite, or too large for the type */
} BaseUnitsError;

typedef enum {
  BASE_DIM_COUNT,            /* bare number: "64" */
  BASE_DIM_RATIO,            /* bare number or percentage: "0.85", "85%" */
  BASE_DIM_BYTES,            /* B kB KB MB GB TB KiB MiB GiB TiB */
  BASE_DIM_SECONDS,          /* ns us ms s min h d */
  BASE_DIM_BYTES_PER_SECOND, /* GB/s MB/s GiB/s TB/s and bits: Gb/s Gbit/s Mb/s Tb/s */
  BASE_DIM_FLOP_PER_SECOND,  /* TFLOP/s GFLOP/s PFLOP/s */
  BASE_DIM_HERTZ,            /* MHz GHz */
  BASE_DIM_WATTS,            /* W kW */
  BASE_DIM_TOKENS,           /* "15T" "300B" "2M": counts of tokens */
  BASE_DIM_PER_SECOND,       /* "20/s" */
  BASE_DIM_USD_PER_HOUR,     /* "$2.50/h", "2.50USD/h" */
  BASE_DIM_N_KINDS
} BaseDim;

/*
 * Parses @text as a non-negative finite number of dimension @dim into SI.
 *
 * Blanks between number and unit are allowed ("450 GB/s"). Refuses NaN, infinities, negative
 * numbers, hexadecimal floats, a missing or foreign unit; the message lists the units accepted.
 * @out is written only on success.
 */
gboolean base_units_parse (const char *text, BaseDim dim, double *out, GError **error);

/* Whole bytes, at most 2^62. "0.5KiB" is 512; "0.3B" is refused (not whole). A number with a
 * prefix and a fraction was rounded by its writer: "139.8GiB" is taken to the nearest byte. */
gboolean base_units_parse_bytes (const char *text, guint64 *out, GError **error);

/* A plain decimal integer within [min, max]: no sign, no unit, no exponent. */
gboolean base_units_parse_count (const char *text, guint64 min, guint64 max, guint64 *out,
                                 GError **error);

/*
 * A list for options such as --gpus: "64", "64,128", "64..4096" (doubling from the first to the
 * last that does not exceed the end), and mixtures; duplicates and an empty item are refused.
 * Returns: (owned) GArray of guint64 in the order given, or NULL.
 */
GArray *base_units_parse_count_list (const char *text, guint64 min, guint64 max, GError **error);

/* Same for byte sizes: "8B..16GiB". Returns: (owned) GArray of guint64. */
GArray *base_units_parse_bytes_list (const char *text, GError **error);

/* Shortest readable forms, three significant digits: "46.9 GiB", "13.8 s", "3.10 us", "450 GB/s".
 * Returns: (owned) string. */
char *base_units_format_bytes (double bytes);
char *base_units_format_seconds (double seconds);
char *base_units_format_rate (double bytes_per_s);
/* Words for messages: "bytes, for example 80GiB or 85.1GB" (owned), and @value in the SI unit of
 * @dim, "1500000000 bytes" (owned). */
char *base_units_describe (BaseDim dim);
char *base_units_format_si (double value, BaseDim dim);
const char *base_units_dim_name (BaseDim dim); /* "bytes" */

char *base_units_format_count (guint64 count); /* 70553706496 -> "70,553,706,496" */

G_END_DECLS
