/* app/node_fit.c - the numbers of a node: a MAP fit around the base's values, with its spreads.
 *
 * Fitted are numbers that belong to this node: its device's, its link classes', and those of the
 * profile plait. A number that the base gives for a generation or for all is taken from there and
 * becomes the device's own.
 */
#include "app/calibrate_file-private.h"
#include "app/node-private.h"

#include <math.h>
#include <string.h>

#define RESIDUAL_SD  0.10 /* log sd of a benchmark that the formulas describe well */
#define HUBER        1.5
#define ROUNDS       8
#define QUICK_ROUNDS 2
#define CHORDS       3
#define N_FOLDS      5
#define LEAST_SIGMA  0.02   /* no node repeats a step better than this when others share it */
#define MAD_TO_SD    1.4826 /* of a normal distribution */
#define NORMAL_80    1.2816 /* standard deviations that 8 in 10 lie within */
#define SLOPE_STEP   0.02   /* of a logarithm, for derivatives */
#define SEES         0.02   /* a point says something about a number that moves it by this share */
#define FAR_BYTES    64.0 /* messages this many times larger or smaller say nothing of each other */
#define OPS_MISFIT   0.3  /* log sd of what formulas leave of the ops of a program not yet run */
#define WIRE_SHARE   0.3  /* of a step that messages take: so much of their misfit is the step's */

static const char *const gpu_keys[] = { "launch",
                                        "ceiling_16bit",
                                        "gemm_memory",
                                        "k0",
                                        "wave",
                                        "power",
                                        "feed",
                                        "split",
                                        "long_loss",
                                        "step",
                                        "accumulate",
                                        "attention_flash",
                                        "attention_fused",
                                        "attention_unfused",
                                        "attention_backward",
                                        "attention_half_dim",
                                        "hbm",
                                        "embed",
                                        "norm",
                                        "rope",
                                        "act_mul",
                                        "add",
                                        "cross_entropy",
                                        "adam",
                                        "embed_backward",
                                        "norm_backward",
                                        "rope_backward",
                                        "act_mul_backward",
                                        "cross_entropy_backward",
                                        NULL };
static const char *const link_keys[] = { "base",
                                         "hop",
                                         "bandwidth",
                                         "all_reduce_16k",
                                         "all_reduce_512k",
                                         "all_reduce_16m",
                                         "all_reduce_256m",
                                         "all_gather_16k",
                                         "all_gather_512k",
                                         "all_gather_16m",
                                         "all_gather_256m",
                                         "reduce_scatter_16k",
                                         "reduce_scatter_512k",
                                         "reduce_scatter_16m",
                                         "reduce_scatter_256m",
                                         NULL };
static const char *const profile_keys[] = { "memory_factor", "p2p_host", "overhead", NULL };

static void
value_clear (gpointer data)
{
  g_free (((NodeValue *)data)->group);
}

/* The base's number, from the first group that has it. */
static gboolean
look_up (const CostCalibration *calibration, const char *const groups[], const char *key,
         double *out_value, double *out_spread)
{
  for (guint i = 0; groups[i] != NULL; i++)
    if (cost_calibration_get (calibration, groups[i], key, out_value, out_spread))
      return TRUE;
  return FALSE;
}

/* Numbers without a spread are choices: they stay. */
static void
add_values (NodeFit *fit, const char *const groups[], const char *const keys[], const char *source)
{
  for (guint i = 0; keys[i] != NULL; i++) {
    NodeValue value = { .key = keys[i] };
    if (!look_up (fit->calibration, groups, keys[i], &value.prior, &value.prior_sd)
        || !(value.prior_sd > 0) || !(value.prior > 0)
        || !cost_calibration_put (fit->calibration, groups[0], keys[i], value.prior, value.prior_sd,
                                  source))
      continue;
    value.group = g_strdup (groups[0]);
    value.value = value.prior;
    value.sd = value.prior_sd;
    g_array_append_val (fit->values, value);
  }
}

