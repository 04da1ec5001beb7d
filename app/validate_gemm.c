/* app/validate_gemm.c - errors of predicted kernels, by GPU, kernel, dtype and size. */
#include "app/validate_gemm.h"

#include "app/validate-private.h"
#include "base/stats.h"

#include <math.h>

const char *const app_gemm_band_names[] = { "<2^30", "2^30..2^36", ">=2^36", "all", NULL };
const char *const app_kernel_names[]
    = { "matmul", "group_matmul", "attention_fwd", "attention_bwd", NULL };

#define MEDIUM_SIZE 1073741824.0  /* 2^30 */
#define LARGE_SIZE  68719476736.0 /* 2^36 */

static void
row_free (gpointer data)
{
  AppGemmResult *row = data;

  g_free (row->gpu);
  g_free (row);
}

static void
group_clear (gpointer data)
{
  g_free (((AppGemmGroup *)data)->gpu);
}

AppGemmValidation *
gemm_validation_new (const GemmRows *rows)
{
  AppGemmValidation *out = g_new0 (AppGemmValidation, 1);

  out->n_rows = rows->n_rows;
  out->rows = g_ptr_array_new_with_free_func (row_free);
  out->skipped = validate_counts_of (rows->skipped);
  out->groups = g_array_new (FALSE, FALSE, sizeof (AppGemmGroup));
  g_array_set_clear_func (out->groups, group_clear);
  return out;
}

void
app_gemm_validation_free (AppGemmValidation *validation)
{
  if (validation == NULL)
    return;
  g_ptr_array_unref (validation->rows);
  g_array_unref (validation->skipped);
  g_array_unref (validation->groups);
  g_free (validation);
}

void
gemm_validation_add (AppGemmValidation *out, const GemmRows *rows, guint i, double predicted_s)
{
  const GemmRow *row = &g_array_index (rows->rows, GemmRow, i);
  const GemmSetting *setting = g_ptr_array_index (rows->settings, row->setting);
  AppGemmResult *result = g_new0 (AppGemmResult, 1);

  *result = (AppGemmResult){ .gpu = g_strdup (setting->machine->gpu->slug),
                             .kind = row->kind,
                             .dtype = row->dtype,
                             .m = row->m,
                             .n = row->n,
                             .k = row->k,
                             .batch = row->batch,
                             .size = gemm_row_size (row),
                             .measured_s = row->measured_s,
                             .predicted_s = predicted_s };
  g_ptr_array_add (out->rows, result);
}

static AppGemmBand
band_of (const AppGemmResult *row)
{
  return row->size < MEDIUM_SIZE  ? APP_GEMM_SMALL
         : row->size < LARGE_SIZE ? APP_GEMM_MEDIUM
                                  : APP_GEMM_LARGE;
}

/* Rows of @group; all if it is NULL, of @band unless that is APP_GEMM_ALL. */
static gboolean
belongs (const AppGemmResult *row, const AppGemmGroup *group, AppGemmBand band)
{
  if (band != APP_GEMM_ALL && band_of (row) != band)
    return FALSE;
  return group == NULL
         || (row->kind == group->kind && row->dtype == group->dtype
             && g_str_equal (row->gpu, group->gpu));
}

static void
sum_up (AppErrorStats *out, const GPtrArray *rows, const AppGemmGroup *group, AppGemmBand band)
{
  g_autofree double *errors = g_new (double, rows->len + 1);
  g_autofree double *sizes = g_new (double, rows->len + 1);
  guint n = 0;

  for (guint i = 0; i < rows->len; i++) {
    const AppGemmResult *row = g_ptr_array_index (rows, i);

    if (!belongs (row, group, band))
      continue;
    errors[n] = row->predicted_s / row->measured_s - 1;
    sizes[n] = fabs (errors[n]);
    n++;
  }
  *out = (AppErrorStats){ .n = n,
                          .median_abs_err = base_quantile (sizes, n, 0.5),
                          .mean_abs_err = n > 0 ? base_mean (sizes, n) : NAN,
                          .p90_abs_err = base_quantile (sizes, n, 0.9),
                          .bias = base_quantile (errors, n, 0.5),
                          .coverage_80 = NAN,
                          .width_80 = NAN };
}

static gint
compare_groups (gconstpointer a, gconstpointer b)
{
  const AppGemmGroup *x = a, *y = b;
  gint order = g_strcmp0 (x->gpu, y->gpu);

  if (order == 0)
    order = (gint)x->kind - (gint)y->kind;
  if (order == 0)
    order = (gint)x->dtype - (gint)y->dtype;
  return order != 0 ? order : (gint)x->band - (gint)y->band;
}

static void
add_group (AppGemmValidation *out, GHashTable *seen, const AppGemmResult *row, AppGemmBand band)
{
  AppGemmGroup group = { .kind = row->kind, .dtype = row->dtype, .band = band };

  if (!g_hash_table_add (seen,
                         g_strdup_printf ("%s|%d|%d|%d", row->gpu, row->kind, row->dtype, band)))
    return;
  group.gpu = g_strdup (row->gpu);
  g_array_append_val (out->groups, group);
}

void
gemm_validation_finish (AppGemmValidation *out)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  for (guint i = 0; i < out->rows->len; i++) {
    const AppGemmResult *row = g_ptr_array_index (out->rows, i);

    add_group (out, seen, row, band_of (row));
    add_group (out, seen, row, APP_GEMM_ALL);
  }
  g_array_sort (out->groups, compare_groups);
  for (guint i = 0; i < out->groups->len; i++) {
    AppGemmGroup *group = &g_array_index (out->groups, AppGemmGroup, i);

    sum_up (&group->stats, out->rows, group, group->band);
  }
  sum_up (&out->all, out->rows, NULL, APP_GEMM_ALL);
  sum_up (&out->large, out->rows, NULL, APP_GEMM_LARGE);
}

AppGemmValidation *
app_validate_gemm (const char *catalog_dir, const char *calibration, const char *const *paths,
                   GError **error)
{
  g_auto (GemmRows) rows = { 0 };
  AppGemmValidation *out = NULL;

  if (!gemm_rows_init (&rows, catalog_dir, calibration, paths, error))
    return NULL;
  out = gemm_validation_new (&rows);
  for (guint i = 0; i < rows.rows->len; i++)
    gemm_validation_add (out, &rows, i, gemm_rows_predict (&rows, i));
  gemm_validation_finish (out);
  return out;
}
