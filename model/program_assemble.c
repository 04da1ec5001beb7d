/* model/program_assemble.c - copies segments into a program and joins them. */
#include "model/program-private.h"

void
program_assembly_init (Assembly *a, const ModelArch *arch, const ModelJob *job,
                       const ModelLayout *layout, const ModelProfile *profile)
{
  *a = (Assembly){ .arch = arch, .job = job, .layout = layout, .profile = profile };
  model_rankmap_init (&a->map, layout);
  a->ops = g_array_new (FALSE, FALSE, sizeof (ModelOp));
  a->tensors = g_array_new (FALSE, FALSE, sizeof (ModelTensor));
  a->n_templates = 2 + 3 * arch->n_runs; /* embedding, head, and a run without, with some, with all
                                            recompute */
  a->templates = g_new0 (ModelSegment *, a->n_templates);
}

void
program_assembly_clear (Assembly *a)
{
  for (guint i = 0; i < a->n_templates; i++)
    model_segment_free (a->templates[i]);
  g_clear_pointer (&a->templates, g_free);
  g_clear_pointer (&a->ops, g_array_unref);
  g_clear_pointer (&a->tensors, g_array_unref);
}

const ModelSegment *
program_template (Assembly *a, ModelPart part, guint run, ModelRecomputeKind recompute,
                  GError **error)
{
  guint at = part == MODEL_PART_EMBEDDING ? 0
             : part == MODEL_PART_HEAD    ? 1
                                          : 2 + 3 * run + recompute;
  if (a->templates[at] == NULL)
    a->templates[at]
        = model_segment_new (a->arch, a->job, a->layout, a->profile, part, run, recompute, error);
  return a->templates[at];
}

static guint32
push_tensor (Assembly *a, const ModelTensor *tensor)
{
  ModelTensor copy = *tensor;
  copy.producer = copy.last_user = MODEL_TENSOR_NONE;
  copy.kept = FALSE;
  g_array_append_val (a->tensors, copy);
  return a->tensors->len - 1;
}

void
program_piece_init (Assembly *a, ProgramPiece *piece, const ModelSegment *segment, guint32 input)
{
  *piece = (ProgramPiece){ .segment = segment,
                           .first_tensor = a->tensors->len,
                           .rebuilt_input = MODEL_TENSOR_NONE };
  piece->ids = g_new (guint32, segment->n_tensors);
  for (guint i = 0; i < segment->n_tensors; i++) {
    if (i == segment->input)
      piece->ids[i] = input;
    else if (i == segment->output_grad)
      piece->ids[i] = MODEL_TENSOR_NONE; /* set by what comes after */
    else
      piece->ids[i] = push_tensor (a, &segment->tensors[i]);
  }
}

/* As lower_in and lower_out: life of tensors, and what is kept for backward. */
static void
note_operands (Assembly *a, guint32 index)
{
  const ModelOp *op = &g_array_index (a->ops, ModelOp, index);
  for (guint i = 0; i < op->n_in; i++) {
    ModelTensor *read = &g_array_index (a->tensors, ModelTensor, op->in[i]);
    read->last_user = index;
    gboolean made_forward
        = read->producer == MODEL_TENSOR_NONE
          || g_array_index (a->ops, ModelOp, read->producer).phase == MODEL_PHASE_FORWARD;
    if (op->phase != MODEL_PHASE_FORWARD && made_forward && read->role != MODEL_ROLE_WEIGHT
        && read->role != MODEL_ROLE_ACTIVATION_GRAD)
      read->kept = TRUE;
  }
  for (guint i = 0; i < op->n_out; i++)
    g_array_index (a->tensors, ModelTensor, op->out[i]).producer = index;
}

static void
append_op (Assembly *a, const ModelOp *op)
{
  g_array_append_vals (a->ops, op, 1);
  note_operands (a, a->ops->len - 1);
}

void
program_append (Assembly *a, const ProgramPiece *piece, guint first, guint count)
{
  for (guint i = first; i < first + count; i++) {
    ModelOp op = piece->segment->ops[i];
    for (guint j = 0; j < op.n_in; j++) {
      gboolean is_input = op.in[j] == piece->segment->input;
      op.in[j] = piece->ids[op.in[j]];
      if (is_input && op.phase != MODEL_PHASE_FORWARD && piece->rebuilt_input != MODEL_TENSOR_NONE)
        op.in[j] = piece->rebuilt_input;
    }
    for (guint j = 0; j < op.n_out; j++)
      op.out[j] = piece->ids[op.out[j]];
    append_op (a, &op);
  }
}

