/* model/segment.c - lowers one piece of the model. */
#include "model/lower-private.h"

/* Modules of @layout's selective recompute, or all of them, or none. Where the profile chooses ops
 * and not modules, plain "selective" rebuilds all but what those ops made. */
static void
choose_rebuilt (Lower *b, ModelPart part, ModelRecomputeKind recompute)
{
  guint16 modules = b->layout->recompute.modules;
  if (modules == 0)
    modules = MODEL_RECOMPUTE_CORE_ATTN;
  if (part != MODEL_PART_BLOCK || recompute == MODEL_RECOMPUTE_NONE)
    return;
  b->saves_ops = recompute == MODEL_RECOMPUTE_SELECTIVE && b->profile->selective_by_op
                 && modules == MODEL_RECOMPUTE_CORE_ATTN;
  b->rebuilt_modules
      = recompute == MODEL_RECOMPUTE_FULL || b->saves_ops ? LOWER_ALL_MODULES : modules;
}

static void
count_weights (const Lower *b, ModelPart part, guint run, ModelSegment *segment)
{
  ModelParam params[MODEL_PARAMS_MAX];
  guint n = model_params_list (b->arch, part, run, params);
  for (guint i = 0; i < n; i++) {
    ModelParam param = model_param_with_vocab (&params[i], b->padded_vocab);
    guint64 count = model_param_local_count (&param, b->layout->tp, b->layout->ep, b->layout->etp);
    if (param.routed)
      segment->expert_weight_count += count;
    else
      segment->weight_count += count;
    if (!param.routed && param.split == MODEL_PARAM_SPLIT_NONE)
      segment->replicated_weight_count += count;
  }
}

/* Logits are counted apart from what is kept. */
static void
count_modules (const Lower *b, ModelSegment *segment)
{
  for (guint i = 0; i < b->n_tensors; i++) {
    const ModelTensor *tensor = &b->tensors[i];
    if (!tensor->kept || tensor->producer >= segment->n_forward
        || tensor->role == MODEL_ROLE_LOGITS)
      continue;
    guint modules = b->meta[tensor->producer].modules;
    for (guint module = 0; modules != 0; module++, modules >>= 1)
      if (modules & 1)
        segment->module_kept_bytes[module] += tensor->local_bytes;
  }
}

static void
lower_forward (Lower *b, ModelPart part, ModelSegment *segment)
{
  segment->input = MODEL_TENSOR_NONE;
  if (part != MODEL_PART_EMBEDDING)
    segment->input = lower_activation (b, "input", LOWER_SEQUENCE, b->arch->hidden);
  if (part == MODEL_PART_EMBEDDING)
    segment->output = lower_embedding (b);
  else if (part == MODEL_PART_BLOCK)
    segment->output = lower_block (b, segment->input);
  else
    segment->output = lower_head (b, segment->input);
  segment->n_forward = b->n_ops;
}

static void
lower_rest (Lower *b, ModelPart part, ModelSegment *segment)
{
  lower_recompute (b);
  segment->n_recompute = b->n_ops - segment->n_forward;
  segment->rebuilt_output = b->rebuilt[segment->output];
  if (part != MODEL_PART_HEAD) {
    ModelTensor grad = b->tensors[segment->output];
    grad.role = MODEL_ROLE_ACTIVATION_GRAD;
    grad.name = "output_grad";
    segment->output_grad = lower_push_tensor (b, &grad);
    b->grad[segment->output] = segment->output_grad;
  }
  lower_backward (b, segment->n_forward);
  if (segment->input != MODEL_TENSOR_NONE)
    segment->input_grad = b->grad[segment->input];
}

ModelSegment *
model_segment_new (const ModelArch *arch, const ModelJob *job, const ModelLayout *layout,
                   const ModelProfile *profile, ModelPart part, guint run,
                   ModelRecomputeKind recompute, GError **error)
{
  if (job->phase == MODEL_PHASE_DECODE) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_UNSUPPORTED,
                 "decoding cannot be lowered to a program yet: phase must be train or prefill");
    return NULL;
  }
  g_return_val_if_fail (part != MODEL_PART_BLOCK || run < arch->n_runs, NULL);
  Lower b;
  lower_init (&b, arch, job, layout, profile);
  b.run = part == MODEL_PART_BLOCK ? &arch->runs[run] : NULL;
  choose_rebuilt (&b, part, recompute);
  ModelSegment *segment = g_new0 (ModelSegment, 1);
  segment->part = part;
  segment->run = run;
  segment->output_grad = segment->input_grad = segment->rebuilt_output = MODEL_TENSOR_NONE;
  lower_weights (&b, part, run);
  lower_forward (&b, part, segment);
  if (job->phase == MODEL_PHASE_TRAIN)
    lower_rest (&b, part, segment);
  count_weights (&b, part, run, segment);
  if (part == MODEL_PART_BLOCK)
    count_modules (&b, segment);
  segment->n_ops = b.n_ops;
  segment->n_tensors = b.n_tensors;
  segment->ops = g_steal_pointer (&b.ops);
  segment->tensors = g_steal_pointer (&b.tensors);
  lower_clear (&b);
  return segment;
}

void
model_segment_free (ModelSegment *segment)
{
  if (segment == NULL)
    return;
  g_free (segment->ops);
  g_free (segment->tensors);
  g_free (segment);
}
