/* app/catalog.c - loading one or all entries of a kind. */
#include "app/catalog.h"
#include "app/problem.h"
#include "base/cpus.h"

typedef gpointer (*Loader) (const BaseCatalog *catalog, const char *name, GError **error);

static gpointer
load_model (const BaseCatalog *catalog, const char *name, GError **error)
{
  return model_arch_load (catalog, name, error);
}

static gpointer
load_machine (const BaseCatalog *catalog, const char *name, GError **error)
{
  const AppInputs inputs = { .machine = name, .live_ranks = base_cpus_count () };

  return app_machine_load (catalog, &inputs, error);
}

static gpointer
load_gpu (const BaseCatalog *catalog, const char *name, GError **error)
{
  return topo_gpu_load (catalog, name, error);
}

static gpointer
load_profile (const BaseCatalog *catalog, const char *name, GError **error)
{
  return model_profile_load (catalog, name, error);
}

static GPtrArray *
load_entries (const char *catalog_dir, const char *kind, const char *name, Loader load,
              GDestroyNotify free_entry, GError **error)
{
  g_autoptr (BaseCatalog) catalog = base_catalog_new (catalog_dir, error);
  g_autoptr (GPtrArray) entries = g_ptr_array_new_with_free_func (free_entry);
  g_auto (GStrv) names = NULL;

  if (catalog == NULL)
    return NULL;
  if (name != NULL) {
    const char *one[] = { name, NULL };

    names = g_strdupv ((char **)one);
  } else
    names = base_catalog_list (catalog, kind);
  for (char **entry = names; *entry != NULL; entry++) {
    gpointer loaded = load (catalog, *entry, error);

    if (loaded == NULL)
      return NULL;
    g_ptr_array_add (entries, loaded);
  }
  return g_steal_pointer (&entries);
}

GPtrArray *
app_catalog_models (const char *catalog_dir, const char *name, GError **error)
{
  return load_entries (catalog_dir, "models", name, load_model, (GDestroyNotify)model_arch_free,
                       error);
}

GPtrArray *
app_catalog_machines (const char *catalog_dir, const char *name, GError **error)
{
  return load_entries (catalog_dir, "machines", name, load_machine,
                       (GDestroyNotify)topo_machine_free, error);
}

GPtrArray *
app_catalog_gpus (const char *catalog_dir, const char *name, GError **error)
{
  return load_entries (catalog_dir, "gpus", name, load_gpu, (GDestroyNotify)topo_gpu_free, error);
}

GPtrArray *
app_catalog_profiles (const char *catalog_dir, const char *name, GError **error)
{
  return load_entries (catalog_dir, "profiles", name, load_profile,
                       (GDestroyNotify)model_profile_free, error);
}
