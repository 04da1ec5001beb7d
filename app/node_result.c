/* app/node_result.c - see the header. */
#include "app/node_result-private.h"

#include "base/stats.h"

#include <math.h>
#include <string.h>

static void
value_clear (gpointer data)
{
  AppNodeValue *value = data;
  g_free (value->group);
  g_free (value->key);
  g_free (value->unit);
  g_free (value->provenance);
}

AppNodeCalibration *
node_result_new (void)
{
  AppNodeCalibration *out = g_new0 (AppNodeCalibration, 1);
  out->values = g_array_new (FALSE, FALSE, sizeof (AppNodeValue));
  g_array_set_clear_func (out->values, value_clear);
  out->errors = g_array_new (FALSE, FALSE, sizeof (AppNodeErrors));
  out->warnings = g_ptr_array_new_with_free_func (g_free);
  out->sigma = NAN;
  return out;
}

void
app_node_calibration_free (AppNodeCalibration *c)
{
  if (c == NULL)
    return;
  g_free (c->name);
  g_free (c->base);
  g_free (c->backend);
  g_free (c->versions);
  g_array_unref (c->values);
  g_array_unref (c->errors);
  g_ptr_array_unref (c->warnings);
  g_free (c);
}

void
node_result_add_value (AppNodeCalibration *out, const char *group, const char *key,
                       const char *unit, double value, double spread, double base_value,
                       double base_spread, const char *provenance, guint64 n_points)
{
  const AppNodeValue row = { .group = g_strdup (group),
                             .key = g_strdup (key),
                             .unit = g_strdup (unit),
                             .value = value,
                             .spread = spread,
                             .base_value = base_value,
                             .base_spread = base_spread,
                             .provenance = g_strdup (provenance),
                             .n_points = n_points };
  g_array_append_val (out->values, row);
}

static gint
find_kind (const GArray *errors, const char *kind)
{
  for (guint i = 0; i < errors->len; i++)
    if (g_str_equal (g_array_index (errors, AppNodeErrors, i).kind, kind))
      return (gint)i;
  return -1;
}

static double
median_error (const char *kind, const char *const *kinds, const double *measured_s,
              const double *predicted_s, guint n)
{
  g_autofree double *sizes = g_new (double, MAX (n, 1));
  guint count = 0;
  for (guint i = 0; i < n; i++)
    if (g_str_equal (kinds[i], kind) && isfinite (predicted_s[i]))
      sizes[count++] = fabs (predicted_s[i] / measured_s[i] - 1);
  return count > 0 ? base_quantile (sizes, count, 0.5) : (double)NAN;
}

void
node_result_add_errors (AppNodeCalibration *out, const char *const *kinds, const double *measured_s,
                        const double *predicted_s, const double *base_s, guint n)
{
  for (guint pass = 0; pass < 2; pass++)
    for (guint i = 0; i < n; i++) {
      gboolean is_step = g_str_equal (kinds[i], "step");
      gint at = find_kind (out->errors, kinds[i]);
      if (is_step != (pass == 0))
        continue;
      if (at >= 0) {
        g_array_index (out->errors, AppNodeErrors, at).n++;
        continue;
      }
      const AppNodeErrors row
          = { .kind = g_intern_string (kinds[i]),
              .n = 1,
              .median_abs_err = median_error (kinds[i], kinds, measured_s, predicted_s, n),
              .base_median_abs_err = median_error (kinds[i], kinds, measured_s, base_s, n) };
      g_array_append_val (out->errors, row);
    }
}

static void
fill_errors (AppNodeCalibration *out, const NodeFit *fit)
{
  guint n = fit->points->len;
  g_autofree const char **kinds = g_new (const char *, MAX (n, 1));
  g_autofree double *measured_s = g_new (double, MAX (n, 1));
  for (guint i = 0; i < n; i++) {
    const NodePoint *point = g_ptr_array_index (fit->points, i);
    kinds[i] = point->word;
    measured_s[i] = point->measured_s;
  }
  node_result_add_errors (out, kinds, measured_s, fit->fit_s, fit->base_s, n);
}

