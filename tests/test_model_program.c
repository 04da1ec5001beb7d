/* Programs of pipeline ranks: boundaries, FSDP traffic, checkpoints, the tail. */
#include "model/program.h"
#include "tests/model_fixtures.h"

static ModelProgram *
program_of (const Fixture *f, guint32 pp_rank)
{
  g_autoptr (GError) error = NULL;
  ModelProgram *program
      = model_program_new (&f->arch, &f->job, &f->layout, &f->profile, pp_rank, &error);
  assert_no_error (error);
  assert_non_null (program);
  return program;
}

/* A small Llama: 8 layers, h 256, 8 heads, 4 kv heads, ffn 512, 128 tokens. */
static void
small (Fixture *f)
{
  fixture_llama (f, 256, 8, 4, 512, 8, 128);
  f->arch.vocab = 2048;
}

static guint
count_ops (const ModelProgram *program, ModelOpRange range, ModelOpKind kind,
           ModelCollectiveKind collective, ModelStream stream, guint64 *out_bytes)
{
  guint count = 0;
  guint64 bytes = 0;
  for (guint32 i = range.first; i < range.first + range.count; i++) {
    const ModelOp *op = &program->ops[i];
    if (op->kind != kind || op->stream != stream
        || (kind == MODEL_OP_COLLECTIVE && op->collective != collective))
      continue;
    count++;
    bytes += op->message_bytes;
  }
  if (out_bytes != NULL)
    *out_bytes = bytes;
  return count;
}

/* Interleaved, 2 ranks, 2 chunks each: stages 0 and 2 on rank 0, 1 and 3 on rank 1. */
static void
test_chunks_and_boundaries (void **state)
{
  Fixture f;
  small (&f);
  f.layout.tp = 2;
  f.layout.sp = TRUE;
  f.layout.pp = f.layout.vpp = 2;
  f.layout.schedule = MODEL_SCHEDULE_INTERLEAVED;
  f.layout.overlap_p2p = TRUE;
  for (guint32 rank = 0; rank < 2; rank++) {
    g_autoptr (ModelProgram) program = program_of (&f, rank);
    assert_int_equal (program->n_chunks, 2);
    assert_int_equal (program->microbatches, 8);
    for (guint32 i = 0; i < 2; i++) {
      const ModelChunk *chunk = &program->chunks[i];
      guint64 bytes;
      assert_int_equal (chunk->stage, 2 * i + rank);
      assert_int_equal (chunk->first_layer, 2 * chunk->stage);
      assert_int_equal (chunk->n_layers, 2);
      assert_int_equal (chunk->has_embedding, chunk->stage == 0);
      assert_int_equal (chunk->has_head, chunk->stage == 3);
      /* 128 tokens over tp 2, 256 wide, 2 B */
      assert_int_equal (count_ops (program, chunk->forward, MODEL_OP_RECV, 0, MODEL_STREAM_PP,
                                   &bytes),
                        chunk->stage > 0);
      assert_int_equal (bytes, chunk->stage > 0 ? 128 / 2 * 256 * 2 : 0);
      assert_int_equal (count_ops (program, chunk->forward, MODEL_OP_SEND, 0, MODEL_STREAM_PP,
                                   NULL),
                        chunk->stage < 3);
      assert_int_equal (count_ops (program, chunk->backward, MODEL_OP_RECV, 0, MODEL_STREAM_PP,
                                   NULL),
                        chunk->stage < 3);
      assert_int_equal (count_ops (program, chunk->backward, MODEL_OP_SEND, 0, MODEL_STREAM_PP,
                                   NULL),
                        chunk->stage > 0);
    }
  }
}

/* 10 units (embedding, 8 blocks, head); the head is not freed after forward. */
static void
test_fsdp (void **state)
{
  Fixture f;
  small (&f);
  f.layout.dp = 4;
  f.layout.zero = 3;
  for (guint reshard = 0; reshard < 2; reshard++) {
    f.profile.reshard_after_forward = reshard;
    g_autoptr (ModelProgram) program = program_of (&f, 0);
    const ModelChunk *chunk = &program->chunks[0];
    guint64 bytes;
    assert_int_equal (count_ops (program, chunk->forward, MODEL_OP_COLLECTIVE,
                                 MODEL_COLLECTIVE_ALL_GATHER, MODEL_STREAM_DP, &bytes),
                      10);
    /* the contract's tiny model: 5,771,520 parameters, 2 B gathered, 4 B reduced */
    assert_int_equal (bytes, 2 * 5771520);
    assert_int_equal (count_ops (program, chunk->backward, MODEL_OP_COLLECTIVE,
                                 MODEL_COLLECTIVE_ALL_GATHER, MODEL_STREAM_DP, NULL),
                      reshard ? 9 : 0);
    assert_int_equal (count_ops (program, chunk->backward, MODEL_OP_COLLECTIVE,
                                 MODEL_COLLECTIVE_REDUCE_SCATTER, MODEL_STREAM_DP, &bytes),
                      10);
    assert_int_equal (bytes, 4 * 5771520);
    assert_int_equal (program->tail.count, 1); /* Adam */
  }
}

