/* Errors, coverage and risk over rows worked by hand. */
#include "app/validate-private.h"
#include "tests/testutil.h"

static gboolean
every (const AppValidateRow *row, gconstpointer data)
{
  return TRUE;
}

/*
 * Errors 2/1 - 1 = 1, 1/2 - 1 = -.5, 3/4 - 1 = -.25, 1/1 - 1 = 0. Sizes sorted 0 .25 .5 1: median
 * .375, mean .4375, p90 at place 2.7: .5 + .7 x .5 = .85. Signed sorted -.5 -.25 0 1: median -.125.
 * Bounds are half and double the prediction: 1 in [1, 4], 2 in [.5, 2], 4 in [1.5, 6], 1 in
 * [.5, 2]: all inside, width 4. A row without a time does not count.
 */
static void
test_errors (void **state)
{
  const double pairs[][2] = { { 2, 1 }, { 1, 2 }, { 3, 4 }, { 1, 1 }, { 1, NAN } };
  AppValidateRow rows[G_N_ELEMENTS (pairs)];
  g_autoptr (GPtrArray) all = g_ptr_array_new ();
  AppErrorStats stats;
  for (guint i = 0; i < G_N_ELEMENTS (pairs); i++) {
    rows[i] = (AppValidateRow){ .predicted_s = pairs[i][0],
                                .predicted_p10_s = pairs[i][0] / 2,
                                .predicted_p90_s = pairs[i][0] * 2,
                                .measured_s = pairs[i][1] };
    g_ptr_array_add (all, &rows[i]);
  }
  validate_stats_step (&stats, all, every, NULL);
  assert_int_equal (stats.n, 4);
  assert_near (stats.median_abs_err, 0.375, 1e-15);
  assert_near (stats.mean_abs_err, 0.4375, 1e-15);
  assert_near (stats.p90_abs_err, 0.85, 1e-14);
  assert_near (stats.bias, -0.125, 1e-15);
  assert_near (stats.coverage_80, 1, 0);
  assert_near (stats.width_80, 4, 1e-15);
  rows[1].predicted_p90_s = 1.5; /* 2 is outside now */
  validate_stats_step (&stats, all, every, NULL);
  assert_near (stats.coverage_80, 0.75, 0);
}

static void
test_nothing (void **state)
{
  g_autoptr (GPtrArray) none = g_ptr_array_new ();
  AppErrorStats stats;
  AppOomStats oom;
  validate_stats_memory (&stats, none, every, NULL);
  assert_int_equal (stats.n, 0);
  assert_true (isnan (stats.mean_abs_err) && isnan (stats.median_abs_err));
  validate_stats_oom (&oom, none);
  assert_true (isnan (oom.brier));
}

/*
 * Known risks: ran at .1 and .6, ran out at .8 and .3. Brier (.01 + .36 + .04 + .49) / 4 = .225.
 * One run above a half, one failure below. The unknown one is only counted.
 */
static void
test_risk (void **state)
{
  AppValidateRow rows[] = {
    { .oom_risk = 0.1, .ran = TRUE, .risk_known = TRUE },
    { .oom_risk = 0.6, .ran = TRUE, .risk_known = TRUE },
    { .oom_risk = 0.8, .ran = FALSE, .risk_known = TRUE },
    { .oom_risk = 0.3, .ran = FALSE, .risk_known = TRUE },
    { .oom_risk = 1.0, .ran = TRUE, .risk_known = FALSE },
  };
  g_autoptr (GPtrArray) all = g_ptr_array_new ();
  AppOomStats oom;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    g_ptr_array_add (all, &rows[i]);
  validate_stats_oom (&oom, all);
  assert_int_equal (oom.n_oom, 2);
  assert_int_equal (oom.n_ran, 2);
  assert_int_equal (oom.n_unknown, 1);
  assert_int_equal (oom.oom_below_half, 1);
  assert_int_equal (oom.ran_above_half, 1);
  assert_near (oom.brier, 0.225, 1e-14);
  assert_int_equal (oom.bin_n[8], 1);
  assert_int_equal (oom.bin_n_oom[8], 1);
  assert_int_equal (oom.bin_n[9], 0);
}

/*
 * Bad .9 .5 .5 against good .5 .1: of six pairs .9 wins both, each .5 wins against .1 and ties
 * with .5: (2 + 1.5 + 1.5) / 6 = 5/6.
 */
static void
test_auc (void **state)
{
  const double bad_risks[] = { 0.9, 0.5, 0.5 }, good_risks[] = { 0.5, 0.1 };
  g_autoptr (GArray) bad = g_array_new (FALSE, FALSE, sizeof (double));
  g_autoptr (GArray) good = g_array_new (FALSE, FALSE, sizeof (double));
  assert_true (isnan (validate_stats_auc (bad, good)));
  g_array_append_vals (bad, bad_risks, 3);
  g_array_append_vals (good, good_risks, 2);
  assert_near (validate_stats_auc (bad, good), 5.0 / 6, 1e-15);
  assert_near (validate_stats_auc (good, bad), 1.0 / 6, 1e-14);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_errors),
    cmocka_unit_test (test_nothing),
    cmocka_unit_test (test_risk),
    cmocka_unit_test (test_auc),
  };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
