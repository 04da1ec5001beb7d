/* Where a rank's parameters and gradients lie, and whose memory is whose while something runs beside
 * compute. */
#include "tests/exec_fixture.h"

/* Elements of the small llama, by hand: embedding and head 31·16 = 496 each; a layer has
 * qkv 32·16, proj 16·16, fc1 48·16 and fc2 16·24, together 1,920, and two norms of 16; one last norm.
 * Shards are whole 64s: 4,912 becomes 77·64 = 4,928, its half 39·64 = 2,496. */
enum { ENDS = 496, LAYER = 1920, NORMS = 5 * 16 };

typedef struct {
  const char *name;
  gboolean overlap_dp;
  guint64 bucket_elements;
  guint zero;
  guint32 dp, rank;
  guint n;
  ExecGradBucket
      want[5]; /* first, count, shard_count, own_first, state_first, n_writes, is_shared */
  guint64 padded_count, shard_count;
} BucketCase;

/* Two micro-batches per rank. Every norm and matrix gets one addition per micro-batch. */
static const BucketCase bucket_cases[] = {
  { "buckets/one_without_overlap",
    FALSE,
    1000,
    0,
    2,
    1,
    1,
    { { 0, NORMS + 2 * ENDS + 2 * LAYER, 4928, 0, 0, 30, TRUE } },
    4928,
    4928 },
  { "buckets/one_shared_by_two",
    FALSE,
    1000,
    1,
    2,
    1,
    1,
    { { 0, 4912, 2496, 2496, 0, 30, TRUE } },
    4992,
    2496 },
  /* the embedding alone is less than a bucket, the first layer fills it */
  { "buckets/by_layer",
    TRUE,
    1000,
    0,
    2,
    0,
    4,
    { { 0, NORMS, 128, 0, 0, 10, TRUE },
      { 128, ENDS + LAYER, 2432, 128, 128, 10, FALSE },
      { 2560, LAYER, LAYER, 2560, 2560, 8, FALSE },
      { 4480, ENDS, 512, 4480, 4480, 2, FALSE } },
    4992,
    4992 },
  /* thirds of 80, 2,416, 1,920 and 496 are 27, 806, 640 and 166, in whole 64s 64, 832, 640 and 192;
   * the third rank's begin two shards on */
  { "buckets/shards_are_padded",
    TRUE,
    1000,
    1,
    3,
    2,
    4,
    { { 0, NORMS, 64, 128, 0, 10, TRUE },
      { 192, 2416, 832, 192 + 1664, 64, 10, FALSE },
      { 2688, LAYER, 640, 2688 + 1280, 896, 8, FALSE },
      { 4608, ENDS, 192, 4608 + 384, 1536, 2, FALSE } },
    5184,
    1728 },
  { "buckets/0_elements_is_a_chunk",
    TRUE,
    0,
    0,
    2,
    0,
    2,
    { { 0, NORMS, 128, 0, 0, 10, TRUE }, { 128, 4832, 4864, 128, 128, 20, FALSE } },
    4992,
    4992 },
  { "buckets/alone_nothing_overlaps",
    TRUE,
    1000,
    0,
    1,
    0,
    1,
    { { 0, 4912, 4928, 0, 0, 30, TRUE } },
    4928,
    4928 },
};

static void
test_buckets (void **state)
{
  const BucketCase *c = *state;
  ExecFixture f;
  g_autoptr (GError) error = NULL;
  exec_fixture_llama (&f);
  f.profile.bucket_elements = c->bucket_elements;
  f.layout.overlap_dp = c->overlap_dp;
  f.layout.zero = c->zero;
  f.layout.dp = c->dp;
  f.layout.mbs = 1;
  f.job.global_batch = 2 * c->dp;
  g_autoptr (ExecRank) r = exec_rank_new (&f.arch, &f.job, &f.layout, &f.profile, c->rank, &error);
  assert_no_error (error);
  assert_int_equal (r->n_buckets, c->n);
  assert_int_equal (r->padded_count, c->padded_count);
  assert_int_equal (r->shard_count, c->shard_count);
  assert_int_equal (r->replicated_count, NORMS);
  for (guint i = 0; i < c->n; i++) {
    const ExecGradBucket *got = &r->buckets[i], *want = &c->want[i];
    assert_int_equal (got->first, want->first);
    assert_int_equal (got->count, want->count);
    assert_int_equal (got->shard_count, want->shard_count);
    assert_int_equal (got->own_first, want->own_first);
    assert_int_equal (got->state_first, want->state_first);
    assert_int_equal (got->n_writes, want->n_writes);
    assert_int_equal (got->is_shared, want->is_shared);
  }
  for (guint i = 0; i < r->n_params; i++) {
    const ExecParam *p = &r->params[i];
    const ExecGradBucket *b = &r->buckets[p->bucket];
    assert_true (p->offset >= b->first && p->offset + p->count <= b->first + b->count);
  }
}

