/* app/calibrate_data.c - the rows of a fit and how far their predictions are off at any x. */
#include "app/calibrate-private.h"
#include "app/calibrate_gemm.h"

#include "base/cpus.h"

#include <math.h>
#include <string.h>

static void
row_free (gpointer data)
{
  CalibrateRow *row = data;

  validate_case_clear (&row->c);
  g_free (row->group);
  g_free (row->family);
  g_free (row);
}

static void
setting_clear (gpointer data)
{
  CalibrateSetting *setting = data;

  cost_numbers_clear (&setting->numbers);
  cost_numbers_clear (&setting->moved);
}

static void
count_up (GHashTable *counts, const char *name)
{
  guint count = GPOINTER_TO_UINT (g_hash_table_lookup (counts, name));

  g_hash_table_replace (counts, g_strdup (name), GUINT_TO_POINTER (count + 1));
}

/* Index of the numbers that (machine, profile) of @c resolves to. */
static guint
setting_of (CalibrateData *data, const ValidateCase *c)
{
  CalibrateSetting setting
      = { .machine = c->setting.machine, .profile = c->setting.profile->calibration };

  for (guint i = 0; i < data->settings->len; i++) {
    const CalibrateSetting *known = &g_array_index (data->settings, CalibrateSetting, i);

    if (known->machine == setting.machine && g_str_equal (known->profile, setting.profile))
      return i;
  }
  g_array_append_val (data->settings, setting);
  return data->settings->len - 1;
}

/* The row's group; where it names none, its configuration: repeats of one run belong together.
 * Returns: (owned). */
static char *
group_of (const ValidateCase *c, const ValidateCells *cells)
{
  const char *group = validate_cell (cells, "group");
  const ModelArch *arch = c->setting.arch;
  const ModelJob *job = &c->problem.job;
  g_autofree char *layout = NULL;

  if (*group != '\0')
    return g_strdup (group);
  layout = model_layout_format (&c->layout, c->setting.profile);
  return g_strdup_printf ("%s|%s|%s|%u|%.0f|%.0f|%.0f|%.0f|%.0f|%s", c->setting.machine->slug,
                          c->setting.machine->gpu->slug, c->setting.profile->name,
                          c->problem.problem.gpus, (double)arch->layers, (double)arch->hidden,
                          (double)arch->attention.heads, (double)job->global_batch,
                          (double)job->seq, layout);
}

static void
count_assumed (GHashTable *assumed, const ValidateCase *c)
{
  for (guint i = 0; i < c->assumed->len; i++)
    count_up (assumed, g_ptr_array_index (c->assumed, i));
}

/* What rows lack, counted by name. */
typedef struct {
  GHashTable *skipped, *assumed;
} Counts;

static gboolean
read_row (CalibrateData *data, const ValidateCells *cells, const Counts *counts, GError **error)
{
  CalibrateRow *row = g_new0 (CalibrateRow, 1);

  if (!validate_case_init (&row->c, &data->shelf, cells, error)) {
    g_free (row);
    return FALSE;
  }
  if (row->c.skip != NULL) {
    count_up (counts->skipped, row->c.skip);
    row_free (row);
    return TRUE;
  }
  count_assumed (counts->assumed, &row->c);
  row->setting = setting_of (data, &row->c);
  row->group = group_of (&row->c, cells);
  row->family = g_strdup (validate_cell (cells, "family"));
  g_ptr_array_add (data->rows, row);
  return validate_cell_number (cells, "use", &row->use, error)
         && validate_measured_step (&row->c, &row->measured_s, error);
}

static gboolean
read_file (CalibrateData *data, const char *file, GPtrArray *tables, const Counts *counts,
           GError **error)
{
  BaseCsv *csv = base_csv_new_from_file (file, error);

  if (csv == NULL)
    return FALSE;
  g_ptr_array_add (tables, csv);
  if (!validate_check_columns (csv, (const char *const *)data->all->by, file, error))
    return FALSE;
  validate_hint_columns (csv, file, data->all->hints);
  for (guint i = 0; i < base_csv_n_rows (csv); i++) {
    const ValidateCells cells = { csv, file, i };

    if (!g_str_equal (validate_cell (&cells, "phase"), "train"))
      continue;
    data->all->n_rows++;
    if (!read_row (data, &cells, counts, error))
      return FALSE;
  }
  return TRUE;
}