static guint64
kept_bytes (const ModelProgram *program)
{
  guint64 bytes = 0;
  for (guint32 i = 0; i < program->n_tensors; i++)
    if (program->tensors[i].kept && program->tensors[i].role != MODEL_ROLE_LOGITS)
      bytes += program->tensors[i].local_bytes;
  return bytes;
}

typedef struct {
  const char *name;
  ModelRecompute recompute;
  double inputs, blocks; /* checkpoints of 2h, and whole blocks, kept per token */
} CheckpointCase;

static const CheckpointCase checkpoint_cases[] = {
  { "checkpoint/none", { .kind = MODEL_RECOMPUTE_NONE }, 0, 8 },
  { "checkpoint/uniform_1",
    { .kind = MODEL_RECOMPUTE_FULL, .method = MODEL_RECOMPUTE_UNIFORM, .n = 1 },
    8,
    0 },
  { "checkpoint/uniform_2",
    { .kind = MODEL_RECOMPUTE_FULL, .method = MODEL_RECOMPUTE_UNIFORM, .n = 2 },
    4,
    0 },
  { "checkpoint/uniform_3_uneven",
    { .kind = MODEL_RECOMPUTE_FULL, .method = MODEL_RECOMPUTE_UNIFORM, .n = 3 },
    3,
    0 },
  { "checkpoint/uniform_beyond_the_stage",
    { .kind = MODEL_RECOMPUTE_FULL, .method = MODEL_RECOMPUTE_UNIFORM, .n = 100 },
    1,
    0 },
  { "checkpoint/block_3",
    { .kind = MODEL_RECOMPUTE_FULL, .method = MODEL_RECOMPUTE_BLOCK, .n = 3 },
    3,
    5 },
};

/* Beside the blocks: 8 B token ids, norm input and output of the head (4h). A block keeps
 * 12h + 4h·k/a + 6f + 4a = 12·256 + 512 + 6·512 + 32 per token. */
static void
test_checkpoints (void **state)
{
  const CheckpointCase *c = *state;
  Fixture f;
  small (&f);
  f.layout.recompute = c->recompute;
  g_autoptr (ModelProgram) program = program_of (&f, 0);
  double per_token
      = 8 + 4 * 256 + c->inputs * 2 * 256 + c->blocks * (12 * 256 + 512 + 6 * 512 + 32);
  assert_int_equal (kept_bytes (program), (guint64)(128 * per_token));
}

/* Full recompute repeats the blocks' forward; flash backward rebuilds half a forward's scores. */
static void
test_recompute_flop (void **state)
{
  Fixture f;
  ModelProgramFlop none, full;
  small (&f);
  g_autoptr (ModelProgram) plain = program_of (&f, 0);
  model_program_flop (plain, &none);
  f.layout.recompute
      = (ModelRecompute){ .kind = MODEL_RECOMPUTE_FULL, .method = MODEL_RECOMPUTE_UNIFORM, .n = 1 };
  g_autoptr (ModelProgram) checkpointed = program_of (&f, 0);
  model_program_flop (checkpointed, &full);
  /* 8 sequences of 128 tokens, 8 layers; matrices h·(2h + 3·512) with q, o of h² and k, v of h²/2 */
  double attention = 2.0 * 8 * (128.0 * 128 / 2) * 64 * 8 * 8;
  double matrices = 2.0 * 256 * (256 + 256 + 256 + 3 * 512) * 128 * 8 * 8;
  assert_near (none.recompute_flop, attention / 2, 1e-12);
  assert_near (full.recompute_flop, attention / 2 + attention + matrices, 1e-12);
  assert_near (full.model_flop, none.model_flop, 1e-12);
  double head = 2.0 * 256 * 2048 * 128 * 8;
  assert_near (none.model_flop, 3 * (attention + matrices + head), 1e-12);
  assert_near (model_step_flop (&f.arch, &f.job), none.model_flop, 1e-12);
}

typedef struct {
  const char *name;
  guint32 zero, pp, hsdp;
  double reduce_scatter, all_reduce, all_gather; /* bytes per parameter of 1000 */
  double adam_share;
} TailCase;