static void
add_all_values (NodeFit *fit)
{
  const TopoMachine *machine = fit->setting->machine;
  static const char *const source = "plait calibrate, on this node";
  g_autofree char *slug = g_strdup_printf ("gpu %s", machine->gpu->slug);
  g_autofree char *generation = g_strdup_printf ("gpu %s", machine->gpu->generation);
  g_autofree char *profile = g_strdup_printf ("profile %s", fit->setting->profile->name);
  const char *const gpu_groups[] = { slug, generation, "gpu default", NULL };
  const char *const profile_groups[] = { profile, "profile default", NULL };
  add_values (fit, gpu_groups, gpu_keys, source);
  add_values (fit, profile_groups, profile_keys, source);
  if (fit->setting->ranks < 2)
    return;
  guint32 seen = 0;
  for (guint32 distance = 1; distance < fit->setting->ranks; distance++) {
    TopoGroupShape shape;
    topo_pair_shape (machine, fit->setting->ranks, distance, &shape);
    g_autofree char *link
        = g_strdup_printf ("link %s", topo_link_class_name ((TopoLinkClass)shape.link_class));
    const char *const link_groups[] = { link, "link default", NULL };
    if ((seen & (1u << shape.link_class)) == 0)
      add_values (fit, link_groups, link_keys, source);
    seen |= 1u << shape.link_class;
  }
}

gboolean
node_fit_init (NodeFit *fit, const NodeSetting *setting, const char *base_text,
               const char *base_name, GError **error)
{
  g_autoptr (BaseIni) ini = base_ini_new_from_data (base_text, -1, base_name, error);
  *fit = (NodeFit){ .setting = setting, .sigma = NAN };
  if (ini == NULL)
    return FALSE;
  fit->calibration = cost_calibration_from_ini (ini, base_name, error);
  if (fit->calibration == NULL
      || !cost_numbers_init (&fit->base, fit->calibration, setting->machine, setting->profile->name,
                             error))
    return FALSE;
  fit->values = g_array_new (FALSE, FALSE, sizeof (NodeValue));
  g_array_set_clear_func (fit->values, value_clear);
  add_all_values (fit);
  fit->n_fitted = fit->values->len;
  return TRUE;
}

void
node_fit_clear (NodeFit *fit)
{
  if (fit == NULL)
    return;
  g_clear_pointer (&fit->calibration, cost_calibration_free);
  g_clear_pointer (&fit->values, g_array_unref);
  cost_numbers_clear (&fit->base);
  cost_fit_point_clear (&fit->at);
  g_clear_pointer (&fit->base_s, g_free);
  g_clear_pointer (&fit->fit_s, g_free);
}

static NodeValue *
value_at (const NodeFit *fit, guint i)
{
  return &g_array_index (fit->values, NodeValue, i);
}

/* The numbers at @x. */
static gboolean
numbers_at (const NodeFit *fit, const double *x, CostNumbers *out, GError **error)
{
  for (guint j = 0; j < fit->n_fitted; j++) {
    double low, high;
    const NodeValue *value = value_at (fit, j);
    double *slot = cost_calibration_slot (fit->calibration, value->group, value->key, &low, &high);
    *slot = CLAMP (value->prior * exp (x[j]), low, high);
  }
  return cost_numbers_init (out, fit->calibration, fit->setting->machine,
                            fit->setting->profile->name, error);
}

static gboolean
residuals (const double *x, guint moved, double *r, gpointer user_data, GError **error)
{
  const NodeFit *fit = user_data;
  g_auto (CostNumbers) numbers = { 0 };
  (void)moved;
  if (!numbers_at (fit, x, &numbers, error))
    return FALSE;
  NodePricer pricer;
  node_pricer_init (&pricer, fit->setting, &numbers);
  for (guint i = 0; i < fit->points->len; i++) {
    const NodePoint *point = g_ptr_array_index (fit->points, i);
    double predicted_s = node_point_s (point, &pricer);
    r[i] = predicted_s > 0 ? log (predicted_s / point->measured_s) : 0;
  }
  return TRUE;
}

