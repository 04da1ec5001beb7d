/* sim/shape.c - what is legal in a family, rule by rule. */
#include "sim/shape-private.h"

#include <string.h>

typedef struct {
  const CostProblem *problem;
  const SimSpace *space;
  ModelLegality of_family; /* the rule that every layout of the family breaks, or MODEL_LEGAL */
  SimCounts *counts;
} Counting;

ModelLayout
sim_family_layout (const SimSpace *space, const SimFamily *family)
{
  ModelLayout layout = space->base;

  layout.tp = family->tp;
  layout.sp = family->sp;
  layout.cp = family->cp;
  layout.ep = family->ep;
  layout.etp = family->etp;
  layout.mbs = family->mbs;
  return layout;
}

ModelRecompute
sim_space_recompute (const SimSpace *space, guint index)
{
  const SimRecompute *choice = &g_array_index (space->recomputes, SimRecompute, index);
  ModelRecompute recompute = { .kind = choice->kind, .modules = choice->modules };

  if (space->pinned & SIM_PIN_RECOMPUTE)
    return space->base.recompute;
  if (choice->kind == MODEL_RECOMPUTE_FULL)
    recompute.n = 1;
  return recompute;
}

void
sim_shape_apply (const SimShape *shape, const SimPipeline *pipeline, ModelLayout *layout)
{
  layout->pp = pipeline->pp;
  layout->vpp = pipeline->vpp;
  layout->schedule = pipeline->schedule;
  layout->dp = shape->dp;
  layout->stage_layers = pipeline->explicit_stages ? pipeline->stage_layers : NULL;
}

/* Layouts that one entry of the recompute list stands for. */
static guint64
n_variants (const SimSpace *space, const SimPipeline *pipeline, guint index)
{
  const SimRecompute *choice = &g_array_index (space->recomputes, SimRecompute, index);
  gboolean partial = sim_space_tries_partial (space) && choice->kind == MODEL_RECOMPUTE_FULL;

  return 1 + (partial ? pipeline->n_partial : 0);
}

static guint64
n_all_variants (const SimSpace *space, const SimPipeline *pipeline)
{
  guint64 sum = 0;

  for (guint i = 0; i < space->recomputes->len; i++)
    sum += n_variants (space, pipeline, i);
  return sum;
}

static void
reject (const Counting *counting, ModelLegality rule, guint64 n)
{
  if (counting->counts != NULL)
    counting->counts->rejected[rule] += n;
}

static ModelLegality
check (const Counting *counting, const ModelLayout *layout, ModelLegality first, ModelLegality last)
{
  const CostProblem *problem = counting->problem;

  return model_layout_check_rules (first, last, problem->arch, problem->job, layout,
                                   problem->profile, problem->gpus);
}

/* ---- ways to shard ---- */

/* Ranks of one NVLink domain that share a shard, where that is fewer than all. */
static guint32
domain_shard_size (const CostProblem *problem, const ModelLayout *layout)
{
  guint32 all = layout->dp * layout->cp;
  guint32 inside = topo_machine_domain_in_use (problem->machine, problem->gpus) / layout->tp;

  return inside > 1 && inside < all && all % inside == 0 ? inside : 0;
}

static guint
list_slots (const Counting *counting, const ModelLayout *layout, SimSlot *slots)
{
  const SimSpace *space = counting->space;
  gboolean pins_hsdp = (space->pinned & SIM_PIN_HSDP) != 0;
  guint n = 0;

  for (guint z = 0; z < space->zero->len; z++) {
    guint8 zero = (guint8)g_array_index (space->zero, guint32, z);
    guint32 inside = zero > 0 && !pins_hsdp ? domain_shard_size (counting->problem, layout) : 0;

    /* nothing to shard over: the same layout as ZeRO 0 */
    if (zero > 0 && layout->dp * layout->cp == 1 && space->zero->len > 1)
      continue;
    slots[n++] = (SimSlot){ zero, pins_hsdp ? space->base.hsdp : 0 };
    if (inside > 0)
      slots[n++] = (SimSlot){ zero, inside };
  }
  return n;
}

