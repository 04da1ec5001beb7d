/* costmodel/template.h - prices of every segment of a model under one template key.
 *
 * The key is what a segment's lowering and price depend on: (tp, sp, cp, ep, etp, mbs, seq,
 * recompute but for its n, profile, attn, dtype, dropout, tp_sync, overlaps) and where the tp, cp
 * and ep groups land. pp, vpp, stages, schedule and ZeRO are not in it.
 */
#pragma once
#include "costmodel/blockcost.h"
#include "costmodel/stagemap.h"
#include "model/job.h"
#include <glib.h>
G_BEGIN_DECLS

/* Plain value, a few kB: reuse it. */
typedef struct {
  CostContext context; /* groups of the template: tp cp ep etp */
  guint n_kinds;       /* block kinds */
  gboolean is_moe;
  CostBlock blocks[COST_MAX_RUN_KINDS]; /* under the layout's recompute */
  /* without recompute: full:block:N's other layers, and what full:uniform:N rebuilds at once */
  CostBlock plain_blocks[COST_MAX_RUN_KINDS];
  CostBlock embedding, head;
  guint64 boundary_bytes;    /* one message between stages */
  guint64 tied_weight_count; /* embedding matrix on this rank if the head or layers that predict
                                further tokens use it too, else 0: the last of several stages holds
                                a copy */
  guint32 prediction_layers; /* each has a loss of its own on the last stage */
  double element_bytes;      /* of parameters and activations as stored: 2, or 4 in fp32 */
} CostTemplate;

/*
 * In two steps, for layouts that differ in recompute only: what they share (context, embedding,
 * head, blocks without recompute), then the blocks under the recompute of @layout. Errors as
 * below. @like: (nullable) a template of the same problem, tp, cp, ep and etp, whose context serves;
 * may be @out. @memo: (nullable) borrowed by the template's context as long as that prices.
 */
gboolean cost_template_init_shared (CostTemplate *out, const ModelArch *arch,
                                    const CostBlockKinds *kinds, const ModelJob *job,
                                    const ModelLayout *layout, const ModelProfile *profile,
                                    const TopoMachine *machine, const CostNumbers *numbers,
                                    guint32 gpus, const CostTemplate *like, CostGemmMemo *memo,
                                    GError **error);
gboolean cost_template_set_recompute (CostTemplate *tmpl, const ModelArch *arch,
                                      const CostBlockKinds *kinds, const ModelJob *job,
                                      const ModelLayout *layout, GError **error);

/*
 * Both. @layout: resolved (dp set), of @gpus GPUs. FALSE with COST_ERROR_NO_DATA if the GPU lacks the
 * dtype, with a MODEL_ERROR if a block cannot be lowered; @out is then undefined.
 */
gboolean cost_template_init (CostTemplate *out, const ModelArch *arch, const CostBlockKinds *kinds,
                             const ModelJob *job, const ModelLayout *layout,
                             const ModelProfile *profile, const TopoMachine *machine,
                             const CostNumbers *numbers, guint32 gpus, GError **error);
G_END_DECLS
