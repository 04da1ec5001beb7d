/* Unit tests of base/units.h. Expected values are the definitions of the SI and IEC prefixes. */
#include "base/units.h"
#include "tests/testutil.h"

#include <locale.h>

typedef struct {
  const char *name;
  const char *text;
  BaseDim dim;
  double want;
  gint code; /* -1: accepted */
} ParseCase;

#define OK     -1
#define SYNTAX BASE_UNITS_ERROR_SYNTAX
#define UNIT   BASE_UNITS_ERROR_UNIT
#define RANGE  BASE_UNITS_ERROR_RANGE

static const ParseCase parse_cases[] = {
  { "count/plain", "64", BASE_DIM_COUNT, 64, OK },
  { "count/fraction", "1.5", BASE_DIM_COUNT, 1.5, OK },
  { "count/point_first", ".5", BASE_DIM_COUNT, 0.5, OK },
  { "count/point_last", "5.", BASE_DIM_COUNT, 5, OK },
  { "count/exponent", "1e3", BASE_DIM_COUNT, 1000, OK },
  { "count/zero", "0", BASE_DIM_COUNT, 0, OK },
  { "count/blanks", "  64\t", BASE_DIM_COUNT, 64, OK },
  { "count/refuses_unit", "64B", BASE_DIM_COUNT, 0, UNIT },
  { "ratio/bare", "0.85", BASE_DIM_RATIO, 0.85, OK },
  /* 85 / 100 is correctly rounded, so it is the same double as 0.85 */
  { "ratio/percent", "85%", BASE_DIM_RATIO, 0.85, OK },
  { "ratio/percent_blank", "85 %", BASE_DIM_RATIO, 0.85, OK },
  { "bytes/gib", "80GiB", BASE_DIM_BYTES, 85899345920.0, OK },
  { "bytes/gb", "80GB", BASE_DIM_BYTES, 80e9, OK },
  { "bytes/kb_is_1000", "1kB", BASE_DIM_BYTES, 1000, OK },
  { "bytes/kib_is_1024", "1KiB", BASE_DIM_BYTES, 1024, OK },
  /* 2^40 */
  { "bytes/tib", "1TiB", BASE_DIM_BYTES, 1099511627776.0, OK },
  { "bytes/fraction", "139.8GiB", BASE_DIM_BYTES, 139.8 * 1073741824.0, OK },
  { "bytes/needs_unit", "80", BASE_DIM_BYTES, 0, UNIT },
  { "bytes/refuses_bits", "80Gb", BASE_DIM_BYTES, 0, UNIT },
  { "bytes/refuses_rate", "80GB/s", BASE_DIM_BYTES, 0, UNIT },
  { "bytes/refuses_case", "80gib", BASE_DIM_BYTES, 0, UNIT },
  { "bytes/refuses_unit_twice", "1 GB GB", BASE_DIM_BYTES, 0, UNIT },
  { "bytes/refuses_two_numbers", "1 2GB", BASE_DIM_BYTES, 0, UNIT },
  { "bytes/unit_alone", "GB", BASE_DIM_BYTES, 0, SYNTAX },
  { "seconds/us", "1.5us", BASE_DIM_SECONDS, 1.5e-6, OK },
  { "seconds/micro_sign", "1.5\xc2\xb5s", BASE_DIM_SECONDS, 1.5e-6, OK },
  { "seconds/ns", "3ns", BASE_DIM_SECONDS, 3e-9, OK },
  { "seconds/min", "2min", BASE_DIM_SECONDS, 120, OK },
  { "seconds/day", "1d", BASE_DIM_SECONDS, 86400, OK },
  { "seconds/refuses_bare", "1", BASE_DIM_SECONDS, 0, UNIT },
  { "rate/bytes", "25GB/s", BASE_DIM_BYTES_PER_SECOND, 25e9, OK },
  { "rate/blank", "450 GB/s", BASE_DIM_BYTES_PER_SECOND, 450e9, OK },
  /* 400e9 bits / 8 */
  { "rate/bits", "400Gb/s", BASE_DIM_BYTES_PER_SECOND, 50e9, OK },
  { "rate/gbit", "400Gbit/s", BASE_DIM_BYTES_PER_SECOND, 50e9, OK },
  { "rate/terabytes", "3.35TB/s", BASE_DIM_BYTES_PER_SECOND, 3.35e12, OK },
  { "rate/refuses_size", "25GB", BASE_DIM_BYTES_PER_SECOND, 0, UNIT },
  { "flop/tera", "989TFLOP/s", BASE_DIM_FLOP_PER_SECOND, 989e12, OK },
  { "flop/refuses_flops", "989TFLOPS", BASE_DIM_FLOP_PER_SECOND, 0, UNIT },
  { "hertz/mega", "1980MHz", BASE_DIM_HERTZ, 1.98e9, OK },
  { "watts/plain", "700W", BASE_DIM_WATTS, 700, OK },
  { "watts/kilo", "1.2kW", BASE_DIM_WATTS, 1200, OK },
  { "tokens/tera", "15T", BASE_DIM_TOKENS, 15e12, OK },
  { "tokens/giga", "300B", BASE_DIM_TOKENS, 300e9, OK },
  { "tokens/mega", "2M", BASE_DIM_TOKENS, 2e6, OK },
  { "tokens/refuses_bare", "15", BASE_DIM_TOKENS, 0, UNIT },
  { "per_s/plain", "20/s", BASE_DIM_PER_SECOND, 20, OK },
  { "price/dollar", "$2.50/h", BASE_DIM_USD_PER_HOUR, 2.5, OK },
  { "price/usd", "2.50USD/h", BASE_DIM_USD_PER_HOUR, 2.5, OK },
  { "price/refuses_bare", "2.50", BASE_DIM_USD_PER_HOUR, 0, UNIT },
  { "price/refuses_both", "$2.50USD/h", BASE_DIM_USD_PER_HOUR, 0, UNIT },
  { "price/refuses_dollar_alone", "$", BASE_DIM_USD_PER_HOUR, 0, SYNTAX },
  { "price/refuses_double_dollar", "$$2/h", BASE_DIM_USD_PER_HOUR, 0, SYNTAX },
  { "count/refuses_dollar", "$2", BASE_DIM_COUNT, 0, SYNTAX },
  { "bad/empty", "", BASE_DIM_COUNT, 0, SYNTAX },
  { "bad/blank", "  ", BASE_DIM_BYTES, 0, SYNTAX },
  { "bad/word", "many", BASE_DIM_COUNT, 0, SYNTAX },
  { "bad/nan", "nan", BASE_DIM_COUNT, 0, RANGE },
  { "bad/nan_with_unit", "NaN GB", BASE_DIM_BYTES, 0, RANGE },
  { "bad/inf", "inf", BASE_DIM_COUNT, 0, RANGE },
  { "bad/infinity", "Infinity", BASE_DIM_COUNT, 0, RANGE },
  { "bad/negative", "-1", BASE_DIM_COUNT, 0, RANGE },
  { "bad/negative_with_unit", "-80GiB", BASE_DIM_BYTES, 0, RANGE },
  { "bad/plus", "+1", BASE_DIM_COUNT, 0, SYNTAX },
  { "bad/hexadecimal", "0x10", BASE_DIM_COUNT, 0, SYNTAX },
  { "bad/hexadecimal_float", "0x1p3GB", BASE_DIM_BYTES, 0, SYNTAX },
  { "bad/too_large", "1e400", BASE_DIM_COUNT, 0, RANGE },
  /* 1e308 alone is a double, times 1e12 it is none */
  { "bad/too_large_with_unit", "1e308TB", BASE_DIM_BYTES, 0, RANGE },
  { "bad/two_points", "1.2.3", BASE_DIM_COUNT, 0, UNIT },
  { "bad/point_alone", ".", BASE_DIM_COUNT, 0, SYNTAX },
  { "bad/comma", "1,5GB", BASE_DIM_BYTES, 0, UNIT },
  { "bad/exponent_alone", "1e", BASE_DIM_COUNT, 0, UNIT },
  { "bad/utf8", "\xff\xfe", BASE_DIM_COUNT, 0, SYNTAX },
};

