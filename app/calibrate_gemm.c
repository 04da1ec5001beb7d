/* app/calibrate_gemm.c - fit, cross-validate, write. */
#include "app/calibrate_gemm.h"

#include "app/calibrate_file-private.h"
#include "app/calibration_source.h"
#include "base/hash.h"
#include "costmodel/fit.h"

#include <math.h>
#include <stddef.h>

#define RESIDUAL_SD  0.06 /* log sd of good rows once fitted */
#define HUBER        0.3 /* nearly the least sum of absolute errors: kernels chosen badly stay out */
#define LARGE_SIZE   68719476736.0 /* 2^36: m·n·k from which a product counts */
#define LARGE_WEIGHT 2.0
#define WIDE_SD      1.0 /* of priors that are to know nothing */
#define LEAST_SD     0.01
#define WRITTEN_SD                                                                                 \
  0.03 /* two libraries on one A100, two cards of a generation: 3 % on large products */
#define ROUNDS  25
#define CHORDS  4
#define N_FOLDS 5

/* The fitted numbers, with the range where they mean what they say. */
static const struct {
  const char *key;
  gsize offset; /* in CostGemm */
  double low, high;
} keys[] = {
  { "launch", offsetof (CostGemm, launch_s), 2e-7, 1e-4 },
  { "ceiling_16bit", offsetof (CostGemm, ceiling_ratio[COST_PRECISION_16BIT]), 0.05, 1.2 },
  { "gemm_memory", offsetof (CostGemm, memory_ratio), 0.1, 1.2 },
  { "k0", offsetof (CostGemm, k0), 1, 4000 },
  { "wave", offsetof (CostGemm, wave_ratio), 0.005, 1 },
  { "padding", offsetof (CostGemm, padding_ratio), 0.01, 1 },
  { "power", offsetof (CostGemm, power), 1.2, 30 },
  { "feed", offsetof (CostGemm, feed_ratio), 0.001, 1 },
  { "split", offsetof (CostGemm, split_s), 1e-8, 1e-4 },
  { "long_loss", offsetof (CostGemm, long_loss), 1e-4, 0.3 },
  { "warm_l2", offsetof (CostGemm, warm_l2_ratio), 0.01, 2 },
};
#define N_KEYS G_N_ELEMENTS (keys)
#define WARM   (N_KEYS - 1) /* fitted only where the base says there is any */

/* One fit: the rows of some GPUs. */
typedef struct {
  GemmRows *rows;      /* (borrowed) */
  GArray *used;        /* (owned) guint: indices of rows */
  GArray *of_settings; /* (owned) guint: whose numbers move */
  double prior[N_KEYS];
  CostFitParameter fit[N_KEYS];
  guint n;         /* N_KEYS, or one less without warm_l2 */
  double *weights; /* (owned) of used */
  CostFitPoint full;
} Problem;

static void
problem_clear (Problem *problem)
{
  g_clear_pointer (&problem->used, g_array_unref);
  g_clear_pointer (&problem->of_settings, g_array_unref);
  g_clear_pointer (&problem->weights, g_free);
  cost_fit_point_clear (&problem->full);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Problem, problem_clear)

static double *
slot (CostGemm *gemm, guint key)
{
  return (double *)((char *)gemm + keys[key].offset);
}

static GemmSetting *
setting_at (const GemmRows *rows, guint i)
{
  return g_ptr_array_index (rows->settings, i);
}

static const TopoGpu *
gpu_at (const GemmRows *rows, guint setting)
{
  return setting_at (rows, setting)->machine->gpu;
}

/* ---- the problem ---- */

/* Who answers for a number of @group, which is @gpu's, its generation's or the default's. */
static gboolean
look_up (const Problem *problem, const char *group, const char *key, double *out_value,
         double *out_spread)
{
  const GemmRows *rows = problem->rows;
  const char *generation
      = gpu_at (rows, g_array_index (problem->of_settings, guint, 0))->generation;
  g_autofree char *shared = g_strdup_printf ("gpu %s", generation);

  return cost_calibration_get (rows->calibration, group, key, out_value, out_spread)
         || (!g_str_equal (group, "gpu default")
             && cost_calibration_get (rows->calibration, shared, key, out_value, out_spread))
         || cost_calibration_get (rows->calibration, "gpu default", key, out_value, out_spread);
}