static void
make_problem (NodeFit *fit, CostFitParameter *parameters, CostFitProblem *out)
{
  for (guint j = 0; j < fit->n_fitted; j++) {
    double low = 0, high = 0;
    const NodeValue *value = value_at (fit, j);
    cost_calibration_slot (fit->calibration, value->group, value->key, &low, &high);
    parameters[j] = (CostFitParameter){ .sd = value->prior_sd,
                                        .low = low > 0 ? log (low / value->prior) - 1e-6 : -12,
                                        .high = log (high / value->prior) + 1e-6 };
  }
  *out = (CostFitProblem){ .n_parameters = fit->n_fitted,
                           .n_residuals = fit->points->len,
                           .parameters = parameters,
                           .residual_sd = RESIDUAL_SD,
                           .huber = HUBER,
                           .residuals = residuals,
                           .user_data = fit };
}

static double *
weights_of (const NodeFit *fit)
{
  double *weights = g_new (double, MAX (fit->points->len, 1));
  for (guint i = 0; i < fit->points->len; i++)
    weights[i] = ((NodePoint *)g_ptr_array_index (fit->points, i))->weight;
  return weights;
}

static void
take_values (NodeFit *fit, const double *sd)
{
  guint n = fit->n_fitted;
  for (guint j = 0; j < n; j++) {
    NodeValue *value = value_at (fit, j);
    value->value = calibrate_rounded (value->prior * exp (fit->at.x[j]));
    value->sd = calibrate_rounded (sd[j]);
    value->n_points = 0;
    for (guint i = 0; i < fit->points->len; i++)
      value->n_points += fabs (fit->at.jacobian[(gsize)i * n + j]) > SEES;
    cost_calibration_set (fit->calibration, value->group, value->key, value->value, value->sd);
  }
}

static gboolean
predict_all (NodeFit *fit, GError **error)
{
  g_auto (CostNumbers) numbers = { 0 };
  if (!cost_numbers_init (&numbers, fit->calibration, fit->setting->machine,
                          fit->setting->profile->name, error))
    return FALSE;
  g_free (fit->base_s);
  g_free (fit->fit_s);
  fit->base_s = g_new (double, MAX (fit->points->len, 1));
  fit->fit_s = g_new (double, MAX (fit->points->len, 1));
  NodePricer before, after;
  node_pricer_init (&before, fit->setting, &fit->base);
  node_pricer_init (&after, fit->setting, &numbers);
  for (guint i = 0; i < fit->points->len; i++) {
    const NodePoint *point = g_ptr_array_index (fit->points, i);
    fit->base_s[i] = node_point_s (point, &before);
    fit->fit_s[i] = node_point_s (point, &after);
  }
  return TRUE;
}

gboolean
node_fit_run (NodeFit *fit, const GPtrArray *points, gboolean quick, GError **error)
{
  g_autofree CostFitParameter *parameters = g_new (CostFitParameter, fit->n_fitted);
  g_autofree double *sd = g_new (double, fit->n_fitted);
  g_autofree double *weights = NULL;
  CostFitProblem problem;
  fit->points = points;
  cost_fit_point_clear (&fit->at);
  make_problem (fit, parameters, &problem);
  weights = weights_of (fit);
  if (!cost_fit (&problem, weights, quick ? QUICK_ROUNDS : ROUNDS, &fit->at, error))
    return FALSE;
  cost_fit_sd (&problem, weights, &fit->at, sd);
  take_values (fit, sd);
  return quick || predict_all (fit, error);
}

