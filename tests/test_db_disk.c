/* Good files on bad ground: locked, cut off in the middle of a write, on a read-only, full or
 * network file system. */
#include "db/file-private.h"
#include "tests/db_fixture.h"
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void
copy_file (const char *from, const char *to)
{
  g_autofree char *bytes = NULL;
  gsize length = 0;
  assert_true (g_file_get_contents (from, &bytes, &length, NULL));
  assert_true (g_file_set_contents (to, bytes, (gssize)length, NULL));
}

/* A writer without a log was killed: half its pages are in the file, the old ones in the journal.
 * Reading refuses and touches nothing; opening to write restores the state before. */
static void
test_left_in_the_middle_of_a_write (void **state)
{
  g_autofree char *path = g_build_filename (*state, "x.db", NULL);
  g_autofree char *folder = g_build_filename (*state, "copy", NULL);
  g_autofree char *copy = g_build_filename (folder, "x.db", NULL);
  g_autofree char *journal = g_strconcat (path, "-journal", NULL);
  g_autofree char *copy_journal = g_strconcat (copy, "-journal", NULL);
  g_autoptr (GError) error = NULL;
  sqlite3 *writer = NULL;
  fixture_database (path, 50);
  assert_int_equal (sqlite3_open (path, &writer), SQLITE_OK);
  assert_int_equal (sqlite3_exec (writer,
                                  "PRAGMA journal_mode = DELETE; PRAGMA cache_size = 2;"
                                  "BEGIN; UPDATE stage_memory SET layers = 77",
                                  NULL, NULL, NULL),
                    SQLITE_OK);
  assert_int_equal (sqlite3_db_cacheflush (writer), SQLITE_OK);
  g_mkdir (folder, 0700);
  copy_file (path, copy);
  copy_file (journal, copy_journal);
  sqlite3_close (writer);

  g_autofree char *before = fixture_fingerprint (folder);
  assert_null (db_database_open (copy, DB_OPEN_READ_ONLY, NULL, &error));
  assert_one_line (error, "stopped in the middle");
  g_autofree char *after = fixture_fingerprint (folder);
  assert_string_equal (before, after);
  db_database_free (fixture_open (copy, DB_OPEN_READ_WRITE));
  assert_raw (copy, "SELECT count(*) FROM stage_memory WHERE layers = 77", "0");
  assert_raw (copy, "SELECT count(*) FROM stage_memory", "100");
  assert_raw (copy, "PRAGMA integrity_check", "ok");
}

/* ---- somebody else writes ---- */

static void
test_locked_by_a_writer (void **state)
{
  g_autofree char *path = g_build_filename (*state, "x.db", NULL);
  g_autoptr (GError) error = NULL;
  sqlite3 *writer = NULL;
  DbRunRecord run = fixture_run ();
  gint64 run_id = 42;
  fixture_database (path, 1);
  g_autoptr (DbDatabase) db = fixture_open (path, DB_OPEN_READ_WRITE);
  assert_int_equal (sqlite3_open (path, &writer), SQLITE_OK);
  assert_int_equal (sqlite3_exec (writer, "BEGIN IMMEDIATE; DELETE FROM assumed", NULL, NULL, NULL),
                    SQLITE_OK);
  gint64 start_us = g_get_monotonic_time ();
  assert_false (db_store_begin_run (db, &run, &run_id, &error));
  double waited_s = (double)(g_get_monotonic_time () - start_us) / 1e6;
  assert_one_line (error, "locked by another process");
  assert_int_equal (error->code, DB_ERROR_BUSY);
  assert_int_equal (run_id, 42);
  assert_true (waited_s > 4 && waited_s < 20);
  sqlite3_exec (writer, "ROLLBACK", NULL, NULL, NULL);
  sqlite3_close (writer);
  g_clear_error (&error);
  assert_true (db_store_begin_run (db, &run, &run_id, &error)); /* and goes on afterwards */
  assert_no_error (error);
}

