/* model/profile.h - what one framework does with a layout: switches, no seconds.
 *
 * One INI each in catalog/profiles; facts and sources in the reference table. Numbers fitted to
 * measurements (memory-bound factor, host time, tp and dp overlap, allocator ratio) live in the
 * calibration under the profile's name.
 */
#pragma once
#include "base/catalog.h"
#include "model/dtype.h"
#include "model/error.h"
#include <glib.h>
G_BEGIN_DECLS

/* Bytes of training state per parameter; see which shard at which ZeRO stage in docs/model.md. */
typedef struct {
  double param_bytes;     /* compute copy: 2 (16-bit), 0 where fp32 shards are cast on gather */
  double grad_bytes;      /* gradient as autograd makes it, kept over the step: 0 when it is added
                                straight into the main gradient */
  double main_grad_bytes; /* accumulation buffer: 4 in fp32 */
  double master_bytes;    /* fp32 weights of the optimizer: 4 */
  double moment_bytes;    /* Adam's two moments: 8 */
  double step_copy_bytes; /* copy of gradients at the optimizer step (fp16 DeepSpeed: 4) */
} ModelStates;

typedef struct {
  char *name;
  char *calibration;  /* (owned) profile whose fitted numbers hold for this one: usually its own */
  char **frameworks;  /* (owned) glob patterns of framework labels in measured rows */
  char **generations; /* (owned) of GPUs on which these rows ran; empty: any */
  char **notes; /* (owned) glob patterns, one of which the row's notes match, and none behind a
                         "!"; empty: any */

  /* kernels */
  gboolean fused_norm;       /* norm keeps input and output only; unfused keeps fp32 copies too */
  gboolean fused_activation; /* gated: fc1 output and product kept (6f); else silu too (8f) */
  gboolean fused_residual;   /* residual add fused with dropout/norm: one pass less over memory */
  gboolean fused_cross_entropy;
  gboolean compiled;            /* torch.compile or XLA: pointwise chains fused */
  gboolean keeps_everything;    /* plain eager Python: every pointwise result is kept (HF: 56h) */
  gboolean checkpoints_on_host; /* full recompute keeps its layer inputs in host memory */
  gboolean selective_by_op; /* selective recompute keeps attention, every second GEMM and what was
                               reduced or exchanged, and rebuilds all else (torchtitan) */
  /* copies between the layouts of the projections and of the attention kernel, which backward makes
   * again of the gradients: of q, k and v, further ones of k and v, of the attention's output */
  guint32 qkv_copies, kv_copies, core_copies;
  gboolean joins_grads; /* q, k and v, gate and up are views of one projection each, into whose
                           gradient backward copies theirs */

  /* bytes per parameter, as in ModelStates */
  double param_bytes, grad_bytes, main_grad_bytes, master_bytes, moment_bytes, step_copy_bytes;
  ModelStates *states_bf16, *states_fp16; /* (owned) (nullable) where that dtype has its own */
  gboolean offloads_optimizer;            /* master weights, moments and the step on the host */
  gboolean shards_main_grad_zero1; /* ZeRO-1 reduces into a shard (no full fp32 buffer kept) */

  /* recompute */
  gboolean recompute_stops_early; /* full recompute ends with the last tensor backward needs, before
                                     the block's last GEMM (PyTorch's non-reentrant checkpoint) */

  /* communication of gradients and parameters */
  double reduce_bytes;           /* per gradient element on the wire: 4 fp32, 2 bf16 */
  guint64 bucket_elements;       /* gradient bucket, 0: whole model chunk at once */
  gboolean all_reduces_zero1;    /* ZeRO-1 sums whole gradients on every rank, not shards, and after
                                    the last backward, not under it */
  gboolean reduces_before_sends; /* without ZeRO, the last backward's reduction is queued before the
                                    message to the stage before, which waits for it: the stages
                                    reduce one after the other */
  gboolean overlap_dp;           /* gradients are reduced under the last backward by default */
  gboolean overlap_param_gather; /* with overlap_dp, updated parameters are gathered under the next
                                    step's first forward */
  gboolean overlap_tp; /* tp collectives overlapped with GEMMs (userbuffers, async tp) by default */
  gboolean overlap_p2p;  /* pipeline send/recv overlapped where the schedule allows, by default */
  guint64 live_elements; /* FSDP keeps at least so many gathered (DeepSpeed: max_live_parameters) */
  gboolean keeps_stage_output;    /* a stage's output stays until its backward */
  guint32 fsdp_units_in_flight;   /* units gathered at once: the current one and those prefetched */
  gboolean reshard_after_forward; /* FSDP without pipelining frees parameters after forward */
  guint8 max_zero;                /* highest ZeRO stage there is; a file may leave it out: 3 */
  guint8 max_zero_with_pp;        /* highest ZeRO stage that works with pp > 1 */

  /* loss */
  double logits_peak_bytes;    /* per logit at the peak of the loss */
  double logits_tp_peak_bytes; /* the same with the vocabulary split over tp; 0: no difference */
  double logits_kept_bytes;    /* per logit kept from forward to backward */
  guint32 loss_chunks;         /* the loss is computed in this many pieces of the tokens */

  /* model padding and stages */
  guint32 vocab_multiple;    /* vocabulary padded to a multiple of this × tp; 1: not padded */
  gboolean balances_by_cost; /* stages are cut by the cost of blocks and head, not by layer count */
  gboolean moe_needs_sp;     /* trains MoE blocks with tp > 1 under sequence parallelism only */
  gboolean grouped_gemm;     /* experts as one grouped GEMM; else a loop of GEMMs */
  guint32 dtypes;            /* what it trains in: bit 1 << ModelDtype; 0: anything */
  gboolean dummy_wgrad;      /* keeps a 16-bit buffer of the MLP's weight gradients of one layer */
  gboolean fused_bias_grad;  /* the weight-gradient GEMM sums bias gradients; else a kernel apart */

  /* allocator */
  gboolean expandable_segments;
  double context_bytes; /* CUDA context, kernels loaded: 1.0 GiB lazy, 1.6 before CUDA 11.7 */

  /* [row_defaults]: what fills an empty field of a measured row */
  GHashTable *row_defaults; /* (owned) char * → char * */
  char *source;
} ModelProfile;

