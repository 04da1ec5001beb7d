/* Storing runs and plans: what goes in comes out, and goes in whole or not at all. */
#include "tests/db_fixture.h"
#include <time.h>

/* ---- every value of the fixture, looked up by SQLite alone ---- */

static const struct {
  const char *sql;
  const char *want;
} stored_values[] = {
  { "SELECT name || gpu || gpus_per_node || usd_per_gpu_h || price_as_of FROM machine",
    "hgx-testh100-sxm82.52026-01-15" },
  { "SELECT content FROM machine", "[node]\ngpus = 8\n" },
  { "SELECT name || family || parameters || '/' || parameters_active FROM model",
    "model-testllama7000000001/6000000002" },
  { "SELECT phase || seq || '/' || global_batch || optimizer || dropout FROM job",
    "train8192/128adam0.125" },
  { "SELECT name || source FROM calibration", "defaultcatalog" },
  { "SELECT command || inputs || inputs_hash || plait_version || status FROM run",
    "plan{\"model\":\"model-test\"}0123456789abcdef0.1.0done" },
  { "SELECT started_at || finished_at FROM run", "2026-02-03T04:05:06Z2026-02-03T04:05:09Z" },
  { "SELECT message FROM run", "(null)" },
  { "SELECT legal_count ||','|| costed_count ||','|| exact_count ||','|| simulated_count ||','||"
    " pruned_bound_count ||','|| pruned_risk_count FROM run",
    "1000,900,80,7,600,50" },
  { "SELECT elapsed_s ||','|| search_s ||','|| simulate_s ||','|| jobs_count FROM run",
    "3.5,2.5,0.5,2" },
  /* 12 + 8 of the two rows with the same reason */
  { "SELECT count FROM rejected WHERE reason = 'heads do not divide'", "20" },
  { "SELECT count FROM rejected WHERE reason = 'layers do not divide'", "40" },
  { "SELECT rank ||','|| gpus ||','|| global_batch ||','|| seq FROM plan", "1,64,128,8192" },
  { "SELECT profile || '/' || layout_text FROM plan", "megatron/tp=8,pp=2" },
  { "SELECT tp ||','|| sp ||','|| cp ||','|| pp ||','|| vpp ||','|| ep ||','|| etp ||','|| dp"
    " ||','|| mbs ||','|| zero ||','|| hsdp FROM plan",
    "8,1,3,2,5,6,7,4,9,1,10" },
  { "SELECT recompute ||','|| schedule ||','|| stages ||','|| attn ||','|| dtype ||','|| cp_comm"
    " FROM plan",
    "selective:core_attn,interleaved,15+16,flash,bf16,a2a" },
  { "SELECT tp_sync ||','|| overlap_tp ||','|| overlap_dp ||','|| overlap_p2p ||','||"
    " usd_per_gpu_h FROM plan",
    "0.75,0,1,0,2.25" },
  { "SELECT step_s ||','|| step_s_p10 ||','|| step_s_p90 ||','|| simulated_s FROM prediction",
    "3.0,2.75,3.5,3.125" },
  { "SELECT tokens_per_s_per_gpu ||','|| tflops_per_gpu ||','|| mfu ||','|| oom_risk ||','||"
    " fits FROM prediction",
    "5461.5,412.5,0.4375,0.03,1" },
  { "SELECT peak_bytes ||','|| allocated_bytes ||','|| reserved_bytes ||','|| usable_bytes ||','||"
    " cost_usd_per_1e12_tokens FROM prediction",
    "1100,910,960,84942979072,114442.25" },
  { "SELECT layers ||','|| in_flight_count ||','|| compute_s ||','|| peak_bytes ||','||"
    " allocated_bytes ||','|| reserved_bytes ||','|| oom_risk FROM stage_memory WHERE stage = 0",
    "15,4,1.25,1000,900,950,0.01" },
  { "SELECT weights_bytes ||','|| gradients_bytes ||','|| optimizer_bytes ||','||"
    " activations_bytes ||','|| logits_bytes ||','|| gathers_bytes ||','|| comm_buffers_bytes"
    " ||','|| workspace_bytes ||','|| context_bytes ||','|| fragmentation_bytes"
    " FROM stage_memory WHERE stage = 0",
    "100,101,102,103,104,105,106,107,108,64" },
  { "SELECT count(*) FROM stage_memory", "2" },
  { "SELECT group_concat(component || exposed_s) FROM breakdown",
    "compute2.0,cp0.125,dp0.03,ep0.0,optimizer0.02,other0.0125,p2p0.0625,pp_bubble0.25,tp0.5" },
  { "SELECT kind || size || bottleneck FROM comm_group WHERE kind = 'dp'", "dp4ib-ndr" },
  { "SELECT bottleneck FROM comm_group WHERE kind = 'tp'", "(null)" },
  { "SELECT key || value || why FROM assumed WHERE key = 'nic_latency'",
    "nic_latency2usnot in the catalog" },
  { "SELECT why FROM assumed WHERE key = 'rope_theta'", "(null)" },
  /* views: the fullest of the two stages is the second, 1100 bytes */
  { "SELECT stage FROM plan_memory WHERE is_fullest", "1" },
  { "SELECT free_bytes FROM plan_memory WHERE is_fullest", "84942977972" },
  { "SELECT model || machine || calibration || phase FROM best_plan",
    "model-testhgx-testdefaulttrain" },
  { "SELECT plan_count ||','|| rejected_count ||','|| models ||','|| machines ||','|| gpus_min"
    " ||','|| gpus_max ||','|| best_plan_id FROM run_summary",
    "1,60,model-test,hgx-test,64,64,1" },
};

