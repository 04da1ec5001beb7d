/* Searches that are stopped and go on: whose run is taken over, and what it finds. */
#include "tests/db_fixture.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* @words: (nullable) what the note on a run left alone says; NULL: no note */
static gint64
resume_noting (DbDatabase *db, const char *hash, gboolean take_over, const char *words)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *note = NULL;
  gint64 run_id = -1;
  assert_true (db_store_resume_search (db, hash, take_over, &run_id, &note, &error));
  assert_no_error (error);
  if (words == NULL)
    assert_null (note);
  else if (note == NULL || strstr (note, words) == NULL)
    fail_msg ("the note says '%s', expected '%s'", note, words);
  return run_id;
}

static gint64
resume (DbDatabase *db, const char *hash)
{
  return resume_noting (db, hash, FALSE, NULL);
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
  assert_int_equal (resume_noting (db, "h", TRUE, "is at work on run 1"), 0); /* this process */
  finish (db, run_id, DB_RUN_INTERRUPTED);
  assert_int_equal (resume (db, "other"), 0);
  assert_int_equal (resume (db, "h"), run_id);
  assert_raw (path, "SELECT status || (finished_at IS NULL) FROM run", "running1");
  assert_raw (path, "SELECT count(*) FROM rejected", "0"); /* counted again at the end */
  finish (db, run_id, DB_RUN_DONE);
  assert_int_equal (resume (db, "h"), 0); /* done: the next one starts anew */
  fixture_remove_folder (folder);
}

/* ---- whose process is gone ---- */

/* The run_process row of a search that this process began, changed by @sql (ZOMBIE stands for the
 * number of one), and what comes of it. */
typedef struct {
  const char *name;
  const char *sql;
  gboolean taken;
  const char *note;        /* (nullable) otherwise */
  gboolean taken_by_force; /* with --take-over */
} GoneCase;

#define OTHER_BOOT "'00000000-0000-0000-0000-000000000000 pid:[4026531836]'"
/* the same boot, another namespace */
#define OTHER_SPACE "substr (pid_space, 1, 37) || 'pid:[1]'"
/* no process has such a number: kernel.pid_max is at most 2^22 */
#define NOBODY "2147483647"
static const GoneCase gone_cases[] = {
  { "gone/no_such_process", "pid = " NOBODY, TRUE, NULL, TRUE },
  { "gone/no_such_process_old_file", "pid_space = NULL, start_ticks = NULL, pid = " NOBODY, TRUE,
    NULL, TRUE },
  { "gone/zombie", "pid = ZOMBIE, start_ticks = NULL", TRUE, NULL, TRUE },
  { "gone/zombie_old_file", "pid = ZOMBIE, pid_space = NULL, start_ticks = NULL", TRUE, NULL,
    TRUE },
  { "gone/number_used_again", "start_ticks = start_ticks + 1", TRUE, NULL, TRUE },
  { "gone/host_renamed", "host = 'elsewhere', pid = " NOBODY, TRUE, NULL, TRUE },
  { "gone/host_restarted", "pid_space = " OTHER_BOOT, TRUE, NULL, TRUE },
  { "lives/itself", "pid = pid", FALSE, "is at work on run 1", FALSE },
  { "lives/host_renamed", "host = 'elsewhere'", FALSE, "is at work on run 1", FALSE },
  { "lives/old_file", "pid_space = NULL, start_ticks = NULL", FALSE, "is at work on run 1", FALSE },
  { "unknown/other_host", "host = 'elsewhere', pid_space = " OTHER_BOOT, FALSE, "host 'elsewhere'",
    TRUE },
  { "unknown/other_host_old_file", "host = 'elsewhere', pid_space = NULL, pid = " NOBODY, FALSE,
    "--take-over goes on with it", TRUE },
  { "unknown/other_container", "pid_space = " OTHER_SPACE ", pid = " NOBODY, FALSE,
    "cannot be seen from this host or container", TRUE },
};

