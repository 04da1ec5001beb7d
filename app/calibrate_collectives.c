/* app/calibrate_collectives.c - fit, cross-validate, write. */
#include "app/calibrate_collectives.h"

#include "app/calibrate_file-private.h"
#include "app/calibration_source.h"
#include "app/validate_collectives-private.h"
#include "costmodel/fit.h"

#include <math.h>
#include <string.h>

#define RESIDUAL_SD 0.10 /* log sd of a curve's points once fitted: collective-model §6 */
#define HUBER       0.5
#define EVENNESS    0.25 /* of the weights of sweeps: 0 rows weigh alike, 1 sweeps do */
#define LEAST_SD    0.01
#define ROUNDS      14
#define N_FOLDS     10
#define PINNED_SD   1e-4 /* of what three points of a fabric say nothing about */

typedef struct {
  char *group, *key;
  double *slot, prior;
} Parameter;

typedef struct {
  const AppCalibrateCollectivesRequest *request;
  CollectiveRows rows;
  GArray *parameters; /* (owned) Parameter */
  GArray *fit;        /* (owned) CostFitParameter */
  CostFitProblem problem;
  double *weights;      /* (owned) */
  const double *offset; /* (nullable) added to x: what few-shot priors are centred on */
  CostFitPoint full;
  AppCollectiveCalibration *out;
} Work;

static void
parameter_clear (gpointer data)
{
  Parameter *parameter = data;

  g_free (parameter->group);
  g_free (parameter->key);
}

static void
work_clear (Work *work)
{
  collective_rows_clear (&work->rows);
  g_clear_pointer (&work->parameters, g_array_unref);
  g_clear_pointer (&work->fit, g_array_unref);
  g_clear_pointer (&work->weights, g_free);
  cost_fit_point_clear (&work->full);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Work, work_clear)

static Parameter *
parameter_at (const Work *work, guint j)
{
  return &g_array_index (work->parameters, Parameter, j);
}

/* ---- parameters ---- */

static void
add_parameter (const char *group, const char *key, gpointer data)
{
  Work *work = data;
  Parameter parameter = { g_strdup (group), g_strdup (key), NULL, 0 };

  g_array_append_val (work->parameters, parameter);
}

/* Where the number lives in the base, and its prior: @neutral's, else the base's own. */
static gboolean
place_parameter (Work *work, Parameter *parameter, const CostCalibration *neutral, GError **error)
{
  double min = 0, max = 0, value = NAN, spread = 0;

  parameter->slot = cost_calibration_slot (work->rows.calibration, parameter->group, parameter->key,
                                           &min, &max);
  cost_calibration_get (work->request->cv != APP_COLLECTIVE_CV_NONE ? neutral
                                                                    : work->rows.calibration,
                        parameter->group, parameter->key, &value, &spread);
  if (parameter->slot == NULL || !(value > 0)) {
    g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
                 "the base calibration has no [%s] %s > 0 to start from", parameter->group,
                 parameter->key);
    return FALSE;
  }
  CostFitParameter fit = { .sd = MAX (spread, LEAST_SD),
                           .low = min > 0 ? log (min / value) : -10,
                           .high = log (max / value) };
  fit.low = MIN (fit.low, -1e-6);
  fit.high = MAX (fit.high, 1e-6);
  parameter->prior = value;
  g_array_append_val (work->fit, fit);
  return TRUE;
}

static gboolean
init_parameters (Work *work, GError **error)
{
  g_autoptr (CostCalibration) neutral
      = cost_calibration_load (work->rows.catalog, "collective-prior", error);

  if (neutral == NULL)
    return FALSE;
  cost_calibration_each_uncertain (neutral, add_parameter, work);
  for (guint j = 0; j < work->parameters->len; j++)
    if (!place_parameter (work, parameter_at (work, j), neutral, error))
      return FALSE;
  return TRUE;
}

/* ---- rows ---- */

/* Broadcast and reduce over domains are timed at the root, which says little; a rate of the network
 * cannot be read off where the row does not say what its NICs are. */
static gboolean
teaches (const CollectiveCurve *curve)
{
  gboolean at_root
      = curve->kind == MODEL_COLLECTIVE_BROADCAST || curve->kind == MODEL_COLLECTIVE_REDUCE;

  return curve->shape.domains == 1 || !(at_root || curve->nic_assumed);
}

