/* Files that cannot be used: each refused with one clear line, and left as it was. */
#include "db/file-private.h"
#include "tests/db_fixture.h"
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static int
setup (void **state)
{
  *state = fixture_folder ();
  return 0;
}

static int
teardown (void **state)
{
  fixture_remove_folder (*state);
  g_free (*state);
  return 0;
}

static void
assert_one_line (const GError *error, const char *part)
{
  if (strstr (error->message, part) == NULL) {
    print_error ("'%s' lacks '%s'\n", error->message, part);
    fail ();
  }
  assert_null (strchr (error->message, '\n'));
  assert_true (db_error_is_environment (error));
}

/* ---- a table of files: how each is made, and what is said of it ---- */

static void
make_nothing (const char *path)
{
}

static void
make_folder (const char *path)
{
  assert_int_equal (g_mkdir (path, 0700), 0);
}

static void
make_pipe (const char *path)
{
  assert_int_equal (mkfifo (path, 0600), 0);
}

static void
make_empty (const char *path)
{
  assert_true (g_file_set_contents (path, "", 0, NULL));
}

static void
make_text (const char *path)
{
  assert_true (g_file_set_contents (path, "tp,pp\n8,8\n", -1, NULL));
}

static void
make_start_of_header (const char *path)
{
  assert_true (g_file_set_contents (path, "SQLite format 3", 16, NULL));
}

static void
make_foreign (const char *path)
{
  raw_exec (path, "CREATE TABLE plan (x); INSERT INTO plan VALUES (1)");
}

static void
make_foreign_marked (const char *path)
{
  raw_exec (path, "PRAGMA application_id = 252006673; CREATE TABLE t (x)"); /* Fossil's */
}

static void
make_newer (const char *path)
{
  fixture_database (path, 1);
  raw_exec (path, "PRAGMA user_version = 2");
}

static void
make_newest (const char *path)
{
  fixture_database (path, 1);
  raw_exec (path, "PRAGMA user_version = 2147483647");
}

static void
make_negative_version (const char *path)
{
  fixture_database (path, 1);
  raw_exec (path, "PRAGMA user_version = -1");
}

/* Ours by its header; the rest is noise. */
static void
make_noise (const char *path)
{
  g_autofree char *bytes = NULL;
  gsize length = 0;
  fixture_database (path, 1);
  assert_true (g_file_get_contents (path, &bytes, &length, NULL));
  memset (bytes + 100, 0xa5, length - 100);
  assert_true (g_file_set_contents (path, bytes, (gssize)length, NULL));
}

static void
make_truncated (const char *path)
{
  fixture_database (path, 1);
  assert_int_equal (truncate (path, 5000), 0);
}

static void
make_tiny (const char *path)
{
  fixture_database (path, 1);
  assert_int_equal (truncate (path, 100), 0);
}

typedef struct {
  const char *name;
  const char *file; /* below the folder */
  void (*make) (const char *path);
  int writer_code; /* DB_ERROR_… of opening to write, -1 if it succeeds */
  int reader_code; /* of opening to read */
  const char *message;
} BadFile;

static const BadFile bad_files[] = {
  { "file/missing", "x.db", make_nothing, -1, DB_ERROR_UNUSABLE, "does not exist" },
  { "file/empty", "x.db", make_empty, -1, DB_ERROR_UNUSABLE, "empty" },
  { "file/folder", "x.db", make_folder, DB_ERROR_UNUSABLE, DB_ERROR_UNUSABLE, "is a folder" },
  { "file/pipe", "x.db", make_pipe, DB_ERROR_UNUSABLE, DB_ERROR_UNUSABLE, "device or pipe" },
  { "file/no_parent", "no/such/x.db", make_nothing, DB_ERROR_UNUSABLE, DB_ERROR_UNUSABLE, "x.db" },
  { "file/text", "x.db", make_text, DB_ERROR_UNUSABLE, DB_ERROR_UNUSABLE, "not a database" },
  { "file/start_of_header", "x.db", make_start_of_header, DB_ERROR_UNUSABLE, DB_ERROR_UNUSABLE,
    "another program" },
  { "file/foreign", "x.db", make_foreign, DB_ERROR_UNUSABLE, DB_ERROR_UNUSABLE, "another program" },
  { "file/foreign_marked", "x.db", make_foreign_marked, DB_ERROR_UNUSABLE, DB_ERROR_UNUSABLE,
    "another program" },
  { "file/newer", "x.db", make_newer, DB_ERROR_UNUSABLE, DB_ERROR_UNUSABLE, "schema version 2," },
  { "file/newest", "x.db", make_newest, DB_ERROR_UNUSABLE, DB_ERROR_UNUSABLE, "2147483647" },
  { "file/negative_version", "x.db", make_negative_version, DB_ERROR_CORRUPT, DB_ERROR_CORRUPT,
    "schema version -1" },
  { "file/noise", "x.db", make_noise, DB_ERROR_CORRUPT, DB_ERROR_CORRUPT, "damaged" },
  { "file/truncated", "x.db", make_truncated, DB_ERROR_CORRUPT, DB_ERROR_CORRUPT, "damaged" },
  { "file/header_only", "x.db", make_tiny, DB_ERROR_CORRUPT, DB_ERROR_CORRUPT, "damaged" },
};

