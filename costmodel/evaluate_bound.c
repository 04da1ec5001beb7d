/* costmodel/evaluate_bound.c - tier 1: a few hundred operations per candidate. */
#include "costmodel/evaluate-private.h"
#include "costmodel/oomrisk.h"

/* More distinct virtual stages than this are timed again where they are met. */
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
  CostStageTime times[MAX_CONTENTS];
  /* over the ranks */
  double work_sum_s, busiest_s; /* of one micro-batch */
  double tail_s;
  guint64 peak_bytes, need_bytes;
} Bound;

static void
content_time (const Bound *bound, guint16 index, CostStageTime *out)
{
  if (index < MAX_CONTENTS)
    *out = bound->times[index];
  else
    cost_stage_time (out, bound->tmpl, bound->placement, bound->layout,
                     &bound->stages->contents[index]);
}

/* Memory and tail of a class; returns the work of one micro-batch on its ranks. */
static void
visit_class (Bound *bound, const CostStageClass *class)
{
  CostWeights weights;
  CostStageMemory memory;
  CostStageTime time;
  CostTail tail;
  cost_weights_count (&weights, bound->tmpl, &class->content, bound->layout->pp > 1);
  cost_stage_memory (&memory, bound->tmpl, bound->layout, bound->microbatches,
                     &bound->placement->shards, bound->stages, class, &weights);
  if (bound->stages->vpp == 1)
    content_time (bound, bound->stages->content_of_stage[class->first_rank], &time);
  else
    cost_stage_time (&time, bound->tmpl, bound->placement, bound->layout, &class->content);
  double work_s = time.forward_s + time.backward_s;
  cost_tail (&tail, bound->problem, bound->layout, bound->tmpl, bound->placement, &class->content,
             &weights, bound->microbatches, work_s);
  bound->work_sum_s += class->n_ranks * work_s;
  bound->busiest_s = MAX (bound->busiest_s, work_s);
  bound->tail_s = MAX (bound->tail_s, tail.sum_s);
  bound->peak_bytes = MAX (bound->peak_bytes, memory.peak_bytes);
  bound->need_bytes = MAX (bound->need_bytes, memory.need_bytes);
}

/* A run's times with what messages add to its passes: the very first stage receives no
 * activations, the very last no gradients. */
static void
run_times (const Bound *bound, const CostStageRun *run, CostPipelineRun *out)
{
  const CostStageMap *stages = bound->stages;
  const CostStageContent *first = &stages->contents[run->first_content];
  const CostStageContent *last = &stages->contents[run->last_content];
  double host_s = bound->messages.host_s, receive_s = bound->messages.receive_s;
  CostStageTime time;
  content_time (bound, run->first_content, &time);
  out->n_ranks = run->n_ranks;
  out->first_forward_s = time.forward_s + host_s + (first->has_embedding ? 0 : receive_s);
  out->first_backward_s = time.backward_s + host_s + (first->has_head ? 0 : receive_s);
  out->forward_s = out->last_forward_s = out->first_forward_s;
  out->backward_s = out->last_backward_s = out->first_backward_s;
  if (stages->vpp == 1)
    return;
  content_time (bound, run->last_content, &time);
  out->last_forward_s = time.forward_s + host_s + (last->has_embedding ? 0 : receive_s);
  out->last_backward_s = time.backward_s + host_s + (last->has_head ? 0 : receive_s);
  const CostStageContent *all = &stages->classes[run->class_index].content;
  cost_stage_time (&time, bound->tmpl, bound->placement, bound->layout, all);
  double chunks = stages->vpp;
  out->forward_s = time.forward_s + chunks * host_s + (chunks - all->has_embedding) * receive_s;
  out->backward_s = time.backward_s + chunks * host_s + (chunks - all->has_head) * receive_s;
}

/* Makespan with messages, from below. Pipelines of very many different ranks get the work of the
 * busiest one, which is a bound as well. */
static double
makespan_bound_s (const Bound *bound)
{
  const CostStageMap *stages = bound->stages;
  CostPipelineRun runs[MAX_RUNS];
  double busiest_s = (double)bound->microbatches * bound->busiest_s;
  if (stages->n_runs > MAX_RUNS)
    return busiest_s;
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
pipe_bound_s (const Bound *bound)
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
  for (guint32 i = 0; i < MIN (stages->n_contents, MAX_CONTENTS); i++)
    cost_stage_time (&bound.times[i], tmpl, placement, layout, &stages->contents[i]);
  for (guint32 i = 0; i < stages->n_classes; i++)
    visit_class (&bound, &stages->classes[i]);
  out->step_s = (pipe_bound_s (&bound) + bound.tail_s + problem->numbers->step.fixed_s)
                * (1 + placement->straggler_ratio);
  out->lower_bound_s = out->step_s * (1 - ROUNDING);
  out->peak_bytes = bound.peak_bytes;
  out->need_bytes = bound.need_bytes;
  out->oom_risk
      = cost_oom_risk_fast ((double)bound.need_bytes, (double)problem->machine->gpu->usable_bytes,
                            placement->sigma);
}
