/* tests/db_fixture.h - a folder for database files, one known run, and looks behind db/'s back. */
#pragma once
#include "db/store.h"
#include "tests/testutil.h"
#include <glib/gstdio.h>
#include <sqlite3.h>

/* ---- folders and files ---- */

static inline char *
fixture_folder (void)
{
  char *folder = g_dir_make_tmp ("plait-db-XXXXXX", NULL);
  assert_non_null (folder);
  return folder;
}

static inline void
fixture_remove_folder (const char *folder)
{
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  const char *name;
  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL) {
    g_autofree char *path = g_build_filename (folder, name, NULL);
    if (g_file_test (path, G_FILE_TEST_IS_DIR) && !g_file_test (path, G_FILE_TEST_IS_SYMLINK))
      fixture_remove_folder (path);
    else
      g_unlink (path);
  }
  g_rmdir (folder);
}

static inline gint
fixture_compare_names (gconstpointer a, gconstpointer b)
{
  return g_strcmp0 (*(char *const *)a, *(char *const *)b);
}

/* Names and contents of every regular file of a folder as one hash: equal means untouched. */
static inline char *
fixture_fingerprint (const char *folder)
{
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GChecksum) sum = g_checksum_new (G_CHECKSUM_SHA256);
  const char *name;
  while ((name = g_dir_read_name (dir)) != NULL)
    g_ptr_array_add (names, g_strdup (name));
  g_ptr_array_sort (names, fixture_compare_names);
  for (guint i = 0; i < names->len; i++) {
    g_autofree char *path = g_build_filename (folder, names->pdata[i], NULL);
    g_autofree char *content = NULL;
    gsize length = 0;
    g_checksum_update (sum, names->pdata[i], -1);
    if (g_file_test (path, G_FILE_TEST_IS_REGULAR)
        && g_file_get_contents (path, &content, &length, NULL))
      g_checksum_update (sum, (const guchar *)content, (gssize)length);
  }
  return g_strdup (g_checksum_get_string (sum));
}

static inline char *
fixture_file_hash (const char *path)
{
  g_autofree char *content = NULL;
  gsize length = 0;
  assert_true (g_file_get_contents (path, &content, &length, NULL));
  return g_compute_checksum_for_data (G_CHECKSUM_SHA256, (const guchar *)content, length);
}

/* ---- SQLite without db/ ---- */

static inline void
raw_exec (const char *path, const char *sql)
{
  sqlite3 *handle = NULL;
  char *message = NULL;
  assert_int_equal (sqlite3_open (path, &handle), SQLITE_OK);
  if (sqlite3_exec (handle, sql, NULL, NULL, &message) != SQLITE_OK) {
    print_error ("%s: %s\n", sql, message);
    fail ();
  }
  sqlite3_close (handle);
}

/* First column of the first row as text, "(null)" for NULL, "(none)" without a row. */
static inline char *
raw_text (const char *path, const char *sql)
{
  sqlite3 *handle = NULL;
  sqlite3_stmt *stmt = NULL;
  assert_int_equal (sqlite3_open (path, &handle), SQLITE_OK);
  if (sqlite3_prepare_v2 (handle, sql, -1, &stmt, NULL) != SQLITE_OK) {
    print_error ("%s: %s\n", sql, sqlite3_errmsg (handle));
    fail ();
  }
  char *text = NULL;
  if (sqlite3_step (stmt) != SQLITE_ROW)
    text = g_strdup ("(none)");
  else if (sqlite3_column_type (stmt, 0) == SQLITE_NULL)
    text = g_strdup ("(null)");
  else
    text = g_strdup ((const char *)sqlite3_column_text (stmt, 0));
  sqlite3_finalize (stmt);
  sqlite3_close (handle);
  return text;
}

static inline void
assert_raw (const char *path, const char *sql, const char *want)
{
  g_autofree char *got = raw_text (path, sql);
  if (strcmp (got, want) != 0)
    print_error ("%s\n", sql);
  assert_string_equal (got, want);
}

/* ---- one run with every field set to a value of its own ---- */

static const DbMachineRecord fixture_machine
    = { "hgx-test", "[node]\ngpus = 8\n", "h100-sxm", 8, 2.5, "2026-01-15" };
