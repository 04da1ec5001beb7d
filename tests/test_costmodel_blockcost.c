/* Block prices equal the sum of the op prices of the lowered program, on random layouts. */
#include "costmodel/blockcost.h"
#include "tests/costmodel_bench.h"

#include "base/philox.h"
#include "model/program.h"

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

int
main (void)
{
  const struct CMUnitTest tests[] = { cmocka_unit_test (test_sum_of_ops) };
  return cmocka_run_group_tests_name ("costmodel_blockcost", tests, NULL, NULL);
}
