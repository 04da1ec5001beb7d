/* Block prices: equal to the sum over the lowered program, and exposure by hand. */
#include "costmodel/blockcost.h"
#include "tests/costmodel_bench.h"

#include "base/philox.h"
#include "model/program.h"

/* ---- the sum over the program of random layouts ---- */

#define N_LAYOUTS 1000
#define MAX_DRAWS 400000
#define SEED      20240607

typedef struct {
  double compute_s, tp_s, cp_s, ep_s;
} Sums;

/* Draw number @draw of dimension @dimension, below @bound. */
static guint
draw_below (guint64 draw, guint dimension, guint bound)
{
  return (guint)base_philox_below (SEED, dimension, draw, bound);
}

static guint32
draw_power (guint64 draw, guint dimension, guint n)
{
  return 1u << draw_below (draw, dimension, n);
}

/* A layout that may be illegal; @out_gpus its size. */
static ModelLayout
draw_layout (guint64 draw, gboolean is_moe, guint32 *out_gpus)
{
  static const ModelDtype dtypes[] = { MODEL_DTYPE_BF16, MODEL_DTYPE_FP8, MODEL_DTYPE_FP16 };
  ModelLayout layout = {
    .tp = draw_power (draw, 0, 4),
    .cp = draw_power (draw, 1, 3),
    .pp = draw_power (draw, 2, 4),
    .vpp = draw_power (draw, 3, 2),
    .ep = is_moe ? draw_power (draw, 4, 4) : 1,
    .etp = is_moe ? draw_power (draw, 5, 2) : 1,
    .dp = draw_power (draw, 6, 4),
    .mbs = draw_power (draw, 7, 3),
    .sp = draw_below (draw, 8, 2) == 1,
    .zero = (guint8)draw_below (draw, 9, 4),
    .attn = draw_below (draw, 10, MODEL_ATTN_N_KINDS),
    .cp_comm = draw_below (draw, 11, MODEL_CP_N_KINDS),
    .dtype = dtypes[draw_below (draw, 12, G_N_ELEMENTS (dtypes))],
    .tp_sync = draw_below (draw, 13, 4) == 0 ? 0.5 : 1,
    .overlap_tp = draw_below (draw, 14, 2) == 1,
    .recompute = { .kind = (guint8)draw_below (draw, 15, 3),
                   .method = (guint8)draw_below (draw, 16, 2),
                   .modules = (guint16)(1 + draw_below (draw, 17, 127)),
                   .n = 1 + draw_below (draw, 18, 3) },
  };
  if (layout.recompute.kind != MODEL_RECOMPUTE_SELECTIVE)
    layout.recompute.modules = 0;
  if (layout.recompute.kind != MODEL_RECOMPUTE_FULL)
    layout.recompute.n = layout.recompute.method = 0;
  layout.schedule = layout.vpp > 1 ? MODEL_SCHEDULE_INTERLEAVED : MODEL_SCHEDULE_1F1B;
  *out_gpus = layout.tp * layout.cp * layout.pp * layout.dp;
  return layout;
}

static void
sum_op (const CostContext *context, const ModelOp *op, Sums *sums)
{
  double time_s = cost_op_s (context, op);
  if (op->stream == MODEL_STREAM_TP)
    sums->tp_s += time_s;
  else if (op->stream == MODEL_STREAM_CP)
    sums->cp_s += time_s;
  else if (op->stream == MODEL_STREAM_EP)
    sums->ep_s += time_s;
  else if (op->stream == MODEL_STREAM_COMPUTE)
    sums->compute_s += time_s;
}

/* What every micro-batch does, parameter traffic and pipeline messages apart. */
static Sums
sum_program (const CostContext *context, const ModelProgram *program)
{
  Sums sums = { 0 };
  for (guint32 i = 0; i < program->n_chunks; i++) {
    const ModelChunk *chunk = &program->chunks[i];
    for (guint32 k = 0; k < chunk->forward.count; k++)
      sum_op (context, &program->ops[chunk->forward.first + k], &sums);
    for (guint32 k = 0; k < chunk->backward.count; k++)
      sum_op (context, &program->ops[chunk->backward.first + k], &sums);
  }
  return sums;
}

