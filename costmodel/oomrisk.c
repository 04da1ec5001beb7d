/* costmodel/oomrisk.c - the normal distribution function, exact and as a rational function. */
#include "costmodel/oomrisk.h"
#include "base/stats.h"
#include <math.h>

double
cost_oom_risk (double need_bytes, double usable_bytes, double sigma)
{
  if (!(need_bytes > 0))
    return 0;
  if (!(usable_bytes > 0))
    return 1;
  return base_normal_cdf (log (need_bytes / usable_bytes) / sigma);
}

/* Abramowitz and Stegun 26.2.19, x >= 0: off by less than 1.5e-7. */
static double
upper_tail (double x)
{
  double series
      = 1
        + x
              * (0.0498673470
                 + x
                       * (0.0211410061
                          + x
                                * (0.0032776263
                                   + x * (0.0000380036 + x * (0.0000488906 + x * 0.0000053830)))));
  double power = series * series;
  power *= power;
  power *= power;
  power *= power;
  return 0.5 / power;
}

double
cost_oom_risk_fast (double need_bytes, double usable_bytes, double sigma)
{
  if (!(need_bytes > 0))
    return 0;
  if (!(usable_bytes > 0))
    return 1;
  /* ln (a/b) = 2 artanh ((a − b)/(a + b)); five terms are off by 2 z¹¹/11/(1 − z²). */
  double z = (need_bytes - usable_bytes) / (need_bytes + usable_bytes), square = z * z;
  double log_ratio
      = 2 * z * (1 + square * (1 / 3.0 + square * (1 / 5.0 + square * (1 / 7.0 + square / 9.0))));
  if (square > 0.09)
    log_ratio = log (need_bytes / usable_bytes);
  double x = log_ratio / sigma;
  if (fabs (x) > 5)
    return x > 0 ? 1 : 0;
  return x > 0 ? 1 - upper_tail (x) : upper_tail (-x);
}
