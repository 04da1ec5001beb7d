/* base/stats.c - see base/stats.h. */
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Acklam's rational approximation of the normal quantile, relative error 1.15e-9 (P. J. Acklam,
 * "An algorithm for computing the inverse normal cumulative distribution function", 2003):
 * a/b in the centre, c/d in the tail below TAIL_P. */
#define TAIL_P 0.02425
static const double acklam_a[6]
    = { -3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
        1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00 };
static const double acklam_b[6]
    = { -5.447609879822406e+01, 1.615858368580409e+02,  -1.556989798598866e+02,
        6.680131188771972e+01,  -1.328068155288572e+01, 1.0 };
static const double acklam_c[6]
    = { -7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
        -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00 };
static const double acklam_d[5] = { 7.784695709041462e-03, 3.224671290700398e-01,
                                    2.445134137142996e+00, 3.754408661907416e+00, 1.0 };

static int
compare_doubles (const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double
base_quantile (const double *values, gsize n, double p)
{
  if (n == 0 || !(p >= 0 && p <= 1))
    return NAN;
  for (gsize i = 0; i < n; i++) {
    if (isnan (values[i]))
      return NAN;
  }

  g_autofree double *sorted = g_memdup2 (values, n * sizeof *values);
  qsort (sorted, n, sizeof *sorted, compare_doubles);
  double position = p * (double)(n - 1);
  gsize below = (gsize)position;
  double fraction = position - (double)below;
  if (fraction == 0 || below + 1 >= n)
    return sorted[below];
  return sorted[below] * (1 - fraction) + sorted[below + 1] * fraction;
}

double
base_mean (const double *values, gsize n)
{
  if (n == 0)
    return NAN;
  /* Kahan: the sum of a million step times keeps all its digits. */
  double sum = 0, lost = 0;
  for (gsize i = 0; i < n; i++) {
    double add = values[i] - lost;
    double next = sum + add;
    /* After an infinity there is nothing left to compensate, and inf - inf would be NaN. */
    lost = isfinite (next) ? (next - sum) - add : 0;
    sum = next;
  }
  return sum / (double)n;
}

double
base_normal_cdf (double x)
{
  return 0.5 * erfc (-x * (G_SQRT2 / 2));
}

static double
horner (const double *coefficients, gsize n, double x)
{
  double value = coefficients[0];
  for (gsize i = 1; i < n; i++)
    value = value * x + coefficients[i];
  return value;
}

/* For 0 < p <= 0.5, where the cdf keeps its relative precision. */
static double
lower_quantile (double p)
{
  double x;
  if (p < TAIL_P) {
    double q = sqrt (-2 * log (p));
    x = horner (acklam_c, 6, q) / horner (acklam_d, 5, q);
  } else {
    double q = p - 0.5;
    x = q * horner (acklam_a, 6, q * q) / horner (acklam_b, 6, q * q);
  }
  double density = exp (-0.5 * x * x) / sqrt (2 * G_PI);
  return density > 0 ? x - (base_normal_cdf (x) - p) / density : x;
}

double
base_normal_quantile (double p)
{
  if (isnan (p) || p < 0 || p > 1)
    return NAN;
  if (p == 0 || p == 1)
    return p == 0 ? -INFINITY : INFINITY;
  return p <= 0.5 ? lower_quantile (p) : -lower_quantile (1 - p);
}
