/* costmodel/template.c - lowers and prices each part of the model once. */
#include "costmodel/template.h"
#include "costmodel/error.h"

/* 2⁴⁸ bytes (256 TiB) for one layer: far above any GPU, and low enough that thousands of layers
 * do not overflow 64 bits. */
#define LAYER_BYTES_MAX (G_GUINT64_CONSTANT (1) << 48)

static gboolean
refuse_size (const ModelJob *job, const ModelLayout *layout, GError **error)
{
  g_set_error (error, COST_ERROR, COST_ERROR_BAD_VALUE,
               "one layer needs more than 256 TiB of activations: seq=%" G_GUINT64_FORMAT
               " with mbs=%u is too much",
               job->seq, layout->mbs);
  return FALSE;
}

/* Before any product in whole numbers: the widest tensor of a layer, which has a byte or more for
 * each element. Rows are split over cp, the width over tp. */
static gboolean
check_widest (const ModelArch *arch, const ModelJob *job, const ModelLayout *layout, GError **error)
{
  double rows = (double)layout->mbs * (double)job->seq / layout->cp;
  double width = (double)MAX (arch->hidden, arch->vocab) / layout->tp;
  if (layout->attn == MODEL_ATTN_UNFUSED)
    width = MAX (width, (double)arch->attention.heads / layout->tp * (double)job->seq);
  return rows * width <= (double)LAYER_BYTES_MAX || refuse_size (job, layout, error);
}

static gboolean
check_size (const ModelSegmentMemory *memory, const ModelJob *job, const ModelLayout *layout,
            GError **error)
{
  guint64 most = MAX (memory->kept_bytes, memory->logits_peak_bytes);
  most = MAX (most, MAX (memory->forward_work_bytes, memory->backward_work_bytes));
  return most <= LAYER_BYTES_MAX || refuse_size (job, layout, error);
}

static gboolean
price_part (CostBlock *block, const CostTemplate *tmpl, const ModelArch *arch, const ModelJob *job,
            const ModelLayout *layout, ModelPart part, guint run, ModelRecomputeKind recompute,
            GError **error)
{
  g_autoptr (ModelSegment) segment
      = model_segment_new (arch, job, layout, tmpl->context.profile, part, run, recompute, error);
  if (segment == NULL)
    return FALSE;
  cost_block_init (block, &tmpl->context, layout, segment);
  return check_size (&block->memory, job, layout, error);
}

static gboolean
price_blocks (CostBlock *blocks, const CostTemplate *tmpl, const ModelArch *arch,
              const CostBlockKinds *kinds, const ModelJob *job, const ModelLayout *layout,
              ModelRecomputeKind recompute, GError **error)
{
  for (guint kind = 0; kind < kinds->n_kinds; kind++)
    if (!price_part (&blocks[kind], tmpl, arch, job, layout, MODEL_PART_BLOCK,
                     kinds->representative[kind], recompute, error))
      return FALSE;
  return TRUE;
}

gboolean
cost_template_set_recompute (CostTemplate *tmpl, const ModelArch *arch, const CostBlockKinds *kinds,
                             const ModelJob *job, const ModelLayout *layout, GError **error)
{
  if (layout->recompute.kind != MODEL_RECOMPUTE_NONE)
    return price_blocks (tmpl->blocks, tmpl, arch, kinds, job, layout, layout->recompute.kind,
                         error);
  memcpy (tmpl->blocks, tmpl->plain_blocks, kinds->n_kinds * sizeof *tmpl->blocks);
  return TRUE;
}

gboolean
cost_template_init (CostTemplate *out, const ModelArch *arch, const CostBlockKinds *kinds,
                    const ModelJob *job, const ModelLayout *layout, const ModelProfile *profile,
                    const TopoMachine *machine, const CostNumbers *numbers, guint32 gpus,
                    GError **error)
{
  return cost_template_init_shared (out, arch, kinds, job, layout, profile, machine, numbers, gpus,
                                    NULL, NULL, error)
         && cost_template_set_recompute (out, arch, kinds, job, layout, error);
}

gboolean
cost_template_init_shared (CostTemplate *out, const ModelArch *arch, const CostBlockKinds *kinds,
                           const ModelJob *job, const ModelLayout *layout,
                           const ModelProfile *profile, const TopoMachine *machine,
                           const CostNumbers *numbers, guint32 gpus, const CostTemplate *like,
                           CostGemmMemo *memo, GError **error)
{
  ModelRankMap map;
  if (like == NULL) {
    model_rankmap_init (&map, layout);
    g_return_val_if_fail (map.world == gpus, FALSE);
    cost_context_init_groups (&out->context, machine, profile, numbers, &map, COST_SEGMENT_GROUPS);
  } else if (like != out) {
    cost_context_copy (&out->context, &like->context);
  }
  out->context.gemm_memo = memo;
  if (!cost_context_check_dtype (&out->context, layout->dtype, error))
    return FALSE;
  out->n_kinds = kinds->n_kinds;
  out->is_moe = FALSE;
  for (guint kind = 0; kind < kinds->n_kinds; kind++)
    out->is_moe |= arch->runs[kinds->representative[kind]].kind == MODEL_BLOCK_MOE;
  out->element_bytes = model_dtype_bits (model_dtype_storage (layout->dtype)) / 8.0;
  guint64 rows = model_shard_ceil (layout->mbs * job->seq, layout->cp);
  if (layout->sp && layout->tp > 1)
    rows = model_shard_ceil (rows, layout->tp);
  out->boundary_bytes = rows * arch->hidden * (guint64)out->element_bytes;
  out->prediction_layers = arch->prediction_layers;
  out->tied_weight_count
      = arch->tied || arch->prediction_layers > 0
            ? model_params_word_embedding_count (arch, layout->tp, profile->vocab_multiple)
            : 0;
  return check_widest (arch, job, layout, error)
         && price_blocks (out->plain_blocks, out, arch, kinds, job, layout, MODEL_RECOMPUTE_NONE,
                          error)
         && price_part (&out->embedding, out, arch, job, layout, MODEL_PART_EMBEDDING, 0,
                        MODEL_RECOMPUTE_NONE, error)
         && price_part (&out->head, out, arch, job, layout, MODEL_PART_HEAD, 0,
                        MODEL_RECOMPUTE_NONE, error);
}
