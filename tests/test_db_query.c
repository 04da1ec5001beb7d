/* The user's SQL: reads everything, changes nothing, not even a byte or a file beside it. */
#include "db/query.h"
#include "tests/db_fixture.h"

static int
setup (void **state)
{
  setup_empty (state);
  fixture_database (((Fixture *)*state)->path, 3);
  return 0;
}

/* ---- a handler that writes down what it is given ---- */

typedef struct {
  GString *text;
  guint n_rows;
  guint stop_after; /* rows, 0 = never */
  gboolean stop_with_error;
  guint n_polls;
  guint cancel_at; /* polls, 0 = never */
} Recorder;

static gboolean
record_columns (const char *const *names, guint n_columns, gpointer user_data, GError **error)
{
  Recorder *recorder = user_data;
  for (guint i = 0; i < n_columns; i++)
    g_string_append_printf (recorder->text, "%s%s", i > 0 ? "," : "", names[i]);
  assert_null (names[n_columns]);
  return TRUE;
}

static void
record_cell (Recorder *recorder, const DbCell *cell)
{
  switch (cell->kind) {
  case DB_CELL_NULL:
    g_string_append (recorder->text, "null");
    break;
  case DB_CELL_INTEGER:
    g_string_append_printf (recorder->text, "i%" G_GINT64_FORMAT, cell->integer);
    break;
  case DB_CELL_REAL:
    g_string_append_printf (recorder->text, "r%.17g", cell->real);
    break;
  case DB_CELL_TEXT:
    assert_int_equal (strlen (cell->text), cell->length);
    g_string_append_printf (recorder->text, "t%s", cell->text);
    break;
  case DB_CELL_BLOB:
    g_string_append (recorder->text, "b");
    for (gsize i = 0; i < cell->length; i++)
      g_string_append_printf (recorder->text, "%02x", cell->blob[i]);
    break;
  }
}

static gboolean
record_row (const DbCell *cells, guint n_columns, gpointer user_data, GError **error)
{
  Recorder *recorder = user_data;
  g_string_append_c (recorder->text, '|');
  for (guint i = 0; i < n_columns; i++) {
    g_string_append (recorder->text, i > 0 ? "," : "");
    record_cell (recorder, &cells[i]);
  }
  recorder->n_rows++;
  if (recorder->n_rows != recorder->stop_after)
    return TRUE;
  if (recorder->stop_with_error)
    g_set_error_literal (error, G_FILE_ERROR, G_FILE_ERROR_PIPE, "reader is gone");
  return FALSE;
}

static gboolean
poll_recorder (gpointer user_data)
{
  Recorder *recorder = user_data;
  return ++recorder->n_polls == recorder->cancel_at;
}

static gboolean
run_query (DbDatabase *db, const char *sql, Recorder *recorder, GError **error)
{
  DbQueryHandler handler = { record_columns, record_row, poll_recorder, recorder };
  recorder->text = g_string_new (NULL);
  return db_query_run (db, sql, &handler, error);
}

static char *
query_text (const char *path, const char *sql)
{
  g_autoptr (DbDatabase) db = fixture_open (path, DB_OPEN_READ_ONLY);
  g_autoptr (GError) error = NULL;
  Recorder recorder = { 0 };
  run_query (db, sql, &recorder, &error);
  assert_no_error (error);
  return g_string_free (recorder.text, FALSE);
}

/* ---- what is allowed, and what comes back ---- */

static const struct {
  const char *sql;
  const char *want;
} answers[] = {
  { "select 1", "1|i1" },
  { "select 1;", "1|i1" },
  { "  -- a comment\n select 1 as a ; /* more */ ;; -- end", "a|i1" },
  { ";;select 1", "1|i1" },
  { "select 9223372036854775807 a, -1.5 b, 'x''y' c, x'00ff' d, null e",
    "a,b,c,d,e|i9223372036854775807,r-1.5,tx'y,b00ff,null" },
  { "select '' a, x'' b", "a,b|t,b" },
  { "select 1 a, 2 a", "a,a|i1,i2" },
  { "values (1), (2), (3)", "column1|i1|i2|i3" },
  { "select plan_id from plan where 0", "plan_id" },
  { "with recursive n(i) as (values (1) union all select i + 1 from n where i < 4)"
    " select sum(i) s from n",
    "s|i10" },
  { "select plan_id, row_number() over (order by plan_id desc) n from plan order by 1",
    "plan_id,n|i1,i3|i2,i2|i3,i1" },
  { "select layout_text, step_s from best_plan", "layout_text,step_s|ttp=8,pp=2,r3" },
  { "select count(*) c from sqlite_schema where name = 'plan'", "c|i1" },
  { "select json_extract(inputs, '$.model') m from run", "m|tmodel-test" },
  { "select round(sqrt(16.0), 1) s", "s|r4" },
  /* bytes that are no UTF-8, and NUL, become U+FFFD */
  { "select cast(x'41ff42' as text) t", "t|tA\357\277\275B" },
  { "select cast(x'410042' as text) t", "t|tA\357\277\275B" },
  { "select '; drop table plan' t", "t|t; drop table plan" },
};

