/* costmodel/evaluate_bound.c - tier 1: a few hundred operations per candidate. */
#include "costmodel/evaluate-private.h"
#include "costmodel/oomrisk.h"

/* Pipelines of more distinct stages or ranks than this get a weaker bound. */
#define MAX_CONTENTS 32
#define MAX_RUNS     COST_BOUND_CLASSES

/* Rounding of the closed form against the recurrence's long sums, per unit of result. */
#define ROUNDING 1e-11

typedef struct {
  const CostProblem *problem;
  const ModelLayout *layout;
  const CostTemplate *tmpl;
  const CostStageMap *stages;
  const CostPlacement *placement;
  guint64 microbatches;
  double passes; /* micro-batches of one chunk */
  CostMessages messages;
  CostStageTime contents[MAX_CONTENTS];
  CostStageTime classes[MAX_RUNS]; /* all chunks of a rank; as many as there are runs at most */
  /* over the ranks */
  double work_sum_s, busiest_s; /* of one micro-batch */
} Bound;

static gboolean
is_small (const CostStageMap *stages)
{
  return stages->n_runs <= MAX_RUNS && stages->n_contents <= MAX_CONTENTS;
}

/* A content's time, without what pairs may hide. */
static void
content_time (const Bound *bound, const CostStageContent *content, CostStageTime *out)
{
  cost_stage_time (out, bound->tmpl, bound->placement, bound->layout, content);
  if (!cost_has_pairs (bound->stages->schedule))
    return;
  CostStageExtra extra;
  cost_stage_extra (&extra, bound->tmpl, content);
  out->forward_s -= extra.forward_ep_s;
  out->backward_s -= extra.backward_ep_s;
}

/* Work of every class; the heaviest, which nearly always has the longest tail. */
static void
visit_classes (Bound *bound, CostPipeBound *out)
{
  const CostStageMap *stages = bound->stages;
  guint64 most = 0;
  for (guint32 i = 0; i < stages->n_classes; i++) {
    const CostStageClass *class = &stages->classes[i];
    CostWeights other, *weights = i < MAX_RUNS ? &out->weights[i] : &other;
    CostStageTime time;
    cost_weights_count (weights, bound->tmpl, &class->content, bound->layout->pp > 1);
    content_time (bound, &class->content, &time);
    double work_s = time.forward_s + time.backward_s;
    bound->work_sum_s += class->n_ranks * work_s;
    bound->busiest_s = MAX (bound->busiest_s, work_s);
    if (i < MAX_RUNS)
      bound->classes[i] = time;
    if (i > 0 && weights->dense + weights->expert <= most)
      continue;
    most = weights->dense + weights->expert;
    out->heaviest = i;
    out->heaviest_time = time;
  }
  if (!cost_has_pairs (stages->schedule))
    return;
  /* traffic hides under all of a pass */
  cost_stage_time (&out->heaviest_time, bound->tmpl, bound->placement, bound->layout,
                   &stages->classes[out->heaviest].content);
}

/* A run's times with what messages add to its passes: the very first stage receives no
 * activations, the very last no gradients. */
static void
run_times (const Bound *bound, const CostStageRun *run, CostPipelineRun *out)
{
  const CostStageMap *stages = bound->stages;
  const CostStageContent *all = &stages->classes[run->class_index].content;
  const CostStageTime *time = &bound->classes[run->class_index];
  double host_s = bound->messages.host_s, receive_s = bound->messages.receive_s;
  double chunks = stages->vpp, pass_s = host_s + receive_s;
  out->n_ranks = run->n_ranks;
  out->forward_s = time->forward_s + chunks * pass_s - all->has_embedding * receive_s;
  out->backward_s = time->backward_s + chunks * pass_s - all->has_head * receive_s;
  if (stages->vpp == 1) {
    out->first_forward_s = out->last_forward_s = out->forward_s;
    out->first_backward_s = out->last_backward_s = out->backward_s;
    return;
  }
  const CostStageTime *first = &bound->contents[run->first_content];
  const CostStageTime *last = &bound->contents[run->last_content];
  gboolean both_ways = model_schedule_is_bidirectional (stages->schedule);
  out->first_forward_s = first->forward_s + pass_s - all->has_embedding * receive_s;
  out->first_backward_s = first->backward_s + pass_s;
  out->last_forward_s = last->forward_s + pass_s - both_ways * all->has_embedding * receive_s;
  out->last_backward_s = last->backward_s + pass_s - all->has_head * receive_s;
}

