/* Every rule of a layout: what passes, what is refused, and what the message says is legal. */
#include "base/philox.h"
#include "model/layout.h"
#include "tests/testutil.h"

/* Llama-3.1-70B's sizes. */
static ModelBlockRun dense_runs[] = { { .kind = MODEL_BLOCK_DENSE, .count = 80, .ffn = 28672 } };
static const ModelArch dense = {
  .name = (char *)"dense70b",
  .hidden = 8192,
  .layers = 80,
  .attention = { .kind = MODEL_ATTENTION_GQA, .heads = 64, .kv_heads = 8, .head_dim = 128 },
  .gated = TRUE,
  .runs = dense_runs,
  .n_runs = 1,
};

/* Mixtral 8x7B's sizes: no dense MLP anywhere. */
static ModelBlockRun moe_runs[] = {
  { .kind = MODEL_BLOCK_MOE, .count = 32, .moe = { .experts = 8, .topk = 2, .expert_ffn = 14336 } }
};
static const ModelArch moe = {
  .name = (char *)"moe8x7b",
  .hidden = 4096,
  .layers = 32,
  .attention = { .kind = MODEL_ATTENTION_GQA, .heads = 32, .kv_heads = 8, .head_dim = 128 },
  .gated = TRUE,
  .runs = moe_runs,
  .n_runs = 1,
};

/* DeepSeek-V3's sizes: 3 dense blocks, 58 with 256 experts and a shared one, latent attention. */
static ModelBlockRun mla_runs[] = {
  { .kind = MODEL_BLOCK_DENSE, .count = 3, .ffn = 18432 },
  { .kind = MODEL_BLOCK_MOE,
    .count = 58,
    .moe = { .experts = 256, .topk = 8, .expert_ffn = 2048, .shared_ffn = 2048 } },
};
static const ModelArch mla = {
  .name = (char *)"mla671b",
  .hidden = 7168,
  .layers = 61,
  .attention = { .kind = MODEL_ATTENTION_MLA, .heads = 128, .kv_heads = 128, .head_dim = 192 },
  .gated = TRUE,
  .runs = mla_runs,
  .n_runs = 2,
};

static const ModelJob job = { .phase = MODEL_PHASE_TRAIN, .seq = 8192, .global_batch = 128 };
static const ModelJob odd_seq = { .phase = MODEL_PHASE_TRAIN, .seq = 1000, .global_batch = 128 };
static const ModelJob prefill = { .phase = MODEL_PHASE_PREFILL, .seq = 8192, .global_batch = 128 };

#define ALL_DTYPES 0x3f
static const ModelProfile megatron = { .name = (char *)"megatron",
                                       .max_zero = 3,
                                       .max_zero_with_pp = 1,
                                       .overlap_p2p = TRUE,
                                       .dtypes = ALL_DTYPES };
static const ModelProfile titan = { .name = (char *)"torchtitan",
                                    .max_zero = 3,
                                    .max_zero_with_pp = 3,
                                    .dtypes = 1u << MODEL_DTYPE_BF16 };
static const ModelProfile strict_moe
    = { .name = (char *)"strict", .moe_needs_sp = TRUE, .dtypes = ALL_DTYPES };
static const ModelProfile stage_one
    = { .name = (char *)"nanotron", .max_zero = 1, .max_zero_with_pp = 1, .dtypes = ALL_DTYPES };
static const ModelProfile overlapping = { .name = (char *)"nemo",
                                          .max_zero = 3,
                                          .max_zero_with_pp = 1,
                                          .overlap_tp = TRUE,
                                          .dtypes = ALL_DTYPES };

typedef struct {
  const char *name;
  const ModelArch *arch;
  const ModelJob *job;
  const ModelProfile *profile;
  guint32 gpus;
  const char *layout;
  ModelLegality want;
  const char *message; /* NULL where legal */
} CheckCase;