static void
set_prior (Problem *problem, const char *group, guint key, gboolean neutral)
{
  double value = 0, sd = 0;

  look_up (problem, group, keys[key].key, &value, &sd);
  if (neutral && key != WARM)
    cost_calibration_get (problem->rows->calibration, "gpu default", keys[key].key, &value, NULL);
  sd = neutral ? WIDE_SD : MAX (sd, LEAST_SD);
  problem->prior[key] = CLAMP (value, keys[key].low * 1.001, keys[key].high / 1.001);
  problem->fit[key] = (CostFitParameter){ .sd = sd,
                                          .low = log (keys[key].low / problem->prior[key]),
                                          .high = log (keys[key].high / problem->prior[key]) };
}

/* Products in 16 bits, timed over and over. */
static gboolean
is_fitted (const GemmRow *row)
{
  return row->kind == APP_KERNEL_MATMUL && row->repeated
         && (row->dtype == MODEL_DTYPE_BF16 || row->dtype == MODEL_DTYPE_FP16);
}

/* @accept: which settings; @group: whose numbers they share. FALSE: no 16-bit product. */
static gboolean
problem_init (Problem *problem, GemmRows *rows, const gboolean *accept, const char *group,
              gboolean neutral)
{
  double warm = 0;

  *problem = (Problem){ .rows = rows };
  problem->used = g_array_new (FALSE, FALSE, sizeof (guint));
  problem->of_settings = g_array_new (FALSE, FALSE, sizeof (guint));
  for (guint i = 0; i < rows->settings->len; i++)
    if (accept[i])
      g_array_append_val (problem->of_settings, i);
  for (guint i = 0; i < rows->rows->len; i++) {
    const GemmRow *row = &g_array_index (rows->rows, GemmRow, i);

    if (accept[row->setting] && is_fitted (row))
      g_array_append_val (problem->used, i);
  }
  if (problem->used->len == 0)
    return FALSE;
  problem->weights = g_new (double, problem->used->len);
  for (guint i = 0; i < problem->used->len; i++) {
    guint row = g_array_index (problem->used, guint, i);

    problem->weights[i] = gemm_row_size (&g_array_index (rows->rows, GemmRow, row)) >= LARGE_SIZE
                              ? LARGE_WEIGHT
                              : 1;
  }
  look_up (problem, group, keys[WARM].key, &warm, NULL);
  problem->n = warm > 0 ? N_KEYS : N_KEYS - 1;
  for (guint key = 0; key < problem->n; key++)
    set_prior (problem, group, key, neutral);
  return TRUE;
}

/* Gives all settings of @problem the numbers at @x. */
static void
move_to (const Problem *problem, const double *x, const GArray *settings)
{
  for (guint i = 0; i < settings->len; i++) {
    GemmSetting *setting = setting_at (problem->rows, g_array_index (settings, guint, i));

    for (guint key = 0; key < problem->n; key++)
      *slot (&setting->numbers.gpu.gemm, key) = problem->prior[key] * exp (x[key]);
    gemm_setting_refresh (setting);
  }
}

static gboolean
residuals (const double *x, guint moved, double *r, gpointer data, GError **error)
{
  const Problem *problem = data;

  move_to (problem, x, problem->of_settings);
  for (guint i = 0; i < problem->used->len; i++) {
    guint row = g_array_index (problem->used, guint, i);

    r[i] = log (gemm_rows_predict (problem->rows, row)
                / g_array_index (problem->rows->rows, GemmRow, row).measured_s);
  }
  return TRUE;
}

static CostFitProblem
fit_problem (Problem *problem)
{
  return (CostFitProblem){ .n_parameters = problem->n,
                           .n_residuals = problem->used->len,
                           .parameters = problem->fit,
                           .residual_sd = RESIDUAL_SD,
                           .huber = HUBER,
                           .residuals = residuals,
                           .user_data = problem };
}