/* Keeps the legal ones; returns how many are not. */
static guint
drop_illegal_slots (const Counting *counting, ModelLayout *layout, SimShape *shape)
{
  guint n = shape->n_slots;

  shape->n_slots = 0;
  for (guint i = 0; i < n; i++) {
    layout->zero = shape->slots[i].zero;
    layout->hsdp = shape->slots[i].hsdp;
    if (check (counting, layout, MODEL_ILLEGAL_ZERO, MODEL_ILLEGAL_ZERO) == MODEL_LEGAL)
      shape->slots[shape->n_slots++] = shape->slots[i];
  }
  return n - shape->n_slots;
}

/* ---- shapes ---- */

static void
count_recomputes (const Counting *counting, ModelLayout *layout, SimShape *shape)
{
  const SimSpace *space = counting->space;

  for (guint i = 0; i < space->recomputes->len; i++) {
    guint64 n = shape->n_slots * n_variants (space, shape->pipeline, i);
    ModelLegality rule;

    layout->recompute = sim_space_recompute (space, i);
    rule = check (counting, layout, MODEL_ILLEGAL_RECOMPUTE, MODEL_ILLEGAL_DTYPE);
    if (rule != MODEL_LEGAL) {
      reject (counting, rule, n);
      continue;
    }
    shape->recomputes |= 1u << i;
    if (counting->counts != NULL)
      counting->counts->legal_count += n;
  }
}

/* TRUE if something is legal. */
static gboolean
fill_shape (const Counting *counting, ModelLayout *layout, SimShape *shape)
{
  const SimPipeline *pipeline = shape->pipeline;
  guint64 variants = n_all_variants (counting->space, pipeline);
  ModelLegality rule = counting->of_family;

  sim_shape_apply (shape, pipeline, layout);
  shape->n_slots = list_slots (counting, layout, shape->slots);
  if (rule == MODEL_LEGAL)
    rule = check (counting, layout, MODEL_ILLEGAL_EXPERTS, MODEL_ILLEGAL_SCHEDULE);
  if (rule != MODEL_LEGAL) {
    reject (counting, rule, shape->n_slots * variants);
    return FALSE;
  }
  reject (counting, MODEL_ILLEGAL_ZERO, drop_illegal_slots (counting, layout, shape) * variants);
  rule = check (counting, layout, MODEL_ILLEGAL_SP, MODEL_ILLEGAL_SP);
  if (rule != MODEL_LEGAL) {
    reject (counting, rule, shape->n_slots * variants);
    return FALSE;
  }
  count_recomputes (counting, layout, shape);
  return shape->n_slots > 0 && shape->recomputes != 0;
}

void
sim_family_shapes (const CostProblem *problem, const SimSpace *space, const SimFamily *family,
                   GArray *shapes, SimCounts *counts)
{
  Counting counting = { .problem = problem, .space = space, .counts = counts };
  ModelLayout layout = sim_family_layout (space, family);

  g_array_set_size (shapes, 0);
  counting.of_family = check (&counting, &layout, MODEL_ILLEGAL_HEADS, MODEL_ILLEGAL_CP);
  for (guint i = 0; i < space->pipelines->len; i++) {
    const SimPipeline *pipeline = &g_array_index (space->pipelines, SimPipeline, i);
    guint64 ranks = (guint64)family->tp * family->cp * pipeline->pp;
    SimShape shape = { .pipeline = pipeline };

    if (ranks > problem->gpus || problem->gpus % ranks != 0) {
      reject (&counting, MODEL_ILLEGAL_WORLD, space->recomputes->len);
      continue;
    }
    shape.dp = (guint32)(problem->gpus / ranks);
    if ((space->pinned & SIM_PIN_DP) && space->base.dp != shape.dp)
      continue;
    if (fill_shape (&counting, &layout, &shape))
      g_array_append_val (shapes, shape);
  }
}
