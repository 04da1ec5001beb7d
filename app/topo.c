/* app/topo.c - topologies for the command line. */
#include "app/topo.h"

#include "topo/live.h"

#include <string.h>

static gboolean
is_slug (const BaseCatalog *catalog, const char *name)
{
  g_auto (GStrv) slugs = base_catalog_list (catalog, "machines");

  return g_strv_contains ((const char *const *)slugs, name);
}

/* A path is what looks like one; a bare name is a slug first. */
static gboolean
is_path (const BaseCatalog *catalog, const char *source)
{
  if (strchr (source, '/') != NULL)
    return TRUE;
  return !is_slug (catalog, source) && g_file_test (source, G_FILE_TEST_EXISTS);
}

TopoReading *
app_topo_read (const AppTopoInputs *inputs, GError **error)
{
  g_autoptr (BaseCatalog) catalog = base_catalog_new (inputs->catalog_dir, error);
  TopoReadOptions options = { catalog, inputs->gpu, inputs->machine };

  if (catalog == NULL)
    return NULL;
  if (g_str_equal (inputs->source, "live"))
    return topo_reading_new_live (&options, error);
  if (is_path (catalog, inputs->source))
    return topo_reading_new_from_file (inputs->source, &options, error);
  return topo_reading_new_from_machine (inputs->source, &options, error);
}

GPtrArray *
app_topo_check (const char *catalog_dir, const TopoReading *reading, const char *expected,
                GError **error)
{
  g_autoptr (BaseCatalog) catalog = base_catalog_new (catalog_dir, error);
  g_autoptr (TopoMachine) machine = NULL;

  if (catalog == NULL)
    return NULL;
  if (reading->machine == NULL) {
    g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
                 "--check: '%s' (%s) holds measurements, expected a topology", reading->name,
                 topo_format_name (reading->format));
    return NULL;
  }
  machine = topo_machine_load_unfinished (catalog, expected, NULL, error);
  if (machine == NULL) {
    g_prefix_error (error, "--check: ");
    return NULL;
  }
  return topo_reading_differences (reading, machine);
}
