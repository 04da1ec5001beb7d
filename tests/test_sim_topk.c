/* tests/test_sim_topk.c - the bounded heap against sorting. */
#include "tests/testutil.h"

#include "base/philox.h"
#include "sim/topk.h"

static SimCandidate
candidate (guint64 seed, guint64 i)
{
  SimCandidate c = { 0 };

  /* few distinct times, so that ties are common */
  c.step_s = (double)base_philox_below (seed, 0, i, 7);
  c.layout.tp = (guint32)i; /* distinct keys */
  c.layout.pp = c.layout.vpp = 1;
  return c;
}

static int
compare (const void *a, const void *b)
{
  return sim_candidate_compare (a, b);
}

static void
test_keeps_the_best (void **state)
{
  (void)state;
  for (guint64 seed = 0; seed < 50; seed++) {
    guint n = 1 + (guint)base_philox_below (seed, 1, 0, 200);
    guint keep = 1 + (guint)base_philox_below (seed, 1, 1, 60);
    SimCandidate all[256];
    SimTopK top;

    sim_topk_init (&top, keep);
    for (guint i = 0; i < n; i++) {
      double before_s = sim_topk_threshold_s (&top);

      all[i] = candidate (seed, i);
      sim_topk_offer (&top, &all[i]);
      assert_true (sim_topk_threshold_s (&top) <= before_s);
    }
    qsort (all, n, sizeof *all, compare);
    sim_topk_sort (&top);
    assert_int_equal (top.n, MIN (n, keep));
    for (guint i = 0; i < top.n; i++)
      assert_int_equal (sim_candidate_compare (&top.items[i], &all[i]), 0);
    sim_topk_clear (&top);
  }
}

static void
test_order_is_total (void **state)
{
  guint32 one[2] = { 1, 3 };
  guint32 two[2] = { 2, 2 };
  SimCandidate a = { .step_s = 1, .layout = { .pp = 2, .vpp = 1, .stage_layers = one } };
  SimCandidate b = a;

  (void)state;
  assert_int_equal (sim_candidate_compare (&a, &b), 0);
  b.layout.stage_layers = two;
  assert_true (sim_candidate_compare (&a, &b) < 0);
  assert_true (sim_candidate_compare (&b, &a) > 0);
  b.layout.stage_layers = NULL; /* auto comes first */
  assert_true (sim_candidate_compare (&b, &a) < 0);
  a.step_s = 0.5;
  assert_true (sim_candidate_compare (&a, &b) < 0);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_keeps_the_best),
    cmocka_unit_test (test_order_is_total),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
