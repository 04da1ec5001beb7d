/* model/lower.c - the builder: tensors, ops and weights of one segment. */
#include "model/lower-private.h"

/* A dense block with all its recompute has about 60 ops and 110 tensors; MoE with MLA about 110
 * and 200. The arrays grow if a block needs more. */
#define OPS_CAPACITY     96
#define TENSORS_CAPACITY 192

static void
reserve_tensors (Lower *b, guint capacity)
{
  b->tensors = g_renew (ModelTensor, b->tensors, capacity);
  b->rebuilt = g_renew (guint32, b->rebuilt, capacity);
  b->grad = g_renew (guint32, b->grad, capacity);
  b->tensors_capacity = capacity;
}

static void
reserve_ops (Lower *b, guint capacity)
{
  b->ops = g_renew (ModelOp, b->ops, capacity);
  b->meta = g_renew (LowerMeta, b->meta, capacity);
  b->ops_capacity = capacity;
}

void
lower_init (Lower *b, const ModelArch *arch, const ModelJob *job, const ModelLayout *layout,
            const ModelProfile *profile)
{
  guint32 tp = layout->tp;
  *b = (Lower){ .arch = arch, .job = job, .layout = layout, .profile = profile };
  b->mesh[MODEL_MESH_TP] = tp;
  b->mesh[MODEL_MESH_CP] = layout->cp;
  b->mesh[MODEL_MESH_EP] = layout->ep;
  b->mesh[MODEL_MESH_ETP] = layout->etp;
  b->gathers = tp > 1 && layout->sp;
  b->reduces = tp > 1 && !layout->sp;
  b->tokens = layout->mbs * job->seq;
  b->rows = model_shard_ceil (b->tokens, layout->cp);
  b->rows_sequence = b->gathers ? model_shard_ceil (b->rows, tp) : b->rows;
  b->store = model_dtype_storage (layout->dtype);
  b->element_bytes = (guint8)(model_dtype_bits (b->store) / 8);
  b->quantizes = layout->dtype != b->store;
  b->padded_vocab = model_params_padded_vocab (arch->vocab, tp, profile->vocab_multiple);
  b->phase = MODEL_PHASE_FORWARD;
  reserve_tensors (b, TENSORS_CAPACITY);
  reserve_ops (b, OPS_CAPACITY);
}

void
lower_clear (Lower *b)
{
  g_clear_pointer (&b->ops, g_free);
  g_clear_pointer (&b->meta, g_free);
  g_clear_pointer (&b->tensors, g_free);
  g_clear_pointer (&b->rebuilt, g_free);
  g_clear_pointer (&b->grad, g_free);
}

guint32
lower_push_tensor (Lower *b, const ModelTensor *tensor)
{
  guint32 id = b->n_tensors++;
  if (id == b->tensors_capacity)
    reserve_tensors (b, 2 * b->tensors_capacity);
  b->tensors[id] = *tensor;
  b->tensors[id].producer = b->tensors[id].last_user = MODEL_TENSOR_NONE;
  b->tensors[id].kept = FALSE;
  b->rebuilt[id] = b->grad[id] = MODEL_TENSOR_NONE;
  return id;
}

guint32
lower_clone (Lower *b, guint32 tensor)
{
  ModelTensor copy = b->tensors[tensor];
  return lower_push_tensor (b, &copy);
}

static const ModelPlacement replicated = { .kind = MODEL_PLACEMENT_REPLICATE };
static const ModelPlacement partial = { .kind = MODEL_PLACEMENT_PARTIAL };

static ModelPlacement
shard (guint dim)
{
  return (ModelPlacement){ .kind = MODEL_PLACEMENT_SHARD, .dim = (gint8)dim };
}

