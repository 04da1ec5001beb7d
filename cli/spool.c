#include "cli/spool.h"

#include "cli/cli.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#define MEMORY_BYTES (1 << 20)

void
cli_spool_init (CliSpool *spool)
{
  *spool = (CliSpool){ .memory = g_string_new (NULL) };
}

void
cli_spool_clear (CliSpool *spool)
{
  if (spool->memory != NULL)
    g_string_free (spool->memory, TRUE);
  if (spool->file != NULL)
    fclose (spool->file);
  *spool = (CliSpool){ 0 };
}

static gboolean
set_file_error (const char *doing, GError **error)
{
  g_set_error (error, CLI_ERROR, CLI_ERROR_ENVIRONMENT,
               "%s the answer in '%s' ($TMPDIR), where it waits until it is whole: %s", doing,
               g_get_tmp_dir (), g_strerror (errno));
  return FALSE;
}

static gboolean
open_file (CliSpool *spool, GError **error)
{
  g_autofree char *path = g_build_filename (g_get_tmp_dir (), "plait-XXXXXX", NULL);
  int fd = g_mkstemp (path);

  if (fd < 0)
    return set_file_error ("cannot keep", error);
  g_unlink (path);
  spool->file = fdopen (fd, "w+");
  if (spool->file != NULL)
    return TRUE;
  close (fd);
  return set_file_error ("cannot keep", error);
}

gboolean
cli_spool_add (CliSpool *spool, const char *text, GError **error)
{
  g_string_append (spool->memory, text);
  if (spool->memory->len < MEMORY_BYTES)
    return TRUE;
  if (spool->file == NULL && !open_file (spool, error))
    return FALSE;
  if (fwrite (spool->memory->str, 1, spool->memory->len, spool->file) != spool->memory->len)
    return set_file_error ("cannot keep", error);
  g_string_truncate (spool->memory, 0);
  return TRUE;
}

gboolean
cli_spool_print (CliSpool *spool, FILE *out, GError **error)
{
  char buffer[65536];
  gsize n = 0;

  if (spool->file != NULL && (fflush (spool->file) != 0 || fseek (spool->file, 0, SEEK_SET) != 0))
    return set_file_error ("cannot keep", error);
  while (spool->file != NULL && (n = fread (buffer, 1, sizeof buffer, spool->file)) > 0)
    if (fwrite (buffer, 1, n, out) != n)
      return TRUE;
  if (spool->file != NULL && ferror (spool->file))
    return set_file_error ("cannot read", error);
  fwrite (spool->memory->str, 1, spool->memory->len, out);
  return TRUE;
}
