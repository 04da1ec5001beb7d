/* cli/catalog_list.c - see catalog_list.h. */
#include "cli/catalog_list.h"

static void
print_json (const GPtrArray *entries, const CliCatalogKind *kind, gboolean one)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  if (!one)
    json_builder_begin_array (builder);
  for (guint i = 0; i < entries->len; i++)
    kind->add (builder, g_ptr_array_index (entries, i));
  if (!one)
    json_builder_end_array (builder);
  cli_json_print (builder);
}

CliExit
cli_catalog_list (const CliVerb *verb, int argc, char **argv, const CliCatalogKind *kind)
{
  g_auto (CliCommon) common = { 0 };
  g_autofree char *name = NULL;
  g_autofree char *placeholder = g_ascii_strup (kind->option, -1);
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) entries = NULL;
  CliExit code = CLI_DONE;
  const GOptionEntry options[]
      = { { kind->option, 0, 0, G_OPTION_ARG_STRING, &name, kind->help, placeholder },
          G_OPTION_ENTRY_NULL };

  if (!cli_parse (verb, argc, argv, options, 0, 0, &common, NULL, &code))
    return code;
  entries = kind->load (common.catalog, name, &error);
  if (entries == NULL)
    return cli_fail (&common, error);
  if (common.json || (name != NULL && !common.csv && kind->print_one == NULL))
    print_json (entries, kind, name != NULL);
  else if (name != NULL && !common.csv)
    kind->print_one (g_ptr_array_index (entries, 0));
  else
    kind->print (entries, common.csv);
  return CLI_DONE;
}
