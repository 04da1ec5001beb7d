/* costmodel/pipeline.h - time of m micro-batches through p stages.
 *
 * Tier 1: closed forms (exact for equal stages, admissible as a lower bound for unequal ones).
 * Tier 2: the recurrence over the schedule's lists, exact for any stage times and message times;
 * stops when the increment per period repeats and extends linearly.
 */
#pragma once
#include "model/schedule.h"
#include <glib.h>
G_BEGIN_DECLS

/* Times of virtual stages in pipeline order (chunk c of rank r at c·p + r for straight placement). */
typedef struct {
  ModelScheduleKind schedule;
  guint32 pp, vpp;
  guint64 microbatches;
  const double *forward_s;         /* pp·vpp entries each */
  const double *backward_input_s;
  const double *backward_weight_s;
  double p2p_s;                    /* one message between neighbours, exposed part */
} CostPipeline;

/* Never above the recurrence's result. Allocates nothing. */
double cost_pipeline_lower_bound (const CostPipeline *pipeline);
/* Equal to the recurrence when all stages are equal; a good estimate otherwise. */
double cost_pipeline_closed_form_s (const CostPipeline *pipeline);

typedef struct {
  double makespan_s;
  double busy_s;        /* of the critical rank: its own forward and backward work */
  double p2p_s;         /* exposed messages on the critical rank */
  guint32 critical_rank; /* the rank with the most work */
} CostPipelineResult;

/* Scratch memory that grows and is kept between calls. */
typedef struct _CostPipelineScratch CostPipelineScratch;
CostPipelineScratch *cost_pipeline_scratch_new (void);
void cost_pipeline_scratch_free (CostPipelineScratch *scratch);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (CostPipelineScratch, cost_pipeline_scratch_free)

gboolean cost_pipeline_recurrence (const CostPipeline *pipeline, CostPipelineScratch *scratch,
                                   CostPipelineResult *out, GError **error);
G_END_DECLS
