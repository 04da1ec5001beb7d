/* app/calibrate_parameters.c - the fitted factors: at most 60, each physical.
 *
 * Keyed on GPU generation (on the card where a generation's cards differ), fabric and profile.
 * Isolated GEMM and collective times have fits of their own; here are the numbers that only a
 * whole training step shows.
 */
#include "app/calibrate-private.h"

#include <math.h>

#define ONE(group, key)                                                                            \
  {                                                                                                \
    group ": " key,                                                                                \
    {                                                                                              \
      {                                                                                            \
        group, key                                                                                 \
      }                                                                                            \
    }                                                                                              \
  }

/* clang-format off */
const CalibrateParameter calibrate_parameters[] = {
  /* rate of GEMMs inside a step over their rate alone */
  ONE ("gpu volta", "step"),
  ONE ("gpu ampere", "step"),
  { "gpu hopper: step", { { "gpu hopper", "step" }, { "gpu h100-sxm-80g", "step" }, { "gpu h200-sxm", "step" } } },
  { "gpu b200-sxm: step", { { "gpu b200-sxm", "step" }, { "gpu blackwell", "step" } } },
  ONE ("gpu gb200", "step"),
  ONE ("gpu gb300", "step"),
  /* low precision ceilings */
  { "gpu hopper: ceiling_fp8", { { "gpu hopper", "ceiling_fp8" }, { "gpu h100-sxm-80g", "ceiling_fp8" }, { "gpu h200-sxm", "ceiling_fp8" } } },
  { "gpu b200-sxm: ceiling_fp8", { { "gpu b200-sxm", "ceiling_fp8" }, { "gpu blackwell", "ceiling_fp8" } } },
  ONE ("gpu gb200", "ceiling_fp8"),
  ONE ("gpu gb300", "ceiling_fp8"),
  { "gpu b200-sxm: ceiling_fp4", { { "gpu b200-sxm", "ceiling_fp4" }, { "gpu blackwell", "ceiling_fp4" } } },
  ONE ("gpu gb200", "ceiling_fp4"),
  ONE ("gpu gb300", "ceiling_fp4"),
  /* attention kernels */
  { "gpu ampere: attention_flash", { { "gpu ampere", "attention_flash" }, { "gpu ampere", "attention_fused" } } },
  { "gpu hopper: attention_flash", { { "gpu hopper", "attention_flash" }, { "gpu hopper", "attention_fused" },
                                     { "gpu h100-sxm-96g-hbm2e", "attention_flash" }, { "gpu h100-sxm-96g-hbm2e", "attention_fused" } } },
  { "gpu blackwell: attention_flash", { { "gpu blackwell", "attention_flash" }, { "gpu blackwell", "attention_fused" },
                                        { "gpu gb200", "attention_flash" }, { "gpu gb200", "attention_fused" },
                                        { "gpu gb300", "attention_flash" }, { "gpu gb300", "attention_fused" } } },
  ONE ("gpu ampere", "attention_unfused"),
  ONE ("gpu ampere", "attention_portable"),
  ONE ("gpu hopper", "attention_portable"),
  { "gpu default: attention_half_dim", { { "gpu default", "attention_half_dim" }, { "gpu volta", "attention_half_dim" },
      { "gpu ampere", "attention_half_dim" }, { "gpu hopper", "attention_half_dim" }, { "gpu blackwell", "attention_half_dim" } } },
  /* memory-bound kernels */
  ONE ("gpu volta", "hbm"),
  ONE ("gpu ampere", "hbm"),
  { "gpu hopper: hbm", { { "gpu hopper", "hbm" }, { "gpu h100-sxm-96g-hbm2e", "hbm" } } },
  { "gpu blackwell: hbm", { { "gpu blackwell", "hbm" }, { "gpu gb200", "hbm" }, { "gpu gb300", "hbm" } } },
  /* lowered power limits */
  ONE ("gpu hopper", "power_exponent"),
  ONE ("gpu blackwell", "power_exponent"),
  /* networks: what a loaded cluster leaves */
  ONE ("fabric ib", "straggler"),
  { "fabric efa: step_hop", { { "fabric efa", "step_hop" }, { "fabric efa1", "step_hop" } } },
  { "fabric efa: straggler", { { "fabric efa", "straggler" }, { "fabric efa1", "straggler" } } },
  ONE ("fabric opa", "bandwidth"),
  ONE ("fabric opa", "straggler"),
  /* the step */
  ONE ("step", "fixed"),
  ONE ("step", "p2p"),
  ONE ("step", "bubble"),
  ONE ("step", "stage_imbalance"),
  ONE ("step", "head"),
  ONE ("step", "grouped"),
  ONE ("step", "grouped_low"),
  ONE ("step", "align_loss"),
  ONE ("step", "misalign_loss"),
  ONE ("step", "sinks"),
  ONE ("step", "expert_host"),
  ONE ("step", "host_wait"),
  /* frameworks: memory-bound factor, host time, overlap */
  ONE ("profile megatron", "memory_factor"),
  ONE ("profile nemo", "memory_factor"),
  ONE ("profile torchtitan", "memory_factor"),
  ONE ("profile fsdp", "memory_factor"),
  ONE ("profile deepspeed", "memory_factor"),
  ONE ("profile nanotron", "memory_factor"),
  ONE ("profile nemo", "host_layer"),
  ONE ("profile deepspeed", "host_layer"),
  ONE ("profile nanotron", "host_layer"),
  ONE ("profile nemo", "overlap_tp"),
  ONE ("step", "unoverlapped_tp"),
  ONE ("profile nanotron", "overlap_dp"),
  ONE ("profile nanotron", "p2p_host"),
  ONE ("profile fsdp", "overlap_dp"),
  ONE ("profile fsdp", "attention_portable"),
};
/* clang-format on */
const guint calibrate_n_parameters = G_N_ELEMENTS (calibrate_parameters);
G_STATIC_ASSERT (G_N_ELEMENTS (calibrate_parameters) <= 60);

