/* tests/test_costmodel_oomrisk.c - the normal distribution against its table. */
#include "costmodel/oomrisk.h"
#include "tests/testutil.h"

typedef struct {
  const char *name;
  double need, usable, sigma, want, tolerance;
} RiskCase;

/* Phi (0) = .5, Phi (1) = .841345, Phi (−1.644854) = .05, Phi (2) = .977250, Phi (−3) = .00134990
 * (tables of the normal distribution). */
static const RiskCase cases[] = {
  { "just_full", 80e9, 80e9, 0.08, 0.5, 1e-9 },
  { "one_sigma_over", 80e9 * 1.0832870676749586, 80e9, 0.08, 0.841345, 1e-6 },
  { "five_percent", 1, 1.2, 0.11084370967, 0.05, 1e-5 }, /* ln 1.2 = .18232156 = 1.644854·sigma */
  { "two_sigma_over", 1.1735108709918103, 1, 0.08, 0.977250, 1e-6 },
  { "three_sigma_under", 0.7866278610665534, 1, 0.08, 0.00134990, 1e-5 },
  { "nothing_needed", 0, 1, 0.08, 0, 0 },
  { "nothing_there", 1, 0, 0.08, 1, 0 },
  { "far_over", 1e30, 1, 0.08, 1, 1e-12 },
  { "no_number", NAN, 1, 0.08, 0, 0 },
};

static void
test_risk (void **state)
{
  const RiskCase *c = *state;
  assert_near (cost_oom_risk (c->need, c->usable, c->sigma), c->want, c->tolerance);
  double fast = cost_oom_risk_fast (c->need, c->usable, c->sigma);
  assert_true (fabs (fast - c->want) < 1e-4);
}

static void
test_fast_is_close (void **state)
{
  static const double sigmas[] = { 0.03, 0.08, 0.15, 0.2, 0.5 };
  for (guint i = 0; i < G_N_ELEMENTS (sigmas); i++) {
    double before = 0;
    for (double ratio = 0.05; ratio < 20; ratio *= 1.001) {
      double exact = cost_oom_risk (ratio, 1, sigmas[i]);
      double fast = cost_oom_risk_fast (ratio, 1, sigmas[i]);
      assert_true (fabs (fast - exact) < 1e-4);
      assert_true (exact >= before);
      before = exact;
    }
  }
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (cases) + 1];
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    tests[i] = (struct CMUnitTest){ .name = cases[i].name,
                                    .test_func = test_risk,
                                    .initial_state = (void *)&cases[i] };
  tests[G_N_ELEMENTS (cases)] = (struct CMUnitTest)cmocka_unit_test (test_fast_is_close);
  return cmocka_run_group_tests (tests, NULL, NULL);
}