/* Shards of any dp begin at whole 64s, cover their bucket, and are the rank's own in order. */
static void
test_shards_are_aligned (void **state)
{
  (void)state;
  for (guint32 dp = 1; dp <= 16; dp++)
    for (guint zero = 0; zero <= 1; zero++) {
      ExecFixture f;
      g_autoptr (GError) error = NULL;
      exec_fixture_llama (&f);
      f.profile.bucket_elements = 1000;
      f.layout.overlap_dp = TRUE;
      f.layout.zero = zero;
      f.layout.dp = dp;
      f.layout.mbs = 1;
      f.job.global_batch = dp;
      g_autoptr (ExecRank) r
          = exec_rank_new (&f.arch, &f.job, &f.layout, &f.profile, dp - 1, &error);
      assert_no_error (error);
      guint64 first = 0, states = 0;
      for (guint i = 0; i < r->n_buckets; i++) {
        const ExecGradBucket *b = &r->buckets[i];
        guint64 whole = b->shard_count * (zero > 0 ? dp : 1);
        assert_int_equal (b->first, first);
        assert_int_equal (b->state_first, states);
        assert_int_equal (b->shard_count % 64, 0);
        assert_int_equal (b->own_first + b->shard_count, first + whole); /* the last rank's */
        assert_true (whole >= b->count);
        assert_true (whole < b->count + 64 * (zero > 0 ? dp : 1));
        first += whole;
        states += b->shard_count;
      }
      assert_int_equal (r->padded_count, first);
      assert_int_equal (r->shard_count, states);
    }
}

static gboolean
is_live (const ExecMemory *m, guint32 tensor)
{
  return exec_memory_at (m, tensor, 0) != EXEC_ARENA_NONE;
}

/* What a reduction beside compute reads stays until compute has waited for it, and nobody else gets
 * it; ops that have nothing to do with it do not wait. */
static void
test_beside_keeps_its_memory (void **state)
{
  ExecFixture f;
  g_autoptr (GError) error = NULL;
  g_auto (ExecMemory) m = { 0 };
  exec_fixture_llama (&f);
  f.layout.tp = 2;
  f.layout.sp = f.layout.overlap_tp = TRUE;
  g_autoptr (ExecRank) r = exec_rank_new (&f.arch, &f.job, &f.layout, &f.profile, 0, &error);
  assert_no_error (error);
  assert_true (exec_memory_init (&m, r, G_MAXUINT64, &error));
  const ModelOpRange passes[] = { r->program->chunks[0].forward, r->program->chunks[0].backward };
  guint n_began = 0, n_under_way = 0;
  for (guint p = 0; p < G_N_ELEMENTS (passes); p++)
    for (guint32 i = passes[p].first; i < passes[p].first + passes[p].count; i++) {
      const ModelOp *op = &r->program->ops[i];
      ExecBeside ended;
      while (exec_memory_end_beside (&m, op, 0, &ended)) {
        gboolean reads = FALSE;
        for (guint j = 0; j < op->n_in; j++)
          reads |= op->in[j] == ended.op->out[0];
        assert_true (reads);
        assert_true (is_live (&m, ended.op->out[0]));
      }
      assert_true (exec_memory_before_op (&m, op, 0, &error));
      for (guint j = 0; j < m.beside->len; j++) {
        const ModelOp *other = g_array_index (m.beside, ExecBeside, j).op;
        assert_true (is_live (&m, other->in[0]) && is_live (&m, other->out[0]));
        for (guint k = 0; k < op->n_out; k++)
          if (r->param_of[op->out[k]] == MODEL_TENSOR_NONE && op != other)
            assert_true (exec_memory_at (&m, op->out[k], 0)
                         != exec_memory_at (&m, other->in[0], 0));
        n_under_way++;
      }
      if (exec_rank_runs_beside (r, op)) {
        assert_int_equal (exec_memory_begin_beside (&m, op, 0), n_began);
        n_began++;
      }
      exec_memory_after_op (&m, op, 0);
    }
  ExecBeside ended;
  while (exec_memory_end_beside (&m, NULL, 0, &ended))
    ;
  assert_int_equal (m.beside->len, 0);
  /* each layer: gather and reduce-scatter of attention and MLP, both ways, and both gathers again */
  assert_true (n_began >= 2 * 10);
  assert_true (n_under_way > 0);
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (bucket_cases) + 2];
  guint n = 0;
  for (gsize i = 0; i < G_N_ELEMENTS (bucket_cases); i++)
    tests[n++] = (struct CMUnitTest){ .name = bucket_cases[i].name,
                                      .test_func = test_buckets,
                                      .initial_state = (void *)&bucket_cases[i] };
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_shards_are_aligned);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_beside_keeps_its_memory);
  return cmocka_run_group_tests (tests, NULL, NULL);
}
