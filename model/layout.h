/* model/layout.h - one way to split the work: the degrees and the choices that go with them.
 *
 * Text form, keys and defaults: contract. Word size: plain value except @stage_layers.
 */
#pragma once
#include "model/arch.h"
#include "model/dtype.h"
#include "model/job.h"
#include "model/profile.h"
#include <glib.h>
G_BEGIN_DECLS

typedef enum {
  MODEL_RECOMPUTE_NONE,
  MODEL_RECOMPUTE_SELECTIVE,
  MODEL_RECOMPUTE_FULL
} ModelRecomputeKind;
typedef enum { MODEL_RECOMPUTE_UNIFORM, MODEL_RECOMPUTE_BLOCK } ModelRecomputeMethod;
/* Modules of selective recompute, Megatron-core's names; bits of ModelRecompute.modules. */
typedef enum {
  MODEL_RECOMPUTE_CORE_ATTN = 1 << 0,
  MODEL_RECOMPUTE_MLP = 1 << 1,
  MODEL_RECOMPUTE_LAYERNORM = 1 << 2,
  MODEL_RECOMPUTE_MOE_ACT = 1 << 3,
  MODEL_RECOMPUTE_MLA_UP_PROJ = 1 << 4,
  MODEL_RECOMPUTE_MOE = 1 << 5,
  MODEL_RECOMPUTE_SHARED_EXPERTS = 1 << 6,
} ModelRecomputeModule;
#define MODEL_RECOMPUTE_N_MODULES 7
typedef struct {
  guint8 kind;     /* ModelRecomputeKind */
  guint8 method;   /* ModelRecomputeMethod, FULL only */
  guint16 modules; /* SELECTIVE only; "selective" alone means core_attn */
  guint32 n; /* FULL: uniform: layers per checkpoint; block: layers recomputed per stage chunk */
} ModelRecompute;

typedef enum {
  MODEL_SCHEDULE_1F1B,
  MODEL_SCHEDULE_INTERLEAVED,
  MODEL_SCHEDULE_GPIPE,
  MODEL_SCHEDULE_ZB_H1,
  MODEL_SCHEDULE_ZB_H2,
  MODEL_SCHEDULE_ZB_V,
  MODEL_SCHEDULE_V_HALF,
  MODEL_SCHEDULE_V_MIN,
  MODEL_SCHEDULE_DUALPIPE,
  MODEL_SCHEDULE_DUALPIPEV,
  /* a user's own order, and the placement it asks for: straight, V, both directions */
  MODEL_SCHEDULE_FILE,
  MODEL_SCHEDULE_FILE_V,
  MODEL_SCHEDULE_FILE_BIDIRECTIONAL,
  MODEL_SCHEDULE_N_KINDS
} ModelScheduleKind;
typedef struct _ModelSchedule ModelSchedule; /* model/schedule.h */

static inline gboolean
model_schedule_is_file (ModelScheduleKind kind)
{
  return kind >= MODEL_SCHEDULE_FILE;
}
/* The pipeline is folded like a V: two chunks, down and back up. */
static inline gboolean
model_schedule_is_folded (ModelScheduleKind kind)
{
  return kind == MODEL_SCHEDULE_ZB_V || kind == MODEL_SCHEDULE_V_HALF
         || kind == MODEL_SCHEDULE_V_MIN || kind == MODEL_SCHEDULE_DUALPIPEV
         || kind == MODEL_SCHEDULE_FILE_V;
}
/* Micro-batches enter at both ends; every stage is held twice. */
static inline gboolean
model_schedule_is_bidirectional (ModelScheduleKind kind)
{
  return kind == MODEL_SCHEDULE_DUALPIPE || kind == MODEL_SCHEDULE_FILE_BIDIRECTIONAL;
}
/* Distinct virtual stages: pp·vpp, or pp where every stage is held twice. */
static inline guint64
model_schedule_n_stages (ModelScheduleKind kind, guint32 pp, guint32 vpp)
{
  return model_schedule_is_bidirectional (kind) ? pp : (guint64)pp * vpp;
}

typedef enum {
  MODEL_ATTN_FLASH,
  MODEL_ATTN_FUSED,
  MODEL_ATTN_UNFUSED,
  MODEL_ATTN_N_KINDS
} ModelAttnKernel;
/* What is captured in CUDA graphs, which take its launches off the CPU (Megatron-LM's
 * cuda_graph_impl: local and transformer_engine capture layers or parts of them). */