/* Opens (the first one makes the file), stores @n_runs runs one by one; process exit code. */
static int
write_runs (const char *path, guint n_runs)
{
  g_autoptr (DbDatabase) db = db_database_open (path, DB_OPEN_READ_WRITE, NULL, NULL);
  DbPlanRecord plan = fixture_plan (1);
  DbRunRecord run = fixture_run ();
  if (db == NULL || !db_store_machine (db, &fixture_machine, &plan.machine_id, NULL)
      || !db_store_model (db, &fixture_model, &plan.model_id, NULL)
      || !db_store_job (db, &fixture_job, &plan.job_id, NULL)
      || !db_store_calibration (db, &fixture_calibration, &plan.calibration_id, NULL))
    return 1;
  for (guint i = 0; i < n_runs; i++)
    if (!db_store_whole_run (db, &run, &plan, 1, NULL, 0, NULL, NULL, NULL))
      return 2;
  return 0;
}

static void
test_many_processes_write (void **state)
{
  enum { N_PROCESSES = 6 };
  g_autofree char *path = g_build_filename (*state, "x.db", NULL);
  pid_t pids[N_PROCESSES];
  for (guint i = 0; i < N_PROCESSES; i++) {
    pids[i] = fork ();
    assert_true (pids[i] >= 0);
    if (pids[i] == 0)
      _exit (write_runs (path, 10));
  }
  for (guint i = 0; i < N_PROCESSES; i++) {
    int status = -1;
    assert_int_equal (waitpid (pids[i], &status, 0), pids[i]);
    assert_int_equal (status, 0);
  }
  assert_raw (path, "SELECT count(*) FROM run JOIN plan USING (run_id)", "60");
  assert_raw (path, "SELECT count(*) FROM machine", "1");
  assert_raw (path, "PRAGMA integrity_check", "ok");
}

/* ---- small and read-only file systems: ours alone, gone when the test ends ---- */

