/* cli/exec_sbatch.c - the Slurm script that runs the same command, a task per rank. */
#include "cli/exec_sbatch.h"

#include <stdio.h>

void
cli_exec_print_sbatch (const char *const *argv, guint64 ranks)
{
  g_autofree char *self = g_file_read_link ("/proc/self/exe", NULL);
  g_autoptr (GString) line = g_string_new (NULL);
  g_autofree char *program = g_shell_quote (self != NULL ? self : "plait");

  g_string_append (line, program);
  for (guint i = 1; argv[i] != NULL; i++) {
    g_autofree char *word = g_shell_quote (argv[i]);

    if (!g_str_equal (argv[i], "--sbatch"))
      g_string_append_printf (line, " %s", word);
  }
  printf ("#!/bin/sh\n"
          "#SBATCH --job-name=plait-exec\n"
          "#SBATCH --ntasks=%" G_GUINT64_FORMAT "\n"
          "#SBATCH --time=00:30:00\n"
          "export OPENBLAS_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}\n"
          "exec srun --mpi=pmix --kill-on-bad-exit=1 %s\n",
          ranks, line->str);
}
