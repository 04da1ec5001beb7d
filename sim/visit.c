/* sim/visit.c - costs every layout of a family that may be among the K best. */
#include "sim/worker-private.h"

#include <math.h>

/* Layouts of one stage map: what came of them, by slot. */
typedef struct {
  guint32 fits, risky, pruned;
} Costed;

/* When a layout may be left out because its pipeline alone takes too long. */
typedef enum {
  PRUNE_NEVER, /* whether it fits must be known */
  PRUNE_ITSELF,
  PRUNE_GROWING, /* only with all that recompute more */
} Prune;

static gboolean
is_pruned (SimWorker *worker, const CostPipeBound *pipe, Prune prune)
{
  if (prune == PRUNE_NEVER)
    return FALSE;
  return sim_worker_prunes (worker, prune == PRUNE_ITSELF ? pipe->least_s : pipe->growing_s);
}

/* Tier 1 of the slots in @asked. @offered: those of them that are new to the search. */
static Costed
cost_map (SimWorker *worker, const SimShape *shape, const CostStageMap *map, guint32 asked,
          guint32 offered, Prune prune)
{
  const CostProblem *problem = worker->shared->problem;
  ModelLayout *layout = &worker->layout;
  CostPipeBound pipes[2]; /* of all layouts, and of FSDP without pipeline */
  gboolean ready[2] = { FALSE, FALSE };
  gboolean exhaustive = worker->shared->options->exhaustive;
  Costed costed = { 0 };

  for (guint i = 0; i < shape->n_slots; i++) {
    gboolean fsdp = shape->slots[i].zero == 3 && layout->pp == 1;
    CostPipeBound *pipe = &pipes[fsdp];
    const CostPlacement *placement = NULL;
    CostBound bound;

    if (!(asked & (1u << i)))
      continue;
    layout->zero = shape->slots[i].zero;
    layout->hsdp = shape->slots[i].hsdp;
    placement = sim_worker_placement (worker);
    if (!ready[fsdp] || fsdp)
      cost_pipe_bound_init (pipe, problem, layout, worker->tmpl, map, placement);
    ready[fsdp] = TRUE;
    if (is_pruned (worker, pipe, prune)) {
      costed.pruned |= 1u << i;
      continue;
    }
    cost_pipe_bound_memory (pipe, problem, layout, worker->tmpl, map, placement, &bound);
    worker->tier1_count++;
    if (bound.oom_risk > worker->shared->options->max_oom_risk) {
      costed.risky |= 1u << i;
      worker->too_risky_count++;
      if (!exhaustive && worker->estimates.n > 0)
        continue; /* nobody will ask how long it would take */
    }
    cost_pipe_bound_time (pipe, problem, layout, worker->tmpl, map, placement, &bound);
    if (costed.risky & (1u << i)) {
      sim_worker_refuse (worker, &bound);
      continue;
    }
    costed.fits |= 1u << i;
    if (offered & (1u << i))
      sim_worker_offer (worker, &bound);
  }
  return costed;
}

/* Do layouts of the template leave blocks without recompute? */
static gboolean
is_partly_plain (const SimWorker *worker)
{
  const SimSpace *space = worker->shared->space;

  return g_array_index (space->recomputes, SimRecompute, worker->recompute).kind
         == MODEL_RECOMPUTE_FULL;
}

/* full:block:N: the least N that fits, since every further layer costs time; each slot its own. */
static void
cost_partial (SimWorker *worker, const SimShape *shape, const SimPipeline *pipeline, guint32 slots)
{
  gboolean exhaustive = worker->shared->options->exhaustive;
  guint32 pending = slots;

  for (guint32 i = 0; i < pipeline->n_partial && (exhaustive || pending != 0); i++) {
    Costed costed;

    worker->layout.recompute = (ModelRecompute){ .kind = MODEL_RECOMPUTE_FULL,
                                                 .method = MODEL_RECOMPUTE_BLOCK,
                                                 .n = pipeline->first_partial + i };
    costed = cost_map (worker, shape, &pipeline->partial[i], exhaustive ? slots : pending, pending,
                       PRUNE_GROWING);
    /* a larger N takes longer yet */
    pending &= ~(costed.fits | costed.pruned);
  }
}

