/* app/calibrate_memory.c - the fit of memory: what the allocator reserves over what is allocated.
 *
 * Bytes that tensors hold follow from the program and are not fitted. Left are one ratio for PyTorch
 * of 2021-22 (the deepspeed profile) and one for all later frameworks, and the spread of each
 * profile's need around its own runs. Nothing here depends on the times, nor they on it.
 */
#include "app/calibrate_memory-private.h"

#include <math.h>
#include <string.h>

#define RESIDUAL_SD 0.05
#define HUBER       1.5
#define ROUNDS      4
#define CHORDS      3
#define FAMILY_CAP  40.0
#define PRIOR_ROWS  8   /* the prior of a spread weighs as much as so many rows */
#define OUTLIER     3.0 /* a row counts as at most so many spreads away */
#define LEAST_SD    0.005
#define N_RATIOS    2
#define MAX_ENTRIES 6

/* Not of them: nanotron and DeepSpeed under ZeRO-3, whose own ratios were published. */
static const struct {
  const char *name;
  const char *groups[MAX_ENTRIES]; /* NULL: no more */
} ratios[N_RATIOS] = {
  { "profile deepspeed: reserved", { "profile deepspeed" } },
  { "profile default: reserved",
    { "profile default", "profile fsdp", "profile generic", "profile megatron", "profile nemo",
      "profile torchtitan" } },
};

typedef struct {
  CalibrateData *data;
  GPtrArray *rows;        /* AppValidateRow, as data->rows */
  guint *ratio_of;        /* (owned) of a row, N_RATIOS: none moves it */
  double prior[N_RATIOS]; /* reserved over allocated */
} Work;

static const AppValidateRow *
row_at (const Work *work, guint i)
{
  return g_ptr_array_index (work->rows, i);
}

/* The group whose "reserved" a row of @calibration is predicted with. */
static const char *
group_of (CostCalibration *calibration, const char *profile, char **out_owned)
{
  g_autofree char *stem = g_strdup (profile);

  while (TRUE) {
    g_autofree char *group = g_strconcat ("profile ", stem, NULL);
    char *dash = strrchr (stem, '-');

    if (cost_calibration_get (calibration, group, "reserved", NULL, NULL))
      return *out_owned = g_steal_pointer (&group);
    if (dash == NULL)
      return *out_owned = g_strdup ("profile default");
    *dash = '\0';
  }
}

static guint
ratio_of (const Work *work, guint i)
{
  const CalibrateRow *row = g_ptr_array_index (work->data->rows, i);
  g_autofree char *group = NULL;

  if (row_at (work, i)->mem_kind == APP_MEM_ALLOCATED)
    return N_RATIOS;
  group_of (work->data->shelf.calibration, row->c.setting.profile->calibration, &group);
  for (guint j = 0; j < N_RATIOS; j++)
    for (guint e = 0; e < MAX_ENTRIES && ratios[j].groups[e] != NULL; e++)
      if (g_str_equal (ratios[j].groups[e], group))
        return j;
  return N_RATIOS;
}

/* The compared figure with the row's ratio times exp (@x). */
static double
bytes_at (const Work *work, guint i, const double *x)
{
  const AppValidateRow *row = row_at (work, i);
  guint j = work->ratio_of[i];
  double reserved = (double)row->memory.reserved_bytes;

  return j == N_RATIOS ? row->predicted_bytes : row->predicted_bytes + reserved * (exp (x[j]) - 1);
}

static gboolean
residuals (const double *x, guint moved, double *r, gpointer user_data, GError **error)
{
  const Work *work = user_data;

  for (guint i = 0; i < work->rows->len; i++) {
    const AppValidateRow *row = row_at (work, i);

    r[i] = row->measured_bytes > 0 ? log (bytes_at (work, i, x) / row->measured_bytes) : 0;
  }
  return TRUE;
}

/* Rows that say what they measured, a family at most as much as FAMILY_CAP of them. */
static double *
weights_of (const Work *work)
{
  guint n = work->rows->len;
  double *weights = g_new0 (double, n);
  g_autofree double *sums = g_new0 (double, n);

  for (guint i = 0; i < n; i++) {
    const AppValidateRow *row = row_at (work, i);

    if (row->measured_bytes > 0 && row->use >= 1 && row->mem_kind != APP_MEM_UNSTATED)
      weights[i] = 1;
  }
  for (guint i = 0; i < n; i++)
    for (guint k = 0; k < n; k++)
      if (g_str_equal (row_at (work, i)->family, row_at (work, k)->family))
        sums[i] += weights[k];
  for (guint i = 0; i < n; i++)
    weights[i] *= MIN (1, FAMILY_CAP / MAX (sums[i], 1));
  return weights;
}

/* Rows of @fold (G_MAXUINT: all) as predicted with @x. */
static void
move_rows (Work *work, const guint *folds, guint fold, const double *x)
{
  for (guint i = 0; i < work->rows->len; i++) {
    AppValidateRow *row = g_ptr_array_index (work->rows, i);
    double bytes = bytes_at (work, i, x), factor = bytes / row->predicted_bytes;

    if (fold != G_MAXUINT && folds[i] != fold)
      continue;
    row->predicted_bytes = bytes;
    row->predicted_p10_bytes *= factor;
    row->predicted_p90_bytes *= factor;
  }
}

