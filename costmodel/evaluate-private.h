/* costmodel/evaluate-private.h - what tier 1 and tier 2 compute in the same way. */
#pragma once
#include "costmodel/pieces.h"
G_BEGIN_DECLS

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
