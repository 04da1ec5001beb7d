/* The figures of catalog/validation: complete, with sources, without prose, and read by validate as
 * the tables they were taken from. */
#include "app/validate.h"
#include "base/csv.h"
#include "base/ini.h"
#include "tests/testutil.h"
#include <string.h>

#define MAX_BYTES    (700 * 1024) /* of the whole folder: it lies in every clone */
#define LONGEST_CELL 160          /* of all but the notes, which are a list of flags */

static const char *const folders[] = { "", "golden", "crashed" };

static char *
folder_path (const char *name)
{
  return g_build_filename (g_getenv ("PLAIT_TEST_DIR"), "..", "catalog", "validation", name, NULL);
}

static char **
tables_of (const char *name)
{
  g_autofree char *path = folder_path (name);
  const char *paths[] = { path, NULL };
  g_autoptr (GError) error = NULL;
  char **files = base_csv_paths (paths, &error);
  assert_no_error (error);
  return files;
}

/* Words that stand for themselves; every other note is name=value. */
static gboolean
is_flag (const char *note)
{
  static const char *const words[]
      = { "liger", "optimizer states on cpu", "compile", "async TP", NULL };
  return g_strv_contains (words, note)
         || (strchr (note, '=') != NULL && strchr (note, ' ') == NULL);
}

static void
check_row (const BaseCsv *csv, guint row, BaseIni *sources, GHashTable *ids)
{
  const char *id = base_csv_get (csv, row, "id"), *source = base_csv_get (csv, row, "source");
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) notes = g_strsplit (base_csv_get (csv, row, "notes"), ", ", -1);
  assert_true (*id != '\0' && g_hash_table_add (ids, g_strdup (id)));
  const char *reference = base_ini_get_string (sources, "sources", source, &error);
  assert_no_error (error);
  assert_true (strlen (reference) > 8);
  for (guint i = 0; notes[i] != NULL; i++)
    if (!is_flag (notes[i]))
      fail_msg ("%s: note '%s' is no flag", id, notes[i]);
  for (guint i = 0; i < base_csv_n_columns (csv); i++)
    if (!g_str_equal (base_csv_column_name (csv, i), "notes"))
      assert_true (strlen (base_csv_cell (csv, row, i)) <= LONGEST_CELL);
}

static void
test_rows (void **state)
{
  g_autofree char *path = folder_path ("sources.ini");
  g_autoptr (GError) error = NULL;
  g_autoptr (BaseIni) sources = base_ini_new_from_file (path, &error);
  g_autoptr (GHashTable) ids = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  gsize bytes = 0;
  assert_no_error (error);
  for (gsize i = 0; i < G_N_ELEMENTS (folders); i++) {
    g_auto (GStrv) files = tables_of (folders[i]);
    for (char **file = files; *file != NULL; file++) {
      g_autofree char *text = NULL;
      gsize length = 0;
      g_autoptr (BaseCsv) csv = base_csv_new_from_file (*file, &error);
      assert_no_error (error);
      assert_true (g_file_get_contents (*file, &text, &length, NULL));
      bytes += length;
      for (guint row = 0; row < base_csv_n_rows (csv); row++)
        check_row (csv, row, sources, ids);
    }
  }
  assert_in_range (bytes, 1, MAX_BYTES);
}

static AppValidation *
validate (const char *path, GError **error)
{
  static const char *const by[] = { "family", NULL };
  const char *files[] = { path, NULL };
  const AppValidateRequest request
      = { .files = files, .by = by, .mem_kind = "allocated", .mem_scope = "last-rank" };
  return app_validate (&request, error);
}

/* How many runs each of them published with a time. */
static void
test_families (void **state)
{
  static const struct {
    const char *family;
    guint n;
  } cases[] = { { "sc21-korthikanti", 16 },
                { "simumax-b200", 23 },
                { "llm-foundry", 145 },
                { "vtrain-multi", 67 },
                { "vtrain-single", 42 } };
  g_autofree char *path = folder_path ("");
  g_autoptr (GError) error = NULL;
  g_autoptr (AppValidation) validation = validate (path, &error);
  assert_no_error (error);
  const GArray *groups = g_ptr_array_index (validation->groups, 0);
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    guint n = 0;
    for (guint j = 0; j < groups->len; j++)
      if (g_str_equal (g_array_index (groups, AppErrorGroup, j).name, cases[i].family))
        n = g_array_index (groups, AppErrorGroup, j).step_time.n;
    assert_int_equal (n, cases[i].n);
  }
  assert_true (validation->rows->len >= 0.9 * validation->n_rows);
}

/* Rows of @folder as predicted, against those of @table of the collected data with the same id. */
static void
same_as_collected (const char *folder, const char *table,
                   void (*check_all) (const AppValidation *ours, const AppValidation *theirs))
{
  g_autofree char *original = test_data_path (table), *path = folder_path (folder);
  g_autoptr (GError) error = NULL;
  g_autoptr (GHashTable) by_id = g_hash_table_new (g_str_hash, g_str_equal);
  if (original == NULL || !g_file_test (original, G_FILE_TEST_EXISTS))
    return;
  g_autoptr (AppValidation) ours = validate (path, &error);
  assert_no_error (error);
  g_autoptr (AppValidation) theirs = validate (original, &error);
  assert_no_error (error);
  for (guint i = 0; i < theirs->rows->len; i++) {
    AppValidateRow *row = g_ptr_array_index (theirs->rows, i);
    g_hash_table_insert (by_id, row->id, row);
  }
  for (guint i = 0; i < ours->rows->len; i++) {
    const AppValidateRow *row = g_ptr_array_index (ours->rows, i);
    const AppValidateRow *other = g_hash_table_lookup (by_id, row->id);
    if (other == NULL || row->predicted_s != other->predicted_s
        || row->predicted_bytes != other->predicted_bytes || row->oom_risk != other->oom_risk
        || !g_str_equal (row->profile, other->profile))
      fail_msg ("%s is not read as in %s", row->id, table);
  }
  if (check_all != NULL)
    check_all (ours, theirs);
}

/* Rows with use = 1, which the README's table scores, are all here. */
static void
scored_alike (const AppValidation *ours, const AppValidation *theirs)
{
  assert_int_equal (ours->step_time.n, theirs->step_time.n);
  assert_int_equal (ours->memory.n, theirs->memory.n);
  assert_int_equal (ours->oom.n_oom, theirs->oom.n_oom);
  assert_true (ours->step_time.median_abs_err == theirs->step_time.median_abs_err);
  assert_true (ours->memory.p90_abs_err == theirs->memory.p90_abs_err);
}

static void
test_same_predictions (void **state)
{
  same_as_collected ("", "measured/runs.csv", scored_alike);
  same_as_collected ("golden", "measured/memory_golden.csv", NULL);
  same_as_collected ("crashed", "measured/crashed_or_oom.csv", NULL);
}

int
main (void)
{
  static const struct CMUnitTest tests[]
      = { cmocka_unit_test (test_rows), cmocka_unit_test (test_families),
          cmocka_unit_test (test_same_predictions) };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
