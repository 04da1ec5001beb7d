/* costmodel/evaluate.c - tier 2: the recurrence, the breakdown, every stage's memory. */
#include "costmodel/evaluate.h"
#include "costmodel/evaluate-private.h"
#include "costmodel/oomrisk.h"
#include "costmodel/uncertainty.h"
#include <string.h>

typedef struct {
  const CostProblem *problem;
  const ModelLayout *layout;
  const CostTemplate *tmpl;
  const CostStageMap *stages;
  const CostPlacement *placement;
  guint64 microbatches;
  double passes; /* micro-batches of one chunk */
} Evaluation;

/* Where the time of one micro-batch on one rank goes; sums to forward and backward. */
static void
add_parts (double *parts, const CostBlock *block, double count)
{
  for (guint pass = 0; pass < COST_PASS_N_KINDS; pass++) {
    double tp_s = block->exposed_tp_s[pass], cp_s = block->exposed_cp_s[pass];
    double ep_s = block->exposed_ep_s[pass];
    parts[COST_PART_TP] += count * tp_s;
    parts[COST_PART_CP] += count * cp_s;
    parts[COST_PART_EP] += count * ep_s;
    parts[COST_PART_COMPUTE] += count * MAX (block->pass_s[pass] - tp_s - cp_s - ep_s, 0);
  }
}

static void
content_parts (const Evaluation *e, const CostStageContent *content, double *parts)
{
  memset (parts, 0, COST_PART_N_KINDS * sizeof *parts);
  for (guint kind = 0; kind < e->tmpl->n_kinds; kind++) {
    double recomputed = content->recomputed[kind];
    add_parts (parts, &e->tmpl->blocks[kind], recomputed);
    add_parts (parts, &e->tmpl->plain_blocks[kind], content->blocks[kind] - recomputed);
  }
  if (content->has_embedding)
    add_parts (parts, &e->tmpl->embedding, 1);
  if (content->has_head)
    add_parts (parts, &e->tmpl->head, 1);
  CostStageTime time;
  cost_stage_time (&time, e->tmpl, e->placement, e->layout, content);
  parts[COST_PART_DP] = time.fsdp_s;
}

/* What listed schedules need beside the stage times; @extras: three arrays. */
static void
fill_extras (const Evaluation *e, double *extras, CostPipeline *pipeline)
{
  const CostStageMap *stages = e->stages;
  guint64 n = model_schedule_n_stages (stages->schedule, stages->pp, stages->vpp);
  pipeline->list = e->layout->schedule_list;
  pipeline->apart_s = extras;
  for (guint64 stage = 0; stage < n; stage++) {
    CostStageExtra extra;
    cost_stage_extra (&extra, e->tmpl, &stages->contents[stages->content_of_stage[stage]]);
    extras[stage] = extra.apart_s;
    extras[n + stage] = extra.forward_ep_s;
    extras[2 * n + stage] = extra.backward_ep_s;
  }
  if (cost_has_pairs (stages->schedule)) {
    pipeline->forward_ep_s = extras + n;
    pipeline->backward_ep_s = extras + 2 * n;
  }
}

/* Stage times of the whole pipeline, three arrays in one block of memory, and three more. */
static void
fill_pipeline (const Evaluation *e, const CostMessages *messages, double *times,
               CostPipeline *pipeline)
{
  const CostStageMap *stages = e->stages;
  guint32 n = (guint32)model_schedule_n_stages (stages->schedule, stages->pp, stages->vpp);
  for (guint32 stage = 0; stage < n; stage++) {
    CostStageTime time;
    cost_stage_time (&time, e->tmpl, e->placement, e->layout,
                     &stages->contents[stages->content_of_stage[stage]]);
    times[stage] = time.forward_s + messages->host_s + (stage > 0 ? messages->receive_s : 0);
    times[n + stage]
        = time.backward_input_s + messages->host_s + (stage + 1 < n ? messages->receive_s : 0);
    times[2 * (gsize)n + stage] = time.backward_weight_s;
  }
  *pipeline = (CostPipeline){ .schedule = stages->schedule,
                              .pp = stages->pp,
                              .vpp = stages->vpp,
                              .microbatches = e->microbatches,
                              .forward_s = times,
                              .backward_input_s = times + n,
                              .backward_weight_s = times + 2 * (gsize)n,
                              .p2p_s = messages->delay_s };
  if (model_schedule_is_listed (stages->schedule))
    fill_extras (e, times + 3 * (gsize)n, pipeline);
}

/* The makespan without messages (*@out) and what they add to it. */
static gboolean
play (const Evaluation *e, CostPipelineScratch *scratch, CostPipelineResult *out, double *out_p2p_s,
      GError **error)
{
  CostMessages messages, none = { 0 };
  CostPipeline pipeline, with_messages;
  CostPipelineResult results[2];
  gsize n = 6 * (gsize)e->stages->pp * e->stages->vpp;
  g_autofree double *times = g_new (double, 2 * n);
  fill_pipeline (e, &none, times, &pipeline);
  cost_messages_init (&messages, e->problem, e->layout, e->placement);
  fill_pipeline (e, &messages, times + n, &with_messages);
  if (!cost_pipeline_recurrence_both (&pipeline, &with_messages, scratch, results, error))
    return FALSE;
  *out = results[0];
  *out_p2p_s = MAX (results[1].makespan_s - results[0].makespan_s, 0);
  return TRUE;
}

