/* app/calibration_source.c - see the header. */
#include "app/calibration_source.h"

#include "app/calibrate.h"
#include "app/error.h"
#include "app/record.h"
#include "base/hash.h"
#include "db/store.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static CostCalibration *
from_text (const char *text, const char *name, GError **error)
{
  g_autoptr (BaseIni) ini = base_ini_new_from_data (text, -1, name, error);
  return ini != NULL ? cost_calibration_from_ini (ini, name, error) : NULL;
}

/* What is not in the database is bad input, not a bad environment. */
static gboolean
propagate (GError *reason, GError **error)
{
  if (!g_error_matches (reason, DB_ERROR, DB_ERROR_NOT_FOUND)) {
    g_propagate_error (error, reason);
    return FALSE;
  }
  g_set_error (error, APP_ERROR, APP_ERROR_USAGE, "%s; 'plait calibrate' makes one",
               reason->message);
  g_error_free (reason);
  return FALSE;
}

static CostCalibration *
load_latest (const char *db_path, const TopoMachine *machine, GError **error)
{
  GError *reason = NULL;
  g_autofree char *content = app_record_machine_content (machine);
  g_autofree char *hash = base_hash_text (content);
  g_autoptr (DbDatabase) db = db_database_open (db_path, DB_OPEN_READ_ONLY, NULL, error);
  if (db == NULL)
    return NULL;
  g_autoptr (DbMadeCalibration) made = db_find_latest_calibration (db, hash, &reason);
  if (made == NULL) {
    propagate (reason, error);
    return NULL;
  }
  return from_text (made->content, made->name, error);
}

static CostCalibration *
load_stored (const char *db_path, const char *name, GError **error)
{
  GError *reason = NULL;
  g_autoptr (DbDatabase) db = db_database_open (db_path, DB_OPEN_READ_ONLY, NULL, error);
  if (db == NULL)
    return NULL;
  g_autofree char *content = db_load_calibration (db, name, &reason);
  if (content == NULL) {
    propagate (reason, error);
    return NULL;
  }
  return from_text (content, name, error);
}

CostCalibration *
app_calibration_load (const BaseCatalog *catalog, const char *name, const char *db_path,
                      const TopoMachine *machine, GError **error)
{
  g_autoptr (GError) reason = NULL;
  if (name == NULL)
    return cost_calibration_load (catalog, "default", error);
  if (g_str_equal (name, "latest")) {
    if (db_path != NULL)
      return load_latest (db_path, machine, error);
    g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
                 "--calibration latest: is in a database: name it with --db");
    return NULL;
  }
  CostCalibration *found = cost_calibration_load (catalog, name, &reason);
  if (found != NULL || db_path == NULL || !g_file_test (db_path, G_FILE_TEST_EXISTS)
      || !g_error_matches (reason, BASE_CATALOG_ERROR, BASE_CATALOG_ERROR_NOT_FOUND)) {
    if (found == NULL)
      g_propagate_error (error, g_steal_pointer (&reason));
    return found;
  }
  return load_stored (db_path, name, error);
}

static GArray *
value_records (const AppStoredFit *fit, GStringChunk *strings)
{
  GArray *records = g_array_new (FALSE, FALSE, sizeof (DbCalibrationValueRecord));
  for (guint i = 0; i < fit->values->len; i++) {
    const AppFitted *fitted = &g_array_index (fit->values, AppFitted, i);
    g_auto (GStrv) parts = g_strsplit (fitted->name, ": ", 2);
    if (g_strv_length (parts) < 2)
      continue;
    const char *unit = cost_calibration_unit (parts[0], parts[1]);
    const DbCalibrationValueRecord record
        = { .group_name = g_string_chunk_insert (strings, parts[0]),
            .key = g_string_chunk_insert (strings, parts[1]),
            .value = fitted->value,
            .unit = unit != NULL ? unit : "",
            .spread = fitted->sd,
            .base_value = fitted->prior,
            .base_spread = fitted->prior_sd,
            .provenance = "fitted",
            .source = fitted->source };
    g_array_append_val (records, record);
  }
  return records;
}

gboolean
app_calibration_store_fit (CostCalibration *calibration, const AppStoredFit *fit,
                           const char *source, GError **error)
{
  g_autoptr (GStringChunk) strings = g_string_chunk_new (1024);
  g_autofree char *base = g_strdup (fit->base); /* may be the name that is about to change */
  const DbRunRecord run = { .command = "calibrate", .inputs = "{}" };
  const DbCalibrationRunRecord begun
      = { .host = g_get_host_name (), .pid = getpid (), .base = base, .budget_s = NAN };
  gint64 run_id = 0;
  cost_calibration_rename (calibration, fit->name, source);
  g_autofree char *content = cost_calibration_format (calibration);
  g_autoptr (GArray) values = value_records (fit, strings);
  g_autoptr (DbDatabase) db = db_database_open (fit->db_path, DB_OPEN_READ_WRITE, NULL, error);
  const DbCalibrationRecord record
      = { .name = cost_calibration_name (calibration), .content = content, .source = source };
  const DbCalibrationMade made = { .values = (const DbCalibrationValueRecord *)values->data,
                                   .n_values = values->len,
                                   .median_abs_err = fit->median_abs_err,
                                   .median_abs_err_base = NAN };
  return db != NULL && db_store_begin_calibration (db, &run, &begun, &run_id, error)
         && db_store_finish_calibration (db, run_id, &record, &made, error);
}
