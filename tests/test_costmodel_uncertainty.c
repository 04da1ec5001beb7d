/* tests/test_costmodel_uncertainty.c - the stated error model, worked out by hand. */
#include "costmodel/uncertainty.h"
#include "tests/testutil.h"

static CostNumbers
numbers_of (double profile_sigma)
{
  return (CostNumbers){ .profile = { .sigma = profile_sigma },
                        .uncertainty = { .sigma_moe = 0.16,
                                         .sigma_assumed = 0.05,
                                         .sigma_scale = 0.02,
                                         .sigma_guessed = 0.03,
                                         .z10 = -1.42,
                                         .z90 = 1.89 } };
}

typedef struct {
  const char *name;
  double profile_sigma;
  CostRegime regime;
  double sigma;
} SigmaCase;

static const SigmaCase cases[] = {
  { "dense", 0.12, { FALSE, 0, 0, 1, 0 }, 0.12 },
  { "moe", 0.12, { TRUE, 0, 0, 1, 0 }, 0.2 }, /* sqrt (.12² + .16²) */
  { "another_framework", 0.05, { FALSE, 0, 0, 1, 0 }, 0.05 },
  { "four_assumed", 0.12, { FALSE, 4, 0, 1, 0 }, 0.156204993518133 },    /* sqrt (.0144 + .01) */
  { "three_guessed", 0.12, { FALSE, 0, 3, 1, 0 }, 0.130766968306220 },   /* sqrt (.0144 + .0027) */
  { "eight_nodes", 0.12, { FALSE, 0, 0, 8, 0 }, 0.134164078649987 },     /* sqrt (.0144 + .06²) */
  { "half_exposed", 0.12, { FALSE, 0, 0, 1, 0.5 }, 0.143666083574617 },  /* .12·e^.18 */
  { "share_above_one", 0.12, { FALSE, 0, 0, 1, 9 }, 0.171999529724741 }, /* .12·e^.36 */
};

static void
test_sigma (void **state)
{
  const SigmaCase *c = *state;
  CostNumbers numbers = numbers_of (c->profile_sigma);
  assert_near (cost_uncertainty_sigma (&numbers, &c->regime), c->sigma, 1e-9);
  double p10, p90;
  cost_uncertainty_interval (&numbers, &c->regime, 10, &p10, &p90);
  assert_near (p10, 10 * exp (-1.42 * c->sigma), 1e-9);
  assert_near (p90, 10 * exp (1.89 * c->sigma), 1e-9);
}

/* Even a calibration that claims to know everything leaves an interval. */
static void
test_never_empty (void **state)
{
  CostNumbers numbers = { .uncertainty = { .z10 = -1.42, .z90 = 1.89 } };
  CostRegime regime = { .nodes = 1 };
  double p10, p90;
  cost_uncertainty_interval (&numbers, &regime, 3, &p10, &p90);
  assert_true (p10 < 3 && 3 < p90);
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (cases) + 1];
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    tests[i] = (struct CMUnitTest){ .name = cases[i].name,
                                    .test_func = test_sigma,
                                    .initial_state = (void *)&cases[i] };
  tests[G_N_ELEMENTS (cases)] = (struct CMUnitTest)cmocka_unit_test (test_never_empty);
  return cmocka_run_group_tests (tests, NULL, NULL);
}
