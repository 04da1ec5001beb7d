/* Kernels that a block has beside its products by the switches of a profile: additions to gradients,
 * sums of bias gradients, copies around attention. */
#include "tests/model_fixtures.h"

/* Weight gradients add up in an fp32 buffer: in the GEMM itself, or, where they are made in 16 bits
 * beside it (nanotron, DeepSpeed's BF16_Optimizer), by a kernel of their own; without such a buffer
 * not at all. qkv, proj, fc1 (gate and up in one) and fc2: four products. */
static void
test_accumulation (void **state)
{
  static const struct {
    double grad_bytes, main_grad_bytes;
    guint16 flags;
  } cases[] = { { 0, 4, MODEL_OP_ACCUMULATE }, { 2, 4, MODEL_OP_ACCUMULATE_APART }, { 2, 0, 0 } };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    Fixture f;
    guint n = 0;
    fixture_llama (&f, 4096, 32, 8, 14336, 32, 4096);
    f.profile.grad_bytes = cases[i].grad_bytes;
    f.profile.main_grad_bytes = cases[i].main_grad_bytes;
    g_autoptr (ModelSegment) segment
        = fixture_segment (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_NONE);
    for (guint k = 0; k < segment->n_ops; k++) {
      const ModelOp *op = &segment->ops[k];
      guint16 flags = op->flags & (MODEL_OP_ACCUMULATE | MODEL_OP_ACCUMULATE_APART);
      gboolean is_weight = op->kind == MODEL_OP_GEMM && op->phase == MODEL_PHASE_BACKWARD_WEIGHT;
      assert_int_equal (flags, is_weight ? cases[i].flags : 0);
      n += is_weight;
    }
    assert_int_equal (n, 4);
  }
}

static double
bias_grad_bytes (const Fixture *f)
{
  g_autoptr (ModelSegment) segment = fixture_segment (f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_NONE);
  double bytes = 0;
  for (guint i = 0; i < segment->n_ops; i++)
    bytes += model_op_bias_grad_bytes (&segment->ops[i]);
  return bytes;
}

/* Sums over the 4,096 tokens of the gradients of qkv (3h), proj (h), fc1 (4h) and fc2 (h) at two
 * bytes: tp splits qkv and fc1, and with sequence parallelism the tokens of the other two, whose
 * eighth is left out. */
static void
test_bias_gradients (void **state)
{
  const double h = 6144, tokens_bytes = 2 * 4096;
  Fixture f;
  fixture_gpt (&f, 6144, 64, 48, 2048, 0.1);
  f.layout.mbs = 2;
  assert_near (bias_grad_bytes (&f), 9 * h * tokens_bytes, 0);
  f.layout.tp = 8;
  assert_near (bias_grad_bytes (&f), (7. / 8 + 2) * h * tokens_bytes, 0);
  f.layout.sp = TRUE;
  assert_near (bias_grad_bytes (&f), 7. / 8 * h * tokens_bytes, 0);
  f.profile.fused_bias_grad = TRUE;
  assert_near (bias_grad_bytes (&f), 0, 0);
  fixture_llama (&f, 4096, 32, 8, 14336, 32, 4096);
  assert_near (bias_grad_bytes (&f), 0, 0);
}

/* Bytes of the copies of @phase: each reads and writes its tensor once. */
static guint64
copied_bytes (const ModelSegment *segment, ModelOpPhase phase)
{
  guint64 bytes = 0;
  for (guint i = 0; i < segment->n_ops; i++) {
    const ModelOp *op = &segment->ops[i];
    if (op->kind == MODEL_OP_CAST && op->phase == phase)
      bytes += op->read_bytes + op->write_bytes;
  }
  return bytes;
}

/* 4,096 tokens, q of 4,096 and k, v of 1,024 each, gate and up of 14,336. Flash attention keeps its
 * own output besides the copy that the projection keeps. */
static void
test_attention_copies (void **state)
{
  const guint64 q = 4096ull * 4096 * 2, kv = 2 * 4096ull * 1024 * 2, fc1 = 2 * 4096ull * 14336 * 2;
  Fixture f;
  fixture_llama (&f, 4096, 32, 8, 14336, 32, 4096);
  ModelSegmentMemory before = fixture_memory (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_NONE);
  f.profile.qkv_copies = 1;
  f.profile.kv_copies = 2;
  {
    g_autoptr (ModelSegment) segment
        = fixture_segment (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_NONE);
    ModelSegmentMemory memory;
    model_segment_memory (segment, &memory);
    assert_int_equal (copied_bytes (segment, MODEL_PHASE_FORWARD), 2 * (q + 3 * kv));
    assert_int_equal (copied_bytes (segment, MODEL_PHASE_BACKWARD_INPUT), 2 * (q + 3 * kv));
    assert_int_equal (memory.kept_bytes, before.kept_bytes);
  }
  f.profile.core_copies = 1;
  f.profile.joins_grads = TRUE;
  {
    g_autoptr (ModelSegment) segment
        = fixture_segment (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_NONE);
    ModelSegmentMemory memory;
    model_segment_memory (segment, &memory);
    assert_int_equal (copied_bytes (segment, MODEL_PHASE_FORWARD), 2 * (2 * q + 3 * kv));
    assert_int_equal (copied_bytes (segment, MODEL_PHASE_BACKWARD_INPUT),
                      2 * (3 * q + 4 * kv + fc1));
    assert_int_equal (memory.kept_bytes, before.kept_bytes + q);
  }
  /* a rank has a quarter of it where tp splits the heads and cp the tokens */
  f.layout.tp = f.layout.cp = 2;
  f.layout.sp = TRUE;
  {
    g_autoptr (ModelSegment) segment
        = fixture_segment (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_NONE);
    assert_int_equal (copied_bytes (segment, MODEL_PHASE_FORWARD), (2 * q + 3 * kv) / 2);
    assert_int_equal (copied_bytes (segment, MODEL_PHASE_BACKWARD_INPUT),
                      (3 * q + 4 * kv + fc1) / 2);
  }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_accumulation),
    cmocka_unit_test (test_bias_gradients),
    cmocka_unit_test (test_attention_copies),
  };
  return cmocka_run_group_tests_name ("kernels", tests, NULL, NULL);
}