static void
add_block (Sums *sums, const CostBlock *block)
{
  for (guint pass = 0; pass < COST_PASS_N_KINDS; pass++) {
    sums->compute_s += block->compute_s[pass];
    sums->tp_s += block->tp_s[pass];
    sums->cp_s += block->cp_s[pass];
    sums->ep_s += block->ep_s[pass];
  }
}

typedef struct {
  const Bench *bench;
  const ModelArch *arch;
  const ModelJob *job;
  const ModelLayout *layout;
} Case;

static void
add_part (const Case *c, ModelPart part, guint run, ModelRecomputeKind recompute, Sums *sums)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ModelSegment) segment
      = model_segment_new (c->arch, c->job, c->layout, c->bench->profile, part, run, recompute,
                           &error);
  assert_no_error (error);
  CostBlock block;
  cost_block_init (&block, &c->bench->context, c->layout, segment);
  add_block (sums, &block);
}

/* full:block:N recomputes the first N blocks of a chunk; otherwise all are alike. */
static ModelRecomputeKind
recompute_of (const ModelLayout *layout, guint32 at)
{
  const ModelRecompute *recompute = &layout->recompute;
  gboolean some = recompute->kind == MODEL_RECOMPUTE_FULL
                  && recompute->method == MODEL_RECOMPUTE_BLOCK && at >= recompute->n;
  return some ? MODEL_RECOMPUTE_NONE : (ModelRecomputeKind)recompute->kind;
}

static Sums
sum_blocks (const Case *c, const ModelProgram *program)
{
  Sums sums = { 0 };
  for (guint32 i = 0; i < program->n_chunks; i++) {
    const ModelChunk *chunk = &program->chunks[i];
    if (chunk->has_embedding)
      add_part (c, MODEL_PART_EMBEDDING, 0, MODEL_RECOMPUTE_NONE, &sums);
    for (guint32 k = 0; k < chunk->n_layers; k++) {
      const ModelBlockRun *run = model_arch_run_of (c->arch, chunk->first_layer + k);
      add_part (c, MODEL_PART_BLOCK, (guint)(run - c->arch->runs), recompute_of (c->layout, k),
                &sums);
    }
    if (chunk->has_head)
      add_part (c, MODEL_PART_HEAD, 0, MODEL_RECOMPUTE_NONE, &sums);
  }
  return sums;
}

static void
check_layout (const Case *c, guint32 pp_rank)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ModelProgram) program
      = model_program_new (c->arch, c->job, c->layout, c->bench->profile, pp_rank, &error);
  assert_no_error (error);
  Sums want = sum_program (&c->bench->context, program);
  Sums got = sum_blocks (c, program);
  assert_true (want.compute_s > 0);
  assert_near (got.compute_s, want.compute_s, 1e-9);
  assert_near (got.tp_s, want.tp_s, 1e-9);
  assert_near (got.cp_s, want.cp_s, 1e-9);
  assert_near (got.ep_s, want.ep_s, 1e-9);
}

/* How many of the layouts split or choose in which way: the draw must not shun one. */
typedef struct {
  guint tp, sp, cp, pp, vpp, ep, etp, zero3, fp8, unfused, selective, full;
} Coverage;

static void
cover (Coverage *seen, const ModelLayout *layout)
{
  seen->tp += layout->tp > 1;
  seen->sp += layout->sp;
  seen->cp += layout->cp > 1;
  seen->pp += layout->pp > 1;
  seen->vpp += layout->vpp > 1;
  seen->ep += layout->ep > 1;
  seen->etp += layout->etp > 1;
  seen->zero3 += layout->zero == 3;
  seen->fp8 += layout->dtype == MODEL_DTYPE_FP8;
  seen->unfused += layout->attn == MODEL_ATTN_UNFUSED;
  seen->selective += layout->recompute.kind == MODEL_RECOMPUTE_SELECTIVE;
  seen->full += layout->recompute.kind == MODEL_RECOMPUTE_FULL;
}

