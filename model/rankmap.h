/* model/rankmap.h - which rank sits where in the mesh, and which ranks act together.
 *
 * Megatron's order tp-cp-ep-dp-pp, tp fastest: rank = ((pp·DP + dp)·CP + cp)·TP + tp. Expert
 * parallelism reorders the same TP·CP·DP ranks of a stage as etp-ep-edp:
 * rank within the stage = (edp·EP + ep)·ETP + etp.
 * With hsdp the same hsdp·tp neighbouring ranks hold one copy of the expert shards as of the dense
 * ones, so ep·etp must divide hsdp·tp (Megatron-core: expert data parallelism divides by the number
 * of optimizer instances; torchtitan: dp_shard·cp·tp by ep).
 * Every group is arithmetic: { base + i·stride : i < size }.
 */
#pragma once
#include "model/layout.h"
#include <glib.h>
G_BEGIN_DECLS

typedef enum {
  MODEL_GROUP_TP,
  MODEL_GROUP_CP,
  MODEL_GROUP_DP,   /* data parallel proper */
  MODEL_GROUP_DPCP, /* dp × cp: where dense gradients are reduced and ZeRO shards live */
  MODEL_GROUP_PP,   /* the ranks of one pipeline */
  MODEL_GROUP_EP,
  MODEL_GROUP_ETP,
  MODEL_GROUP_EDP,            /* expert data parallel: where expert gradients are reduced */
  MODEL_GROUP_EMBEDDING,      /* first and last stage, when a tied embedding lives on both */
  MODEL_GROUP_HSDP_SHARD,     /* inside which shards are split; one rank with zero=0 */
  MODEL_GROUP_HSDP_REPLICATE, /* across copies of the shards; all of dp × cp with zero=0 */
  MODEL_GROUP_EDP_SHARD,      /* the same pair for routed experts: the ranks of the shard group, */
  MODEL_GROUP_EDP_REPLICATE,  /* and its copies, within edp */
  MODEL_GROUP_N_KINDS
} ModelGroupKind;
const char *model_group_name (ModelGroupKind kind);

typedef struct {
  guint32 size;
  guint32 stride; /* between neighbours in the group, in ranks */
} ModelGroup;

typedef struct {
  guint32 tp, cp, dp, pp;
} ModelRankCoordinates;

typedef struct {
  guint32 world;
  guint32 tp, cp, dp, pp, ep, etp, edp;
  ModelGroup groups[MODEL_GROUP_N_KINDS];
  /* Distinct groups of more than one rank that carry traffic in every step: tp, cp, pp, the ranks
     gradients are reduced over (the hsdp pair) and, where ep or etp exceed 1, the expert groups
     (with a pair of their own).
     Groups of the same ranks share one communicator. */
  guint32 communicators_per_rank;
} ModelRankMap;

/* Where shards of dense or routed weights lie if ZeRO shards them. */
static inline ModelGroupKind
model_layout_shard_group (const ModelLayout *layout, gboolean routed)
{
  if (layout->hsdp == 0)
    return routed ? MODEL_GROUP_EDP : MODEL_GROUP_DPCP;
  return routed ? MODEL_GROUP_EDP_SHARD : MODEL_GROUP_HSDP_SHARD;
}

void model_rankmap_init (ModelRankMap *map, const ModelLayout *layout);
ModelRankCoordinates model_rankmap_coordinates (const ModelRankMap *map, guint32 rank);
guint32 model_rankmap_rank (const ModelRankMap *map, ModelRankCoordinates at);
/* First rank of the group of @kind that @rank belongs to. */
guint32 model_rankmap_group_base (const ModelRankMap *map, ModelGroupKind kind, guint32 rank);
G_END_DECLS