static const CheckCase cases[] = {
  /* gpus */
  { "world/dp_follows", &dense, &job, &megatron, 64, "tp=8,pp=4", MODEL_LEGAL, NULL },
  { "world/dp_agrees", &dense, &job, &megatron, 64, "tp=8,pp=4,dp=2", MODEL_LEGAL, NULL },
  { "world/dp_disagrees", &dense, &job, &megatron, 64, "tp=8,pp=4,dp=4", MODEL_ILLEGAL_WORLD,
    "tp·cp·pp·dp = 8·1·4·4 is not 64 GPUs: leave dp out" },
  { "world/not_whole", &dense, &job, &megatron, 60, "tp=8", MODEL_ILLEGAL_WORLD,
    "nearest that it divides: 56, 64" },
  { "world/too_few", &dense, &job, &megatron, 4, "tp=8", MODEL_ILLEGAL_WORLD,
    "does not fit on 4 GPUs" },
  { "world/no_gpu", &dense, &job, &megatron, 0, "tp=1", MODEL_ILLEGAL_WORLD, "0 GPUs" },
  { "world/absurd", &dense, &job, &megatron, 64, "tp=1048576,cp=1048576,pp=1048576",
    MODEL_ILLEGAL_WORLD, "does not fit on 64 GPUs" },
  /* heads */
  { "heads/tp_3", &dense, &job, &megatron, 3, "tp=3", MODEL_ILLEGAL_HEADS,
    "tp=3 does not divide 64 heads; legal tp: 1, 2, 4, 8, 16, 32, 64" },
  { "heads/kv", &dense, &job, &megatron, 16, "tp=16", MODEL_ILLEGAL_KV_HEADS,
    "tp=16 does not divide 8 kv heads; legal tp: 1, 2, 4, 8" },
  { "heads/mla_has_no_kv_heads", &mla, &job, &megatron, 64, "tp=64", MODEL_LEGAL, NULL },
  /* sequence */
  { "seq/cp_needs_twice", &dense, &odd_seq, &megatron, 8, "cp=8", MODEL_ILLEGAL_SEQ,
    "cp=8 needs a sequence that divides by 2·cp = 16, found 1000; legal cp: 1, 2, 4, 5, 10" },
  { "seq/cp_of_it", &dense, &odd_seq, &megatron, 4, "cp=4", MODEL_LEGAL, NULL },
  { "seq/sp_cuts_the_share", &dense, &odd_seq, &megatron, 32, "cp=4,tp=8,sp=1", MODEL_ILLEGAL_SEQ,
    "sp=1 cuts 250 tokens (sequence/cp) by tp=8" },
  /* context parallelism over heads */
  { "cp/a2a_fits", &dense, &job, &megatron, 8, "tp=2,cp=4,cp_comm=a2a", MODEL_LEGAL, NULL },
  { "cp/a2a_needs_kv_heads", &dense, &job, &megatron, 16, "tp=2,cp=8,cp_comm=a2a", MODEL_ILLEGAL_CP,
    "legal cp: 1, 2, 4, or cp_comm=p2p" },
  { "cp/ring_does_not", &dense, &job, &megatron, 16, "tp=2,cp=8", MODEL_LEGAL, NULL },
  /* experts */
  { "experts/ep", &moe, &job, &megatron, 8, "ep=8", MODEL_LEGAL, NULL },
  { "experts/ep_and_etp", &moe, &job, &megatron, 16, "tp=4,ep=8,etp=2", MODEL_LEGAL, NULL },
  { "experts/dense", &dense, &job, &megatron, 8, "ep=2", MODEL_ILLEGAL_EXPERTS,
    "model 'dense70b' has no experts; legal: ep=1 and etp=1" },
  { "experts/overlap_without_ep", &moe, &job, &megatron, 8, "overlap_ep=1", MODEL_ILLEGAL_EXPERTS,
    "ep of at least 2" },
  { "experts/ep_3", &moe, &job, &megatron, 3, "ep=3,mbs=2", MODEL_ILLEGAL_EXPERTS,
    "ep=3 does not divide 8 experts; legal ep: 1" },
  { "experts/more_than_the_stage", &moe, &job, &megatron, 8, "pp=2,ep=8", MODEL_ILLEGAL_EXPERTS,
    "the tp·cp·dp = 4 ranks of a stage; legal ep: 1, 2, 4" },
  { "experts/etp_of_ffn", &mla, &job, &megatron, 96, "tp=32,pp=1,etp=3", MODEL_ILLEGAL_EXPERTS,
    "etp=3 does not divide 2048 rows of an expert" },
  { "experts/later_run", &mla, &job, &megatron, 128, "tp=2,ep=64,dp=64", MODEL_LEGAL, NULL },
  /* batch */
  { "batch/mbs_3", &dense, &job, &megatron, 8, "tp=8,mbs=3", MODEL_ILLEGAL_BATCH,
    "mbs·dp = 3·1 does not divide the global batch 128; legal mbs: 1, 2, 4, 8, 16, 32, 64, 128; "
    "nearest global batches: 126, 129" },
  { "batch/too_many_replicas", &dense, &job, &megatron, 256, "tp=1", MODEL_ILLEGAL_BATCH,
    "more than the global batch 128" },
  /* stages */
  { "stages/uneven_list", &dense, &job, &megatron, 4, "pp=4,stages=19+21+21+19", MODEL_LEGAL,
    NULL },
  { "stages/too_many", &dense, &job, &megatron, 96, "pp=96,dp=1", MODEL_ILLEGAL_STAGES,
    "at most 80" },
  { "stages/wrong_sum", &dense, &job, &megatron, 4, "pp=4,stages=20+20+20+19", MODEL_ILLEGAL_STAGES,
    "found 79 layers in all, expected the 80" },
  { "stages/61_over_16", &mla, &job, &megatron, 16, "pp=16", MODEL_LEGAL, NULL },
  /* chunks */
  { "vpp/three_chunks", &dense, &job, &megatron, 64, "tp=8,pp=8,vpp=5", MODEL_LEGAL, NULL },
  { "vpp/needs_pp", &dense, &job, &megatron, 1, "vpp=2", MODEL_ILLEGAL_VPP,
    "vpp=2 needs pp of at least 2, found pp=1; set vpp=1" },
  { "vpp/two_ranks_overlapped", &dense, &job, &megatron, 2, "pp=2,vpp=2", MODEL_LEGAL, NULL },
  { "vpp/two_ranks_not_overlapped", &dense, &job, &megatron, 2, "pp=2,vpp=2,overlap_p2p=0",
    MODEL_ILLEGAL_VPP, "pp of at least 3 without overlap_p2p" },
  { "vpp/remainder", &dense, &job, &megatron, 5, "pp=5,vpp=2", MODEL_ILLEGAL_VPP,
    "micro-batches in multiples of pp=5, found 128" },
  { "vpp/fewer_than_pp", &dense, &job, &megatron, 8, "pp=8,vpp=2,mbs=32", MODEL_ILLEGAL_VPP,
    "found 4" },
  { "vpp/interleaved_without_chunks", &dense, &job, &megatron, 4, "pp=4,schedule=interleaved",
    MODEL_ILLEGAL_VPP, "needs vpp of at least 2" },
  /* schedules */
  { "schedule/gpipe", &dense, &job, &megatron, 4, "pp=4,schedule=gpipe", MODEL_LEGAL, NULL },
  { "schedule/zero_bubble", &dense, &job, &megatron, 4, "pp=4,schedule=zb-h1", MODEL_LEGAL, NULL },
  { "schedule/zero_bubble_chunks", &dense, &job, &megatron, 4, "pp=4,vpp=2,schedule=zb-h1",
    MODEL_ILLEGAL_SCHEDULE, "schedule 'zb-h1' needs pp >= 1, vpp=1" },
  { "schedule/folded", &dense, &job, &megatron, 4, "pp=4,schedule=v-half", MODEL_LEGAL, NULL },
  { "schedule/folded_one_rank", &dense, &job, &megatron, 4, "pp=1,schedule=zb-v",
    MODEL_ILLEGAL_SCHEDULE, "needs pp >= 2" },
  { "schedule/dualpipe_odd", &dense, &job, &megatron, 3, "pp=3,schedule=dualpipe",
    MODEL_ILLEGAL_SCHEDULE, "'dualpipe' needs pp even" },
  { "schedule/chunks_of_1f1b", &dense, &job, &megatron, 4, "pp=4,vpp=2,schedule=1f1b",
    MODEL_ILLEGAL_SCHEDULE, "set vpp=1 or schedule=interleaved" },
  /* ZeRO */
  { "zero/1_with_pp", &dense, &job, &megatron, 8, "pp=4,zero=1", MODEL_LEGAL, NULL },
  { "zero/3_with_pp", &dense, &job, &megatron, 8, "pp=4,zero=3", MODEL_ILLEGAL_ZERO,
    "zero=3 does not work with pp=4 in profile 'megatron'; legal zero: 0 to 1, or pp=1" },
  { "zero/3_with_pp_of_titan", &dense, &job, &titan, 8, "pp=4,zero=3", MODEL_LEGAL, NULL },
  { "zero/3_alone", &dense, &job, &megatron, 8, "zero=3", MODEL_LEGAL, NULL },
  { "zero/hsdp", &dense, &job, &megatron, 16, "zero=3,hsdp=8", MODEL_LEGAL, NULL },
  { "zero/hsdp_experts", &moe, &job, &megatron, 16, "ep=4,zero=1,hsdp=4", MODEL_LEGAL, NULL },
  { "zero/hsdp_below_experts", &moe, &job, &megatron, 16, "ep=4,zero=1,hsdp=2", MODEL_ILLEGAL_ZERO,
    "hsdp=2: hsdp·tp = 2 ranks hold one copy of the shards, experts too, and must be a multiple of "
    "ep·etp = 4; legal hsdp: 4, 8, 16" },
  { "zero/1_where_there_is_no_other", &dense, &job, &stage_one, 16, "zero=1", MODEL_LEGAL, NULL },
  { "zero/3_where_there_is_none", &dense, &job, &stage_one, 16, "zero=3", MODEL_ILLEGAL_ZERO,
    "zero=3 is not in the framework of profile 'nanotron'; legal zero: 0 to 1" },
  { "zero/hsdp_without_zero", &dense, &job, &megatron, 16, "hsdp=8", MODEL_ILLEGAL_ZERO,
    "found zero=0" },
  { "zero/hsdp_3", &dense, &job, &megatron, 16, "zero=3,hsdp=3", MODEL_ILLEGAL_ZERO,
    "hsdp=3 does not divide dp·cp = 16; legal hsdp: 1, 2, 4, 8, 16" },
  /* sequence parallelism and its relatives */
  { "sp/with_tp", &dense, &job, &megatron, 8, "tp=8,sp=1,overlap_tp=1", MODEL_LEGAL, NULL },
  { "sp/without_tp", &dense, &job, &megatron, 8, "sp=1", MODEL_ILLEGAL_SP, "found tp=1" },
  { "sp/overlap_without_it", &dense, &job, &megatron, 8, "tp=8,overlap_tp=1", MODEL_ILLEGAL_SP,
    "set sp=1 or overlap_tp=0" },
  { "sp/profile_overlaps_where_it_can", &dense, &job, &overlapping, 8, "tp=8", MODEL_LEGAL, NULL },
  { "sp/partial_sync", &dense, &job, &megatron, 8, "tp=8,tp_sync=0.5", MODEL_LEGAL, NULL },
  { "sp/partial_sync_with_sp", &dense, &job, &megatron, 8, "tp=8,sp=1,tp_sync=0.5",
    MODEL_ILLEGAL_SP, "needs tp > 1 and sp=0" },
  { "sp/partial_sync_of_one", &dense, &job, &megatron, 8, "tp_sync=0.5", MODEL_ILLEGAL_SP,
    "found tp=1" },
  { "sp/experts_need_it", &moe, &job, &strict_moe, 8, "tp=2", MODEL_ILLEGAL_SP,
    "profile 'strict' trains experts with tp=2 under sequence parallelism only; set sp=1 or tp=1" },
  { "sp/experts_have_it", &moe, &job, &strict_moe, 8, "tp=2,sp=1", MODEL_LEGAL, NULL },
  { "sp/experts_whole", &moe, &job, &strict_moe, 8, "ep=8", MODEL_LEGAL, NULL },
  { "sp/experts_serving", &moe, &prefill, &strict_moe, 8, "tp=2", MODEL_LEGAL, NULL },
  { "sp/experts_elsewhere", &moe, &job, &titan, 8, "tp=2", MODEL_LEGAL, NULL },
  { "sp/dense_without", &dense, &job, &strict_moe, 8, "tp=2", MODEL_LEGAL, NULL },
  /* recompute */
  { "recompute/core_attn", &dense, &job, &megatron, 1, "recompute=selective", MODEL_LEGAL, NULL },
  { "recompute/mlp", &dense, &job, &megatron, 1, "recompute=selective:mlp+layernorm", MODEL_LEGAL,
    NULL },
  { "recompute/moe_of_dense", &dense, &job, &megatron, 1, "recompute=selective:moe",
    MODEL_ILLEGAL_RECOMPUTE,
    "model 'dense70b' has no 'moe'; legal: selective:core_attn+mlp+layernorm" },
  { "recompute/mlp_of_moe_only", &moe, &job, &megatron, 1, "recompute=selective:mlp",
    MODEL_ILLEGAL_RECOMPUTE, "no 'mlp'" },
  { "recompute/shared_experts_absent", &moe, &job, &megatron, 1,
    "recompute=selective:shared_experts", MODEL_ILLEGAL_RECOMPUTE, "no 'shared_experts'" },
  { "recompute/mla_up_proj_of_gqa", &moe, &job, &megatron, 1, "recompute=selective:mla_up_proj",
    MODEL_ILLEGAL_RECOMPUTE, "no 'mla_up_proj'" },
  { "recompute/all_of_mla", &mla, &job, &megatron, 1,
    "recompute=selective:mlp+mla_up_proj+moe_act+shared_experts", MODEL_LEGAL, NULL },
  { "recompute/block_of_stage", &dense, &job, &megatron, 4, "pp=4,recompute=full:block:20",
    MODEL_LEGAL, NULL },
  { "recompute/more_than_the_stage", &dense, &job, &megatron, 4, "pp=4,recompute=full:block:21",
    MODEL_ILLEGAL_RECOMPUTE, "found 21 layers, expected 1 to the 20 of the largest stage" },
  { "recompute/of_inference", &dense, &prefill, &megatron, 1, "recompute=full",
    MODEL_ILLEGAL_RECOMPUTE, "only training" },
  /* dtypes */
  { "dtype/fp8", &dense, &job, &megatron, 8, "tp=8,dtype=fp8", MODEL_LEGAL, NULL },
  { "dtype/not_of_the_profile", &dense, &job, &titan, 1, "dtype=fp8", MODEL_ILLEGAL_DTYPE,
    "dtype=fp8 is not what profile 'torchtitan' trains in; legal: bf16" },
  { "dtype/blocks", &mla, &job, &megatron, 128, "tp=128,dtype=mxfp8", MODEL_ILLEGAL_DTYPE,
    "works on blocks of 32" }, /* 2048 rows of the shared expert over 128: 16 */
  /* of two faults the first in order is told */
  { "order/heads_before_batch", &dense, &job, &megatron, 3, "tp=3,mbs=5", MODEL_ILLEGAL_HEADS,
    "tp=3" },
};