static void
place (const Lower *b, LowerSplit split, ModelPlacement out[MODEL_MESH_N_DIMS])
{
  for (guint i = 0; i < MODEL_MESH_N_DIMS; i++)
    out[i] = replicated;
  out[MODEL_MESH_CP] = shard (0);
  if (b->gathers
      && (split == LOWER_SEQUENCE || split == LOWER_EXPERT_COLUMN || split == LOWER_EXPERT_PARTIAL))
    out[MODEL_MESH_TP] = shard (0);
  if (split == LOWER_COLUMN)
    out[MODEL_MESH_TP] = shard (1);
  if (split == LOWER_PARTIAL)
    out[MODEL_MESH_TP] = partial;
  if (split == LOWER_EXPERT_COLUMN)
    out[MODEL_MESH_ETP] = shard (1);
  if (split == LOWER_EXPERT_PARTIAL)
    out[MODEL_MESH_ETP] = partial;
}

guint32
lower_tensor (Lower *b, const char *name, ModelTensorRole role, ModelDtype dtype, LowerSplit split,
              guint64 rows, guint64 columns)
{
  ModelTensor tensor = { .name = name,
                         .role = (guint8)role,
                         .dtype = (guint8)dtype,
                         .n_dims = 2,
                         .shape = { rows, columns } };
  place (b, split, tensor.placement);
  tensor.local_bytes = model_tensor_local_bytes (&tensor, b->mesh);
  return lower_push_tensor (b, &tensor);
}

guint32
lower_activation (Lower *b, const char *name, LowerSplit split, guint64 columns)
{
  return lower_tensor (b, name, MODEL_ROLE_ACTIVATION, b->store, split, b->tokens, columns);
}

static void
place_weight (ModelParamSplit split, ModelPlacement out[MODEL_MESH_N_DIMS])
{
  for (guint i = 0; i < MODEL_MESH_N_DIMS; i++)
    out[i] = replicated;
  switch (split) {
  case MODEL_PARAM_SPLIT_COLUMN:
    out[MODEL_MESH_TP] = shard (0);
    break;
  case MODEL_PARAM_SPLIT_ROW:
    out[MODEL_MESH_TP] = shard (1);
    break;
  case MODEL_PARAM_SPLIT_EXPERT_COLUMN:
    out[MODEL_MESH_EP] = shard (0);
    out[MODEL_MESH_ETP] = shard (1);
    break;
  case MODEL_PARAM_SPLIT_EXPERT_ROW:
    out[MODEL_MESH_EP] = shard (0);
    out[MODEL_MESH_ETP] = shard (2);
    break;
  case MODEL_PARAM_SPLIT_NONE:
  default:
    break;
  }
}

static void
add_weight (Lower *b, const ModelParam *param)
{
  ModelParam padded = model_param_with_vocab (param, b->padded_vocab);
  ModelTensor tensor = { .name = param->name,
                         .role = MODEL_ROLE_WEIGHT,
                         .dtype = (guint8)b->store,
                         .n_dims = (guint8)param->n_dims };
  for (guint i = 0; i < padded.n_dims; i++)
    tensor.shape[i] = padded.shape[i];
  place_weight (padded.split, tensor.placement);
  /* A row-parallel expert bias [E, out] has no third dimension to split. */
  if (padded.split == MODEL_PARAM_SPLIT_EXPERT_ROW && padded.n_dims < 3)
    tensor.placement[MODEL_MESH_ETP] = replicated;
  tensor.local_bytes = model_tensor_local_bytes (&tensor, b->mesh);
  lower_push_tensor (b, &tensor);
}

void
lower_weights (Lower *b, ModelPart part, guint run)
{
  ModelParam params[MODEL_PARAMS_MAX];
  guint n = model_params_list (b->arch, part, run, params);
  for (guint i = 0; i < n; i++)
    add_weight (b, &params[i]);
  /* A tied head reads the embedding's matrix; whose memory it is, the program decides. */
  if (part == MODEL_PART_HEAD && b->arch->tied) {
    ModelParam tied = { .name = "output_layer.weight",
                        .split = MODEL_PARAM_SPLIT_COLUMN,
                        .n_dims = 2,
                        .shape = { b->arch->vocab, b->arch->hidden },
                        .by_vocab = TRUE };
    tied.count = b->arch->vocab * b->arch->hidden;
    add_weight (b, &tied);
  }
  b->n_weights = b->n_tensors;
}

