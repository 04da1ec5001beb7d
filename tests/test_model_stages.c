/* Balanced stages against hand-worked lists, and what holds for every balance. */
#include "model/stages.h"
#include "tests/testutil.h"

typedef struct {
  const char *name;
  guint32 layers, n_stages;
  const char *want; /* NULL: refused */
} BalanceCase;

static const BalanceCase balance_cases[] = {
  { "balance/divides", 80, 4, "20 20 20 20" },
  { "balance/one_stage", 7, 1, "7" },
  { "balance/one_layer_each", 4, 4, "1 1 1 1" },
  /* Llama 3.1 405B: 128 items over 16 stages, 8 each; embedding and head take one of theirs */
  { "balance/405b_pp16", 126, 16, "7 8 8 8 8 8 8 8 8 8 8 8 8 8 8 7" },
  { "balance/405b_pp8", 126, 8, "15 16 16 16 16 16 16 15" },
  /* DeepSeek-V3: 63 items, 3 each and 15 left over, to all but the last stage */
  { "balance/61_pp16", 61, 16, "3 4 4 4 4 4 4 4 4 4 4 4 4 4 4 2" },
  /* 63 items over 8: 7 each, 7 left over, to all but the last */
  { "balance/61_pp8", 61, 8, "7 8 8 8 8 8 8 6" },
  /* 63 over 4: 15 each, 3 left: the two middle ones, then the first */
  { "balance/61_pp4", 61, 4, "15 16 16 14" },
  /* 9 items over 2: 4 each and one left, to the earlier */
  { "balance/odd_in_two", 7, 2, "4 3" },
  /* 8 items over 4: 2 each */
  { "balance/6_in_4", 6, 4, "1 2 2 1" },
  /* 13 items over 3: 4 each, one left, to the middle */
  { "balance/11_in_3", 11, 3, "3 5 3" },
  /* fewer than two items a stage: ends hold one layer each, 3 layers over 2 inner stages */
  { "balance/5_in_4", 5, 4, "1 2 1 1" },
  { "balance/7_in_6", 7, 6, "1 1 2 1 1 1" }, /* 5 over 4: the earlier of the two middle ones */
  { "balance/too_many_stages", 3, 4, NULL },
  { "balance/no_layers", 0, 1, NULL },
  { "balance/no_stages", 3, 0, NULL },
};

static void
test_balance (void **state)
{
  const BalanceCase *c = *state;
  guint32 got[16] = { 77 };
  if (c->want == NULL) {
    assert_false (model_stages_balance (c->layers, c->n_stages, got));
    assert_int_equal (got[0], 77);
    return;
  }
  assert_true (model_stages_balance (c->layers, c->n_stages, got));
  g_autoptr (GString) text = g_string_new (NULL);
  for (guint32 i = 0; i < c->n_stages; i++)
    g_string_append_printf (text, "%s%u", i > 0 ? " " : "", got[i]);
  assert_string_equal (text->str, c->want);
}

/* All layers once, no empty stage, and embedding, layers and head as even as they can be. */
static void
test_every_balance (void **state)
{
  guint32 got[130];
  for (guint32 n = 1; n <= 128; n++)
    for (guint32 layers = n; layers <= 300; layers++) {
      guint64 sum = 0;
      guint32 most = 0, inner_least = G_MAXUINT32;
      assert_true (model_stages_balance (layers, n, got));
      for (guint32 i = 0; i < n; i++) {
        assert_true (got[i] > 0);
        sum += got[i];
        most = MAX (most, got[i]);
        if (i > 0 && i < n - 1)
          inner_least = MIN (inner_least, got[i]);
      }
      assert_int_equal (sum, layers);
      assert_int_equal (most, got[(n - 1) / 2]); /* what layout_check relies on */
      assert_true (n < 3 || most - inner_least <= 1);
      assert_true (got[n - 1] <= got[0]);
    }
}

static void
test_layout_list (void **state)
{
  ModelArch arch = { .layers = 10 };
  ModelProfile profile = { 0 };
  guint32 list[] = { 3, 4, 2, 1 }, got[4] = { 0 };
  ModelLayout layout = { .pp = 2, .vpp = 2, .stage_layers = list };
  assert_true (model_stages_layers (&arch, &layout, &profile, got));
  assert_memory_equal (got, list, sizeof list);
  arch.layers = 11; /* sum is wrong */
  assert_false (model_stages_layers (&arch, &layout, &profile, got));
  arch.layers = 10;
  list[0] = 0; /* empty stage, and the sum made right again */
  list[1] = 7;
  assert_false (model_stages_layers (&arch, &layout, &profile, got));
  layout.stage_layers = NULL; /* auto: 12 items over 4, 3 each: 2 3 3 2 */
  assert_true (model_stages_layers (&arch, &layout, &profile, got));
  assert_int_equal (got[0], 2);
  assert_int_equal (got[1], 3);
  layout.pp = 6; /* 12 stages for 10 layers */
  assert_false (model_stages_layers (&arch, &layout, &profile, got));
}

/* A layer costs 4·2·2 + 3·4·2 = 40, the head 2·vocab. */
static void
test_by_cost (void **state)
{
  ModelBlockRun run = { .kind = MODEL_BLOCK_DENSE, .count = 4, .ffn = 4 };
  ModelArch arch = { .layers = 4, .hidden = 2, .vocab = 20, .runs = &run, .n_runs = 1 };
  guint32 got[4], even[] = { 3, 1 }, alone[] = { 4, 0 }, filled[] = { 2, 1, 1, 0 };
  assert_true (model_stages_by_cost (&arch, 2, got)); /* 200 in all: 120 is the first above 100 */
  assert_memory_equal (got, even, sizeof even);
  arch.vocab = 100; /* 360 in all: the layers' 160 never pass 180 */
  assert_true (model_stages_by_cost (&arch, 2, got));
  assert_memory_equal (got, alone, sizeof alone);
  /* Shares of 90: 3, 1, 0, 0 by the rule; the third takes a layer of the first, the last does not. */
  assert_true (model_stages_by_cost (&arch, 4, got));
  assert_memory_equal (got, filled, sizeof filled);
  assert_false (model_stages_by_cost (&arch, 5, got));
}

static void
test_bare_head (void **state)
{
  ModelArch arch = { .layers = 4 };
  ModelProfile even = { 0 }, by_cost = { .balances_by_cost = TRUE };
  guint32 list[] = { 4, 0 }, other[] = { 0, 4 }, got[2];
  ModelLayout layout = { .pp = 2, .vpp = 1, .stage_layers = list };
  assert_false (model_stages_layers (&arch, &layout, &even, got));
  assert_true (model_stages_layers (&arch, &layout, &by_cost, got));
  assert_memory_equal (got, list, sizeof list);
  layout.head_alone = TRUE; /* as a measured run had it */
  assert_true (model_stages_layers (&arch, &layout, &even, got));
  layout.stage_layers = other; /* the embedding may not */
  assert_false (model_stages_layers (&arch, &layout, &even, got));
  assert_false (model_stages_layers (&arch, &layout, &by_cost, got));
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (balance_cases) + 4];
  guint n = 0;
  for (guint i = 0; i < G_N_ELEMENTS (balance_cases); i++)
    tests[n++] = (struct CMUnitTest){ .name = balance_cases[i].name,
                                      .test_func = test_balance,
                                      .initial_state = (void *)&balance_cases[i] };
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_every_balance);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_layout_list);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_by_cost);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_bare_head);
  return cmocka_run_group_tests_name ("stages", tests, NULL, NULL);
}
