/* model/layout_explain.c - why a layout is refused, and which values would be legal.
 *
 * Legal values are found by trying candidates against the rule that refused, so that message and
 * rule cannot disagree.
 */
#include "model/layout-private.h"
#include "model/schedule.h"
#include "model/stages.h"
#include <string.h>

#define MAX_CANDIDATE 4096u
#define MAX_LISTED    12u

/* A refused layout with everything its rule looked at. */
typedef struct {
  ModelLegality rule;
  const ModelArch *arch;
  const ModelJob *job;
  const ModelLayout *layout;
  const ModelProfile *profile;
  guint32 gpus;
} Refusal;

static gboolean
allows (const Refusal *r, const ModelLayout *layout)
{
  return model_layout_allows (r->rule, r->arch, r->job, layout, r->profile, r->gpus);
}

/*
 * "1, 2, 4": values of the degree at @offset, from 1 to @max, with which the rule would pass, all
 * else being equal; "none" if there are none. Returns: (owned).
 */
static char *
legal_values (const Refusal *r, gsize offset, guint64 max)
{
  ModelLayout trial = *r->layout; /* borrows the pointers: never cleared */
  guint32 *field = G_STRUCT_MEMBER_P (&trial, offset);
  GString *list = g_string_new (NULL);
  guint listed = 0;
  for (guint32 value = 1; value <= MIN (max, MAX_CANDIDATE); value++) {
    *field = value;
    if (!allows (r, &trial))
      continue;
    if (listed++ == MAX_LISTED) {
      g_string_append (list, ", …");
      break;
    }
    g_string_append_printf (list, "%s%u", list->len > 0 ? ", " : "", value);
  }
  if (list->len == 0)
    g_string_append (list, "none");
  return g_string_free (list, FALSE);
}

#define LEGAL(r, name, max) legal_values ((r), G_STRUCT_OFFSET (ModelLayout, name), (max))

static char *
explain_world (const Refusal *r)
{
  const ModelLayout *l = r->layout;
  guint64 model = (guint64)l->tp * l->cp * l->pp;
  if (l->dp != 0)
    return g_strdup_printf ("tp·cp·pp·dp = %u·%u·%u·%u is not %u GPUs%s", l->tp, l->cp, l->pp,
                            l->dp, r->gpus,
                            model <= r->gpus && r->gpus % model == 0 ? ": leave dp out" : "");
  guint64 below = r->gpus / model * model;
  if (below == 0)
    return g_strdup_printf ("tp·cp·pp = %u·%u·%u = %" G_GUINT64_FORMAT
                            " does not fit on %u GPUs: lower one of them",
                            l->tp, l->cp, l->pp, model, r->gpus);
  return g_strdup_printf ("tp·cp·pp = %u·%u·%u = %" G_GUINT64_FORMAT
                          " does not divide %u GPUs; nearest that it divides: %" G_GUINT64_FORMAT
                          ", %" G_GUINT64_FORMAT,
                          l->tp, l->cp, l->pp, model, r->gpus, below, below + model);
}

/* "tp=3 does not divide 64 heads; legal tp: 1, 2, 4" */
static char *
explain_tp (const Refusal *r, guint64 found, const char *of_what)
{
  g_autofree char *legal = LEGAL (r, tp, found);
  return g_strdup_printf ("tp=%u does not divide %" G_GUINT64_FORMAT " %s; legal tp: %s",
                          r->layout->tp, found, of_what, legal);
}

static char *
explain_ffn (const Refusal *r)
{
  for (guint i = 0; i < r->arch->n_runs; i++) {
    const ModelBlockRun *run = &r->arch->runs[i];
    gboolean moe = run->kind == MODEL_BLOCK_MOE;
    guint32 ffn = moe ? run->moe.shared_ffn : run->ffn;
    if (ffn % r->layout->tp != 0)
      return explain_tp (r, ffn, moe ? "rows of the shared experts" : "rows of the MLP (ffn)");
  }
  return g_strdup ("ffn does not divide by tp");
}

static char *
explain_seq (const Refusal *r)
{
  const ModelLayout *l = r->layout;
  guint64 seq = r->job->seq;
  if (l->cp > 1 && seq % (2 * (guint64)l->cp) != 0) {
    g_autofree char *legal = LEGAL (r, cp, seq);
    return g_strdup_printf ("cp=%u needs a sequence that divides by 2·cp = %" G_GUINT64_FORMAT
                            ", found %" G_GUINT64_FORMAT "; legal cp: %s",
                            l->cp, 2 * (guint64)l->cp, seq, legal);
  }
  g_autofree char *legal = LEGAL (r, tp, seq);
  return g_strdup_printf ("sp=1 cuts %" G_GUINT64_FORMAT
                          " tokens (sequence/cp) by tp=%u, which does not divide them; "
                          "legal tp with sp=1: %s, or sp=0",
                          seq / l->cp, l->tp, legal);
}

