/* Files that cannot be used: each refused with one clear line, and left as it was. */
#include "base/philox.h"
#include "tests/db_fixture.h"
#include <sys/stat.h>
#include <unistd.h>

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
  raw_exec (path, "PRAGMA user_version = 7");
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
  { "file/newer", "x.db", make_newer, DB_ERROR_UNUSABLE, DB_ERROR_UNUSABLE, "schema version 7," },
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
  return setup_folder (state);
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

/* Bytes changed at random: an answer or an error, never a crash, and the file stays as it is. */
static void
test_random_damage (void **state)
{
  enum { N_FILES = 300, N_BYTES = 40 };
  g_autofree char *path = g_build_filename (*state, "x.db", NULL);
  g_autofree char *bytes = NULL;
  gsize length = 0;
  guint n_refused = 0;
  fixture_database (path, 20);
  assert_true (g_file_get_contents (path, &bytes, &length, NULL));
  for (guint i = 0; i < N_FILES; i++) {
    g_autofree char *damaged = g_memdup2 (bytes, length);
    g_autoptr (GError) error = NULL;
    g_autoptr (DbPlan) plan = NULL;
    for (guint j = 0; j < N_BYTES; j++)
      damaged[base_philox_below (1, i, 2 * j, length)]
          = (char)base_philox_below (1, i, 2 * j + 1, 256);
    assert_true (g_file_set_contents (path, damaged, (gssize)length, NULL));
    g_autofree char *before = fixture_fingerprint (*state);
    DbDatabase *db = db_database_open (path, DB_OPEN_READ_ONLY, NULL, &error);
    if (db != NULL)
      plan = db_load_plan (db, i % 20 + 1, &error);
    if (plan == NULL) {
      assert_non_null (error);
      assert_int_equal (error->domain, DB_ERROR);
      n_refused++;
    }
    db_database_free (db);
    g_autofree char *after = fixture_fingerprint (*state);
    assert_string_equal (before, after);
  }
  assert_true (n_refused > 0 && n_refused < N_FILES);
}

int
main (void)
{
#define TEST(name) cmocka_unit_test_setup_teardown (name, setup_folder, teardown_folder)
  const struct CMUnitTest fixed[] = {
    TEST (test_empty_name),   TEST (test_endless_name),  TEST (test_damage_found_later),
    TEST (test_view_is_gone), TEST (test_random_damage),
  };
  struct CMUnitTest tests[G_N_ELEMENTS (fixed) + G_N_ELEMENTS (bad_files)];
  memcpy (tests, fixed, sizeof fixed);
  for (gsize i = 0; i < G_N_ELEMENTS (bad_files); i++)
    tests[G_N_ELEMENTS (fixed) + i] = (struct CMUnitTest){ .name = bad_files[i].name,
                                                           .test_func = test_bad_file,
                                                           .setup_func = setup_bad_file,
                                                           .teardown_func = teardown_folder,
                                                           .initial_state = (void *)&bad_files[i] };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
