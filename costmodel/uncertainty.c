/* costmodel/uncertainty.c - spread of a predicted step time. */
#include "costmodel/uncertainty.h"
#include <math.h>

/* Growth of log sigma per unit of exposed data-parallel share (time-model §8, unseen machines). */
#define DP_GROWTH 0.36
/* No prediction is better than a repetition: runs of one configuration differ by 0.8 % at the
 * very least (time-model §2). */
#define SIGMA_MIN 0.008

double
cost_uncertainty_sigma (const CostNumbers *numbers, const CostRegime *regime)
{
  const CostUncertaintyNumbers *u = &numbers->uncertainty;
  double base = numbers->profile.sigma;
  double moe = regime->moe ? u->sigma_moe : 0;
  double scale = regime->nodes > 1 ? u->sigma_scale * log2 (regime->nodes) : 0;
  double assumed = regime->assumed_count * u->sigma_assumed * u->sigma_assumed;
  double guessed = regime->guessed_count * u->sigma_guessed * u->sigma_guessed;
  double square = base * base + moe * moe + scale * scale + assumed + guessed;
  double share = CLAMP (regime->dp_exposed_ratio, 0, 1);
  return MAX (sqrt (square) * exp (DP_GROWTH * share), SIGMA_MIN);
}

void
cost_uncertainty_interval (const CostNumbers *numbers, const CostRegime *regime, double step_s,
                           double *out_p10_s, double *out_p90_s)
{
  double sigma = cost_uncertainty_sigma (numbers, regime);
  *out_p10_s = step_s * exp (-fabs (numbers->uncertainty.z10) * sigma);
  *out_p90_s = step_s * exp (fabs (numbers->uncertainty.z90) * sigma);
}
