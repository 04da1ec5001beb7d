/* model/schedule.h - the order in which one pipeline rank does its work.
 *
 * A list of (phase, chunk, micro-batch) per rank; cost model, simulation and executor read the
 * same lists. Orders, bubbles and peaks: reference "schedules".
 */
#pragma once
#include "model/layout.h"
#include <glib.h>
G_BEGIN_DECLS
typedef enum {
  MODEL_STEP_FORWARD,
  MODEL_STEP_BACKWARD, /* input and weight gradients in one go */
  MODEL_STEP_BACKWARD_INPUT,
  MODEL_STEP_BACKWARD_WEIGHT,
} ModelStepKind;

typedef struct {
  guint8 kind;   /* ModelStepKind */
  guint8 paired; /* runs together with the next entry (DualPipe) */
  guint16 chunk; /* of this rank */
  guint32 microbatch;
} ModelStep;

typedef struct {
  ModelScheduleKind kind;
  guint32 pp, vpp, microbatches;
  guint32 n_steps;  /* per rank */
  ModelStep *steps; /* (owned) pp × n_steps, rank-major */
} ModelSchedule;

/* NULL with MODEL_ERROR_ILLEGAL when p, m, v do not suit the schedule (the message says what
 * would), MODEL_ERROR_UNSUPPORTED for kinds that are not built yet. */
ModelSchedule *model_schedule_new (ModelScheduleKind kind, guint32 pp, guint32 vpp,
                                   guint32 microbatches, GError **error);
void model_schedule_free (ModelSchedule *schedule);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ModelSchedule, model_schedule_free)
static inline const ModelStep *
model_schedule_rank (const ModelSchedule *schedule, guint32 rank)
{
  return schedule->steps + (gsize)rank * schedule->n_steps;
}
/* Cheap legality of (kind, p, v, m), as model_layout_check needs it. */
gboolean model_schedule_legal (ModelScheduleKind kind, guint32 pp, guint32 vpp,
                               guint64 microbatches, gboolean overlap_p2p);
/*
 * Chunks whose activations are alive at the peak on @rank, in units of one chunk and micro-batch:
 * 1F1B min(m, p − r); interleaved min(m·v, 2(p−r−1) + (v−1)p + 1); GPipe m.
 */
guint64 model_schedule_in_flight (ModelScheduleKind kind, guint32 pp, guint32 vpp,
                                  guint64 microbatches, guint32 rank);
/* Virtual stage of (rank, chunk), and back. */
guint32 model_schedule_stage (ModelScheduleKind kind, guint32 pp, guint32 rank, guint32 chunk);
G_END_DECLS
