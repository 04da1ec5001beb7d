/* tests/test_sim_balance.c - stage balancing against hand-worked cuts and brute force. */
#include "tests/testutil.h"

#include "base/philox.h"
#include "sim/balance.h"

typedef struct {
  const char *name;
  guint32 n_layers, n_stages;
  double layer_s, embedding_s, head_s;
  guint32 want[8];
} BalanceCase;

static const BalanceCase cases[] = {
  /* nothing but layers: equal */
  { "balance/equal", 8, 4, 1, 0, 0, { 2, 2, 2, 2 } },
  /* head = 2 layers: 8 + 2 over 2 stages is 5 and 5: the last holds 3 */
  { "balance/head", 8, 2, 1, 0, 2, { 5, 3 } },
  /* embedding = 1, head = 1 on 3 stages of 10 + 2: 4 each, so 3 4 3 */
  { "balance/both_ends", 10, 3, 1, 1, 1, { 3, 4, 3 } },
  /* a head as heavy as everything still leaves its stage one layer */
  { "balance/never_empty", 4, 4, 1, 0, 100, { 1, 1, 1, 1 } },
  /* 7 layers on 3 stages: from the back, the nearest to 7/3 is 2, then to 5/2 is 3 */
  { "balance/even_rest", 7, 3, 1, 0, 0, { 2, 3, 2 } },
  /* 80 layers and a head of 2 on 8 stages: the last holds the nearest to 82/8 less the head, 8; then
   * 72/7 62/6 52/5 give 10, 42/4 gives 11, 31/3 10, 21/2 11, and 10 are left */
  { "balance/even_with_head", 80, 8, 1, 0, 2, { 10, 11, 10, 11, 10, 10, 10, 8 } },
};

static void
test_balance (void **state)
{
  const BalanceCase *c = *state;
  double layer_s[80];
  guint32 got[8];
  SimBalance balance = { .layer_s = layer_s,
                         .n_layers = c->n_layers,
                         .embedding_s = c->embedding_s,
                         .head_s = c->head_s,
                         .n_stages = c->n_stages };

  for (guint32 i = 0; i < c->n_layers; i++)
    layer_s[i] = c->layer_s;
  assert_true (sim_balance_stages (&balance, got));
  for (guint32 i = 0; i < c->n_stages; i++)
    assert_int_equal (got[i], c->want[i]);
  /* said in one number: the same */
  balance.layer_s = NULL;
  balance.equal_layer_s = c->layer_s;
  assert_true (sim_balance_stages (&balance, got));
  for (guint32 i = 0; i < c->n_stages; i++)
    assert_int_equal (got[i], c->want[i]);
}

/* Interleaved: ranks are balanced, and the rank with the head is short where the head is. */
static void
test_balances_chunks (void **state)
{
  /* 16 layers and a head of 2 on 2 ranks of 2 chunks: 9 each, so 9 and 7 layers; rank 0 holds 4 and
   * 5, rank 1 4 and, with the head, 3. In pipeline order: 4 4 5 3. */
  const SimBalance balance = { .equal_layer_s = 1, .n_layers = 16, .head_s = 2, .n_stages = 2 };
  const SimBalance short_of_layers = { .equal_layer_s = 1, .n_layers = 7, .n_stages = 4 };
  guint32 got[8] = { 0 };

  (void)state;
  assert_true (sim_balance_chunks (&balance, 2, got));
  assert_int_equal (got[0], 4);
  assert_int_equal (got[1], 4);
  assert_int_equal (got[2], 5);
  assert_int_equal (got[3], 3);
  assert_false (sim_balance_chunks (&short_of_layers, 2, got));
}

static void
test_refuses_empty_stages (void **state)
{
  const double layer_s[2] = { 1, 1 };
  guint32 got[3] = { 7, 7, 7 };

  (void)state;
  assert_false (
      sim_balance_stages (&(SimBalance){ .layer_s = layer_s, .n_layers = 2, .n_stages = 3 }, got));
  assert_false (
      sim_balance_stages (&(SimBalance){ .layer_s = layer_s, .n_layers = 2, .n_stages = 0 }, got));
  assert_int_equal (got[0], 7);
}

