/* model/lower_tail.c - what a stage does once per step: reduce gradients, update, gather parameters.
 *
 * zero 0      all-reduce of gradients, every rank updates all parameters
 * zero 1      reduce-scatter, or all-reduce where the profile says so; update of the shard,
 *             all-gather of parameters
 * zero 2      gradients were reduced with every micro-batch (DeepSpeed stage 2); update, all-gather
 * zero 3      parameters and gradients moved with every micro-batch; update of the shard only
 * With pipelining zero 2 and 3 reduce and gather once per step, like zero 1 (torchtitan keeps
 * parameters gathered and reduces after the last micro-batch). hsdp: shards lie within a group,
 * whose copies are then all-reduced. Routed experts do all this over groups of their own.
 *
 * Bytes: gradients at the profile's reduce_bytes, parameters at the storage dtype; gradients that
 * tp ranks or two stages share are summed as they lie. Adam: model/profile.h, of the shard.
 *
 * costmodel/tail.c sums the same in closed form; a test holds the two together.
 */
#include "model/lower-private.h"
#include "model/program.h"

typedef struct {
  const ModelLayout *layout;
  const ModelProfile *profile;
  ModelRankMap map;
  GArray *ops;
} Tail;

static void
add_collective (Tail *tail, const char *name, ModelCollectiveKind kind, ModelGroupKind group,
                ModelStream stream, double bytes)
{
  if (tail->map.groups[group].size < 2 || !(bytes >= 1))
    return;
  ModelOp op = { .kind = MODEL_OP_COLLECTIVE,
                 .phase = MODEL_PHASE_TAIL,
                 .stream = (guint8)stream,
                 .dtype = MODEL_DTYPE_FP32,
                 .group = (guint8)group,
                 .collective = (guint8)kind,
                 .name = name,
                 .message_bytes = (guint64)(bytes + 0.5) };
  g_array_append_val (tail->ops, op);
}

static void
add_adam (Tail *tail, const char *name, guint64 weights)
{
  const ModelProfile *p = tail->profile;
  ModelDtype dtype = tail->layout->dtype;
  if (weights == 0)
    return;
  ModelOp op
      = { .kind = MODEL_OP_ADAM,
          .phase = MODEL_PHASE_TAIL,
          .stream = MODEL_STREAM_COMPUTE,
          .dtype = MODEL_DTYPE_FP32,
          .name = name,
          .read_bytes = (guint64)(model_profile_adam_read_bytes (p, dtype) * (double)weights),
          .write_bytes = (guint64)(model_profile_adam_write_bytes (p, dtype) * (double)weights) };
  g_array_append_val (tail->ops, op);
}

static void
reduce_gradients (Tail *tail, const char *name, guint64 weights, ModelGroupKind all,
                  ModelGroupKind group, ModelGroupKind replicas)
{
  double bytes = (double)weights * tail->profile->reduce_bytes;
  gboolean sharded = !model_zero_all_reduces (tail->layout, tail->profile);
  if (!model_zero_moves_per_microbatch (tail->layout, 2))
    add_collective (tail, name,
                    sharded ? MODEL_COLLECTIVE_REDUCE_SCATTER : MODEL_COLLECTIVE_ALL_REDUCE,
                    sharded ? group : all, MODEL_STREAM_DP, bytes);
  if (sharded && tail->layout->hsdp > 0)
    add_collective (tail, "replica_gradients", MODEL_COLLECTIVE_ALL_REDUCE, replicas,
                    MODEL_STREAM_DP, bytes / tail->map.groups[group].size);
}

/* Gradients that ranks computed from different tokens, or for one matrix on two stages. */
static void
reduce_shared (Tail *tail, const ModelArch *arch, guint64 replicated_weights,
               gboolean shares_embedding)
{
  const ModelLayout *layout = tail->layout;
  double bytes = model_profile_gradient_bytes (tail->profile, layout->dtype);
  if (model_layout_sums_replicated (layout))
    add_collective (tail, "replicated_gradients", MODEL_COLLECTIVE_ALL_REDUCE, MODEL_GROUP_TP,
                    MODEL_STREAM_TP, (double)replicated_weights * bytes);
  if (!shares_embedding)
    return;
  double count
      = (double)model_params_word_embedding_count (arch, layout->tp, tail->profile->vocab_multiple);
  add_collective (tail, "embedding_gradient", MODEL_COLLECTIVE_ALL_REDUCE, MODEL_GROUP_EMBEDDING,
                  MODEL_STREAM_PP, count * bytes);
}

void
model_lower_tail (const ModelArch *arch, const ModelLayout *layout, const ModelProfile *profile,
                  guint64 weights, guint64 expert_weights, guint64 replicated_weights,
                  gboolean shares_embedding, GArray *ops)
{
  Tail tail = { .layout = layout, .profile = profile, .ops = ops };
  ModelGroupKind dense
      = layout->zero > 0 ? model_layout_shard_group (layout, FALSE) : MODEL_GROUP_DPCP;
  ModelGroupKind expert
      = layout->zero > 0 ? model_layout_shard_group (layout, TRUE) : MODEL_GROUP_EDP;
  guint element_bytes = model_dtype_bits (model_dtype_storage (layout->dtype)) / 8;
  model_rankmap_init (&tail.map, layout);
  gboolean sharded = layout->zero > 0;
  /* Shared gradients first: afterwards a rank with ZeRO has its own shard of them only, and two
   * stages cut their shards differently. */
  reduce_shared (&tail, arch, replicated_weights, shares_embedding);
  reduce_gradients (&tail, "gradients", weights, MODEL_GROUP_DPCP, dense,
                    MODEL_GROUP_HSDP_REPLICATE);
  reduce_gradients (&tail, "expert_gradients", expert_weights, MODEL_GROUP_EDP, expert,
                    MODEL_GROUP_EDP_REPLICATE);
  guint32 shards = sharded ? tail.map.groups[dense].size : 1;
  guint32 expert_shards = sharded ? tail.map.groups[expert].size : 1;
  add_adam (&tail, "adam", model_shard_ceil (weights, shards));
  add_adam (&tail, "adam_experts", model_shard_ceil (expert_weights, expert_shards));
  if (!sharded || model_zero_moves_per_microbatch (layout, 3))
    return;
  add_collective (&tail, "parameters", MODEL_COLLECTIVE_ALL_GATHER, dense, MODEL_STREAM_DP,
                  (double)weights * element_bytes);
  add_collective (&tail, "expert_parameters", MODEL_COLLECTIVE_ALL_GATHER, expert, MODEL_STREAM_DP,
                  (double)expert_weights * element_bytes);
}
