/* app/calibrate.c - fit, cross-validate, write. */
#include "app/calibrate.h"

#include "app/calibrate-private.h"
#include "app/calibrate_file-private.h"
#include "app/calibrate_gemm.h"
#include "app/calibrate_memory-private.h"
#include "app/calibration_source.h"
#include "base/hash.h"
#include "base/philox.h"

#include <math.h>
#include <string.h>

#define RESIDUAL_SD 0.08 /* what is left after the fit: log standard deviation of good rows */
#define HUBER       1.5
#define FAMILY_CAP  40.0 /* a family weighs as much as so many rows, however many it has */
#define ROUNDS      5
/* Rounds of a fold's fit. It starts from the fit that saw the fold and has to get away from there:
 * it stops by itself where nothing moves any more. */
#define CHORDS         40
#define N_FOLDS        5
#define MOST_SEEN      10
#define FEW_SHOT_LEAST 13 /* rows of a family that is left out and seen in part */

typedef struct {
  const AppCalibrateRequest *request;
  CalibrateData data;
  CostFitProblem problem;
  double *weights; /* (owned) of all rows */
  CostFitPoint full;
  AppCalibration *out;
} Work;

static void
work_clear (Work *work)
{
  calibrate_data_clear (&work->data);
  g_clear_pointer (&work->weights, g_free);
  cost_fit_point_clear (&work->full);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Work, work_clear)

static CalibrateRow *
row_at (const Work *work, guint i)
{
  return g_ptr_array_index (work->data.rows, i);
}

/* use, with each family's sum capped. */
static void
weigh (Work *work)
{
  guint n = work->data.rows->len;
  g_autoptr (GHashTable) sums = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, g_free);

  work->weights = g_new0 (double, n);
  for (guint i = 0; i < n; i++) {
    const CalibrateRow *row = row_at (work, i);
    double *sum = g_hash_table_lookup (sums, row->family);

    work->weights[i] = row->measured_s > 0 ? row->use : 0;
    if (sum == NULL) {
      sum = g_new0 (double, 1);
      g_hash_table_insert (sums, row->family, sum);
    }
    *sum += work->weights[i];
  }
  for (guint i = 0; i < n; i++) {
    double sum = *(double *)g_hash_table_lookup (sums, row_at (work, i)->family);

    work->weights[i] *= MIN (1, FAMILY_CAP / MAX (sum, 1e-9));
  }
}

/* ---- folds ---- */

/* Which fold leaves out each row: a number per family, or one of N_FOLDS by its group. */
static guint
assign_folds (const Work *work, AppCv cv, guint *out)
{
  g_autoptr (GHashTable) families = g_hash_table_new (g_str_hash, g_str_equal);
  guint n = work->data.rows->len;

  for (guint i = 0; i < n; i++) {
    const CalibrateRow *row = row_at (work, i);
    guint known = GPOINTER_TO_UINT (g_hash_table_lookup (families, row->family));

    if (cv == APP_CV_GROUP) {
      out[i] = (guint)(base_hash_bytes (row->group, strlen (row->group), 1) % N_FOLDS);
      continue;
    }
    if (known == 0) {
      known = g_hash_table_size (families) + 1;
      g_hash_table_insert (families, row->family, GUINT_TO_POINTER (known));
    }
    out[i] = known - 1;
  }
  return cv == APP_CV_GROUP ? N_FOLDS : g_hash_table_size (families);
}

static gboolean
fit_without (Work *work, const guint *folds, guint fold, double *out_x, GError **error)
{
  guint n = work->data.rows->len;
  g_autofree double *weights = g_memdup2 (work->weights, n * sizeof *weights);

  for (guint i = 0; i < n; i++)
    if (folds[i] == fold)
      weights[i] = 0;
  work->data.offset = NULL;
  return cost_fit_again (&work->problem, weights, CHORDS, &work->full, out_x, error);
}