/* Mean over the ranks of their work in the step. */
static double
mean_work_s (const Evaluation *e)
{
  double sum_s = 0;
  for (guint32 i = 0; i < e->stages->n_classes; i++) {
    CostStageTime time;
    const CostStageClass *class = &e->stages->classes[i];
    cost_stage_time (&time, e->tmpl, e->placement, e->layout, &class->content);
    sum_s += class->n_ranks * (time.forward_s + time.backward_s);
  }
  return e->passes * sum_s / e->stages->pp;
}

/* Where stages reduce in turn, those of all ranks count. */
static void
longest_tail (const Evaluation *e, CostTail *out)
{
  double reductions_s = 0;
  *out = (CostTail){ 0 };
  for (guint32 i = 0; i < e->stages->n_classes; i++) {
    const CostStageClass *class = &e->stages->classes[i];
    CostWeights weights;
    CostStageTime time;
    CostTail tail;
    cost_weights_count (&weights, e->tmpl, &class->content, e->layout->pp > 1);
    cost_stage_time (&time, e->tmpl, e->placement, e->layout, &class->content);
    cost_tail (&tail, e->problem, e->layout, e->tmpl, e->placement, &class->content, &weights,
               e->microbatches, &time);
    reductions_s += class->n_ranks * tail.reduction_s;
    if (i == 0 || tail.sum_s > out->sum_s)
      *out = tail;
  }
  if (model_layout_reduces_in_turn (e->layout, e->problem->profile)) {
    out->dp_s += reductions_s - out->reduction_s;
    out->sum_s += reductions_s - out->reduction_s;
  }
}

/*
 * The parts of the critical rank's work are scaled together, so that they sum to what the fitted
 * imbalance makes of it; the straggler's share and the fixed time are "other". The step is the sum.
 */
static void
fill_breakdown (const Evaluation *e, const CostPipelineResult *result, double p2p_s,
                CostPrediction *out)
{
  const CostStepNumbers *step = &e->problem->numbers->step;
  double *parts = out->breakdown_s;
  CostTail tail;
  longest_tail (e, &tail);
  out->schedule_s = result->makespan_s + p2p_s;
  out->tail_s = tail.sum_s;
  guint16 critical = e->stages->class_of_rank[result->critical_rank];
  content_parts (e, &e->stages->classes[critical].content, parts);
  parts[COST_PART_TP] += result->apart_s / e->passes;
  parts[COST_PART_EP] = MAX (parts[COST_PART_EP] - result->hidden_ep_s / e->passes, 0);
  double one_s = 0;
  for (guint part = 0; part < COST_PART_N_KINDS; part++)
    one_s += parts[part];
  gboolean is_listed = model_schedule_is_listed (e->stages->schedule);
  double mean_s = is_listed ? result->mean_busy_s : mean_work_s (e);
  double work_s = cost_pipe_s (step, mean_s, result->busy_s);
  double scale = one_s > 0 ? work_s / one_s : 0;
  for (guint part = 0; part < COST_PART_N_KINDS; part++)
    parts[part] *= scale;
  parts[COST_PART_PP_BUBBLE] = step->bubble_ratio * MAX (result->makespan_s - result->busy_s, 0);
  parts[COST_PART_P2P] = p2p_s;
  parts[COST_PART_DP] += tail.dp_s;
  parts[COST_PART_TP] += tail.tp_s;
  parts[COST_PART_OPTIMIZER] = tail.optimizer_s;
  double sum_s = step->fixed_s;
  for (guint part = 0; part < COST_PART_OTHER; part++)
    sum_s += parts[part];
  parts[COST_PART_OTHER] = step->fixed_s + e->placement->straggler_ratio * sum_s;
  out->step_s = 0;
  for (guint part = 0; part < COST_PART_N_KINDS; part++)
    out->step_s += parts[part];
}

static void
fill_rates (const Evaluation *e, CostPrediction *out)
{
  const CostProblem *problem = e->problem;
  double tokens = (double)problem->job->global_batch * (double)problem->job->seq;
  double flop_per_s = problem->model_flop / out->step_s / problem->gpus;
  out->tokens_per_s_per_gpu = tokens / out->step_s / problem->gpus;
  out->tflops_per_gpu = flop_per_s / 1e12;
  out->mfu = flop_per_s / e->tmpl->context.peak_flop_per_s[e->layout->dtype];
  guint32 nodes
      = (problem->gpus + problem->machine->gpus_per_node - 1) / problem->machine->gpus_per_node;
  CostRegime regime
      = { .moe = e->tmpl->is_moe,
          .assumed_count = problem->numbers->assumed != NULL ? problem->numbers->assumed->len : 0,
          .guessed_count = problem->guessed_count,
          .nodes = nodes,
          .dp_exposed_ratio = out->breakdown_s[COST_PART_DP] / out->step_s };
  cost_uncertainty_interval (problem->numbers, &regime, out->step_s, &out->step_s_p10,
                             &out->step_s_p90);
}

