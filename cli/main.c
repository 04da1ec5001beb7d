/* cli/main.c - plait COMMAND [options]. */
#include "base/suggest.h"
#include "cli/cli.h"

#include <locale.h>

static void
print_usage (FILE *out)
{
  fputs ("Usage: plait COMMAND [options]\n\n"
         "Plans how to split a large model over GPUs: step time, memory and out-of-memory risk of\n"
         "every layout, kept in SQLite.\n\nCommands:\n",
         out);
  for (const CliVerb *const *verb = cli_verbs; *verb != NULL; verb++)
    fprintf (out, "  %-11s %s\n", (*verb)->name, (*verb)->summary);
  fputs ("\n'plait help COMMAND' says more; 'plait --version' the version.\n", out);
}

static CliExit
unknown_command (const char *name)
{
  const char *names[32] = { NULL };
  g_autofree char *hint = NULL;
  guint n = 0;

  for (const CliVerb *const *verb = cli_verbs; *verb != NULL && n < G_N_ELEMENTS (names) - 1;
       verb++)
    names[n++] = (*verb)->name;
  hint = base_suggest_clause (name, names);
  fprintf (stderr, "plait: no command '%s' (see 'plait help')%s\n", name, hint);
  return CLI_USAGE;
}

static CliExit
help (int argc, char **argv)
{
  const CliVerb *verb = NULL;
  char *help_argv[] = { NULL, (char *)"--help", NULL };

  if (argc < 3) {
    print_usage (stdout);
    return CLI_DONE;
  }
  verb = cli_verb_find (argv[2]);
  if (verb == NULL)
    return unknown_command (argv[2]);
  help_argv[0] = argv[2];
  return verb->run (verb, 2, help_argv);
}

/* An answer that did not reach its reader is none, whatever the command made of it. */
static CliExit
finish (CliExit code)
{
  if (fflush (stdout) == 0 && !ferror (stdout))
    return code;
  fputs ("plait: cannot write the answer: standard output is full or closed\n", stderr);
  return code == CLI_USAGE ? code : CLI_ENVIRONMENT;
}

int
main (int argc, char **argv)
{
  const CliVerb *verb = NULL;

  setlocale (LC_ALL, "");
  setlocale (LC_NUMERIC, "C"); /* printed numbers never depend on the locale */
  g_set_prgname ("plait");
  if (argc < 2) {
    print_usage (stderr);
    return CLI_USAGE;
  }
  if (g_str_equal (argv[1], "--help") || g_str_equal (argv[1], "-h")) {
    print_usage (stdout);
    return finish (CLI_DONE);
  }
  if (g_str_equal (argv[1], "--version")) {
    puts ("plait " PLAIT_VERSION);
    return finish (CLI_DONE);
  }
  if (g_str_equal (argv[1], "help"))
    return finish (help (argc, argv));
  verb = cli_verb_find (argv[1]);
  if (verb == NULL)
    return unknown_command (argv[1]);
  return finish (verb->run (verb, argc - 1, argv + 1));
}