static void
test_check (void **state)
{
  const CheckCase *c = *state;
  g_auto (ModelLayout) layout = { 0 };
  g_autoptr (GError) parse_error = NULL, error = NULL;
  gboolean parsed = model_layout_parse (&layout, c->layout, c->profile, &parse_error);
  assert_no_error (parse_error);
  assert_true (parsed);
  guint32 dp = layout.dp;
  gboolean ok = model_layout_resolve (&layout, c->arch, c->job, c->profile, c->gpus, &error);
  assert_int_equal (ok, c->want == MODEL_LEGAL);
  if (ok) {
    assert_int_equal ((guint64)layout.tp * layout.cp * layout.pp * layout.dp, c->gpus);
    assert_int_equal (model_layout_check (c->arch, c->job, &layout, c->profile, c->gpus),
                      MODEL_LEGAL);
    return;
  }
  assert_int_equal (layout.dp, dp); /* untouched */
  assert_true (g_error_matches (error, MODEL_ERROR, MODEL_ERROR_ILLEGAL));
  assert_null (strchr (error->message, '\n'));
  if (strstr (error->message, c->message) == NULL)
    fail_msg ("'%s' is not in: %s", c->message, error->message);
  /* the cheap test gives the same reason, once dp is filled in as resolve does */
  guint64 model = (guint64)layout.tp * layout.cp * layout.pp;
  if (layout.dp == 0 && model <= c->gpus && c->gpus % model == 0)
    layout.dp = (guint32)(c->gpus / model);
  assert_int_equal (model_layout_check (c->arch, c->job, &layout, c->profile, c->gpus), c->want);
}