static void
check_coverage (const Coverage *seen)
{
  const guint counts[]
      = { seen->tp,  seen->sp,    seen->cp,  seen->pp,      seen->vpp,       seen->ep,
          seen->etp, seen->zero3, seen->fp8, seen->unfused, seen->selective, seen->full };
  for (gsize i = 0; i < G_N_ELEMENTS (counts); i++)
    if (counts[i] < N_LAYOUTS / 50)
      fail_msg ("choice %zu was drawn %u times only", i, counts[i]);
}

static void
test_sum_of_ops (void **state)
{
  static const char *const models[] = { "tiny",         "llama-3.1-8b",  "gpt3-175b",  "mistral-7b",
                                        "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v2" };
  static const char *const profiles[] = { "megatron", "nemo", "torchtitan", "nanotron", "generic" };
  Bench benches[G_N_ELEMENTS (profiles)];
  ModelArch *archs[G_N_ELEMENTS (models)];
  for (guint i = 0; i < G_N_ELEMENTS (profiles); i++)
    bench_init (&benches[i], "hgx-h100", profiles[i]);
  for (guint i = 0; i < G_N_ELEMENTS (models); i++) {
    archs[i] = model_arch_load (benches[0].catalog, models[i], NULL);
    assert_non_null (archs[i]);
  }
  Coverage seen = { 0 };
  guint checked = 0;
  for (guint64 draw = 0; checked < N_LAYOUTS && draw < MAX_DRAWS; draw++) {
    Bench *bench = &benches[draw_below (draw, 20, G_N_ELEMENTS (profiles))];
    const ModelArch *arch = archs[draw_below (draw, 21, G_N_ELEMENTS (models))];
    guint32 gpus;
    ModelLayout layout
        = draw_layout (draw, arch->runs[arch->n_runs - 1].kind == MODEL_BLOCK_MOE, &gpus);
    ModelJob job = { .phase = MODEL_PHASE_TRAIN,
                     .seq = 1024,
                     .dropout = arch->dropout,
                     .global_batch = (guint64)layout.mbs * layout.dp * layout.pp * 2 };
    if (gpus % 8 != 0
        || model_layout_check (arch, &job, &layout, bench->profile, gpus) != MODEL_LEGAL)
      continue;
    bench_place (bench, &layout);
    Case c = { bench, arch, &job, &layout };
    check_layout (&c, draw_below (draw, 22, layout.pp));
    cover (&seen, &layout);
    checked++;
  }
  assert_int_equal (checked, N_LAYOUTS);
  check_coverage (&seen);
  for (guint i = 0; i < G_N_ELEMENTS (models); i++)
    model_arch_free (archs[i]);
  for (guint i = 0; i < G_N_ELEMENTS (profiles); i++)
    bench_clear (&benches[i]);
}

/* ---- exposure, on a segment made by hand ---- */

#define MIB 1048576.0

