/* costmodel/placement.c - groups of a layout on the machine, and what FSDP's traffic costs there. */
#include "costmodel/evaluate-private.h"
#include <math.h>

static void
group_init (CostGroup *group, TopoGroupShape *shape, const CostProblem *problem,
            const ModelRankMap *map, ModelGroupKind kind)
{
  TopoGroupShape local;
  if (shape == NULL)
    shape = &local;
  topo_group_shape (problem->machine, map->world, map->groups[kind].stride, map->groups[kind].size,
                    shape);
  cost_group_init (group, problem->numbers, shape);
}

/* The group @kind of shards and the one after it of their copies, within @all. */
static void
shard_init (CostGroup *shard, CostGroup *replicate, const CostGroup *all,
            const CostProblem *problem, const ModelRankMap *map, ModelGroupKind kind)
{
  replicate->ranks = 1; /* all else of it is then not read */
  *shard = *all;
  if (map->groups[kind + 1].size == 1)
    return;
  group_init (shard, NULL, problem, map, kind);
  group_init (replicate, NULL, problem, map, kind + 1);
}

/* The first and the last stage. */
static void
embedding_init (CostGroup *group, const CostProblem *problem, const ModelRankMap *map)
{
  TopoGroupShape shape;
  guint32 stage = map->world / map->pp;
  if (map->pp > 1)
    topo_pair_shape (problem->machine, map->world, map->world - stage, &shape);
  else
    topo_group_shape (problem->machine, map->world, 1, 1, &shape);
  cost_group_init (group, problem->numbers, &shape);
}

/* What traffic adds to a pass: all of it, or what exceeds the compute it runs under plus the
 * share of the smaller of the two that does not overlap (time-model §3.6). */
static double
added_s (double compute_s, double traffic_s, double overlap_ratio)
{
  double longer = MAX (compute_s, traffic_s), shorter = MIN (compute_s, traffic_s);
  return longer + (1 - overlap_ratio) * shorter - compute_s;
}

typedef struct {
  const CostProblem *problem;
  const CostPlacement *placement;
  double element_bytes;
  double overlap_ratio;
} Fsdp;

static CostTransfer
transfer (const CostGroup *group, ModelGroupKind kind, ModelCollectiveKind collective, double bytes)
{
  return (CostTransfer){ kind, collective, bytes, cost_collective_s (group, collective, bytes) };
}

void
cost_unit_traffic (CostUnitTraffic *out, const CostPlacement *placement,
                   const ModelProfile *profile, double element_bytes, const CostBlock *block)
{
  const CostGroup *groups[] = { &placement->shard, &placement->expert_shard };
  static const ModelGroupKind kinds[] = { MODEL_GROUP_HSDP_SHARD, MODEL_GROUP_EDP_SHARD };
  double counts[] = { (double)block->weight_count, (double)block->expert_weight_count };
  *out = (CostUnitTraffic){ 0 };
  for (guint i = 0; i < 2; i++) {
    if (!(counts[i] > 0))
      continue;
    out->gathers[i]
        = transfer (groups[i], kinds[i], MODEL_COLLECTIVE_ALL_GATHER, counts[i] * element_bytes);
    out->reduces[i] = transfer (groups[i], kinds[i], MODEL_COLLECTIVE_REDUCE_SCATTER,
                                counts[i] * profile->reduce_bytes);
    out->gather_s += out->gathers[i].time_s;
    out->reduce_s += out->reduces[i].time_s;
  }
}

/* Forward gathers a unit; backward gathers it again where it was freed, and reduces. */
static void
unit_traffic (const Fsdp *fsdp, const CostBlock *block, double *out_forward_s,
              double *out_backward_s)
{
  const ModelProfile *profile = fsdp->problem->profile;
  CostUnitTraffic traffic;
  cost_unit_traffic (&traffic, fsdp->placement, profile, fsdp->element_bytes, block);
  double gather_s = traffic.gather_s, reduce_s = traffic.reduce_s;
  double again_s = profile->reshard_after_forward ? gather_s : 0;
  double backward_s
      = block->pass_s[COST_PASS_BACKWARD_INPUT] + block->pass_s[COST_PASS_BACKWARD_WEIGHT];
  *out_forward_s = added_s (block->pass_s[COST_PASS_FORWARD], gather_s, fsdp->overlap_ratio);
  *out_backward_s = added_s (backward_s, again_s + reduce_s, fsdp->overlap_ratio);
}