static void
test_stores_every_field (void **state)
{
  Fixture *fixture = *state;
  store_run (fixture, &fixture->plan, 1);
  for (gsize i = 0; i < G_N_ELEMENTS (stored_values); i++)
    assert_raw (fixture->path, stored_values[i].sql, stored_values[i].want);
}

/* ---- and read back ---- */

static void
assert_same_layout (const DbPlanRecord *got, const DbPlanRecord *want)
{
  assert_int_equal (got->tp, want->tp);
  assert_int_equal (got->sp, want->sp);
  assert_int_equal (got->cp, want->cp);
  assert_int_equal (got->pp, want->pp);
  assert_int_equal (got->vpp, want->vpp);
  assert_int_equal (got->ep, want->ep);
  assert_int_equal (got->etp, want->etp);
  assert_int_equal (got->dp, want->dp);
  assert_int_equal (got->mbs, want->mbs);
  assert_int_equal (got->zero, want->zero);
  assert_int_equal (got->hsdp, want->hsdp);
  assert_string_equal (got->recompute, want->recompute);
  assert_string_equal (got->schedule, want->schedule);
  assert_string_equal (got->stages, want->stages);
  assert_string_equal (got->attn, want->attn);
  assert_string_equal (got->dtype, want->dtype);
  assert_string_equal (got->cp_comm, want->cp_comm);
  assert_near (got->tp_sync, want->tp_sync, 0);
  assert_int_equal (got->overlap_tp, want->overlap_tp);
  assert_int_equal (got->overlap_dp, want->overlap_dp);
  assert_int_equal (got->overlap_p2p, want->overlap_p2p);
}