/* What the template tells of the layers' activations. */
static CostKept
known_kept (const SimWorker *worker)
{
  const SimSpace *space = worker->shared->space;
  gboolean partly = sim_space_tries_partial (space) || sim_space_pinned_partial (space) > 0;

  return partly && is_partly_plain (worker) ? COST_KEPT_EITHER : COST_KEPT_BLOCKS;
}

/* All recompute settings of the template on one stage list; not @whole: but that of all layers. */
static Costed
cost_pipeline (SimWorker *worker, const SimShape *shape, const SimPipeline *pipeline, guint32 slots,
               Prune prune, gboolean whole)
{
  const SimSpace *space = worker->shared->space;
  gboolean pinned_partial = sim_space_pinned_partial (space) > 0;
  Costed costed = { 0 };

  sim_shape_apply (shape, pipeline, &worker->layout);
  worker->layout.recompute = sim_space_recompute (space, worker->recompute);
  if (whole)
    costed = cost_map (worker, shape, pinned_partial ? &pipeline->partial[0] : &pipeline->map,
                       slots, slots, prune);
  if (sim_space_tries_partial (space) && worker->layout.recompute.kind == MODEL_RECOMPUTE_FULL)
    cost_partial (worker, shape, pipeline, slots);
  return costed;
}

/* Sharded ways whose memory is too unequal for the splits tried so far. */
static void
cost_by_memory (SimWorker *worker, const SimShape *shape, guint32 risky)
{
  for (guint i = 0; i < shape->n_slots; i++) {
    const SimPipeline *pipeline = NULL;
    ModelLayout *layout = &worker->layout;

    if (!(risky & (1u << i)))
      continue;
    sim_shape_apply (shape, shape->pipeline, layout);
    layout->recompute = sim_space_recompute (worker->shared->space, worker->recompute);
    layout->zero = shape->slots[i].zero;
    layout->hsdp = shape->slots[i].hsdp;
    pipeline = sim_uneven_by_memory (worker, shape->pipeline, sim_worker_placement (worker));
    if (pipeline == NULL)
      continue;
    sim_shape_apply (shape, pipeline, layout);
    cost_map (worker, shape, &pipeline->map, 1u << i, 1u << i, PRUNE_ITSELF);
  }
}

/* No layout of @shape is faster, however its layers are cut. @is_plain: with nothing recomputed but
 * what takes @recompute_s of a micro-batch. */
static double
least_cut_s (SimWorker *worker, const SimShape *shape, gboolean is_plain, double recompute_s)
{
  sim_shape_apply (shape, shape->pipeline, &worker->layout);
  return cost_template_least_cut_s (worker->shared->problem, worker->tmpl,
                                    &worker->shared->space->kinds, &worker->layout, is_plain,
                                    recompute_s);
}

/* May no cut of @shape, sharded in one of the ways in @slots, that recomputes as much as it must be
 * among the K best? The last ways need the least, mostly. */
static gboolean
is_hopeless (SimWorker *worker, const SimShape *shape, guint32 slots)
{
  double least_s = INFINITY;

  if (worker->shared->options->exhaustive || !is_partly_plain (worker))
    return FALSE;
  for (guint i = shape->n_slots; i-- > 0;) {
    double recompute_s = 0;

    if (!(slots & (1u << i)))
      continue;
    recompute_s = sim_worker_least_recompute_s (worker, shape, &shape->slots[i]);
    if (!(recompute_s > 0))
      return FALSE; /* what is known without it has not been enough */
    least_s = fmin (least_s, least_cut_s (worker, shape, TRUE, recompute_s));
    if (!sim_worker_prunes (worker, least_s))
      return FALSE;
  }
  return TRUE;
}