/* Predictions of the rows of @fold (all: G_MAXUINT) with the numbers at @x. */
static gboolean
predict_fold (Work *work, const guint *folds, guint fold, const double *x, AppValidateRow **rows,
              GError **error)
{
  if (!calibrate_move_to (&work->data, x, error))
    return FALSE;
  for (guint i = 0; i < work->data.rows->len; i++) {
    g_autoptr (GError) local = NULL;

    if (fold != G_MAXUINT && folds[i] != fold)
      continue;
    rows[i] = validate_row_predict (&row_at (work, i)->c, &work->request->validate, &local);
    if (rows[i] != NULL)
      continue;
    if (local == NULL)
      g_set_error (&local, APP_ERROR, APP_ERROR_USAGE, "%s", row_at (work, i)->c.skip);
    g_propagate_error (error, g_steal_pointer (&local));
    return FALSE;
  }
  return TRUE;
}

/* Without a time or a peak there is nothing to hold the numbers against. */
static gboolean
check_measured (const Work *work, GError **error)
{
  const GPtrArray *rows = work->out->validation->rows;

  for (guint i = 0; i < rows->len; i++) {
    const AppValidateRow *row = g_ptr_array_index (rows, i);

    if (row->use > 0 && (row->measured_s > 0 || row->measured_bytes > 0))
      return TRUE;
  }
  g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
               "no row with a use above 0 says what was measured: give step_s (seconds), tok_s_gpu "
               "or mem_gib");
  return FALSE;
}

static gboolean
cross_validate (Work *work, GError **error)
{
  guint n = work->data.rows->len;
  g_autofree guint *folds = g_new0 (guint, n);
  g_autofree AppValidateRow **rows = g_new0 (AppValidateRow *, n);
  g_autofree double *x = g_new0 (double, work->problem.n_parameters);
  guint n_folds
      = work->request->cv == APP_CV_NONE ? 0 : assign_folds (work, work->request->cv, folds);
  gboolean ok = TRUE;

  if (n_folds == 0)
    ok = predict_fold (work, folds, G_MAXUINT, work->full.x, rows, error);
  for (guint fold = 0; ok && fold < n_folds; fold++)
    ok = fit_without (work, folds, fold, x, error)
         && predict_fold (work, folds, fold, x, rows, error);
  for (guint i = 0; i < n; i++)
    if (rows[i] != NULL) {
      g_ptr_array_add (work->out->validation->rows, rows[i]);
      validate_hint_unit (rows[i], work->out->validation->hints);
    }
  return ok && check_measured (work, error);
}

/* ---- a family of which some rows are seen ---- */

/*
 * MOST_SEEN of the rows of @fold into @out, no two of one group while there are others; spread by a
 * hash. Returns how many there are.
 */
static guint
choose_rows (const Work *work, const guint *folds, guint fold, guint *out)
{
  guint n = work->data.rows->len, chosen = 0;
  g_autoptr (GHashTable) groups = g_hash_table_new (g_str_hash, g_str_equal);
  g_autofree gboolean *taken = g_new0 (gboolean, n);

  for (guint64 try = 0; chosen < MOST_SEEN && try < 64 * (guint64)n; try++) {
    guint i = (guint)base_philox_below (7, fold, try, n);
    const CalibrateRow *row = row_at (work, i);

    if (folds[i] != fold || taken[i] || !(row->measured_s > 0) || row->use < 1
        || (try < 32 * (guint64)n && !g_hash_table_add (groups, row->group)))
      continue;
    taken[i] = TRUE;
    out[chosen++] = i;
  }
  return chosen;
}

/* Rows of @fold that are scored, whatever number of @chosen is seen: none of a group of theirs, whose
 * other rows are nearly the same run. */
