/* model/layout_check.c - the rules a layout must keep, one function each, cheapest test first. */
#include "model/layout-private.h"
#include "model/schedule.h"
#include "model/stages.h"

/* What every rule looks at. */
typedef struct {
  const ModelArch *arch;
  const ModelJob *job;
  const ModelLayout *layout;
  const ModelProfile *profile;
  guint32 gpus;
} Question;

typedef gboolean (*Rule) (const Question *q);

/* gpus = tp·cp·pp·dp */
static gboolean
world_fits (const Question *q)
{
  const ModelLayout *l = q->layout;
  guint64 model = (guint64)l->tp * l->cp;
  if (l->dp == 0 || model > q->gpus || model * l->pp > q->gpus)
    return FALSE;
  return model * l->pp * l->dp == q->gpus;
}

static gboolean
heads_divide (const Question *q)
{
  return q->arch->attention.heads % q->layout->tp == 0;
}

/* MLA has a latent for all heads instead of kv heads: nothing to divide. */
static gboolean
kv_heads_divide (const Question *q)
{
  return q->arch->attention.kind == MODEL_ATTENTION_MLA
         || q->arch->attention.kv_heads % q->layout->tp == 0;
}

static gboolean
ffn_divides (const Question *q)
{
  for (guint i = 0; i < q->arch->n_runs; i++) {
    const ModelBlockRun *run = &q->arch->runs[i];
    guint32 ffn = run->kind == MODEL_BLOCK_MOE ? run->moe.shared_ffn : run->ffn;
    if (ffn % q->layout->tp != 0)
      return FALSE;
  }
  return TRUE;
}

/* Pipeline messages and saved inputs are cut into tp equal pieces of the hidden dimension. */
static gboolean
hidden_divides (const Question *q)
{
  return q->arch->hidden % q->layout->tp == 0;
}

/* cp cuts the sequence into 2·cp pieces, so that causal work is even; sp cuts each share by tp. */
static gboolean
seq_divides (const Question *q)
{
  const ModelLayout *l = q->layout;
  if (l->cp > 1 && q->job->seq % (2 * (guint64)l->cp) != 0)
    return FALSE;
  return !l->sp || q->job->seq / l->cp % l->tp == 0;
}

/* All-to-all context parallelism trades sequence shards for head shards. */
static gboolean
cp_fits (const Question *q)
{
  const ModelLayout *l = q->layout;
  guint64 parts = (guint64)l->tp * l->cp;
  if (l->cp == 1 || l->cp_comm != MODEL_CP_A2A)
    return TRUE;
  return q->arch->attention.heads % parts == 0 && q->arch->attention.kv_heads % parts == 0;
}

static gboolean
experts_fit (const Question *q)
{
  const ModelLayout *l = q->layout;
  guint64 stage = (guint64)l->tp * l->cp * l->dp, expert_ranks = (guint64)l->ep * l->etp;
  gboolean any = FALSE;
  if (l->overlap_ep && l->ep == 1)
    return FALSE;
  if (expert_ranks == 1)
    return TRUE;
  for (guint i = 0; i < q->arch->n_runs; i++) {
    const ModelBlockRun *run = &q->arch->runs[i];
    if (run->kind != MODEL_BLOCK_MOE)
      continue;
    any = TRUE;
    if (run->moe.experts % l->ep != 0 || run->moe.expert_ffn % l->etp != 0)
      return FALSE;
  }
  return any && stage % expert_ranks == 0;
}

static gboolean
batch_divides (const Question *q)
{
  return q->job->global_batch % ((guint64)q->layout->mbs * q->layout->dp) == 0;
}

static gboolean
stages_filled (const Question *q)
{
  const ModelLayout *l = q->layout;
  guint64 n_stages = model_layout_n_stages (l), sum = 0;
  if (n_stages > q->arch->layers)
    return FALSE;
  if (l->stage_layers == NULL)
    return TRUE;
  for (guint64 i = 0; i < n_stages; i++) {
    if (l->stage_layers[i] == 0 && !model_stages_is_bare_head (q->profile, l, i))
      return FALSE;
    sum += l->stage_layers[i];
  }
  return sum == q->arch->layers;
}

/* Megatron-LM: interleaving needs pp > 1, pp > 2 without overlapped p2p; groups of pp fill m. */
static gboolean
interleaving_fits (const Question *q)
{
  const ModelLayout *l = q->layout;
  if (l->schedule != MODEL_SCHEDULE_INTERLEAVED)
    return TRUE;
  return model_schedule_legal (l->schedule, l->pp, l->vpp, model_layout_microbatches (l, q->job),
                               l->overlap_p2p);
}