static const BadFile *current;

static int
setup_bad_file (void **state)
{
  current = *state;
  return setup (state);
}

static void
test_bad_file (void **state)
{
  const char *folder = *state;
  const BadFile *bad = current;
  const DbOpenMode modes[] = { DB_OPEN_READ_ONLY, DB_OPEN_READ_WRITE };
  const int codes[] = { bad->reader_code, bad->writer_code };
  g_autofree char *path = g_build_filename (folder, bad->file, NULL);
  bad->make (path);
  g_autofree char *before = fixture_fingerprint (folder);
  for (guint i = 0; i < 2; i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (DbDatabase) db = db_database_open (path, modes[i], NULL, &error);
    if (codes[i] == -1) {
      assert_no_error (error);
      continue;
    }
    assert_null (db);
    assert_one_line (error, bad->message);
    assert_non_null (strstr (error->message, path));
    assert_int_equal (error->code, codes[i]);
    g_autofree char *after = fixture_fingerprint (folder);
    assert_string_equal (before, after);
  }
}

static void
test_empty_name (void **state)
{
  g_autoptr (GError) error = NULL;
  assert_null (db_database_open ("", DB_OPEN_READ_WRITE, NULL, &error));
  assert_one_line (error, "name is empty");
}

static void
test_endless_name (void **state)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *name = g_strnfill (5000, 'x');
  assert_null (db_database_open (name, DB_OPEN_READ_WRITE, NULL, &error));
  assert_one_line (error, "name too long");
}

/* Pages that only a later statement meets. */
static void
test_damage_found_later (void **state)
{
  g_autofree char *path = g_build_filename (*state, "x.db", NULL);
  g_autofree char *bytes = NULL;
  gsize length = 0;
  g_autoptr (GError) error = NULL;
  fixture_database (path, 200);
  g_autofree char *root = raw_text (path, "SELECT rootpage FROM sqlite_schema WHERE name = 'plan'");
  assert_true (g_file_get_contents (path, &bytes, &length, NULL));
  gsize offset = (gsize)(g_ascii_strtoull (root, NULL, 10) - 1) * 4096;
  assert_true (offset + 4096 <= length);
  memset (bytes + offset, 0xff, 4096);
  assert_true (g_file_set_contents (path, bytes, (gssize)length, NULL));
  g_autoptr (DbDatabase) db = fixture_open (path, DB_OPEN_READ_ONLY);
  assert_null (db_load_plan (db, 150, &error));
  assert_one_line (error, "damaged");
  assert_int_equal (error->code, DB_ERROR_CORRUPT);
}

static void
test_view_is_gone (void **state)
{
  g_autofree char *path = g_build_filename (*state, "x.db", NULL);
  g_autoptr (GError) error = NULL;
  gint64 plan_id = 0;
  fixture_database (path, 1);
  raw_exec (path, "DROP VIEW run_summary");
  g_autoptr (DbDatabase) db = fixture_open (path, DB_OPEN_READ_ONLY);
  assert_false (db_find_best_plan (db, &plan_id, &error));
  assert_one_line (error, "run_summary");
  assert_int_equal (error->code, DB_ERROR_CORRUPT);
}

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
#define TEST(name) cmocka_unit_test_setup_teardown (name, setup, teardown)
  const struct CMUnitTest fixed[] = {
    TEST (test_empty_name),
    TEST (test_endless_name),
    TEST (test_damage_found_later),
    TEST (test_view_is_gone),
    TEST (test_left_in_the_middle_of_a_write),
    TEST (test_without_shared_memory),
    TEST (test_mode_of_a_file_in_use),
    TEST (test_locked_by_a_writer),
    TEST (test_read_only_file_system),
    TEST (test_no_room_for_a_new_file),
    TEST (test_disk_fills_while_storing),
    TEST (test_network_file_systems),
  };
  struct CMUnitTest tests[G_N_ELEMENTS (fixed) + G_N_ELEMENTS (bad_files)];
  memcpy (tests, fixed, sizeof fixed);
  for (gsize i = 0; i < G_N_ELEMENTS (bad_files); i++)
    tests[G_N_ELEMENTS (fixed) + i] = (struct CMUnitTest){ .name = bad_files[i].name,
                                                           .test_func = test_bad_file,
                                                           .setup_func = setup_bad_file,
                                                           .teardown_func = teardown,
                                                           .initial_state = (void *)&bad_files[i] };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