static void
visit_shape (SimWorker *worker, const SimShape *shape)
{
  const SimPipeline *balanced = NULL;
  gboolean uneven = sim_uneven_is_tried (worker, shape->pipeline);
  /* whether a split by memory is wanted depends on whether the others fit */
  Prune prune = uneven && shape->pipeline->vpp == 1 ? PRUNE_NEVER : PRUNE_ITSELF;
  gboolean whole = TRUE;
  guint32 slots = 0;
  Costed costed;

  if (uneven
      && sim_worker_prunes (worker, least_cut_s (worker, shape, is_partly_plain (worker), 0)))
    return;
  slots = sim_worker_fitting_slots (worker, shape, known_kept (worker));
  if (slots == 0 || is_hopeless (worker, shape, slots))
    return;
  /* some layers may do where all of them would take too long */
  whole = known_kept (worker) != COST_KEPT_EITHER
          || sim_space_pinned_partial (worker->shared->space) > 0
          || !sim_worker_prunes (worker, least_cut_s (worker, shape, FALSE, 0));
  costed = cost_pipeline (worker, shape, shape->pipeline, slots, prune, whole);
  if (!uneven)
    return;
  balanced = sim_uneven_by_time (worker, shape->pipeline);
  if (balanced != NULL)
    costed.risky &= cost_pipeline (worker, shape, balanced, slots, prune, whole).risky;
  if (prune == PRUNE_NEVER)
    cost_by_memory (worker, shape, costed.risky);
}

/* ---- templates ---- */

/* Of all recompute settings and worker->shapes. */
static double
family_least_s (SimWorker *worker)
{
  double least_s = INFINITY;

  for (guint i = 0; i < worker->shapes->len; i++) {
    const SimShape *shape = &g_array_index (worker->shapes, SimShape, i);

    least_s = fmin (least_s, least_cut_s (worker, shape, TRUE, 0));
  }
  return least_s;
}

/* What recomputing costs, roughly: one more forward pass beside one forward and two of backward. */
#define RECOMPUTE_RATIO (4 / 3.0)

/* Can the way to shard that needs the least, mostly the last, do without recompute? */
static gboolean
may_be_plain (SimWorker *worker, const SimShape *shape)
{
  SimShape one = *shape;

  one.slots[0] = shape->slots[shape->n_slots - 1];
  one.n_slots = 1;
  return sim_worker_fitting_slots (worker, &one, COST_KEPT_PLAIN) != 0;
}

double
sim_worker_guess_s (SimWorker *worker)
{
  const SimShared *shared = worker->shared;
  double guess_s = INFINITY;

  for (guint i = 0; i < worker->shapes->len; i++) {
    const SimShape *shape = &g_array_index (worker->shapes, SimShape, i);
    const SimPipeline *pipeline = shape->pipeline;
    double recompute = may_be_plain (worker, shape) ? 1 : RECOMPUTE_RATIO;
    double microbatches = 0;
    double bubble = 0;

    sim_shape_apply (shape, pipeline, &worker->layout);
    microbatches = (double)model_layout_microbatches (&worker->layout, shared->problem->job);
    bubble = (pipeline->pp - 1) / (pipeline->vpp * microbatches);
    guess_s = fmin (guess_s,
                    recompute * (1 + bubble)
                        * cost_template_least_s (shared->problem, worker->tmpl,
                                                 &shared->space->kinds, &worker->layout, TRUE));
  }
  return guess_s;
}

/* What this thread priced last, if its groups are those of @family. */
static const CostTemplate *
last_like (const SimWorker *worker, const SimFamily *family)
{
  const SimFamily *last = &worker->last_family;

  return worker->last_tmpl != NULL && last->tp == family->tp && last->cp == family->cp
                 && last->ep == family->ep && last->etp == family->etp
             ? worker->last_tmpl
             : NULL;
}

gboolean
sim_worker_price_family (SimWorker *worker, const SimFamily *family, double *out_least_s)
{
  const SimShared *shared = worker->shared;
  const CostProblem *problem = shared->problem;
  const SimShape *shape = &g_array_index (worker->shapes, SimShape, 0);
  GError *error = NULL;

  worker->layout = sim_family_layout (shared->space, family);
  sim_shape_apply (shape, shape->pipeline, &worker->layout);
  if (!cost_template_init_shared (worker->tmpl, problem->arch, &shared->space->kinds, problem->job,
                                  &worker->layout, problem->profile, problem->machine,
                                  problem->numbers, problem->gpus, last_like (worker, family),
                                  worker->gemm_memo, &error)) {
    sim_shared_fail (worker->shared, error);
    return FALSE;
  }
  sim_worker_forget_rooms (worker);
  worker->last_tmpl = worker->tmpl;
  worker->last_family = *family;
  sim_worker_drop_unfit (worker);
  *out_least_s = family_least_s (worker);
  return TRUE;
}