/* Memory-bound ops with no launch: 1 MiB lasts 1 us on 1 MiB/us. Collectives: base only. */
static void
hand_context (CostContext *context, CostNumbers *numbers, ModelProfile *profile)
{
  *numbers = (CostNumbers){ .gpu = { .hbm_ratio = 1,
                                     .attention_ratio = { 1, 1, 1 },
                                     .attention_portable_ratio = 1,
                                     .attention_backward_ratio = 1 },
                            .profile = { .memory_factor = 1,
                                         .overlap_tp_ratio = 0.75,
                                         .overlap_ep_ratio = 0.5,
                                         .overlap_wgrad_ratio = 0.5 },
                            .step = { .unoverlapped_tp_ratio = 0.1,
                                      .moe_host_factor = 2,
                                      .expert_host_s = 3e-6,
                                      .grouped_ratio = 1 } };
  numbers->gpu.gemm
      = (CostGemm){ .ceiling_ratio = { 1, 1, 1 }, .memory_ratio = 1, .power = 50, .step_ratio = 1 };
  *profile = (ModelProfile){ .grouped_gemm = TRUE };
  memset (context, 0, sizeof *context);
  context->profile = profile;
  context->numbers = numbers;
  context->hbm_bytes_per_s = MIB * 1e6;
  for (guint i = 0; i < MODEL_GROUP_N_KINDS; i++) {
    context->groups[i].ranks = 2;
    for (guint k = 0; k < MODEL_COLLECTIVE_N_KINDS; k++)
      context->groups[i].ways[k][0]
          = (CostWay){ .algorithm = "hand", .wire_s_per_byte = 1e-6 / MIB };
  }
  /* A GEMM of 64 x 64 x k takes k us: only its FLOPs count. */
  context->gemm[MODEL_DTYPE_BF16] = (CostGemmContext){ .peak_flop_per_s = 2 * 64 * 64 * 1e6,
                                                       .hbm_bytes_per_s = 1e30,
                                                       .feed_bytes_per_s = 1e30,
                                                       .sm_count = 1,
                                                       .numbers = &numbers->gpu.gemm,
                                                       .in_bytes = 2,
                                                       .out_bytes = 2,
                                                       .slowdown = 1 };
  /* Attention of 1 x 1 head, 1 query, seq_kv keys, 0.5 + 0.5 dims would not be whole: dims 1. */
  context->peak_flop_per_s[MODEL_DTYPE_BF16] = 4e6;
}

static ModelOp
hand_collective (ModelOpPhase phase, ModelStream stream, ModelCollectiveKind kind, double us,
                 guint16 flags)
{
  static const ModelGroupKind groups[MODEL_STREAM_N_KINDS] = { [MODEL_STREAM_TP] = MODEL_GROUP_TP,
                                                               [MODEL_STREAM_CP] = MODEL_GROUP_CP,
                                                               [MODEL_STREAM_EP] = MODEL_GROUP_EP };
  return (ModelOp){ .kind = MODEL_OP_COLLECTIVE,
                    .phase = (guint8)phase,
                    .stream = (guint8)stream,
                    .group = (guint8)groups[stream],
                    .collective = (guint8)kind,
                    .flags = flags,
                    .name = "collective",
                    .message_bytes = (guint64)(us * MIB) };
}

static ModelOp
hand_gemm (ModelOpPhase phase, guint64 us, guint16 flags)
{
  return (ModelOp){ .kind = MODEL_OP_GEMM,
                    .phase = (guint8)phase,
                    .m = 64,
                    .n = 64,
                    .k = us,
                    .batch = 1,
                    .flags = flags,
                    .name = "linear_fc1" };
}

static ModelOp
hand_norm (ModelOpPhase phase, double us)
{
  return (ModelOp){
    .kind = MODEL_OP_NORM, .phase = (guint8)phase, .name = "norm", .read_bytes = (guint64)(us * MIB)
  };
}

/* Not causal, one head, one sequence, dims 1 + 1: F = 2 x q x kv x 2 = 4 x q x kv FLOPs. */
static ModelOp
hand_attention (ModelOpPhase phase, guint64 us)
{
  return (ModelOp){ .kind = MODEL_OP_ATTENTION,
                    .phase = (guint8)phase,
                    .name = "core_attention",
                    .attention = { .batch = 1,
                                   .heads = 1,
                                   .kv_heads = 1,
                                   .dim_qk = 1,
                                   .dim_v = 1,
                                   .seq_q = 1,
                                   .seq_kv = us,
                                   .kernel = MODEL_ATTN_FLASH } };
}