static gboolean
enter_own_mounts (void)
{
  static int allowed = -1;
  if (allowed < 0)
    allowed = unshare (CLONE_NEWNS) == 0 && mount (NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
  return allowed == 1;
}

static gboolean
mount_small (const char *folder, const char *size)
{
  g_autofree char *options = g_strdup_printf ("size=%s", size);
  return enter_own_mounts () && mount ("tmpfs", folder, "tmpfs", 0, options) == 0;
}

static void
remount (const char *folder, unsigned long flags)
{
  assert_int_equal (mount (NULL, folder, NULL, MS_REMOUNT | flags, NULL), 0);
}

static void
test_read_only_file_system (void **state)
{
  g_autofree char *folder = g_build_filename (*state, "small", NULL);
  g_autofree char *path = g_build_filename (folder, "x.db", NULL);
  g_autofree char *other = g_build_filename (folder, "new.db", NULL);
  g_autoptr (GError) error = NULL;
  g_mkdir (folder, 0700);
  if (!mount_small (folder, "4m"))
    skip ();
  fixture_database (path, 2);
  remount (folder, MS_RDONLY);
  g_autofree char *before = fixture_fingerprint (folder);
  assert_null (db_database_open (path, DB_OPEN_READ_WRITE, NULL, &error));
  assert_one_line (error, "read-only");
  assert_int_equal (error->code, DB_ERROR_UNUSABLE);
  g_clear_error (&error);
  assert_null (db_database_open (other, DB_OPEN_READ_WRITE, NULL, &error));
  assert_one_line (error, "Read-only file system");
  g_clear_error (&error);

  g_autoptr (DbDatabase) db = fixture_open (path, DB_OPEN_READ_ONLY); /* reading works */
  g_autoptr (DbPlan) plan = db_load_plan (db, 2, &error);
  assert_no_error (error);
  assert_string_equal (plan->plan.layout_text, "tp=8,pp=2");
  g_autofree char *after = fixture_fingerprint (folder);
  assert_string_equal (before, after);
  umount2 (folder, MNT_DETACH);
}

static void
fill_disk (const char *folder, gsize leave_bytes)
{
  g_autofree char *path = g_build_filename (folder, "filler", NULL);
  FILE *file = g_fopen (path, "wb");
  char block[4096] = { 0 };
  assert_non_null (file);
  setvbuf (file, NULL, _IONBF, 0);
  while (fwrite (block, sizeof block, 1, file) == 1)
    ;
  fclose (file);
  struct stat info;
  assert_int_equal (stat (path, &info), 0);
  assert_int_equal (truncate (path, info.st_size - (off_t)leave_bytes), 0);
}

static void
test_no_room_for_a_new_file (void **state)
{
  static const gsize rooms[] = { 0, 4096, 16384, 65536 };
  g_autofree char *folder = g_build_filename (*state, "small", NULL);
  g_autofree char *path = g_build_filename (folder, "x.db", NULL);
  g_mkdir (folder, 0700);
  for (gsize i = 0; i < G_N_ELEMENTS (rooms); i++) {
    g_autoptr (GError) error = NULL;
    if (!mount_small (folder, "1m"))
      skip ();
    fill_disk (folder, rooms[i]);
    assert_null (db_database_open (path, DB_OPEN_READ_WRITE, NULL, &error));
    assert_one_line (error, "no space left");
    assert_int_equal (error->code, DB_ERROR_FULL);
    assert_false (g_file_test (path, G_FILE_TEST_EXISTS));
    umount2 (folder, MNT_DETACH);
  }
}

/* A run that does not fit: refused whole; the runs before it are intact, and so is the file. */
static void
test_disk_fills_while_storing (void **state)
{
  static const gsize rooms[] = { 0, 4096, 40960, 409600 };
  g_autofree char *folder = g_build_filename (*state, "small", NULL);
  g_autofree char *path = g_build_filename (folder, "x.db", NULL);
  g_mkdir (folder, 0700);
  for (gsize i = 0; i < G_N_ELEMENTS (rooms); i++) {
    if (!mount_small (folder, "4m"))
      skip ();
    fixture_database (path, 5);
    DbDatabase *db = fixture_open (path, DB_OPEN_READ_WRITE);
    g_autofree DbPlanRecord *plans = g_new0 (DbPlanRecord, 5000);
    DbRunRecord run = fixture_run ();
    g_autoptr (GError) error = NULL;
    for (guint j = 0; j < 5000; j++) {
      plans[j] = fixture_plan (j + 1);
      plans[j].machine_id = plans[j].model_id = plans[j].job_id = plans[j].calibration_id = 1;
    }
    fill_disk (folder, rooms[i]);
    assert_false (db_store_whole_run (db, &run, plans, 5000, NULL, 0, NULL, NULL, &error));
    assert_one_line (error, "no space left");
    assert_int_equal (error->code, DB_ERROR_FULL);
    db_database_free (db);

    g_autofree char *filler = g_build_filename (folder, "filler", NULL);
    g_unlink (filler);
    assert_raw (path, "SELECT count(*) FROM run", "1");
    assert_raw (path, "SELECT count(*) FROM plan", "5");
    assert_raw (path, "PRAGMA integrity_check", "ok");
    assert_raw (path, "PRAGMA foreign_key_check", "(none)");
    db = fixture_open (path, DB_OPEN_READ_WRITE); /* with room again it works again */
    assert_true (db_store_whole_run (db, &run, plans, 5, NULL, 0, NULL, NULL, NULL));
    db_database_free (db);
    umount2 (folder, MNT_DETACH);
  }
}

/* ---- file systems without shared memory ---- */

static void
test_network_file_systems (void **state)
{
  assert_string_equal (db_file_network_name (0x6969), "NFS");
  assert_string_equal (db_file_network_name (0x0bd00bd0), "Lustre");
  /* f_type is signed where long has 32 bits */
  assert_string_equal (db_file_network_name ((gint64)(gint32)0xff534d42), "CIFS");
  assert_null (db_file_network_name (0xef53));     /* ext4 */
  assert_null (db_file_network_name (0x01021994)); /* tmpfs */
  assert_null (db_file_network_name (0x794c7630)); /* overlay */
}

/* A file layer without shared memory: methods of version 1 end before xShmMap. */
static sqlite3_vfs *unix_vfs;
static sqlite3_io_methods plain_methods;

static int
open_without_shared_memory (sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                            int *out_flags)
{
  int code = unix_vfs->xOpen (unix_vfs, name, file, flags, out_flags);
  if (code != SQLITE_OK || (flags & SQLITE_OPEN_MAIN_DB) == 0)
    return code; /* journals have methods of their own */
  plain_methods = *file->pMethods;
  plain_methods.iVersion = 1;
  file->pMethods = &plain_methods;
  return SQLITE_OK;
}

static void
test_without_shared_memory (void **state)
{
  g_autofree char *path = g_build_filename (*state, "x.db", NULL);
  g_autofree char *warning = NULL;
  g_autoptr (GError) error = NULL;
  unix_vfs = sqlite3_vfs_find (NULL);
  sqlite3_vfs plain_vfs = *unix_vfs;
  plain_vfs.zName = "plain";
  plain_vfs.xOpen = open_without_shared_memory;
  assert_int_equal (sqlite3_vfs_register (&plain_vfs, 1), SQLITE_OK);
  DbDatabase *db = db_database_open (path, DB_OPEN_READ_WRITE, &warning, &error);
  assert_no_error (error);
  assert_non_null (warning);
  assert_non_null (strstr (warning, "slower journal"));
  db_database_free (db);
  fixture_database (path, 3);
  db = fixture_open (path, DB_OPEN_READ_ONLY);
  g_autoptr (DbPlan) plan = db_load_plan (db, 3, &error);
  assert_no_error (error);
  db_database_free (db);
  sqlite3_vfs_unregister (&plain_vfs);
  sqlite3_vfs_register (unix_vfs, 1);
  assert_raw (path, "PRAGMA journal_mode", "delete");
}

/* Readers are at work in a file without a log: it cannot change its mode, and is used as it is. */
static void
test_mode_of_a_file_in_use (void **state)
{
  g_autofree char *path = g_build_filename (*state, "x.db", NULL);
  g_autofree char *warning = NULL;
  g_autoptr (GError) error = NULL;
  sqlite3 *reader = NULL;
  fixture_database (path, 1);
  raw_exec (path, "PRAGMA journal_mode = DELETE");
  assert_int_equal (sqlite3_open (path, &reader), SQLITE_OK);
  assert_int_equal (sqlite3_exec (reader, "BEGIN; SELECT * FROM plan", NULL, NULL, NULL),
                    SQLITE_OK);
  g_autoptr (DbDatabase) db = db_database_open (path, DB_OPEN_READ_WRITE, &warning, &error);
  assert_no_error (error);
  assert_non_null (db);
  assert_null (warning);
  sqlite3_close (reader);
  DbPlanRecord inputs = { 0 };
  fixture_store_inputs (db, &inputs);
  assert_int_equal (inputs.machine_id, 1);
}

int
main (void)
{
#define TEST(name) cmocka_unit_test_setup_teardown (name, setup_folder, teardown_folder)
  const struct CMUnitTest tests[] = {
    TEST (test_left_in_the_middle_of_a_write), TEST (test_locked_by_a_writer),
    TEST (test_mode_of_a_file_in_use),         TEST (test_many_processes_write),
    TEST (test_read_only_file_system),         TEST (test_no_room_for_a_new_file),
    TEST (test_disk_fills_while_storing),      TEST (test_network_file_systems),
    TEST (test_without_shared_memory),
  };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
