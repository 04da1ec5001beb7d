/* cli/verbs.c - the table of subcommands. */
#include "cli/cli.h"

const CliVerb *const cli_verbs[] = {
  &cli_plan,      &cli_predict, &cli_show,       &cli_compare,  &cli_query, &cli_models,
  &cli_machines,  &cli_gpus,    &cli_profiles,   &cli_shard,    &cli_topo,  &cli_validate,
  &cli_calibrate, &cli_exec,    &cli_collective, &cli_simulate, NULL,
};

const CliVerb *
cli_verb_find (const char *name)
{
  for (const CliVerb *const *verb = cli_verbs; *verb != NULL; verb++)
    if (g_str_equal ((*verb)->name, name))
      return *verb;
  return NULL;
}