static void
hold_out (const Work *work, const guint *folds, guint fold, const guint *chosen, guint n_chosen,
          gboolean *out)
{
  g_autoptr (GHashTable) groups = g_hash_table_new (g_str_hash, g_str_equal);

  for (guint i = 0; i < n_chosen; i++)
    g_hash_table_add (groups, row_at (work, chosen[i])->group);
  for (guint i = 0; i < work->data.rows->len; i++)
    out[i] = folds[i] == fold && !g_hash_table_contains (groups, row_at (work, i)->group);
}

static guint
scored_rows (const Work *work, const guint *folds, guint fold)
{
  guint count = 0;

  for (guint i = 0; i < work->data.rows->len; i++)
    count += folds[i] == fold && row_at (work, i)->measured_s > 0 && row_at (work, i)->use >= 1;
  return count;
}

/* Predictions of the rows of @fold after the @seen rows at @chosen: MAP around what the rest taught.
 * @out: of all rows, NULL where not of @fold. */
static gboolean
predict_after (Work *work, const guint *folds, guint fold, const guint *chosen, guint seen,
               AppValidateRow **out, GError **error)
{
  guint n = work->data.rows->len, n_parameters = work->problem.n_parameters;
  g_autofree double *base = g_new0 (double, n_parameters);
  g_autofree double *x = g_new0 (double, n_parameters);
  g_autofree double *moved = g_new0 (double, n_parameters);
  g_autofree double *weights = g_new0 (double, n);
  g_autofree double *r = g_new0 (double, n);
  g_autofree CostFitParameter *around
      = g_memdup2 (work->problem.parameters, n_parameters * sizeof *around);
  const CostFitPoint start = { x, r, work->full.jacobian };
  CostFitProblem problem = work->problem;
  gboolean ok = fit_without (work, folds, fold, base, error);

  for (guint i = 0; i < seen; i++)
    weights[chosen[i]] = 1;
  /* The bounds are those of the numbers, wherever the priors are centred. */
  for (guint j = 0; j < n_parameters; j++) {
    around[j].low = MIN (around[j].low - base[j], 0);
    around[j].high = MAX (around[j].high - base[j], 0);
  }
  problem.parameters = around;
  if (ok && seen > 0) {
    work->data.offset = base;
    ok = calibrate_residuals (x, G_MAXUINT, r, &work->data, error)
         && cost_fit_again (&problem, weights, CHORDS, &start, moved, error);
    work->data.offset = NULL;
    for (guint j = 0; j < n_parameters; j++)
      base[j] += moved[j];
  }
  return ok && predict_fold (work, folds, fold, base, out, error);
}

/* Adds to @rows what @fold's held-out rows are predicted to take after @seen others. */
static gboolean
see_some (Work *work, const guint *folds, guint fold, guint seen, GPtrArray *rows, GError **error)
{
  guint n = work->data.rows->len, chosen[MOST_SEEN];
  g_autofree gboolean *held_out = g_new0 (gboolean, n);
  g_autofree AppValidateRow **predicted = g_new0 (AppValidateRow *, n);
  guint n_chosen = choose_rows (work, folds, fold, chosen);

  hold_out (work, folds, fold, chosen, n_chosen, held_out);
  gboolean ok = predict_after (work, folds, fold, chosen, MIN (seen, n_chosen), predicted, error);
  for (guint i = 0; i < n; i++) {
    if (predicted[i] == NULL)
      continue;
    if (held_out[i])
      g_ptr_array_add (rows, predicted[i]);
    else
      validate_row_free (predicted[i]);
  }
  return ok;
}

static gboolean
scored (const AppValidateRow *row, gconstpointer unused)
{
  return row->use >= 1;
}

static gboolean
few_shot (Work *work, GError **error)
{
  static const guint counts[] = { 0, 3, MOST_SEEN };
  guint n = work->data.rows->len;
  g_autofree guint *folds = g_new0 (guint, n);
  guint n_folds = assign_folds (work, APP_CV_FAMILY, folds);

  for (guint k = 0; k < G_N_ELEMENTS (counts); k++) {
    g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func ((GDestroyNotify)validate_row_free);
    AppFewShot result = { .seen = counts[k] };

    for (guint fold = 0; fold < n_folds; fold++)
      if (scored_rows (work, folds, fold) >= FEW_SHOT_LEAST
          && !see_some (work, folds, fold, counts[k], rows, error))
        return FALSE;
    validate_stats_step (&result.step_time, rows, scored, NULL);
    g_array_append_val (work->out->few_shot, result);
  }
  return TRUE;
}

