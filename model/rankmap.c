/* model/rankmap.c - groups of ranks as strides over one numbering. */
#include "model/rankmap.h"

static const char *const names[MODEL_GROUP_N_KINDS] = {
  [MODEL_GROUP_TP] = "tp",
  [MODEL_GROUP_CP] = "cp",
  [MODEL_GROUP_DP] = "dp",
  [MODEL_GROUP_DPCP] = "dp_cp",
  [MODEL_GROUP_PP] = "pp",
  [MODEL_GROUP_EP] = "ep",
  [MODEL_GROUP_ETP] = "etp",
  [MODEL_GROUP_EDP] = "edp",
  [MODEL_GROUP_EMBEDDING] = "embedding",
  [MODEL_GROUP_HSDP_SHARD] = "hsdp_shard",
  [MODEL_GROUP_HSDP_REPLICATE] = "hsdp_replicate",
  [MODEL_GROUP_EDP_SHARD] = "edp_shard",
  [MODEL_GROUP_EDP_REPLICATE] = "edp_replicate",
};

const char *
model_group_name (ModelGroupKind kind)
{
  g_return_val_if_fail ((guint)kind < MODEL_GROUP_N_KINDS, "?");
  return names[kind];
}

static void
set_group (ModelRankMap *map, ModelGroupKind kind, guint32 size, guint32 stride)
{
  map->groups[kind] = (ModelGroup){ .size = size, .stride = stride };
}

/* Splits @all neighbours, @stride ranks apart, into shards of @size and their copies. */
static void
set_pair (ModelRankMap *map, ModelGroupKind shard, ModelGroupKind replicate, guint32 all,
          guint32 size, guint32 stride)
{
  set_group (map, shard, size, stride);
  set_group (map, replicate, all / size, stride * size);
}

/* Without sharding every rank holds a whole copy; hsdp = 0 shards over all of dp·cp. */
static void
set_shard_groups (ModelRankMap *map, const ModelLayout *layout)
{
  guint32 all = map->dp * map->cp, experts = map->ep * map->etp;
  guint32 shard = layout->zero == 0 ? 1 : layout->hsdp == 0 ? all : layout->hsdp;
  /* all of edp where hsdp = 0; layouts that do not divide are refused */
  guint32 expert_shard
      = layout->zero > 0 && shard * map->tp % experts == 0 ? shard * map->tp / experts : 1;
  set_pair (map, MODEL_GROUP_HSDP_SHARD, MODEL_GROUP_HSDP_REPLICATE, all, shard, map->tp);
  set_pair (map, MODEL_GROUP_EDP_SHARD, MODEL_GROUP_EDP_REPLICATE, map->edp, expert_shard, experts);
}

/*
 * Groups of one rank that carry traffic in every step. Two kinds with the same size and stride
 * are the same ranks, hence one communicator. dp without cp, and the embedding pair (which only
 * two stages of tied models have), carry none; the expert groups exist only beside experts.
 */
static guint32
count_communicators (const ModelRankMap *map)
{
  static const ModelGroupKind counted[] = {
    MODEL_GROUP_TP,
    MODEL_GROUP_CP,
    MODEL_GROUP_HSDP_SHARD,
    MODEL_GROUP_HSDP_REPLICATE,
    MODEL_GROUP_PP,
    MODEL_GROUP_EP,
    MODEL_GROUP_ETP,
    MODEL_GROUP_EDP_SHARD,
    MODEL_GROUP_EDP_REPLICATE,
  };
  guint n_kinds = map->ep * map->etp > 1 ? G_N_ELEMENTS (counted) : G_N_ELEMENTS (counted) - 4;
  guint32 count = 0;
  for (guint i = 0; i < n_kinds; i++) {
    const ModelGroup *group = &map->groups[counted[i]];
    gboolean is_new = group->size > 1;
    for (guint j = 0; j < i && is_new; j++) {
      const ModelGroup *other = &map->groups[counted[j]];
      is_new = group->size != other->size || group->stride != other->stride;
    }
    count += is_new;
  }
  return count;
}

void
model_rankmap_init (ModelRankMap *map, const ModelLayout *layout)
{
  guint32 stage = layout->tp * layout->cp * layout->dp;
  *map = (ModelRankMap){
    .world = stage * layout->pp,
    .tp = layout->tp,
    .cp = layout->cp,
    .dp = layout->dp,
    .pp = layout->pp,
    .ep = layout->ep,
    .etp = layout->etp,
    .edp = stage / (layout->ep * layout->etp),
  };
  set_group (map, MODEL_GROUP_TP, map->tp, 1);
  set_group (map, MODEL_GROUP_CP, map->cp, map->tp);
  set_group (map, MODEL_GROUP_DP, map->dp, map->tp * map->cp);
  set_group (map, MODEL_GROUP_DPCP, map->dp * map->cp, map->tp);
  set_group (map, MODEL_GROUP_PP, map->pp, stage);
  set_group (map, MODEL_GROUP_ETP, map->etp, 1);
  set_group (map, MODEL_GROUP_EP, map->ep, map->etp);
  set_group (map, MODEL_GROUP_EDP, map->edp, map->etp * map->ep);
  set_group (map, MODEL_GROUP_EMBEDDING, map->pp > 1 ? 2 : 1,
             map->pp > 1 ? (map->pp - 1) * stage : stage);
  set_shard_groups (map, layout);
  map->communicators_per_rank = count_communicators (map);
}

ModelRankCoordinates
model_rankmap_coordinates (const ModelRankMap *map, guint32 rank)
{
  ModelRankCoordinates at;
  at.tp = rank % map->tp;
  rank /= map->tp;
  at.cp = rank % map->cp;
  rank /= map->cp;
  at.dp = rank % map->dp;
  at.pp = rank / map->dp;
  return at;
}

guint32
model_rankmap_rank (const ModelRankMap *map, ModelRankCoordinates at)
{
  return ((at.pp * map->dp + at.dp) * map->cp + at.cp) * map->tp + at.tp;
}

guint32
model_rankmap_group_base (const ModelRankMap *map, ModelGroupKind kind, guint32 rank)
{
  const ModelGroup *group = &map->groups[kind];
  return rank - rank / group->stride % group->size * group->stride;
}