typedef enum {
  MODEL_GRAPH_NONE,
  MODEL_GRAPH_LAYER,
  MODEL_GRAPH_FULL_ITERATION,
  MODEL_GRAPH_N_KINDS
} ModelCudaGraph;
typedef enum { MODEL_CP_P2P, MODEL_CP_A2A, MODEL_CP_ALLGATHER, MODEL_CP_N_KINDS } ModelCpComm;

typedef struct {
  guint32 tp, cp, pp, vpp, ep, etp, dp, mbs; /* all >= 1 */
  gboolean sp;
  guint8 zero;  /* 0..3 */
  guint32 hsdp; /* ranks that share one copy of the shards; 0: all of dp·cp */
  ModelRecompute recompute;
  ModelScheduleKind schedule;
  char *schedule_file;          /* (owned) (nullable) only for a user's own order */
  ModelSchedule *schedule_list; /* (owned) (nullable) what that file says */
  guint32 *stage_layers; /* (owned) (nullable) layers of each of the model_layout_n_stages virtual
                            stages, in pipeline order; NULL: auto */
  ModelAttnKernel attn;
  ModelDtype dtype;
  ModelCpComm cp_comm;
  ModelCudaGraph cuda_graph;
  /* of measured runs, without a text form: the last stage may hold the head and no layer; of the
   * layers in flight so many keep what backward needs on the GPU, the rest in host memory (0: all) */
  gboolean head_alone;
  guint32 layers_on_gpu;
  double tp_sync; /* share of activations synchronized over tp, (0, 1] */
  gboolean overlap_tp, overlap_dp, overlap_p2p; /* resolved: the profile's unless the text says */
  /* Expert all-to-alls of one micro-batch run beside the compute of another (Megatron-core's
   * overlap_moe_expert_parallel_comm); needs ep > 1. */
  gboolean overlap_ep;
} ModelLayout;

static inline guint64
model_layout_n_stages (const ModelLayout *layout)
{
  return model_schedule_n_stages (layout->schedule, layout->pp, layout->vpp);
}

/* Does ZeRO stage @zero's traffic happen with every micro-batch: reduction of gradients (2),
 * gathers of parameters (3)? Not with pipelining, where both happen once per step. */
static inline gboolean
model_zero_moves_per_microbatch (const ModelLayout *layout, guint zero)
{
  return layout->zero >= zero && layout->pp == 1;
}

/* Does every rank sum whole gradients, not shards? Without ZeRO, and in ZeRO 1 of some profiles. */
static inline gboolean
model_zero_all_reduces (const ModelLayout *layout, const ModelProfile *profile)
{
  return layout->zero == 0 || (layout->zero == 1 && profile->all_reduces_zero1);
}

/* Gradients are reduced while the last backward still makes others. */
static inline gboolean
model_layout_reduces_under_backward (const ModelLayout *layout, const ModelProfile *profile)
{
  return layout->overlap_dp && !(layout->zero == 1 && profile->all_reduces_zero1);
}

/* Does every stage's message of the last backward wait until its own reduction is done? */
static inline gboolean
model_layout_reduces_in_turn (const ModelLayout *layout, const ModelProfile *profile)
{
  return profile->reduces_before_sends && layout->overlap_dp && layout->zero == 0 && layout->pp > 1
         && (layout->schedule == MODEL_SCHEDULE_1F1B || layout->schedule == MODEL_SCHEDULE_GPIPE);
}

/* Do tp ranks compute gradients of the weights that each of them holds whole from tokens of their
 * own, so that they must sum them? With sequence parallelism, or where only a share of activations
 * is synchronized. */
static inline gboolean
model_layout_sums_replicated (const ModelLayout *layout)
{
  return layout->tp > 1 && (layout->sp || layout->tp_sync < 1);
}

void model_layout_init (ModelLayout *layout, const ModelProfile *profile); /* all defaults */
void model_layout_clear (ModelLayout *layout);
void model_layout_copy (ModelLayout *to, const ModelLayout *from); /* @to: uninitialised */
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ModelLayout, model_layout_clear)

/* "tp=8,pp=8,vpp=3": unknown, duplicate, empty, out-of-range keys are errors with a suggestion.
 * dp=0 in the result means "not given". @layout is initialised by this. */
gboolean model_layout_parse (ModelLayout *layout, const char *text, const ModelProfile *profile,
                             GError **error);