static void
test_answers (void **state)
{
  Fixture *fixture = *state;
  g_autofree char *before = fixture_fingerprint (fixture->folder);
  for (gsize i = 0; i < G_N_ELEMENTS (answers); i++) {
    g_autofree char *got = query_text (fixture->path, answers[i].sql);
    assert_string_equal (got, answers[i].want);
  }
  g_autofree char *after = fixture_fingerprint (fixture->folder);
  assert_string_equal (before, after);
}

/* The same rows by the sqlite3 program, where there is one. */
static void
test_agrees_with_sqlite3 (void **state)
{
  static const char sql[] = "select component, exposed_s * 1000 from breakdown where plan_id = 2"
                            " order by component desc";
  Fixture *fixture = *state;
  g_autofree char *program = g_find_program_in_path ("sqlite3");
  if (program == NULL)
    skip ();
  const char *argv[] = { program, "-readonly", "-separator", ",r", fixture->path, sql, NULL };
  g_autofree char *want = NULL;
  assert_true (g_spawn_sync (NULL, (char **)argv, NULL, G_SPAWN_DEFAULT, NULL, NULL, &want, NULL,
                             NULL, NULL));
  g_autofree char *got = query_text (fixture->path, sql);
  g_auto (GStrv) lines = g_strsplit (g_strchomp (want), "\n", -1);
  g_autoptr (GString) expected = g_string_new ("component,exposed_s * 1000");
  for (guint i = 0; lines[i] != NULL; i++) {
    g_auto (GStrv) parts = g_strsplit (lines[i], ",r", 2);
    g_string_append_printf (expected, "|t%s,r%.17g", parts[0], g_ascii_strtod (parts[1], NULL));
  }
  assert_string_equal (got, expected->str);
}

/* ---- what is refused ---- */

static const struct {
  const char *sql;
  const char *message; /* part of the error */
} refusals[] = {
  { "select 1; drop table plan", "one statement only" },
  { "select 1; select 2", "one statement only" },
  { "select 1;\nselect\n2", "select 2" },
  { "select 'open\nline", "unrecognized token" },
  { "select 1; this is no sql", "one statement only" },
  { "drop table plan", "not allowed" },
  { "drop view best_plan", "not allowed" },
  { "delete from plan", "not allowed" },
  { "insert into assumed values (1, 'a', 'b', 'c', 9)", "not allowed" },
  { "update plan set tp = 4", "not allowed" },
  { "with x as (select 1) delete from plan", "not allowed" },
  { "delete from plan returning plan_id", "not allowed" },
  { "create table t (x)", "not allowed" },
  { "create temp table t (x)", "not allowed" },
  { "create temp view v as select 1", "not allowed" },
  { "create virtual table t using fts5(x)", "not allowed" },
  { "alter table plan add column x", "not allowed" },
  { "attach 'other.db' as other", "ATTACH" },
  { "detach main", "DETACH" },
  { "pragma user_version = 7", "PRAGMA user_version" },
  { "pragma journal_mode = delete", "PRAGMA" },
  { "pragma query_only = off", "PRAGMA" },
  { "pragma writable_schema = on", "PRAGMA" },
  { "pragma wal_checkpoint", "PRAGMA" },
  { "pragma table_info(plan)", "PRAGMA" },
  { "vacuum", "not allowed" },
  { "vacuum into 'copy.db'", "not allowed" },
  { "reindex", "not allowed" },
  { "analyze", "not allowed" },
  { "begin", "transaction" },
  { "begin immediate", "transaction" },
  { "commit", "transaction" },
  { "savepoint s", "transaction" },
  { "select load_extension('x.so')", "load_extension" },
  { "select plan_id from plan where plan_id = ?", "parameter" },
  { "select :id", "parameter ':id'" },
  { "select @id, $x", "parameter" },
  { "", "empty" },
  { " \n\t ;; -- nothing", "empty" },
  { "/* open", "empty" },
  { "selekt 1", "syntax error" },
  { "select", "incomplete" },
  { "select 'open", "unrecognized token" },
  { "select no_such from plan", "no such column" },
  { "select \"no_such\" from plan", "no such column" }, /* not a string in disguise */
  { "select * from plans", "no such table" },
  { "select no_such(1)", "no such function" },
  { "select zeroblob(2000000000)", "too big" },
  { "select abs(-9223372036854775808)", "integer overflow" },
  { "select '\xff'", "UTF-8" },
};