/* 1000 parameters over dp = 4: gradients 4 B, parameters 2 B. */
static const TailCase tail_cases[] = {
  { "tail/zero0", 0, 1, 0, 0, 4, 0, 1 },
  { "tail/zero1", 1, 1, 0, 4, 0, 2, 0.25 },
  { "tail/zero2_reduced_before", 2, 1, 0, 0, 0, 2, 0.25 },
  { "tail/zero2_pipelined", 2, 2, 0, 4, 0, 2, 0.25 },
  { "tail/zero3", 3, 1, 0, 0, 0, 0, 0.25 },
  { "tail/zero3_pipelined", 3, 2, 0, 4, 0, 2, 0.25 },
  { "tail/hsdp2", 3, 1, 2, 0, 2, 0, 0.5 },
};

static void
test_tail (void **state)
{
  const TailCase *c = *state;
  Fixture f;
  small (&f);
  f.layout.dp = 4;
  f.layout.zero = (guint8)c->zero;
  f.layout.pp = c->pp;
  f.layout.hsdp = c->hsdp;
  g_autoptr (GArray) ops = g_array_new (FALSE, FALSE, sizeof (ModelOp));
  model_lower_tail (&f.arch, &f.layout, &f.profile, 1000, 0, 0, FALSE, ops);
  double bytes[MODEL_COLLECTIVE_N_KINDS] = { 0 }, adam[2] = { 0, 0 };
  for (guint i = 0; i < ops->len; i++) {
    const ModelOp *op = &g_array_index (ops, ModelOp, i);
    assert_int_equal (op->phase, MODEL_PHASE_TAIL);
    if (op->kind == MODEL_OP_COLLECTIVE)
      bytes[op->collective] += (double)op->message_bytes;
    adam[0] += (double)op->read_bytes;
    adam[1] += (double)op->write_bytes;
  }
  assert_near (bytes[MODEL_COLLECTIVE_REDUCE_SCATTER], 1000 * c->reduce_scatter, 0);
  assert_near (bytes[MODEL_COLLECTIVE_ALL_REDUCE], 1000 * c->all_reduce, 0);
  assert_near (bytes[MODEL_COLLECTIVE_ALL_GATHER], 1000 * c->all_gather, 0);
  /* reads gradient 2 x 4 + weight 4 + moments 8, writes weight 4 + moments 8 + copy 2 */
  assert_near (adam[0], 20000 * c->adam_share, 0);
  assert_near (adam[1], 14000 * c->adam_share, 0);
}

/* Tied matrix on two stages: its gradient is summed over the pair, 4 B of 2048·256. With sequence
 * parallelism the norms' gradients (17 of 256) are summed over tp. */
static void
test_shared_gradients (void **state)
{
  Fixture f;
  small (&f);
  f.arch.tied = TRUE;
  f.layout.pp = 2;
  f.layout.tp = 2;
  f.layout.sp = TRUE;
  for (guint32 rank = 0; rank < 2; rank++) {
    g_autoptr (ModelProgram) program = program_of (&f, rank);
    guint64 bytes;
    assert_int_equal (count_ops (program, program->tail, MODEL_OP_COLLECTIVE,
                                 MODEL_COLLECTIVE_ALL_REDUCE, MODEL_STREAM_PP, &bytes),
                      1);
    assert_int_equal (bytes, 4 * 2048 / 2 * 256);
    assert_int_equal (count_ops (program, program->tail, MODEL_OP_COLLECTIVE,
                                 MODEL_COLLECTIVE_ALL_REDUCE, MODEL_STREAM_TP, &bytes),
                      1);
    assert_int_equal (bytes, (8 + rank) * 256 * 4);
    /* blocks: h·(2h + h + 3·512)/2 + 2h norms; embedding on both stages */
    assert_int_equal (program->weight_count,
                      4 * (256 * (768 + 1536) / 2 + 512) + 2048 / 2 * 256 + rank * 256);
  }
}

typedef struct {
  const char *name;
  guint32 pp, vpp;
  ModelScheduleKind schedule;
  guint32 stages[2];
  const char *message;
} RefusalCase;

static const RefusalCase refusals[] = {
  { "refuse/empty_stage", 2, 1, MODEL_SCHEDULE_1F1B, { 8, 0 }, "layer" },
  { "refuse/wrong_sum", 2, 1, MODEL_SCHEDULE_1F1B, { 4, 5 }, "sum" },
  { "refuse/more_stages_than_layers", 16, 1, MODEL_SCHEDULE_1F1B, { 0, 0 }, "layer" },
};

static void
test_refusals (void **state)
{
  const RefusalCase *c = *state;
  Fixture f;
  g_autoptr (GError) error = NULL;
  small (&f);
  f.layout.pp = c->pp;
  f.layout.vpp = c->vpp;
  f.layout.schedule = c->schedule;
  guint32 stages[2] = { c->stages[0], c->stages[1] };
  f.layout.stage_layers = c->pp == 2 ? stages : NULL;
  assert_null (model_program_new (&f.arch, &f.job, &f.layout, &f.profile, 0, &error));
  assert_non_null (error);
  assert_int_equal (error->code, MODEL_ERROR_ILLEGAL);
  assert_non_null (strstr (error->message, c->message));
}