static char *
explain_cp (const Refusal *r)
{
  const ModelLayout *l = r->layout;
  g_autofree char *legal = LEGAL (r, cp, r->arch->attention.heads);
  return g_strdup_printf ("cp_comm=a2a spreads heads over tp·cp = %u·%u, which does not divide %u "
                          "heads and %u kv heads; legal cp: %s, or cp_comm=p2p",
                          l->tp, l->cp, r->arch->attention.heads, r->arch->attention.kv_heads,
                          legal);
}

static char *
explain_experts (const Refusal *r)
{
  const ModelLayout *l = r->layout;
  guint64 stage = (guint64)l->tp * l->cp * l->dp;
  const ModelBlockRun *moe = NULL;
  if (l->overlap_ep && l->ep == 1)
    return g_strdup ("overlap_ep=1 hides traffic between experts, which ep=1 has not; legal: ep of "
                     "at least 2, or overlap_ep=0");
  for (guint i = 0; i < r->arch->n_runs; i++) {
    const ModelBlockRun *run = &r->arch->runs[i];
    if (run->kind != MODEL_BLOCK_MOE)
      continue;
    moe = run;
    if (run->moe.experts % l->ep != 0 || run->moe.expert_ffn % l->etp != 0)
      break;
  }
  if (moe == NULL)
    return g_strdup_printf ("ep=%u etp=%u: model '%s' has no experts; legal: ep=1 and etp=1", l->ep,
                            l->etp, r->arch->name);
  if (moe->moe.expert_ffn % l->etp != 0) {
    g_autofree char *legal = LEGAL (r, etp, moe->moe.expert_ffn);
    return g_strdup_printf ("etp=%u does not divide %u rows of an expert; legal etp: %s", l->etp,
                            moe->moe.expert_ffn, legal);
  }
  g_autofree char *legal = LEGAL (r, ep, moe->moe.experts);
  if (moe->moe.experts % l->ep != 0)
    return g_strdup_printf ("ep=%u does not divide %u experts; legal ep: %s", l->ep,
                            moe->moe.experts, legal);
  return g_strdup_printf ("ep·etp = %u·%u does not divide the tp·cp·dp = %" G_GUINT64_FORMAT
                          " ranks of a stage; legal ep: %s",
                          l->ep, l->etp, stage, legal);
}

static char *
explain_batch (const Refusal *r)
{
  const ModelLayout *l = r->layout;
  guint64 per_microbatch = (guint64)l->mbs * l->dp;
  guint64 batch = r->job->global_batch;
  if (batch < per_microbatch)
    return g_strdup_printf ("mbs·dp = %u·%u = %" G_GUINT64_FORMAT
                            " is more than the global batch %" G_GUINT64_FORMAT
                            ": lower mbs, or raise tp, cp or pp",
                            l->mbs, l->dp, per_microbatch, batch);
  g_autofree char *legal = LEGAL (r, mbs, batch);
  guint64 below = batch / per_microbatch * per_microbatch;
  return g_strdup_printf ("mbs·dp = %u·%u does not divide the global batch %" G_GUINT64_FORMAT
                          "; legal mbs: %s; nearest global batches: %" G_GUINT64_FORMAT
                          ", %" G_GUINT64_FORMAT,
                          l->mbs, l->dp, batch, legal, below, below + per_microbatch);
}

static char *
explain_stages (const Refusal *r)
{
  const ModelLayout *l = r->layout;
  guint64 n_stages = model_layout_n_stages (l), sum = 0;
  if (n_stages > r->arch->layers)
    return g_strdup_printf ("pp·vpp = %u·%u stages for %u layers leave a stage without a layer; "
                            "legal pp·vpp: at most %u",
                            l->pp, l->vpp, r->arch->layers, r->arch->layers);
  for (guint64 i = 0; i < n_stages; i++) {
    if (l->stage_layers[i] == 0 && !model_stages_is_bare_head (r->profile, l, i))
      return g_strdup_printf ("stages: stage %" G_GUINT64_FORMAT
                              " has no layer, every stage needs at least one",
                              i);
    sum += l->stage_layers[i];
  }
  return g_strdup_printf ("stages: found %" G_GUINT64_FORMAT
                          " layers in all, expected the %u of model '%s'",
                          sum, r->arch->layers, r->arch->name);
}

