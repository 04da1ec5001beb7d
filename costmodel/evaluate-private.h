/* costmodel/evaluate-private.h - what tier 1 and tier 2 compute in the same way. */
#pragma once
#include "costmodel/evaluate.h"
G_BEGIN_DECLS

/* FSDP shards parameters and no pipeline keeps them gathered: traffic belongs to every pass. */
static inline gboolean
cost_is_fsdp (const ModelLayout *layout)
{
  return layout->zero == 3 && layout->pp == 1;
}

/* One micro-batch of a content. */
typedef struct {
  double forward_s, backward_input_s, backward_weight_s; /* FSDP's traffic included */
  double backward_s;                                     /* both */
  double fsdp_s;                                         /* of them, what FSDP's traffic adds */
} CostStageTime;
void cost_stage_time (CostStageTime *out, const CostTemplate *tmpl, const CostPlacement *placement,
                      const ModelLayout *layout, const CostStageContent *content);

/* What slow ranks add to a step, of it; 0 up to 8 GPUs. */
double cost_straggler_ratio (const CostProblem *problem);

/* What only listed schedules ask: of one micro-batch of a content. */
typedef struct {
  double apart_s;                     /* tp reductions that show when weight gradients run apart */
  double forward_ep_s, backward_ep_s; /* exposed expert exchanges */
} CostStageExtra;
void cost_stage_extra (CostStageExtra *out, const CostTemplate *tmpl,
                       const CostStageContent *content);

/* Does the schedule run a forward together with a backward, under which exchanges hide? */
static inline gboolean
cost_has_pairs (ModelScheduleKind schedule)
{
  return schedule == MODEL_SCHEDULE_DUALPIPE || schedule == MODEL_SCHEDULE_DUALPIPEV
         || model_schedule_is_file (schedule);
}

/* How messages enter the pipeline. */
typedef struct {
  double delay_s;   /* of a message on its way: the receiver waits */
  double receive_s; /* a blocking receive occupies the receiver */
  double host_s;    /* the CPU's time, at both ends of every pass */
} CostMessages;
void cost_messages_init (CostMessages *out, const CostProblem *problem, const ModelLayout *layout,
                         const CostPlacement *placement);

/* After the last backward. */
typedef struct {
  double dp_s, tp_s, optimizer_s;
  double sum_s;
} CostTail;
/* @stage_s: forward and backward of one micro-batch on this rank, under which traffic can hide. */
void cost_tail (CostTail *out, const CostProblem *problem, const ModelLayout *layout,
                const CostTemplate *tmpl, const CostPlacement *placement,
                const CostStageContent *content, const CostWeights *weights, guint64 microbatches,
                double stage_s);

/* The pipeline's share of the step from the makespans with and without messages. */
static inline double
cost_pipe_s (const CostStepNumbers *step, double mean_s, double busiest_s)
{
  return mean_s + step->imbalance_ratio * (busiest_s - mean_s);
}
G_END_DECLS
