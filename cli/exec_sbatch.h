/* cli/exec_sbatch.h - plait exec --sbatch. */
#pragma once
#include <glib.h>
G_BEGIN_DECLS
/* Prints the script; @argv is the command line, --sbatch is left out of it. */
void cli_exec_print_sbatch (const char *const *argv, guint64 ranks);
G_END_DECLS