void
node_result_fill (AppNodeCalibration *out, const NodeFit *fit, const GPtrArray *benches,
                  const char *backend)
{
  out->n_benchmarks = benches->len;
  out->n_points = fit->points->len;
  out->sigma = fit->sigma;
  out->backend = g_strdup (backend);
  for (guint i = 0; i < benches->len; i++)
    out->n_without_result
        += ((NodeBench *)g_ptr_array_index (benches, i))->state == NODE_BENCH_WITHOUT_RESULT;
  for (guint i = 0; i < fit->values->len; i++) {
    const NodeValue *v = &g_array_index (fit->values, NodeValue, i);
    const char *unit = cost_calibration_unit (v->group, v->key);
    node_result_add_value (out, v->group, v->key, unit != NULL ? unit : "", v->value, v->sd,
                           v->prior, v->prior_sd, v->measured ? "measured" : "fitted", v->n_points);
  }
  fill_errors (out, fit);
  node_slow_find (benches, fit->setting->ranks, backend, out->warnings);
}

static GArray *
value_records (const AppNodeCalibration *out, const char *source)
{
  GArray *records = g_array_new (FALSE, FALSE, sizeof (DbCalibrationValueRecord));
  for (guint i = 0; i < out->values->len; i++) {
    const AppNodeValue *v = &g_array_index (out->values, AppNodeValue, i);
    const DbCalibrationValueRecord record = { .group_name = v->group,
                                              .key = v->key,
                                              .value = v->value,
                                              .unit = v->unit,
                                              .spread = v->spread,
                                              .base_value = v->base_value,
                                              .base_spread = v->base_spread,
                                              .provenance = v->provenance,
                                              .point_count = v->n_points,
                                              .source = source };
    g_array_append_val (records, record);
  }
  return records;
}

static GArray *
residual_records (const NodeFit *fit)
{
  GArray *records = g_array_new (FALSE, FALSE, sizeof (DbCalibrationResidualRecord));
  for (guint i = 0; i < fit->points->len; i++) {
    const NodePoint *point = g_ptr_array_index (fit->points, i);
    const DbCalibrationResidualRecord record = { .benchmark = point->benchmark,
                                                 .item = point->item,
                                                 .kind = point->word,
                                                 .measured_s = point->measured_s,
                                                 .predicted_s = fit->fit_s[i],
                                                 .base_predicted_s = fit->base_s[i] };
    if (isfinite (record.predicted_s) && isfinite (record.base_predicted_s))
      g_array_append_val (records, record);
  }
  return records;
}

gboolean
node_result_store (DbDatabase *db, gint64 run_id, const NodeFit *fit, const AppNodeCalibration *out,
                   const char *source, GError **error)
{
  g_autofree char *content = cost_calibration_format (fit->calibration);
  g_autoptr (GArray) values = value_records (out, source);
  g_autoptr (GArray) residuals = residual_records (fit);
  const DbCalibrationRecord calibration
      = { .name = cost_calibration_name (fit->calibration), .content = content, .source = source };
  gint steps = find_kind (out->errors, "step");
  const AppNodeErrors *step
      = steps >= 0 ? &g_array_index (out->errors, AppNodeErrors, steps) : NULL;
  const DbCalibrationMade made
      = { .values = (const DbCalibrationValueRecord *)values->data,
          .n_values = values->len,
          .residuals = (const DbCalibrationResidualRecord *)residuals->data,
          .n_residuals = residuals->len,
          .median_abs_err = step != NULL ? step->median_abs_err : (double)NAN,
          .median_abs_err_base = step != NULL ? step->base_median_abs_err : (double)NAN };
  return db_store_finish_calibration (db, run_id, &calibration, &made, error);
}
