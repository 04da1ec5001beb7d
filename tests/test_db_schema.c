/* The schema: described completely, strict, marked as ours, and readable for ever. */
#include "db/schema-private.h"
#include "tests/db_fixture.h"

static int
setup (void **state)
{
  setup_empty (state);
  fixture_database (((Fixture *)*state)->path, 2);
  return 0;
}

static void
test_every_column_is_described (void **state)
{
  Fixture *fixture = *state;
  sqlite3 *handle = NULL;
  sqlite3_stmt *stmt = NULL;
  guint n_columns = 0;
  assert_int_equal (sqlite3_open (fixture->path, &handle), SQLITE_OK);
  assert_int_equal (
      sqlite3_prepare_v2 (handle,
                          "SELECT o.name, c.name FROM sqlite_schema o, pragma_table_info(o.name) c"
                          " WHERE o.type IN ('table', 'view') AND o.name NOT LIKE 'sqlite%'",
                          -1, &stmt, NULL),
      SQLITE_OK);
  while (sqlite3_step (stmt) == SQLITE_ROW) {
    const char *object = (const char *)sqlite3_column_text (stmt, 0);
    const char *column = (const char *)sqlite3_column_text (stmt, 1);
    const char *text = db_schema_column_text (object, column);
    if (text == NULL || *text == '\0') {
      print_error ("%s.%s has no description\n", object, column);
      fail ();
    }
    n_columns++;
  }
  assert_true (n_columns > 150);
  sqlite3_finalize (stmt);
  sqlite3_close (handle);
}

static void
test_every_description_has_its_column (void **state)
{
  Fixture *fixture = *state;
  guint n_objects = 0;
  const DbObjectDoc *objects = db_schema_docs (&n_objects);
  for (guint i = 0; i < n_objects; i++) {
    for (guint j = 0; j < objects[i].n_columns; j++) {
      g_autofree char *sql
          = g_strdup_printf ("SELECT count(*) FROM pragma_table_info('%s') WHERE name = '%s'",
                             objects[i].name, objects[i].columns[j].name);
      assert_raw (fixture->path, sql, "1");
    }
    g_autofree char *sql
        = g_strdup_printf ("SELECT count(*) FROM sqlite_schema WHERE name = '%s' AND type = '%s'",
                           objects[i].name,
                           g_str_has_prefix (objects[i].text, "View:") ? "view" : "table");
    assert_raw (fixture->path, sql, "1");
  }
  g_autofree char *n_text = g_strdup_printf ("%u", n_objects);
  assert_raw (fixture->path,
              "SELECT count(*) FROM sqlite_schema WHERE type IN ('table', 'view')"
              " AND name NOT LIKE 'sqlite%'",
              n_text);
}

static void
test_describe_names_all (void **state)
{
  g_autofree char *text = db_schema_describe ();
  guint n_objects = 0;
  const DbObjectDoc *objects = db_schema_docs (&n_objects);
  assert_non_null (text);
  assert_true (g_utf8_validate (text, -1, NULL));
  for (guint i = 0; i < n_objects; i++) {
    g_autofree char *heading = g_strdup_printf ("\n## %s\n", objects[i].name);
    assert_non_null (strstr (text, heading));
  }
  assert_null (strstr (text, "|  |\n"));
}

static void
test_tables_are_strict (void **state)
{
  Fixture *fixture = *state;
  assert_raw (fixture->path,
              "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
              " AND name NOT LIKE 'sqlite%' AND NOT strict",
              "0");
  assert_raw (fixture->path, "PRAGMA integrity_check", "ok");
  assert_raw (fixture->path, "PRAGMA foreign_key_check", "(none)");
  assert_raw (fixture->path, "PRAGMA journal_mode", "wal");
}

/* Offsets 60 and 68 of the file hold the two numbers, big-endian. */
static void
test_file_is_marked (void **state)
{
  Fixture *fixture = *state;
  g_autofree char *bytes = NULL;
  gsize length = 0;
  assert_true (g_file_get_contents (fixture->path, &bytes, &length, NULL));
  assert_memory_equal (bytes + 60, "\0\0\0\6", 4);
  assert_memory_equal (bytes + 68, "plai", 4);
}

static void
test_opening_again_changes_nothing (void **state)
{
  Fixture *fixture = *state;
  g_autofree char *before = fixture_fingerprint (fixture->folder);
  db_database_free (fixture_open (fixture->path, DB_OPEN_READ_WRITE));
  db_database_free (fixture_open (fixture->path, DB_OPEN_READ_ONLY));
  g_autofree char *after = fixture_fingerprint (fixture->folder);
  assert_string_equal (before, after);
}

