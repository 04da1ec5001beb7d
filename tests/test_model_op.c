/* FLOPs and bytes of single operations, worked out by hand. */
#include "model/layout.h"
#include "model/op.h"
#include "model/tensor.h"
#include "tests/testutil.h"

static void
test_gemm (void **state)
{
  ModelOp op = { .kind = MODEL_OP_GEMM, .m = 3, .n = 5, .k = 7, .batch = 2 };
  /* 2 · 3 · 5 · 7 · 2 */
  assert_near (model_op_flop (&op), 420, 0);
  /* 2 B · (3·7 + 7·5 + 3·5) · 2 */
  assert_near (model_op_hbm_bytes (&op), 284, 0);
  op.flags = MODEL_OP_ACCUMULATE;
  /* (2 B · 56 + 8 B · 15) · 2 */
  assert_near (model_op_hbm_bytes (&op), 464, 0);
  op.flags = MODEL_OP_ACCUMULATE_APART;
  /* 284 of the product, (2 + 4 + 4) B · 15 · 2 of the addition */
  assert_near (model_op_hbm_bytes (&op), 584, 0);
  op.flags = MODEL_OP_BIAS_GRAD_APART;
  /* 284, and the sum reads the gradient [7 tokens, 3 out] · 2 B · 2 */
  assert_near (model_op_hbm_bytes (&op), 368, 0);
  op.flags = 0;
  op.dtype = MODEL_DTYPE_FP8;
  /* (1 B · 56 + 2 B · 15) · 2 */
  assert_near (model_op_hbm_bytes (&op), 172, 0);
}

typedef struct {
  const char *name;
  ModelAttentionShape shape;
  ModelOpPhase phase;
  double flop, model_flop;
} AttentionCase;

static const AttentionCase attention_cases[] = {
  /* 100²/2 pairs · 2 · (8 + 8) · 3 heads */
  { "attention/causal",
    { .batch = 1, .heads = 3, .dim_qk = 8, .dim_v = 8, .seq_q = 100, .seq_kv = 100, .causal = 1 },
    MODEL_PHASE_FORWARD,
    480000,
    480000 },
  /* 100² pairs */
  { "attention/whole_square",
    { .batch = 1, .heads = 3, .dim_qk = 8, .dim_v = 8, .seq_q = 100, .seq_kv = 100 },
    MODEL_PHASE_FORWARD,
    960000,
    960000 },
  /* 100·10 − 10²/2 = 950 pairs · 2 · 16 · 3 */
  { "attention/window",
    { .batch = 1,
      .heads = 3,
      .dim_qk = 8,
      .dim_v = 8,
      .seq_q = 100,
      .seq_kv = 100,
      .window = 10,
      .causal = 1 },
    MODEL_PHASE_FORWARD,
    91200,
    91200 },
  /* a window longer than the sequence is none */
  { "attention/window_beyond_sequence",
    { .batch = 1,
      .heads = 3,
      .dim_qk = 8,
      .dim_v = 8,
      .seq_q = 100,
      .seq_kv = 100,
      .window = 101,
      .causal = 1 },
    MODEL_PHASE_FORWARD,
    480000,
    480000 },
  /* a quarter of the queries, 2 sequences */
  { "attention/context_parallel",
    { .batch = 2, .heads = 3, .dim_qk = 8, .dim_v = 8, .seq_q = 25, .seq_kv = 100, .causal = 1 },
    MODEL_PHASE_FORWARD,
    240000,
    240000 },
  /* MLA: 12 + 8 columns */
  { "attention/two_widths",
    { .batch = 1, .heads = 3, .dim_qk = 12, .dim_v = 8, .seq_q = 100, .seq_kv = 100, .causal = 1 },
    MODEL_PHASE_FORWARD,
    600000,
    600000 },
  { "attention/flash_backward_rebuilds_scores",
    { .batch = 1, .heads = 3, .dim_qk = 8, .dim_v = 8, .seq_q = 100, .seq_kv = 100, .causal = 1 },
    MODEL_PHASE_BACKWARD_INPUT,
    1200000,
    960000 },
  { "attention/unfused_backward",
    { .batch = 1,
      .heads = 3,
      .dim_qk = 8,
      .dim_v = 8,
      .seq_q = 100,
      .seq_kv = 100,
      .causal = 1,
      .kernel = MODEL_ATTN_UNFUSED },
    MODEL_PHASE_BACKWARD_INPUT,
    960000,
    960000 },
  { "attention/recompute_is_not_model_flop",
    { .batch = 1, .heads = 3, .dim_qk = 8, .dim_v = 8, .seq_q = 100, .seq_kv = 100, .causal = 1 },
    MODEL_PHASE_RECOMPUTE,
    480000,
    0 },
  { "attention/no_keys",
    { .batch = 1, .heads = 3, .dim_qk = 8, .dim_v = 8, .seq_q = 1, .seq_kv = 0, .causal = 1 },
    MODEL_PHASE_FORWARD,
    0,
    0 },
};

