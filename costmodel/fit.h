/* costmodel/fit.h - maximum a posteriori fit of a few factors to many measurements.
 *
 * Parameters are logarithms of factors on prior values: x = 0 is the prior. Residuals are
 * r_i(x) = ln(predicted / measured). Minimised is
 *
 *   sum_i w_i · rho(r_i / s)  +  sum_j x_j² / (2 sd_j²),   rho(u) = d² (sqrt(1 + (u/d)²) - 1)
 *
 * (pseudo-Huber: a bad row pulls with constant force). Gauss-Newton outside: residuals and their
 * derivatives are taken anew each round; inside, the linearised problem is solved within bounds by
 * NLopt's L-BFGS. A round that does not improve the true objective is taken at half its length.
 */
#pragma once
#include "costmodel/error.h"
#include <glib.h>
G_BEGIN_DECLS

typedef struct {
  double sd;        /* of x, > 0 */
  double low, high; /* bounds of x; low < 0 < high */
} CostFitParameter;

typedef struct {
  guint n_parameters, n_residuals;
  const CostFitParameter *parameters; /* (borrowed) */
  double residual_sd;                 /* s: what a typical residual is, after the fit */
  double huber;                       /* d: in units of s */
  /*
   * Residuals at @x. @moved: index of the only parameter that differs from the last call that had
   * G_MAXUINT here, whose residuals are in @r already; G_MAXUINT: compute them all.
   */
  gboolean (*residuals) (const double *x, guint moved, double *r, gpointer user_data,
                         GError **error);
  gpointer user_data;
} CostFitProblem;

/* A point with residuals and derivatives: what folds of a cross-validation start from. */
typedef struct {
  double *x;        /* (owned) n_parameters */
  double *r;        /* (owned) n_residuals */
  double *jacobian; /* (owned) n_residuals × n_parameters, row-major */
} CostFitPoint;
void cost_fit_point_clear (CostFitPoint *point);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (CostFitPoint, cost_fit_point_clear)

/* From the prior, at most @rounds. @weights: n_residuals, >= 0. */
gboolean cost_fit (const CostFitProblem *problem, const double *weights, guint rounds,
                   CostFitPoint *out, GError **error);

/* Again with other weights, from @start and with its derivatives (chords, @rounds of them).
 * @out_x: (caller's) n_parameters. */
gboolean cost_fit_again (const CostFitProblem *problem, const double *weights, guint rounds,
                         const CostFitPoint *start, double *out_x, GError **error);

/* Standard deviations of x at @point by the curvature there (Laplace). @out_sd: n_parameters. */
void cost_fit_sd (const CostFitProblem *problem, const double *weights, const CostFitPoint *point,
                  double *out_sd);
G_END_DECLS
