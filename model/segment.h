/* model/segment.h - the lowered form of one piece of the model: embedding, a block, the head.
 *
 * Templates of the search and building bricks of a Program. A segment is what one micro-batch
 * does with one piece on one rank: forward ops, recompute ops, backward ops, and every tensor
 * they touch. It depends on (arch, run, tp, sp, cp, ep, etp, mbs, seq, recompute of this block,
 * profile, attn, dtype, dropout, tp_sync) and not on pp, dp, ZeRO or schedule.
 */
#pragma once
#include "model/arch.h"
#include "model/job.h"
#include "model/layout.h"
#include "model/op.h"
#include "model/params.h"
#include "model/profile.h"
#include "model/tensor.h"
#include <glib.h>
G_BEGIN_DECLS

typedef struct {
  ModelPart part;
  guint run;    /* of blocks */
  ModelOp *ops; /* (owned) execution order: forward, recompute, backward (input and weight
                       gradients interleaved as an unsplit backward runs them) */
  guint n_ops;
  guint n_forward;      /* ops [0, n_forward) */
  guint n_recompute;    /* ops [n_forward, n_forward + n_recompute) */
  ModelTensor *tensors; /* (owned) */
  guint n_tensors;
  guint32 input, output; /* hidden states in and out; input NONE for the embedding's ids */
  guint32 output_grad, input_grad; /* their gradients */
  guint32 rebuilt_output;      /* the output as recompute of the whole block makes it, or NONE */
  guint64 weight_count;        /* parameters on this rank, routed experts apart */
  guint64 expert_weight_count; /* routed experts on this rank */
  guint64 replicated_weight_count; /* of weight_count: those every tp rank holds (norms, …) */
  /* Of what is kept, by ModelRecomputeModule, what its forward ops make: recompute of these modules,
   * chosen module by module, saves no more. */
  guint64 module_kept_bytes[MODEL_RECOMPUTE_N_MODULES];
} ModelSegment;

/* @recompute: of this very block (a stage may recompute some blocks only). Never fails on a legal
 * layout; a block plait cannot lower is MODEL_ERROR_UNSUPPORTED. */
ModelSegment *model_segment_new (const ModelArch *arch, const ModelJob *job,
                                 const ModelLayout *layout, const ModelProfile *profile,
                                 ModelPart part, guint run, ModelRecomputeKind recompute,
                                 GError **error);
void model_segment_free (ModelSegment *segment);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ModelSegment, model_segment_free)

/* Memory of one micro-batch, from the tensor table (model/liveness.c). */
typedef struct {
  guint64 input_bytes;       /* the segment's input, where it is kept */
  guint64 kept_bytes;        /* all kept tensors except logits, input included */
  guint64 routed_kept_bytes; /* of them, what depends on how tokens are routed to experts */
  guint64 logits_kept_bytes;
  guint64 logits_peak_bytes;   /* logits and loss temporaries at their peak (kept included) */
  guint64 forward_work_bytes;  /* most bytes alive at once in forward that are not kept */
  guint64 backward_work_bytes; /* the same in recompute + backward: rebuilt tensors, gradients */
  guint64 module_kept_bytes[MODEL_RECOMPUTE_N_MODULES]; /* the segment's */
} ModelSegmentMemory;
void model_segment_memory (const ModelSegment *segment, ModelSegmentMemory *out);
/* Op by op what the peaks above are the largest of: bytes alive during each op that are not kept,
 * and those of logits. @work_bytes, @logits_bytes: n_ops entries each. */
void model_segment_alive (const ModelSegment *segment, guint64 *work_bytes, guint64 *logits_bytes);
G_END_DECLS