static void
price (CostBlock *block, ModelOp *ops, guint n_ops, guint n_forward, guint n_recompute,
       gboolean overlap_tp, double host_layer_s)
{
  CostNumbers numbers;
  ModelProfile profile;
  CostContext context;
  hand_context (&context, &numbers, &profile);
  numbers.profile.host_layer_s = host_layer_s;
  ModelLayout layout = { .overlap_tp = overlap_tp };
  ModelSegment segment = { .part = MODEL_PART_BLOCK,
                           .ops = ops,
                           .n_ops = n_ops,
                           .n_forward = n_forward,
                           .n_recompute = n_recompute,
                           .input = MODEL_TENSOR_NONE,
                           .output = MODEL_TENSOR_NONE,
                           .input_grad = MODEL_TENSOR_NONE,
                           .output_grad = MODEL_TENSOR_NONE,
                           .rebuilt_output = MODEL_TENSOR_NONE };
  cost_block_init (block, &context, &layout, &segment);
}

static void
test_tp_exposure (void **state)
{
  ModelOp ops[] = {
    hand_collective (MODEL_PHASE_FORWARD, MODEL_STREAM_TP, MODEL_COLLECTIVE_ALL_GATHER, 40, 0),
    hand_gemm (MODEL_PHASE_FORWARD, 100, 0),
    /* gathered again beside a GEMM of 30: 10 show */
    hand_collective (MODEL_PHASE_BACKWARD_INPUT, MODEL_STREAM_TP, MODEL_COLLECTIVE_ALL_GATHER, 40,
                     MODEL_OP_REGATHER),
    hand_gemm (MODEL_PHASE_BACKWARD_INPUT, 30, 0),
    /* and beside one of 90: nothing shows */
    hand_collective (MODEL_PHASE_BACKWARD_INPUT, MODEL_STREAM_TP, MODEL_COLLECTIVE_ALL_GATHER, 40,
                     MODEL_OP_REGATHER),
    hand_gemm (MODEL_PHASE_BACKWARD_INPUT, 90, 0),
    hand_collective (MODEL_PHASE_BACKWARD_INPUT, MODEL_STREAM_TP, MODEL_COLLECTIVE_REDUCE_SCATTER,
                     40, 0),
    /* half of what is left of the reduction hides under as much of this */
    hand_gemm (MODEL_PHASE_BACKWARD_WEIGHT, 6, 0),
    /* with no weight gradient behind it all of it shows */
    hand_collective (MODEL_PHASE_BACKWARD_INPUT, MODEL_STREAM_TP, MODEL_COLLECTIVE_ALL_GATHER, 40,
                     0),
    hand_gemm (MODEL_PHASE_BACKWARD_INPUT, 90, 0),
  };
  CostBlock block;
  price (&block, ops, G_N_ELEMENTS (ops), 2, 0, TRUE, 0);
  assert_near (block.tp_s[COST_PASS_FORWARD], 40e-6, 1e-9);
  assert_near (block.exposed_tp_s[COST_PASS_FORWARD], 10e-6, 1e-9); /* 40 x (1 - .75) */
  assert_near (block.pass_s[COST_PASS_FORWARD], 110e-6, 1e-9);
  assert_near (block.tp_s[COST_PASS_BACKWARD_INPUT], 160e-6, 1e-9);
  /* 10, and 40 x .25 - .5 x min (10, 6), and 40 x .25 */
  assert_near (block.exposed_tp_s[COST_PASS_BACKWARD_INPUT], 27e-6, 1e-9);
  assert_near (block.pass_s[COST_PASS_BACKWARD_INPUT], 237e-6, 1e-9);
  assert_near (block.pass_s[COST_PASS_BACKWARD_WEIGHT], 6e-6, 1e-9);
  price (&block, ops, G_N_ELEMENTS (ops), 2, 0, FALSE, 0);
  assert_near (block.exposed_tp_s[COST_PASS_FORWARD], 36e-6, 1e-9); /* 40 x (1 - .1) */
  /* 10, and 36 - .5 x 6, and 36 */
  assert_near (block.exposed_tp_s[COST_PASS_BACKWARD_INPUT], 79e-6, 1e-9);
  assert_int_equal (block.largest_mlp_weight_count, 64 * 100);
}