/* A user's own order is for the very sizes it was written for. */
static gboolean
schedule_fits (const Question *q)
{
  const ModelLayout *l = q->layout;
  if (l->schedule == MODEL_SCHEDULE_INTERLEAVED)
    return TRUE;
  if (model_schedule_is_file (l->schedule))
    return l->schedule_list != NULL && l->schedule_list->pp == l->pp
           && l->schedule_list->vpp == l->vpp
           && l->schedule_list->microbatches == model_layout_microbatches (l, q->job);
  return model_schedule_legal (l->schedule, l->pp, l->vpp, model_layout_microbatches (l, q->job),
                               l->overlap_p2p);
}

static gboolean
zero_fits (const Question *q)
{
  const ModelLayout *l = q->layout;
  if (l->zero > q->profile->max_zero || (l->pp > 1 && l->zero > q->profile->max_zero_with_pp))
    return FALSE;
  if (l->hsdp == 0)
    return TRUE;
  /* Experts lie over the same ranks as the other shards (model/rankmap.h). */
  return l->zero > 0 && ((guint64)l->dp * l->cp) % l->hsdp == 0
         && ((guint64)l->hsdp * l->tp) % ((guint64)l->ep * l->etp) == 0;
}

gboolean
model_layout_moe_lacks_sp (const ModelArch *arch, const ModelJob *job, const ModelLayout *layout,
                           const ModelProfile *profile)
{
  if (!profile->moe_needs_sp || job->phase != MODEL_PHASE_TRAIN || layout->tp == 1 || layout->sp)
    return FALSE;
  for (guint i = 0; i < arch->n_runs; i++)
    if (arch->runs[i].kind == MODEL_BLOCK_MOE)
      return TRUE;
  return FALSE;
}

/* A profile that always overlaps does so where sp allows it; asking for it without sp is wrong. */
static gboolean
sp_fits (const Question *q)
{
  const ModelLayout *l = q->layout;
  if (model_layout_moe_lacks_sp (q->arch, q->job, l, q->profile))
    return FALSE;
  gboolean asks_overlap = l->overlap_tp && !q->profile->overlap_tp;
  if (l->tp_sync < 1 && (l->sp || l->tp == 1))
    return FALSE;
  return l->sp ? l->tp > 1 : !asks_overlap || l->tp == 1;
}

/* Modules some block of the model has, beside core_attn and layernorm, which all have. */
guint
model_layout_modules_of (const ModelArch *arch)
{
  guint modules = MODEL_RECOMPUTE_CORE_ATTN | MODEL_RECOMPUTE_LAYERNORM;
  if (arch->attention.kind == MODEL_ATTENTION_MLA)
    modules |= MODEL_RECOMPUTE_MLA_UP_PROJ;
  for (guint i = 0; i < arch->n_runs; i++) {
    if (arch->runs[i].kind != MODEL_BLOCK_MOE) {
      modules |= MODEL_RECOMPUTE_MLP;
      continue;
    }
    modules |= MODEL_RECOMPUTE_MOE | MODEL_RECOMPUTE_MOE_ACT;
    if (arch->runs[i].moe.shared_ffn > 0)
      modules |= MODEL_RECOMPUTE_SHARED_EXPERTS;
  }
  return modules;
}

guint32
model_layout_most_layers (const ModelArch *arch, const ModelLayout *layout)
{
  guint32 n_stages = (guint32)model_layout_n_stages (layout), most = 0;
  if (layout->stage_layers == NULL)
    /* no other stage gets more than the middle one */
    return model_stages_balanced_at (arch->layers, n_stages, (n_stages - 1) / 2);
  for (guint32 i = 0; i < n_stages; i++)
    most = MAX (most, layout->stage_layers[i]);
  return most;
}

static gboolean
recompute_fits (const Question *q)
{
  const ModelRecompute *r = &q->layout->recompute;
  if (r->kind == MODEL_RECOMPUTE_NONE)
    return TRUE;
  if (q->job->phase != MODEL_PHASE_TRAIN)
    return FALSE; /* nothing goes backward */
  if (r->kind == MODEL_RECOMPUTE_SELECTIVE)
    return r->modules != 0 && (r->modules & ~model_layout_modules_of (q->arch)) == 0;
  return r->n >= 1 && r->n <= model_layout_most_layers (q->arch, q->layout);
}

