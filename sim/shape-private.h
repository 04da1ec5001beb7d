/* sim/shape-private.h - the legal layouts of a family, as few shapes: a pipeline, the ZeRO stages
 * and shard groups that go with it, and the recompute settings.
 *
 * Rules that look at the pipeline only are asked once per shape, not once per layout, so that
 * counting what is legal costs little beside costing it.
 */
#pragma once
#include "sim/space.h"
G_BEGIN_DECLS

#define SIM_MAX_SLOTS 8

/* A way to shard: ZeRO stage and shard group. */
typedef struct {
  guint8 zero;
  guint32 hsdp;
} SimSlot;

typedef struct {
  const SimPipeline *pipeline; /* (borrowed) */
  guint32 dp;
  guint n_slots;
  SimSlot slots[SIM_MAX_SLOTS];
  guint32 recomputes; /* a bit for each legal entry of the space's list */
} SimShape;

typedef struct {
  guint64 legal_count;
  guint64 rejected[MODEL_LEGAL_N]; /* candidates by the first rule they break */
} SimCounts;

/* @shapes: emptied, then filled with those that have a legal layout. @counts: (nullable) added to;
 * stage lists other than "auto" and the pinned one are not counted. */
void sim_family_shapes (const CostProblem *problem, const SimSpace *space, const SimFamily *family,
                        GArray *shapes, SimCounts *counts);
/* The family's degrees in a copy of the space's base; stage_layers is not owned. */
ModelLayout sim_family_layout (const SimSpace *space, const SimFamily *family);
/* The layout's setting for an entry of the space's list: full means uniform:1 unless pinned. */
ModelRecompute sim_space_recompute (const SimSpace *space, guint index);
/* Sets pp, vpp, schedule, dp and stages; the list is borrowed from the pipeline. */
void sim_shape_apply (const SimShape *shape, const SimPipeline *pipeline, ModelLayout *layout);
G_END_DECLS