static gboolean
solve (Problem *problem, GError **error)
{
  CostFitProblem fit = fit_problem (problem);

  return cost_fit (&fit, problem->weights, ROUNDS, &problem->full, error);
}

/* ---- cross-validation ---- */

typedef struct {
  const AppCalibrateGemmRequest *request;
  GemmRows rows;
  double *predicted_s; /* (owned) by row */
  AppGemmCalibration *out;
} Work;

static void
work_clear (Work *work)
{
  gemm_rows_clear (&work->rows);
  g_clear_pointer (&work->predicted_s, g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Work, work_clear)

static guint
fold_of (const GemmRow *row)
{
  const guint64 shape[] = { row->n, row->k };

  return (guint)(base_hash_bytes (shape, sizeof shape, 5) % N_FOLDS);
}

/* Rows of @problem's GPUs by fits that did not see their (n, k). */
static gboolean
predict_unseen_shapes (Work *work, Problem *problem, GError **error)
{
  CostFitProblem fit = fit_problem (problem);
  guint n = problem->used->len;
  g_autofree double *weights = g_new (double, n);
  double x[N_KEYS] = { 0 };

  for (guint fold = 0; fold < N_FOLDS; fold++) {
    for (guint i = 0; i < n; i++) {
      guint row = g_array_index (problem->used, guint, i);

      weights[i] = fold_of (&g_array_index (work->rows.rows, GemmRow, row)) == fold
                       ? 0
                       : problem->weights[i];
    }
    if (!cost_fit_again (&fit, weights, CHORDS, &problem->full, x, error))
      return FALSE;
    move_to (problem, x, problem->of_settings);
    for (guint i = 0; i < n; i++)
      if (!(weights[i] > 0)) {
        guint row = g_array_index (problem->used, guint, i);

        work->predicted_s[row] = gemm_rows_predict (&work->rows, row);
      }
  }
  return TRUE;
}

/* GPUs of @like's generation; without any but itself all. @like itself is left out. */
static gboolean
others_of (const GemmRows *rows, guint like, gboolean *accept)
{
  gboolean known = FALSE;

  for (guint i = 0; i < rows->settings->len; i++) {
    accept[i]
        = i != like && g_str_equal (gpu_at (rows, i)->generation, gpu_at (rows, like)->generation);
    known |= accept[i];
  }
  for (guint i = 0; !known && i < rows->settings->len; i++)
    accept[i] = i != like;
  return known;
}

/* Takes from setting @like what only a fit to itself can have told, where @problem has no such. */
static void
forget_warm (const Problem *problem, guint like)
{
  double value = 0;

  if (problem->n == N_KEYS)
    return;
  cost_calibration_get (problem->rows->calibration, "gpu default", keys[WARM].key, &value, NULL);
  *slot (&setting_at (problem->rows, like)->numbers.gpu.gemm, WARM) = value;
}

/* Rows of the GPU of setting @like by a fit to other GPUs. */
static gboolean
predict_unseen_gpu (Work *work, guint like, GError **error)
{
  g_autofree gboolean *accept = g_new0 (gboolean, work->rows.settings->len + 1);
  gboolean known = others_of (&work->rows, like, accept);
  g_auto (Problem) problem = { 0 };
  g_autoptr (GArray) target = g_array_new (FALSE, FALSE, sizeof (guint));

  g_autofree char *group
      = g_strdup_printf ("gpu %s", known ? gpu_at (&work->rows, like)->generation : "default");
  if (!problem_init (&problem, &work->rows, accept, group, TRUE))
    return TRUE;
  if (!solve (&problem, error))
    return FALSE;
  if (!known)
    g_ptr_array_add (work->out->alone, g_strdup (gpu_at (&work->rows, like)->slug));
  g_array_append_val (target, like);
  forget_warm (&problem, like);
  move_to (&problem, problem.full.x, target);
  for (guint i = 0; i < work->rows.rows->len; i++) {
    const GemmRow *row = &g_array_index (work->rows.rows, GemmRow, i);

    if (row->setting == like && is_fitted (row))
      work->predicted_s[i] = gemm_rows_predict (&work->rows, i);
  }
  return TRUE;
}

/* ---- what was fitted ---- */

static gboolean
list_and_put (Work *work, Problem *problem, const char *group, CostCalibration *calibration,
              GError **error)
{
  CostFitProblem fit = fit_problem (problem);
  double sd[N_KEYS] = { 0 };
  g_autofree char *source = g_strdup_printf ("fitted to %u measured products", problem->used->len);
  g_autofree char *note = g_strdup_printf ("products: %s", source);
  g_autofree char *origin = g_strdup_printf ("plait calibrate --gemm; %s", note);

  cost_fit_sd (&fit, problem->weights, &problem->full, sd);
  cost_calibration_note_source (calibration, group, note); /* a new group says it in its source */
  for (guint key = 0; key < problem->n; key++) {
    AppFitted fitted
        = { .name = g_strdup_printf ("%s: %s", group, keys[key].key),
            .prior = problem->prior[key],
            .value = calibrate_rounded (problem->prior[key] * exp (problem->full.x[key])),
            .prior_sd = problem->fit[key].sd,
            .sd = sd[key],
            .source = g_strdup (source) };

    g_array_append_val (work->out->parameters, fitted);
    if (!cost_calibration_put (calibration, group, keys[key].key, fitted.value,
                               calibrate_rounded (MAX (fitted.sd, WRITTEN_SD)), origin)) {
      g_set_error (error, APP_ERROR, APP_ERROR_USAGE, "[%s] %s = %g is out of range", group,
                   keys[key].key, fitted.value);
      return FALSE;
    }
  }
  return TRUE;
}

/* Fits the settings in @accept as one. @problem: (out) */
static gboolean
fit_group (Work *work, const gboolean *accept, const char *group, CostCalibration *calibration,
           Problem *problem, GError **error)
{
  gboolean neutral = work->request->cv != APP_GEMM_CV_NONE;

  if (!problem_init (problem, &work->rows, accept, group, neutral))
    return TRUE;
  return solve (problem, error) && list_and_put (work, problem, group, calibration, error);
}

static gboolean
fit_gpu (Work *work, guint setting, CostCalibration *calibration, GError **error)
{
  g_autofree gboolean *accept = g_new0 (gboolean, work->rows.settings->len + 1);
  g_autofree char *group = g_strdup_printf ("gpu %s", gpu_at (&work->rows, setting)->slug);
  g_auto (Problem) problem = { 0 };

  accept[setting] = TRUE;
  if (!fit_group (work, accept, group, calibration, &problem, error))
    return FALSE;
  if (problem.used->len == 0)
    return TRUE;
  if (work->request->cv == APP_GEMM_CV_SHAPE)
    return predict_unseen_shapes (work, &problem, error);
  if (work->request->cv == APP_GEMM_CV_GPU)
    return predict_unseen_gpu (work, setting, error);
  move_to (&problem, problem.full.x, problem.of_settings);
  for (guint i = 0; i < problem.used->len; i++) {
    guint row = g_array_index (problem.used, guint, i);

    work->predicted_s[row] = gemm_rows_predict (&work->rows, row);
  }
  return TRUE;
}

/* Every generation with a measured GPU, and the default where there are several. */
static gboolean
fit_generations (Work *work, CostCalibration *calibration, GError **error)
{
  guint n = work->rows.settings->len, n_generations = 0;
  g_autofree gboolean *accept = g_new0 (gboolean, n + 1);
  g_autofree gboolean *stays_warm = g_new0 (gboolean, n + 1);
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);

  for (guint i = 0; i < n; i++) {
    const char *generation = gpu_at (&work->rows, i)->generation;
    g_autofree char *group = g_strdup_printf ("gpu %s", generation);
    g_auto (Problem) problem = { 0 };

    if (!g_hash_table_add (seen, (char *)generation))
      continue;
    for (guint j = 0; j < n; j++)
      accept[j] = g_str_equal (gpu_at (&work->rows, j)->generation, generation);
    if (!fit_group (work, accept, group, calibration, &problem, error))
      return FALSE;
    n_generations += problem.used->len > 0;
    for (guint j = 0; j < n; j++)
      stays_warm[j] |= accept[j] && problem.n == N_KEYS;
  }
  if (n_generations < 2)
    return TRUE;
  g_auto (Problem) problem = { 0 };
  for (guint j = 0; j < n; j++)
    accept[j] = !stays_warm[j]; /* the default says that nothing does */
  return fit_group (work, accept, "gpu default", calibration, &problem, error);
}

