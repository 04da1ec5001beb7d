/* tests/fuzz/fuzz_straggler.c - any text as a list of slow ranks. */
#include "sim/straggler.h"
#include "tests/fuzz/fuzz.h"

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autofree char *text = g_strndup ((const char *)data, size);
  GError *error = NULL;
  g_autoptr (GArray) list = sim_stragglers_parse (text, &error);
  fuzz_require_outcome (list != NULL, &error);
  for (guint i = 0; list != NULL && i < list->len; i++)
    fuzz_require (g_array_index (list, SimStraggler, i).slow >= 0);
  return 0;
}
