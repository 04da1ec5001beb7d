/* tests/test_app_plan_rank.c - the order of search points, and the front, by hand. */
#include "tests/testutil.h"

#include "app/plan_rank.h"

#include <math.h>

/* Four points: rates of all GPUs in tokens/s, prices in USD per GPU-hour. */
static const struct {
  const char *machine;
  guint64 gpus;
  double tokens_per_s_per_gpu, usd_per_gpu_h;
} points[] = {
  { "small", 10, 100, 3.6 }, /* 1000/s, 0.01 USD/s: 10^5 tokens per USD; 10^6 tokens in 1000 s */
  { "large", 40, 75, 3.6 },  /* 3000/s, 0.04 USD/s: 75,000 per USD; 333.3 s */
  { "slow", 40, 50, 7.2 }, /* 2000/s, 0.08 USD/s: 25,000 per USD; 500 s: worse than large in all */
  { "free", 20, 60, NAN }, /* 1200/s, no price; 833.3 s */
};

static AppPlanResult *
result_new (void)
{
  AppPlanResult *result = g_new0 (AppPlanResult, 1);

  result->points = g_ptr_array_new ();
  for (guint i = 0; i < G_N_ELEMENTS (points); i++) {
    AppPlanPoint *point = g_new0 (AppPlanPoint, 1);
    DbPlan *plan = db_plan_new ();

    point->machine = (char *)points[i].machine;
    point->gpus = points[i].gpus;
    point->usd_per_gpu_h = points[i].usd_per_gpu_h;
    point->plans = g_ptr_array_new_with_free_func ((GDestroyNotify)db_plan_free);
    plan->plan.prediction.tokens_per_s_per_gpu = points[i].tokens_per_s_per_gpu;
    g_ptr_array_add (point->plans, plan);
    g_ptr_array_add (result->points, point);
  }
  return result;
}

static void
result_free (AppPlanResult *result)
{
  for (guint i = 0; i < result->points->len; i++) {
    AppPlanPoint *point = g_ptr_array_index (result->points, i);

    g_ptr_array_unref (point->plans);
    g_free (point);
  }
  g_ptr_array_unref (result->points);
  g_free (result);
}

typedef struct {
  const char *name;
  AppRankRequest request;
  const char *order[G_N_ELEMENTS (points)];
  const char *front; /* names, blank between */
} RankCase;

static const RankCase cases[] = {
  { "rank/time",
    { APP_OBJECTIVE_TIME, 1e6, INFINITY },
    { "large", "slow", "free", "small" },
    "large free small" },
  /* 10 USD, 13.3 USD, 40 USD, unknown */
  { "rank/cost",
    { APP_OBJECTIVE_COST, 1e6, INFINITY },
    { "small", "large", "slow", "free" },
    "small large free" },
  { "rank/tokens_per_dollar",
    { APP_OBJECTIVE_TOKENS_PER_DOLLAR, 0, INFINITY },
    { "small", "large", "slow", "free" },
    "small large free" },
  { "rank/gpus",
    { APP_OBJECTIVE_GPUS, 1e6, INFINITY },
    { "small", "free", "large", "slow" },
    "small free large" },
  /* small takes 1000 s: what misses the deadline comes last and is on no front */
  { "rank/deadline",
    { APP_OBJECTIVE_GPUS, 1e6, 900 },
    { "free", "large", "slow", "small" },
    "free large" },
};

static void
test_rank (void **state)
{
  const RankCase *c = *state;
  AppPlanResult *result = result_new ();
  g_autoptr (GArray) ranked = app_plan_rank (result, &c->request);
  GString *front = g_string_new (NULL);

  assert_int_equal (ranked->len, G_N_ELEMENTS (points));
  for (guint i = 0; i < ranked->len; i++) {
    const AppRanked *one = &g_array_index (ranked, AppRanked, i);

    assert_string_equal (one->point->machine, c->order[i]);
    if (one->is_pareto)
      g_string_append_printf (front, "%s%s", front->len > 0 ? " " : "", one->point->machine);
  }
  assert_string_equal (front->str, c->front);
  g_string_free (front, TRUE);
  result_free (result);
}

static void
test_money (void **state)
{
  const AppRankRequest request = { APP_OBJECTIVE_COST, 1e6, INFINITY };
  AppPlanResult *result = result_new ();
  g_autoptr (GArray) ranked = app_plan_rank (result, &request);
  const AppRanked *small = &g_array_index (ranked, AppRanked, 0);

  (void)state;
  assert_near (small->time_s, 1000, 1e-12);
  assert_near (small->cost_usd, 10, 1e-12);
  assert_near (small->tokens_per_usd, 1e5, 1e-12);
  assert_true (isnan (g_array_index (ranked, AppRanked, 3).cost_usd));
  result_free (result);
}

/* 100 plays of a sweep, at most 10 and at least 1 of each point; lists not given count as one. */
static void
test_plays (void **state)
{
  static const struct {
    guint gpus, batches, plays;
  } sweeps[] = { { 1, 0, 10 }, { 5, 2, 10 }, { 5, 4, 5 }, { 7, 5, 2 }, { 50, 2, 1 }, { 60, 9, 1 } };
  const char *const machines[] = { "one", NULL };

  (void)state;
  for (guint i = 0; i < G_N_ELEMENTS (sweeps); i++) {
    g_autoptr (GArray) gpus = g_array_new (FALSE, TRUE, sizeof (guint64));
    g_autoptr (GArray) batches = g_array_new (FALSE, TRUE, sizeof (guint64));
    g_array_set_size (gpus, sweeps[i].gpus);
    g_array_set_size (batches, sweeps[i].batches);
    const AppPlanRequest request
        = { .machines = machines, .gpus = gpus, .batches = sweeps[i].batches > 0 ? batches : NULL };
    assert_int_equal (app_plan_default_plays (&request), sweeps[i].plays);
  }
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (cases) + 2];
  gsize n = 0;

  for (; n < G_N_ELEMENTS (cases); n++)
    tests[n] = (struct CMUnitTest){ .name = cases[n].name,
                                    .test_func = test_rank,
                                    .initial_state = (void *)&cases[n] };
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_money);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_plays);
  return _cmocka_run_group_tests ("app_plan_rank", tests, n, NULL, NULL);
}