static void
test_refusals (void **state)
{
  Fixture *fixture = *state;
  g_autofree char *before = fixture_fingerprint (fixture->folder);
  for (gsize i = 0; i < G_N_ELEMENTS (refusals); i++) {
    g_autoptr (DbDatabase) db = fixture_open (fixture->path, DB_OPEN_READ_ONLY);
    g_autoptr (GError) error = NULL;
    Recorder recorder = { 0 };
    gboolean ok = run_query (db, refusals[i].sql, &recorder, &error);
    g_string_free (recorder.text, TRUE);
    if (ok || strstr (error->message, refusals[i].message) == NULL) {
      print_error ("%s: %s\n", refusals[i].sql, ok ? "allowed" : error->message);
      fail ();
    }
    assert_int_equal (error->code, DB_ERROR_QUERY);
    assert_false (db_error_is_environment (error));
    assert_int_equal (recorder.n_rows, 0);
    assert_null (strchr (error->message, '\n'));
  }
  g_autofree char *after = fixture_fingerprint (fixture->folder);
  assert_string_equal (before, after);
}

static void
test_works_after_a_refusal (void **state)
{
  Fixture *fixture = *state;
  g_autoptr (DbDatabase) db = fixture_open (fixture->path, DB_OPEN_READ_ONLY);
  g_autoptr (GError) error = NULL;
  Recorder refused = { 0 };
  Recorder recorder = { 0 };
  assert_false (run_query (db, "pragma user_version = 7", &refused, NULL));
  assert_true (run_query (db, "select count(*) c from plan", &recorder, &error));
  assert_string_equal (recorder.text->str, "c|i3");
  g_string_free (refused.text, TRUE);
  g_string_free (recorder.text, TRUE);
  g_autoptr (DbPlan) plan = db_load_plan (db, 1, &error);
  assert_no_error (error);
}

/* ---- stopping ---- */

static void
test_stops (void **state)
{
  static const char endless[] = "with recursive n(i) as (values (1) union all select i + 1 from n)"
                                " select i from n where i % 1000 = 0";
  Fixture *fixture = *state;
  g_autoptr (DbDatabase) db = fixture_open (fixture->path, DB_OPEN_READ_ONLY);
  g_autoptr (GError) error = NULL;
  Recorder cancelled = { .cancel_at = 50 };
  assert_false (run_query (db, endless, &cancelled, &error));
  assert_int_equal (error->code, DB_ERROR_CANCELLED);
  assert_false (db_error_is_environment (error));
  assert_int_equal (cancelled.n_polls, 50);
  assert_true (cancelled.n_rows > 0); /* rows come as they are found */
  g_clear_error (&error);

  Recorder quiet = { .stop_after = 3 };
  assert_true (run_query (db, endless, &quiet, &error));
  assert_string_equal (quiet.text->str, "i|i1000|i2000|i3000");

  Recorder failing = { .stop_after = 1, .stop_with_error = TRUE };
  assert_false (run_query (db, endless, &failing, &error));
  assert_true (g_error_matches (error, G_FILE_ERROR, G_FILE_ERROR_PIPE));
  g_string_free (cancelled.text, TRUE);
  g_string_free (quiet.text, TRUE);
  g_string_free (failing.text, TRUE);
}

/* ---- the file and its folder, in every state they may be found ---- */

static void
assert_reads_without_trace (const char *folder, const char *path, const char *want)
{
  g_autofree char *before = fixture_fingerprint (folder);
  g_autofree char *got = query_text (path, "select count(*) c from plan");
  assert_string_equal (got, want);
  g_autofree char *after = fixture_fingerprint (folder);
  assert_string_equal (before, after);
}

