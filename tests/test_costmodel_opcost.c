/* Ops on machines of the catalog: dtypes, groups, and how each kind is priced. */
#include "tests/costmodel_bench.h"

static ModelLayout
layout_of (guint32 tp, guint32 ep, guint32 dp)
{
  return (ModelLayout){ .tp = tp,
                        .cp = 1,
                        .pp = 1,
                        .vpp = 1,
                        .ep = ep,
                        .etp = 1,
                        .dp = dp,
                        .mbs = 1,
                        .tp_sync = 1,
                        .dtype = MODEL_DTYPE_BF16 };
}

typedef struct {
  const char *name;
  const char *machine;
  ModelDtype dtype;
  const char *message; /* NULL: it can; else a part of the refusal */
} DtypeCase;

/* Peaks of reference "gpus": V100 has fp16 only, A100 16 bits, Hopper fp8, Blackwell the rest. */
static const DtypeCase dtype_cases[] = {
  { "dtype/v100_fp16", "dgx-1v-32g", MODEL_DTYPE_FP16, NULL },
  { "dtype/v100_bf16", "dgx-1v-32g", MODEL_DTYPE_BF16, "use one of fp16, fp32" },
  { "dtype/a100_bf16", "dgx-a100-80g", MODEL_DTYPE_BF16, NULL },
  { "dtype/a100_fp8", "dgx-a100-80g", MODEL_DTYPE_FP8,
    "'a100-sxm-80g' has no known peak for dtype=fp8" },
  { "dtype/h100_fp8", "hgx-h100", MODEL_DTYPE_FP8, NULL },
  { "dtype/h100_mxfp8", "hgx-h100", MODEL_DTYPE_MXFP8, "use one of bf16, fp16, fp8, fp32" },
  { "dtype/h100_nvfp4", "hgx-h100", MODEL_DTYPE_NVFP4, "dtype=nvfp4" },
  { "dtype/b200_mxfp8", "hgx-b200", MODEL_DTYPE_MXFP8, NULL },
  { "dtype/b200_nvfp4", "hgx-b200", MODEL_DTYPE_NVFP4, NULL },
};

static void
test_dtype (void **state)
{
  const DtypeCase *c = *state;
  ModelLayout layout = layout_of (8, 1, 1);
  g_auto (Bench) bench = { 0 };
  g_autoptr (GError) error = NULL;
  bench_init (&bench, c->machine, "megatron");
  bench_place (&bench, &layout);
  gboolean can = cost_context_check_dtype (&bench.context, c->dtype, &error);
  ModelOp op = {
    .kind = MODEL_OP_GEMM, .dtype = (guint8)c->dtype, .m = 4096, .n = 4096, .k = 4096, .batch = 1
  };
  assert_int_equal (isfinite (cost_op_s (&bench.context, &op)), can);
  if (c->message == NULL) {
    assert_no_error (error);
    assert_true (can);
    return;
  }
  assert_false (can);
  assert_true (g_error_matches (error, COST_ERROR, COST_ERROR_NO_DATA));
  if (strstr (error->message, c->message) == NULL)
    fail_msg ("message lacks '%s': %s", c->message, error->message);
}

/* A norm that moves 134217728 B on H100, megatron: 134217728 x 1.3 / (3350e9 x .79) = 65.93 us
 * and one launch of 2.51 us. A cast moves the same without the factor: 50.72 us. Where backward was
 * found to take .5 of its bytes it takes 32.965 us less, and forward is as it was. */
static void
test_memory_bound (void **state)
{
  ModelLayout layout = layout_of (8, 1, 1);
  g_auto (Bench) bench = { 0 };
  bench_init (&bench, "hgx-h100", "megatron");
  bench_place (&bench, &layout);
  ModelOp op = { .kind = MODEL_OP_NORM, .read_bytes = 1 << 26, .write_bytes = 1 << 26 };
  assert_near (cost_op_s (&bench.context, &op), (65.93 + 2.51) * 1e-6, 1e-3);
  bench.numbers.gpu.kernel_backward[MODEL_OP_NORM] = 0.5;
  double forward_s = cost_op_s (&bench.context, &op);
  assert_near (forward_s, (65.93 + 2.51) * 1e-6, 1e-3);
  op.phase = MODEL_PHASE_BACKWARD_INPUT;
  assert_near (forward_s - cost_op_s (&bench.context, &op), 32.965e-6, 1e-3);
  op.kind = MODEL_OP_CAST;
  assert_near (cost_op_s (&bench.context, &op), (50.72 + 2.51) * 1e-6, 1e-3);
  op.kind = MODEL_OP_SEND;
  assert_true (cost_op_s (&bench.context, &op) == 0);
  op.kind = MODEL_OP_RECV;
  assert_true (cost_op_s (&bench.context, &op) == 0);
}

