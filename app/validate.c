/* app/validate.c - every row of the files, then what follows from them. */
#include "app/validate.h"

#include "app/validate-private.h"

#include <math.h>

/* Rows of this family are the runs of the crash labels' sweep that succeeded. */
#define CRASH_SWEEP_FAMILY "playbook"

typedef struct {
  const AppValidateRequest *request;
  ValidateShelf *shelf;
  AppValidation *out;
  GHashTable *skipped; /* reason -> count */
  GHashTable *assumed; /* column -> count */
  GArray *ran_risks;   /* of CRASH_SWEEP_FAMILY */
  GArray *ran_risks_pp8;
} Work;

static void
count_up (GHashTable *counts, const char *name)
{
  guint count = GPOINTER_TO_UINT (g_hash_table_lookup (counts, name));

  g_hash_table_replace (counts, g_strdup (name), GUINT_TO_POINTER (count + 1));
}

/* Predicts one row; the row is NULL, without error, where it is skipped (reason in *@out_skip). */
static gboolean
predict_one (Work *work, const ValidateCells *cells, AppValidateRow **out, char **out_skip,
             GError **error)
{
  g_auto (ValidateCase) c = { 0 };
  g_autoptr (GError) problem = NULL;

  *out = NULL;
  *out_skip = NULL;
  if (!validate_case_init (&c, work->shelf, cells, error))
    return FALSE;
  if (c.skip == NULL)
    *out = validate_row_predict (&c, work->request, &problem);
  if (problem != NULL) {
    g_propagate_error (error, g_steal_pointer (&problem));
    return FALSE;
  }
  *out_skip = g_steal_pointer (&c.skip);
  return TRUE;
}

static gboolean
is_wanted (const Work *work, const ValidateCells *cells)
{
  return work->request->phase == NULL
         || g_str_equal (validate_cell (cells, "phase"), work->request->phase);
}

static gboolean
cancelled (const Work *work, GError **error)
{
  if (work->request->cancelled == NULL || !work->request->cancelled (work->request->user_data))
    return FALSE;
  g_set_error (error, APP_ERROR, APP_ERROR_CANCELLED, "interrupted");
  return TRUE;
}

#define SHALLOW_PP 8

static void
add_risk (const AppValidateRow *row, GArray *risks, GArray *risks_pp8)
{
  g_array_append_val (risks, row->oom_risk);
  if (row->pp <= SHALLOW_PP)
    g_array_append_val (risks_pp8, row->oom_risk);
}

static void
keep_row (Work *work, const ValidateCells *cells, AppValidateRow *row)
{
  g_ptr_array_add (work->out->rows, row);
  validate_hint_unit (row, work->out->hints);
  for (guint i = 0; i < row->assumed->len; i++)
    count_up (work->assumed, g_ptr_array_index (row->assumed, i));
  if (row->ran && g_str_equal (validate_cell (cells, "family"), CRASH_SWEEP_FAMILY))
    add_risk (row, work->ran_risks, work->ran_risks_pp8);
}

static void
keep_skipped (Work *work, const ValidateCells *cells, const char *reason)
{
  const AppSkipped skipped = { g_strdup (validate_cell (cells, "id")), g_strdup (reason),
                               base_csv_line (cells->csv, cells->row) };

  g_array_append_val (work->out->skipped_rows, skipped);
  count_up (work->skipped, reason);
}

static void
skipped_clear (gpointer data)
{
  AppSkipped *skipped = data;

  g_free (skipped->id);
  g_free (skipped->reason);
}

static gboolean
read_file (Work *work, const char *file, GError **error)
{
  g_autoptr (BaseCsv) csv = base_csv_new_from_file (file, error);
  guint n = csv != NULL ? base_csv_n_rows (csv) : 0;

  if (csv == NULL || !validate_check_columns (csv, work->request->by, file, error))
    return FALSE;
  validate_hint_columns (csv, file, work->out->hints);
  for (guint i = 0; i < n; i++) {
    const ValidateCells cells = { csv, file, i };
    AppValidateRow *row = NULL;
    g_autofree char *skip = NULL;

    if (cancelled (work, error))
      return FALSE;
    if (work->request->progress != NULL)
      work->request->progress (file, i, n, work->request->user_data);
    if (!is_wanted (work, &cells))
      continue;
    work->out->n_rows++;
    if (!predict_one (work, &cells, &row, &skip, error))
      return FALSE;
    if (row != NULL)
      keep_row (work, &cells, row);
    else
      keep_skipped (work, &cells, skip);
  }
  return TRUE;
}

