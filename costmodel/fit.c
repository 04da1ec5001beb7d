/* costmodel/fit.c - Gauss-Newton around NLopt. */
#include "costmodel/fit.h"

#include <math.h>
#include <nlopt.h>
#include <string.h>

#define DERIVATIVE_STEP 0.02 /* of x: 2 % of a parameter, well above rounding and kinks */
#define LONGEST_MOVE    0.4  /* of x in one round: where a linear model still means something */
#define INNER_STEPS     2000

/* The linearised problem: r + J (x - x0). */
typedef struct {
  const CostFitProblem *problem;
  const double *weights;
  const double *x0, *r0, *jacobian;
} Linear;

static double
rho (const CostFitProblem *problem, double residual, double *out_slope)
{
  double u = residual / problem->residual_sd / problem->huber;
  double root = sqrt (1 + u * u);
  double scale = problem->huber * problem->huber;
  *out_slope = problem->huber * u / root / problem->residual_sd;
  return scale * (root - 1);
}

static double
prior_cost (const CostFitProblem *problem, const double *x)
{
  double sum = 0;
  for (guint j = 0; j < problem->n_parameters; j++) {
    double u = x[j] / problem->parameters[j].sd;
    sum += 0.5 * u * u;
  }
  return sum;
}

static double
true_cost (const CostFitProblem *problem, const double *weights, const double *x, const double *r)
{
  double sum = prior_cost (problem, x), slope = 0;
  for (guint i = 0; i < problem->n_residuals; i++)
    if (weights[i] > 0)
      sum += weights[i] * rho (problem, r[i], &slope);
  return sum;
}

static double
linear_cost (unsigned n, const double *x, double *gradient, void *user_data)
{
  const Linear *linear = user_data;
  const CostFitProblem *problem = linear->problem;
  double sum = prior_cost (problem, x);
  for (unsigned j = 0; gradient != NULL && j < n; j++)
    gradient[j] = x[j] / (problem->parameters[j].sd * problem->parameters[j].sd);
  for (guint i = 0; i < problem->n_residuals; i++) {
    const double *row = linear->jacobian + (gsize)i * n;
    double r = linear->r0[i], slope = 0;
    if (!(linear->weights[i] > 0))
      continue;
    for (unsigned j = 0; j < n; j++)
      r += row[j] * (x[j] - linear->x0[j]);
    sum += linear->weights[i] * rho (problem, r, &slope);
    for (unsigned j = 0; gradient != NULL && j < n; j++)
      gradient[j] += linear->weights[i] * slope * row[j];
  }
  return sum;
}

/* Minimises the linearised problem near x0. */
static gboolean
solve_linear (const Linear *linear, double *x, GError **error)
{
  const CostFitProblem *problem = linear->problem;
  guint n = problem->n_parameters;
  g_autofree double *low = g_new (double, n);
  g_autofree double *high = g_new (double, n);
  nlopt_opt opt = nlopt_create (NLOPT_LD_LBFGS, n);
  nlopt_result result = NLOPT_OUT_OF_MEMORY;
  double cost = 0;
  for (guint j = 0; j < n; j++) {
    low[j] = MAX (problem->parameters[j].low, linear->x0[j] - LONGEST_MOVE);
    high[j] = MIN (problem->parameters[j].high, linear->x0[j] + LONGEST_MOVE);
    x[j] = CLAMP (linear->x0[j], low[j], high[j]);
  }
  if (opt != NULL) {
    nlopt_set_min_objective (opt, linear_cost, (void *)linear);
    nlopt_set_lower_bounds (opt, low);
    nlopt_set_upper_bounds (opt, high);
    nlopt_set_ftol_rel (opt, 1e-10);
    nlopt_set_maxeval (opt, INNER_STEPS);
    result = nlopt_optimize (opt, x, &cost);
    nlopt_destroy (opt);
  }
  /* a search that cannot get better within rounding still left its best point in x */
  if (result > 0 || result == NLOPT_ROUNDOFF_LIMITED || result == NLOPT_FAILURE)
    return TRUE;
  g_set_error (error, COST_ERROR, COST_ERROR_BAD_VALUE, "the fit failed: NLopt says %s",
               nlopt_result_to_string (result));
  return FALSE;
}

/* Where nothing was measured there are no residuals to copy, and the prior stays. */
static void
copy_numbers (double *to, const double *from, guint n)
{
  if (n > 0)
    memcpy (to, from, n * sizeof *to);
}

static gboolean
take_derivatives (const CostFitProblem *problem, CostFitPoint *point, GError **error)
{
  guint n = problem->n_parameters, m = problem->n_residuals;
  g_autofree double *r = g_new (double, m);
  for (guint j = 0; j < n; j++) {
    double here = point->x[j];
    double step = here + DERIVATIVE_STEP <= problem->parameters[j].high ? DERIVATIVE_STEP
                                                                        : -DERIVATIVE_STEP;
    copy_numbers (r, point->r, m);
    point->x[j] = here + step;
    gboolean ok = problem->residuals (point->x, j, r, problem->user_data, error);
    point->x[j] = here;
    if (!ok)
      return FALSE;
    for (guint i = 0; i < m; i++)
      point->jacobian[(gsize)i * n + j] = (r[i] - point->r[i]) / step;
  }
  return TRUE;
}

/*
 * Moves @x and @r towards the solution of the linearised problem, shorter until the true objective
 * falls. *out_moved: FALSE when no step helps any more.
 */
