/* app/validate_collectives.c - errors of predicted collectives, by machine, collective and band. */
#include "app/validate_collectives-private.h"

#include "app/validate-private.h"
#include "base/stats.h"

#include <math.h>

#define LARGE_BYTES 1048576.0

static void
row_free (gpointer data)
{
  AppCollectiveRow *row = data;

  g_free (row->log);
  g_free (row->machine);
  g_free (row);
}

static void
group_clear (gpointer data)
{
  g_free (((AppCollectiveGroup *)data)->machine);
}

AppCollectiveValidation *
collective_validation_new (const CollectiveRows *rows)
{
  AppCollectiveValidation *out = g_new0 (AppCollectiveValidation, 1);

  out->n_rows = rows->n_rows;
  out->rows = g_ptr_array_new_with_free_func (row_free);
  out->skipped = validate_counts_of (rows->skipped);
  out->left_out = g_ptr_array_ref (rows->left_out);
  out->groups = g_array_new (FALSE, FALSE, sizeof (AppCollectiveGroup));
  g_array_set_clear_func (out->groups, group_clear);
  return out;
}

void
app_collective_validation_free (AppCollectiveValidation *validation)
{
  if (validation == NULL)
    return;
  g_ptr_array_unref (validation->rows);
  g_array_unref (validation->skipped);
  g_ptr_array_unref (validation->left_out);
  g_array_unref (validation->groups);
  g_free (validation);
}

void
collective_validation_add (AppCollectiveValidation *out, const CollectiveRows *rows, guint i,
                           double predicted_s)
{
  const CollectiveRow *row = &g_array_index (rows->rows, CollectiveRow, i);
  const CollectiveCurve *curve = &g_array_index (rows->curves, CollectiveCurve, row->curve);
  const CollectiveSetting *setting
      = &g_array_index (rows->settings, CollectiveSetting, curve->setting);
  AppCollectiveRow *result = g_new0 (AppCollectiveRow, 1);
  double low = 1, high = 1;

  cost_collective_spread (&setting->numbers, &curve->shape, row->bytes, &low, &high);
  *result = (AppCollectiveRow){ .log = g_strdup (row->log),
                                .machine = g_strdup (row->machine),
                                .kind = curve->kind,
                                .ranks = curve->shape.ranks,
                                .domains = curve->shape.domains,
                                .link_class = curve->shape.link_class,
                                .bytes = row->bytes,
                                .measured_s = row->measured_s,
                                .predicted_s = predicted_s,
                                .predicted_p10_s = predicted_s * low,
                                .predicted_p90_s = predicted_s * high };
  g_ptr_array_add (out->rows, result);
}

void
collective_stats (AppErrorStats *out, const GPtrArray *rows, CollectiveFilter filter,
                  gconstpointer data)
{
  g_autofree double *errors = g_new (double, rows->len + 1);
  g_autofree double *sizes = g_new (double, rows->len + 1);
  g_autofree double *widths = g_new (double, rows->len + 1);
  guint n = 0, covered = 0;

  for (guint i = 0; i < rows->len; i++) {
    const AppCollectiveRow *row = g_ptr_array_index (rows, i);

    if (!filter (row, data))
      continue;
    errors[n] = row->predicted_s / row->measured_s - 1;
    sizes[n] = fabs (errors[n]);
    widths[n] = row->predicted_p90_s / row->predicted_p10_s;
    covered += row->measured_s >= row->predicted_p10_s && row->measured_s <= row->predicted_p90_s;
    n++;
  }
  *out = (AppErrorStats){ .n = n,
                          .median_abs_err = base_quantile (sizes, n, 0.5),
                          .mean_abs_err = n > 0 ? base_mean (sizes, n) : NAN,
                          .p90_abs_err = base_quantile (sizes, n, 0.9),
                          .bias = base_quantile (errors, n, 0.5),
                          .coverage_80 = n > 0 ? (double)covered / n : NAN,
                          .width_80 = base_quantile (widths, n, 0.5) };
}

static gboolean
is_any (const AppCollectiveRow *row, gconstpointer unused)
{
  return TRUE;
}

static gboolean
is_node (const AppCollectiveRow *row, gconstpointer unused)
{
  return row->domains == 1;
}

static gboolean
is_network (const AppCollectiveRow *row, gconstpointer unused)
{
  return row->domains > 1;
}

static gboolean
is_nvlink (const AppCollectiveRow *row, gconstpointer unused)
{
  return row->domains == 1 && row->link_class >= TOPO_LINK_CLASS_NVLINK3
         && row->link_class <= TOPO_LINK_CLASS_NVLINK5;
}

static gboolean
is_in_group (const AppCollectiveRow *row, gconstpointer data)
{
  const AppCollectiveGroup *group = data;

  return row->kind == group->kind && (row->bytes >= LARGE_BYTES) == group->is_large
         && g_str_equal (row->machine, group->machine);
}

static gint
compare_groups (gconstpointer a, gconstpointer b)
{
  const AppCollectiveGroup *x = a, *y = b;
  gint order = g_strcmp0 (x->machine, y->machine);

  if (order == 0)
    order = (gint)x->kind - (gint)y->kind;
  return order != 0 ? order : x->is_large - y->is_large;
}

static void
make_groups (AppCollectiveValidation *out)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  for (guint i = 0; i < out->rows->len; i++) {
    const AppCollectiveRow *row = g_ptr_array_index (out->rows, i);
    AppCollectiveGroup group = { .kind = row->kind, .is_large = row->bytes >= LARGE_BYTES };

    if (!g_hash_table_add (seen,
                           g_strdup_printf ("%s|%d|%d", row->machine, row->kind, group.is_large)))
      continue;
    group.machine = g_strdup (row->machine);
    g_array_append_val (out->groups, group);
  }
  g_array_sort (out->groups, compare_groups);
  for (guint i = 0; i < out->groups->len; i++) {
    AppCollectiveGroup *group = &g_array_index (out->groups, AppCollectiveGroup, i);

    collective_stats (&group->stats, out->rows, is_in_group, group);
  }
}

void
collective_validation_finish (AppCollectiveValidation *out)
{
  collective_stats (&out->all, out->rows, is_any, NULL);
  collective_stats (&out->node, out->rows, is_node, NULL);
  collective_stats (&out->network, out->rows, is_network, NULL);
  collective_stats (&out->nvlink, out->rows, is_nvlink, NULL);
  make_groups (out);
}

AppCollectiveValidation *
app_validate_collectives (const char *catalog_dir, const char *calibration,
                          const char *const *files, GError **error)
{
  g_auto (CollectiveRows) rows = { 0 };
  g_autofree double *predicted_s = NULL;
  AppCollectiveValidation *out = NULL;

  if (!collective_rows_init (&rows, catalog_dir, calibration, files, error)
      || !collective_rows_resolve (&rows, error))
    return NULL;
  predicted_s = g_new (double, rows.rows->len + 1);
  collective_rows_predict (&rows, predicted_s);
  out = collective_validation_new (&rows);
  for (guint i = 0; i < rows.rows->len; i++)
    collective_validation_add (out, &rows, i, predicted_s[i]);
  collective_validation_finish (out);
  return out;
}
