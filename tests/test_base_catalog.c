/* Unit tests of base/catalog.h: folders before the embedded files, slugs before paths. */
#include "base/catalog.h"
#include "tests/testutil.h"

#include <glib/gstdio.h>

/* Two folders: one as given by --catalog, one as given by $PLAIT_CATALOG. */
typedef struct {
  char *root, *first, *second;
} Fixture;

static char *
write_entry (const char *dir, const char *kind, const char *file, const char *origin)
{
  g_autofree char *folder = g_build_filename (dir, kind, NULL);
  g_autofree char *text = g_strdup_printf ("[entry]\norigin = %s\n", origin);
  g_mkdir_with_parents (folder, 0700);
  char *path = g_build_filename (folder, file, NULL);
  assert_true (g_file_set_contents (path, text, -1, NULL));
  return path;
}

static int
setup (void **state)
{
  Fixture *f = g_new0 (Fixture, 1);
  f->root = g_dir_make_tmp ("plait-catalog-XXXXXX", NULL);
  f->first = g_build_filename (f->root, "first", NULL);
  f->second = g_build_filename (f->root, "second", NULL);
  g_free (write_entry (f->first, "testkind", "both.ini", "first"));
  g_free (write_entry (f->first, "testkind", "notes.txt", "first"));
  g_free (write_entry (f->second, "testkind", "both.ini", "second"));
  g_free (write_entry (f->second, "testkind", "alone.ini", "second"));
  *state = f;
  return 0;
}

static void
remove_tree (const char *path)
{
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  const char *name;
  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL) {
    g_autofree char *child = g_build_filename (path, name, NULL);
    remove_tree (child);
  }
  g_remove (path);
}

static int
teardown (void **state)
{
  Fixture *f = *state;
  g_unsetenv ("PLAIT_CATALOG");
  remove_tree (f->root);
  g_free (f->root);
  g_free (f->first);
  g_free (f->second);
  g_free (f);
  return 0;
}

static void
assert_origin (BaseIni *ini, const char *want)
{
  assert_non_null (ini);
  assert_string_equal (base_ini_get_string (ini, "entry", "origin", NULL), want);
  base_ini_free (ini);
}

static void
test_order (void **state)
{
  const Fixture *f = *state;
  g_setenv ("PLAIT_CATALOG", f->second, TRUE);
  g_autoptr (BaseCatalog) catalog = base_catalog_new (f->first, NULL);
  assert_origin (base_catalog_open (catalog, "testkind", "both", NULL), "first");
  assert_origin (base_catalog_open (catalog, "testkind", "alone", NULL), "second");

  g_auto (GStrv) slugs = base_catalog_list (catalog, "testkind");
  g_autofree char *joined = g_strjoinv ("|", slugs);
  assert_string_equal (joined, "alone|both");
  g_auto (GStrv) none = base_catalog_list (catalog, "nokind");
  assert_int_equal (g_strv_length (none), 0);
}

static void
test_not_found (void **state)
{
  const Fixture *f = *state;
  g_autoptr (BaseCatalog) catalog = base_catalog_new (f->second, NULL);
  g_autoptr (GError) near = NULL, far = NULL, path = NULL, empty = NULL;

  assert_null (base_catalog_open (catalog, "testkind", "alnoe", &near));
  assert_true (g_error_matches (near, BASE_CATALOG_ERROR, BASE_CATALOG_ERROR_NOT_FOUND));
  assert_string_equal (near->message,
                       "no 'alnoe' among the testkind of the catalog: did you mean 'alone'?");
  assert_null (base_catalog_open (catalog, "testkind", "something", &far));
  assert_string_equal (far->message,
                       "no 'something' among the testkind of the catalog: it has alone, both; "
                       "a file is named by its path");
  /* A slug never leaves the folder of its kind. */
  assert_null (base_catalog_open (catalog, "testkind", "../testkind/alone", &path));
  assert_true (g_error_matches (path, BASE_CATALOG_ERROR, BASE_CATALOG_ERROR_NOT_FOUND));
  assert_null (base_catalog_open (catalog, "testkind", "", &empty));
  assert_true (g_error_matches (empty, BASE_CATALOG_ERROR, BASE_CATALOG_ERROR_NOT_FOUND));
}