/* Large sweeps don't drown the rest: a row weighs less the more its machine's collective has. */
static void
weigh (Work *work)
{
  guint n = work->rows.rows->len;
  g_autoptr (GHashTable) counts = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_auto (GStrv) keys = g_new0 (char *, n + 1);

  work->weights = g_new0 (double, n + 1);
  for (guint i = 0; i < n; i++) {
    const CollectiveRow *row = &g_array_index (work->rows.rows, CollectiveRow, i);
    const CollectiveCurve *curve = &g_array_index (work->rows.curves, CollectiveCurve, row->curve);

    keys[i] = g_strdup_printf ("%s|%d", row->machine, curve->kind);
    guint count = GPOINTER_TO_UINT (g_hash_table_lookup (counts, keys[i]));
    g_hash_table_insert (counts, g_strdup (keys[i]), GUINT_TO_POINTER (count + 1));
    work->weights[i] = teaches (curve) ? 1 : 0;
  }
  double mean = (double)n / MAX (g_hash_table_size (counts), 1);
  for (guint i = 0; i < n; i++)
    work->weights[i]
        *= pow (mean / GPOINTER_TO_UINT (g_hash_table_lookup (counts, keys[i])), EVENNESS);
}

static gboolean
move_to (Work *work, const double *x, GError **error)
{
  for (guint j = 0; j < work->parameters->len; j++) {
    const Parameter *parameter = parameter_at (work, j);
    double offset = work->offset != NULL ? work->offset[j] : 0;

    *parameter->slot = parameter->prior * exp (x[j] + offset);
  }
  return collective_rows_resolve (&work->rows, error);
}

static gboolean
residuals (const double *x, guint moved, double *r, gpointer data, GError **error)
{
  Work *work = data;

  if (!move_to (work, x, error))
    return FALSE;
  collective_rows_predict (&work->rows, r);
  for (guint i = 0; i < work->rows.rows->len; i++) {
    const CollectiveRow *row = &g_array_index (work->rows.rows, CollectiveRow, i);

    r[i] = r[i] > 0 && isfinite (r[i]) ? log (r[i] / row->measured_s) : 0;
  }
  return TRUE;
}

/* ---- folds ---- */

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(char *const *)a, *(char *const *)b);
}

/* A number per log or machine, in name order. Returns how many. */
static guint
number_names (const Work *work, gboolean machines, guint *out)
{
  g_autoptr (GHashTable) numbers = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  guint n = work->rows.rows->len;

  for (guint i = 0; i < n; i++) {
    const CollectiveRow *row = &g_array_index (work->rows.rows, CollectiveRow, i);
    char *name = machines ? row->machine : row->log;

    if (g_hash_table_insert (numbers, name, NULL))
      g_ptr_array_add (names, name);
  }
  g_ptr_array_sort (names, compare_names);
  for (guint k = 0; k < names->len; k++)
    g_hash_table_insert (numbers, g_ptr_array_index (names, k), GUINT_TO_POINTER (k));
  for (guint i = 0; i < n; i++) {
    const CollectiveRow *row = &g_array_index (work->rows.rows, CollectiveRow, i);

    out[i] = GPOINTER_TO_UINT (g_hash_table_lookup (numbers, machines ? row->machine : row->log));
  }
  return names->len;
}

/* Each machine by itself, or every tenth log. */
static guint
assign_folds (const Work *work, guint *out)
{
  gboolean machines = work->request->cv == APP_COLLECTIVE_CV_MACHINE;
  guint n_names = number_names (work, machines, out);

  if (machines)
    return n_names;
  for (guint i = 0; i < work->rows.rows->len; i++)
    out[i] %= N_FOLDS;
  return MIN (n_names, N_FOLDS);
}

static gboolean
fit_without (Work *work, const guint *folds, guint fold, CostFitPoint *out, GError **error)
{
  guint n = work->rows.rows->len;
  g_autofree double *weights = g_memdup2 (work->weights, (n + 1) * sizeof *weights);

  for (guint i = 0; i < n; i++)
    if (folds[i] == fold)
      weights[i] = 0;
  return cost_fit (&work->problem, weights, ROUNDS, out, error);
}

static gboolean
cross_validate (Work *work, GError **error)
{
  guint n = work->rows.rows->len;
  g_autofree guint *folds = g_new0 (guint, n + 1);
  g_autofree double *seconds = g_new0 (double, n + 1);
  gboolean none = work->request->cv == APP_COLLECTIVE_CV_NONE;
  guint n_folds = none ? 1 : assign_folds (work, folds);

  for (guint fold = 0; fold < n_folds; fold++) {
    g_auto (CostFitPoint) point = { 0 };

    if ((!none && !fit_without (work, folds, fold, &point, error))
        || !move_to (work, none ? work->full.x : point.x, error))
      return FALSE;
    collective_rows_predict (&work->rows, seconds);
    for (guint i = 0; i < n; i++)
      if (folds[i] == fold && isfinite (seconds[i]))
        collective_validation_add (work->out->validation, &work->rows, i, seconds[i]);
  }
  collective_validation_finish (work->out->validation);
  return TRUE;
}

