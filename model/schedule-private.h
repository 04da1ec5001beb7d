/* model/schedule-private.h - shared by the files that make one schedule each. */
#pragma once
#include "model/schedule.h"
G_BEGIN_DECLS

/* Write the list of one rank; @steps has room for 2·v·m entries. */
void model_schedule_fill_gpipe (ModelStep *steps, guint32 microbatches);
void model_schedule_fill_1f1b (ModelStep *steps, guint32 pp, guint32 microbatches, guint32 rank);
void model_schedule_fill_interleaved (ModelStep *steps, guint32 pp, guint32 vpp,
                                      guint32 microbatches, guint32 rank);

static inline ModelStep
model_step (ModelStepKind kind, guint32 chunk, guint32 microbatch)
{
  return (ModelStep){ .kind = (guint8)kind, .chunk = (guint16)chunk, .microbatch = microbatch };
}
G_END_DECLS