/* Makespan with messages, from below. Pipelines of very many different ranks get the work of the
 * busiest one, which is a bound as well. */
static double
makespan_bound_s (Bound *bound)
{
  const CostStageMap *stages = bound->stages;
  CostPipelineRun runs[MAX_RUNS];
  double busiest_s = bound->passes * bound->busiest_s;
  if (!is_small (stages))
    return busiest_s;
  for (guint32 i = 0; i < stages->n_contents && stages->vpp > 1; i++)
    content_time (bound, &stages->contents[i], &bound->contents[i]);
  for (guint32 i = 0; i < stages->n_runs; i++)
    run_times (bound, &stages->runs[i], &runs[i]);
  double makespan_s = cost_pipeline_lower_bound_runs (stages->schedule, stages->pp, stages->vpp,
                                                      bound->microbatches, bound->messages.delay_s,
                                                      runs, stages->n_runs);
  return MAX (makespan_s, busiest_s);
}

/*
 * With i = imbalance_ratio and b = bubble_ratio the pipeline's share is
 *   mean + i·(busiest − mean) + b·(T − busiest) >= mean + r·(T − mean),  r = min (i, b, 1)
 * since busiest >= mean and T >= busiest. Mean and T grow with every stage's time.
 */
static double
growing_s (const CostStepNumbers *step, double bubble_ratio, double mean_s, double makespan_s)
{
  double ratio = MIN (MIN (bubble_ratio, step->imbalance_ratio), 1);
  return mean_s + ratio * MAX (makespan_s - mean_s, 0);
}

/*
 * step = work + ratio·(T0 − busiest) + (T − T0) + …, T0 without and T >= T0 with messages. For
 * ratio <= 1 that is at least work + ratio·(T − busiest); beyond, T0 >= busiest. Ranks of listed
 * schedules may be busier than counted here (what runs apart), which lowers the bubble: with a
 * ratio of at most imbalance_ratio a busier rank never makes the sum smaller.
 */
static double
pipe_bound_s (Bound *bound, double *out_growing_s)
{
  const CostStepNumbers *step = &bound->problem->numbers->step;
  double m = bound->passes, busiest_s = m * bound->busiest_s;
  double mean_s = m * bound->work_sum_s / bound->stages->pp;
  double work_s = cost_pipe_s (step, mean_s, busiest_s);
  *out_growing_s = work_s;
  if (bound->stages->pp == 1)
    return work_s;
  double ratio = MIN (step->bubble_ratio, 1);
  if (model_schedule_is_listed (bound->stages->schedule))
    ratio = MIN (ratio, step->imbalance_ratio);
  double makespan_s = makespan_bound_s (bound);
  *out_growing_s = growing_s (step, ratio, mean_s, makespan_s);
  return work_s + ratio * (makespan_s - busiest_s);
}

/* What a pipeline's share makes of the step at least. */
static double
least_step_s (const CostProblem *problem, double straggler_ratio, double pipe_s)
{
  return (pipe_s + problem->numbers->step.fixed_s) * (1 + straggler_ratio) * (1 - ROUNDING);
}

void
cost_pipe_bound_init (CostPipeBound *out, const CostProblem *problem, const ModelLayout *layout,
                      const CostTemplate *tmpl, const CostStageMap *stages,
                      const CostPlacement *placement)
{
  Bound bound;
  bound.problem = problem;
  bound.layout = layout;
  bound.tmpl = tmpl;
  bound.stages = stages;
  bound.placement = placement;
  bound.microbatches = model_layout_microbatches (layout, problem->job);
  bound.passes = (double)(gint64)model_schedule_passes (stages->schedule, bound.microbatches);
  bound.work_sum_s = bound.busiest_s = 0;
  cost_messages_init (&bound.messages, problem, layout, placement);
  visit_classes (&bound, out);
  out->microbatches = bound.microbatches;
  out->has_kept = FALSE;
  double growing_s;
  out->pipe_s = pipe_bound_s (&bound, &growing_s);
  out->least_s = least_step_s (problem, placement->straggler_ratio, out->pipe_s);
  out->growing_s = least_step_s (problem, placement->straggler_ratio, growing_s);
}

