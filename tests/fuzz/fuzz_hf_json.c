/* tests/fuzz/fuzz_hf_json.c - any bytes as a config.json; what is read survives a round trip. */
#include "model/params.h"
#include "tests/fuzz/fuzz.h"

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  GError *error = NULL;
  g_autoptr (ModelArch) arch
      = model_arch_from_hf_json ((const char *)data, (gssize)size, "fuzz.json", &error);
  fuzz_require_outcome (arch != NULL, &error);
  if (arch == NULL)
    return 0;
  fuzz_require (model_params_active (arch) <= model_params_total (arch));
  fuzz_require (model_params_total (arch) > 0);

  g_autofree char *text = model_arch_to_ini (arch);
  g_autoptr (BaseIni) ini = base_ini_new_from_data (text, -1, "fuzz.ini", &error);
  fuzz_require_outcome (ini != NULL, &error);
  fuzz_require (ini != NULL);
  g_autoptr (ModelArch) again = model_arch_from_ini (ini, "fuzz.json", &error);
  fuzz_require (again != NULL);
  fuzz_require (model_params_total (again) == model_params_total (arch));
  fuzz_require (again->n_runs == arch->n_runs && again->assumed->len == arch->assumed->len);
  return 0;
}
