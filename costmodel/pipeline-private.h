/* costmodel/pipeline-private.h - what the two players of a schedule share. */
#pragma once
#include "costmodel/pipeline.h"
G_BEGIN_DECLS

/* Two pipelines that have been played, and what came of them: layouts that differ in ZeRO and shard
 * groups alone have the same. */
#define COST_N_PLAYED 64
typedef struct {
  ModelScheduleKind schedule;
  guint32 pp, vpp; /* pp 0: empty */
  guint64 microbatches;
  double p2p_s[2];
  double *times_s; /* (owned) three arrays of pp·vpp, of each of the two */
  CostPipelineResult results[2];
} CostPlayed;

struct _CostPipelineScratch {
  double *ends; /* (owned) */
  gsize n_ends;
  guint64 *counts; /* (owned) */
  gsize n_counts;
  CostPlayed played[COST_N_PLAYED]; /* the last ones, in a ring */
  guint n_played;
  ModelSchedule *list; /* (owned) (nullable) the last one made here */
};

/* At least @n numbers, kept from call to call. */
double *cost_pipeline_scratch_ends (CostPipelineScratch *scratch, gsize n);
guint64 *cost_pipeline_scratch_counts (CostPipelineScratch *scratch, gsize n);

/* Plays the list of a schedule that splits the backward pass, or a user's own. */
gboolean cost_pipeline_play_list (const CostPipeline *pipeline, CostPipelineScratch *scratch,
                                  CostPipelineResult *out, GError **error);
G_END_DECLS