static void
test_cp_and_ep_exposure (void **state)
{
  ModelOp ops[] = {
    hand_collective (MODEL_PHASE_FORWARD, MODEL_STREAM_CP, MODEL_COLLECTIVE_SEND_RECV, 50, 0),
    hand_attention (MODEL_PHASE_FORWARD, 30), /* hides 30 of 50 */
    hand_collective (MODEL_PHASE_FORWARD, MODEL_STREAM_EP, MODEL_COLLECTIVE_ALL_TO_ALL, 60, 0),
    /* two rings of 50 under 2.5 x 60 = 150: hidden; an all-gather shows */
    hand_collective (MODEL_PHASE_BACKWARD_INPUT, MODEL_STREAM_CP, MODEL_COLLECTIVE_SEND_RECV, 50,
                     0),
    hand_attention (MODEL_PHASE_BACKWARD_INPUT, 60),
    hand_collective (MODEL_PHASE_BACKWARD_INPUT, MODEL_STREAM_CP, MODEL_COLLECTIVE_SEND_RECV, 50,
                     0),
    hand_collective (MODEL_PHASE_BACKWARD_INPUT, MODEL_STREAM_CP, MODEL_COLLECTIVE_ALL_GATHER, 7,
                     0),
  };
  CostBlock block;
  price (&block, ops, G_N_ELEMENTS (ops), 3, 0, FALSE, 0);
  assert_near (block.cp_s[COST_PASS_FORWARD], 50e-6, 1e-9);
  assert_near (block.exposed_cp_s[COST_PASS_FORWARD], 20e-6, 1e-9);
  assert_near (block.ep_s[COST_PASS_FORWARD], 60e-6, 1e-9);
  assert_near (block.exposed_ep_s[COST_PASS_FORWARD], 30e-6, 1e-9);
  assert_near (block.pass_s[COST_PASS_FORWARD], 80e-6, 1e-9); /* 30 + 20 + 30 */
  assert_near (block.cp_s[COST_PASS_BACKWARD_INPUT], 107e-6, 1e-9);
  assert_near (block.exposed_cp_s[COST_PASS_BACKWARD_INPUT], 7e-6, 1e-9);
  assert_near (block.compute_s[COST_PASS_BACKWARD_INPUT], 150e-6, 1e-9);
}

static void
test_host_bound (void **state)
{
  ModelOp ops[] = {
    hand_norm (MODEL_PHASE_FORWARD, 20),
    hand_gemm (MODEL_PHASE_FORWARD, 40, 0),
    hand_norm (MODEL_PHASE_RECOMPUTE, 20),
    hand_gemm (MODEL_PHASE_BACKWARD_INPUT, 40, 0),
    hand_gemm (MODEL_PHASE_BACKWARD_WEIGHT, 40, 0),
  };
  CostBlock block;
  /* host 300 us: forward a third, 100; backward two thirds and half of forward's third again for
   * one of two ops rebuilt: 250, shared as 60 : 40 */
  price (&block, ops, G_N_ELEMENTS (ops), 2, 1, FALSE, 300e-6);
  assert_near (block.recompute_s, 20e-6, 1e-9);
  assert_near (block.pass_s[COST_PASS_FORWARD], 100e-6, 1e-9);
  assert_near (block.host_s[COST_PASS_FORWARD], 40e-6, 1e-9);
  assert_near (block.pass_s[COST_PASS_BACKWARD_INPUT], 150e-6, 1e-9);
  assert_near (block.pass_s[COST_PASS_BACKWARD_WEIGHT], 100e-6, 1e-9);
  /* host 90 us: forward 30 < 60, backward 75 < 100: not bound */
  price (&block, ops, G_N_ELEMENTS (ops), 2, 1, FALSE, 90e-6);
  assert_near (block.pass_s[COST_PASS_FORWARD], 60e-6, 1e-9);
  assert_true (block.host_s[COST_PASS_FORWARD] == 0);
  /* MoE with 5 local experts: 2 x 90 + 5 x 3 = 195: forward 65; the GEMM takes 5 x 8 = 40 */
  ops[1] = hand_gemm (MODEL_PHASE_FORWARD, 8, MODEL_OP_GROUPED);
  ops[1].batch = 5;
  price (&block, ops, G_N_ELEMENTS (ops), 2, 1, FALSE, 90e-6);
  assert_near (block.pass_s[COST_PASS_FORWARD], 65e-6, 1e-9);
}