/* In listed schedules any rank of a class may have the most in flight. */
static void
fullest_of_class (const CostMemoryPlan *plan, const CostStageClass *class, CostStageMemory *memory)
{
  CostStageClass own = *class;
  CostWeights weights;
  guint32 index = (guint32)(class - plan->map->classes);
  cost_weights_count (&weights, plan->tmpl, &class->content, plan->map->pp > 1);
  for (guint32 rank = class->first_rank + 1; rank < plan->map->pp; rank++) {
    CostStageMemory other;
    if (plan->map->class_of_rank[rank] != index)
      continue;
    own.first_rank = rank;
    cost_stage_memory (&other, plan, &own, &weights);
    memory->peak_bytes = MAX (memory->peak_bytes, other.peak_bytes);
    memory->need_bytes = MAX (memory->need_bytes, other.need_bytes);
  }
}

static void
class_memory (CostPipeBound *pipe, const CostMemoryPlan *plan, guint32 index,
              CostStageMemory *memory)
{
  const CostStageClass *class = &plan->map->classes[index];
  if (index < COST_BOUND_CLASSES) {
    if (!pipe->has_kept)
      cost_stage_kept_init (&pipe->kept[index], plan, class);
    cost_stage_memory_with (memory, plan, class, &pipe->weights[index], &pipe->kept[index]);
    return;
  }
  CostWeights weights;
  cost_weights_count (&weights, plan->tmpl, &class->content, plan->map->pp > 1);
  cost_stage_memory (memory, plan, class, &weights);
}

static void
fill_memory (CostPipeBound *pipe, const CostMemoryPlan *plan, CostBound *out)
{
  const CostStageMap *stages = plan->map;
  for (guint32 i = 0; i < stages->n_classes; i++) {
    CostStageMemory memory;
    class_memory (pipe, plan, i, &memory);
    if (model_schedule_is_listed (stages->schedule))
      fullest_of_class (plan, &stages->classes[i], &memory);
    out->peak_bytes = MAX (out->peak_bytes, memory.peak_bytes);
    out->need_bytes = MAX (out->need_bytes, memory.need_bytes);
  }
  pipe->has_kept = TRUE;
}

/* The tail of the heaviest class; any class's is a lower bound. */
static double
tail_s (const CostPipeBound *pipe, const CostProblem *problem, const ModelLayout *layout,
        const CostTemplate *tmpl, const CostStageMap *stages, const CostPlacement *placement)
{
  const CostStageClass *class = &stages->classes[pipe->heaviest];
  CostWeights weights;
  CostTail tail;
  if (pipe->heaviest < COST_BOUND_CLASSES)
    weights = pipe->weights[pipe->heaviest];
  else
    cost_weights_count (&weights, tmpl, &class->content, layout->pp > 1);
  cost_tail (&tail, problem, layout, tmpl, placement, &class->content, &weights, pipe->microbatches,
             &pipe->heaviest_time);
  return tail.sum_s;
}

void
cost_pipe_bound_memory (CostPipeBound *pipe, const CostProblem *problem, const ModelLayout *layout,
                        const CostTemplate *tmpl, const CostStageMap *stages,
                        const CostPlacement *placement, CostBound *out)
{
  CostMemoryPlan plan;
  cost_memory_plan_init (&plan, tmpl, layout, pipe->microbatches, &placement->shards, stages);
  out->peak_bytes = out->need_bytes = 0;
  fill_memory (pipe, &plan, out);
  out->oom_risk
      = cost_oom_risk_fast ((double)out->need_bytes, (double)problem->machine->gpu->usable_bytes,
                            cost_need_sigma (problem, layout, tmpl));
}

void
cost_pipe_bound_time (const CostPipeBound *pipe, const CostProblem *problem,
                      const ModelLayout *layout, const CostTemplate *tmpl,
                      const CostStageMap *stages, const CostPlacement *placement, CostBound *out)
{
  double tail = tail_s (pipe, problem, layout, tmpl, stages, placement);
  out->step_s
      = (pipe->pipe_s + tail + problem->numbers->step.fixed_s) * (1 + placement->straggler_ratio);
  out->lower_bound_s = out->step_s * (1 - ROUNDING);
}

void
cost_pipe_bound_finish (CostPipeBound *pipe, const CostProblem *problem, const ModelLayout *layout,
                        const CostTemplate *tmpl, const CostStageMap *stages,
                        const CostPlacement *placement, CostBound *out)
{
  cost_pipe_bound_memory (pipe, problem, layout, tmpl, stages, placement, out);
  cost_pipe_bound_time (pipe, problem, layout, tmpl, stages, placement, out);
}