/* ---- what was fitted ---- */

/* Rows that the fit looked at. */
static guint
n_fitted (const Work *work)
{
  guint count = 0;

  for (guint i = 0; i < work->data.rows->len; i++)
    count += work->weights[i] > 0;
  return count;
}

static void
list_parameters (Work *work)
{
  const CalibrateNumbers *numbers = &work->data.numbers;
  g_autofree double *sd = g_new0 (double, numbers->n);

  cost_fit_sd (&work->problem, work->weights, &work->full, sd);
  for (guint j = 0; j < numbers->n; j++) {
    AppFitted fitted = { .name = g_strdup (calibrate_parameters[j].name),
                         .prior = numbers->priors[j][0],
                         .value = calibrate_rounded (numbers->priors[j][0] * exp (work->full.x[j])),
                         .prior_sd = numbers->fit[j].sd,
                         .sd = sd[j] };

    fitted.source = g_strdup_printf ("fitted to %u measured runs", n_fitted (work));
    g_array_append_val (work->out->parameters, fitted);
  }
}

/* Notes the source of what moved only: the rest is what it was before. */
static void
write_numbers (Work *work)
{
  const CalibrateNumbers *numbers = &work->data.numbers;
  g_autoptr (GHashTable) notes
      = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, (GDestroyNotify)g_free);
  GHashTableIter iter;
  gpointer group = NULL, keys = NULL;

  calibrate_numbers_apply (numbers, work->full.x);
  for (guint j = 0; j < numbers->n; j++)
    for (guint e = 0; e < CALIBRATE_MAX_ENTRIES && numbers->slots[j][e] != NULL; e++) {
      const char *title = calibrate_parameters[j].entries[e].group;
      const char *before = g_hash_table_lookup (notes, title);
      double prior = calibrate_rounded (numbers->priors[j][e]);

      *numbers->slots[j][e] = calibrate_rounded (*numbers->slots[j][e]);
      if (*numbers->slots[j][e] == prior)
        continue;
      g_hash_table_replace (notes, (char *)title,
                            g_strconcat (before != NULL ? before : "", before != NULL ? ", " : "",
                                         calibrate_parameters[j].entries[e].key, NULL));
    }
  g_hash_table_iter_init (&iter, notes);
  while (g_hash_table_iter_next (&iter, &group, &keys)) {
    g_autofree char *note
        = g_strdup_printf ("%s: fitted to %u measured runs", (char *)keys, n_fitted (work));

    cost_calibration_note_source (work->data.shelf.calibration, group, note);
  }
}

/* Where the largest runs were that the numbers were held against. */
static void
note_largest (Work *work)
{
  for (guint i = 0; i < work->data.rows->len; i++)
    if (work->weights[i] > 0)
      cost_calibration_add_run (work->data.shelf.calibration,
                                row_at (work, i)->c.setting.machine->gpu->generation,
                                row_at (work, i)->c.problem.problem.gpus);
}

/* How the numbers came about and how far off they are. Returns: (owned). */
static char *
source_of (const Work *work)
{
  static const char *const held_out[] = { [APP_CV_GROUP] = "rows whose group was left out",
                                          [APP_CV_FAMILY] = "rows whose family was left out",
                                          [APP_CV_NONE] = "the rows it saw" };
  const AppErrorStats *step = &work->out->validation->step_time;
  GString *text = g_string_new (NULL);

  g_string_printf (text, "plait calibrate --from-runs on %u measured training runs, around '%s'",
                   n_fitted (work), cost_calibration_name (work->data.shelf.calibration));
  if (step->n > 0)
    g_string_append_printf (text, "; |error| of %s: median %.1f %%, mean %.1f %% (%u)",
                            held_out[work->request->cv], 100 * step->median_abs_err,
                            100 * step->mean_abs_err, step->n);
  return g_string_free (text, FALSE);
}

