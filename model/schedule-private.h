/* model/schedule-private.h - shared by the files that make one schedule each. */
#pragma once
#include "model/schedule.h"
G_BEGIN_DECLS

/* Write the list of one rank; @steps has room for all of its entries. Those that return a number
 * return the entries written. */
void model_schedule_fill_gpipe (ModelStep *steps, guint32 microbatches);
void model_schedule_fill_1f1b (ModelStep *steps, guint32 pp, guint32 microbatches, guint32 rank);
void model_schedule_fill_interleaved (ModelStep *steps, guint32 pp, guint32 vpp,
                                      guint32 microbatches, guint32 rank);
guint32 model_schedule_fill_zb_h1 (ModelStep *steps, guint32 pp, guint32 microbatches,
                                   guint32 rank);
guint32 model_schedule_fill_zb_h2 (ModelStep *steps, guint32 pp, guint32 microbatches,
                                   guint32 rank);
guint32 model_schedule_fill_zb_v (ModelStep *steps, guint32 pp, guint32 microbatches, guint32 rank);
guint32 model_schedule_fill_dualpipe (ModelStep *steps, guint32 pp, guint32 microbatches,
                                      guint32 rank);
guint32 model_schedule_fill_dualpipev (ModelStep *steps, guint32 pp, guint32 microbatches,
                                       guint32 rank);

/* A building block: start slots of F0, F1, I1, I0 of micro-batch 0, on each rank. */
typedef guint32 ModelVBlock[4];
void model_schedule_block_v_half (ModelVBlock *ranks, guint32 pp);
void model_schedule_block_v_min (ModelVBlock *ranks, guint32 pp);
/* Repeats the block every 6 slots, adds weight gradients, squeezes both ends; all ranks' lists. */
void model_schedule_squeeze (ModelSchedule *schedule, const ModelVBlock *ranks);

/* Empty lists with room for @n_steps entries per rank. */
ModelSchedule *model_schedule_alloc (ModelScheduleKind kind, guint32 pp, guint32 vpp,
                                     guint32 microbatches, guint32 n_steps);

static inline ModelStep
model_step (ModelStepKind kind, guint32 chunk, guint32 microbatch)
{
  return (ModelStep){ .kind = (guint8)kind, .chunk = (guint16)chunk, .microbatch = microbatch };
}

/* Writes a list of two chunks at most: what comes next of each kind is counted here. */
typedef struct {
  ModelStep *steps;
  guint32 n;
  guint32 next[4][2]; /* micro-batch by ModelStepKind and chunk; both backwards share one count */
} ModelWriter;

static inline void
model_write (ModelWriter *writer, ModelStepKind kind, guint32 chunk)
{
  ModelStepKind count = kind == MODEL_STEP_BACKWARD_INPUT ? MODEL_STEP_BACKWARD : kind; /* B or I */
  writer->steps[writer->n++] = model_step (kind, chunk, writer->next[count][chunk]++);
}
G_END_DECLS