static const DbModelRecord fixture_model
    = { "model-test", "[model]\nlayers = 31\n", "llama", 7000000001, 6000000002 };
static const DbJobRecord fixture_job = { "train", 8192, 128, "adam", 0.125 };
static const DbCalibrationRecord fixture_calibration
    = { "default", "[gemm]\nratio = 0.7\n", "catalog" };
static const DbStageMemoryRecord fixture_stages[] = {
  { 0, 15, 4, 1.25, 1000, 900, 950, 0.01, 100, 101, 102, 103, 104, 105, 106, 107, 108, 64 },
  { 1, 16, 2, 1.5, 1100, 910, 960, 0.03, 200, 201, 202, 203, 204, 10, 20, 30, 20, 10 },
};
static const DbBreakdownRecord fixture_breakdown[] = {
  { "compute", 2.0 }, { "tp", 0.5 },         { "cp", 0.125 },
  { "ep", 0.0 },      { "pp_bubble", 0.25 }, { "p2p", 0.0625 },
  { "dp", 0.03 },     { "optimizer", 0.02 }, { "other", 0.0125 },
};
static const DbGroupRecord fixture_groups[] = { { "tp", 8, NULL }, { "dp", 4, "ib-ndr" } };
static const DbAssumedRecord fixture_assumed[] = {
  { "nic_latency", "2us", "not in the catalog" },
  { "rope_theta", "500000", NULL },
};

static inline DbPlanRecord
fixture_plan (gint64 rank)
{
  return (DbPlanRecord){
    .rank = rank,
    .gpus = 64,
    .global_batch = 128,
    .seq = 8192,
    .profile = "megatron",
    .layout_text = "tp=8,pp=2",
    .tp = 8,
    .sp = TRUE,
    .cp = 3,
    .pp = 2,
    .vpp = 5,
    .ep = 6,
    .etp = 7,
    .dp = 4,
    .mbs = 9,
    .zero = 1,
    .hsdp = 10,
    .recompute = "selective:core_attn",
    .schedule = "interleaved",
    .stages = "15+16",
    .attn = "flash",
    .dtype = "bf16",
    .cp_comm = "a2a",
    .tp_sync = 0.75,
    .overlap_tp = FALSE,
    .overlap_dp = TRUE,
    .overlap_p2p = FALSE,
    .usd_per_gpu_h = 2.25,
    .prediction = { .step_s = 3.0,
                    .step_s_p10 = 2.75,
                    .step_s_p90 = 3.5,
                    .simulated_s = 3.125,
                    .tokens_per_s_per_gpu = 5461.5,
                    .tflops_per_gpu = 412.5,
                    .mfu = 0.4375,
                    .oom_risk = 0.03,
                    .fits = TRUE,
                    .peak_bytes = 1100,
                    .allocated_bytes = 910,
                    .reserved_bytes = 960,
                    .usable_bytes = G_GUINT64_CONSTANT (84942979072),
                    .cost_usd_per_1e12_tokens = 114442.25 },
    .stage_rows = fixture_stages,
    .n_stage_rows = G_N_ELEMENTS (fixture_stages),
    .breakdown = fixture_breakdown,
    .n_breakdown = G_N_ELEMENTS (fixture_breakdown),
    .groups = fixture_groups,
    .n_groups = G_N_ELEMENTS (fixture_groups),
    .assumed = fixture_assumed,
    .n_assumed = G_N_ELEMENTS (fixture_assumed),
  };
}

static const DbRejectedRecord fixture_rejected[] = { { "heads do not divide", 12 },
                                                     { "layers do not divide", 40 },
                                                     { "heads do not divide", 8 } };

static inline DbRunRecord
fixture_run (void)
{
  return (DbRunRecord){
    .command = "plan",
    .inputs = "{\"model\":\"model-test\"}",
    .inputs_hash = "0123456789abcdef",
    .plait_version = "0.1.0",
    .status = DB_RUN_DONE,
    .started_at = "2026-02-03T04:05:06Z",
    .finished_at = "2026-02-03T04:05:09Z",
    .counts = { 1000, 900, 80, 7, 600, 50, 3.5, 2.5, 0.5, 2 },
  };
}

