/* app/calibrate_show.c - stored calibrations: one in full, two side by side. */
#include "app/node_result-private.h"

#include <math.h>

static DbMadeCalibration *
find (DbDatabase *db, const char *name, GError **error)
{
  g_autoptr (GError) reason = NULL;
  DbMadeCalibration *made = name == NULL || g_str_equal (name, "latest")
                                ? db_find_latest_calibration (db, NULL, &reason)
                                : db_find_calibration (db, name, &reason);
  if (made != NULL)
    return made;
  if (g_error_matches (reason, DB_ERROR, DB_ERROR_NOT_FOUND))
    g_set_error (error, APP_ERROR, APP_ERROR_USAGE, "%s; 'plait calibrate' makes one",
                 reason->message);
  else
    g_propagate_error (error, g_steal_pointer (&reason));
  return NULL;
}

static gboolean
load_errors (DbDatabase *db, gint64 id, AppNodeCalibration *out, GError **error)
{
  g_autoptr (DbRows) rows = db_load_calibration_residuals (db, id, error);
  if (rows == NULL)
    return FALSE;
  guint n = rows->records->len;
  g_autofree const char **kinds = g_new (const char *, MAX (n, 1));
  g_autofree double *numbers = g_new (double, 3 * MAX ((gsize)n, 1));
  for (guint i = 0; i < n; i++) {
    const DbCalibrationResidualRecord *row
        = &g_array_index (rows->records, DbCalibrationResidualRecord, i);
    kinds[i] = row->kind;
    numbers[i] = row->measured_s;
    numbers[n + i] = row->predicted_s;
    numbers[2 * (gsize)n + i] = row->base_predicted_s;
  }
  out->n_points = n;
  node_result_add_errors (out, kinds, numbers, numbers + n, numbers + 2 * (gsize)n, n);
  return TRUE;
}

AppNodeCalibration *
app_calibrate_show (const char *db_path, const char *name, GError **error)
{
  g_autoptr (AppNodeCalibration) out = node_result_new ();
  g_autoptr (DbDatabase) db = db_database_open (db_path, DB_OPEN_READ_ONLY, NULL, error);
  g_autoptr (DbMadeCalibration) made = db != NULL ? find (db, name, error) : NULL;
  g_autoptr (DbRows) values
      = made != NULL ? db_load_calibration_values (db, made->calibration_id, error) : NULL;
  if (values == NULL || !load_errors (db, made->calibration_id, out, error))
    return NULL;
  out->name = g_strdup (made->name);
  out->base = g_strdup (made->source);
  out->backend = g_strdup (made->backend);
  out->versions = g_strdup (made->versions);
  out->ranks = (guint64)made->rank_count;
  for (guint i = 0; i < values->records->len; i++) {
    const DbCalibrationValueRecord *v
        = &g_array_index (values->records, DbCalibrationValueRecord, i);
    node_result_add_value (out, v->group_name, v->key, v->unit, v->value, v->spread, v->base_value,
                           v->base_spread, v->provenance, v->point_count);
    if (g_str_equal (v->key, "sigma"))
      out->sigma = v->value;
  }
  return g_steal_pointer (&out);
}

static void
change_clear (gpointer data)
{
  AppNodeChange *change = data;
  g_free (change->group);
  g_free (change->key);
  g_free (change->unit);
}

static AppNodeChange *
change_of (GArray *changes, const AppNodeValue *value)
{
  for (guint i = 0; i < changes->len; i++) {
    AppNodeChange *change = &g_array_index (changes, AppNodeChange, i);
    if (g_str_equal (change->group, value->group) && g_str_equal (change->key, value->key))
      return change;
  }
  const AppNodeChange fresh = { .group = g_strdup (value->group),
                                .key = g_strdup (value->key),
                                .unit = g_strdup (value->unit),
                                .values = { NAN, NAN },
                                .spreads = { NAN, NAN },
                                .change_sd = NAN };
  g_array_append_val (changes, fresh);
  return &g_array_index (changes, AppNodeChange, changes->len - 1);
}

GArray *
app_calibrate_compare (const char *db_path, const char *a, const char *b, GError **error)
{
  const char *names[] = { a, b };
  g_autoptr (GArray) changes = g_array_new (FALSE, FALSE, sizeof (AppNodeChange));
  g_array_set_clear_func (changes, change_clear);
  for (guint side = 0; side < 2; side++) {
    g_autoptr (AppNodeCalibration) c = app_calibrate_show (db_path, names[side], error);
    if (c == NULL)
      return NULL;
    for (guint i = 0; i < c->values->len; i++) {
      const AppNodeValue *value = &g_array_index (c->values, AppNodeValue, i);
      AppNodeChange *change = change_of (changes, value);
      change->values[side] = value->value;
      change->spreads[side] = value->spread;
    }
  }
  for (guint i = 0; i < changes->len; i++) {
    AppNodeChange *c = &g_array_index (changes, AppNodeChange, i);
    double spread = hypot (c->spreads[0], c->spreads[1]);
    c->change_sd = spread > 0 ? log (c->values[1] / c->values[0]) / spread : (double)NAN;
  }
  return g_steal_pointer (&changes);
}
