/* cli/spool.h - an answer that is not shown before it is whole: in memory while it is short, then in a
 * file of the temporary folder that has no name. */
#pragma once
#include <glib.h>
#include <stdio.h>
G_BEGIN_DECLS

typedef struct {
  GString *memory; /* (owned) */
  FILE *file;      /* (owned) (nullable) what was too much for the memory, in front of it */
} CliSpool;

void cli_spool_init (CliSpool *spool);
void cli_spool_clear (CliSpool *spool);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (CliSpool, cli_spool_clear)
/* FALSE with CLI_ERROR_ENVIRONMENT where the temporary folder cannot hold it. */
gboolean cli_spool_add (CliSpool *spool, const char *text, GError **error);
/* Writes all of it. FALSE as above where it cannot be read back; what @out says is the caller's. */
gboolean cli_spool_print (CliSpool *spool, FILE *out, GError **error);
G_END_DECLS
