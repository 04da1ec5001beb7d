/* cli/catalog_list.h - a command that lists entries of the catalog, or shows one in full. */
#pragma once
#include "cli/cli.h"
#include "cli/plan_json.h"
G_BEGIN_DECLS

typedef struct {
  const char *option; /* that names one: "machine" */
  const char *help;   /* of that option */
  GPtrArray *(*load) (const char *catalog_dir, const char *name, GError **error); /* (owned) */
  void (*add) (JsonBuilder *builder, gconstpointer entry);
  void (*print) (const GPtrArray *entries, gboolean csv); /* a table of them */
  void (*print_one) (gconstpointer entry);                /* (nullable) for people; NULL: as JSON */
} CliCatalogKind;

CliExit cli_catalog_list (const CliVerb *verb, int argc, char **argv, const CliCatalogKind *kind);
G_END_DECLS
