/* base/csv_paths.c - the tables that a list of files and folders names. */
#include "base/csv.h"
#include <string.h>

static gint
compare_text (gconstpointer a, gconstpointer b)
{
  return strcmp (*(char *const *)a, *(char *const *)b);
}

static gboolean
add_folder (GPtrArray *files, const char *path, GError **error)
{
  g_autoptr (GDir) dir = g_dir_open (path, 0, error);
  g_autoptr (GPtrArray) found = g_ptr_array_new ();
  const char *name;

  if (dir == NULL)
    return FALSE;
  while ((name = g_dir_read_name (dir)) != NULL)
    if (g_str_has_suffix (name, ".csv"))
      g_ptr_array_add (found, g_build_filename (path, name, NULL));
  g_ptr_array_sort (found, compare_text);
  if (found->len == 0)
    g_set_error (error, BASE_CSV_ERROR, BASE_CSV_ERROR_READ,
                 "no *.csv in folder '%s': name a file or a folder of tables", path);
  for (guint i = 0; i < found->len; i++)
    g_ptr_array_add (files, g_ptr_array_index (found, i));
  return found->len > 0;
}

char **
base_csv_paths (const char *const *paths, GError **error)
{
  g_autoptr (GPtrArray) files = g_ptr_array_new_with_free_func (g_free);

  for (const char *const *path = paths; *path != NULL; path++)
    if (!g_file_test (*path, G_FILE_TEST_IS_DIR))
      g_ptr_array_add (files, g_strdup (*path));
    else if (!add_folder (files, *path, error))
      return NULL;
  g_ptr_array_add (files, NULL);
  g_ptr_array_set_free_func (files, NULL);
  return (char **)g_ptr_array_free (g_steal_pointer (&files), FALSE);
}
