/* app/gemm_rows.c - reading and pricing measured kernels. */
#include "app/gemm_rows.h"

#include "app/validate-private.h"
#include "base/suggest.h"
#include "costmodel/attention.h"
#include "model/dtype.h"

#include <math.h>
#include <string.h>

#define MAX_DIMENSION (1u << 30)
#define GPUS_PER_NODE 8 /* of a board, where a card's file names none; no kernel depends on it */

static void
skip (GemmRows *rows, const char *reason)
{
  guint count = GPOINTER_TO_UINT (g_hash_table_lookup (rows->skipped, reason));

  g_hash_table_replace (rows->skipped, g_strdup (reason), GUINT_TO_POINTER (count + 1));
}

/* ---- settings ---- */

static void
setting_free (gpointer data)
{
  GemmSetting *setting = data;

  cost_numbers_clear (&setting->numbers);
  topo_machine_free (setting->machine);
  g_free (setting);
}

void
gemm_setting_refresh (GemmSetting *setting)
{
  cost_context_init_groups (&setting->context, setting->machine, NULL, &setting->numbers, NULL, 0);
}

/* Kernels alone, written for their GPU, at the rate they have outside a step. */
static GemmSetting *
new_setting (const GemmRows *rows, const TopoGpu *gpu, GError **error)
{
  GemmSetting *setting = g_new0 (GemmSetting, 1);

  setting->machine = topo_machine_load_for_gpu (rows->catalog, gpu->slug, GPUS_PER_NODE, error);
  if (setting->machine == NULL
      || !cost_numbers_init (&setting->numbers, rows->calibration, setting->machine, "default",
                             error)) {
    setting_free (setting);
    return NULL;
  }
  double step = setting->numbers.gpu.gemm.step_ratio;
  for (guint i = 0; i < G_N_ELEMENTS (setting->numbers.gpu.attention_ratio); i++)
    setting->numbers.gpu.attention_ratio[i] /= step;
  setting->numbers.gpu.gemm.step_ratio = 1;
  setting->numbers.profile.attention_portable_ratio = 0;
  gemm_setting_refresh (setting);
  return setting;
}

gboolean
gemm_rows_setting (GemmRows *rows, const char *name, guint *out, GError **error)
{
  const TopoGpu *gpu = topo_gpu_table_find (rows->gpus, name, error);
  if (gpu == NULL)
    return FALSE;
  guint known = GPOINTER_TO_UINT (g_hash_table_lookup (rows->setting_keys, gpu->slug));
  if (known == 0) {
    GemmSetting *setting = new_setting (rows, gpu, error);

    if (setting == NULL)
      return FALSE;
    g_ptr_array_add (rows->settings, setting);
    known = rows->settings->len;
    g_hash_table_insert (rows->setting_keys, g_strdup (gpu->slug), GUINT_TO_POINTER (known));
  }
  *out = known - 1;
  return TRUE;
}

/* ---- rows ---- */

/* "A100-80G-SXM-bf16-trtllm.csv": the longest beginning that is a GPU, then a dtype.
 * *out_gpu, *out_dtype: (out) (owned), NULL where the name does not say. */
static void
split_name (const GemmRows *rows, const char *path, char **out_gpu, char **out_dtype)
{
  g_autofree char *base = g_path_get_basename (path);
  char *dot = strrchr (base, '.');
  if (dot != NULL)
    *dot = '\0';
  g_auto (GStrv) parts = g_strsplit (base, "-", -1);
  g_autoptr (GString) name = g_string_new (NULL);
  *out_gpu = *out_dtype = NULL;
  for (guint i = 0; parts[i] != NULL; i++) {
    g_string_append_printf (name, "%s%s", i > 0 ? "-" : "", parts[i]);
    if (topo_gpu_table_find (rows->gpus, name->str, NULL) == NULL)
      continue;
    g_free (*out_gpu);
    g_free (*out_dtype);
    *out_gpu = g_strdup (name->str);
    *out_dtype = g_strdup (parts[i + 1]);
  }
}

