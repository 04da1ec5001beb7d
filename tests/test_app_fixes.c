/* tests/test_app_fixes.c - what lowers the memory risk of a plan, by its price in time. */
#include "app/fixes.h"
#include "tests/testutil.h"

#include <string.h>

static const AppPredictRequest tight = {
  .inputs = { .model = "llama-3.1-70b", .machine = "hgx-h100", .dropout = -1 },
  .gpus = 64,
  .global_batch = 256,
  .seq = 8192,
  .layout = "tp=4,pp=4,sp=1,zero=1,mbs=2",
};

static const AppFix *
find (const GPtrArray *fixes, const char *what)
{
  for (guint i = 0; i < fixes->len; i++) {
    const AppFix *fix = g_ptr_array_index (fixes, i);
    if (g_str_equal (fix->what, what))
      return fix;
  }
  return NULL;
}

/* Every fix lowers the risk, and is what a prediction of its layout says. */
static void
test_ranked (void **state)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (DbPlan) plan = app_predict (&tight, &error);
  g_autoptr (GPtrArray) fixes = app_fixes (&tight, &error);
  assert_no_error (error);
  assert_true (plan->plan.prediction.oom_risk > 0.05);
  assert_true (fixes->len >= 3);
  for (guint i = 0; i < fixes->len; i++) {
    const AppFix *fix = g_ptr_array_index (fixes, i);
    assert_true (fix->oom_risk < plan->plan.prediction.oom_risk);
    assert_near (fix->step_s, plan->plan.prediction.step_s * (1 + fix->cost_ratio), 1e-9);
    if (i > 0)
      assert_true (((const AppFix *)g_ptr_array_index (fixes, i - 1))->step_s <= fix->step_s);
  }
  const AppFix *full = find (fixes, "recompute=full");
  assert_non_null (full);
  AppPredictRequest again = tight;
  again.layout = full->layout_text;
  g_autoptr (DbPlan) alone = app_predict (&again, &error);
  assert_no_error (error);
  assert_near (alone->plan.prediction.step_s, full->step_s, 1e-12);
  assert_near (alone->plan.prediction.oom_risk, full->oom_risk, 1e-9);
  assert_int_equal (alone->plan.prediction.peak_bytes, full->peak_bytes);
}

/* The optimizer's states on the host: 12 bytes per parameter of the shard less, and slower. */
static void
test_offload (void **state)
{
  g_autoptr (GError) error = NULL;
  AppPredictRequest request = tight;
  request.layout = "tp=8,pp=2,sp=1,zero=0,mbs=1";
  g_autoptr (DbPlan) plan = app_predict (&request, &error);
  g_autoptr (GPtrArray) fixes = app_fixes (&request, &error);
  assert_no_error (error);
  const AppFix *fix = find (fixes, "optimizer on the host");
  assert_non_null (fix);
  assert_true (fix->cost_ratio > 0);
  guint64 least = G_MAXUINT64, most = 0;
  for (gsize i = 0; i < plan->plan.n_stage_rows; i++) {
    least = MIN (least, (guint64)plan->plan.stage_rows[i].optimizer_bytes);
    most = MAX (most, (guint64)plan->plan.stage_rows[i].optimizer_bytes);
  }
  guint64 saved = (guint64)plan->plan.prediction.peak_bytes - fix->peak_bytes;
  assert_true (saved >= least && saved <= most + most / 10); /* fragmentation goes with it */
}

/* Nothing is said of what fits with ease, and bad input is an error. */
static void
test_quiet_and_bad (void **state)
{
  g_autoptr (GError) error = NULL;
  AppPredictRequest request = tight;
  request.layout = "tp=8,pp=8,sp=1,zero=1,mbs=1,recompute=full";
  g_autoptr (GPtrArray) none = app_fixes (&request, &error);
  assert_no_error (error);
  assert_int_equal (none->len, 0);
  request.inputs.model = "no-such-model";
  assert_null (app_fixes (&request, &error));
  assert_non_null (strstr (error->message, "no-such-model"));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_ranked),
    cmocka_unit_test (test_offload),
    cmocka_unit_test (test_quiet_and_bad),
  };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
