/* topo/gpu_table.c - all GPUs of a catalog, found by any of their names. */
#include "base/suggest.h"
#include "topo/gpu-private.h"
#include <math.h>
#include <string.h>

struct _TopoGpuTable {
  GPtrArray *gpus;     /* of TopoGpu, by slug */
  GHashTable *by_name; /* folded name -> TopoGpu (borrowed) */
  GPtrArray *names;    /* names as written, NULL-terminated, for suggestions (borrowed) */
};

void
topo_gpu_table_free (TopoGpuTable *table)
{
  if (table == NULL)
    return;
  g_ptr_array_unref (table->gpus);
  g_hash_table_unref (table->by_name);
  g_ptr_array_unref (table->names);
  g_free (table);
}

static gboolean
claim_name (TopoGpuTable *table, TopoGpu *gpu, char *name, GError **error)
{
  g_autofree char *folded = g_ascii_strdown (name, -1);
  const TopoGpu *owner = g_hash_table_lookup (table->by_name, folded);
  if (owner == gpu)
    return TRUE;
  if (owner != NULL) {
    g_set_error (
        error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE,
        "GPU name '%s' is claimed by both '%s' and '%s': remove it from the aliases of one", name,
        owner->slug, gpu->slug);
    return FALSE;
  }
  g_hash_table_insert (table->by_name, g_steal_pointer (&folded), gpu);
  g_ptr_array_add (table->names, name);
  return TRUE;
}

static gboolean
add_gpu (TopoGpuTable *table, TopoGpu *gpu, GError **error)
{
  g_ptr_array_add (table->gpus, gpu);
  if (!claim_name (table, gpu, gpu->slug, error) || !claim_name (table, gpu, gpu->product, error))
    return FALSE;
  for (char **alias = gpu->aliases; *alias != NULL; alias++)
    if (!claim_name (table, gpu, *alias, error))
      return FALSE;
  return TRUE;
}

TopoGpuTable *
topo_gpu_table_new (const BaseCatalog *catalog, GError **error)
{
  g_autoptr (TopoGpuTable) table = g_new0 (TopoGpuTable, 1);
  table->gpus = g_ptr_array_new_with_free_func ((GDestroyNotify)topo_gpu_free);
  table->by_name = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  table->names = g_ptr_array_new ();
  g_auto (GStrv) slugs = base_catalog_list (catalog, "gpus");
  for (char **slug = slugs; *slug != NULL; slug++) {
    g_autoptr (BaseIni) ini = base_catalog_open (catalog, "gpus", *slug, error);
    TopoGpu *gpu = ini == NULL ? NULL : topo_gpu_new_from_ini (ini, *slug, error);
    if (gpu == NULL || !add_gpu (table, gpu, error))
      return NULL;
  }
  g_ptr_array_add (table->names, NULL);
  return g_steal_pointer (&table);
}

guint
topo_gpu_table_size (const TopoGpuTable *table)
{
  return table->gpus->len;
}

const TopoGpu *
topo_gpu_table_get (const TopoGpuTable *table, guint index)
{
  g_return_val_if_fail (index < table->gpus->len, NULL);
  return g_ptr_array_index (table->gpus, index);
}

const TopoGpu *
topo_gpu_table_find (const TopoGpuTable *table, const char *name, GError **error)
{
  g_autofree char *folded = g_ascii_strdown (name, -1);
  const TopoGpu *gpu = g_hash_table_lookup (table->by_name, g_strstrip (folded));
  if (gpu != NULL)
    return gpu;
  g_autofree char *hint = base_suggest_clause (name, (const char *const *)table->names->pdata);
  g_set_error (error, TOPO_ERROR, TOPO_ERROR_NOT_FOUND,
               "no GPU is called '%s' (`plait gpus` lists them)%s", name, hint);
  return NULL;
}

/* A user's file may leave out label_gb: usable= is then held against every label we know. */
static gboolean
check_known_labels (const TopoGpuTable *table, BaseIni *ini, GError **error)
{
  const char *usable = base_ini_get_string_or (ini, "memory", "usable", "");
  for (guint i = 0; i < table->gpus->len; i++) {
    const TopoGpu *gpu = g_ptr_array_index (table->gpus, i);
    if (!isnan (gpu->label_gb) && !topo_gpu_check_label (ini, usable, gpu->label_gb, error))
      return FALSE;
  }
  return TRUE;
}

char *
topo_slug_of_file (const char *path)
{
  char *slug = g_path_get_basename (path);
  if (g_str_has_suffix (slug, ".ini"))
    slug[strlen (slug) - 4] = '\0';
  return slug;
}

/* A slug whose file states its label needs no other file to be judged. */
static TopoGpu *
load_by_slug (const BaseCatalog *catalog, const char *slug)
{
  g_autoptr (BaseIni) ini = base_catalog_open (catalog, "gpus", slug, NULL);
  if (ini == NULL || !base_ini_has_key (ini, "memory", "label_gb"))
    return NULL;
  return topo_gpu_new_from_ini (ini, slug, NULL);
}

TopoGpu *
topo_gpu_load (const BaseCatalog *catalog, const char *name, GError **error)
{
  gboolean is_file = FALSE;
  TopoGpu *gpu = load_by_slug (catalog, name);
  if (gpu != NULL)
    return gpu;
  g_autoptr (TopoGpuTable) table = topo_gpu_table_new (catalog, error);
  if (table == NULL)
    return NULL;
  const TopoGpu *known = topo_gpu_table_find (table, name, NULL);
  const char *slug = known != NULL ? known->slug : name;
  g_autoptr (BaseIni) ini = base_catalog_open_any (catalog, "gpus", slug, &is_file, error);
  if (ini == NULL || !check_known_labels (table, ini, error))
    return NULL;
  g_autofree char *own_slug = is_file ? topo_slug_of_file (name) : g_strdup (slug);
  return topo_gpu_new_from_ini (ini, own_slug, error);
}