/* AUC of the risk: rows that crashed against the runs of the same sweep. */
static gboolean
read_crashes (Work *work, GError **error)
{
  const char *file = work->request->crash_labels;
  g_autoptr (GArray) risks = g_array_new (FALSE, FALSE, sizeof (double));
  g_autoptr (GArray) risks_pp8 = g_array_new (FALSE, FALSE, sizeof (double));
  g_autoptr (BaseCsv) csv = NULL;

  if (file == NULL)
    return TRUE;
  csv = base_csv_new_from_file (file, error);
  if (csv == NULL || !validate_check_columns (csv, NULL, file, error))
    return FALSE;
  for (guint i = 0; i < base_csv_n_rows (csv); i++) {
    const ValidateCells cells = { csv, file, i };
    AppValidateRequest plain = *work->request;
    static const char *const no_groups[] = { NULL };
    AppValidateRow *row = NULL;
    g_autofree char *skip = NULL;
    Work crash = *work;

    plain.by = no_groups;
    crash.request = &plain;
    if (cancelled (work, error) || !predict_one (&crash, &cells, &row, &skip, error))
      return FALSE;
    if (row != NULL)
      add_risk (row, risks, risks_pp8);
    validate_row_free (row);
  }
  work->out->oom.noisy_auc = validate_stats_auc (risks, work->ran_risks);
  work->out->oom.noisy_auc_pp8 = validate_stats_auc (risks_pp8, work->ran_risks_pp8);
  return TRUE;
}

static gint
most_first (gconstpointer a, gconstpointer b)
{
  const AppCount *x = a, *y = b;

  return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
                              : g_strcmp0 (x->name, y->name);
}

static void
count_clear (gpointer count)
{
  g_free (((AppCount *)count)->name);
}

GArray *
validate_counts_of (GHashTable *table)
{
  GArray *counts = g_array_new (FALSE, FALSE, sizeof (AppCount));
  GHashTableIter iter;
  gpointer name = NULL, count = NULL;

  g_array_set_clear_func (counts, count_clear);
  g_hash_table_iter_init (&iter, table);
  while (g_hash_table_iter_next (&iter, &name, &count)) {
    AppCount one = { g_strdup (name), GPOINTER_TO_UINT (count) };

    g_array_append_val (counts, one);
  }
  g_array_sort (counts, most_first);
  return counts;
}

static gboolean
work_through (Work *work, GError **error)
{
  g_auto (GStrv) files = base_csv_paths (work->request->files, error);

  if (files == NULL)
    return FALSE;
  for (char **file = files; *file != NULL; file++)
    if (!read_file (work, *file, error))
      return FALSE;
  validate_summarise (work->out);
  if (!read_crashes (work, error))
    return FALSE;
  work->out->skipped = validate_counts_of (work->skipped);
  work->out->assumed = validate_counts_of (work->assumed);
  return TRUE;
}

AppValidation *
app_validate (const AppValidateRequest *request, GError **error)
{
  g_auto (ValidateShelf) shelf = { 0 };
  g_autoptr (AppValidation) out = g_new0 (AppValidation, 1);
  g_autoptr (GHashTable) skipped = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (GHashTable) assumed = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (GArray) ran_risks = g_array_new (FALSE, FALSE, sizeof (double));
  g_autoptr (GArray) ran_risks_pp8 = g_array_new (FALSE, FALSE, sizeof (double));
  Work work = { request, &shelf, out, skipped, assumed, ran_risks, ran_risks_pp8 };

  out->rows = g_ptr_array_new_with_free_func ((GDestroyNotify)validate_row_free);
  out->by = g_strdupv ((char **)request->by);
  out->hints = g_ptr_array_new_with_free_func (g_free);
  out->skipped_rows = g_array_new (FALSE, FALSE, sizeof (AppSkipped));
  g_array_set_clear_func (out->skipped_rows, skipped_clear);
  if (!validate_shelf_init (&shelf, request->catalog_dir, request->calibration, request->db_path,
                            error))
    return NULL;
  out->calibration = g_strdup (cost_calibration_name (shelf.calibration));
  out->calibration_text = cost_calibration_format (shelf.calibration);
  return work_through (&work, error) ? g_steal_pointer (&out) : NULL;
}

void
app_validation_free (AppValidation *validation)
{
  if (validation == NULL)
    return;
  g_free (validation->calibration);
  g_free (validation->calibration_text);
  g_clear_pointer (&validation->rows, g_ptr_array_unref);
  g_clear_pointer (&validation->skipped, g_array_unref);
  g_clear_pointer (&validation->skipped_rows, g_array_unref);
  g_clear_pointer (&validation->hints, g_ptr_array_unref);
  g_clear_pointer (&validation->assumed, g_array_unref);
  g_strfreev (validation->by);
  g_clear_pointer (&validation->groups, g_ptr_array_unref);
  g_free (validation);
}

static gint
worst_first (gconstpointer a, gconstpointer b)
{
  const AppValidateRow *x = *(const AppValidateRow *const *)a;
  const AppValidateRow *y = *(const AppValidateRow *const *)b;
  double dx = fabs (log (x->predicted_s / x->measured_s));
  double dy = fabs (log (y->predicted_s / y->measured_s));

  return dx != dy ? (dx < dy) - (dx > dy) : g_strcmp0 (x->id, y->id);
}

GPtrArray *
app_validation_worst (const AppValidation *validation)
{
  GPtrArray *worst = g_ptr_array_new ();

  for (guint i = 0; i < validation->rows->len; i++) {
    AppValidateRow *row = g_ptr_array_index (validation->rows, i);

    if (row->use >= 1 && row->measured_s > 0)
      g_ptr_array_add (worst, row);
  }
  g_ptr_array_sort (worst, worst_first);
  return worst;
}
