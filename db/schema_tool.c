/* Prints docs/schema.md, or with --check FILE says whether that file is what it should be. */
#include "db/database.h"
#include <stdio.h>
#include <stdlib.h>

static int
check (const char *path, const char *want)
{
  g_autofree char *got = NULL;
  g_autoptr (GError) error = NULL;
  if (!g_file_get_contents (path, &got, NULL, &error)) {
    fprintf (stderr, "%s\n", error->message);
    return EXIT_FAILURE;
  }
  if (g_str_equal (got, want))
    return EXIT_SUCCESS;
  fprintf (stderr, "%s is out of date; write it anew with the output of schema_tool\n", path);
  return EXIT_FAILURE;
}

int
main (int argc, char **argv)
{
  g_autofree char *text = db_schema_describe ();
  if (text == NULL)
    return EXIT_FAILURE;
  if (argc == 3 && g_str_equal (argv[1], "--check"))
    return check (argv[2], text);
  if (argc != 1) {
    fprintf (stderr, "usage: %s [--check FILE]\n", argv[0]);
    return 2;
  }
  return fputs (text, stdout) < 0 || fflush (stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
