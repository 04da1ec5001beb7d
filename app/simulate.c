/* app/simulate.c - resolves the plan, plays it as often as asked, tries what would make it faster. */
#include "app/simulate.h"

#include "app/stored.h"
#include "base/stats.h"
#include "sim/straggler.h"
#include "sim/trace.h"

#include <math.h>

#define FASTER 0.9 /* "10 % faster" */

/* What play and case borrow. */
typedef struct {
  AppSetting setting;
  AppProblem problem;
  ModelLayout layout;
  CostPrediction prediction;
} Keep;

static void
keep_free (Keep *keep)
{
  if (keep == NULL)
    return;
  cost_prediction_clear (&keep->prediction);
  model_layout_clear (&keep->layout);
  app_setting_clear (&keep->setting);
  g_free (keep);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Keep, keep_free)

void
app_simulate_result_free (AppSimulateResult *result)
{
  if (result == NULL)
    return;
  sim_result_clear (&result->first);
  sim_play_free (result->play);
  sim_case_clear (result->c);
  g_free (result->c);
  keep_free (result->keep);
  g_clear_pointer (&result->stragglers, g_array_unref);
  db_plan_free (result->plan);
  g_free (result);
}

/* ---- what is to be played ---- */

/* @request with what it leaves open taken from the stored plan, which lends its strings. */
static AppSimulateRequest
fill_from_stored (const AppSimulateRequest *request, DbPlan *stored)
{
  AppSimulateRequest all = *request;

  app_stored_inputs (stored, request->db_path, request->gpus, &all.inputs);
  if (all.layout == NULL)
    all.layout = stored->plan.layout_text;
  if (all.gpus == 0)
    all.gpus = (guint64)stored->plan.gpus;
  if (all.global_batch == 0)
    all.global_batch = (guint64)stored->plan.global_batch;
  if (all.seq == 0)
    all.seq = (guint64)stored->plan.seq;
  return all;
}

static gboolean
keep_init (Keep *keep, const AppSimulateRequest *request, GError **error)
{
  const char *text = request->layout != NULL ? request->layout : "";

  return app_setting_init (&keep->setting, &request->inputs, error)
         && app_problem_init (&keep->problem, &keep->setting, request->gpus, request->global_batch,
                              request->seq, error)
         && app_layout_from_text (&keep->layout, &keep->problem, text, error)
         && model_layout_resolve (&keep->layout, keep->setting.arch, &keep->problem.job,
                                  keep->setting.profile, keep->problem.problem.gpus, error)
         && cost_predict (&keep->problem.problem, &keep->layout, &keep->prediction, error);
}

/* Nothing was asked for by which the machine is another than the plan's. */
static gboolean
is_machine_stored (const AppSimulateRequest *request, const AppSimulateRequest *all,
                   const DbPlan *stored)
{
  return request->inputs.machine == NULL && request->inputs.gpu == NULL
         && request->inputs.what_if == NULL
         && !(g_str_equal (all->inputs.machine, "live")
              && all->inputs.live_ranks > stored->machine.gpus_per_node);
}

static Keep *
keep_new (const AppSimulateRequest *request, GError **error)
{
  g_autoptr (Keep) keep = g_new0 (Keep, 1);

  if (request->plan == NULL)
    return keep_init (keep, request, error) ? g_steal_pointer (&keep) : NULL;
  g_autoptr (DbPlan) stored = app_stored_plan (request->db_path, request->plan, error);
  if (stored == NULL)
    return NULL;
  AppSimulateRequest all = fill_from_stored (request, stored);
  if (!keep_init (keep, &all, error)
      || (is_machine_stored (request, &all, stored)
          && !app_stored_plan_is_of_machine (stored, keep->setting.machine,
                                             ", or give --machine for what it is now", error))) {
    g_prefix_error (error, "plan '%s' as stored: ", request->plan);
    return NULL;
  }
  return g_steal_pointer (&keep);
}

static gboolean
check_known (const Keep *keep, GError **error)
{
  if (isfinite (keep->prediction.step_s))
    return TRUE;
  g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
               "machine '%s': a link that the layout needs has no known rate, so no step time",
               keep->setting.machine->slug);
  return FALSE;
}

/* ---- playing ---- */

static gboolean
play_once (const SimCase *c, const SimPlayOptions *options, double *out_played_s, GError **error)
{
  g_auto (SimResult) result = { 0 };
  g_autoptr (SimPlay) play = sim_play_new (c, options, error);

  if (play == NULL || !sim_play_run (play, 0, &result, error))
    return FALSE;
  *out_played_s = result.played_s;
  return TRUE;
}

/* Passes of one micro-batch through one chunk, and GPUs whose links are laid, beyond which a search
 * does not wait for the play. */
#define MOST_PASSES (1u << 18)
#define MOST_GPUS   (1u << 16)

gboolean
app_simulated_s (const AppProblem *problem, const ModelLayout *layout,
                 const CostPrediction *prediction, double *out_simulated_s, GError **error)
{
  const SimPlayOptions options = { .contention = TRUE };
  g_auto (SimCase) c = { 0 };
  double played_s;

  *out_simulated_s = NAN;
  double passes
      = (double)model_layout_microbatches (layout, &problem->job) * layout->pp * layout->vpp;
  if (!isfinite (prediction->step_s) || passes > MOST_PASSES || problem->problem.gpus > MOST_GPUS)
    return TRUE;
  if (!sim_case_init (&c, &problem->problem, layout, error)
      || !play_once (&c, &options, &played_s, error))
    return FALSE;
  *out_simulated_s = sim_simulated_s (&c.placement, prediction, played_s);
  return TRUE;
}