/* A file of ours at version 0 whose table is in the way: the migration fails as a whole. */
static void
test_failed_migration_leaves_the_file (void **state)
{
  Fixture *fixture = *state;
  g_autofree char *folder = g_build_filename (fixture->folder, "migrate", NULL);
  g_autofree char *path = g_build_filename (folder, "old.db", NULL);
  g_autoptr (GError) error = NULL;
  assert_int_equal (g_mkdir (folder, 0700), 0);
  raw_exec (path, "PRAGMA application_id = 0x706c6169; CREATE TABLE stage_memory (x)");
  g_autofree char *before = fixture_fingerprint (folder);
  assert_null (db_database_open (path, DB_OPEN_READ_WRITE, NULL, &error));
  assert_non_null (error);
  assert_true (db_error_is_environment (error));
  assert_non_null (strstr (error->message, "stage_memory"));
  g_autofree char *after = fixture_fingerprint (folder);
  assert_string_equal (before, after);
}

static void
test_older_version_is_migrated_only_by_writers (void **state)
{
  Fixture *fixture = *state;
  g_autofree char *path = g_build_filename (fixture->folder, "zero.db", NULL);
  g_autoptr (GError) error = NULL;
  raw_exec (path, "PRAGMA application_id = 0x706c6169");
  assert_null (db_database_open (path, DB_OPEN_READ_ONLY, NULL, &error));
  assert_non_null (strstr (error->message, "schema version 0"));
  db_database_free (fixture_open (path, DB_OPEN_READ_WRITE));
  assert_raw (path, "PRAGMA user_version", "6");
  db_database_free (fixture_open (path, DB_OPEN_READ_ONLY));
}

static void
test_two_openings_make_one_schema (void **state)
{
  Fixture *fixture = *state;
  g_autofree char *path = g_build_filename (fixture->folder, "shared.db", NULL);
  g_autoptr (DbDatabase) first = fixture_open (path, DB_OPEN_READ_WRITE);
  g_autoptr (DbDatabase) second = fixture_open (path, DB_OPEN_READ_WRITE);
  DbPlanRecord one = { 0 };
  DbPlanRecord two = { 0 };
  fixture_store_inputs (first, &one);
  fixture_store_inputs (second, &two);
  assert_int_equal (one.machine_id, two.machine_id);
  assert_int_equal (one.model_id, two.model_id);
}

/* ---- a file of version 1, made once by 'test_db_schema --make-golden FILE' ---- */

static int
make_golden (const char *path)
{
  g_unlink (path);
  fixture_database (path, 3);
  raw_exec (path, "PRAGMA journal_mode = DELETE; PRAGMA page_size = 512; VACUUM;"
                  "PRAGMA journal_mode = WAL");
  return 0;
}

static void
test_golden_opens_for_ever (void **state)
{
  Fixture *fixture = *state;
  g_autofree char *golden
      = g_build_filename (g_getenv ("PLAIT_TEST_DIR"), "golden", "schema_v1.db", NULL);
  g_autofree char *path = g_build_filename (fixture->folder, "golden.db", NULL);
  g_autofree char *bytes = NULL;
  gsize length = 0;
  g_autoptr (GError) error = NULL;
  assert_true (g_file_get_contents (golden, &bytes, &length, NULL));
  assert_true (g_file_set_contents (path, bytes, (gssize)length, NULL));
  db_database_free (fixture_open (path, DB_OPEN_READ_WRITE)); /* migrates, once there is more */

  g_autoptr (DbDatabase) db = fixture_open (path, DB_OPEN_READ_ONLY);
  gint64 plan_id = 0;
  assert_true (db_find_best_plan (db, &plan_id, &error));
  g_autoptr (DbPlan) plan = db_load_plan (db, plan_id, &error);
  assert_no_error (error);
  assert_string_equal (plan->plan.layout_text, "tp=8,pp=2");
  assert_near (plan->plan.prediction.step_s, 3.0, 0);
  assert_int_equal (plan->plan.n_stage_rows, 2);
  assert_int_equal (plan->plan.stage_rows[1].layers, 16);
  g_autoptr (DbRun) run = db_load_run (db, plan->plan.run_id, &error);
  assert_no_error (error);
  assert_string_equal (run->run.started_at, "2026-02-03T04:05:06Z");
  g_autoptr (GArray) ids = db_list_plans (db, run->run.run_id, &error);
  assert_int_equal (ids->len, 3);
}

int
main (int argc, char **argv)
{
  if (argc == 3 && g_str_equal (argv[1], "--make-golden"))
    return make_golden (argv[2]);
#define TEST(name) cmocka_unit_test_setup_teardown (name, setup, teardown)
  const struct CMUnitTest tests[] = {
    TEST (test_every_column_is_described),
    TEST (test_every_description_has_its_column),
    TEST (test_describe_names_all),
    TEST (test_tables_are_strict),
    TEST (test_file_is_marked),
    TEST (test_opening_again_changes_nothing),
    TEST (test_failed_migration_leaves_the_file),
    TEST (test_older_version_is_migrated_only_by_writers),
    TEST (test_two_openings_make_one_schema),
    TEST (test_golden_opens_for_ever),
  };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
