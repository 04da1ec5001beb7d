/* costmodel/pipeline-private.h - what the two players of a schedule share. */
#pragma once
#include "costmodel/pipeline.h"
G_BEGIN_DECLS

struct _CostPipelineScratch {
  double *ends; /* (owned) */
  gsize n_ends;
  guint64 *counts; /* (owned) */
  gsize n_counts;
  ModelSchedule *list; /* (owned) (nullable) the last one made here */
};

/* At least @n numbers, kept from call to call. */
double *cost_pipeline_scratch_ends (CostPipelineScratch *scratch, gsize n);
guint64 *cost_pipeline_scratch_counts (CostPipelineScratch *scratch, gsize n);

/* Plays the list of a schedule that splits the backward pass, or a user's own. */
gboolean cost_pipeline_play_list (const CostPipeline *pipeline, CostPipelineScratch *scratch,
                                  CostPipelineResult *out, GError **error);
G_END_DECLS
