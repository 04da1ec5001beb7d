/* costmodel/stagemap.h - the distinct stages of a pipeline, made once per (pp, vpp, stages, schedule).
 *
 * Pipelines have few different stages: first, last, and one or two kinds between. A class is a
 * set of ranks whose chunks hold the same blocks; its first rank has the most micro-batches in
 * flight, so the class's peak memory is that rank's.
 */
#pragma once
#include "model/schedule.h"
#include "model/stages.h"
#include <glib.h>
G_BEGIN_DECLS
#define COST_MAX_RUN_KINDS 8 /* distinct kinds of blocks: runs of equal shape are one kind */

/* Blocks that cost the same, however the arch's run list repeats them (gemma2: two kinds). */
typedef struct {
  guint n_kinds;
  guint8 kind_of_run[256];                  /* arch run → kind */
  guint representative[COST_MAX_RUN_KINDS]; /* an arch run of that kind */
} CostBlockKinds;
/* FALSE with MODEL_ERROR_UNSUPPORTED beyond COST_MAX_RUN_KINDS kinds or 256 runs. */
gboolean cost_block_kinds_init (CostBlockKinds *kinds, const ModelArch *arch, GError **error);

/* What a virtual stage, or all chunks of a rank together, hold. */
typedef struct {
  guint16 blocks[COST_MAX_RUN_KINDS];
  guint16 recomputed[COST_MAX_RUN_KINDS]; /* of blocks: those under the layout's recompute */
  guint16 layers;                         /* sum of blocks */
  guint8 has_embedding, has_head;
} CostStageContent;

typedef struct {
  guint32 first_rank, n_ranks; /* pipeline ranks of this class; first_rank is the fullest */
  CostStageContent content;    /* sum over the rank's chunks */
  guint32 n_chunks;
  guint32 max_chunk_layers;
  guint64 chunk_kinds; /* bit k: some chunk holds blocks of kind k */
} CostStageClass;

/* Neighbouring ranks of one class, in rank order. */
typedef struct {
  guint32 n_ranks;
  guint16 class_index;
  guint16 first_content, last_content; /* of chunk 0 and chunk vpp − 1 */
} CostStageRun;

typedef struct {
  guint32 pp, vpp;
  ModelScheduleKind schedule;
  guint32 n_classes;
  CostStageClass *classes; /* (owned) */
  guint32 n_runs;
  CostStageRun *runs;         /* (owned) */
  guint16 *class_of_rank;     /* (owned) pp */
  guint32 n_contents;         /* distinct virtual stages */
  CostStageContent *contents; /* (owned) */
  guint16 *content_of_stage;  /* (owned) by virtual stage: index into contents */
  guint32 *stage_layers;      /* (owned) by virtual stage */
} CostStageMap;

/*
 * @stage_layers: model_schedule_n_stages entries that sum to the arch's layers, none 0.
 * @recompute_layers: how many layers at the start of each chunk the layout recomputes: N for
 * full:block:N, G_MAXUINT32 (all) for every other setting.
 */
void cost_stage_map_init_recompute (CostStageMap *map, const ModelArch *arch,
                                    const CostBlockKinds *kinds, guint32 pp, guint32 vpp,
                                    ModelScheduleKind schedule, const guint32 *stage_layers,
                                    guint32 recompute_layers);
/* The same with all layers alike: anything but full:block:N. */
void cost_stage_map_init (CostStageMap *map, const ModelArch *arch, const CostBlockKinds *kinds,
                          guint32 pp, guint32 vpp, ModelScheduleKind schedule,
                          const guint32 *stage_layers);
/* What @layout needs as @recompute_layers. */
guint32 cost_stage_map_recompute_layers (const ModelLayout *layout);
void cost_stage_map_clear (CostStageMap *map);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (CostStageMap, cost_stage_map_clear)
G_END_DECLS