/* Stores the inputs and points @plan at them. */
static inline void
fixture_store_inputs (DbDatabase *db, DbPlanRecord *plan)
{
  g_autoptr (GError) error = NULL;
  db_store_machine (db, &fixture_machine, &plan->machine_id, &error);
  assert_no_error (error);
  db_store_model (db, &fixture_model, &plan->model_id, &error);
  assert_no_error (error);
  db_store_job (db, &fixture_job, &plan->job_id, &error);
  assert_no_error (error);
  db_store_calibration (db, &fixture_calibration, &plan->calibration_id, &error);
  assert_no_error (error);
}

static inline DbDatabase *
fixture_open (const char *path, DbOpenMode mode)
{
  g_autoptr (GError) error = NULL;
  DbDatabase *db = db_database_open (path, mode, NULL, &error);
  assert_no_error (error);
  assert_non_null (db);
  return db;
}

/* A closed database with one finished run of @n_plans plans, ranks from 1. */
static inline void
fixture_database (const char *path, guint n_plans)
{
  g_autoptr (DbDatabase) db = fixture_open (path, DB_OPEN_READ_WRITE);
  g_autoptr (GError) error = NULL;
  g_autofree DbPlanRecord *plans = g_new0 (DbPlanRecord, n_plans);
  DbRunRecord run = fixture_run ();
  DbPlanRecord inputs = { 0 };
  fixture_store_inputs (db, &inputs);
  for (guint i = 0; i < n_plans; i++) {
    plans[i] = fixture_plan (i + 1);
    plans[i].machine_id = inputs.machine_id;
    plans[i].model_id = inputs.model_id;
    plans[i].job_id = inputs.job_id;
    plans[i].calibration_id = inputs.calibration_id;
  }
  db_store_whole_run (db, &run, plans, n_plans, fixture_rejected, G_N_ELEMENTS (fixture_rejected),
                      NULL, NULL, &error);
  assert_no_error (error);
}

/* ---- a folder that holds one database ---- */

typedef struct {
  char *folder; /* holds nothing but the database */
  char *path;
  DbDatabase *db;    /* open, or NULL */
  DbPlanRecord plan; /* the fixture's, with its input ids */
} Fixture;

/* The path only: nothing is there yet. */
static inline int
setup_empty (void **state)
{
  Fixture *fixture = g_new0 (Fixture, 1);
  fixture->folder = fixture_folder ();
  fixture->path = g_build_filename (fixture->folder, "plait.db", NULL);
  *state = fixture;
  return 0;
}

/* Open, with the inputs of the fixture's plan. */
static inline int
setup_open (void **state)
{
  setup_empty (state);
  Fixture *fixture = *state;
  fixture->db = fixture_open (fixture->path, DB_OPEN_READ_WRITE);
  fixture->plan = fixture_plan (1);
  fixture_store_inputs (fixture->db, &fixture->plan);
  return 0;
}

static inline int
teardown (void **state)
{
  Fixture *fixture = *state;
  db_database_free (fixture->db);
  fixture_remove_folder (fixture->folder);
  g_free (fixture->folder);
  g_free (fixture->path);
  g_free (fixture);
  return 0;
}

static inline gint64
store_run (Fixture *fixture, const DbPlanRecord *plans, gsize n_plans)
{
  g_autoptr (GError) error = NULL;
  DbRunRecord run = fixture_run ();
  gint64 run_id = 0;
  db_store_whole_run (fixture->db, &run, plans, n_plans, fixture_rejected,
                      G_N_ELEMENTS (fixture_rejected), &run_id, NULL, &error);
  assert_no_error (error);
  return run_id;
}

/* ---- a folder alone ---- */

static inline int
setup_folder (void **state)
{
  *state = fixture_folder ();
  return 0;
}

static inline int
teardown_folder (void **state)
{
  fixture_remove_folder (*state);
  g_free (*state);
  return 0;
}

/* A file that cannot be used: one line that says @part. */
static inline void
assert_one_line (const GError *error, const char *part)
{
  if (strstr (error->message, part) == NULL) {
    print_error ("'%s' lacks '%s'\n", error->message, part);
    fail ();
  }
  assert_null (strchr (error->message, '\n'));
  assert_true (db_error_is_environment (error));
}