static void
test_loads_what_was_stored (void **state)
{
  Fixture *fixture = *state;
  g_autoptr (GError) error = NULL;
  gint64 run_id = store_run (fixture, &fixture->plan, 1);
  g_autoptr (GArray) ids = db_list_plans (fixture->db, run_id, &error);
  assert_no_error (error);
  assert_int_equal (ids->len, 1);
  g_autoptr (DbPlan) got = db_load_plan (fixture->db, g_array_index (ids, gint64, 0), &error);
  assert_no_error (error);
  assert_int_equal (got->plan.run_id, run_id);
  assert_int_equal (got->plan.machine_id, fixture->plan.machine_id);
  assert_string_equal (got->plan.layout_text, fixture->plan.layout_text);
  assert_same_layout (&got->plan, &fixture->plan);
  assert_memory_equal (&got->plan.prediction, &fixture->plan.prediction,
                       sizeof (DbPredictionRecord) - sizeof (double));
  assert_near (got->plan.prediction.cost_usd_per_1e12_tokens, 114442.25, 0);
  assert_int_equal (got->plan.n_stage_rows, 2);
  assert_memory_equal (got->plan.stage_rows, fixture_stages, sizeof fixture_stages);
  assert_int_equal (got->plan.n_breakdown, 9);
  assert_string_equal (got->plan.breakdown[0].component, "compute");
  assert_near (got->plan.breakdown[0].exposed_s, 2.0, 0);
  /* in the order they were stored in, not the alphabet's */
  assert_string_equal (got->plan.breakdown[1].component, "tp");
  assert_string_equal (got->plan.breakdown[8].component, "other");
  assert_int_equal (got->plan.n_groups, 2);
  assert_string_equal (got->plan.groups[0].kind, "tp");
  assert_null (got->plan.groups[0].bottleneck);
  assert_int_equal (got->plan.n_assumed, 2);
  assert_string_equal (got->plan.assumed[0].why, "not in the catalog");
  assert_string_equal (got->machine.content, fixture_machine.content);
  assert_string_equal (got->model.family, "llama");
  assert_int_equal (got->job.seq, 8192);
  assert_string_equal (got->calibration.source, "catalog");
}

/* Absent values: NULL in the file, NaN, 0 or NULL in the record. */
static void
test_absent_values (void **state)
{
  Fixture *fixture = *state;
  g_autoptr (GError) error = NULL;
  DbPlanRecord plan = fixture->plan;
  plan.hsdp = 0;
  plan.usd_per_gpu_h = NAN;
  plan.prediction.simulated_s = NAN;
  plan.prediction.cost_usd_per_1e12_tokens = NAN;
  plan.n_stage_rows = plan.n_groups = plan.n_assumed = plan.n_breakdown = 0;
  store_run (fixture, &plan, 1);
  assert_raw (fixture->path,
              "SELECT count(*) FROM plan_result WHERE hsdp IS NULL AND usd_per_gpu_h IS NULL"
              " AND simulated_s IS NULL AND cost_usd_per_1e12_tokens IS NULL",
              "1");
  g_autoptr (DbPlan) got = db_load_plan (fixture->db, 1, &error);
  assert_no_error (error);
  assert_int_equal (got->plan.hsdp, 0);
  assert_true (isnan (got->plan.prediction.simulated_s));
  assert_int_equal (got->plan.n_stage_rows, 0);
  assert_null (got->plan.stage_rows);
}

static void
test_loads_a_run (void **state)
{
  Fixture *fixture = *state;
  g_autoptr (GError) error = NULL;
  gint64 run_id = store_run (fixture, &fixture->plan, 1);
  g_autoptr (DbRun) got = db_load_run (fixture->db, run_id, &error);
  assert_no_error (error);
  assert_int_equal (got->run.status, DB_RUN_DONE);
  assert_string_equal (got->run.inputs_hash, "0123456789abcdef");
  assert_null (got->run.message);
  assert_int_equal (got->run.counts.exact_count, 80);
  assert_near (got->run.counts.search_s, 2.5, 0);
  assert_int_equal (got->n_rejected, 2);
  assert_string_equal (got->rejected[0].reason, "layers do not divide"); /* 40 before 20 */
  assert_int_equal (got->rejected[1].count, 20);
}

/* ---- inputs ---- */

static void
test_equal_inputs_are_one_row (void **state)
{
  Fixture *fixture = *state;
  g_autoptr (GError) error = NULL;
  DbMachineRecord dearer = fixture_machine;
  DbPlanRecord again = { 0 };
  gint64 dearer_id = 0;
  fixture_store_inputs (fixture->db, &again);
  assert_int_equal (again.machine_id, fixture->plan.machine_id);
  assert_int_equal (again.model_id, fixture->plan.model_id);
  assert_int_equal (again.job_id, fixture->plan.job_id);
  assert_int_equal (again.calibration_id, fixture->plan.calibration_id);
  dearer.usd_per_gpu_h = 3.5;
  assert_true (db_store_machine (fixture->db, &dearer, &dearer_id, &error));
  assert_int_not_equal (dearer_id, again.machine_id);
  assert_raw (fixture->path, "SELECT count(*) FROM machine", "2");
}