#define LEAST_SD 0.01
#define WIDEST   3.0 /* prior standard deviations that a factor may move */

static gboolean
init_one (CalibrateNumbers *numbers, guint j, GError **error)
{
  const CalibrateParameter *parameter = &calibrate_parameters[j];
  double spread = 0;

  numbers->fit[j] = (CostFitParameter){ .low = -G_MAXDOUBLE, .high = G_MAXDOUBLE };
  for (guint e = 0; e < CALIBRATE_MAX_ENTRIES && parameter->entries[e].group != NULL; e++) {
    const char *group = parameter->entries[e].group, *key = parameter->entries[e].key;
    double min = 0, max = 0;
    double *slot = cost_calibration_slot (numbers->calibration, group, key, &min, &max);

    if (slot == NULL || !(*slot > 0)) {
      g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
                   "the base calibration has no [%s] %s > 0 to start from", group, key);
      return FALSE;
    }
    if (e == 0)
      cost_calibration_get (numbers->calibration, group, key, NULL, &spread);
    numbers->slots[j][e] = slot;
    numbers->priors[j][e] = *slot;
    numbers->fit[j].low = MAX (numbers->fit[j].low, min > 0 ? log (min / *slot) : -G_MAXDOUBLE);
    numbers->fit[j].high = MIN (numbers->fit[j].high, log (max / *slot));
  }
  numbers->fit[j].sd = MAX (spread, LEAST_SD);
  numbers->fit[j].low = MAX (numbers->fit[j].low, -WIDEST * numbers->fit[j].sd);
  numbers->fit[j].high = MIN (numbers->fit[j].high, WIDEST * numbers->fit[j].sd);
  return TRUE;
}

gboolean
calibrate_numbers_init (CalibrateNumbers *numbers, CostCalibration *calibration, GError **error)
{
  *numbers = (CalibrateNumbers){ .calibration = calibration, .n = calibrate_n_parameters };
  for (guint j = 0; j < numbers->n; j++)
    if (!init_one (numbers, j, error))
      return FALSE;
  return TRUE;
}

void
calibrate_numbers_apply (const CalibrateNumbers *numbers, const double *x)
{
  for (guint j = 0; j < numbers->n; j++)
    for (guint e = 0; e < CALIBRATE_MAX_ENTRIES && numbers->slots[j][e] != NULL; e++)
      *numbers->slots[j][e] = numbers->priors[j][e] * exp (x[j]);
}
