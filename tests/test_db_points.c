/* Searches that are stopped and go on: whose run is taken over, and what it finds. */
#include "tests/db_fixture.h"

static gint64
begin (DbDatabase *db, const char *hash)
{
  g_autoptr (GError) error = NULL;
  DbRunRecord run = { .command = "plan", .inputs = "{}", .inputs_hash = hash };
  gint64 run_id = 0;
  assert_true (db_store_begin_search (db, &run, &run_id, &error));
  assert_no_error (error);
  return run_id;
}

static gint64
resume (DbDatabase *db, const char *hash)
{
  g_autoptr (GError) error = NULL;
  gint64 run_id = -1;
  assert_true (db_store_resume_search (db, hash, &run_id, &error));
  assert_no_error (error);
  return run_id;
}

static void
finish (DbDatabase *db, gint64 run_id, DbRunStatus status)
{
  g_autoptr (GError) error = NULL;
  const DbRunCounts counts = { .legal_count = 1 };
  assert_true (db_store_finish_run (db, run_id, status, NULL, &counts, fixture_rejected,
                                    G_N_ELEMENTS (fixture_rejected), &error));
}

static void
test_takes_over_what_was_stopped (void **state)
{
  g_autofree char *folder = fixture_folder ();
  g_autofree char *path = g_build_filename (folder, "x.db", NULL);
  g_autoptr (DbDatabase) db = fixture_open (path, DB_OPEN_READ_WRITE);
  (void)state;
  assert_int_equal (resume (db, "h"), 0); /* nothing there */
  gint64 run_id = begin (db, "h");
  assert_int_equal (resume (db, "h"), 0); /* this process works on it */
  finish (db, run_id, DB_RUN_INTERRUPTED);
  assert_int_equal (resume (db, "other"), 0);
  assert_int_equal (resume (db, "h"), run_id);
  assert_raw (path, "SELECT status || (finished_at IS NULL) FROM run", "running1");
  assert_raw (path, "SELECT count(*) FROM rejected", "0"); /* counted again at the end */
  finish (db, run_id, DB_RUN_DONE);
  assert_int_equal (resume (db, "h"), 0); /* done: the next one starts anew */
  fixture_remove_folder (folder);
}

static void
test_takes_over_what_was_killed (void **state)
{
  g_autofree char *folder = fixture_folder ();
  g_autofree char *path = g_build_filename (folder, "x.db", NULL);
  g_autoptr (DbDatabase) db = fixture_open (path, DB_OPEN_READ_WRITE);
  (void)state;
  gint64 run_id = begin (db, "h");
  /* no process has such a number: kernel.pid_max is at most 2^22 */
  raw_exec (path, "UPDATE search_process SET pid = 2147483647");
  assert_int_equal (resume (db, "h"), run_id);
  raw_exec (path, "UPDATE search_process SET pid = 2147483647, host = 'elsewhere'");
  assert_int_equal (resume (db, "h"), 0); /* nobody here can tell */
  fixture_remove_folder (folder);
}

static void
test_finds_points_again (void **state)
{
  g_autofree char *folder = fixture_folder ();
  g_autofree char *path = g_build_filename (folder, "x.db", NULL);
  g_autoptr (DbDatabase) db = fixture_open (path, DB_OPEN_READ_WRITE);
  g_autoptr (GError) error = NULL;
  g_autofree char *answer = NULL;
  g_autofree char *missing = NULL;
  DbPlanRecord plans[2] = { fixture_plan (1), fixture_plan (2) };
  gint64 ids[2] = { 0 };
  gint64 first_id = 0;
  gsize n_plans = 0;
  (void)state;
  gint64 run_id = begin (db, "h");
  fixture_store_inputs (db, &plans[0]);
  fixture_store_inputs (db, &plans[1]);
  assert_true (db_store_point (db, run_id, "p1", "{\"a\":1}", plans, 2, ids, &error));
  assert_true (db_store_point (db, run_id, "p2", "{}", NULL, 0, NULL, &error));
  assert_true (db_load_point (db, run_id, "p1", &answer, &first_id, &n_plans, &error));
  assert_string_equal (answer, "{\"a\":1}");
  assert_int_equal (first_id, ids[0]);
  assert_int_equal (ids[1], ids[0] + 1); /* what the reader counts on */
  assert_int_equal (n_plans, 2);
  g_clear_pointer (&answer, g_free);
  assert_true (db_load_point (db, run_id, "p2", &answer, &first_id, &n_plans, &error));
  assert_int_equal (n_plans, 0);
  assert_true (db_load_point (db, run_id, "p3", &missing, &first_id, &n_plans, &error));
  assert_null (missing);
  /* a point is stored once */
  assert_false (db_store_point (db, run_id, "p2", "{}", NULL, 0, NULL, &error));
  assert_non_null (error);
  fixture_remove_folder (folder);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_takes_over_what_was_stopped),
    cmocka_unit_test (test_takes_over_what_was_killed),
    cmocka_unit_test (test_finds_points_again),
  };
  return cmocka_run_group_tests_name ("db_points", tests, NULL, NULL);
}