static void
test_no_trace_with_a_log_mode_file (void **state)
{
  Fixture *fixture = *state;
  assert_raw (fixture->path, "PRAGMA journal_mode", "wal");
  assert_reads_without_trace (fixture->folder, fixture->path, "c|i3");
}

static void
test_no_trace_with_a_plain_file (void **state)
{
  Fixture *fixture = *state;
  raw_exec (fixture->path, "PRAGMA journal_mode = DELETE");
  assert_reads_without_trace (fixture->folder, fixture->path, "c|i3");
}

static void
test_odd_file_names (void **state)
{
  static const char *const names[]
      = { "a?immutable=1#x.db", "b %41 c.db", ":memory:", "file:d.db", "-e.db" };
  Fixture *fixture = *state;
  for (gsize i = 0; i < G_N_ELEMENTS (names); i++) {
    g_autofree char *path = g_build_filename (fixture->folder, names[i], NULL);
    fixture_database (path, 1);
    assert_true (g_file_test (path, G_FILE_TEST_IS_REGULAR));
    assert_reads_without_trace (fixture->folder, path, "c|i1");
  }
}

/* A writer is in the middle: the reader sees what is committed, at once, and nothing else. */
static void
test_beside_a_writer (void **state)
{
  Fixture *fixture = *state;
  sqlite3 *writer = NULL;
  assert_int_equal (sqlite3_open (fixture->path, &writer), SQLITE_OK);
  assert_int_equal (sqlite3_exec (writer,
                                  "PRAGMA foreign_keys = ON; DELETE FROM plan WHERE plan_id = 1;"
                                  "BEGIN IMMEDIATE; DELETE FROM plan",
                                  NULL, NULL, NULL),
                    SQLITE_OK);
  gint64 start_us = g_get_monotonic_time ();
  g_autofree char *got = query_text (fixture->path, "select count(*) c from plan");
  assert_string_equal (got, "c|i2");
  assert_true (g_get_monotonic_time () - start_us < 2000000); /* far below the 5 s for a lock */
  assert_int_equal (sqlite3_exec (writer, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close (writer);
  assert_reads_without_trace (fixture->folder, fixture->path, "c|i2");
}

static void
copy_file (const char *from, const char *to)
{
  g_autofree char *bytes = NULL;
  gsize length = 0;
  assert_true (g_file_get_contents (from, &bytes, &length, NULL));
  assert_true (g_file_set_contents (to, bytes, (gssize)length, NULL));
}

/* What a killed writer leaves: a file and a log that is not folded in. Both stay as they are. */
static void
test_after_a_killed_writer (void **state)
{
  Fixture *fixture = *state;
  g_autofree char *log = g_strconcat (fixture->path, "-wal", NULL);
  g_autofree char *copy = g_build_filename (fixture->folder, "copy.db", NULL);
  g_autofree char *copy_log = g_strconcat (copy, "-wal", NULL);
  sqlite3 *writer = NULL;
  assert_int_equal (sqlite3_open (fixture->path, &writer), SQLITE_OK);
  assert_int_equal (sqlite3_exec (writer, "DELETE FROM assumed", NULL, NULL, NULL), SQLITE_OK);
  copy_file (fixture->path, copy);
  copy_file (log, copy_log);
  sqlite3_close (writer);

  g_autofree char *file_before = fixture_file_hash (copy);
  g_autofree char *log_before = fixture_file_hash (copy_log);
  g_autofree char *got = query_text (copy, "select count(*) c from assumed");
  assert_string_equal (got, "c|i0"); /* 6 rows without the log */
  g_autofree char *file_after = fixture_file_hash (copy);
  g_autofree char *log_after = fixture_file_hash (copy_log);
  assert_string_equal (file_before, file_after);
  assert_string_equal (log_before, log_after);
}

int
main (void)
{
#define TEST(name) cmocka_unit_test_setup_teardown (name, setup, teardown)
  const struct CMUnitTest tests[] = {
    TEST (test_answers),
    TEST (test_agrees_with_sqlite3),
    TEST (test_refusals),
    TEST (test_works_after_a_refusal),
    TEST (test_stops),
    TEST (test_no_trace_with_a_log_mode_file),
    TEST (test_no_trace_with_a_plain_file),
    TEST (test_odd_file_names),
    TEST (test_beside_a_writer),
    TEST (test_after_a_killed_writer),
  };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