/* Adds @row, or counts why it cannot be predicted. */
static gboolean
add_row (GemmRows *rows, GemmRow *row, const char *gpu, const char *dtype, GError **error)
{
  g_autoptr (GError) why = NULL;
  rows->n_rows++;
  if (!gemm_rows_setting (rows, gpu, &row->setting, &why)) {
    skip (rows, why->message);
    return TRUE;
  }
  gint index = base_name_index (dtype, model_dtype_names);
  if (index < 0) {
    g_autofree char *reason
        = g_strdup_printf ("dtype '%s': expected bf16, fp16, fp8, mxfp8, nvfp4 or fp32", dtype);
    skip (rows, reason);
    return TRUE;
  }
  row->dtype = (ModelDtype)index;
  const GemmSetting *setting = g_ptr_array_index (rows->settings, row->setting);
  if (!cost_context_check_dtype (&setting->context, row->dtype, &why))
    skip (rows, why->message);
  else
    g_array_append_val (rows->rows, *row);
  return TRUE;
}

static gboolean
refuse (const ValidateCells *cells, const char *column, const char *what, GError **error)
{
  g_set_error (error, APP_ERROR, APP_ERROR_USAGE, "%s:%u: %s is '%s', expected %s", cells->file,
               base_csv_line (cells->csv, cells->row), column, validate_cell (cells, column), what);
  return FALSE;
}

/* A number > 0 that has to be there. */
static gboolean
read_positive (const ValidateCells *cells, const char *column, double *out, GError **error)
{
  if (!validate_cell_number (cells, column, out, error))
    return FALSE;
  return *out > 0 && isfinite (*out) ? TRUE : refuse (cells, column, "a number > 0", error);
}

static gboolean
read_dimension (const ValidateCells *cells, const char *column, guint64 *out, GError **error)
{
  if (!validate_cell_count (cells, column, FALSE, MAX_DIMENSION, out, error))
    return FALSE;
  return *out > 0 ? TRUE : refuse (cells, column, "a count", error);
}

static gboolean
read_time (GemmRows *rows, const ValidateCells *cells, const char *file_gpu, const char *file_dtype,
           GError **error)
{
  const char *gpu = validate_cell (cells, "gpu"), *dtype = validate_cell (cells, "dtype");
  GemmRow row = { .kind = APP_KERNEL_MATMUL, .repeated = TRUE };
  guint64 batch = 1;
  gpu = *gpu != '\0' ? gpu : file_gpu;
  dtype = *dtype != '\0' ? dtype : file_dtype;
  if (gpu == NULL || dtype == NULL) {
    g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
                 "%s: neither a column '%s' nor the file's name says it: add the column, or call "
                 "the file GPU-DTYPE.csv, as in h100-sxm-80g-bf16.csv",
                 cells->file, gpu == NULL ? "gpu" : "dtype");
    return FALSE;
  }
  if (!read_dimension (cells, "m", &row.m, error) || !read_dimension (cells, "n", &row.n, error)
      || !read_dimension (cells, "k", &row.k, error)
      || !validate_cell_count (cells, "batch", FALSE, MAX_DIMENSION, &batch, error)
      || !read_positive (cells, "time_s", &row.measured_s, error))
    return FALSE;
  row.batch = (guint32)batch;
  return add_row (rows, &row, gpu, dtype, error);
}

static gboolean
read_efficiency (GemmRows *rows, const ValidateCells *cells, GError **error)
{
  GemmRow row = { .dtype = MODEL_DTYPE_BF16 };
  double efficiency = NAN, peak_tflops = NAN;
  const char *dtype = validate_cell (cells, "dtype");
  if (!read_positive (cells, "efficiency", &efficiency, error)
      || !read_positive (cells, "peak_tflops", &peak_tflops, error))
    return FALSE;
  if (!gemm_row_parse_shape (&row, validate_cell (cells, "op"), validate_cell (cells, "shape"),
                             efficiency, peak_tflops * 1e12, error)) {
    g_prefix_error (error, "%s:%u: ", cells->file, base_csv_line (cells->csv, cells->row));
    return FALSE;
  }
  return add_row (rows, &row, validate_cell (cells, "gpu"), *dtype != '\0' ? dtype : "bf16", error);
}

