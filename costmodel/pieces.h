/* costmodel/pieces.h - the pieces that tier 2 adds up, one by one, for whoever plays them over time.
 *
 * Sums of these pieces are the numbers of evaluate.h: op times of a segment add up to its block's
 * pass_s, tail pieces to the tail. What of a collective shows is a time that compute waits from
 * the collective's start (exposed_s); the rest of it runs beside what follows.
 */
#pragma once
#include "costmodel/evaluate.h"
#include <glib.h>
G_BEGIN_DECLS

/* Does the schedule run a forward together with a backward, under which exchanges hide? */
static inline gboolean
cost_has_pairs (ModelScheduleKind schedule)
{
  return schedule == MODEL_SCHEDULE_DUALPIPE || schedule == MODEL_SCHEDULE_DUALPIPEV
         || model_schedule_is_file (schedule);
}

/* ---- ops ---- */

typedef struct {
  double time_s;          /* of the op alone */
  double exposed_s;       /* communication: what compute waits for, from its start; <= time_s */
  double apart_exposed_s; /* the same where weight gradients run apart from input gradients */
  double gap_s;           /* before a compute op: the host launches more slowly than it runs */
} CostOpTime;

/*
 * Times of every op of @segment, whose price under @layout is @block. By pass (forward; recompute
 * and backward-input; backward-weight) the compute ops' time_s + gap_s and the communication ops'
 * exposed_s sum to block->pass_s; with apart_exposed_s to that + wgrad_hidden_s.
 * @out: segment->n_ops entries. Rules: blockcost.h.
 */
void cost_op_times (const CostContext *context, const ModelLayout *layout,
                    const ModelSegment *segment, const CostBlock *block, CostOpTime *out);

/* ---- stages and messages ---- */

/* One micro-batch of a content. */
void cost_stage_time (CostStageTime *out, const CostTemplate *tmpl, const CostPlacement *placement,
                      const ModelLayout *layout, const CostStageContent *content);

/* What only listed schedules ask: of one micro-batch of a content. */
typedef struct {
  double apart_s;                     /* tp reductions that show when weight gradients run apart */
  double forward_ep_s, backward_ep_s; /* exposed expert exchanges */
} CostStageExtra;
void cost_stage_extra (CostStageExtra *out, const CostTemplate *tmpl,
                       const CostStageContent *content);

/* How messages enter the pipeline. */
typedef struct {
  double delay_s;   /* of a message on its way: the receiver waits */
  double receive_s; /* a blocking receive occupies the receiver */
  double host_s;    /* the CPU's time, at both ends of every pass */
} CostMessages;
void cost_messages_init (CostMessages *out, const CostProblem *problem, const ModelLayout *layout,
                         const CostPlacement *placement);

/* ---- traffic ---- */

/* One collective; time_s 0: there is none. */
typedef struct {
  ModelGroupKind group;
  ModelCollectiveKind collective;
  double bytes; /* as nccl-tests counts them */
  double time_s;
} CostTransfer;

/* What FSDP moves for one block (embedding, head): dense and expert parameters. */
typedef struct {
  CostTransfer gathers[2], reduces[2];
  double gather_s, reduce_s;
} CostUnitTraffic;
void cost_unit_traffic (CostUnitTraffic *out, const CostPlacement *placement,
                        const ModelProfile *profile, double element_bytes, const CostBlock *block);

/* After the last backward of a rank, in this order. */
typedef struct {
  CostTransfer reduces[2], copies[2]; /* gradients of dense and routed weights; then of a shard's
                                         copies, once per step */
  double hidden_s;                    /* of reduces and copies, under the last backward */
  CostTransfer embedding, mirror, replicated;
  double optimizer_s;
  CostTransfer gathers[2];    /* parameters */
  double gather_hidden_s;     /* of them, under the next step's forward */
  gboolean is_per_microbatch; /* the reduces run after every micro-batch, each hidden alike */
} CostTailPieces;
/* @stage: one micro-batch on this rank, as for cost_tail. */
void cost_tail_pieces (CostTailPieces *out, const CostProblem *problem, const ModelLayout *layout,
                       const CostTemplate *tmpl, const CostPlacement *placement,
                       const CostStageContent *content, const CostWeights *weights,
                       const CostStageTime *stage);
/* Exposed traffic of @pieces with @microbatches, optimizer included: the tail's sum. */
double cost_tail_pieces_sum (const CostTailPieces *pieces, guint64 microbatches);
G_END_DECLS
