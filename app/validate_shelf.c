/* app/validate_shelf.c - catalog entries that many rows share. */
#include "app/calibration_source.h"
#include "app/catalog.h"
#include "app/validate-private.h"

static void
numbers_free (gpointer numbers)
{
  cost_numbers_clear (numbers);
  g_free (numbers);
}

/* 'latest' is the latest of one machine, and rows are of many. */
static CostCalibration *
load_calibration (const BaseCatalog *catalog, const char *name, const char *db_path, GError **error)
{
  if (g_strcmp0 (name, "latest") != 0)
    return app_calibration_load (catalog, name, db_path, NULL, error);
  g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
               "calibration 'latest' is that of one machine, and rows can be of many: give the "
               "calibration's name, as 'plait calibrate --show' prints it");
  return NULL;
}

gboolean
validate_shelf_init (ValidateShelf *shelf, const char *catalog_dir, const char *calibration,
                     const char *db_path, GError **error)
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
    shelf->calibration = load_calibration (shelf->catalog, calibration, db_path, error);
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