/* Hidden states of one micro-batch at a stage boundary: split by tp with sequence parallelism. */
static guint32
boundary_tensor (Assembly *a, const char *name, ModelTensorRole role)
{
  const ModelLayout *layout = a->layout;
  guint32 mesh[MODEL_MESH_N_DIMS] = { layout->tp, layout->cp, layout->ep, layout->etp };
  ModelTensor tensor = { .name = name,
                         .role = (guint8)role,
                         .dtype = (guint8)model_dtype_storage (layout->dtype),
                         .n_dims = 2,
                         .shape = { layout->mbs * a->job->seq, a->arch->hidden } };
  tensor.placement[MODEL_MESH_CP].kind = MODEL_PLACEMENT_SHARD;
  if (layout->sp && layout->tp > 1)
    tensor.placement[MODEL_MESH_TP].kind = MODEL_PLACEMENT_SHARD;
  tensor.local_bytes = model_tensor_local_bytes (&tensor, mesh);
  return push_tensor (a, &tensor);
}

static ModelOp
transfer_op (const Assembly *a, ModelOpKind kind, const char *name, ModelOpPhase phase,
             guint32 tensor)
{
  return (ModelOp){ .kind = (guint8)kind,
                    .phase = (guint8)phase,
                    .stream = MODEL_STREAM_PP,
                    .dtype = (guint8)model_dtype_storage (a->layout->dtype),
                    .group = MODEL_GROUP_PP,
                    .name = name,
                    .message_bytes = g_array_index (a->tensors, ModelTensor, tensor).local_bytes };
}

guint32
program_receive (Assembly *a, const char *name, ModelOpPhase phase, ModelTensorRole role)
{
  guint32 tensor = boundary_tensor (a, name, role);
  ModelOp op = transfer_op (a, MODEL_OP_RECV, name, phase, tensor);
  op.out[op.n_out++] = tensor;
  append_op (a, &op);
  return tensor;
}

void
program_send (Assembly *a, const char *name, ModelOpPhase phase, guint32 tensor)
{
  ModelOp op = transfer_op (a, MODEL_OP_SEND, name, phase, tensor);
  op.in[op.n_in++] = tensor;
  append_op (a, &op);
}

static void
append_weights_collective (Assembly *a, const char *name, ModelCollectiveKind kind,
                           ModelGroupKind group, ModelOpPhase phase, double bytes)
{
  if (a->map.groups[group].size < 2 || !(bytes >= 1))
    return;
  ModelOp op = { .kind = MODEL_OP_COLLECTIVE,
                 .phase = (guint8)phase,
                 .stream = MODEL_STREAM_DP,
                 .dtype = (guint8)model_dtype_storage (a->layout->dtype),
                 .group = (guint8)group,
                 .collective = (guint8)kind,
                 .name = name,
                 .message_bytes = (guint64)(bytes + 0.5) };
  append_op (a, &op);
}

void
program_gather_weights (Assembly *a, const ProgramPiece *piece, ModelOpPhase phase)
{
  double bytes = model_dtype_bits (model_dtype_storage (a->layout->dtype)) / 8.0;
  if (!model_zero_moves_per_microbatch (a->layout, 3))
    return;
  append_weights_collective (a, "gather_parameters", MODEL_COLLECTIVE_ALL_GATHER,
                             model_layout_shard_group (a->layout, FALSE), phase,
                             (double)piece->segment->weight_count * bytes);
  append_weights_collective (a, "gather_expert_parameters", MODEL_COLLECTIVE_ALL_GATHER,
                             model_layout_shard_group (a->layout, TRUE), phase,
                             (double)piece->segment->expert_weight_count * bytes);
}

void
program_reduce_weights (Assembly *a, const ProgramPiece *piece)
{
  double bytes = a->profile->reduce_bytes;
  if (!model_zero_moves_per_microbatch (a->layout, 2))
    return;
  append_weights_collective (a, "reduce_gradients", MODEL_COLLECTIVE_REDUCE_SCATTER,
                             model_layout_shard_group (a->layout, FALSE),
                             MODEL_PHASE_BACKWARD_WEIGHT,
                             (double)piece->segment->weight_count * bytes);
  append_weights_collective (a, "reduce_expert_gradients", MODEL_COLLECTIVE_REDUCE_SCATTER,
                             model_layout_shard_group (a->layout, TRUE),
                             MODEL_PHASE_BACKWARD_WEIGHT,
                             (double)piece->segment->expert_weight_count * bytes);
}