static void
assert_refused (gboolean ok, GError *error, gint code)
{
  assert_false (ok);
  assert_non_null (error);
  assert_true (error->domain == BASE_UNITS_ERROR);
  assert_int_equal (error->code, code);
  assert_null (strchr (error->message, '\n'));
  g_error_free (error);
}

static void
test_parse (void **state)
{
  const ParseCase *c = *state;
  double got = 42;
  GError *error = NULL;
  gboolean ok = base_units_parse (c->text, c->dim, &got, &error);
  if (c->code == OK) {
    assert_no_error (error);
    assert_true (ok);
    assert_true (got == c->want);
  } else {
    assert_refused (ok, error, c->code);
    assert_true (got == 42);
  }
}

typedef struct {
  const char *name;
  const char *text;
  guint64 want;
  gint code;
} BytesCase;

static const BytesCase bytes_cases[] = {
  { "whole/half_kib", "0.5KiB", 512, OK },
  { "whole/zero", "0B", 0, OK },
  { "whole/tenth_gb", "0.1GB", 100000000, OK },
  /* 139.8 * 2^30 = 150109106995.2, to the nearest byte */
  { "whole/rounded", "139.8GiB", G_GUINT64_CONSTANT (150109106995), OK },
  /* 2^53 + 1 is no double */
  { "whole/exact_beyond_double", "9007199254740993B", G_GUINT64_CONSTANT (9007199254740993), OK },
  { "whole/largest", "4611686018427387904B", G_GUINT64_CONSTANT (1) << 62, OK },
  { "whole/largest_pib", "4096PiB", G_GUINT64_CONSTANT (1) << 62, OK },
  { "whole/one_too_many", "4611686018427387905B", 0, RANGE },
  { "whole/fraction_too_many", "4096.5PiB", 0, RANGE },
  { "whole/two_to_63", "9223372036854775808B", 0, RANGE },
  { "whole/1e30", "1e30B", 0, RANGE },
  { "whole/many_digits", "99999999999999999999999999B", 0, RANGE },
  { "whole/exponent", "1e3B", 1000, OK },
  { "whole/refuses_part", "0.3B", 0, SYNTAX },
  { "whole/refuses_vanishing", "0.0001KiB", 0, SYNTAX },
  { "whole/refuses_bare", "512", 0, UNIT },
  { "whole/refuses_negative", "-1B", 0, RANGE },
};