static gboolean
run (Work *work, CostCalibration *calibration, GError **error)
{
  GemmRows *rows = &work->rows;
  guint n = rows->settings->len;

  work->predicted_s = g_new0 (double, rows->rows->len + 1);
  for (guint i = 0; i < n; i++)
    if (!fit_gpu (work, i, calibration, error))
      return FALSE;
  if (work->out->parameters->len == 0) {
    g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
                 "no row times a product in 16 bits: expected columns m, n, k, time_s of a GPU "
                 "that the catalog knows, in bf16 or fp16");
    return FALSE;
  }
  work->out->validation = gemm_validation_new (rows);
  for (guint i = 0; i < rows->rows->len; i++)
    if (work->predicted_s[i] > 0)
      gemm_validation_add (work->out->validation, rows, i, work->predicted_s[i]);
  gemm_validation_finish (work->out->validation);
  return fit_generations (work, calibration, error);
}

static AppGemmCalibration *
calibrate (const AppCalibrateGemmRequest *request, CostCalibration *into, GError **error)
{
  g_auto (Work) work = { .request = request };
  g_autoptr (AppGemmCalibration) out = g_new0 (AppGemmCalibration, 1);

  out->parameters = calibrate_fitted_new ();
  out->alone = g_ptr_array_new_with_free_func (g_free);
  work.out = out;
  if (!gemm_rows_init (&work.rows, request->catalog_dir, request->base, request->paths, error)
      || !run (&work, into, error))
    return NULL;
  return g_steal_pointer (&out);
}

