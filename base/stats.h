/* base/stats.h - quantiles and the normal distribution. */
#pragma once
#include <glib.h>
G_BEGIN_DECLS
/* Quantile @p in [0,1] of @n values, linear interpolation (type 7); sorts a copy. NaN if n == 0. */
double base_quantile (const double *values, gsize n, double p);
double base_mean (const double *values, gsize n);
/* Phi(x), and its inverse for p in (0,1) (Acklam with one Newton step, |error| < 1e-12). */
double base_normal_cdf (double x);
double base_normal_quantile (double p);
G_END_DECLS
