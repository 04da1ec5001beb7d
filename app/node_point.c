/* app/node_point.c - programs, points, and their price. */
#include "app/node-private.h"

#include "costmodel/memop.h"
#include "costmodel/opcost.h"
#include "exec/rank.h"

#include <math.h>

/* Log of a step over the sum of its ops: up to here it is a property of the executor. */
#define UNDISTURBED  0.25
#define LEAST_WEIGHT 0.2
#define MOST_WEIGHT  3.0

void
node_program_free (NodeProgram *program)
{
  if (program == NULL)
    return;
  model_layout_clear (&program->layout);
  g_clear_pointer (&program->arch, model_arch_free);
  g_free (program);
}

NodeProgram *
node_program_new (ModelArch *arch, const ModelProfile *profile, const char *layout_text,
                  guint64 seq, guint64 global_batch, guint32 ranks, ModelDtype dtype,
                  GError **error)
{
  g_autoptr (NodeProgram) p = g_new0 (NodeProgram, 1);
  p->arch = arch;
  if (!model_layout_parse (&p->layout, layout_text, profile, error))
    return NULL;
  if (p->layout.dtype != MODEL_DTYPE_FP32)
    p->layout.dtype = dtype;
  if (!model_job_init (&p->job, arch, seq, global_batch, 0, error)
      || !model_layout_resolve (&p->layout, arch, &p->job, profile, ranks, error)
      || !exec_rank_supported (arch, &p->job, &p->layout, error))
    return NULL;
  model_rankmap_init (&p->map, &p->layout);
  return g_steal_pointer (&p);
}

void
node_point_free (NodePoint *point)
{
  if (point == NULL)
    return;
  g_free (point->benchmark);
  g_free (point->item);
  g_clear_pointer (&point->terms, g_array_unref);
  g_free (point);
}

void
node_pricer_init (NodePricer *pricer, const NodeSetting *setting, const CostNumbers *numbers)
{
  static const ModelLayout alone
      = { .tp = 1, .cp = 1, .pp = 1, .vpp = 1, .ep = 1, .etp = 1, .dp = 1 };
  ModelRankMap map;
  model_rankmap_init (&map, &alone);
  pricer->setting = setting;
  pricer->numbers = numbers;
  cost_context_init (&pricer->alone, setting->machine, setting->profile, numbers, &map);
}

static double
step_s (const NodePoint *point, const NodePricer *pricer)
{
  const NodeProgram *p = point->program;
  g_auto (CostPrediction) prediction = { 0 };
  const CostProblem problem = { .arch = p->arch,
                                .job = &p->job,
                                .profile = pricer->setting->profile,
                                .machine = pricer->setting->machine,
                                .numbers = pricer->numbers,
                                .gpus = pricer->setting->ranks,
                                .model_flop = model_step_flop (p->arch, &p->job) };
  return cost_predict (&problem, &p->layout, &prediction, NULL) ? prediction.step_s : (double)NAN;
}

static double
ops_s (const NodePoint *point, const NodePricer *pricer)
{
  CostContext grouped;
  const CostContext *context = &pricer->alone;
  double sum_s = 0;
  if (point->program != NULL) {
    cost_context_init (&grouped, pricer->setting->machine, pricer->setting->profile,
                       pricer->numbers, &point->program->map);
    context = &grouped;
  }
  for (guint i = 0; i < point->terms->len; i++) {
    const NodeTerm *term = &g_array_index (point->terms, NodeTerm, i);
    sum_s += term->times * cost_op_s (context, &term->op);
  }
  return sum_s;
}

double
node_point_s (const NodePoint *point, const NodePricer *pricer)
{
  const NodeSetting *setting = pricer->setting;
  TopoGroupShape shape;
  CostGroup group;
  switch (point->kind) {
  case NODE_STEP:
    return step_s (point, pricer);
  case NODE_COLLECTIVE:
    topo_group_shape (setting->machine, setting->ranks, point->stride, point->size, &shape);
    cost_group_init (&group, pricer->numbers, &shape);
    return cost_collective_s (&group, point->collective, (double)point->bytes);
  case NODE_MESSAGE:
    topo_pair_shape (setting->machine, setting->ranks, point->stride, &shape);
    return cost_p2p_s (pricer->numbers, &shape, (double)point->bytes);
  default:
    return ops_s (point, pricer);
  }
}

/* Ops weigh as their share in their program's time: the fit sees what steps are made of. */
void
node_points_weigh (GPtrArray *points, double ops_s)
{
  double sum_s = 0, n = 0;
  for (guint i = 0; i < points->len; i++) {
    const NodePoint *point = g_ptr_array_index (points, i);
    if (point->kind != NODE_OPS || !(point->measured_s > 0))
      continue;
    sum_s += point->measured_s * point->in_step;
    n++;
  }
  for (guint i = 0; i < points->len; i++) {
    NodePoint *point = g_ptr_array_index (points, i);
    double beside = ops_s > 0 ? log (point->measured_s / ops_s) / UNDISTURBED : 0;
    point->weight
        = point->kind == NODE_STEP ? NODE_STEP_WEIGHT / (1 + pow (fmax (beside, 0), 4)) : 1;
    if (point->kind == NODE_OPS && n > 1 && sum_s > 0)
      point->weight
          = CLAMP (n * point->measured_s * point->in_step / sum_s, LEAST_WEIGHT, MOST_WEIGHT);
  }
}
