/* Unit tests of base/suggest.h; distances counted by hand. */
#include "base/suggest.h"
#include "tests/testutil.h"

typedef struct {
  const char *name;
  const char *a, *b;
  guint want;
} DistanceCase;

static const DistanceCase distance_cases[] = {
  { "distance/equal", "hidden", "hidden", 0 },
  { "distance/both_empty", "", "", 0 },
  { "distance/one_empty", "", "abc", 3 },
  { "distance/substitute", "heads", "headz", 1 },
  { "distance/insert", "hiden", "hidden", 1 },
  { "distance/delete", "hiddden", "hidden", 1 },
  { "distance/swap_counts_once", "hdiden", "hidden", 1 },
  { "distance/swap", "laeyrs", "layers", 1 },
  /* kitten -> sitten -> sittin -> sitting: the textbook example */
  { "distance/kitten", "kitten", "sitting", 3 },
};

static void
test_distance (void **state)
{
  const DistanceCase *c = *state;
  assert_int_equal (base_edit_distance (c->a, c->b), c->want);
  assert_int_equal (base_edit_distance (c->b, c->a), c->want);
}

static void
test_distance_is_capped (void **state)
{
  g_autofree char *zeros = g_strnfill (400, '0');
  g_autofree char *ones = g_strnfill (400, '1');
  g_autofree char *many = g_strnfill (100000, '1');
  assert_int_equal (base_edit_distance (zeros, ones), 255);
  assert_int_equal (base_edit_distance (zeros, many), 255);
}

static const char *const names[] = { "hidden", "heads",         "kv_heads",     "layers", "tp",
                                     "pp",     "llama-3.1-70b", "llama-3.1-8b", NULL };

typedef struct {
  const char *name;
  const char *word;
  const char *want;
} SuggestCase;

static const SuggestCase suggest_cases[] = {
  { "suggest/typo", "hiden", "hidden" },
  { "suggest/exact", "heads", "heads" },
  { "suggest/short", "t", "tp" },
  { "suggest/nothing_in_common", "xx", NULL },
  { "suggest/far", "bananas", NULL },
  /* 13 letters allow four edits; the nearer of two wins */
  { "suggest/long", "llama3.1-70b", "llama-3.1-70b" },
  { "suggest/nearer", "llama-31-8b", "llama-3.1-8b" },
  { "suggest/empty", "", NULL },
};

static void
test_suggest (void **state)
{
  const SuggestCase *c = *state;
  const char *got = base_suggest (c->word, names);
  if (c->want == NULL)
    assert_null (got);
  else
    assert_string_equal (got, c->want);
}

static void
test_suggest_from_nothing (void **state)
{
  const char *const none[] = { NULL };
  g_autofree char *huge = g_strnfill (1 << 20, 'a');
  assert_null (base_suggest ("tp", none));
  assert_null (base_suggest ("tp", NULL));
  assert_null (base_suggest (huge, names));
}

static void
test_clauses (void **state)
{
  const char *const few[] = { "ring", "tree", NULL };
  g_autofree char *near = base_suggest_clause ("rinng", few);
  g_autofree char *far = base_suggest_clause ("collnet", few);
  g_autofree char *one_of = base_suggest_one_of ("treee", few);
  g_autofree char *one_of_far = base_suggest_one_of ("collnet", few);
  assert_string_equal (near, "; did you mean 'ring'?");
  assert_string_equal (far, "");
  assert_string_equal (one_of, "one of ring, tree; did you mean 'tree'?");
  assert_string_equal (one_of_far, "one of ring, tree");
}

static void
test_name_index (void **state)
{
  const char *const none[] = { NULL };
  assert_int_equal (base_name_index ("hidden", names), 0);
  assert_int_equal (base_name_index ("pp", names), 5);
  assert_int_equal (base_name_index ("p", names), -1);
  assert_int_equal (base_name_index ("", names), -1);
  assert_int_equal (base_name_index ("pp", none), -1);
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (distance_cases) + G_N_ELEMENTS (suggest_cases) + 4];
  gsize n = 0;
  for (gsize i = 0; i < G_N_ELEMENTS (distance_cases); i++)
    tests[n++] = (struct CMUnitTest){ .name = distance_cases[i].name,
                                      .test_func = test_distance,
                                      .initial_state = (void *)&distance_cases[i] };
  for (gsize i = 0; i < G_N_ELEMENTS (suggest_cases); i++)
    tests[n++] = (struct CMUnitTest){ .name = suggest_cases[i].name,
                                      .test_func = test_suggest,
                                      .initial_state = (void *)&suggest_cases[i] };
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_distance_is_capped);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_suggest_from_nothing);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_clauses);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_name_index);
  return cmocka_run_group_tests (tests, NULL, NULL);
}
