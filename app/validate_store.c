/* app/validate_store.c - a validation as a run of the database. */
#include "app/validate-private.h"
#include "db/store.h"

#include <json-glib/json-glib.h>
#include <math.h>

static void
fill_record (DbValidationRecord *out, const AppValidateRow *row, gint64 calibration_id)
{
  gboolean has_memory = row->mem_kind != APP_MEM_NONE;

  *out = (DbValidationRecord){
    .calibration_id = calibration_id,
    .row_id = row->id,
    .family = *row->family != '\0' ? row->family : NULL,
    .use = row->use,
    .machine = row->machine,
    .profile = row->profile,
    .layout_text = row->layout_text,
    .predicted_s = row->predicted_s,
    .predicted_s_p10 = row->predicted_p10_s,
    .predicted_s_p90 = row->predicted_p90_s,
    .measured_s = row->measured_s,
    .mem_kind = has_memory ? app_mem_kind_name (row->mem_kind) : NULL,
    .predicted_bytes = has_memory ? (gint64)llround (row->predicted_bytes) : 0,
    .measured_bytes = has_memory ? (gint64)llround (row->measured_bytes) : 0,
    .oom_risk = CLAMP (row->oom_risk, 0, 1),
    .ran = row->ran,
  };
}

static void
add_text (JsonBuilder *builder, const char *key, const char *value)
{
  json_builder_set_member_name (builder, key);
  if (value != NULL)
    json_builder_add_string_value (builder, value);
  else
    json_builder_add_null_value (builder);
}

static char *
inputs_json (const AppValidation *validation, const AppValidateRequest *request)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "files");
  json_builder_begin_array (builder);
  for (const char *const *file = request->files; *file != NULL; file++)
    json_builder_add_string_value (builder, *file);
  json_builder_end_array (builder);
  add_text (builder, "phase", request->phase);
  add_text (builder, "calibration", validation->calibration);
  add_text (builder, "mem_kind", request->mem_kind);
  add_text (builder, "mem_scope", request->mem_scope);
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  return json_to_string (root, FALSE);
}

static DbRejectedRecord *
skipped_records (const AppValidation *validation)
{
  DbRejectedRecord *records = g_new0 (DbRejectedRecord, MAX (validation->skipped->len, 1));

  for (guint i = 0; i < validation->skipped->len; i++) {
    const AppCount *count = &g_array_index (validation->skipped, AppCount, i);

    records[i] = (DbRejectedRecord){ count->name, count->count };
  }
  return records;
}

gboolean
app_validation_store (const AppValidation *validation, const AppValidateRequest *request,
                      const char *db_path, GError **error)
{
  g_autoptr (DbDatabase) db = db_database_open (db_path, DB_OPEN_READ_WRITE, NULL, error);
  g_autofree char *inputs = inputs_json (validation, request);
  g_autofree DbRejectedRecord *skipped = skipped_records (validation);
  g_autofree DbValidationRecord *rows = g_new0 (DbValidationRecord, validation->rows->len + 1);
  const DbRunRecord run = { .command = "validate",
                            .inputs = inputs,
                            .status = DB_RUN_DONE,
                            .counts = { .elapsed_s = NAN, .search_s = NAN, .simulate_s = NAN } };
  const DbCalibrationRecord calibration = { .name = validation->calibration,
                                            .content = validation->calibration_text,
                                            .source = "catalog" };
  gint64 calibration_id = 0;

  if (db == NULL || !db_store_calibration (db, &calibration, &calibration_id, error))
    return FALSE;
  for (guint i = 0; i < validation->rows->len; i++)
    fill_record (&rows[i], g_ptr_array_index (validation->rows, i), calibration_id);
  return db_store_validation (db, &run, rows, validation->rows->len, skipped,
                              validation->skipped->len, NULL, error);
}