static void
test_attention (void **state)
{
  const AttentionCase *c = *state;
  ModelOp op = { .kind = MODEL_OP_ATTENTION, .phase = (guint8)c->phase, .attention = c->shape };
  assert_near (model_op_flop (&op), c->flop, 1e-12);
  assert_near (model_op_model_flop (&op), c->model_flop, 1e-12);
}

static void
test_memory_bound (void **state)
{
  ModelOp op = { .kind = MODEL_OP_NORM, .read_bytes = 3, .write_bytes = 4 };
  assert_near (model_op_flop (&op), 0, 0);
}

/* Uneven splits count the fullest rank: 10 rows over 4 ranks are 3, 7 columns over 2 are 4. */
static void
test_local_bytes (void **state)
{
  const guint32 mesh[MODEL_MESH_N_DIMS] = { 2, 4, 1, 1 };
  ModelTensor tensor = { .dtype = MODEL_DTYPE_BF16, .n_dims = 2, .shape = { 10, 7 } };
  assert_int_equal (model_tensor_local_bytes (&tensor, mesh), 140);
  tensor.placement[MODEL_MESH_CP] = (ModelPlacement){ .kind = MODEL_PLACEMENT_SHARD, .dim = 0 };
  assert_int_equal (model_tensor_local_bytes (&tensor, mesh), 3 * 7 * 2);
  tensor.placement[MODEL_MESH_TP] = (ModelPlacement){ .kind = MODEL_PLACEMENT_SHARD, .dim = 1 };
  assert_int_equal (model_tensor_local_bytes (&tensor, mesh), 3 * 4 * 2);
  tensor.placement[MODEL_MESH_TP].dim = 0; /* 10 over 8 */
  assert_int_equal (model_tensor_local_bytes (&tensor, mesh), 2 * 7 * 2);
  tensor.placement[MODEL_MESH_TP] = (ModelPlacement){ .kind = MODEL_PLACEMENT_PARTIAL };
  assert_int_equal (model_tensor_local_bytes (&tensor, mesh), 3 * 7 * 2);
  tensor.dtype = MODEL_DTYPE_NVFP4; /* 21 elements of 4 bits */
  assert_int_equal (model_tensor_local_bytes (&tensor, mesh), 11);
}

static void
test_names (void **state)
{
  for (guint i = 0; i < MODEL_OP_N_KINDS; i++)
    assert_non_null (model_op_kind_name ((ModelOpKind)i));
  for (guint i = 0; i < MODEL_COLLECTIVE_N_KINDS; i++)
    assert_non_null (model_collective_name ((ModelCollectiveKind)i));
}

int
main (void)
{
  static const struct CMUnitTest plain[] = {
    cmocka_unit_test (test_gemm),
    cmocka_unit_test (test_memory_bound),
    cmocka_unit_test (test_local_bytes),
    cmocka_unit_test (test_names),
  };
  struct CMUnitTest tests[G_N_ELEMENTS (plain) + G_N_ELEMENTS (attention_cases)];
  gsize n = 0;
  for (gsize i = 0; i < G_N_ELEMENTS (attention_cases); i++)
    tests[n++] = (struct CMUnitTest){ .name = attention_cases[i].name,
                                      .test_func = test_attention,
                                      .initial_state = (void *)&attention_cases[i] };
  for (gsize i = 0; i < G_N_ELEMENTS (plain); i++)
    tests[n++] = plain[i];
  return _cmocka_run_group_tests ("model_op", tests, n, NULL, NULL);
}