/* ---- a log of which three points are seen ---- */

/* The row of @curve in @fold that is smallest (@direction < 0) or largest. */
static guint
end_of_curve (const Work *work, const guint *folds, guint fold, guint curve, gint direction)
{
  guint found = 0;
  double best = -INFINITY;

  for (guint i = 0; i < work->rows.rows->len; i++) {
    const CollectiveRow *row = &g_array_index (work->rows.rows, CollectiveRow, i);

    if (folds[i] == fold && row->curve == curve && direction * row->bytes > best)
      best = direction * row->bytes, found = i;
  }
  return found;
}

/*
 * The smallest, the largest and, of the others, the one nearest to 1 MiB of the curve with most rows
 * in @fold: three different sizes.
 */
static gboolean
choose_points (const Work *work, const guint *folds, guint fold, guint *out)
{
  guint n_curves = work->rows.curves->len, best = 0;
  g_autofree guint *counts = g_new0 (guint, n_curves + 1);

  for (guint i = 0; i < work->rows.rows->len; i++)
    if (folds[i] == fold && work->weights[i] > 0)
      counts[g_array_index (work->rows.rows, CollectiveRow, i).curve]++;
  for (guint c = 0; c < n_curves; c++)
    if (counts[c] > counts[best])
      best = c;
  if (n_curves == 0 || counts[best] < 5
      || g_array_index (work->rows.curves, CollectiveCurve, best).shape.domains < 2)
    return FALSE;
  double near = INFINITY;
  out[0] = end_of_curve (work, folds, fold, best, -1);
  out[2] = end_of_curve (work, folds, fold, best, 1);
  double least = g_array_index (work->rows.rows, CollectiveRow, out[0]).bytes;
  double most = g_array_index (work->rows.rows, CollectiveRow, out[2]).bytes;
  for (guint i = 0; i < work->rows.rows->len; i++) {
    const CollectiveRow *row = &g_array_index (work->rows.rows, CollectiveRow, i);
    double distance = fabs (log2 (MAX (row->bytes, 1)) - 20);

    if (folds[i] == fold && row->curve == best && row->bytes > least && row->bytes < most
        && distance < near)
      near = distance, out[1] = i;
  }
  return isfinite (near);
}

/* What three points of a fabric can move: its own numbers and how its pipelines fill. */
static gboolean
is_of_fabric (const Parameter *parameter)
{
  return g_str_has_prefix (parameter->group, "fabric ")
         || g_str_has_prefix (parameter->key, "network_") || g_str_equal (parameter->key, "fill");
}

static gboolean
see_three (Work *work, const guint *folds, guint fold, const guint *points,
           AppCollectiveValidation *into, GError **error)
{
  guint n = work->rows.rows->len, n_parameters = work->parameters->len;
  g_autofree double *weights = g_new0 (double, n + 1);
  g_autofree double *seconds = g_new0 (double, n + 1);
  g_autofree CostFitParameter *narrow = g_memdup2 (work->fit->data, n_parameters * sizeof *narrow);
  g_auto (CostFitPoint) base = { 0 };
  g_auto (CostFitPoint) moved = { 0 };
  CostFitProblem problem = work->problem;

  if (!fit_without (work, folds, fold, &base, error))
    return FALSE;
  for (guint j = 0; j < n_parameters; j++) {
    if (!is_of_fabric (parameter_at (work, j)))
      narrow[j].sd = PINNED_SD;
    /* The bounds are those of the numbers, wherever the priors are centred. */
    narrow[j].low = MIN (narrow[j].low - base.x[j], -1e-6);
    narrow[j].high = MAX (narrow[j].high - base.x[j], 1e-6);
  }
  for (guint k = 0; k < 3; k++)
    weights[points[k]] = 1;
  problem.parameters = narrow;
  work->offset = base.x;
  gboolean ok
      = cost_fit (&problem, weights, ROUNDS, &moved, error) && move_to (work, moved.x, error);
  work->offset = NULL;
  if (!ok)
    return FALSE;
  collective_rows_predict (&work->rows, seconds);
  for (guint i = 0; i < n; i++)
    if (folds[i] == fold && work->weights[i] > 0 && !(weights[i] > 0) && isfinite (seconds[i]))
      collective_validation_add (into, &work->rows, i, seconds[i]);
  return TRUE;
}