/* What ranking, maybe by another thread, has found. */
static void
use_priced (SimWorker *worker, const SimFamily *family, SimPriced *priced, double *out_least_s)
{
  worker->layout = sim_family_layout (worker->shared->space, family);
  worker->tmpl = priced->tmpl;
  worker->tmpl->context.gemm_memo = worker->gemm_memo;
  sim_worker_forget_rooms (worker);
  g_array_set_size (worker->shapes, 0);
  g_array_append_vals (worker->shapes, priced->shapes, priced->n_shapes);
  *out_least_s = family_least_s (worker);
}

/* Prices the template of one recompute setting. *out_least_s: no layout of it is faster. */
static gboolean
price_recompute (SimWorker *worker, guint index, double *out_least_s)
{
  const SimShared *shared = worker->shared;
  const CostProblem *problem = shared->problem;
  GError *error = NULL;

  worker->recompute = index;
  worker->template_serial++;
  sim_worker_forget_rooms (worker);
  worker->templates_count++;
  worker->layout.recompute = sim_space_recompute (shared->space, index);
  if (!cost_template_set_recompute (worker->tmpl, problem->arch, &shared->space->kinds,
                                    problem->job, &worker->layout, &error)) {
    sim_shared_fail (worker->shared, error);
    return FALSE;
  }
  *out_least_s = cost_template_least_s (problem, worker->tmpl, &shared->space->kinds,
                                        &worker->layout, is_partly_plain (worker));
  return TRUE;
}

/* Before the setting is priced: does any shape have room for what it leaves, and time? */
static gboolean
is_worth_pricing (SimWorker *worker, guint index)
{
  const SimSpace *space = worker->shared->space;

  if (worker->shared->options->exhaustive
      || g_array_index (space->recomputes, SimRecompute, index).kind != MODEL_RECOMPUTE_SELECTIVE)
    return TRUE;
  worker->layout.recompute = sim_space_recompute (space, index);
  sim_worker_forget_rooms (worker);
  for (guint i = 0; i < worker->shapes->len; i++) {
    const SimShape *shape = &g_array_index (worker->shapes, SimShape, i);

    if (shape->recomputes & (1u << index)
        && !sim_worker_prunes (worker, least_cut_s (worker, shape, TRUE, 0))
        && sim_worker_fitting_slots (worker, shape, COST_KEPT_ASKED) != 0)
      return TRUE;
  }
  return FALSE;
}

static gboolean
visit_recompute (SimWorker *worker, guint index)
{
  guint32 bit = 1u << index;
  gboolean priced = FALSE;

  for (guint i = 0; i < worker->shapes->len; i++) {
    const SimShape *shape = &g_array_index (worker->shapes, SimShape, i);
    double least_s = 0;

    if (!(shape->recomputes & bit))
      continue;
    if (!priced && !price_recompute (worker, index, &least_s))
      return FALSE;
    if (!priced && sim_worker_prunes (worker, least_s))
      return TRUE;
    priced = TRUE;
    visit_shape (worker, shape);
  }
  return TRUE;
}

/* The family's template and shapes, by ranking or anew. */
static gboolean
take_family (SimWorker *worker, const SimFamily *family, SimPriced *priced, double *out_least_s)
{
  const SimShared *shared = worker->shared;

  if (priced != NULL) {
    use_priced (worker, family, priced, out_least_s);
    return TRUE;
  }
  worker->tmpl = worker->own_tmpl;
  sim_family_shapes (shared->problem, shared->space, family, worker->shapes, NULL);
  return sim_worker_price_family (worker, family, out_least_s);
}

gboolean
sim_worker_visit (SimWorker *worker, const SimFamily *family, SimPriced *priced)
{
  const SimSpace *space = worker->shared->space;
  double least_s = 0;

  if (!take_family (worker, family, priced, &least_s))
    return FALSE;
  for (guint i = 0; i < space->recomputes->len; i++)
    if (sim_worker_prunes (worker, least_s))
      return TRUE;
    else if (is_worth_pricing (worker, i) && !visit_recompute (worker, i))
      return FALSE;
  return TRUE;
}