static void
test_bytes (void **state)
{
  const BytesCase *c = *state;
  guint64 got = 42;
  GError *error = NULL;
  gboolean ok = base_units_parse_bytes (c->text, &got, &error);
  if (c->code == OK) {
    assert_no_error (error);
    assert_true (ok);
    assert_true (got == c->want);
  } else {
    assert_refused (ok, error, c->code);
    assert_true (got == 42);
  }
}

typedef struct {
  const char *name;
  const char *text;
  guint64 min, max;
  guint64 want;
  gint code;
} CountCase;

static const CountCase count_cases[] = {
  { "integer/plain", "64", 1, 128, 64, OK },
  { "integer/min", "1", 1, 128, 1, OK },
  { "integer/max", "128", 1, 128, 128, OK },
  { "integer/blank", " 7 ", 0, 9, 7, OK },
  { "integer/largest", "18446744073709551615", 0, G_MAXUINT64, G_MAXUINT64, OK },
  { "integer/below", "0", 1, 128, 0, RANGE },
  { "integer/above", "129", 1, 128, 0, RANGE },
  { "integer/overflow", "18446744073709551616", 0, G_MAXUINT64, 0, RANGE },
  { "integer/negative", "-1", 0, 9, 0, RANGE },
  { "integer/sign", "+1", 0, 9, 0, SYNTAX },
  { "integer/point", "1.0", 0, 9, 0, SYNTAX },
  { "integer/exponent", "1e1", 0, 99, 0, SYNTAX },
  { "integer/hexadecimal", "0x1", 0, 99, 0, SYNTAX },
  { "integer/unit", "1B", 0, 9, 0, SYNTAX },
  { "integer/two", "1 2", 0, 99, 0, SYNTAX },
  { "integer/nan", "nan", 0, 9, 0, SYNTAX },
  { "integer/empty", "", 0, 9, 0, SYNTAX },
};

static void
test_count (void **state)
{
  const CountCase *c = *state;
  guint64 got = 42;
  GError *error = NULL;
  gboolean ok = base_units_parse_count (c->text, c->min, c->max, &got, &error);
  if (c->code == OK) {
    assert_no_error (error);
    assert_true (ok);
    assert_true (got == c->want);
  } else {
    assert_refused (ok, error, c->code);
    assert_true (got == 42);
  }
}

typedef struct {
  const char *name;
  const char *text;
  gboolean is_bytes;
  const char *want; /* NULL: refused with @code */
  gint code;
} ListCase;

