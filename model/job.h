/* model/job.h - what is asked of the model: how many sequences of what length, how optimized. */
#pragma once
#include "model/arch.h"
#include <glib.h>
G_BEGIN_DECLS
typedef enum { MODEL_PHASE_TRAIN, MODEL_PHASE_PREFILL, MODEL_PHASE_DECODE } ModelJobPhase;
typedef struct {
  ModelJobPhase phase;
  guint64 seq;          /* tokens per sequence, > 0 */
  guint64 global_batch; /* sequences per step, > 0 */
  double dropout;       /* 0..1 */
} ModelJob;
/*
 * @seq, @global_batch: 0 takes the model's own, an error if it has none; @dropout < 0 takes the
 * model's. Plain value.
 */
gboolean model_job_init (ModelJob *job, const ModelArch *arch, guint64 seq, guint64 global_batch,
                         double dropout, GError **error);
G_END_DECLS
