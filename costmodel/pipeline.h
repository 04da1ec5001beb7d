/* costmodel/pipeline.h - time of m micro-batches through p pipeline ranks.
 *
 * Tier 1 is a closed form: the longest of a few chains of the schedule's dependency graph. Every
 * chain is a lower bound, so the closed form is one too; for equal stages it equals the
 * recurrence: (m + p − 1)·(F + B) for GPipe and 1F1B, (m·v + p − 1)·(F + B) with F and B of one
 * chunk for the interleaved schedule (reference "schedules" §1), messages included for 1F1B.
 * Tier 2 is the recurrence: every operation ends at max (end of the one before on its rank,
 * arrival of its message) + its duration, in the order of reference "schedules" §2-4. It stops
 * when the state repeats up to a shift and extends linearly.
 *
 * A message delays its receiver by p2p_s and occupies nobody. Backward is input and weight
 * gradient in one operation. Stages are placed straight: chunk c of rank r is stage c·p + r.
 *
 * Schedules that split the backward pass, fold the pipeline or feed it from both ends, and a
 * user's own order (model_schedule_is_listed), are played from their written-out lists to the end.
 * Their closed form is the way to a rank and all of its work: no rank starts before its first
 * micro-batch has come through the ranks before it.
 */
#pragma once
#include "model/schedule.h"
#include <glib.h>
G_BEGIN_DECLS

/* Times of virtual stages in pipeline order. */
typedef struct {
  ModelScheduleKind schedule;
  guint32 pp, vpp;
  guint64 microbatches;    /* as model_schedule_legal asks */
  const double *forward_s; /* (borrowed) one entry per virtual stage, one micro-batch */
  const double *backward_input_s;
  const double *backward_weight_s;
  double p2p_s; /* one message between neighbours */
  /* for listed schedules; all (borrowed) (nullable) */
  const ModelSchedule *list; /* NULL: made from schedule, pp, vpp and microbatches */
  const double *apart_s;     /* by stage: what an input gradient costs more when its weight
                                gradient runs apart, since nothing hides its reductions then */
  const double *forward_ep_s, *backward_ep_s; /* by stage: expert exchanges in the times above,
                                                 which pairs hide */
} CostPipeline;

/* Never above the recurrence's result (but for rounding, 1e-12), equal to it for equal stages
 * and p2p_s = 0, for GPipe always. O(pp·vpp), allocates nothing. For listed schedules: the
 * longest of (way to a rank + its work), where nothing that pairs can hide is counted. */
double cost_pipeline_lower_bound (const CostPipeline *pipeline);

/* Ranks in a row that hold the same: what the search has instead of one entry per stage. */
typedef struct {
  guint32 n_ranks;
  double first_forward_s, first_backward_s; /* chunk 0 */
  double last_forward_s, last_backward_s;   /* chunk v − 1 */
  double forward_s, backward_s;             /* sum over the rank's chunks */
} CostPipelineRun;

/* The same bound from runs in rank order; n_ranks add up to @pp. O(n_runs). */
double cost_pipeline_lower_bound_runs (ModelScheduleKind schedule, guint32 pp, guint32 vpp,
                                       guint64 microbatches, double p2p_s,
                                       const CostPipelineRun *runs, guint n_runs);

typedef struct {
  double makespan_s;
  double busy_s;         /* of the critical rank: its forward and backward work */
  guint32 critical_rank; /* the rank with the most work, the first of equals */
  guint64 played_count;  /* micro-batches played before the rest was extended linearly */
  double mean_busy_s;    /* over the ranks */
  /* listed schedules, critical rank: in busy_s because of split passes; not in it thanks to pairs */
  double apart_s, hidden_ep_s;
} CostPipelineResult;

/* Scratch memory that grows and is kept between calls. */
typedef struct _CostPipelineScratch CostPipelineScratch;
CostPipelineScratch *cost_pipeline_scratch_new (void);
void cost_pipeline_scratch_free (CostPipelineScratch *scratch);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (CostPipelineScratch, cost_pipeline_scratch_free)

/*
 * Exact makespan for any stage times. O(pp·vpp·microbatches) at worst, usually a few pp
 * micro-batches. @scratch: allocates only when it must grow.
 *
 * Returns: FALSE with MODEL_ERROR_ILLEGAL for sizes the schedule does not allow,
 * MODEL_ERROR_UNSUPPORTED for a user's own order without its list; @out is then untouched.
 */
gboolean cost_pipeline_recurrence (const CostPipeline *pipeline, CostPipelineScratch *scratch,
                                   CostPipelineResult *out, GError **error);
/* Two pipelines of the same schedule, pp, vpp and number of micro-batches, which differ in times
 * only, in little more than the time of one. @out: two results. */
gboolean cost_pipeline_recurrence_both (const CostPipeline *one, const CostPipeline *other,
                                        CostPipelineScratch *scratch, CostPipelineResult *out,
                                        GError **error);
G_END_DECLS