/* Seconds of one run of @bench by @numbers: of a step, or of its single point. */
static double
bench_s (const NodeFit *fit, const NodeBench *bench, const CostNumbers *numbers)
{
  double sum_s = 0;
  NodePricer pricer;
  node_pricer_init (&pricer, fit->setting, numbers);
  for (guint i = 0; i < bench->points->len; i++) {
    const NodePoint *point = g_ptr_array_index (bench->points, i);
    if (point->kind != NODE_STEP || bench->points->len == 1)
      sum_s += point->in_step * node_point_s (point, &pricer);
  }
  return sum_s;
}

/*
 * How far off the formulas are beyond their numbers' spreads; for messages like that of @bench the
 * root mean square of what is left of those measured, 1 before any, and less the nearer the next
 * measured size is. A transport changes its algorithm between sizes, which no spread of a number
 * knows of.
 */
static double
misfit (const NodeFit *fit, const NodeBench *bench)
{
  double squares = 0, nearest = 1;
  guint n = 0;
  if (bench->bench.kind == EXEC_BENCH_PROGRAM)
    return OPS_MISFIT;
  const NodePoint *own = bench->points->len == 1 ? g_ptr_array_index (bench->points, 0) : NULL;
  if (own == NULL || (own->kind != NODE_COLLECTIVE && own->kind != NODE_MESSAGE))
    return 0;
  for (guint i = 0; i < fit->points->len; i++) {
    const NodePoint *point = g_ptr_array_index (fit->points, i);
    if (point->kind != own->kind || point->word != own->word || point->size != own->size
        || point->stride != own->stride)
      continue;
    double times = fabs (log ((double)point->bytes / (double)own->bytes));
    squares += fit->at.r[i] * fit->at.r[i];
    nearest = fmin (nearest, times / log (FAR_BYTES));
    n++;
  }
  return WIRE_SHARE * (n > 0 ? sqrt (squares / n) * nearest : 1);
}

gboolean
node_fit_doubts (NodeFit *fit, const GPtrArray *benches, double *out_doubts, double *out_times_s)
{
  g_auto (CostNumbers) here = { 0 };
  g_autofree double *x = g_memdup2 (fit->at.x, fit->n_fitted * sizeof *x);
  if (!numbers_at (fit, x, &here, NULL))
    return FALSE;
  for (guint i = 0; i < benches->len; i++) {
    const NodeBench *bench = g_ptr_array_index (benches, i);
    gboolean missing = bench->state == NODE_BENCH_MISSING;
    out_times_s[i] = missing ? bench_s (fit, bench, &here) : 0;
    out_doubts[i] = missing ? pow (misfit (fit, bench), 2) : 0;
  }
  for (guint j = 0; j < fit->n_fitted; j++) {
    g_auto (CostNumbers) moved = { 0 };
    double keep = x[j];
    x[j] += SLOPE_STEP;
    gboolean ok = numbers_at (fit, x, &moved, NULL);
    x[j] = keep;
    for (guint i = 0; ok && i < benches->len; i++) {
      if (!(out_times_s[i] > 0))
        continue;
      double time_s = bench_s (fit, g_ptr_array_index (benches, i), &moved);
      out_doubts[i] += pow (log (time_s / out_times_s[i]) / SLOPE_STEP * value_at (fit, j)->sd, 2);
    }
  }
  for (guint i = 0; i < benches->len; i++) /* what has no points tells what nothing else does */
    out_doubts[i]
        = ((NodeBench *)g_ptr_array_index (benches, i))->points->len > 0 ? sqrt (out_doubts[i]) : 1;
  return TRUE;
}

void
node_fit_put (NodeFit *fit, const char *group, const char *key, double value, double sd,
              guint n_points)
{
  NodeValue new_value = { .key = key,
                          .value = calibrate_rounded (value),
                          .sd = sd,
                          .n_points = n_points,
                          .measured = TRUE,
                          .prior = NAN,
                          .prior_sd = NAN };
  cost_calibration_get (fit->calibration, group, key, &new_value.prior, &new_value.prior_sd);
  if (!cost_calibration_put (fit->calibration, group, key, new_value.value, sd,
                             "plait calibrate, on this node"))
    return;
  new_value.group = g_strdup (group);
  g_array_append_val (fit->values, new_value);
}