static const ListCase list_cases[] = {
  { "list/one", "64", FALSE, "64 ", OK },
  { "list/two", "64,128", FALSE, "64 128 ", OK },
  { "list/order_kept", "128, 64", FALSE, "128 64 ", OK },
  { "list/range", "64..512", FALSE, "64 128 256 512 ", OK },
  { "list/range_short_of_end", "3..20", FALSE, "3 6 12 ", OK },
  { "list/range_of_one", "8..8", FALSE, "8 ", OK },
  { "list/mixture", "1,6..12,100", FALSE, "1 6 12 100 ", OK },
  /* 2^19 is the largest power of two below 10^6 */
  { "list/range_to_max", "524288..1000000", FALSE, "524288 ", OK },
  { "list/bytes", "8B..64B,1KiB", TRUE, "8 16 32 64 1024 ", OK },
  /* 2^61 and 2^62: doubling stops without overflow */
  { "list/bytes_top", "2048PiB..4096PiB", TRUE, "2305843009213693952 4611686018427387904 ", OK },
  { "list/empty", "", FALSE, NULL, SYNTAX },
  { "list/empty_item", "1,,2", FALSE, NULL, SYNTAX },
  { "list/trailing_comma", "1,", FALSE, NULL, SYNTAX },
  { "list/duplicate", "1,2,1", FALSE, NULL, SYNTAX },
  { "list/duplicate_in_range", "8,1..16", FALSE, NULL, SYNTAX },
  { "list/duplicate_by_unit", "1KiB,1024B", TRUE, NULL, SYNTAX },
  { "list/backwards", "8..4", FALSE, NULL, RANGE },
  { "list/from_zero", "0..4", FALSE, NULL, RANGE },
  { "list/open_end", "8..", FALSE, NULL, SYNTAX },
  { "list/open_start", "..8", FALSE, NULL, SYNTAX },
  { "list/three_dots", "1...8", FALSE, NULL, SYNTAX },
  { "list/twice_a_range", "1..2..4", FALSE, NULL, SYNTAX },
  { "list/bytes_without_unit", "8..16", TRUE, NULL, UNIT },
  { "list/above_max", "1..2000000", FALSE, NULL, RANGE },
};

static void
test_list (void **state)
{
  const ListCase *c = *state;
  GError *error = NULL;
  g_autoptr (GArray) got = c->is_bytes ? base_units_parse_bytes_list (c->text, &error)
                                       : base_units_parse_count_list (c->text, 0, 1000000, &error);
  if (c->want == NULL) {
    assert_refused (got != NULL, error, c->code);
    return;
  }
  assert_no_error (error);
  g_autoptr (GString) text = g_string_new (NULL);
  for (guint i = 0; i < got->len; i++)
    g_string_append_printf (text, "%" G_GUINT64_FORMAT " ", g_array_index (got, guint64, i));
  assert_string_equal (text->str, c->want);
}

typedef char *(*FormatFunc) (double);
typedef struct {
  const char *name;
  FormatFunc format;
  double value;
  const char *want;
} FormatCase;

static const FormatCase format_cases[] = {
  { "format/bytes", base_units_format_bytes, 46.9 * 1073741824, "46.9 GiB" },
  { "format/bytes_whole", base_units_format_bytes, 512, "512 B" },
  { "format/bytes_one", base_units_format_bytes, 1, "1 B" },
  { "format/bytes_zero", base_units_format_bytes, 0, "0 B" },
  { "format/bytes_kib", base_units_format_bytes, 1024, "1.00 KiB" },
  { "format/bytes_thousand_gib", base_units_format_bytes, 1000.0 * 1073741824, "1000 GiB" },
  /* 1023.9 GiB would round to 1024 GiB: it is 1.00 TiB */
  { "format/bytes_rolls_over", base_units_format_bytes, 1023.9 * 1073741824, "1.00 TiB" },
  { "format/bytes_negative", base_units_format_bytes, -2048, "-2.00 KiB" },
  /* 1e30 / 2^50 = 8.88e14 */
  { "format/bytes_huge", base_units_format_bytes, 1e30, "8.88e+14 PiB" },
  { "format/bytes_nan", base_units_format_bytes, NAN, "? B" },
  { "format/bytes_inf", base_units_format_bytes, INFINITY, "inf B" },
  { "format/seconds", base_units_format_seconds, 13.75, "13.8 s" },
  { "format/microseconds", base_units_format_seconds, 3.1e-6, "3.10 us" },
  { "format/milliseconds", base_units_format_seconds, 0.25, "250 ms" },
  { "format/seconds_roll_over", base_units_format_seconds, 0.9999, "1.00 s" },
  /* 9.996 needs one digit less than 9.99 */
  { "format/digits_roll_over", base_units_format_seconds, 9.996, "10.0 s" },
  { "format/minutes", base_units_format_seconds, 1200, "20.0 min" },
  { "format/hours", base_units_format_seconds, 5400, "1.50 h" },
  { "format/days", base_units_format_seconds, 86400 * 30.0, "30.0 d" },
  { "format/picoseconds", base_units_format_seconds, 5e-13, "0.0005 ns" },
  { "format/rate", base_units_format_rate, 450e9, "450 GB/s" },
  { "format/rate_tera", base_units_format_rate, 3.35e12, "3.35 TB/s" },
};