static gboolean
keep (Work *work, GError **error)
{
  const AppCalibrateRequest *request = work->request;
  CostCalibration *calibration = work->data.shelf.calibration;
  g_autofree char *source = NULL;

  if (request->out_dir == NULL && request->db_path == NULL)
    return TRUE;
  source = source_of (work);
  note_largest (work);
  write_numbers (work);
  const AppStoredFit stored = { .db_path = request->db_path,
                                .name = request->name != NULL ? request->name : "fitted",
                                .base = cost_calibration_name (calibration),
                                .values = work->out->parameters,
                                .median_abs_err = work->out->validation->step_time.median_abs_err };

  return request->out_dir != NULL ? calibrate_write (calibration, request->name, source,
                                                     request->out_dir, &work->out->written, error)
                                  : app_calibration_store_fit (calibration, &stored, source, error);
}

/* ---- the use case ---- */

/* Bytes, after the times: see app/calibrate_memory.c. */
static gboolean
fit_memory (Work *work, GError **error)
{
  g_autofree guint *folds = g_new0 (guint, MAX (work->data.rows->len, 1));
  AppCv cv = work->request->cv;
  guint n_folds = cv == APP_CV_NONE ? 0 : assign_folds (work, cv, folds);

  return calibrate_memory (&work->data, work->out->validation->rows, folds, n_folds,
                           work->out->parameters, error);
}

static gboolean
run (Work *work, GError **error)
{
  if (!calibrate_data_init (&work->data, work->request, work->out->validation, error))
    return FALSE;
  work->out->gemm = g_steal_pointer (&work->data.gemm);
  weigh (work);
  work->problem = (CostFitProblem){ .n_parameters = work->data.numbers.n,
                                    .n_residuals = work->data.rows->len,
                                    .parameters = work->data.numbers.fit,
                                    .residual_sd = RESIDUAL_SD,
                                    .huber = HUBER,
                                    .residuals = calibrate_residuals,
                                    .user_data = &work->data };
  if (!cost_fit (&work->problem, work->weights, ROUNDS, &work->full, error)
      || !cross_validate (work, error) || (work->request->few_shot && !few_shot (work, error)))
    return FALSE;
  list_parameters (work);
  if (!fit_memory (work, error))
    return FALSE;
  validate_summarise (work->out->validation);
  return keep (work, error);
}

AppCalibration *
app_calibrate_runs (const AppCalibrateRequest *request, GError **error)
{
  g_auto (Work) work = { .request = request };
  g_autoptr (AppCalibration) out = g_new0 (AppCalibration, 1);

  out->validation = g_new0 (AppValidation, 1);
  out->validation->rows = g_ptr_array_new_with_free_func ((GDestroyNotify)validate_row_free);
  out->validation->hints = g_ptr_array_new_with_free_func (g_free);
  out->validation->by = g_strdupv ((char **)request->validate.by);
  out->validation->oom.noisy_auc = out->validation->oom.noisy_auc_pp8 = NAN;
  out->parameters = calibrate_fitted_new ();
  out->few_shot = g_array_new (FALSE, FALSE, sizeof (AppFewShot));
  work.out = out;
  return run (&work, error) ? g_steal_pointer (&out) : NULL;
}

void
app_calibration_free (AppCalibration *calibration)
{
  if (calibration == NULL)
    return;
  app_validation_free (calibration->validation);
  g_clear_pointer (&calibration->parameters, g_array_unref);
  g_clear_pointer (&calibration->few_shot, g_array_unref);
  app_gemm_calibration_free (calibration->gemm);
  g_free (calibration->written);
  g_free (calibration);
}