static int
by_value (const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The residuals of steps when the fold they are in is left out, into @out. */
static gboolean
leave_out (NodeFit *fit, const CostFitProblem *problem, guint fold, GArray *out, GError **error)
{
  g_autofree double *weights = weights_of (fit);
  g_autofree double *x = g_new (double, fit->n_fitted);
  g_autofree double *r = g_new (double, MAX (fit->points->len, 1));
  g_autoptr (GHashTable) left = g_hash_table_new (g_str_hash, g_str_equal);
  guint n = 0;
  for (guint i = 0; i < fit->points->len; i++) {
    const NodePoint *point = g_ptr_array_index (fit->points, i);
    if (point->kind == NODE_STEP && n++ % N_FOLDS == fold)
      g_hash_table_add (left, point->benchmark);
  }
  for (guint i = 0; i < fit->points->len; i++)
    if (g_hash_table_contains (left, ((NodePoint *)g_ptr_array_index (fit->points, i))->benchmark))
      weights[i] = 0;
  if (!cost_fit_again (problem, weights, CHORDS, &fit->at, x, error)
      || !residuals (x, G_MAXUINT, r, fit, error))
    return FALSE;
  for (guint i = 0; i < fit->points->len; i++) {
    const NodePoint *point = g_ptr_array_index (fit->points, i);
    double size = fabs (r[i]);
    if (point->kind == NODE_STEP && weights[i] == 0)
      g_array_append_val (out, size);
  }
  return TRUE;
}

/*
 * The interval reaches z10 and z90 times sigma, further than a normal distribution's 80 %: tails of
 * published runs are long. What is left out here is as the user's next step, so sigma gives way.
 */
static double
nominal_share (const NodeFit *fit)
{
  double reach = (fabs (fit->base.uncertainty.z10) + fabs (fit->base.uncertainty.z90)) / 2;
  return reach > 0 ? NORMAL_80 / reach : 1;
}

gboolean
node_fit_judge (NodeFit *fit, GError **error)
{
  g_autofree CostFitParameter *parameters = g_new (CostFitParameter, fit->n_fitted);
  g_autoptr (GArray) sizes = g_array_new (FALSE, FALSE, sizeof (double));
  g_autofree char *profile = g_strdup_printf ("profile %s", fit->setting->profile->name);
  CostFitProblem problem;
  make_problem (fit, parameters, &problem);
  for (guint fold = 0; fold < N_FOLDS; fold++)
    if (!leave_out (fit, &problem, fold, sizes, error))
      return FALSE;
  fit->n_steps = sizes->len;
  for (guint j = 0; j < fit->n_fitted; j++) /* the last fold moved the numbers */
    cost_calibration_set (fit->calibration, value_at (fit, j)->group, value_at (fit, j)->key,
                          value_at (fit, j)->value, value_at (fit, j)->sd);
  if (sizes->len < 3)
    return TRUE;
  qsort (sizes->data, sizes->len, sizeof (double), by_value);
  const double *sorted = (const double *)sizes->data;
  double median = sizes->len % 2 ? sorted[sizes->len / 2]
                                 : (sorted[sizes->len / 2 - 1] + sorted[sizes->len / 2]) / 2;
  /* few steps know their spread badly: Student's t in place of the normal, to first order */
  fit->sigma
      = MAX (MAD_TO_SD * median, LEAST_SIGMA) * sqrt (1 + 2.0 / sizes->len) * nominal_share (fit);
  node_fit_put (fit, profile, "sigma", fit->sigma, 0, sizes->len);
  value_at (fit, fit->values->len - 1)->measured = FALSE;
  return TRUE;
}