static void
test_newest_calibration_counts (void **state)
{
  Fixture *fixture = *state;
  g_autoptr (GError) error = NULL;
  DbCalibrationRecord mine = { "node7", "[gemm]\nratio = 0.8\n", "measured" };
  gint64 id = 0;
  assert_true (db_store_calibration (fixture->db, &mine, &id, &error));
  mine.content = "[gemm]\nratio = 0.9\n";
  assert_true (db_store_calibration (fixture->db, &mine, &id, &error));
  g_autofree char *content = db_load_calibration (fixture->db, "node7", &error);
  assert_string_equal (content, mine.content);
  assert_null (db_load_calibration (fixture->db, "node8", &error));
  assert_int_equal (error->code, DB_ERROR_NOT_FOUND);
}

/* ---- the life of a run ---- */

static void
test_run_step_by_step (void **state)
{
  Fixture *fixture = *state;
  g_autoptr (GError) error = NULL;
  DbRunRecord run = { .command = "plan", .inputs = "{}" };
  DbRunCounts counts = { .legal_count = 5, .elapsed_s = NAN, .search_s = 1, .simulate_s = NAN };
  gint64 run_id = 0;
  gint64 plan_id = 0;
  assert_true (db_store_begin_run (fixture->db, &run, &run_id, &error));
  assert_raw (fixture->path, "SELECT status FROM run", "running");
  assert_raw (fixture->path, "SELECT abs(julianday(started_at) - julianday('now')) < 0.01 FROM run",
              "1");
  assert_raw (fixture->path, "SELECT finished_at IS NULL AND legal_count IS NULL FROM run", "1");
  assert_true (db_store_plans (fixture->db, run_id, &fixture->plan, 1, &plan_id, &error));
  assert_int_equal (plan_id, 1);
  assert_false (db_find_best_plan (fixture->db, &plan_id, &error)); /* still running */
  assert_int_equal (error->code, DB_ERROR_NOT_FOUND);
  g_clear_error (&error);
  assert_true (db_store_finish_run (fixture->db, run_id, DB_RUN_INTERRUPTED, "stopped by signal 2",
                                    &counts, NULL, 0, &error));
  assert_raw (fixture->path, "SELECT status || message || legal_count FROM run",
              "interruptedstopped by signal 25");
  assert_raw (fixture->path, "SELECT elapsed_s FROM run", "(null)");
  assert_false (db_find_best_plan (fixture->db, &plan_id, &error)); /* not done */
  g_clear_error (&error);
  assert_false (
      db_store_finish_run (fixture->db, run_id, DB_RUN_DONE, NULL, &counts, NULL, 0, &error));
  assert_int_equal (error->code, DB_ERROR_NOT_FOUND);
  assert_raw (fixture->path, "SELECT status FROM run", "interrupted");
  g_clear_error (&error);
  assert_false (
      db_store_plans (fixture->db, 99, &fixture->plan, 1, NULL, &error)); /* no such run */
  assert_int_equal (error->code, DB_ERROR_BAD_VALUE);
}

/* Hash 44136fa355b3678a: SHA-256 of "{}" by sha256sum. */
static void
test_run_defaults (void **state)
{
  Fixture *fixture = *state;
  g_autoptr (GError) error = NULL;
  DbRunRecord run = { .command = "plan", .inputs = "{}" };
  gint64 run_id = 0;
  assert_true (db_store_begin_run (fixture->db, &run, &run_id, &error));
  assert_raw (fixture->path, "SELECT inputs_hash FROM run", "44136fa355b3678a");
  assert_raw (fixture->path, "SELECT plait_version FROM run", PLAIT_VERSION);
  run.inputs = NULL;
  assert_false (db_store_begin_run (fixture->db, &run, &run_id, &error));
  assert_int_equal (error->code, DB_ERROR_BAD_VALUE);
}