guint32
lower_weight (const Lower *b, const char *name)
{
  for (guint i = 0; name != NULL && i < b->n_weights; i++)
    if (g_str_equal (b->tensors[i].name, name))
      return i;
  return MODEL_TENSOR_NONE;
}

ModelOp *
lower_begin (Lower *b, ModelOpKind kind, const char *name)
{
  if (b->n_ops == b->ops_capacity)
    reserve_ops (b, 2 * b->ops_capacity);
  ModelOp *op = &b->ops[b->n_ops];
  *op = (ModelOp){ .kind = (guint8)kind,
                   .phase = b->phase,
                   .stream = MODEL_STREAM_COMPUTE,
                   .dtype = (guint8)b->store,
                   .name = name };
  b->meta[b->n_ops] = (LowerMeta){ .modules = b->modules };
  b->n_ops++;
  return op;
}

void
lower_begin_collective (Lower *b, const char *name, ModelCollectiveKind kind, ModelGroupKind group,
                        ModelStream stream, guint64 message_bytes)
{
  ModelOp *op = lower_begin (b, MODEL_OP_COLLECTIVE, name);
  op->collective = (guint8)kind;
  op->group = (guint8)group;
  op->stream = (guint8)stream;
  op->message_bytes = message_bytes;
}

void
lower_in (Lower *b, guint32 tensor)
{
  ModelOp *op = lower_current (b);
  if (tensor == MODEL_TENSOR_NONE)
    return;
  g_return_if_fail (op->n_in < MODEL_OP_MAX_IN);
  op->in[op->n_in++] = tensor;
  ModelTensor *read = &b->tensors[tensor];
  read->last_user = b->n_ops - 1;
  gboolean made_forward
      = read->producer == MODEL_TENSOR_NONE || b->ops[read->producer].phase == MODEL_PHASE_FORWARD;
  if (op->phase != MODEL_PHASE_FORWARD && made_forward && read->role != MODEL_ROLE_WEIGHT
      && read->role != MODEL_ROLE_ACTIVATION_GRAD)
    read->kept = TRUE;
}

void
lower_out (Lower *b, guint32 tensor)
{
  ModelOp *op = lower_current (b);
  if (tensor == MODEL_TENSOR_NONE)
    return;
  g_return_if_fail (op->n_out < MODEL_OP_MAX_OUT);
  op->out[op->n_out++] = tensor;
  b->tensors[tensor].producer = b->n_ops - 1;
}

void
lower_save (Lower *b, guint32 tensor)
{
  LowerMeta *meta = lower_current_meta (b);
  if (tensor == MODEL_TENSOR_NONE)
    return;
  g_return_if_fail (meta->n_saved < LOWER_MAX_SAVED);
  meta->saved[meta->n_saved++] = tensor;
}

static guint64
operand_bytes (const Lower *b, const guint32 *ids, guint n)
{
  guint64 bytes = 0;
  for (guint i = 0; i < n; i++) {
    const ModelTensor *tensor = &b->tensors[ids[i]];
    if (tensor->role != MODEL_ROLE_WEIGHT && tensor->role != MODEL_ROLE_WEIGHT_GRAD)
      bytes += tensor->local_bytes;
  }
  return bytes;
}

/* Memory-bound kinds read and write every operand once; their weights (norms, biases) are small
 * beside the activations and not counted. Kinds whose traffic is otherwise set it themselves. */
void
lower_end (Lower *b)
{
  ModelOp *op = lower_current (b);
  if (op->kind == MODEL_OP_GEMM || op->kind == MODEL_OP_COLLECTIVE || op->read_bytes > 0
      || op->write_bytes > 0)
    return;
  op->read_bytes = operand_bytes (b, op->in, op->n_in);
  op->write_bytes = operand_bytes (b, op->out, op->n_out);
}