/* Numbers of matrix products, before anything rests on them. Errors shown are of unseen shapes,
 * unless no error of the runs is either. */
static gboolean
fit_products (CalibrateData *data, const AppCalibrateRequest *request, GError **error)
{
  const AppCalibrateGemmRequest gemm
      = { .catalog_dir = request->validate.catalog_dir,
          .base = request->validate.calibration,
          .paths = request->gemm,
          .cv = request->cv == APP_CV_NONE ? APP_GEMM_CV_NONE : APP_GEMM_CV_SHAPE };

  data->gemm = app_calibrate_gemm_into (&gemm, data->shelf.calibration, error);
  return data->gemm != NULL;
}

static void
refuse_empty (const AppValidation *all, GError **error)
{
  const AppCount *most = all->skipped->len > 0 ? &g_array_index (all->skipped, AppCount, 0) : NULL;

  if (most == NULL)
    g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
                 "the files hold no row with phase 'train': nothing to fit to");
  else
    g_set_error (
        error, APP_ERROR, APP_ERROR_USAGE,
        "no row of the files can be predicted: of %u, %u because of '%s'; 'plait validate' "
        "lists the others",
        all->n_rows, most->count, most->name);
}

gboolean
calibrate_data_init (CalibrateData *data, const AppCalibrateRequest *request, AppValidation *all,
                     GError **error)
{
  const AppValidateRequest *validate = &request->validate;
  g_autoptr (GHashTable) skipped = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (GHashTable) assumed = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  const Counts counts = { skipped, assumed };

  *data = (CalibrateData){ .all = all };
  data->rows = g_ptr_array_new_with_free_func (row_free);
  data->tables = g_ptr_array_new_with_free_func ((GDestroyNotify)base_csv_free);
  data->settings = g_array_new (FALSE, FALSE, sizeof (CalibrateSetting));
  g_array_set_clear_func (data->settings, setting_clear);
  if (!validate_shelf_init (&data->shelf, validate->catalog_dir, validate->calibration,
                            validate->db_path, error)
      || (request->gemm != NULL && !fit_products (data, request, error))
      || !calibrate_numbers_init (&data->numbers, data->shelf.calibration, error))
    return FALSE;
  data->files = base_csv_paths (validate->files, error);
  if (data->files == NULL)
    return FALSE;
  for (char **file = data->files; *file != NULL; file++)
    if (!read_file (data, *file, data->tables, &counts, error))
      return FALSE;
  all->skipped = validate_counts_of (skipped);
  all->assumed = validate_counts_of (assumed);
  all->calibration = g_strdup (cost_calibration_name (data->shelf.calibration));
  for (guint i = 0; i < data->rows->len; i++) {
    CalibrateRow *row = g_ptr_array_index (data->rows, i);

    row->use = isnan (row->use) ? 1 : row->use;
  }
  if (data->rows->len > 0)
    return TRUE;
  refuse_empty (all, error);
  return FALSE;
}

void
calibrate_data_clear (CalibrateData *data)
{
  if (data == NULL)
    return;
  g_clear_pointer (&data->rows, g_ptr_array_unref);
  g_clear_pointer (&data->settings, g_array_unref);
  g_clear_pointer (&data->tables, g_ptr_array_unref);
  g_clear_pointer (&data->files, g_strfreev);
  g_clear_pointer (&data->gemm, app_gemm_calibration_free);
  validate_shelf_clear (&data->shelf);
}

/* ---- numbers at x ---- */

static gboolean
resolve (CalibrateData *data, const CalibrateSetting *setting, CostNumbers *out, GError **error)
{
  cost_numbers_clear (out);
  return cost_numbers_init (out, data->shelf.calibration, setting->machine, setting->profile,
                            error);
}