static void
test_open_any (void **state)
{
  const Fixture *f = *state;
  g_autoptr (BaseCatalog) catalog = base_catalog_new (f->first, NULL);
  g_autofree char *path = write_entry (f->root, "mine", "both.ini", "path");
  g_autofree char *folder = g_path_get_dirname (path);
  g_autofree char *before = g_get_current_dir ();
  gboolean is_file = FALSE;

  assert_origin (base_catalog_open_any (catalog, "testkind", path, &is_file, NULL), "path");
  assert_true (is_file);
  assert_int_equal (g_chdir (folder), 0);
  assert_origin (base_catalog_open_any (catalog, "testkind", "both.ini", &is_file, NULL), "path");
  assert_true (is_file);

  /* A file without a suffix is found unless a slug has its name. */
  assert_true (g_file_set_contents ("both", "[entry]\norigin = bare\n", -1, NULL));
  assert_true (g_file_set_contents ("bare", "[entry]\norigin = bare\n", -1, NULL));
  assert_origin (base_catalog_open_any (catalog, "testkind", "both", &is_file, NULL), "first");
  assert_false (is_file);
  assert_origin (base_catalog_open_any (catalog, "testkind", "bare", &is_file, NULL), "bare");
  assert_true (is_file);
  assert_int_equal (g_chdir (before), 0);

  g_autoptr (GError) error = NULL;
  assert_null (base_catalog_open_any (catalog, "testkind", "no/such.ini", &is_file, &error));
  assert_true (g_error_matches (error, BASE_INI_ERROR, BASE_INI_ERROR_READ));
}

static void
test_no_folder (void **state)
{
  const Fixture *f = *state;
  g_autofree char *absent = g_build_filename (f->root, "absent", NULL);
  g_autofree char *file = g_build_filename (f->first, "testkind", "both.ini", NULL);
  g_autoptr (GError) option = NULL, variable = NULL;

  assert_null (base_catalog_new (absent, &option));
  assert_true (g_error_matches (option, BASE_CATALOG_ERROR, BASE_CATALOG_ERROR_READ));
  assert_null (base_catalog_new (file, NULL));
  g_setenv ("PLAIT_CATALOG", absent, TRUE);
  assert_null (base_catalog_new (NULL, &variable));
  assert_true (g_str_has_prefix (variable->message, "$PLAIT_CATALOG: found '"));
  g_setenv ("PLAIT_CATALOG", "", TRUE);
  g_autoptr (BaseCatalog) catalog = base_catalog_new (NULL, NULL);
  assert_non_null (catalog);
}

/* Every embedded file is a strict INI file, and the program's kinds are the only ones. */
static void
test_embedded (void **state)
{
  static const char *const kinds[]
      = { "models", "machines", "gpus", "links", "profiles", "calibrations" };
  g_autoptr (BaseCatalog) catalog = base_catalog_new (NULL, NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (kinds); i++) {
    g_auto (GStrv) slugs = base_catalog_list (catalog, kinds[i]);
    for (char **slug = slugs; *slug != NULL; slug++) {
      GError *error = NULL;
      g_autoptr (BaseIni) ini = base_catalog_open (catalog, kinds[i], *slug, &error);
      assert_no_error (error);
      assert_true (base_ini_n_groups (ini) > 0);
    }
  }
}

static guint makings;

static gpointer
make_number (const BaseCatalog *catalog, GError **error)
{
  g_autoptr (BaseIni) ini = base_catalog_open (catalog, "testkind", "alone", error);
  makings++;
  return ini != NULL ? g_memdup2 (&makings, sizeof makings) : NULL;
}

/* Made once per catalog; what could not be made is tried again. */
static void
test_once (void **state)
{
  const Fixture *f = *state;
  g_autoptr (GError) error = NULL;
  g_autoptr (BaseCatalog) first = base_catalog_new (f->first, NULL);
  g_autoptr (BaseCatalog) second = base_catalog_new (f->second, NULL);
  makings = 0;
  for (guint i = 1; i <= 2; i++) {
    g_clear_error (&error);
    assert_null (base_catalog_once (first, "number", make_number, g_free, &error));
    assert_non_null (error);
    assert_int_equal (makings, i);
  }
  const guint *number = base_catalog_once (second, "number", make_number, g_free, NULL);
  assert_int_equal (*number, 3);
  assert_ptr_equal (base_catalog_once (second, "number", make_number, g_free, NULL), number);
  assert_int_equal (makings, 3);
}

int
main (void)
{
  g_unsetenv ("PLAIT_CATALOG");
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown (test_order, setup, teardown),
    cmocka_unit_test_setup_teardown (test_not_found, setup, teardown),
    cmocka_unit_test_setup_teardown (test_open_any, setup, teardown),
    cmocka_unit_test_setup_teardown (test_no_folder, setup, teardown),
    cmocka_unit_test_setup_teardown (test_embedded, setup, teardown),
    cmocka_unit_test_setup_teardown (test_once, setup, teardown),
  };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