ModelProfile *model_profile_load (const BaseCatalog *catalog, const char *slug_or_path,
                                  GError **error);
ModelProfile *model_profile_from_ini (BaseIni *ini, const char *name, GError **error);
void model_profile_free (ModelProfile *profile);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ModelProfile, model_profile_free)
/* All that predictions take from @profile, as "key=value" lines, to know it again by. (owned) */
char *model_profile_format (const ModelProfile *profile);
/* Those of the dtype that is trained in. */
ModelStates model_profile_states (const ModelProfile *profile, ModelDtype dtype);
/* Whether @framework matches one of its frameworks=, or is its name. */
gboolean model_profile_claims (const ModelProfile *profile, const char *framework);
/*
 * Profile of the catalog whose frameworks= or name match @framework, whose generations= hold @generation
 * and whose notes= match @notes: the one that says most of the three, of equals the one whose
 * pattern spells out most of the label, of these the last by name ("x-y", which is built on "x",
 * before "x"); "generic" if none does.
 *
 * @generation, @notes: (nullable). Returns: (owned).
 */
char *model_profile_for_run (const BaseCatalog *catalog, const char *framework,
                             const char *generation, const char *notes);

/* Bytes of a weight's gradient at rest: the main gradient's where there is one. */
static inline double
model_profile_gradient_bytes (const ModelProfile *profile, ModelDtype dtype)
{
  ModelStates states = model_profile_states (profile, dtype);
  return states.main_grad_bytes > 0 ? states.main_grad_bytes
         : states.grad_bytes > 0    ? states.grad_bytes
                                    : profile->reduce_bytes;
}

/* HBM traffic of Adam per weight: the gradient is read for its norm and for the update, fp32
 * weight and moments are read and written, the 16-bit copy is written. 20 B and 14 B for the usual
 * 4 + 4 + 8 and 2. */
static inline double
model_profile_adam_read_bytes (const ModelProfile *profile, ModelDtype dtype)
{
  ModelStates states = model_profile_states (profile, dtype);
  return 2 * model_profile_gradient_bytes (profile, dtype) + states.master_bytes
         + states.moment_bytes;
}
static inline double
model_profile_adam_write_bytes (const ModelProfile *profile, ModelDtype dtype)
{
  ModelStates states = model_profile_states (profile, dtype);
  return states.master_bytes + states.moment_bytes + states.param_bytes;
}
G_END_DECLS
