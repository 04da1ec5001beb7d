/* costmodel/stagemap.h - the distinct stages of a pipeline, made once per (pp, vpp, stages, schedule).
 *
 * Pipelines have few different stages: first, last, and one or two kinds between. A class is a
 * set of ranks with the same blocks; its first rank has the most micro-batches in flight, so the
 * class's peak memory is that rank's.
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
  guint8 kind_of_run[256];        /* arch run → kind */
  guint representative[COST_MAX_RUN_KINDS]; /* an arch run of that kind */
} CostBlockKinds;
/* FALSE with MODEL_ERROR_UNSUPPORTED beyond COST_MAX_RUN_KINDS kinds or 256 runs. */
gboolean cost_block_kinds_init (CostBlockKinds *kinds, const ModelArch *arch, GError **error);

/* A virtual stage's contents. */
typedef struct {
  guint16 blocks[COST_MAX_RUN_KINDS];
  guint8 has_embedding, has_head;
} CostStageContent;

typedef struct {
  guint32 first_rank, n_ranks;    /* pipeline ranks of this class; first_rank is the fullest */
  CostStageContent content;       /* sum over the rank's chunks */
  guint32 n_chunks;
  guint32 max_chunk_layers;
} CostStageClass;

typedef struct {
  guint32 pp, vpp;
  ModelScheduleKind schedule;
  guint32 n_classes;
  CostStageClass *classes;        /* (owned) */
  guint32 n_contents;             /* distinct virtual stages */
  CostStageContent *contents;     /* (owned) */
  guint16 *content_of_stage;      /* (owned) pp·vpp: index into contents */
  guint32 *stage_layers;          /* (owned) pp·vpp */
} CostStageMap;

/* @stage_layers: pp·vpp entries that sum to the arch's layers, none 0. */
void cost_stage_map_init (CostStageMap *map, const ModelArch *arch, const CostBlockKinds *kinds,
                          guint32 pp, guint32 vpp, ModelScheduleKind schedule,
                          const guint32 *stage_layers);
void cost_stage_map_clear (CostStageMap *map);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (CostStageMap, cost_stage_map_clear)
G_END_DECLS
