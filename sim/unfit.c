/* sim/unfit.c - layouts that cannot fit, told from a bound on memory alone. */
#include "sim/worker-private.h"

#include "costmodel/oomrisk.h"

#include <math.h>

/* Beyond this many times the usable bytes the risk is 1 whatever the spread. */
#define MOST_OVER 4

static double
most_need_bytes (const SimWorker *worker, double sigma)
{
  double usable = (double)worker->shared->problem->machine->gpu->usable_bytes;
  double most_risk = worker->shared->options->max_oom_risk;
  double low = 0;
  double high = MOST_OVER * usable;

  if (cost_oom_risk_fast (high, usable, sigma) <= most_risk)
    return INFINITY;
  for (guint i = 0; i < 60; i++) {
    double middle = 0.5 * (low + high);

    if (cost_oom_risk_fast (middle, usable, sigma) > most_risk)
      high = middle;
    else
      low = middle;
  }
  return low;
}

double
sim_worker_most_need_bytes (SimWorker *worker, double sigma)
{
  SimLimit *limit = NULL;

  for (guint i = 0; i < MIN (worker->n_limits, SIM_N_LIMITS); i++)
    if (worker->limits[i].sigma == sigma)
      return worker->limits[i].most_need_bytes;
  limit = &worker->limits[worker->n_limits++ % SIM_N_LIMITS];
  *limit = (SimLimit){ sigma, most_need_bytes (worker, sigma) };
  return limit->most_need_bytes;
}

/* Chunks of a pinned list may be of any length, which the bound does not cover. */
static gboolean
is_bounded (const SimWorker *worker, const SimPipeline *pipeline)
{
  return worker->shared->skips_unfit
         && (pipeline->vpp == 1 || !(worker->shared->space->pinned & SIM_PIN_STAGES));
}

guint32
sim_worker_fitting_slots (SimWorker *worker, const SimShape *shape, CostKept kept)
{
  const CostProblem *problem = worker->shared->problem;
  ModelLayout *layout = &worker->layout;
  guint64 microbatches = 0;
  CostShards shards;
  guint32 fitting = 0;

  if (!is_bounded (worker, shape->pipeline))
    return (1u << shape->n_slots) - 1;
  sim_shape_apply (shape, shape->pipeline, layout);
  microbatches = model_layout_microbatches (layout, problem->job);
  for (guint i = 0; i < shape->n_slots; i++) {
    CostMemoryPlan plan;

    layout->zero = shape->slots[i].zero;
    if (i == 0 || shape->slots[i].hsdp != layout->hsdp) {
      layout->hsdp = shape->slots[i].hsdp;
      cost_placement_shards (&shards, layout);
    }
    cost_memory_plan_init (&plan, worker->tmpl, layout, microbatches, &shards,
                           &shape->pipeline->map);
    if (cost_memory_may_fit (&plan, problem->arch, &worker->shared->space->kinds, kept,
                             sim_worker_most_need_bytes (worker, cost_need_sigma (problem, layout,
                                                                                  worker->tmpl))))
      fitting |= 1u << i;
  }
  if (fitting != (1u << shape->n_slots) - 1)
    atomic_store_explicit (&worker->shared->unfit_skipped, TRUE, memory_order_relaxed);
  return fitting;
}

double
sim_worker_least_recompute_s (SimWorker *worker, const SimShape *shape, const SimSlot *slot)
{
  const CostProblem *problem = worker->shared->problem;
  ModelLayout *layout = &worker->layout;
  double extra_s[COST_MAX_RUN_KINDS];
  CostMemoryPlan plan;
  CostShards shards;

  if (!is_bounded (worker, shape->pipeline))
    return 0;
  sim_shape_apply (shape, shape->pipeline, layout);
  layout->zero = slot->zero;
  layout->hsdp = slot->hsdp;
  cost_template_recompute_s (worker->tmpl, layout->schedule, extra_s);
  cost_placement_shards (&shards, layout);
  cost_memory_plan_init (&plan, worker->tmpl, layout,
                         model_layout_microbatches (layout, problem->job), &shards,
                         &shape->pipeline->map);
  return cost_memory_least_recompute_s (
      &plan, problem->arch, &worker->shared->space->kinds, extra_s,
      sim_worker_most_need_bytes (worker, cost_need_sigma (problem, layout, worker->tmpl)));
}

/* Keeps the slots in @bits. */
static void
keep_slots (SimShape *shape, guint32 bits)
{
  guint n = 0;

  for (guint i = 0; i < shape->n_slots; i++)
    if (bits & (1u << i))
      shape->slots[n++] = shape->slots[i];
  shape->n_slots = n;
}

void
sim_worker_drop_unfit (SimWorker *worker)
{
  guint kept = 0;

  if (!worker->shared->skips_unfit)
    return;
  worker->layout.recompute = sim_space_recompute (worker->shared->space, 0);
  for (guint i = 0; i < worker->shapes->len; i++) {
    SimShape *shape = &g_array_index (worker->shapes, SimShape, i);

    keep_slots (shape, sim_worker_fitting_slots (worker, shape, COST_KEPT_INPUTS));
    if (shape->n_slots > 0)
      g_array_index (worker->shapes, SimShape, kept++) = *shape;
  }
  g_array_set_size (worker->shapes, kept);
}
