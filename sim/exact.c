/* sim/exact.c - tier 2: the exact recurrence for the candidates that may be among the K best. */
#include "sim/worker-private.h"

#include <math.h>

void
sim_exact_init (SimExact *exact, SimShared *shared, const GArray *pending)
{
  *exact = (SimExact){ .shared = shared, .pending = pending };
  g_mutex_init (&exact->lock);
  exact->plans = g_array_new (FALSE, FALSE, sizeof (SimPlan));
}

static void
plan_clear (SimPlan *plan)
{
  model_layout_clear (&plan->layout);
  cost_prediction_clear (&plan->prediction);
}

void
sim_exact_clear (SimExact *exact)
{
  for (guint i = 0; i < exact->plans->len; i++)
    plan_clear (&g_array_index (exact->plans, SimPlan, i));
  g_clear_pointer (&exact->plans, g_array_unref);
  g_mutex_clear (&exact->lock);
}

double
sim_exact_threshold_s (const SimExact *exact)
{
  guint keep = exact->shared->options->keep;

  if (exact->plans->len < keep)
    return INFINITY;
  return g_array_index (exact->plans, SimPlan, keep - 1).prediction.step_s;
}

static gint
compare_plans (const SimPlan *a, const SimPlan *b)
{
  if (a->prediction.step_s != b->prediction.step_s)
    return a->prediction.step_s < b->prediction.step_s ? -1 : 1;
  return sim_layout_compare (&a->layout, &b->layout);
}

/* Takes @plan into its place; the worst beyond K goes. */
static void
insert (SimExact *exact, SimPlan *plan)
{
  guint low = 0;
  guint high = exact->plans->len;

  while (low < high) {
    guint middle = (low + high) / 2;

    if (compare_plans (&g_array_index (exact->plans, SimPlan, middle), plan) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  g_array_insert_vals (exact->plans, low, plan, 1);
  if (exact->plans->len > exact->shared->options->keep) {
    plan_clear (&g_array_index (exact->plans, SimPlan, exact->plans->len - 1));
    g_array_set_size (exact->plans, exact->plans->len - 1);
  }
}

/* ---- one thread's predictions ---- */

#define N_TEMPLATES 16 /* 22 kB each */

typedef struct {
  gboolean used;
  ModelLayout layout; /* whose template it is; nothing owned */
  CostTemplate tmpl;
} KnownTemplate;

typedef struct {
  SimExact *exact;
  KnownTemplate *known; /* (owned) the last templates; plans often share one */
  guint next;
  CostPipelineScratch *scratch; /* (owned) */
  CostGemmMemo *gemm_memo;      /* (owned) */
} Predictor;

static gboolean
same_template (const ModelLayout *a, const ModelLayout *b)
{
  return a->tp == b->tp && a->cp == b->cp && a->ep == b->ep && a->etp == b->etp && a->mbs == b->mbs
         && a->sp == b->sp && a->cuda_graph == b->cuda_graph && a->overlap_ep == b->overlap_ep
         && a->recompute.kind == b->recompute.kind && a->recompute.modules == b->recompute.modules;
}

static const CostTemplate *
template_of (Predictor *predictor, const ModelLayout *layout, GError **error)
{
  const SimShared *shared = predictor->exact->shared;
  const CostProblem *problem = shared->problem;
  KnownTemplate *known = NULL;

  for (guint i = 0; i < N_TEMPLATES; i++)
    if (predictor->known[i].used && same_template (&predictor->known[i].layout, layout))
      return &predictor->known[i].tmpl;
  known = &predictor->known[predictor->next++ % N_TEMPLATES];
  known->used
      = cost_template_init_shared (&known->tmpl, problem->arch, &shared->space->kinds, problem->job,
                                   layout, problem->profile, problem->machine, problem->numbers,
                                   problem->gpus, NULL, predictor->gemm_memo, error)
        && cost_template_set_recompute (&known->tmpl, problem->arch, &shared->space->kinds,
                                        problem->job, layout, error);
  known->layout = *layout;
  return known->used ? &known->tmpl : NULL;
}

/* What cost_predict does, with what other plans have in common. */
static gboolean
predict_layout (Predictor *predictor, const ModelLayout *layout, CostPrediction *out,
                GError **error)
{
  const SimShared *shared = predictor->exact->shared;
  const CostProblem *problem = shared->problem;
  guint32 n = (guint32)model_layout_n_stages (layout);
  g_autofree guint32 *layers = g_new0 (guint32, n);
  const CostTemplate *tmpl = template_of (predictor, layout, error);
  g_auto (CostStageMap) map = { 0 };
  CostPlacement placement;

  if (tmpl == NULL)
    return FALSE;
  g_return_val_if_fail (model_stages_layers (problem->arch, layout, problem->profile, layers),
                        FALSE);
  cost_stage_map_init_recompute (&map, problem->arch, &shared->space->kinds, layout->pp,
                                 layout->vpp, layout->schedule, layers,
                                 cost_stage_map_recompute_layers (layout));
  cost_placement_init (&placement, problem, layout, tmpl);
  return cost_evaluate (problem, layout, tmpl, &map, &placement, predictor->scratch, out, error);
}

static gboolean
predict (Predictor *predictor, const SimCandidate *candidate)
{
  SimExact *exact = predictor->exact;
  SimPlan plan = { 0 };
  GError *error = NULL;

  if (!predict_layout (predictor, &candidate->layout, &plan.prediction, &error)) {
    sim_shared_fail (exact->shared, error);
    return FALSE;
  }
  model_layout_copy (&plan.layout, &candidate->layout);
  g_mutex_lock (&exact->lock);
  exact->tier2_count++;
  insert (exact, &plan);
  g_mutex_unlock (&exact->lock);
  return TRUE;
}

static void
take_candidates (Predictor *predictor)
{
  SimExact *exact = predictor->exact;
  SimShared *shared = exact->shared;

  while (!atomic_load (&shared->stop)) {
    guint index = atomic_fetch_add (&shared->next, 1);
    const SimCandidate *candidate = NULL;
    double threshold_s = 0;

    if (index >= exact->pending->len)
      return;
    candidate = &g_array_index (exact->pending, SimCandidate, index);
    g_mutex_lock (&exact->lock);
    threshold_s = sim_exact_threshold_s (exact);
    g_mutex_unlock (&exact->lock);
    /* sorted by bound: nothing after this one can win either; equal bounds may still tie */
    if (candidate->lower_bound_s > threshold_s || !predict (predictor, candidate))
      return;
    if (shared->options->cancelled != NULL
        && shared->options->cancelled (shared->options->user_data))
      sim_shared_fail (shared,
                       g_error_new (SIM_ERROR, SIM_ERROR_CANCELLED, "the search was stopped"));
  }
}

void
sim_exact_run (SimExact *exact)
{
  Predictor predictor = { .exact = exact,
                          .known = g_new (KnownTemplate, N_TEMPLATES),
                          .scratch = cost_pipeline_scratch_new (),
                          .gemm_memo = cost_gemm_memo_new () };

  for (guint i = 0; i < N_TEMPLATES; i++)
    predictor.known[i].used = FALSE;
  take_candidates (&predictor);
  cost_pipeline_scratch_free (predictor.scratch);
  cost_gemm_memo_free (predictor.gemm_memo);
  g_free (predictor.known);
}