/* 64 GPUs x 10 tokens/s = 640; 128 x 6 = 768 in all; 256 x 5 = 1280 does not fit. */
static void
test_best_plan (void **state)
{
  Fixture *fixture = *state;
  g_autoptr (GError) error = NULL;
  DbPlanRecord plans[4];
  gint64 plan_id = 0;
  for (gint64 i = 0; i < 4; i++) {
    plans[i] = fixture->plan;
    plans[i].rank = i == 3 ? 2 : 1;
    plans[i].gpus = i == 3 ? 64 : 64 << i;
    plans[i].prediction.tokens_per_s_per_gpu = (double[]){ 10, 6, 5, 9999 }[i];
    plans[i].prediction.fits = i != 2;
  }
  assert_false (db_find_best_plan (fixture->db, &plan_id, &error));
  assert_non_null (strstr (error->message, "plait plan"));
  g_clear_error (&error);
  store_run (fixture, plans, 4);
  store_run (fixture, NULL, 0); /* a later run that found nothing */
  assert_true (db_find_best_plan (fixture->db, &plan_id, &error));
  assert_int_equal (plan_id, 2);
}

static void
test_missing_rows_are_not_found (void **state)
{
  Fixture *fixture = *state;
  g_autoptr (GError) error = NULL;
  assert_null (db_load_plan (fixture->db, 12345, &error));
  assert_int_equal (error->code, DB_ERROR_NOT_FOUND);
  assert_non_null (strstr (error->message, "no plan 12345"));
  g_clear_error (&error);
  assert_null (db_load_run (fixture->db, -1, &error));
  assert_int_equal (error->code, DB_ERROR_NOT_FOUND);
  g_clear_error (&error);
  g_autoptr (GArray) ids = db_list_plans (fixture->db, 5, &error);
  assert_int_equal (ids->len, 0);
}

/* Every plan with its prediction and nine parts; release builds take a few seconds. */
static void
test_many_plans_in_one_transaction (void **state)
{
#ifdef __SANITIZE_ADDRESS__
  enum { N_PLANS = 10000 }; /* the sanitizer makes it ten times slower */
#else
  enum { N_PLANS = 100000 };
#endif
  Fixture *fixture = *state;
  g_autoptr (GError) error = NULL;
  g_autofree DbPlanRecord *plans = g_new (DbPlanRecord, N_PLANS);
  for (guint i = 0; i < N_PLANS; i++) {
    plans[i] = fixture->plan;
    plans[i].rank = i + 1;
  }
  gint64 start_us = g_get_monotonic_time ();
  clock_t start = clock ();
  store_run (fixture, plans, N_PLANS);
  print_message ("stored %d plans in %.2f s, %.2f s of it on the CPU\n", N_PLANS,
                 (double)(g_get_monotonic_time () - start_us) / 1e6,
                 (double)(clock () - start) / CLOCKS_PER_SEC);
  g_autofree char *n_plans = g_strdup_printf ("%d", N_PLANS);
  g_autofree char *n_parts = g_strdup_printf ("%d", 9 * N_PLANS);
  assert_raw (fixture->path, "SELECT count(*) FROM plan JOIN prediction USING (plan_id)", n_plans);
  assert_raw (fixture->path, "SELECT count(*) FROM breakdown", n_parts);
}

int
main (void)
{
#define TEST(name) cmocka_unit_test_setup_teardown (name, setup_open, teardown)
  const struct CMUnitTest tests[] = {
    TEST (test_stores_every_field),
    TEST (test_loads_what_was_stored),
    TEST (test_absent_values),
    TEST (test_loads_a_run),
    TEST (test_equal_inputs_are_one_row),
    TEST (test_newest_calibration_counts),
    TEST (test_run_step_by_step),
    TEST (test_run_defaults),
    TEST (test_best_plan),
    TEST (test_missing_rows_are_not_found),
    TEST (test_many_plans_in_one_transaction),
  };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
