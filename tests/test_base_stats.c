/* Unit tests of base/stats.h. Normal quantiles: 20 digits of sqrt(2)*erfinv(2p-1) by mpmath. */
#include "base/stats.h"
#include "tests/testutil.h"

typedef struct {
  double p, x;
} NormalCase;

static const NormalCase normal_cases[] = {
  { 1e-10, -6.3613409024040562047 }, { 0.001, -3.0902323061678135415 },
  { 0.1, -1.281551565544600467 },    { 0.5, 0 },
  { 0.9, 1.281551565544600467 },     { 0.975, 1.9599639845400542355 },
};

static void
test_normal_quantile (void **state)
{
  for (gsize i = 0; i < G_N_ELEMENTS (normal_cases); i++) {
    double got = base_normal_quantile (normal_cases[i].p);
    assert_true (fabs (got - normal_cases[i].x) < 1e-12);
  }
}

static void
test_normal_cdf (void **state)
{
  for (gsize i = 0; i < G_N_ELEMENTS (normal_cases); i++)
    assert_near (base_normal_cdf (normal_cases[i].x), normal_cases[i].p, 1e-13);
  assert_true (base_normal_cdf (-INFINITY) == 0);
  assert_true (base_normal_cdf (INFINITY) == 1);
}

/* The two are inverse of each other over the whole range, the tails included. */
static void
test_normal_inverse (void **state)
{
  for (double p = 1e-300; p < 0.5; p *= 1.7) {
    assert_near (base_normal_cdf (base_normal_quantile (p)), p, 1e-11);
    assert_true (base_normal_quantile (1 - p) >= 0);
  }
  for (double p = 0.5; p < 1; p += 0.0009765625) /* 2^-10: 1 - p is exact */
    assert_true (base_normal_quantile (p) == -base_normal_quantile (1 - p));
}

static void
test_normal_edges (void **state)
{
  assert_true (base_normal_quantile (0) == -INFINITY);
  assert_true (base_normal_quantile (1) == INFINITY);
  assert_true (isnan (base_normal_quantile (-0.1)));
  assert_true (isnan (base_normal_quantile (1.1)));
  assert_true (isnan (base_normal_quantile (NAN)));
}

static void
test_quantile (void **state)
{
  /* Sorted: 1 2 3 4. Type 7 is at position 3p: p = 0.5 is 1.5, between 2 and 3. */
  const double values[] = { 4, 1, 3, 2 };
  static const NormalCase cases[] = {
    { 0, 1 }, { 1.0 / 3, 2 }, { 0.5, 2.5 }, { 0.25, 1.75 }, { 0.9, 3.7 }, { 1, 4 },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    assert_near (base_quantile (values, 4, cases[i].p), cases[i].x, 1e-15);
  assert_true (values[0] == 4); /* the caller's order is kept */
}

static void
test_quantile_edges (void **state)
{
  const double one[] = { 7 }, nan[] = { 1, NAN }, inf[] = { 1, INFINITY };
  assert_true (base_quantile (one, 1, 0.3) == 7);
  assert_true (isnan (base_quantile (one, 0, 0.3)));
  assert_true (isnan (base_quantile (NULL, 0, 0.3)));
  assert_true (isnan (base_quantile (nan, 2, 0.3)));
  assert_true (isnan (base_quantile (one, 1, NAN)));
  assert_true (isnan (base_quantile (one, 1, 1.5)));
  assert_true (base_quantile (inf, 2, 0) == 1);
  assert_true (base_quantile (inf, 2, 1) == INFINITY);
}

static void
test_mean (void **state)
{
  const double few[] = { 1, 2, 6 }, inf[] = { INFINITY, 1, 2 };
  assert_true (base_mean (few, 3) == 3);
  assert_true (isnan (base_mean (NULL, 0)));
  assert_true (base_mean (inf, 3) == INFINITY);

  /* 1 followed by a million 1e-16: a plain sum would stay at 1. */
  gsize n = 1000001;
  g_autofree double *many = g_new (double, n);
  many[0] = 1;
  for (gsize i = 1; i < n; i++)
    many[i] = 1e-16;
  assert_near (base_mean (many, n) * (double)n, 1.0000000001, 1e-15);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_normal_quantile),
    cmocka_unit_test (test_normal_cdf),
    cmocka_unit_test (test_normal_inverse),
    cmocka_unit_test (test_normal_edges),
    cmocka_unit_test (test_quantile),
    cmocka_unit_test (test_quantile_edges),
    cmocka_unit_test (test_mean),
  };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