/* Each part that runs at all, 10 % faster, everything else as it is. What helps is the same for all
 * that behave alike, so one rank stands for them here also where every rank was played. */
static gboolean
try_faster (AppSimulateResult *result, const SimPlayOptions *asked, GError **error)
{
  SimPlayOptions alike = *asked, *base = &alike;
  double before_s = result->first.played_s;

  alike.full = FALSE;
  if (asked->full && !play_once (result->c, base, &before_s, error))
    return FALSE;
  for (guint part = 0; part < COST_PART_N_KINDS; part++) {
    double scale[COST_PART_N_KINDS], sum_s = 0, played_s;
    SimPlayOptions options = *base;

    result->saving_ratio[part] = NAN;
    for (guint32 r = 0; r < result->first.n_ranks; r++)
      sum_s += result->first.ranks[r].parts_s[part];
    if (part == COST_PART_PP_BUBBLE || !(sum_s > 0))
      continue;
    for (guint i = 0; i < COST_PART_N_KINDS; i++)
      scale[i] = i == part ? FASTER : 1;
    options.scale = scale;
    options.event = NULL;
    if (!play_once (result->c, &options, &played_s, error))
      return FALSE;
    result->saving_ratio[part] = (before_s - played_s) / before_s;
  }
  return TRUE;
}

static AppSpread
spread_of (const double *values, guint n)
{
  return (AppSpread){ .mean = base_mean (values, n),
                      .min = base_quantile (values, n, 0),
                      .p10 = base_quantile (values, n, 0.1),
                      .p50 = base_quantile (values, n, 0.5),
                      .p90 = base_quantile (values, n, 0.9),
                      .max = base_quantile (values, n, 1) };
}

static gboolean
run_all (AppSimulateResult *result, const AppSimulateRequest *request, const Keep *keep,
         GError **error)
{
  g_autofree double *steps = g_new (double, request->runs);

  for (guint i = 0; i < request->runs; i++) {
    g_auto (SimResult) other = { 0 };
    SimResult *into = i == 0 ? &result->first : &other;
    if (request->cancelled != NULL && request->cancelled (request->user_data)) {
      result->interrupted = TRUE;
      break;
    }
    if (!sim_play_run (result->play, i, into, error))
      return FALSE;
    steps[result->runs++]
        = sim_simulated_s (&result->c->placement, &keep->prediction, into->played_s);
    if (request->progress != NULL && request->runs > 1)
      request->progress (i + 1, request->runs, request->user_data);
  }
  result->step = spread_of (steps, result->runs);
  result->simulated_s = result->step.p50;
  return TRUE;
}

/* The first run once more, with the trace listening. */
static gboolean
write_trace (AppSimulateResult *result, SimTrace *trace, const SimPlayOptions *base, GError **error)
{
  SimPlayOptions options = *base;
  g_auto (SimResult) again = { 0 };

  options.event = sim_trace_event;
  options.user_data = trace;
  g_autoptr (SimPlay) play = sim_play_new (result->c, &options, error);
  if (play == NULL || !sim_play_run (play, 0, &again, error))
    return FALSE;
  result->trace_count = sim_trace_count (trace);
  return sim_trace_close (trace, error);
}

static gboolean
play_all (AppSimulateResult *result, const AppSimulateRequest *request, Keep *keep,
          const GArray *stragglers, GError **error)
{
  const SimPlayOptions options = { .full = request->full,
                                   .contention = !request->ideal,
                                   .jitter_ratio = request->jitter_ratio,
                                   .seed = request->seed,
                                   .stragglers = (const SimStraggler *)(gpointer)stragglers->data,
                                   .n_stragglers = stragglers->len };
  const SimPlayOptions undisturbed = { 0 };
  g_autoptr (SimTrace) trace = NULL;

  /* a file that cannot be written is known before the work is done */
  if (request->trace_path != NULL && (trace = sim_trace_new (request->trace_path, error)) == NULL)
    return FALSE;
  if (!sim_case_init (result->c, &keep->problem.problem, &keep->layout, error))
    return FALSE;
  result->play = sim_play_new (result->c, &options, error);
  if (result->play == NULL || !run_all (result, request, keep, error)
      || !play_once (result->c, &undisturbed, &result->undisturbed_s, error))
    return FALSE;
  if (trace != NULL && !write_trace (result, trace, &options, error))
    return FALSE;
  return result->interrupted || try_faster (result, &options, error);
}

AppSimulateResult *
app_simulate (const AppSimulateRequest *request, GError **error)
{
  g_autoptr (AppSimulateResult) result = g_new0 (AppSimulateResult, 1);
  GArray *stragglers = request->stragglers != NULL
                           ? sim_stragglers_parse (request->stragglers, error)
                           : g_array_new (FALSE, TRUE, sizeof (SimStraggler));

  if (stragglers == NULL)
    return NULL;
  Keep *keep = keep_new (request, error);
  result->keep = keep;
  result->stragglers = stragglers;
  result->c = g_new0 (SimCase, 1);
  if (keep == NULL || !check_known (keep, error)
      || !play_all (result, request, keep, stragglers, error))
    return NULL;
  result->recurrence_s = keep->prediction.schedule_s + keep->prediction.tail_s;
  result->plan = app_record_plan (&keep->problem, &keep->layout, &keep->prediction, 1);
  result->plan->plan.prediction.simulated_s = result->simulated_s;
  return g_steal_pointer (&result);
}