guint32
model_dtype_block (ModelDtype dtype)
{
  switch (dtype) {
  case MODEL_DTYPE_FP8:   /* cuBLASLt and torch's float8 GEMMs: sizes divide by 16 */
  case MODEL_DTYPE_NVFP4: /* one scale per 16 elements */
    return 16;
  case MODEL_DTYPE_MXFP8: /* one scale per 32 elements (OCP MX) */
    return 32;
  default:
    return 1;
  }
}

static gboolean
dtype_fits (const Question *q)
{
  const ModelLayout *l = q->layout;
  guint32 block = model_dtype_block (l->dtype);
  if (q->profile->dtypes != 0 && !(q->profile->dtypes & (1u << l->dtype)))
    return FALSE;
  if (block == 1)
    return TRUE;
  if (q->arch->hidden % block != 0)
    return FALSE;
  for (guint i = 0; i < q->arch->n_runs; i++) {
    const ModelBlockRun *run = &q->arch->runs[i];
    gboolean moe = run->kind == MODEL_BLOCK_MOE;
    guint32 ffn = moe ? run->moe.shared_ffn : run->ffn;
    if (ffn / l->tp % block != 0 || (moe && run->moe.expert_ffn / l->etp % block != 0))
      return FALSE;
  }
  return TRUE;
}

static const Rule rules[MODEL_LEGAL_N] = {
  [MODEL_ILLEGAL_WORLD] = world_fits,
  [MODEL_ILLEGAL_HEADS] = heads_divide,
  [MODEL_ILLEGAL_KV_HEADS] = kv_heads_divide,
  [MODEL_ILLEGAL_FFN] = ffn_divides,
  [MODEL_ILLEGAL_HIDDEN] = hidden_divides,
  [MODEL_ILLEGAL_SEQ] = seq_divides,
  [MODEL_ILLEGAL_CP] = cp_fits,
  [MODEL_ILLEGAL_EXPERTS] = experts_fit,
  [MODEL_ILLEGAL_BATCH] = batch_divides,
  [MODEL_ILLEGAL_STAGES] = stages_filled,
  [MODEL_ILLEGAL_VPP] = interleaving_fits,
  [MODEL_ILLEGAL_SCHEDULE] = schedule_fits,
  [MODEL_ILLEGAL_ZERO] = zero_fits,
  [MODEL_ILLEGAL_SP] = sp_fits,
  [MODEL_ILLEGAL_RECOMPUTE] = recompute_fits,
  [MODEL_ILLEGAL_DTYPE] = dtype_fits,
};

gboolean
model_layout_allows (ModelLegality rule, const ModelArch *arch, const ModelJob *job,
                     const ModelLayout *layout, const ModelProfile *profile, guint32 gpus)
{
  const Question q = { arch, job, layout, profile, gpus };
  return rules[rule](&q);
}

ModelLegality
model_layout_check_rules (ModelLegality first, ModelLegality last, const ModelArch *arch,
                          const ModelJob *job, const ModelLayout *layout,
                          const ModelProfile *profile, guint32 gpus)
{
  const Question q = { arch, job, layout, profile, gpus };
  for (guint i = first; i <= (guint)last; i++)
    if (!rules[i](&q))
      return (ModelLegality)i;
  return MODEL_LEGAL;
}

ModelLegality
model_layout_check (const ModelArch *arch, const ModelJob *job, const ModelLayout *layout,
                    const ModelProfile *profile, guint32 gpus)
{
  return model_layout_check_rules (MODEL_LEGAL + 1, MODEL_LEGAL_N - 1, arch, job, layout, profile,
                                   gpus);
}

/* dp from the GPU count, when it comes out whole. */
static void
fill_dp (ModelLayout *layout, guint32 gpus)
{
  guint64 model = (guint64)layout->tp * layout->cp;
  if (layout->dp != 0 || model > gpus)
    return;
  model *= layout->pp;
  if (model <= gpus && gpus % model == 0)
    layout->dp = (guint32)(gpus / model);
}

gboolean
model_layout_resolve (ModelLayout *layout, const ModelArch *arch, const ModelJob *job,
                      const ModelProfile *profile, guint32 gpus, GError **error)
{
  guint32 dp = layout->dp;
  fill_dp (layout, gpus);
  ModelLegality reason = model_layout_check (arch, job, layout, profile, gpus);
  if (reason == MODEL_LEGAL)
    return TRUE;
  g_autofree char *text = model_layout_explain (reason, arch, job, layout, profile, gpus);
  g_set_error (error, MODEL_ERROR, MODEL_ERROR_ILLEGAL, "layout: %s", text);
  layout->dp = dp;
  return FALSE;
}