static void
apply (const CalibrateData *data, const double *x)
{
  double sum[G_N_ELEMENTS (data->numbers.slots)];

  for (guint j = 0; j < data->numbers.n; j++)
    sum[j] = x[j] + (data->offset != NULL ? data->offset[j] : 0);
  calibrate_numbers_apply (&data->numbers, sum);
}

/* Whether two resolutions of one setting differ in any number. */
static gboolean
differ (const CostNumbers *a, const CostNumbers *b)
{
  return memcmp (a, b, offsetof (CostNumbers, assumed)) != 0;
}

/* ln (predicted / measured) of one row; 0 where no time was measured. */
static gboolean
residual (CalibrateRow *row, const CostNumbers *numbers, double *out, GError **error)
{
  g_auto (CostPrediction) prediction = { 0 };

  *out = 0;
  if (!(row->measured_s > 0))
    return TRUE;
  row->c.problem.problem.numbers = numbers;
  if (!cost_predict (&row->c.problem.problem, &row->c.layout, &prediction, error))
    return FALSE;
  *out = log (prediction.step_s / row->measured_s);
  return TRUE;
}

/* A share of the rows, for one thread. */
typedef struct {
  CalibrateData *data;
  double *r;
  gboolean moved; /* only rows whose numbers differ from the last full x */
  guint first, step;
  GError *error;
} Share;

static gpointer
predict_share (gpointer user_data)
{
  Share *share = user_data;
  CalibrateData *data = share->data;

  for (guint i = share->first; i < data->rows->len && share->error == NULL; i += share->step) {
    CalibrateRow *row = g_ptr_array_index (data->rows, i);
    const CalibrateSetting *setting
        = &g_array_index (data->settings, CalibrateSetting, row->setting);

    if (share->moved && !differ (&setting->numbers, &setting->moved))
      continue;
    residual (row, share->moved ? &setting->moved : &setting->numbers, &share->r[i], &share->error);
  }
  return NULL;
}

static gboolean
predict_all (CalibrateData *data, gboolean moved, double *r, GError **error)
{
  guint n = CLAMP (base_cpus_count (), 1, 16);
  g_autofree Share *shares = g_new0 (Share, n);
  g_autofree GThread **threads = g_new0 (GThread *, n);
  gboolean ok = TRUE;

  for (guint i = 0; i < n; i++) {
    shares[i] = (Share){ data, r, moved, i, n, NULL };
    if (i > 0)
      threads[i] = g_thread_new ("plait-fit", predict_share, &shares[i]);
  }
  predict_share (&shares[0]);
  for (guint i = 1; i < n; i++)
    g_thread_join (threads[i]);
  for (guint i = 0; i < n; i++)
    if (shares[i].error != NULL) {
      if (ok)
        g_propagate_error (error, shares[i].error);
      else
        g_error_free (shares[i].error);
      ok = FALSE;
    }
  return ok;
}

gboolean
calibrate_residuals (const double *x, guint moved, double *r, gpointer user_data, GError **error)
{
  CalibrateData *data = user_data;

  apply (data, x);
  for (guint i = 0; i < data->settings->len; i++) {
    CalibrateSetting *setting = &g_array_index (data->settings, CalibrateSetting, i);

    if (!resolve (data, setting, moved == G_MAXUINT ? &setting->numbers : &setting->moved, error))
      return FALSE;
  }
  return predict_all (data, moved != G_MAXUINT, r, error);
}

gboolean
calibrate_move_to (CalibrateData *data, const double *x, GError **error)
{
  data->offset = NULL;
  apply (data, x);
  for (guint i = 0; i < data->settings->len; i++) {
    CalibrateSetting *setting = &g_array_index (data->settings, CalibrateSetting, i);

    if (!resolve (data, setting, &setting->numbers, error))
      return FALSE;
  }
  for (guint i = 0; i < data->rows->len; i++) {
    CalibrateRow *row = g_ptr_array_index (data->rows, i);

    row->c.problem.problem.numbers
        = &g_array_index (data->settings, CalibrateSetting, row->setting).numbers;
  }
  return TRUE;
}