void
cost_evaluate_bound (const CostProblem *problem, const ModelLayout *layout,
                     const CostTemplate *tmpl, const CostStageMap *stages,
                     const CostPlacement *placement, CostBound *out)
{
  CostPipeBound pipe;
  cost_pipe_bound_init (&pipe, problem, layout, tmpl, stages, placement);
  cost_pipe_bound_finish (&pipe, problem, layout, tmpl, stages, placement, out);
}

static double
work_s (const CostBlock *block, gboolean hides_ep)
{
  double sum_s = 0;
  for (guint pass = 0; pass < COST_PASS_N_KINDS; pass++)
    sum_s += block->pass_s[pass] - (hides_ep ? block->exposed_ep_s[pass] : 0);
  return sum_s;
}

/* One micro-batch through all of the model. */
static double
whole_model_s (const CostProblem *problem, const CostTemplate *tmpl, const CostBlockKinds *kinds,
               const ModelLayout *layout, gboolean is_plain)
{
  const CostBlock *blocks = is_plain ? tmpl->plain_blocks : tmpl->blocks;
  gboolean hides_ep = cost_has_pairs (layout->schedule);
  double one_s = work_s (&tmpl->embedding, FALSE) + work_s (&tmpl->head, hides_ep);
  for (guint run = 0; run < problem->arch->n_runs; run++)
    one_s += problem->arch->runs[run].count * work_s (&blocks[kinds->kind_of_run[run]], hides_ep);
  return one_s;
}

double
cost_template_least_s (const CostProblem *problem, const CostTemplate *tmpl,
                       const CostBlockKinds *kinds, const ModelLayout *layout, gboolean is_plain)
{
  double one_s = whole_model_s (problem, tmpl, kinds, layout, is_plain);
  double share = (double)layout->tp * layout->cp / ((double)layout->mbs * problem->gpus);
  return least_step_s (problem, cost_straggler_ratio (problem),
                       (double)problem->job->global_batch * share * one_s);
}

/*
 * The chain through rank r of 1F1B (pipeline.c), m > p: every rank before it once, its own work
 * less the h = p − 1 − r passes done while it waits, every rank after it twice (it waits for them
 * at the start and at the end):
 *   T >= sum_{q<r} w_q + (m − h)·w_r + 2 sum_{q>r} w_q
 * The mean of these chains with weights l_r, where l_{r+1} = l_r·(m − p + r − 1)/(m − p + r + 1),
 * has the same factor for every w_q: so many times the work of one micro-batch whatever the cut.
 */
static double
chain_factor (double m, guint32 pp)
{
  double weight = 1, sum = 0, later = 0;
  for (guint32 rank = 0; rank < pp; rank++) {
    sum += weight;
    later += rank > 0 ? weight : 0;
    weight *= (m - pp + rank - 1) / (m - pp + rank + 1);
  }
  /* factor of rank 0: its own chain, and once in each later one */
  return (m - (pp - 1) + later) / sum;
}

double
cost_template_least_cut_s (const CostProblem *problem, const CostTemplate *tmpl,
                           const CostBlockKinds *kinds, const ModelLayout *layout,
                           gboolean is_plain, double more_s)
{
  const CostStepNumbers *step = &problem->numbers->step;
  double one_s = whole_model_s (problem, tmpl, kinds, layout, is_plain) + more_s;
  guint64 microbatches = model_layout_microbatches (layout, problem->job);
  double m = (double)(gint64)microbatches, factor = m / layout->pp;
  if (layout->schedule == MODEL_SCHEDULE_1F1B && microbatches > (guint64)layout->pp + 1)
    factor = MAX (factor, chain_factor (m, layout->pp));
  double pipe_s = growing_s (step, step->bubble_ratio, m / layout->pp * one_s, factor * one_s);
  return least_step_s (problem, cost_straggler_ratio (problem), pipe_s);
}

void
cost_template_recompute_s (const CostTemplate *tmpl, ModelScheduleKind schedule, double *out)
{
  gboolean hides_ep = cost_has_pairs (schedule);
  for (guint kind = 0; kind < tmpl->n_kinds; kind++)
    out[kind]
        = work_s (&tmpl->blocks[kind], hides_ep) - work_s (&tmpl->plain_blocks[kind], hides_ep);
}