static char *
explain_interleaving (const Refusal *r)
{
  const ModelLayout *l = r->layout;
  guint64 m = model_layout_microbatches (l, r->job);
  guint32 least_pp = l->overlap_p2p ? 2 : 3;
  if (l->vpp < 2)
    return g_strdup (
        "schedule=interleaved needs vpp of at least 2, found vpp=1; use schedule=1f1b");
  if (l->vpp > G_MAXUINT16)
    return g_strdup_printf ("found vpp=%u, expected at most %u", l->vpp, (guint)G_MAXUINT16);
  if (l->pp < least_pp)
    return g_strdup_printf ("vpp=%u needs pp of at least %u%s, found pp=%u; set vpp=1%s", l->vpp,
                            least_pp, l->overlap_p2p ? "" : " without overlap_p2p", l->pp,
                            l->pp == 2 ? " or overlap_p2p=1" : "");
  return g_strdup_printf (
      "vpp=%u needs micro-batches in multiples of pp=%u, found %" G_GUINT64_FORMAT
      "; change mbs, dp or the global batch so that global batch/(mbs·dp) is "
      "such a multiple, or set vpp=1",
      l->vpp, l->pp, m);
}

static char *
explain_schedule (const Refusal *r)
{
  const ModelLayout *l = r->layout;
  const char *name = model_schedule_name (l->schedule);
  guint64 m = model_layout_microbatches (l, r->job);
  const ModelSchedule *list = l->schedule_list;
  if (model_schedule_is_file (l->schedule) && list != NULL)
    return g_strdup_printf ("schedule file '%s' is for pp=%u, vpp=%u and %u micro-batches, found "
                            "pp=%u, vpp=%u and %" G_GUINT64_FORMAT
                            "; set pp, vpp, and mbs, dp or the global batch to match",
                            l->schedule_file, list->pp, list->vpp, list->microbatches, l->pp,
                            l->vpp, m);
  if (model_schedule_is_listed (l->schedule))
    return g_strdup_printf ("schedule '%s' needs %s; found pp=%u, vpp=%u and %" G_GUINT64_FORMAT
                            " micro-batches",
                            name, model_schedule_needs (l->schedule), l->pp, l->vpp, m);
  if (l->vpp > 1)
    return g_strdup_printf ("schedule '%s' has one chunk per rank, found vpp=%u; set vpp=1 or "
                            "schedule=interleaved",
                            name, l->vpp);
  return g_strdup_printf ("schedule '%s' needs at least one micro-batch, found none", name);
}

static char *
explain_zero (const Refusal *r)
{
  const ModelLayout *l = r->layout;
  guint64 ranks = (guint64)l->dp * l->cp;
  if (l->zero > r->profile->max_zero)
    return g_strdup_printf ("zero=%u is not in the framework of profile '%s'; legal zero: 0 to %u",
                            l->zero, r->profile->name, r->profile->max_zero);
  if (l->pp > 1 && l->zero > r->profile->max_zero_with_pp)
    return g_strdup_printf (
        "zero=%u does not work with pp=%u in profile '%s'; legal zero: 0 to %u, "
        "or pp=1",
        l->zero, l->pp, r->profile->name, r->profile->max_zero_with_pp);
  if (l->zero == 0)
    return g_strdup_printf ("hsdp=%u says how many ranks share the shards of zero, found zero=0; "
                            "set zero to 1, 2 or 3 or leave hsdp out",
                            l->hsdp);
  g_autofree char *legal = LEGAL (r, hsdp, ranks);
  if (ranks % l->hsdp == 0)
    return g_strdup_printf ("hsdp=%u: hsdp·tp = %" G_GUINT64_FORMAT
                            " ranks hold one copy of the shards, experts too, and must be a "
                            "multiple of ep·etp = %u; legal hsdp: %s",
                            l->hsdp, (guint64)l->hsdp * l->tp, l->ep * l->etp, legal);
  return g_strdup_printf ("hsdp=%u does not divide dp·cp = %" G_GUINT64_FORMAT "; legal hsdp: %s",
                          l->hsdp, ranks, legal);
}