static void
test_format (void **state)
{
  const FormatCase *c = *state;
  g_autofree char *got = c->format (c->value);
  assert_string_equal (got, c->want);
}

static void
test_format_count (void **state)
{
  static const struct {
    guint64 count;
    const char *want;
  } cases[] = {
    { 0, "0" },
    { 999, "999" },
    { 1000, "1,000" },
    { G_GUINT64_CONSTANT (70553706496), "70,553,706,496" },
    { G_MAXUINT64, "18,446,744,073,709,551,615" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *got = base_units_format_count (cases[i].count);
    assert_string_equal (got, cases[i].want);
  }
}

typedef struct {
  const char *name;
  const char *text;
  BaseDim dim;
  const char *want;
} MessageCase;

static const MessageCase message_cases[] = {
  { "message/no_unit", "80", BASE_DIM_BYTES,
    "'80' has no unit: expected bytes, for example 80GiB or 85.1GB" },
  { "message/units_listed", "80Ghz", BASE_DIM_HERTZ,
    "'80Ghz' has the unit 'Ghz': expected a frequency, for example 1.98GHz or 1980MHz "
    "(units: Hz kHz MHz GHz)" },
  { "message/one_line", "8\n0", BASE_DIM_COUNT,
    "'8?0' has '0' after the number: expected a bare number, for example 64" },
  { "message/cut", "9999999999999999999999999999999999999999999999999999999999999999999x",
    BASE_DIM_COUNT,
    "'999999999999999999999999999999999999999999999999999999999999...' has 'x' after the number: "
    "expected a bare number, for example 64" },
};

static void
test_message (void **state)
{
  const MessageCase *c = *state;
  double unused;
  g_autoptr (GError) error = NULL;
  assert_false (base_units_parse (c->text, c->dim, &unused, &error));
  assert_string_equal (error->message, c->want);
}

/* A locale with a decimal comma changes neither reading nor printing. */
static void
test_locale (void **state)
{
  if (setlocale (LC_ALL, "de_DE.UTF-8") == NULL)
    return;
  double got = 0;
  assert_true (base_units_parse ("1.5us", BASE_DIM_SECONDS, &got, NULL));
  assert_true (got == 1.5e-6);
  g_autofree char *text = base_units_format_seconds (1.5e-6);
  assert_string_equal (text, "1.50 us");
  setlocale (LC_ALL, "C");
}

#define ADD_CASES(cases, function)                                                                 \
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)                                                 \
    tests[n++] = (struct CMUnitTest)                                                               \
    {                                                                                              \
      .name = cases[i].name, .test_func = function, .initial_state = (void *)&cases[i]             \
    }

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (parse_cases) + G_N_ELEMENTS (bytes_cases)
                          + G_N_ELEMENTS (count_cases) + G_N_ELEMENTS (list_cases)
                          + G_N_ELEMENTS (format_cases) + G_N_ELEMENTS (message_cases) + 2];
  gsize n = 0;
  ADD_CASES (parse_cases, test_parse);
  ADD_CASES (bytes_cases, test_bytes);
  ADD_CASES (count_cases, test_count);
  ADD_CASES (list_cases, test_list);
  ADD_CASES (format_cases, test_format);
  ADD_CASES (message_cases, test_message);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_format_count);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_locale);
  return cmocka_run_group_tests (tests, NULL, NULL);
}