static gboolean
read_file (GemmRows *rows, const char *file, GError **error)
{
  static const char *const times[] = { "m", "n", "k", "time_s", NULL };
  static const char *const efficiencies[]
      = { "gpu", "op", "shape", "peak_tflops", "efficiency", NULL };
  g_autoptr (BaseCsv) csv = base_csv_new_from_file (file, error);
  g_autofree char *gpu = NULL, *dtype = NULL;
  if (csv == NULL)
    return FALSE;
  gboolean is_efficiency = base_csv_column (csv, "efficiency") >= 0;
  if (!base_csv_require_columns (csv, is_efficiency ? efficiencies : times, error))
    return FALSE;
  split_name (rows, file, &gpu, &dtype);
  for (guint i = 0; i < base_csv_n_rows (csv); i++) {
    ValidateCells cells = { csv, file, i };

    if (!(is_efficiency ? read_efficiency (rows, &cells, error)
                        : read_time (rows, &cells, gpu, dtype, error)))
      return FALSE;
  }
  return TRUE;
}

gboolean
gemm_rows_init (GemmRows *rows, const char *catalog_dir, const char *calibration,
                const char *const *paths, GError **error)
{
  *rows = (GemmRows){ 0 };
  rows->setting_keys = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  rows->settings = g_ptr_array_new_with_free_func (setting_free);
  rows->rows = g_array_new (FALSE, FALSE, sizeof (GemmRow));
  rows->skipped = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  rows->catalog = base_catalog_new (catalog_dir, error);
  if (rows->catalog != NULL)
    rows->gpus = topo_gpu_table_new (rows->catalog, error);
  if (rows->gpus != NULL)
    rows->calibration
        = cost_calibration_load (rows->catalog, calibration != NULL ? calibration : "default",
                                 error);
  g_auto (GStrv) files = rows->calibration != NULL ? base_csv_paths (paths, error) : NULL;
  gboolean ok = files != NULL;
  for (char **file = files; ok && *file != NULL; file++)
    ok = read_file (rows, *file, error);
  if (!ok)
    gemm_rows_clear (rows);
  return ok;
}

void
gemm_rows_clear (GemmRows *rows)
{
  if (rows == NULL)
    return;
  g_clear_pointer (&rows->setting_keys, g_hash_table_unref);
  g_clear_pointer (&rows->settings, g_ptr_array_unref);
  g_clear_pointer (&rows->rows, g_array_unref);
  g_clear_pointer (&rows->skipped, g_hash_table_unref);
  g_clear_pointer (&rows->gpus, topo_gpu_table_free);
  g_clear_pointer (&rows->calibration, cost_calibration_free);
  g_clear_pointer (&rows->catalog, base_catalog_free);
}

/* ---- prices ---- */

static double
product_s (const GemmSetting *setting, const GemmRow *row)
{
  CostGemmContext gemm = setting->context.gemm[row->dtype];
  gemm.accumulate = row->accumulate;
  if (row->repeated)
    gemm.warm_bytes
        = setting->numbers.gpu.gemm.warm_l2_ratio * (double)setting->machine->gpu->l2_bytes;
  return cost_gemm_s (&gemm, row->m, row->n, row->k, row->batch);
}

double
gemm_rows_predict (const GemmRows *rows, guint i)
{
  const GemmRow *row = &g_array_index (rows->rows, GemmRow, i);
  const GemmSetting *setting = g_ptr_array_index (rows->settings, row->setting);
  if (row->kind == APP_KERNEL_MATMUL)
    return product_s (setting, row);
  if (row->kind == APP_KERNEL_GROUPED_MATMUL)
    return product_s (setting, row) * setting->numbers.step.grouped_ratio;
  CostAttentionContext attention
      = { .peak_flop_per_s = setting->context.peak_flop_per_s[row->dtype],
          .hbm_bytes_per_s = setting->context.hbm_bytes_per_s,
          .numbers = &setting->numbers };
  return cost_attention_s (&attention, &row->attention, row->kind == APP_KERNEL_ATTENTION_BACKWARD);
}
