/* tests/fuzz/fuzz_calibration.c - any bytes as a calibration; what is accepted reads back the same. */
#include "costmodel/calibration.h"
#include "tests/fuzz/fuzz.h"

static CostCalibration *
parse (const char *data, gssize size, GError **error)
{
  g_autoptr (BaseIni) ini = base_ini_new_from_data (data, size, "fuzz.ini", error);
  return ini != NULL ? cost_calibration_from_ini (ini, "fuzz", error) : NULL;
}

/* Resolves for a machine of each kind: whole, or one error. */
static void
resolve (const CostCalibration *calibration)
{
  GError *error = NULL;
  TopoGpu gpu = { .slug = (char *)"h100-sxm-80g", .generation = (char *)"hopper" };
  TopoMachine machine = { .gpu = &gpu,
                          .direct = TOPO_LINK_NVLINK4,
                          .node_link_class = TOPO_LINK_CLASS_NVLINK4,
                          .power_limit_ratio = 0.5 };
  CostNumbers numbers;
  gboolean ok = cost_numbers_init (&numbers, calibration, &machine, "megatron", &error);
  fuzz_require_outcome (ok, &error);
  fuzz_require (!ok || numbers.gpu.gemm.step_ratio > 0);
  cost_numbers_clear (&numbers);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  GError *error = NULL;
  g_autoptr (CostCalibration) calibration = parse ((const char *)data, (gssize)size, &error);
  fuzz_require_outcome (calibration != NULL, &error);
  if (calibration == NULL)
    return 0;
  resolve (calibration);
  g_autofree char *text = cost_calibration_format (calibration);
  g_autoptr (CostCalibration) again = parse (text, -1, &error);
  fuzz_require_outcome (again != NULL, &error);
  fuzz_require (again != NULL);
  g_autofree char *text_again = cost_calibration_format (again);
  fuzz_require (strcmp (text, text_again) == 0);
  return 0;
}
