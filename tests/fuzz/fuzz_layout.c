/* tests/fuzz/fuzz_layout.c - any text as a layout; what is read comes back from its own text. */
#include "model/layout.h"
#include "tests/fuzz/fuzz.h"

static const ModelProfile profile = { .name = (char *)"fuzz", .overlap_dp = TRUE };

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autofree char *text = g_strndup ((const char *)data, size);
  g_auto (ModelLayout) layout = { 0 }, again = { 0 };
  GError *error = NULL;
  gboolean ok = model_layout_parse (&layout, text, &profile, &error);
  fuzz_require_outcome (ok, &error);
  if (!ok) {
    fuzz_require (layout.stage_layers == NULL && layout.schedule_file == NULL);
    return 0;
  }
  g_autofree char *written = model_layout_format (&layout, &profile);
  fuzz_require (model_layout_parse (&again, written, &profile, NULL));
  g_autofree char *rewritten = model_layout_format (&again, &profile);
  fuzz_require (g_str_equal (written, rewritten));
  /* the form for people says the same */
  g_auto (ModelLayout) brief = { 0 };
  g_autofree char *shortened = model_layout_shorten (written);
  fuzz_require (strlen (shortened) <= strlen (written));
  fuzz_require (model_layout_parse (&brief, shortened, &profile, NULL));
  g_autofree char *spelt_out = model_layout_format (&brief, &profile);
  fuzz_require (g_str_equal (written, spelt_out));
  fuzz_require (layout.tp_sync == again.tp_sync && layout.zero == again.zero);
  return 0;
}