/* Same op, different flags: what each flag does to the plain GEMM. */
static void
test_gemm_flags (void **state)
{
  ModelLayout layout = layout_of (8, 1, 1);
  g_auto (Bench) bench = { 0 };
  bench_init (&bench, "hgx-h100", "megatron");
  bench_place (&bench, &layout);
  ModelOp op = {
    .kind = MODEL_OP_GEMM, .dtype = MODEL_DTYPE_BF16, .m = 4096, .n = 4096, .k = 4096, .batch = 1
  };
  double plain_s = cost_op_s (&bench.context, &op);
  assert_near (plain_s, cost_gemm_s (&bench.context.gemm[MODEL_DTYPE_BF16], 4096, 4096, 4096, 1),
               0);
  op.flags = MODEL_OP_HEAD;
  assert_near (cost_op_s (&bench.context, &op), 1.2 * plain_s, 1e-12);
  op.flags = MODEL_OP_ACCUMULATE;
  assert_true (cost_op_s (&bench.context, &op) > plain_s);
  /* apart: a copy's kernel moves 2 + 4 + 4 B of 4096² elements: 167772160 / (3350e9 x .79) */
  op.flags = MODEL_OP_ACCUMULATE_APART;
  assert_near (cost_op_s (&bench.context, &op) - plain_s, (63.39 + 2.51) * 1e-6, 1e-3);
  /* a bias gradient apart: reads 2 B of 4096² elements, at the pace of megatron's kernels (1.3) */
  op.flags = MODEL_OP_BIAS_GRAD_APART;
  assert_near (cost_op_s (&bench.context, &op) - plain_s, (12.679 * 1.3 + 2.548) * 1e-6, 1e-4);
  op.flags = 0;
  op.dtype = MODEL_DTYPE_FP32; /* 67 of 989 TFLOP/s: a router GEMM is slow */
  assert_true (cost_op_s (&bench.context, &op) > 10 * plain_s);

  /* grouped: one launch shares the waves, a loop pays each expert */
  op.dtype = MODEL_DTYPE_BF16;
  op.flags = MODEL_OP_GROUPED;
  op.m = 300;
  op.batch = 16;
  bench.profile->grouped_gemm = TRUE;
  double together_s = cost_op_s (&bench.context, &op);
  CostGemmContext gemm = bench.context.gemm[MODEL_DTYPE_BF16];
  assert_near (together_s, 1.135 * cost_gemm_s (&gemm, 300, 4096, 4096, 16), 1e-12);
  bench.profile->grouped_gemm = FALSE;
  double loop_s = cost_op_s (&bench.context, &op);
  assert_near (loop_s, 16 * cost_gemm_s (&gemm, 300, 4096, 4096, 1), 1e-12);
  assert_true (loop_s > together_s);
}

/* Groups land where ranks do: tp 8 in one node of 8, dp 4 over nodes; ep 8 = the tp ranks' node. */
static void
test_groups (void **state)
{
  ModelLayout layout = layout_of (8, 8, 4);
  g_auto (Bench) bench = { 0 };
  bench_init (&bench, "hgx-h100", "megatron");
  bench_place (&bench, &layout);
  const TopoGroupShape *shapes = bench.context.shapes;
  assert_int_equal (shapes[MODEL_GROUP_TP].ranks, 8);
  assert_int_equal (shapes[MODEL_GROUP_TP].domains, 1);
  assert_int_equal (shapes[MODEL_GROUP_DP].ranks, 4);
  assert_int_equal (shapes[MODEL_GROUP_DP].domains, 4);
  assert_int_equal (shapes[MODEL_GROUP_EP].domains, 1);
  assert_int_equal (shapes[MODEL_GROUP_PP].ranks, 1);

  ModelOp op = { .kind = MODEL_OP_COLLECTIVE,
                 .collective = MODEL_COLLECTIVE_ALL_REDUCE,
                 .group = MODEL_GROUP_TP,
                 .message_bytes = 1 << 27 };
  double tp_s = cost_op_s (&bench.context, &op);
  assert_near (tp_s,
               cost_collective_s (&bench.context.groups[MODEL_GROUP_TP],
                                  MODEL_COLLECTIVE_ALL_REDUCE, 1 << 27),
               0);
  op.group = MODEL_GROUP_DP;
  assert_true (cost_op_s (&bench.context, &op) > tp_s);
  op.group = MODEL_GROUP_PP;
  assert_true (cost_op_s (&bench.context, &op) == 0);

  CostContext some;
  ModelRankMap map;
  model_rankmap_init (&map, &layout);
  cost_context_init_groups (&some, bench.machine, bench.profile, &bench.numbers, &map,
                            COST_SEGMENT_GROUPS);
  assert_memory_equal (&some.groups[MODEL_GROUP_TP], &bench.context.groups[MODEL_GROUP_TP],
                       sizeof (CostGroup));
  assert_int_equal (some.groups[MODEL_GROUP_DP].ranks, 1);
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (dtype_cases) + 3];
  guint n = 0;
  for (gsize i = 0; i < G_N_ELEMENTS (dtype_cases); i++)
    tests[n++] = (struct CMUnitTest){ .name = dtype_cases[i].name,
                                      .test_func = test_dtype,
                                      .initial_state = (void *)&dtype_cases[i] };
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_memory_bound);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_gemm_flags);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_groups);
  return _cmocka_run_group_tests ("costmodel_opcost", tests, n, NULL, NULL);
}
