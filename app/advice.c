/* app/advice.c - the sentence under the table. */
#include "app/advice-private.h"

#include "base/units.h"

#include <math.h>
#include <string.h>

/* Does the whole model, unsharded, fit one GPU? Then splitting it only costs time. */
static gboolean
advise_data_parallel (AppPlanPoint *point, const AppProblem *problem,
                      const SimSearchOptions *options, GError **error)
{
  const AppSetting *setting = problem->setting;
  g_auto (ModelLayout) layout = { 0 };
  g_auto (CostPrediction) prediction = { 0 };
  g_autofree char *peak = NULL;
  g_autofree char *usable = NULL;

  if (!app_layout_from_text (&layout, problem, "", error))
    return FALSE;
  /* one sequence at a time must divide the batch; otherwise there is nothing to say */
  if (!model_layout_resolve (&layout, setting->arch, &problem->job, setting->profile,
                             problem->problem.gpus, NULL))
    return TRUE;
  if (!cost_predict (&problem->problem, &layout, &prediction, error))
    return FALSE;
  if (prediction.oom_risk > options->max_oom_risk)
    return TRUE;
  peak = base_units_format_bytes ((double)prediction.stages[0].memory.peak_bytes);
  usable = base_units_format_bytes ((double)prediction.usable_bytes);
  g_ptr_array_add (point->advice,
                   g_strdup_printf ("one GPU holds the whole training state (%s of %s): plain data "
                                    "parallelism is the answer; splitting the model further buys "
                                    "only latency",
                                    peak, usable));
  return TRUE;
}

/* The smallest doubling of the GPUs, up to 64 times, at which something fits. */
static gboolean
advise_more_gpus (AppPlanPoint *point, const AppProblem *problem, const SimSearchOptions *options,
                  const ModelLayout *pins, guint32 pinned, GError **error)
{
  const AppSetting *setting = problem->setting;
  SimSearchOptions quick = *options;

  quick.keep = 1;
  quick.exhaustive = FALSE;
  quick.progress = NULL;
  for (guint64 factor = 2; factor <= 64; factor *= 2) {
    AppProblem larger;
    g_auto (SimSpace) space = { 0 };
    g_auto (SimSearchResult) result = { 0 };
    g_autofree char *text = NULL;
    g_autofree char *brief = NULL;

    if (!app_problem_init (&larger, setting, point->gpus * factor, problem->job.global_batch,
                           problem->job.seq, NULL))
      continue;
    if (!sim_space_init (&space, &larger.problem, pins, pinned & ~(guint32)SIM_PIN_DP, NULL))
      continue;
    if (!sim_search (&larger.problem, &space, &quick, &result, error))
      return FALSE;
    if (result.n_plans == 0)
      continue;
    text = model_layout_format (&result.plans[0].layout, setting->profile);
    brief = model_layout_shorten (text);
    g_ptr_array_add (point->advice, g_strdup_printf ("%" G_GUINT64_FORMAT " GPUs would do, with %s",
                                                     point->gpus * factor, brief));
    return TRUE;
  }
  g_ptr_array_add (point->advice,
                   g_strdup_printf ("not even %" G_GUINT64_FORMAT " GPUs of this kind would do "
                                    "with this batch and sequence length",
                                    point->gpus * 64));
  return TRUE;
}

static void
advise_memory (AppPlanPoint *point)
{
  const AppMiss *nearest = NULL;
  g_autofree char *layout = NULL;
  g_autofree char *need = NULL;
  g_autofree char *usable = NULL;

  if (point->misses->len == 0)
    return;
  nearest = &g_array_index (point->misses, AppMiss, 0);
  need = base_units_format_bytes ((double)nearest->need_bytes);
  usable = base_units_format_bytes ((double)nearest->usable_bytes);
  layout = model_layout_shorten (nearest->layout_text);
  g_ptr_array_add (
      point->advice,
      g_strdup_printf ("the nearest miss, %s, needs about %s of %s on its fullest GPU: "
                       "a GPU with more memory, a shorter sequence or a smaller "
                       "model would do",
                       layout, need, usable));
}

/* The nearest miss may fit all the same: that is a matter of the limit. */
static void
advise_limit (AppPlanPoint *point, const SimSearchOptions *options)
{
  double risk = point->misses->len > 0 ? g_array_index (point->misses, AppMiss, 0).oom_risk : 1;

  if (risk > APP_FITS_RISK || risk <= options->max_oom_risk)
    return;
  /* rounded up, so that it is not above the limit that it names */
  g_ptr_array_add (point->advice,
                   g_strdup_printf ("the nearest miss may fit: --max-oom-risk %.0f%% lists it",
                                    ceil (100 * risk)));
}

/* Why nothing is legal: the rule that the keys held fixed break by themselves, if they do. */
static void
advise_legal (AppPlanPoint *point, const AppProblem *problem, const ModelLayout *pins)
{
  const AppSetting *setting = problem->setting;
  g_auto (ModelLayout) least = { 0 };
  g_autoptr (GError) why = NULL;
  const char *rule = NULL;

  model_layout_copy (&least, pins);
  if (model_layout_resolve (&least, setting->arch, &problem->job, setting->profile,
                            problem->problem.gpus, &why))
    rule = "every one is refused for a reason counted above (\"rejected\" in JSON)";
  else
    rule = g_str_has_prefix (why->message, "layout: ") ? why->message + strlen ("layout: ")
                                                       : why->message;
  g_ptr_array_add (point->advice, g_strdup_printf ("no layout is legal: %s", rule));
}

gboolean
app_advise (AppPlanPoint *point, const AppProblem *problem, const SimSearchOptions *options,
            const ModelLayout *pins, guint32 pinned, GError **error)
{
  if (point->plans->len > 0)
    return pinned != 0 || point->gpus == 1 || advise_data_parallel (point, problem, options, error);
  if (point->legal_count == 0) {
    advise_legal (point, problem, pins);
    return TRUE;
  }
  advise_memory (point);
  advise_limit (point, options);
  return advise_more_gpus (point, problem, options, pins, pinned, error);
}
