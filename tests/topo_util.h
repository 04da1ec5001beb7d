/* tests/topo_util.h - what the tests of topo/ share: catalog, machines, messages. */
#pragma once
#include "tests/testutil.h"
#include "topo/placement.h"

static inline BaseCatalog *
open_catalog (void)
{
  GError *error = NULL;
  BaseCatalog *catalog = base_catalog_new (NULL, &error);
  assert_no_error (error);
  return catalog;
}

static inline TopoMachine *
load_machine (const char *slug)
{
  GError *error = NULL;
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  TopoMachine *machine = topo_machine_load (catalog, slug, NULL, &error);
  assert_no_error (error);
  return machine;
}

/* @error must be set and its message contain @part. */
static inline void
assert_message (GError *error, const char *part)
{
  if (error == NULL || strstr (error->message, part) == NULL) {
    print_error ("message '%s' lacks '%s'\n", error == NULL ? "(none)" : error->message, part);
    fail ();
  }
  assert_null (strchr (error->message, '\n'));
}

/* @base with the line that starts with @key replaced by @line ("" removes it); with @key NULL the
 * line is appended. (owned) */
static inline char *
edit_ini (const char *base, const char *key, const char *line)
{
  g_auto (GStrv) lines = g_strsplit (base, "\n", -1);
  gboolean found = key == NULL;
  for (char **at = lines; key != NULL && *at != NULL; at++)
    if (g_str_has_prefix (*at, key)) {
      g_free (*at);
      *at = g_strdup (line);
      found = TRUE;
    }
  assert_true (found);
  char *joined = g_strjoinv ("\n", lines);
  if (key != NULL)
    return joined;
  char *longer = g_strconcat (joined, "\n", line, "\n", NULL);
  g_free (joined);
  return longer;
}