static char *
explain_sp (const Refusal *r)
{
  const ModelLayout *l = r->layout;
  if (model_layout_moe_lacks_sp (r->arch, r->job, l, r->profile))
    return g_strdup_printf (
        "profile '%s' trains experts with tp=%u under sequence parallelism only; "
        "set sp=1 or tp=1",
        r->profile->name, l->tp);
  if (l->tp_sync < 1)
    return g_strdup_printf ("tp_sync=%g leaves activations that differ between tp ranks: it needs "
                            "tp > 1 and sp=0, found tp=%u sp=%d",
                            l->tp_sync, l->tp, l->sp);
  if (l->sp)
    return g_strdup_printf ("sp=1 splits the sequence over tp ranks, found tp=%u; set sp=0 or tp "
                            "above 1",
                            l->tp);
  return g_strdup ("overlap_tp=1 works on sequence-parallel collectives only, found sp=0; set sp=1 "
                   "or overlap_tp=0");
}

static char *
explain_recompute (const Refusal *r)
{
  const ModelRecompute *recompute = &r->layout->recompute;
  if (r->job->phase != MODEL_PHASE_TRAIN)
    return g_strdup ("recompute: only training keeps activations; legal: none");
  if (recompute->kind == MODEL_RECOMPUTE_FULL)
    return g_strdup_printf ("recompute: found %u layers, expected 1 to the %u of the largest stage",
                            recompute->n, model_layout_most_layers (r->arch, r->layout));
  guint has = model_layout_modules_of (r->arch);
  g_autofree char *legal = model_recompute_format (
      &(ModelRecompute){ .kind = MODEL_RECOMPUTE_SELECTIVE, .modules = (guint16)has });
  for (guint i = 0; model_recompute_module_names[i] != NULL; i++)
    if ((recompute->modules & ~has) & (1u << i))
      return g_strdup_printf ("recompute: model '%s' has no '%s'; legal: %s", r->arch->name,
                              model_recompute_module_names[i], legal);
  return g_strdup_printf ("recompute: selective without a module; legal: %s", legal);
}

static char *
explain_dtype (const Refusal *r)
{
  const char *name = model_dtype_name (r->layout->dtype);
  if (r->profile->dtypes == 0 || (r->profile->dtypes & (1u << r->layout->dtype)))
    return g_strdup_printf ("dtype=%s works on blocks of %u: the hidden size and the MLP sizes per "
                            "rank must be multiples of it; lower tp or etp, or use bf16",
                            name, model_dtype_block (r->layout->dtype));
  GString *legal = g_string_new (NULL);
  for (guint i = 0; i < MODEL_DTYPE_N_KINDS; i++)
    if (r->profile->dtypes & (1u << i))
      g_string_append_printf (legal, "%s%s", legal->len > 0 ? ", " : "", model_dtype_name (i));
  g_autofree char *list = g_string_free (legal, FALSE);
  return g_strdup_printf ("dtype=%s is not what profile '%s' trains in; legal: %s", name,
                          r->profile->name, list);
}

char *
model_layout_explain (ModelLegality rule, const ModelArch *arch, const ModelJob *job,
                      const ModelLayout *layout, const ModelProfile *profile, guint32 gpus)
{
  const Refusal r = { rule, arch, job, layout, profile, gpus };
  switch (rule) {
  case MODEL_ILLEGAL_WORLD:
    return explain_world (&r);
  case MODEL_ILLEGAL_HEADS:
    return explain_tp (&r, arch->attention.heads, "heads");
  case MODEL_ILLEGAL_KV_HEADS:
    return explain_tp (&r, arch->attention.kv_heads, "kv heads");
  case MODEL_ILLEGAL_FFN:
    return explain_ffn (&r);
  case MODEL_ILLEGAL_HIDDEN:
    return explain_tp (&r, arch->hidden, "hidden channels");
  case MODEL_ILLEGAL_SEQ:
    return explain_seq (&r);
  case MODEL_ILLEGAL_CP:
    return explain_cp (&r);
  case MODEL_ILLEGAL_EXPERTS:
    return explain_experts (&r);
  case MODEL_ILLEGAL_BATCH:
    return explain_batch (&r);
  case MODEL_ILLEGAL_STAGES:
    return explain_stages (&r);
  case MODEL_ILLEGAL_VPP:
    return explain_interleaving (&r);
  case MODEL_ILLEGAL_SCHEDULE:
    return explain_schedule (&r);
  case MODEL_ILLEGAL_ZERO:
    return explain_zero (&r);
  case MODEL_ILLEGAL_SP:
    return explain_sp (&r);
  case MODEL_ILLEGAL_RECOMPUTE:
    return explain_recompute (&r);
  case MODEL_ILLEGAL_DTYPE:
    return explain_dtype (&r);
  default:
    return g_strdup ("legal");
  }
}
