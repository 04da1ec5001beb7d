/* costmodel/evaluate-private.h - what tier 1 and tier 2 compute in the same way. */
#pragma once
#include "costmodel/pieces.h"
G_BEGIN_DECLS

/* What a step spends beside its passes, of it: the profile's overhead, and stragglers beyond 8
 * GPUs. */
double cost_straggler_ratio (const CostProblem *problem);

/* After the last backward. */
typedef struct {
  double dp_s, tp_s, optimizer_s;
  double reduction_s; /* of dp_s: what of the reduction shows */
  double sum_s;
} CostTail;
/* @stage: one micro-batch on this rank: the reduction can hide under its backward, the gather of
 * parameters under the next step's first forward. */
void cost_tail (CostTail *out, const CostProblem *problem, const ModelLayout *layout,
                const CostTemplate *tmpl, const CostPlacement *placement,
                const CostStageContent *content, const CostWeights *weights, guint64 microbatches,
                const CostStageTime *stage);

/* The pipeline's share of the step from the makespans with and without messages. */
static inline double
cost_pipe_s (const CostStepNumbers *step, double mean_s, double busiest_s)
{
  return mean_s + step->imbalance_ratio * (busiest_s - mean_s);
}
G_END_DECLS