static void
fill_stage (const Evaluation *e, const CostMemoryPlan *plan, double sigma, guint32 rank,
            CostStagePrediction *out)
{
  const CostStageClass *class = &e->stages->classes[e->stages->class_of_rank[rank]];
  CostStageClass own = *class; /* this rank has fewer in flight than the first of its class */
  CostWeights weights;
  double parts[COST_PART_N_KINDS];
  own.first_rank = rank;
  cost_weights_count (&weights, e->tmpl, &class->content, e->layout->pp > 1);
  cost_stage_memory (&out->memory, plan, &own, &weights);
  content_parts (e, &class->content, parts);
  out->stage = rank;
  out->layers = class->content.layers;
  out->compute_s = e->passes * parts[COST_PART_COMPUTE];
  out->oom_risk = cost_oom_risk ((double)out->memory.need_bytes,
                                 (double)e->problem->machine->gpu->usable_bytes, sigma);
}

static void
fill_stages (const Evaluation *e, CostPrediction *out)
{
  CostMemoryPlan plan;
  cost_memory_plan_init (&plan, e->tmpl, e->layout, e->microbatches, &e->placement->shards,
                         e->stages);
  out->need_sigma = cost_need_sigma (e->problem, e->layout, e->tmpl);
  out->usable_bytes = e->problem->machine->gpu->usable_bytes;
  out->n_stages = e->stages->pp;
  out->stages = g_new0 (CostStagePrediction, out->n_stages);
  out->fits = TRUE;
  for (guint32 rank = 0; rank < out->n_stages; rank++) {
    CostStagePrediction *stage = &out->stages[rank];
    fill_stage (e, &plan, out->need_sigma, rank, stage);
    out->fits = out->fits && stage->memory.need_bytes <= out->usable_bytes;
    out->oom_risk = MAX (out->oom_risk, stage->oom_risk);
    if (stage->memory.peak_bytes > out->stages[out->fullest_stage].memory.peak_bytes)
      out->fullest_stage = rank;
  }
}

static void
add_group (CostPrediction *out, const TopoMachine *machine, ModelGroupKind kind, guint32 size,
           const TopoGroupShape *shape)
{
  if (size <= 1)
    return;
  CostGroupPrediction *group = &out->groups[out->n_groups++];
  group->kind = kind;
  group->size = size;
  group->bottleneck = topo_group_bottleneck (machine, shape);
}

static void
fill_groups (const Evaluation *e, CostPrediction *out)
{
  const ModelLayout *layout = e->layout;
  const TopoMachine *machine = e->problem->machine;
  const TopoGroupShape *shapes = e->tmpl->context.shapes;
  guint32 ranks = layout->tp * layout->cp * layout->dp;
  out->groups = g_new0 (CostGroupPrediction, MODEL_GROUP_N_KINDS);
  add_group (out, machine, MODEL_GROUP_TP, layout->tp, &shapes[MODEL_GROUP_TP]);
  add_group (out, machine, MODEL_GROUP_CP, layout->cp, &shapes[MODEL_GROUP_CP]);
  add_group (out, machine, MODEL_GROUP_DPCP, layout->dp * layout->cp, &e->placement->dp_shape);
  add_group (out, machine, MODEL_GROUP_PP, layout->pp, &e->placement->pair_shape);
  if (!e->tmpl->is_moe)
    return;
  add_group (out, machine, MODEL_GROUP_EP, layout->ep, &shapes[MODEL_GROUP_EP]);
  add_group (out, machine, MODEL_GROUP_ETP, layout->etp, &shapes[MODEL_GROUP_ETP]);
  add_group (out, machine, MODEL_GROUP_EDP, ranks / (layout->ep * layout->etp),
             &e->placement->edp_shape);
}

gboolean
cost_evaluate (const CostProblem *problem, const ModelLayout *layout, const CostTemplate *tmpl,
               const CostStageMap *stages, const CostPlacement *placement,
               CostPipelineScratch *scratch, CostPrediction *out, GError **error)
{
  Evaluation e = { .problem = problem,
                   .layout = layout,
                   .tmpl = tmpl,
                   .stages = stages,
                   .placement = placement,
                   .microbatches = model_layout_microbatches (layout, problem->job) };
  e.passes = (double)model_schedule_passes (layout->schedule, e.microbatches);
  CostPipelineResult result;
  double p2p_s;
  if (!play (&e, scratch, &result, &p2p_s, error))
    return FALSE;
  *out = (CostPrediction){ 0 };
  fill_breakdown (&e, &result, p2p_s, out);
  fill_rates (&e, out);
  fill_stages (&e, out);
  fill_groups (&e, out);
  return TRUE;
}