static gboolean
few_shot (Work *work, GError **error)
{
  g_autofree guint *folds = g_new0 (guint, work->rows.rows->len + 1);
  g_autoptr (AppCollectiveValidation) seen = collective_validation_new (&work->rows);
  guint n_logs = number_names (work, FALSE, folds);

  for (guint log = 0; log < n_logs; log++) {
    guint points[3] = { 0 };

    if (choose_points (work, folds, log, points)
        && !see_three (work, folds, log, points, seen, error))
      return FALSE;
  }
  collective_validation_finish (seen);
  work->out->few_shot = seen->network;
  return TRUE;
}

/* ---- what was fitted ---- */

static void
list_parameters (Work *work)
{
  g_autofree double *sd = g_new0 (double, work->parameters->len + 1);

  cost_fit_sd (&work->problem, work->weights, &work->full, sd);
  for (guint j = 0; j < work->parameters->len; j++) {
    const Parameter *parameter = parameter_at (work, j);
    AppFitted fitted = { .name = g_strdup_printf ("%s: %s", parameter->group, parameter->key),
                         .prior = parameter->prior,
                         .value = calibrate_rounded (parameter->prior * exp (work->full.x[j])),
                         .prior_sd = work->problem.parameters[j].sd,
                         .sd = sd[j] };

    fitted.source = g_strdup_printf ("fitted to %u published collectives", work->rows.rows->len);
    g_array_append_val (work->out->parameters, fitted);
  }
}

static gboolean
keep (Work *work, GError **error)
{
  const AppCalibrateCollectivesRequest *request = work->request;
  CostCalibration *calibration = work->rows.calibration;
  g_autofree char *source = NULL;

  if (request->out_dir == NULL && request->db_path == NULL)
    return TRUE;
  source = g_strdup_printf ("plait calibrate --from-collectives on %u rows, around '%s'",
                            work->rows.rows->len, cost_calibration_name (calibration));
  for (guint j = 0; j < work->parameters->len; j++) {
    const Parameter *parameter = parameter_at (work, j);
    const AppFitted *fitted = &g_array_index (work->out->parameters, AppFitted, j);

    cost_calibration_set (calibration, parameter->group, parameter->key, fitted->value,
                          calibrate_rounded (fitted->sd));
  }
  const AppStoredFit stored = { .db_path = request->db_path,
                                .name = request->name != NULL ? request->name : "fitted",
                                .base = cost_calibration_name (calibration),
                                .values = work->out->parameters,
                                .median_abs_err = work->out->validation->all.median_abs_err };

  return request->out_dir != NULL ? calibrate_write (calibration, request->name, source,
                                                     request->out_dir, &work->out->written, error)
                                  : app_calibration_store_fit (calibration, &stored, source, error);
}

/* ---- the use case ---- */

static gboolean
run (Work *work, GError **error)
{
  if (!collective_rows_init (&work->rows, work->request->catalog_dir, work->request->base,
                             work->request->files, error)
      || !init_parameters (work, error))
    return FALSE;
  if (work->rows.rows->len == 0) {
    g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
                 "no row can be used: see validate --collectives");
    return FALSE;
  }
  weigh (work);
  work->out->validation = collective_validation_new (&work->rows);
  work->problem = (CostFitProblem){ .n_parameters = work->parameters->len,
                                    .n_residuals = work->rows.rows->len,
                                    .parameters = (CostFitParameter *)work->fit->data,
                                    .residual_sd = RESIDUAL_SD,
                                    .huber = HUBER,
                                    .residuals = residuals,
                                    .user_data = work };
  if (!cost_fit (&work->problem, work->weights, ROUNDS, &work->full, error)
      || !cross_validate (work, error) || (work->request->few_shot && !few_shot (work, error)))
    return FALSE;
  list_parameters (work);
  return keep (work, error);
}

AppCollectiveCalibration *
app_calibrate_collectives (const AppCalibrateCollectivesRequest *request, GError **error)
{
  g_auto (Work) work = { .request = request };
  g_autoptr (AppCollectiveCalibration) out = g_new0 (AppCollectiveCalibration, 1);

  out->parameters = calibrate_fitted_new ();
  work.parameters = g_array_new (FALSE, FALSE, sizeof (Parameter));
  g_array_set_clear_func (work.parameters, parameter_clear);
  work.fit = g_array_new (FALSE, FALSE, sizeof (CostFitParameter));
  work.out = out;
  return run (&work, error) ? g_steal_pointer (&out) : NULL;
}

void
app_collective_calibration_free (AppCollectiveCalibration *calibration)
{
  if (calibration == NULL)
    return;
  app_collective_validation_free (calibration->validation);
  g_clear_pointer (&calibration->parameters, g_array_unref);
  g_free (calibration->written);
  g_free (calibration);
}
