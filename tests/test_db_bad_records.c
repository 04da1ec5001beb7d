/* Records that break a rule of the schema: refused by name, and nothing of their run is stored. */
#include "tests/db_fixture.h"

static void
test_refuses_bad_inputs (void **state)
{
  Fixture *fixture = *state;
  DbJobRecord jobs[] = { fixture_job, fixture_job, fixture_job, fixture_job };
  gint64 id = 77;
  jobs[0].phase = "training";
  jobs[1].seq = -1;
  jobs[2].dropout = NAN;
  jobs[3].optimizer = NULL;
  for (gsize i = 0; i < G_N_ELEMENTS (jobs); i++) {
    g_autoptr (GError) error = NULL;
    assert_false (db_store_job (fixture->db, &jobs[i], &id, &error));
    assert_int_equal (error->code, DB_ERROR_BAD_VALUE);
    assert_int_equal (id, 77);
  }
  assert_raw (fixture->path, "SELECT count(*) FROM job", "1");
}

/* ---- bad plans: one among good ones, and nothing is stored ---- */

static DbStageMemoryRecord negative_stage;
static DbGroupRecord empty_group = { "tp", 0, NULL };
static DbBreakdownRecord twice[] = { { "tp", 1.0 }, { "tp", 2.0 } };

typedef struct {
  const char *name;
  gsize offset; /* of the member of DbPlanRecord */
  gsize n_bytes;
  const void *value;
  const char *message; /* part of the error */
} BadPlan;

#define MEMBER(type, member, ...)                                                                  \
  G_STRUCT_OFFSET (DbPlanRecord, member), sizeof (type), &(const type)                             \
  {                                                                                                \
    __VA_ARGS__                                                                                    \
  }
static const BadPlan bad_plans[] = {
  { "plan/step_nan", MEMBER (double, prediction.step_s, NAN), "step_s" },
  { "plan/step_zero", MEMBER (double, prediction.step_s, 0.0), "step_s" },
  { "plan/step_negative", MEMBER (double, prediction.step_s, -1.0), "step_s" },
  { "plan/step_infinite", MEMBER (double, prediction.step_s, INFINITY), "step_s" },
  { "plan/p90_below_p10", MEMBER (double, prediction.step_s_p90, 1.0), "step_s_p90" },
  { "plan/simulated_zero", MEMBER (double, prediction.simulated_s, 0.0), "simulated_s" },
  { "plan/risk_above_one", MEMBER (double, prediction.oom_risk, 1.5), "oom_risk" },
  { "plan/risk_nan", MEMBER (double, prediction.oom_risk, NAN), "oom_risk" },
  { "plan/mfu_infinite", MEMBER (double, prediction.mfu, INFINITY), "mfu" },
  { "plan/cost_negative", MEMBER (double, prediction.cost_usd_per_1e12_tokens, -1.0), "cost" },
  { "plan/peak_2_63", MEMBER (guint64, prediction.peak_bytes, G_GUINT64_CONSTANT (1) << 63),
    "9223372036854775808" },
  { "plan/usable_zero", MEMBER (guint64, prediction.usable_bytes, 0), "usable_bytes" },
  { "plan/rank_zero", MEMBER (gint64, rank, 0), "rank" },
  { "plan/rank_twice", MEMBER (gint64, rank, 1), "rank" },
  { "plan/gpus_negative", MEMBER (gint64, gpus, -64), "gpus" },
  { "plan/tp_zero", MEMBER (gint64, tp, 0), "tp" },
  { "plan/dp_least", MEMBER (gint64, dp, G_MININT64), "dp" },
  { "plan/zero_4", MEMBER (gint64, zero, 4), "zero" },
  { "plan/hsdp_negative", MEMBER (gint64, hsdp, -1), "hsdp" },
  { "plan/tp_sync_above_one", MEMBER (double, tp_sync, 1.5), "tp_sync" },
  { "plan/price_nan_is_absent_but_negative_is_bad", MEMBER (double, usd_per_gpu_h, -2.0), "usd" },
  { "plan/no_layout", MEMBER (char *, layout_text, NULL), "layout_text" },
  { "plan/empty_profile", MEMBER (char *, profile, (char *)""), "profile" },
  { "plan/unknown_machine", MEMBER (gint64, machine_id, 999), "FOREIGN KEY" },
  { "plan/unknown_calibration", MEMBER (gint64, calibration_id, 0), "FOREIGN KEY" },
  { "plan/stage_negative", MEMBER (DbStageMemoryRecord *, stage_rows, &negative_stage), "stage" },
  { "plan/empty_group", MEMBER (DbGroupRecord *, groups, &empty_group), "size" },
  { "plan/component_twice", MEMBER (DbBreakdownRecord *, breakdown, twice), "breakdown" },
};

static const BadPlan *current_bad_plan;

static void
test_refuses_a_bad_plan_whole (void **state)
{
  Fixture *fixture = *state;
  const BadPlan *bad = current_bad_plan;
  g_autoptr (GError) error = NULL;
  DbPlanRecord plans[3] = { fixture->plan, fixture->plan, fixture->plan };
  DbRunRecord run = fixture_run ();
  gint64 run_id = 55;
  negative_stage = fixture_stages[0];
  negative_stage.stage = -1;
  for (gint64 i = 0; i < 3; i++) {
    plans[i].rank = i + 1;
    plans[i].n_stage_rows = plans[i].n_groups = 1;
    plans[i].n_breakdown = 2;
  }
  memcpy ((char *)&plans[2] + bad->offset, bad->value, bad->n_bytes);

  assert_false (db_store_whole_run (fixture->db, &run, plans, 3, NULL, 0, &run_id, NULL, &error));
  assert_int_equal (error->domain, DB_ERROR);
  assert_int_equal (error->code, DB_ERROR_BAD_VALUE);
  if (strstr (error->message, bad->message) == NULL) {
    print_error ("'%s' lacks '%s'\n", error->message, bad->message);
    fail ();
  }
  assert_false (db_error_is_environment (error));
  assert_int_equal (run_id, 55);
  assert_raw (fixture->path, "SELECT (SELECT count(*) FROM run) + (SELECT count(*) FROM plan)",
              "0");
  /* and the connection still works */
  plans[2] = fixture->plan;
  plans[2].rank = 3;
  store_run (fixture, plans, 3);
  assert_raw (fixture->path, "SELECT count(*) FROM plan", "3");
}

static int
setup_bad_plan (void **state)
{
  current_bad_plan = *state;
  return setup_open (state);
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (bad_plans) + 1];
  tests[0] = (struct CMUnitTest)cmocka_unit_test_setup_teardown (test_refuses_bad_inputs,
                                                                 setup_open, teardown);
  for (gsize i = 0; i < G_N_ELEMENTS (bad_plans); i++)
    tests[i + 1] = (struct CMUnitTest){ .name = bad_plans[i].name,
                                        .test_func = test_refuses_a_bad_plan_whole,
                                        .setup_func = setup_bad_plan,
                                        .teardown_func = teardown,
                                        .initial_state = (void *)&bad_plans[i] };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