/* A layout with dp unset is no legal one: nothing divides by zero. */
static void
test_dp_unset_is_refused (void **state)
{
  g_auto (ModelLayout) layout;
  model_layout_init (&layout, &megatron);
  layout.dp = 0;
  assert_int_equal (model_layout_check (&dense, &job, &layout, &megatron, 1), MODEL_ILLEGAL_WORLD);
}

static void
test_names_are_distinct (void **state)
{
  for (guint i = 0; i < MODEL_LEGAL_N; i++)
    for (guint j = 0; j < i; j++)
      assert_string_not_equal (model_legality_name (i), model_legality_name (j));
}

static guint32
draw (guint64 *at, guint32 bound)
{
  return 1 + (guint32)base_philox_below (3, 0, (*at)++, bound);
}

/* Any numbers at all: never a crash, and a reason whenever refused. */
static void
test_random_layouts (void **state)
{
  static const ModelArch *const archs[] = { &dense, &moe, &mla };
  guint legal = 0;
  for (guint64 index = 0; index < 20000; index++) {
    guint64 at = index * 32;
    const ModelArch *arch = archs[draw (&at, 3) - 1];
    g_auto (ModelLayout) layout;
    g_autoptr (GError) error = NULL;
    model_layout_init (&layout, &megatron);
    layout.tp = 1u << (draw (&at, 4) - 1);
    layout.cp = draw (&at, 2);
    layout.pp = draw (&at, 5);
    layout.vpp = draw (&at, 2);
    layout.ep = 1u << (draw (&at, 3) - 1);
    layout.etp = draw (&at, 2);
    layout.mbs = draw (&at, 3);
    layout.zero = (guint8)(draw (&at, 4) - 1);
    layout.hsdp = draw (&at, 4) - 1;
    layout.sp = draw (&at, 2) == 1;
    layout.schedule = draw (&at, MODEL_SCHEDULE_N_KINDS) - 1;
    layout.recompute.kind = (guint8)(draw (&at, 3) - 1);
    layout.recompute.modules = (guint16)draw (&at, 127);
    layout.recompute.n = draw (&at, 40);
    layout.dp = 0;
    guint32 gpus = layout.tp * layout.cp * layout.pp * draw (&at, 8);
    gboolean ok = model_layout_resolve (&layout, arch, &job, &megatron, gpus, &error);
    assert_int_equal (ok, error == NULL);
    legal += ok;
  }
  assert_true (legal > 20); /* the draw reaches legal layouts too */
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (cases) + 3];
  guint n = 0;
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    tests[n++] = (struct CMUnitTest){ .name = cases[i].name,
                                      .test_func = test_check,
                                      .initial_state = (void *)&cases[i] };
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_dp_unset_is_refused);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_names_are_distinct);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_random_layouts);
  return cmocka_run_group_tests_name ("layout_check", tests, NULL, NULL);
}