/* Canonical text: every degree > 1 and every key that differs from its default, fixed order,
 * dp always last of the degrees; parses back to an equal layout. Returns: (owned) */
char *model_layout_format (const ModelLayout *layout, const ModelProfile *profile);
/* Such a @text for people: three and more equal stages in a row as one, stages=2x37+3+2. Parses back
 * to the same layout. Returns: (owned) */
char *model_layout_shorten (const char *text);
/* "none", "selective:core_attn+mlp", "full:uniform:1". Returns: (owned) */
char *model_recompute_format (const ModelRecompute *recompute);
const char *model_schedule_name (ModelScheduleKind kind);
const char *model_attn_name (ModelAttnKernel kernel);
const char *model_cp_comm_name (ModelCpComm comm);
const char *model_cuda_graph_name (ModelCudaGraph graph);

/* Why a layout is refused; order = order of checking. Used by --explain and the `rejected` list. */
typedef enum {
  MODEL_LEGAL,
  MODEL_ILLEGAL_WORLD,    /* tp·cp·pp·dp != gpus, or not an integer dp */
  MODEL_ILLEGAL_HEADS,    /* heads % tp */
  MODEL_ILLEGAL_KV_HEADS, /* kv heads % tp (Megatron: num_query_groups % tp == 0) */
  MODEL_ILLEGAL_FFN,      /* ffn % tp */
  MODEL_ILLEGAL_HIDDEN,   /* hidden % tp */
  MODEL_ILLEGAL_SEQ,      /* seq % (tp with sp), seq % (2·cp) */
  MODEL_ILLEGAL_CP,       /* cp with a2a: heads % (tp·cp) */
  MODEL_ILLEGAL_EXPERTS,  /* ep on a dense model; experts % ep, ranks of a stage % (etp·ep), …;
                             overlap_ep without ep */
  MODEL_ILLEGAL_BATCH,    /* global batch % (mbs·dp) */
  MODEL_ILLEGAL_STAGES,   /* a stage without a layer, list of wrong length or sum */
  MODEL_ILLEGAL_VPP,      /* interleaved needs pp > 1 (pp > 2 without p2p overlap), m % pp */
  MODEL_ILLEGAL_SCHEDULE, /* schedule's own demands on p, m, v */
  MODEL_ILLEGAL_ZERO, /* a ZeRO stage that the profile does not have, or not with pipelining; hsdp not dividing,
                         or its ranks not the experts' */
  MODEL_ILLEGAL_SP,        /* sp with tp = 1, tp_sync < 1 with sp; overlap_tp without sp, unless the
                       profile overlaps by default: then it does so with sp only; experts with tp
                       without sp where the profile refuses to train them */
  MODEL_ILLEGAL_RECOMPUTE, /* modules the model does not have; n out of range */
  MODEL_ILLEGAL_DTYPE,     /* profile or model does not run it */
  MODEL_LEGAL_N
} ModelLegality;
const char *model_legality_name (ModelLegality reason); /* "heads_not_divisible_by_tp", … */

/*
 * Cheap test for the search: no allocation, no text. @layout->dp must be set.
 * Megatron's rules (reference: profiles, formats §2) where frameworks differ, by profile switch.
 */
ModelLegality model_layout_check (const ModelArch *arch, const ModelJob *job,
                                  const ModelLayout *layout, const ModelProfile *profile,
                                  guint32 gpus);
/* The first broken rule of @first to @last, MODEL_LEGAL if none: rules before MODEL_ILLEGAL_ZERO
 * look at neither zero, hsdp nor recompute, so a search asks them once for many layouts. */
ModelLegality model_layout_check_rules (ModelLegality first, ModelLegality last,
                                        const ModelArch *arch, const ModelJob *job,
                                        const ModelLayout *layout, const ModelProfile *profile,
                                        guint32 gpus);
/* The same, as an error that says what would be legal: "tp=3 does not divide 64 heads: legal
 * tp are 1, 2, 4, 8, 16, 32, 64". Fills in dp when it is 0. */
gboolean model_layout_resolve (ModelLayout *layout, const ModelArch *arch, const ModelJob *job,
                               const ModelProfile *profile, guint32 gpus, GError **error);

/* Micro-batches per step: global_batch / (mbs·dp). */
guint64 model_layout_microbatches (const ModelLayout *layout, const ModelJob *job);
G_END_DECLS
