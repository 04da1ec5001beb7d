/* app/validate_shelf.c - catalog entries that many rows share. */
#include "app/catalog.h"
#include "app/validate-private.h"

static void
numbers_free (gpointer numbers)
{
  cost_numbers_clear (numbers);
  g_free (numbers);
}

gboolean
validate_shelf_init (ValidateShelf *shelf, const char *catalog_dir, const char *calibration,
                     GError **error)
{
  *shelf = (ValidateShelf){ 0 };
  shelf->machines
      = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify)topo_machine_free);
  shelf->profiles
      = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify)model_profile_free);
  shelf->numbers = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, numbers_free);
  shelf->catalog = base_catalog_new (catalog_dir, error);
  if (shelf->catalog != NULL)
    shelf->gpus = topo_gpu_table_new (shelf->catalog, error);
  if (shelf->gpus != NULL)
    shelf->models = app_catalog_models (catalog_dir, NULL, error);
  if (shelf->models != NULL)
    shelf->calibration
        = cost_calibration_load (shelf->catalog, calibration != NULL ? calibration : "default",
                                 error);
  if (shelf->calibration != NULL)
    return TRUE;
  validate_shelf_clear (shelf);
  return FALSE;
}

void
validate_shelf_clear (ValidateShelf *shelf)
{
  if (shelf == NULL)
    return;
  g_clear_pointer (&shelf->numbers, g_hash_table_unref);
  g_clear_pointer (&shelf->profiles, g_hash_table_unref);
  g_clear_pointer (&shelf->machines, g_hash_table_unref);
  g_clear_pointer (&shelf->models, g_ptr_array_unref);
  g_clear_pointer (&shelf->gpus, topo_gpu_table_free);
  g_clear_pointer (&shelf->calibration, cost_calibration_free);
  g_clear_pointer (&shelf->catalog, base_catalog_free);
}
