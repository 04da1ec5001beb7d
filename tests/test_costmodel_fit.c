/* The fit of factors to measurements, on problems whose answer can be written down. */
#include "costmodel/fit.h"
#include "tests/testutil.h"

#include <math.h>

/* One factor, seen directly: r = x - .3. */
static gboolean
one_residual (const double *x, guint moved, double *r, gpointer user_data, GError **error)
{
  r[0] = x[0] - 0.3;
  return TRUE;
}

static gboolean
no_residual (const double *x, guint moved, double *r, gpointer user_data, GError **error)
{
  return TRUE;
}

/* A Huber width without end: (x - .3)² / (2 · .1²) + x² / (2 · .1²) is least halfway, .15, with a
 * deviation of .1 / sqrt (2). A tenth of the weight leaves .3 / 11. */
static void
test_between_prior_and_measurement (void **state)
{
  const CostFitParameter parameter = { .sd = 0.1, .low = -1, .high = 1 };
  const CostFitProblem problem = { .n_parameters = 1,
                                   .n_residuals = 1,
                                   .parameters = &parameter,
                                   .residual_sd = 0.1,
                                   .huber = 1e6,
                                   .residuals = one_residual };
  const double whole = 1, tenth = 0.1;
  g_autoptr (GError) error = NULL;
  g_auto (CostFitPoint) point = { 0 }, light = { 0 };
  double sd = 0;
  assert_true (cost_fit (&problem, &whole, 10, &point, &error));
  assert_no_error (error);
  assert_near (point.x[0], 0.15, 1e-3);
  cost_fit_sd (&problem, &whole, &point, &sd);
  assert_near (sd, 0.1 / sqrt (2), 1e-3);
  assert_true (cost_fit (&problem, &tenth, 10, &light, &error));
  assert_near (light.x[0], 0.3 / 11, 1e-3);
}

static void
test_nothing_measured (void **state)
{
  const CostFitParameter parameter = { .sd = 0.1, .low = -1, .high = 1 };
  const CostFitProblem problem = { .n_parameters = 1,
                                   .parameters = &parameter,
                                   .residual_sd = 0.1,
                                   .huber = 1,
                                   .residuals = no_residual };
  g_autoptr (GError) error = NULL;
  g_auto (CostFitPoint) point = { 0 };
  double sd = 0;
  assert_true (cost_fit (&problem, NULL, 10, &point, &error));
  assert_no_error (error);
  assert_true (fabs (point.x[0]) < 1e-9);
  cost_fit_sd (&problem, NULL, &point, &sd);
  assert_near (sd, 0.1, 1e-9);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_between_prior_and_measurement),
    cmocka_unit_test (test_nothing_measured),
  };
  return cmocka_run_group_tests_name ("fit", tests, NULL, NULL);
}
