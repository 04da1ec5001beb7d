/* costmodel/memory.h - bytes of one stage, by component, and the three views of them.
 *
 * Components are disjoint and sum to the driver's view. allocated = everything that goes through
 * the caching allocator at its peak; reserved = allocated + fragmentation; driver (peak_bytes) =
 * reserved + communicators + context. need, which decides out-of-memory, is allocated × the
 * profile's need ratio (and further, of what comes and goes within a step) + communicators +
 * context: the allocator gives its cache back under pressure. The peak is the larger of two
 * moments, backward and optimizer step. Formulas and sources: docs/model.md.
 */
#pragma once
#include "costmodel/template.h"
#include <glib.h>
G_BEGIN_DECLS

typedef enum {
  COST_MEMORY_WEIGHTS,
  COST_MEMORY_GRADIENTS,   /* gradients and main gradients */
  COST_MEMORY_OPTIMIZER,   /* master weights and moments */
  COST_MEMORY_ACTIVATIONS, /* kept from forward to backward, all micro-batches in flight */
  COST_MEMORY_LOGITS,
  COST_MEMORY_GATHERS,      /* FSDP units, gathered parameters, gradient buckets */
  COST_MEMORY_COMM_BUFFERS, /* communicators */
  COST_MEMORY_WORKSPACE,    /* recomputed tensors, activation gradients, cuBLAS, dummy buffers, and
                               what the step's copies need beyond all that is free by then */
  COST_MEMORY_CONTEXT,
  COST_MEMORY_FRAGMENTATION,
  COST_MEMORY_N_KINDS
} CostMemoryKind;
const char *cost_memory_kind_name (CostMemoryKind kind); /* "weights", … the JSON keys */

typedef struct {
  guint64 bytes[COST_MEMORY_N_KINDS];
  guint64 allocated_bytes, reserved_bytes, peak_bytes, need_bytes;
  guint64 in_flight_count; /* chunks × micro-batches alive */
} CostStageMemory;

/* Parameters of one rank. */
typedef struct {
  guint64 dense;      /* all but routed experts; a tied copy of the embedding included */
  guint64 expert;     /* routed experts */
  guint64 replicated; /* of dense: what every tp rank holds */
} CostWeights;
void cost_weights_count (CostWeights *out, const CostTemplate *tmpl,
                         const CostStageContent *content, gboolean is_pipelined);

/* How many ranks share one copy of the sharded states, and communicators of a rank. */
typedef struct {
  guint32 shard_ranks;        /* of dense parameters, where ZeRO shards */
  guint32 expert_shard_ranks; /* of routed experts */
  guint32 communicators;
} CostShards;

/* What all stages of a layout share, worked out once. Plain value; borrows what it was made from. */
typedef struct {
  const CostTemplate *tmpl;
  const ModelLayout *layout;
  const CostShards *shards;
  const CostStageMap *map;
  guint64 microbatches;
  guint32 uniform; /* layers per checkpoint */
  gboolean has_bucket;
  /* bytes per parameter: of those the rank has whole, and of those of its shard */
  double weight_full, weight_sharded, gradient_full, gradient_sharded, optimizer, step_copy;
  double param_bytes; /* of the copy that computes */
  double slack_ratio; /* reserved over allocated, less 1 */
  guint64 fixed_bytes, communicator_bytes, context_bytes;
} CostMemoryPlan;
void cost_memory_plan_init (CostMemoryPlan *plan, const CostTemplate *tmpl,
                            const ModelLayout *layout, guint64 microbatches,
                            const CostShards *shards, const CostStageMap *map);

/* What does not depend on ZeRO and shard groups, so that layouts that differ in these only share
 * it. */
typedef struct {
  guint64 in_flight_count;
  guint64 activations_bytes;
  guint64 layer_work_bytes, dummy_bytes;
} CostStageKept;
void cost_stage_kept_init (CostStageKept *out, const CostMemoryPlan *plan,
                           const CostStageClass *class);
/* cost_stage_memory in two steps. */
void cost_stage_memory_with (CostStageMemory *out, const CostMemoryPlan *plan,
                             const CostStageClass *class, const CostWeights *weights,
                             const CostStageKept *kept);

/* Memory of the first rank of @class, which has the most in flight of its class. Allocates
 * nothing. */
void cost_stage_memory (CostStageMemory *out, const CostMemoryPlan *plan,
                        const CostStageClass *class, const CostWeights *weights);

/* What is known of the layers' activations. */
typedef enum {
  COST_KEPT_INPUTS, /* nothing but that every block keeps its input: any recompute setting */
  COST_KEPT_ASKED,  /* what the layout's recompute setting leaves at least */
  COST_KEPT_EITHER, /* layers recompute as the template's blocks do, or not at all */
  COST_KEPT_BLOCKS, /* all layers do as the template's blocks */
  COST_KEPT_PLAIN,  /* no layer recomputes */
} CostKept;

/* Need of the layers on a rank and of what lies around them, from below; of one way to shard, for
 * all schedules and vpp of one pp. Plain value. */
typedef struct {
  gboolean is_known;
  guint n_kinds;
  double states[COST_MAX_RUN_KINDS]; /* of one layer, in need */
  double kept[COST_MAX_RUN_KINDS];   /* of one layer and micro-batch, in need */
  double layers[COST_MAX_RUN_KINDS]; /* how many */
  double mean_states, mean_kept, least_kept, most_kept, n_layers;
  double kept_ratio; /* need of a byte that is kept, at least */
  double around;     /* beside the layers on every rank */
  double first_more; /* on the first and the last rank, beyond that */
  double last_more;
  double limit; /* bytes */
} CostRoom;

/* For a need of at most @most_need_bytes. What is kept is as @layers says, what is worked with as
 * @work does. The template's blocks need not be set but for COST_KEPT_EITHER and COST_KEPT_BLOCKS.
 * Of the plan's layout: pp, recompute, and how it is sharded; its map is not looked at. */
void cost_room_init (CostRoom *out, const CostMemoryPlan *plan, const ModelArch *arch,
                     const CostBlockKinds *kinds, CostKept layers, CostKept work,
                     double most_need_bytes);

/*
 * May every stage stay within the limit, however the layers are cut into stages? FALSE is certain,
 * for chunks of a rank that differ by one layer at most; TRUE is not: the layers may still find no
 * place. A sum over ranks of the layers that each has room for, some 20 operations a rank; schedules
 * but 1F1B and the interleaved one are always TRUE. Of @map: pp, vpp, schedule.
 */
gboolean cost_room_may_fit (const CostRoom *room, const CostStageMap *map, guint64 microbatches);

/*
 * Seconds that the layers of the model must recompute at least, all together in one micro-batch, to
 * stay within the limit, when each layer recomputes as the template's blocks do or not at all (but
 * not uniform:N with N > 1), however they are cut (as above). 0: none, or not known. @room: of
 * COST_KEPT_PLAIN layers and COST_KEPT_EITHER work. @saved_per_s: by cost_room_saved_per_s.
 */
double cost_room_least_recompute_s (const CostRoom *room, const CostStageMap *map,
                                    guint64 microbatches, double saved_per_s);
/* Bytes of need that a second of recompute saves at most, of one micro-batch; 0: not known.
 * @extra_s: by kind of block, what recomputing one adds to a micro-batch. */
double cost_room_saved_per_s (const CostRoom *room, const CostTemplate *tmpl,
                              const double *extra_s);
G_END_DECLS
