/* tests/fuzz/fuzz_units.c - any text as a number, a byte size, a count, a list. */
#include "base/units.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>

static void
check_numbers (const char *text)
{
  for (guint dim = 0; dim < BASE_DIM_N_KINDS; dim++) {
    GError *error = NULL;
    double value = -1;
    gboolean ok = base_units_parse (text, (BaseDim)dim, &value, &error);
    fuzz_require (ok ? isfinite (value) && value >= 0 : value == -1);
    fuzz_require_outcome (ok, &error);
  }
}

static void
check_whole (const char *text)
{
  GError *error = NULL;
  guint64 bytes = 7, count = 7;
  gboolean ok = base_units_parse_bytes (text, &bytes, &error);
  fuzz_require (ok ? bytes <= G_GUINT64_CONSTANT (1) << 62 : bytes == 7);
  if (ok) {
    /* Both readers of a size agree as far as a double goes. */
    double value = 0;
    fuzz_require (base_units_parse (text, BASE_DIM_BYTES, &value, NULL));
    fuzz_require (fabs (value - (double)bytes) <= fmax (0.5, value * 0x1p-52));
    g_autofree char *shown = base_units_format_bytes ((double)bytes);
    fuzz_require (base_units_parse (shown, BASE_DIM_BYTES, &value, NULL));
  }
  fuzz_require_outcome (ok, &error);

  ok = base_units_parse_count (text, 1, 1000, &count, &error);
  fuzz_require (ok ? count >= 1 && count <= 1000 : count == 7);
  fuzz_require_outcome (ok, &error);
}

static void
check_lists (const char *text)
{
  GError *error = NULL;
  g_autoptr (GArray) counts = base_units_parse_count_list (text, 1, G_MAXUINT64, &error);
  fuzz_require (counts == NULL || counts->len > 0);
  fuzz_require_outcome (counts != NULL, &error);
  g_autoptr (GArray) bytes = base_units_parse_bytes_list (text, &error);
  fuzz_require (bytes == NULL || bytes->len > 0);
  fuzz_require_outcome (bytes != NULL, &error);
}

/* Eight bytes as a double: printing takes every one of them. */
static void
check_formats (const uint8_t *data, size_t size)
{
  double value;
  if (size < sizeof value)
    return;
  memcpy (&value, data, sizeof value);
  g_autofree char *bytes = base_units_format_bytes (value);
  g_autofree char *seconds = base_units_format_seconds (value);
  g_autofree char *rate = base_units_format_rate (value);
  fuzz_require (strlen (bytes) < 24 && strlen (seconds) < 24);
  fuzz_require (strlen (rate) < 24);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autofree char *text = g_strndup ((const char *)data, size);
  check_numbers (text);
  check_whole (text);
  check_lists (text);
  check_formats (data, size);
  return 0;
}