/* ---- measured layers ---- */

/*
 * Korthikanti et al. 2022 (arXiv 2205.05198), table 4: one layer of the 22B model, micro-batch 4,
 * tensor parallel 8 on A100: forward and backward in ms. Within 10 %: these layers are among the
 * rows that the reference fits were made of only as whole steps.
 */
typedef struct {
  const char *name;
  gboolean sp;
  ModelRecomputeKind recompute;
  double forward_ms, backward_ms;
} LayerCase;

static const LayerCase layers[] = {
  { "layer/22b_baseline", FALSE, MODEL_RECOMPUTE_NONE, 7.7, 11.9 },
  { "layer/22b_sequence_parallel", TRUE, MODEL_RECOMPUTE_NONE, 7.2, 11.8 },
  { "layer/22b_full_recompute", FALSE, MODEL_RECOMPUTE_FULL, 7.7, 19.5 },
  { "layer/22b_selective", FALSE, MODEL_RECOMPUTE_SELECTIVE, 7.7, 13.2 },
  { "layer/22b_selective_sequence_parallel", TRUE, MODEL_RECOMPUTE_SELECTIVE, 7.2, 13.1 },
};

static void
test_layer (void **state)
{
  const LayerCase *c = *state;
  g_auto (Bench) bench = { 0 };
  g_autoptr (GError) error = NULL;
  bench_init (&bench, "dgx-a100-80g", "megatron");
  g_autoptr (ModelArch) arch = model_arch_load (bench.catalog, "megatron-22b", &error);
  assert_no_error (error);
  ModelJob job = { .phase = MODEL_PHASE_TRAIN, .seq = 2048, .global_batch = 4, .dropout = 0.1 };
  ModelLayout layout = { .tp = 8,
                         .cp = 1,
                         .pp = 1,
                         .vpp = 1,
                         .ep = 1,
                         .etp = 1,
                         .dp = 1,
                         .mbs = 4,
                         .sp = c->sp,
                         .attn = MODEL_ATTN_UNFUSED,
                         .dtype = MODEL_DTYPE_FP16,
                         .tp_sync = 1 };
  bench_place (&bench, &layout);
  g_autoptr (ModelSegment) segment = model_segment_new (arch, &job, &layout, bench.profile,
                                                        MODEL_PART_BLOCK, 0, c->recompute, &error);
  assert_no_error (error);
  CostBlock block;
  cost_block_init (&block, &bench.context, &layout, segment);
  double backward_s
      = block.pass_s[COST_PASS_BACKWARD_INPUT] + block.pass_s[COST_PASS_BACKWARD_WEIGHT];
  assert_near (block.pass_s[COST_PASS_FORWARD] * 1e3, c->forward_ms, 0.10);
  assert_near (backward_s * 1e3, c->backward_ms, 0.10);
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (layers) + 4];
  guint n = 0;
  for (gsize i = 0; i < G_N_ELEMENTS (layers); i++)
    tests[n++] = (struct CMUnitTest){ .name = layers[i].name,
                                      .test_func = test_layer,
                                      .initial_state = (void *)&layers[i] };
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_tp_exposure);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_cp_and_ep_exposure);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_host_bound);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_sum_of_ops);
  return _cmocka_run_group_tests ("costmodel_blockcost", tests, n, NULL, NULL);
}
