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

/* Beside CostKept: layers recompute or not, counted from those that do not. */
#define KEPT_PARTLY (COST_KEPT_PLAIN + 1)

/* Chunks of a pinned list may be of any length, which the bound does not cover. */
static gboolean
is_bounded (const SimWorker *worker, const SimPipeline *pipeline)
{
  return worker->shared->skips_unfit && !model_schedule_is_listed (pipeline->schedule)
         && (pipeline->vpp == 1 || !(worker->shared->space->pinned & SIM_PIN_STAGES));
}

/* ---- rooms ---- */

void
sim_worker_forget_rooms (SimWorker *worker)
{
  worker->n_rooms = 0;
}

static void
room_init (SimWorker *worker, SimRoom *room, const SimPipeline *pipeline)
{
  const CostProblem *problem = worker->shared->problem;
  const ModelLayout *layout = &worker->layout;
  /* what recompute saves is counted from layers that recompute nothing */
  CostKept layers = room->kept == KEPT_PARTLY ? COST_KEPT_PLAIN : (CostKept)room->kept;
  CostKept work = room->kept == KEPT_PARTLY ? COST_KEPT_EITHER : (CostKept)room->kept;
  CostMemoryPlan plan;
  CostShards shards;

  cost_placement_shards (&shards, layout);
  cost_memory_plan_init (&plan, worker->tmpl, layout, 1, &shards, &pipeline->map);
  cost_room_init (&room->room, &plan, problem->arch, &worker->shared->space->kinds, layers, work,
                  sim_worker_most_need_bytes (worker,
                                              cost_need_sigma (problem, layout, worker->tmpl)));
}

/* Of worker->layout, which has the pipeline of @shape, sharded as @slot says: pipelines of one pp
 * share it. */
static const CostRoom *
room_for (SimWorker *worker, const SimShape *shape, const SimSlot *slot, guint kept)
{
  SimRoom *room = NULL;

  for (guint i = 0; i < worker->n_rooms; i++) {
    room = &worker->rooms[i];
    if (room->slot.zero == slot->zero && room->slot.hsdp == slot->hsdp && room->kept == kept
        && room->pp == shape->pipeline->pp)
      return &room->room;
  }
  if (worker->n_rooms > 0 && worker->rooms[0].pp != shape->pipeline->pp)
    worker->n_rooms = 0;
  room = &worker->rooms[worker->n_rooms < SIM_N_ROOMS ? worker->n_rooms++ : 0];
  room->slot = *slot;
  room->kept = kept;
  room->pp = shape->pipeline->pp;
  worker->layout.zero = slot->zero;
  worker->layout.hsdp = slot->hsdp;
  room_init (worker, room, shape->pipeline);
  return &room->room;
}

guint32
sim_worker_fitting_slots (SimWorker *worker, const SimShape *shape, CostKept kept)
{
  const CostStageMap *map = &shape->pipeline->map;
  guint64 microbatches = 0;
  guint32 fitting = 0;

  if (!is_bounded (worker, shape->pipeline))
    return (1u << shape->n_slots) - 1;
  sim_shape_apply (shape, shape->pipeline, &worker->layout);
  microbatches = model_layout_microbatches (&worker->layout, worker->shared->problem->job);
  for (guint i = 0; i < shape->n_slots; i++)
    if (cost_room_may_fit (room_for (worker, shape, &shape->slots[i], kept), map, microbatches))
      fitting |= 1u << i;
  if (fitting != (1u << shape->n_slots) - 1)
    atomic_store_explicit (&worker->shared->unfit_skipped, TRUE, memory_order_relaxed);
  return fitting;
}

double
sim_worker_least_recompute_s (SimWorker *worker, const SimShape *shape, const SimSlot *slot)
{
  ModelLayout *layout = &worker->layout;
  const CostRoom *room = NULL;
  double extra_s[COST_MAX_RUN_KINDS];

  if (!is_bounded (worker, shape->pipeline) || layout->recompute.n > 1)
    return 0;
  sim_shape_apply (shape, shape->pipeline, layout);
  cost_template_recompute_s (worker->tmpl, layout->schedule, extra_s);
  room = room_for (worker, shape, slot, KEPT_PARTLY);
  return cost_room_least_recompute_s (room, &shape->pipeline->map,
                                      model_layout_microbatches (layout,
                                                                 worker->shared->problem->job),
                                      cost_room_saved_per_s (room, worker->tmpl, extra_s));
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