/* The caps hold three layers where there are four. */
static void
test_refuses_too_little_memory (void **state)
{
  const guint32 most[2] = { 1, 2 };
  const SimBalance balance
      = { .equal_layer_s = 1, .n_layers = 4, .n_stages = 2, .most_layers = most };
  guint32 got[2] = { 7, 7 };

  (void)state;
  assert_false (sim_balance_stages (&balance, got));
  assert_int_equal (got[0], 7);
}

/* Slowest stage of the best cut, by trying them all; INFINITY if the caps allow none. */
static double
best_cut_s (const double *layer_s, const guint32 *most, guint32 n, double first_s, double head_s,
            guint32 stages)
{
  double sum_s = first_s;
  double best_s = INFINITY;

  if (stages == 1) {
    for (guint32 i = 0; i < n; i++)
      sum_s += layer_s[i];
    return n <= most[0] ? sum_s + head_s : INFINITY;
  }
  for (guint32 take = 1; take + stages - 1 <= n && take <= most[0]; take++) {
    sum_s += layer_s[take - 1];
    best_s = fmin (best_s, fmax (sum_s, best_cut_s (layer_s + take, most + 1, n - take, 0, head_s,
                                                    stages - 1)));
  }
  return best_s;
}

static double
slowest_s (const double *layer_s, const guint32 *cut, guint32 stages, double embedding_s,
           double head_s)
{
  double worst_s = 0;
  guint32 layer = 0;

  for (guint32 s = 0; s < stages; s++) {
    double time_s = (s == 0 ? embedding_s : 0) + (s == stages - 1 ? head_s : 0);

    for (guint32 i = 0; i < cut[s]; i++)
      time_s += layer_s[layer++];
    worst_s = fmax (worst_s, time_s);
  }
  return worst_s;
}

static void
test_equals_brute_force (void **state)
{
  (void)state;
  for (guint64 seed = 0; seed < 300; seed++) {
    guint32 n = 1 + (guint32)base_philox_below (seed, 0, 0, 11);
    guint32 stages = 1 + (guint32)base_philox_below (seed, 0, 1, n);
    double embedding_s = base_philox_uniform (seed, 0, 2);
    double head_s = 3 * base_philox_uniform (seed, 0, 3);
    double layer_s[16];
    guint32 cut[16];
    guint32 most[16];
    guint32 total = 0;
    gboolean equal = base_philox_below (seed, 0, 4, 2);
    SimBalance balance = { .layer_s = equal ? NULL : layer_s,
                           .n_layers = n,
                           .embedding_s = embedding_s,
                           .head_s = head_s,
                           .n_stages = stages };
    double best_s = 0;

    for (guint32 i = 0; i < n; i++)
      layer_s[i] = 0.1 + base_philox_uniform (seed, 1, equal ? 0 : i);
    balance.equal_layer_s = layer_s[0];
    for (guint32 s = 0; s < stages; s++)
      most[s] = n;
    if (base_philox_below (seed, 0, 5, 2)) {
      for (guint32 s = 0; s < stages; s++)
        most[s] = 1 + (guint32)base_philox_below (seed, 2, s, 2 * n / stages + 1);
      balance.most_layers = most;
    }
    best_s = best_cut_s (layer_s, most, n, embedding_s, head_s, stages);
    assert_int_equal (sim_balance_stages (&balance, cut), isfinite (best_s));
    if (!isfinite (best_s))
      continue;
    for (guint32 s = 0; s < stages; s++) {
      assert_true (cut[s] >= 1 && cut[s] <= most[s]);
      total += cut[s];
    }
    assert_int_equal (total, n);
    assert_near (slowest_s (layer_s, cut, stages, embedding_s, head_s), best_s, 5e-5);
  }
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (cases) + 4];
  gsize n = 0;

  for (; n < G_N_ELEMENTS (cases); n++)
    tests[n] = (struct CMUnitTest){ .name = cases[n].name,
                                    .test_func = test_balance,
                                    .initial_state = (void *)&cases[n] };
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_refuses_empty_stages);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_refuses_too_little_memory);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_balances_chunks);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_equals_brute_force);
  return _cmocka_run_group_tests ("sim_balance", tests, n, NULL, NULL);
}