/* A dead process that its parent, this one, has not asked for. */
static pid_t
make_zombie (void)
{
  siginfo_t info;
  pid_t pid = fork ();
  assert_true (pid >= 0);
  if (pid == 0)
    _exit (0);
  assert_int_equal (waitid (P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
  return pid;
}

static void
test_takes_over_what_is_gone (void **state)
{
  const GoneCase *row = *state;
  g_autofree char *folder = fixture_folder ();
  g_autofree char *path = g_build_filename (folder, "x.db", NULL);
  g_autoptr (DbDatabase) db = fixture_open (path, DB_OPEN_READ_WRITE);
  pid_t zombie = make_zombie ();
  g_autofree char *pid = g_strdup_printf ("%d", (int)zombie);
  g_autoptr (GString) sql = g_string_new ("UPDATE run_process SET ");
  gint64 run_id = begin (db, "h");
  g_string_append (sql, row->sql);
  g_string_replace (sql, "ZOMBIE", pid, 0);
  raw_exec (path, sql->str);
  assert_int_equal (resume_noting (db, "h", FALSE, row->note), row->taken ? run_id : 0);
  if (!row->taken) { /* its own process works on what was taken */
    assert_raw (path, "SELECT status FROM run", "running");
    assert_int_equal (resume_noting (db, "h", TRUE, row->taken_by_force ? NULL : row->note),
                      row->taken_by_force ? run_id : 0);
  }
  waitpid (zombie, NULL, 0);
  fixture_remove_folder (folder);
}

static DbExecRecord
fixture_exec (void)
{
  return (DbExecRecord){ .host = "elsewhere",
                         .pid = 1,
                         .backend = "cpu",
                         .rank_count = 1,
                         .model = "m",
                         .layout_text = "tp=1",
                         .machine = "m",
                         .topology_hash = "t",
                         .predicted_s = NAN,
                         .measured_s = NAN,
                         .measured_s_min = NAN,
                         .measured_s_max = NAN };
}

/* Whoever opens the file for writing says what has become of runs whose process is gone. */
static void
test_marks_what_was_killed (void **state)
{
  g_autofree char *folder = fixture_folder ();
  g_autofree char *path = g_build_filename (folder, "x.db", NULL);
  g_autoptr (DbDatabase) db = fixture_open (path, DB_OPEN_READ_WRITE);
  g_autoptr (GError) error = NULL;
  DbRunRecord run = { .command = "exec", .inputs = "{}" };
  DbExecRecord exec = fixture_exec ();
  gint64 exec_id = 0;
  (void)state;
  gint64 search_id = begin (db, "h");
  assert_true (db_store_begin_exec (db, &run, &exec, &exec_id, &error));
  db_database_free (fixture_open (path, DB_OPEN_READ_WRITE));
  assert_raw (path, "SELECT group_concat (status) FROM run", "running,running");
  raw_exec (path, "UPDATE run_process SET start_ticks = start_ticks + 1");
  db_database_free (fixture_open (path, DB_OPEN_READ_ONLY));
  assert_raw (path, "SELECT group_concat (status) FROM run", "running,running");
  db_database_free (fixture_open (path, DB_OPEN_READ_WRITE));
  assert_raw (path, "SELECT group_concat (status || ' ' || message) FROM run",
              "interrupted killed,failed killed");
  assert_int_equal (resume (db, "h"), search_id);
  fixture_remove_folder (folder);
}

/* A file of version 5 knew processes by host and number alone. */
static void
test_older_file_keeps_its_processes (void **state)
{
  g_autofree char *folder = fixture_folder ();
  g_autofree char *path = g_build_filename (folder, "x.db", NULL);
  DbDatabase *old = fixture_open (path, DB_OPEN_READ_WRITE);
  g_autoptr (GError) error = NULL;
  DbRunRecord run = { .command = "exec", .inputs = "{}" };
  DbExecRecord exec = fixture_exec ();
  gint64 exec_id = 0;
  (void)state;
  gint64 search_id = begin (old, "h");
  assert_true (db_store_begin_exec (old, &run, &exec, &exec_id, &error));
  db_database_free (old);
  raw_exec (path,
            "UPDATE run_process SET pid = " NOBODY "; DELETE FROM run_process WHERE run_id = 2;"
            "UPDATE exec_run SET pid = " NOBODY ", host = (SELECT host FROM run_process);"
            "ALTER TABLE run_process DROP COLUMN start_ticks;"
            "ALTER TABLE run_process DROP COLUMN pid_space;"
            "ALTER TABLE run_process RENAME TO search_process; PRAGMA user_version = 5");
  g_autoptr (DbDatabase) db = fixture_open (path, DB_OPEN_READ_WRITE);
  assert_raw (path, "SELECT group_concat (status || ' ' || message) FROM run",
              "interrupted killed,failed killed");
  assert_raw (path, "SELECT count(*) FROM run_process WHERE pid_space IS NULL", "2");
  assert_int_equal (resume (db, "h"), search_id);
  fixture_remove_folder (folder);
}

/* Of runs that nobody finished the one that came farthest goes on. */
static void
test_takes_the_farthest (void **state)
{
  g_autofree char *folder = fixture_folder ();
  g_autofree char *path = g_build_filename (folder, "x.db", NULL);
  g_autoptr (DbDatabase) db = fixture_open (path, DB_OPEN_READ_WRITE);
  g_autoptr (GError) error = NULL;
  (void)state;
  gint64 done_id = begin (db, "h");
  assert_true (db_store_point (db, done_id, "p1", "{}", NULL, 0, NULL, &error));
  assert_true (db_store_point (db, done_id, "p2", "{}", NULL, 0, NULL, &error));
  finish (db, done_id, DB_RUN_DONE);
  gint64 first_id = begin (db, "h");
  assert_true (db_store_point (db, first_id, "p1", "{}", NULL, 0, NULL, &error));
  gint64 second_id = begin (db, "h");
  finish (db, second_id, DB_RUN_INTERRUPTED);
  assert_int_equal (resume (db, "h"), second_id); /* the other one is at work */
  finish (db, second_id, DB_RUN_INTERRUPTED);
  finish (db, first_id, DB_RUN_INTERRUPTED);
  assert_int_equal (resume (db, "h"), first_id);
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
  struct CMUnitTest tests[5 + G_N_ELEMENTS (gone_cases)] = {
    cmocka_unit_test (test_takes_over_what_was_stopped),
    cmocka_unit_test (test_marks_what_was_killed),
    cmocka_unit_test (test_takes_the_farthest),
    cmocka_unit_test (test_older_file_keeps_its_processes),
    cmocka_unit_test (test_finds_points_again),
  };
  for (gsize i = 0; i < G_N_ELEMENTS (gone_cases); i++)
    tests[5 + i] = (struct CMUnitTest){ .name = gone_cases[i].name,
                                        .test_func = test_takes_over_what_is_gone,
                                        .initial_state = (void *)&gone_cases[i] };
  return cmocka_run_group_tests_name ("db_points", tests, NULL, NULL);
}
