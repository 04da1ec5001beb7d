/* Measured runs beside their predictions: stored whole, summed up by the view, or not at all. */
#include "tests/db_fixture.h"

static const DbRunRecord run = { .command = "validate", .inputs = "{}", .status = DB_RUN_DONE };

static DbValidationRecord
record (const char *id, const char *family, double predicted_s, double measured_s)
{
  return (DbValidationRecord){ .row_id = id,
                               .family = family,
                               .use = 1,
                               .machine = "hgx-h100",
                               .profile = "nemo",
                               .layout_text = "tp=8",
                               .predicted_s = predicted_s,
                               .predicted_s_p10 = predicted_s * 0.875,
                               .predicted_s_p90 = predicted_s * 1.125,
                               .measured_s = measured_s,
                               .mem_kind = "allocated",
                               .predicted_bytes = 1000,
                               .measured_bytes = 900,
                               .oom_risk = 0.25,
                               .ran = TRUE };
}

static gboolean
store (const char *path, DbValidationRecord *rows, gsize n_rows, GError **error)
{
  g_autoptr (DbDatabase) db = fixture_open (path, DB_OPEN_READ_WRITE);
  const DbCalibrationRecord calibration = { "default", "numbers", "catalog" };
  const DbRejectedRecord skipped[] = { { "no mbs", 3 } };
  gint64 calibration_id = 0, run_id = 0;
  if (!db_store_calibration (db, &calibration, &calibration_id, error))
    return FALSE;
  for (gsize i = 0; i < n_rows; i++)
    rows[i].calibration_id = calibration_id;
  return db_store_validation (db, &run, rows, n_rows, skipped, 1, &run_id, error) && run_id == 1;
}

/*
 * Family a: errors 1.25/1 - 1 = +0.25, 1.5/2 - 1 = -0.25, 2/2 - 1 = 0 (inside), 3/2 - 1 = +0.5:
 * sizes 0 .25 .25 .5: median .25, mean .25, signed mean .125, one of four inside.
 * Family b: one row, 1/1.125 - 1 = -1/9, its p90 is 1.125: inside.
 */
static void
test_accuracy (void **state)
{
  Fixture *fixture = *state;
  DbValidationRecord rows[]
      = { record ("1", "a", 1.25, 1), record ("2", "a", 1.5, 2),   record ("3", "a", 2, 2),
          record ("4", "a", 3, 2),    record ("5", "b", 1, 1.125), record ("6", "b", 1, 7),
          record ("7", "b", 1, NAN) };
  GError *error = NULL;
  rows[5].use = 0;
  assert_true (store (fixture->path, rows, G_N_ELEMENTS (rows), &error));
  assert_no_error (error);
  assert_raw (fixture->path, "SELECT count(*) FROM validation", "7");
  assert_raw (fixture->path,
              "SELECT row_count || ' ' || median_abs_err || ' ' || mean_abs_err"
              " || ' ' || mean_err || ' ' || coverage_80"
              " FROM accuracy WHERE family = 'a'",
              "4 0.25 0.25 0.125 0.25");
  assert_raw (fixture->path,
              "SELECT row_count || ' ' || round (9 * median_abs_err, 9) || ' ' || coverage_80"
              " || ' ' || calibration FROM accuracy WHERE family = 'b'",
              "1 1.0 1.0 default");
  assert_raw (fixture->path, "SELECT count FROM rejected WHERE reason = 'no mbs'", "3");
  assert_raw (fixture->path, "SELECT status FROM run", "done");
}

/* One bad row of two: nothing is stored. */
static void
test_all_or_nothing (void **state)
{
  Fixture *fixture = *state;
  DbValidationRecord rows[] = { record ("1", "a", 1, 1), record ("bad", "a", 1, 1) };
  g_autoptr (GError) error = NULL;
  rows[1].oom_risk = 1.5;
  assert_false (store (fixture->path, rows, G_N_ELEMENTS (rows), &error));
  assert_non_null (strstr (error->message, "row 'bad'"));
  assert_raw (fixture->path, "SELECT count(*) FROM validation", "0");
  assert_raw (fixture->path, "SELECT count(*) FROM run", "0");
}

/* A file of version 1 with plans gets the table and keeps them. */
static void
test_older_file_gets_the_table (void **state)
{
  Fixture *fixture = *state;
  g_autofree char *golden
      = g_build_filename (g_getenv ("PLAIT_TEST_DIR"), "golden", "schema_v1.db", NULL);
  g_autofree char *bytes = NULL;
  gsize length = 0;
  assert_true (g_file_get_contents (golden, &bytes, &length, NULL));
  assert_true (g_file_set_contents (fixture->path, bytes, (gssize)length, NULL));
  db_database_free (fixture_open (fixture->path, DB_OPEN_READ_WRITE));
  assert_raw (fixture->path, "PRAGMA user_version", "6");
  assert_raw (fixture->path, "SELECT count(*) FROM validation", "0");
  assert_raw (fixture->path, "SELECT count(*) FROM accuracy", "0");
  assert_raw (fixture->path, "SELECT count(*) FROM plan", "3");
}

int
main (void)
{
#define TEST(name) cmocka_unit_test_setup_teardown (name, setup_empty, teardown)
  const struct CMUnitTest tests[] = {
    TEST (test_accuracy),
    TEST (test_all_or_nothing),
    TEST (test_older_file_gets_the_table),
  };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