typedef struct {
  const char *name;
  ModelScheduleKind schedule;
  guint copies;        /* of the model's weights over the pipeline */
  guint32 messages[4]; /* sends of ranks 0 … 3, forward and backward ranges together */
} PlacementCase;

/*
 * Four ranks. V: each chunk but the ends of the way sends forward and backward; rank 3 hands over
 * to itself, so it sends for one of each only. Rank 0: F of chunk 0 on, I of chunk 1 back; ranks 1
 * and 2: both of both. Both directions: a stage of each; rank 0 is the first of one and the last of
 * the other, and sends like in V.
 */
static const PlacementCase placement_cases[] = {
  { "placement/zb_h1", MODEL_SCHEDULE_ZB_H1, 1, { 1, 2, 2, 1 } },
  { "placement/zb_v", MODEL_SCHEDULE_ZB_V, 1, { 2, 4, 4, 2 } },
  { "placement/dualpipev", MODEL_SCHEDULE_DUALPIPEV, 1, { 2, 4, 4, 2 } },
  { "placement/dualpipe", MODEL_SCHEDULE_DUALPIPE, 2, { 2, 4, 4, 2 } },
};

static void
test_placements (void **state)
{
  const PlacementCase *c = *state;
  Fixture f;
  small (&f);
  f.layout.pp = 4;
  f.layout.vpp = model_schedule_chunks (c->schedule);
  f.layout.schedule = c->schedule;
  f.job.global_batch = 8 * f.layout.dp * f.layout.mbs;
  guint64 weights = 0, layers = 0;
  double flop_sum = 0;
  for (guint32 rank = 0; rank < 4; rank++) {
    g_autoptr (ModelProgram) program = program_of (&f, rank);
    ModelProgramFlop flop;
    guint32 sends = 0;
    model_program_flop (program, &flop);
    flop_sum += flop.model_flop;
    weights += program->weight_count;
    for (guint32 i = 0; i < program->n_chunks; i++)
      layers += program->chunks[i].n_layers;
    for (guint32 i = 0; i < program->n_ops; i++)
      sends += program->ops[i].kind == MODEL_OP_SEND;
    assert_int_equal (sends, c->messages[rank]);
  }
  Fixture one;
  small (&one);
  one.job.global_batch = f.job.global_batch;
  g_autoptr (ModelProgram) whole = program_of (&one, 0);
  guint64 apart
      = f.arch.tied && c->schedule == MODEL_SCHEDULE_ZB_H1 ? f.arch.vocab * f.arch.hidden : 0;
  assert_int_equal (layers, c->copies * f.arch.layers);
  assert_int_equal (weights, c->copies * whole->weight_count + apart);
  assert_near (flop_sum * f.layout.tp * f.layout.dp * f.layout.cp,
               model_step_flop (&f.arch, &f.job), 1e-9);
}

/* Prefill is forward only: no gradients, no tail. */
static void
test_prefill (void **state)
{
  Fixture f;
  small (&f);
  f.job.phase = MODEL_PHASE_PREFILL;
  g_autoptr (ModelProgram) program = program_of (&f, 0);
  assert_int_equal (program->chunks[0].backward.count, 0);
  assert_int_equal (program->tail.count, 0);
  assert_int_equal (kept_bytes (program), 0);
  ModelProgramFlop flop;
  model_program_flop (program, &flop);
  assert_near (flop.model_flop, model_step_flop (&f.arch, &f.job), 1e-12);
  f.job.phase = MODEL_PHASE_DECODE;
  g_autoptr (GError) error = NULL;
  assert_null (model_program_new (&f.arch, &f.job, &f.layout, &f.profile, 0, &error));
  assert_int_equal (error->code, MODEL_ERROR_UNSUPPORTED);
}

int
main (void)
{
  static const struct CMUnitTest plain[] = {
    cmocka_unit_test (test_chunks_and_boundaries),
    cmocka_unit_test (test_fsdp),
    cmocka_unit_test (test_recompute_flop),
    cmocka_unit_test (test_shared_gradients),
    cmocka_unit_test (test_prefill),
  };
  struct CMUnitTest tests[64];
  gsize n = 0;
  ADD_ROWS (checkpoint_cases, test_checkpoints);
  ADD_ROWS (tail_cases, test_tail);
  ADD_ROWS (refusals, test_refusals);
  ADD_ROWS (placement_cases, test_placements);
  for (gsize i = 0; i < G_N_ELEMENTS (plain); i++)
    tests[n++] = plain[i];
  return _cmocka_run_group_tests ("model_program", tests, n, NULL, NULL);
}