static gboolean
advance (const Linear *linear, double *x, double *r, gboolean *out_moved, GError **error)
{
  const CostFitProblem *problem = linear->problem;
  guint n = problem->n_parameters, m = problem->n_residuals;
  g_autofree double *goal = g_new (double, n);
  g_autofree double *try_x = g_new (double, n);
  g_autofree double *try_r = g_new (double, m);
  double before = true_cost (problem, linear->weights, x, r);
  *out_moved = FALSE;
  if (!solve_linear (linear, goal, error))
    return FALSE;
  for (double length = 1; length > 0.1; length *= 0.5) {
    for (guint j = 0; j < n; j++)
      try_x[j] = x[j] + length * (goal[j] - x[j]);
    if (!problem->residuals (try_x, G_MAXUINT, try_r, problem->user_data, error))
      return FALSE;
    double after = true_cost (problem, linear->weights, try_x, try_r);
    if (!(after < before))
      continue;
    copy_numbers (x, try_x, n);
    copy_numbers (r, try_r, m);
    *out_moved = before - after > 1e-4 * fabs (before);
    return TRUE;
  }
  return TRUE;
}

gboolean
cost_fit (const CostFitProblem *problem, const double *weights, guint rounds, CostFitPoint *out,
          GError **error)
{
  gsize n = problem->n_parameters, m = problem->n_residuals;
  gboolean moved = TRUE;
  *out = (CostFitPoint){ g_new0 (double, n), g_new (double, m), g_new (double, n *m) };
  gboolean ok = problem->residuals (out->x, G_MAXUINT, out->r, problem->user_data, error)
                && take_derivatives (problem, out, error);
  for (guint round = 0; ok && moved && round < rounds; round++) {
    g_autofree double *x0 = g_memdup2 (out->x, n * sizeof *x0);
    g_autofree double *r0 = g_memdup2 (out->r, m * sizeof *r0);
    const Linear linear = { problem, weights, x0, r0, out->jacobian };
    /* residuals() must have seen the point that single moves start from */
    ok = advance (&linear, out->x, out->r, &moved, error)
         && problem->residuals (out->x, G_MAXUINT, out->r, problem->user_data, error)
         && take_derivatives (problem, out, error);
  }
  if (!ok)
    cost_fit_point_clear (out);
  return ok;
}

gboolean
cost_fit_again (const CostFitProblem *problem, const double *weights, guint rounds,
                const CostFitPoint *start, double *out_x, GError **error)
{
  gsize n = problem->n_parameters, m = problem->n_residuals;
  g_autofree double *r = g_memdup2 (start->r, m * sizeof *r);
  gboolean moved = TRUE;
  memcpy (out_x, start->x, n * sizeof *out_x);
  for (guint round = 0; moved && round < rounds; round++) {
    g_autofree double *x0 = g_memdup2 (out_x, n * sizeof *x0);
    g_autofree double *r0 = g_memdup2 (r, m * sizeof *r0);
    const Linear linear = { problem, weights, x0, r0, start->jacobian };
    if (!advance (&linear, out_x, r, &moved, error))
      return FALSE;
  }
  return TRUE;
}

/* Inverts a symmetric positive definite matrix's diagonal by Cholesky: diag(A^-1). */
static void
inverse_diagonal (double *a, guint n, double *out)
{
  for (guint j = 0; j < n; j++) {
    for (guint k = 0; k < j; k++)
      for (guint i = j; i < n; i++)
        a[(gsize)i * n + j] -= a[(gsize)i * n + k] * a[(gsize)j * n + k];
    double pivot = sqrt (a[(gsize)j * n + j]);
    for (guint i = j; i < n; i++)
      a[(gsize)i * n + j] /= pivot;
  }
  g_autofree double *y = g_new (double, n);
  for (guint column = 0; column < n; column++) {
    double sum = 0;
    /* L y = e_column; the column's diagonal of A^-1 is |y|² */
    for (guint i = 0; i < n; i++) {
      double v = i == column ? 1 : 0;
      for (guint k = 0; k < i; k++)
        v -= a[(gsize)i * n + k] * y[k];
      y[i] = v / a[(gsize)i * n + i];
      sum += y[i] * y[i];
    }
    out[column] = sum;
  }
}

void
cost_fit_sd (const CostFitProblem *problem, const double *weights, const CostFitPoint *point,
             double *out_sd)
{
  guint n = problem->n_parameters;
  g_autofree double *information = g_new0 (double, (gsize)n *n);
  for (guint j = 0; j < n; j++)
    information[(gsize)j * n + j] = 1 / (problem->parameters[j].sd * problem->parameters[j].sd);
  for (guint i = 0; i < problem->n_residuals; i++) {
    const double *row = point->jacobian + (gsize)i * n;
    double w = weights[i] / (problem->residual_sd * problem->residual_sd);
    for (guint j = 0; w > 0 && j < n; j++)
      for (guint k = 0; row[j] != 0 && k <= j; k++)
        information[(gsize)j * n + k] += w * row[j] * row[k];
  }
  inverse_diagonal (information, n, out_sd);
  for (guint j = 0; j < n; j++)
    out_sd[j] = sqrt (out_sd[j]);
}

void
cost_fit_point_clear (CostFitPoint *point)
{
  if (point == NULL)
    return;
  g_clear_pointer (&point->x, g_free);
  g_clear_pointer (&point->r, g_free);
  g_clear_pointer (&point->jacobian, g_free);
}