static void
fill_fsdp (CostPlacement *out, const CostProblem *problem, const ModelLayout *layout,
           const CostTemplate *tmpl)
{
  Fsdp fsdp = { problem, out, tmpl->element_bytes,
                layout->overlap_dp ? problem->numbers->profile.overlap_dp_ratio : 0 };
  for (guint kind = 0; kind < tmpl->n_kinds; kind++) {
    unit_traffic (&fsdp, &tmpl->blocks[kind], &out->fsdp_forward_s[kind],
                  &out->fsdp_backward_s[kind]);
    unit_traffic (&fsdp, &tmpl->plain_blocks[kind], &out->fsdp_plain_forward_s[kind],
                  &out->fsdp_plain_backward_s[kind]);
  }
  unit_traffic (&fsdp, &tmpl->embedding, &out->fsdp_embedding_forward_s,
                &out->fsdp_embedding_backward_s);
  unit_traffic (&fsdp, &tmpl->head, &out->fsdp_head_forward_s, &out->fsdp_head_backward_s);
}

double
cost_straggler_ratio (const CostProblem *problem)
{
  const CostNumbers *numbers = problem->numbers;
  double ratio = numbers->profile.overhead_ratio;
  if (problem->gpus > 8)
    ratio += numbers->fabric.straggler_ratio * log2 (problem->gpus / 8.0);
  return ratio;
}

void
cost_placement_set_template (CostPlacement *placement, const CostProblem *problem,
                             const ModelLayout *layout, const CostTemplate *tmpl)
{
  placement->p2p_s = layout->pp > 1 ? cost_p2p_s (problem->numbers, &placement->pair_shape,
                                                  (double)tmpl->boundary_bytes)
                                    : 0;
  if (layout->pp == 1)
    fill_fsdp (placement, problem, layout, tmpl);
}

void
cost_placement_init (CostPlacement *out, const CostProblem *problem, const ModelLayout *layout,
                     const CostTemplate *tmpl)
{
  cost_placement_init_groups (out, problem, layout);
  cost_placement_set_template (out, problem, layout, tmpl);
}

/* The ranks of a layout that shards, whether it does or not. */
static void
map_sharded (ModelRankMap *map, const ModelLayout *layout)
{
  ModelLayout sharded = *layout; /* shallow: only its degrees are read */
  sharded.zero = MAX (layout->zero, 1);
  model_rankmap_init (map, &sharded);
}

static CostShards
shards_of (const ModelRankMap *map)
{
  return (CostShards){ .shard_ranks = map->groups[MODEL_GROUP_HSDP_SHARD].size,
                       .expert_shard_ranks = map->groups[MODEL_GROUP_EDP_SHARD].size,
                       .communicators = map->communicators_per_rank };
}

void
cost_placement_shards (CostShards *out, const ModelLayout *layout)
{
  ModelRankMap map;
  map_sharded (&map, layout);
  *out = shards_of (&map);
}

void
cost_placement_init_groups (CostPlacement *out, const CostProblem *problem,
                            const ModelLayout *layout)
{
  ModelRankMap map;
  map_sharded (&map, layout);
  group_init (&out->dp, &out->dp_shape, problem, &map, MODEL_GROUP_DPCP);
  group_init (&out->edp, &out->edp_shape, problem, &map, MODEL_GROUP_EDP);
  shard_init (&out->shard, &out->replicate, &out->dp, problem, &map, MODEL_GROUP_HSDP_SHARD);
  shard_init (&out->expert_shard, &out->expert_replicate, &out->edp, problem, &map,
              MODEL_GROUP_EDP_SHARD);
  group_init (&out->tp, NULL, problem, &map, MODEL_GROUP_TP);
  embedding_init (&out->embedding, problem, &map);
  out->shards = shards_of (&map);
  out->pair_shape = (TopoGroupShape){ .ranks = 1 };
  if (map.pp > 1)
    topo_pair_shape (problem->machine, map.world, map.world / map.pp, &out->pair_shape);
  out->straggler_ratio = cost_straggler_ratio (problem);
}
