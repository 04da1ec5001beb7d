/* tests/fuzz/replay_main.c - plays a folder of inputs through a fuzz target, without libFuzzer.
 *
 * Each file is played whole and, if it is small, cut after every byte: what is read from a broken
 * disk or an interrupted copy.
 */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>

#define TRUNCATE_MAX_BYTES 2048

static void
play (const char *data, gsize length)
{
  /* A copy of the exact size, so that the address sanitizer sees a read past its end. */
  uint8_t *copy = malloc (length > 0 ? length : 1);
  memcpy (copy, data, length);
  LLVMFuzzerTestOneInput (copy, length);
  free (copy);
}

static gboolean
play_file (const char *path)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *data = NULL;
  gsize length = 0;
  if (!g_file_get_contents (path, &data, &length, &error)) {
    fprintf (stderr, "%s\n", error->message);
    return FALSE;
  }
  /* Printed first: a crash then names its input. */
  printf ("%s (%" G_GSIZE_FORMAT " bytes)\n", path, length);
  fflush (stdout);
  for (gsize cut = 0; length <= TRUNCATE_MAX_BYTES && cut < length; cut++)
    play (data, cut);
  play (data, length);
  return TRUE;
}

static int
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

/* Returns: number of files played, or -1. */
static int
play_folder (const char *path)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GDir) dir = g_dir_open (path, 0, &error);
  if (dir == NULL) {
    fprintf (stderr, "%s\n", error->message);
    return -1;
  }
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  const char *name;
  while ((name = g_dir_read_name (dir)) != NULL)
    g_ptr_array_add (names, g_build_filename (path, name, NULL));
  g_ptr_array_sort (names, compare_names);

  for (guint i = 0; i < names->len; i++) {
    if (!play_file (g_ptr_array_index (names, i)))
      return -1;
  }
  return (int)names->len;
}

int
main (int argc, char **argv)
{
  int n_played = 0;
  for (int i = 1; i < argc; i++) {
    gboolean folder = g_file_test (argv[i], G_FILE_TEST_IS_DIR);
    int n = folder ? play_folder (argv[i]) : play_file (argv[i]) ? 1 : -1;
    if (n < 0)
      return 1;
    n_played += n;
  }
  if (n_played == 0) {
    fprintf (stderr, "usage: %s FOLDER_OR_FILE... (at least one input)\n", argv[0]);
    return 1;
  }
  return 0;
}
