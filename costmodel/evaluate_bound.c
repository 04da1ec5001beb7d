/* costmodel/evaluate_bound.c - tier 1: a few hundred operations per candidate. */
#include "costmodel/evaluate-private.h"
#include "costmodel/oomrisk.h"

/* Pipelines of more distinct stages or ranks than this get a weaker bound. */
#define MAX_CONTENTS 32
#define MAX_RUNS     32

/* Rounding of the closed form against the recurrence's long sums, per unit of result. */
#define ROUNDING 1e-11

typedef struct {
  const CostProblem *problem;
  const ModelLayout *layout;
  const CostTemplate *tmpl;
  const CostStageMap *stages;
  const CostPlacement *placement;
  guint64 microbatches;
  CostMessages messages;
  CostMemoryPlan memory;
  CostStageTime contents[MAX_CONTENTS];
  CostStageTime classes[MAX_RUNS]; /* all chunks of a rank; as many as there are runs at most */
  /* over the ranks */
  double work_sum_s, busiest_s; /* of one micro-batch */
  double tail_s;
  guint64 peak_bytes, need_bytes;
} Bound;

static gboolean
is_small (const CostStageMap *stages)
{
  return stages->n_runs <= MAX_RUNS && stages->n_contents <= MAX_CONTENTS;
}

/* Memory and work of a class; @time: (out) of one micro-batch on its ranks. */
static void
visit_class (Bound *bound, const CostStageClass *class, const CostWeights *weights,
             CostStageTime *time)
{
  CostStageMemory memory;
  cost_stage_memory (&memory, &bound->memory, class, weights);
  cost_stage_time (time, bound->tmpl, bound->placement, bound->layout, &class->content);
  double work_s = time->forward_s + time->backward_s;
  bound->work_sum_s += class->n_ranks * work_s;
  bound->busiest_s = MAX (bound->busiest_s, work_s);
  bound->peak_bytes = MAX (bound->peak_bytes, memory.peak_bytes);
  bound->need_bytes = MAX (bound->need_bytes, memory.need_bytes);
}

/* The tail of the class with the most parameters, which nearly always is the longest; any class's
 * is a lower bound. */
static void
visit_classes (Bound *bound)
{
  const CostStageMap *stages = bound->stages;
  CostWeights weights, heaviest = { 0 };
  CostStageTime time, heaviest_time = { 0 };
  CostTail tail;
  guint32 heaviest_at = 0;
  for (guint32 i = 0; i < stages->n_classes; i++) {
    const CostStageClass *class = &stages->classes[i];
    cost_weights_count (&weights, bound->tmpl, &class->content, bound->layout->pp > 1);
    visit_class (bound, class, &weights, &time);
    if (i < MAX_RUNS)
      bound->classes[i] = time;
    if (i > 0 && weights.dense + weights.expert <= heaviest.dense + heaviest.expert)
      continue;
    heaviest = weights;
    heaviest_time = time;
    heaviest_at = i;
  }
  cost_tail (&tail, bound->problem, bound->layout, bound->tmpl, bound->placement,
             &stages->classes[heaviest_at].content, &heaviest, bound->microbatches,
             heaviest_time.forward_s + heaviest_time.backward_s);
  bound->tail_s = tail.sum_s;
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
  out->first_forward_s = first->forward_s + pass_s - all->has_embedding * receive_s;
  out->first_backward_s = first->backward_s + pass_s;
  out->last_forward_s = last->forward_s + pass_s;
  out->last_backward_s = last->backward_s + pass_s - all->has_head * receive_s;
}

/* Makespan with messages, from below. Pipelines of very many different ranks get the work of the
 * busiest one, which is a bound as well. */
static double
makespan_bound_s (Bound *bound)
{
  const CostStageMap *stages = bound->stages;
  CostPipelineRun runs[MAX_RUNS];
  double busiest_s = (double)bound->microbatches * bound->busiest_s;
  if (!is_small (stages))
    return busiest_s;
  for (guint32 i = 0; i < stages->n_contents && stages->vpp > 1; i++)
    cost_stage_time (&bound->contents[i], bound->tmpl, bound->placement, bound->layout,
                     &stages->contents[i]);
  for (guint32 i = 0; i < stages->n_runs; i++)
    run_times (bound, &stages->runs[i], &runs[i]);
  double makespan_s = cost_pipeline_lower_bound_runs (stages->schedule, stages->pp, stages->vpp,
                                                      bound->microbatches, bound->messages.delay_s,
                                                      runs, stages->n_runs);
  return MAX (makespan_s, busiest_s);
}

/*
 * step = work + ratio·(T0 − busiest) + (T − T0) + …, T0 without and T >= T0 with messages. For
 * ratio <= 1 that is at least work + ratio·(T − busiest); beyond, T0 >= busiest.
 */
static double
pipe_bound_s (Bound *bound)
{
  const CostStepNumbers *step = &bound->problem->numbers->step;
  double m = (double)bound->microbatches, busiest_s = m * bound->busiest_s;
  double work_s = cost_pipe_s (step, m * bound->work_sum_s / bound->stages->pp, busiest_s);
  if (bound->stages->pp == 1)
    return work_s;
  double ratio = MIN (step->bubble_ratio, 1);
  return work_s + ratio * (makespan_bound_s (bound) - busiest_s);
}

void
cost_evaluate_bound (const CostProblem *problem, const ModelLayout *layout,
                     const CostTemplate *tmpl, const CostStageMap *stages,
                     const CostPlacement *placement, CostBound *out)
{
  Bound bound;
  bound.problem = problem;
  bound.layout = layout;
  bound.tmpl = tmpl;
  bound.stages = stages;
  bound.placement = placement;
  bound.microbatches = model_layout_microbatches (layout, problem->job);
  bound.work_sum_s = bound.busiest_s = bound.tail_s = 0;
  bound.peak_bytes = bound.need_bytes = 0;
  cost_messages_init (&bound.messages, problem, layout, placement);
  cost_memory_plan_init (&bound.memory, tmpl, layout, bound.microbatches, &placement->shards,
                         stages);
  visit_classes (&bound);
  out->step_s = (pipe_bound_s (&bound) + bound.tail_s + problem->numbers->step.fixed_s)
                * (1 + placement->straggler_ratio);
  out->lower_bound_s = out->step_s * (1 - ROUNDING);
  out->peak_bytes = bound.peak_bytes;
  out->need_bytes = bound.need_bytes;
  out->oom_risk
      = cost_oom_risk_fast ((double)bound.need_bytes, (double)problem->machine->gpu->usable_bytes,
                            placement->sigma);
}