/* Spread of @group's need: its prior and the rows' residuals, outliers drawn in. */
static void
spread_of_group (const Work *work, const char *group, const double *weights)
{
  double prior = 0, sum = 0, n = 0, sigma = 0;

  if (!cost_calibration_get (work->data->shelf.calibration, group, "sigma_need", &prior, NULL))
    return;
  for (guint i = 0; i < work->rows->len; i++) {
    const CalibrateRow *row = g_ptr_array_index (work->data->rows, i);
    const AppValidateRow *seen = row_at (work, i);
    g_autofree char *own = NULL;
    double miss = 0;

    if (!(weights[i] > 0)
        || !g_str_equal (group_of (work->data->shelf.calibration,
                                   row->c.setting.profile->calibration, &own),
                         group))
      continue;
    miss = log (seen->predicted_bytes / seen->measured_bytes);
    sum += weights[i] * MIN (miss * miss, OUTLIER * OUTLIER * prior * prior);
    n += weights[i];
  }
  sigma = sqrt ((PRIOR_ROWS * prior * prior + sum) / (PRIOR_ROWS + n));
  if (!(n > 0))
    return;
  cost_calibration_set (work->data->shelf.calibration, group, "sigma_need",
                        calibrate_rounded (sigma), 0);
  cost_calibration_note_source (work->data->shelf.calibration, group,
                                "sigma_need: fitted to measured peaks");
}

static void
write_ratio (Work *work, guint j, double x)
{
  for (guint e = 0; e < MAX_ENTRIES && ratios[j].groups[e] != NULL; e++) {
    double before = 0, spread = 0, value = calibrate_rounded (work->prior[j] * exp (x));

    if (!cost_calibration_get (work->data->shelf.calibration, ratios[j].groups[e], "reserved",
                               &before, &spread)
        || value == calibrate_rounded (before)) /* not moved: as it was before */
      continue;
    cost_calibration_set (work->data->shelf.calibration, ratios[j].groups[e], "reserved", value,
                          spread);
    cost_calibration_note_source (work->data->shelf.calibration, ratios[j].groups[e],
                                  "reserved: fitted to measured peaks");
  }
}

static void
list_ratio (GArray *parameters, const Work *work, guint j, double x, double prior_sd, double sd)
{
  AppFitted fitted = { .name = g_strdup (ratios[j].name),
                       .prior = work->prior[j],
                       .value = calibrate_rounded (work->prior[j] * exp (x)),
                       .prior_sd = prior_sd,
                       .sd = sd,
                       .source = g_strdup ("fitted to measured memory peaks") };

  g_array_append_val (parameters, fitted);
}

/* Every profile that a row is predicted with, once. */
static void
spread_of_all (const Work *work, const double *weights)
{
  g_autoptr (GHashTable) done = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  for (guint i = 0; i < work->rows->len; i++) {
    const CalibrateRow *row = g_ptr_array_index (work->data->rows, i);
    char *group = NULL;

    group_of (work->data->shelf.calibration, row->c.setting.profile->calibration, &group);
    if (!g_hash_table_contains (done, group))
      spread_of_group (work, group, weights);
    g_hash_table_add (done, group);
  }
}

static gboolean
fit (Work *work, const CostFitProblem *problem, const double *weights, const guint *folds,
     guint n_folds, GArray *parameters, GError **error)
{
  g_auto (CostFitPoint) full = { 0 };
  guint n = work->rows->len;
  double sd[N_RATIOS] = { 0 };

  if (!cost_fit (problem, weights, ROUNDS, &full, error))
    return FALSE;
  cost_fit_sd (problem, weights, &full, sd);
  for (guint fold = 0; fold < n_folds; fold++) {
    g_autofree double *others = g_memdup2 (weights, n * sizeof *others);
    double x[N_RATIOS];

    for (guint i = 0; i < n; i++)
      if (folds[i] == fold)
        others[i] = 0;
    if (!cost_fit_again (problem, others, CHORDS, &full, x, error))
      return FALSE;
    move_rows (work, folds, fold, x);
  }
  if (n_folds == 0)
    move_rows (work, folds, G_MAXUINT, full.x);
  for (guint j = 0; j < N_RATIOS; j++) {
    list_ratio (parameters, work, j, full.x[j], problem->parameters[j].sd, sd[j]);
    write_ratio (work, j, full.x[j]);
  }
  spread_of_all (work, weights);
  return TRUE;
}

gboolean
calibrate_memory (CalibrateData *data, GPtrArray *rows, const guint *folds, guint n_folds,
                  GArray *parameters, GError **error)
{
  g_autofree guint *ratio = g_new0 (guint, MAX (rows->len, 1));
  Work work = { .data = data, .rows = rows, .ratio_of = ratio };
  CostFitParameter fits[N_RATIOS];
  CostFitProblem problem = { .n_parameters = N_RATIOS,
                             .n_residuals = rows->len,
                             .parameters = fits,
                             .residual_sd = RESIDUAL_SD,
                             .huber = HUBER,
                             .residuals = residuals,
                             .user_data = &work };
  g_autofree double *weights = NULL;

  for (guint j = 0; j < N_RATIOS; j++) {
    double spread = 0;

    if (!cost_calibration_get (data->shelf.calibration, ratios[j].groups[0], "reserved",
                               &work.prior[j], &spread)) {
      g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
                   "the base calibration has no [%s] reserved to start from", ratios[j].groups[0]);
      return FALSE;
    }
    fits[j]
        = (CostFitParameter){ .sd = MAX (spread, LEAST_SD), .low = -log (work.prior[j]) - 1e-9 };
    fits[j].high = 3 * fits[j].sd;
  }
  for (guint i = 0; i < rows->len; i++)
    ratio[i] = ratio_of (&work, i);
  weights = weights_of (&work);
  return fit (&work, &problem, weights, folds, n_folds, parameters, error);
}