AppGemmCalibration *
app_calibrate_gemm (const AppCalibrateGemmRequest *request, GError **error)
{
  g_autoptr (BaseCatalog) catalog = base_catalog_new (request->catalog_dir, error);
  g_autoptr (CostCalibration) into = NULL;
  g_autoptr (AppGemmCalibration) out = NULL;
  g_autofree char *source = NULL;

  if (catalog != NULL)
    into
        = cost_calibration_load (catalog, request->base != NULL ? request->base : "default", error);
  if (into != NULL)
    out = calibrate (request, into, error);
  if (out == NULL || (request->out_dir == NULL && request->db_path == NULL))
    return g_steal_pointer (&out);
  source = g_strdup_printf ("plait calibrate --gemm on %u products, around '%s'",
                            out->validation->rows->len, cost_calibration_name (into));
  const AppStoredFit stored = { .db_path = request->db_path,
                                .name = request->name != NULL ? request->name : "fitted",
                                .base = cost_calibration_name (into),
                                .values = out->parameters,
                                .median_abs_err = out->validation->all.median_abs_err };
  gboolean kept
      = request->out_dir != NULL
            ? calibrate_write (into, request->name, source, request->out_dir, &out->written, error)
            : app_calibration_store_fit (into, &stored, source, error);
  return kept ? g_steal_pointer (&out) : NULL;
}

AppGemmCalibration *
app_calibrate_gemm_into (const AppCalibrateGemmRequest *request, CostCalibration *calibration,
                         GError **error)
{
  return calibrate (request, calibration, error);
}

void
app_gemm_calibration_free (AppGemmCalibration *calibration)
{
  if (calibration == NULL)
    return;
  app_gemm_validation_free (calibration->validation);
  g_clear_pointer (&calibration->alone, g_ptr_array_unref);
  g_clear_pointer (&calibration->parameters, g_array_unref);
  g_free (calibration->written);
  g_free (calibration);
}
