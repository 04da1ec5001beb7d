/* Laws that hold for every model and layout, on random ones. */
#include "base/catalog.h"
#include "base/philox.h"
#include "model/program.h"
#include "tests/model_fixtures.h"

enum { N_CASES = 600 };

/* Random numbers of one case. */
typedef struct {
  guint64 stream, next;
} Draw;

static guint64
below (Draw *draw, guint64 bound)
{
  return base_philox_below (20251130, draw->stream, draw->next++, bound);
}

static guint32
one_of (Draw *draw, const guint32 *choices, guint n)
{
  return choices[below (draw, n)];
}
#define ONE_OF(draw, ...)                                                                          \
  one_of (draw, (const guint32[]){ __VA_ARGS__ },                                                  \
          sizeof ((const guint32[]){ __VA_ARGS__ }) / sizeof (guint32))

static void
draw_attention (Draw *d, Fixture *f)
{
  ModelAttention *a = &f->arch.attention;
  guint32 per_rank = f->layout.tp * f->layout.cp;
  a->heads = per_rank * ONE_OF (d, 2, 4, 6);
  a->kv_heads = per_rank * (a->heads / per_rank % 3 == 0 ? 3 : 1) * ONE_OF (d, 1, 2);
  a->head_dim = a->v_head_dim = ONE_OF (d, 16, 64, 80);
  a->rotary_ratio = below (d, 2);
  a->qkv_bias = below (d, 2);
  a->out_bias = below (d, 2);
  a->qk_norm = below (d, 3) == 0;
  if (below (d, 3) > 0)
    return;
  *a = (ModelAttention){ .kind = MODEL_ATTENTION_MLA,
                         .heads = a->heads,
                         .kv_heads = a->heads,
                         .head_dim = 48,
                         .v_head_dim = 32,
                         .q_lora_rank = (guint32)below (d, 2) * 96,
                         .kv_lora_rank = 64,
                         .qk_nope_dim = 32,
                         .qk_rope_dim = 16,
                         .rotary_ratio = 1.0 / 3 };
}

static void
draw_run (Draw *d, Fixture *f, ModelBlockRun *run, gboolean moe)
{
  *run = (ModelBlockRun){ .count = 1 + (guint32)below (d, 4),
                          .window = ONE_OF (d, 0, 0, 100, 4096) };
  if (!moe) {
    run->ffn = f->layout.tp * ONE_OF (d, 64, 160);
    return;
  }
  run->kind = MODEL_BLOCK_MOE;
  run->moe = (ModelMoe){ .experts = f->layout.ep * ONE_OF (d, 1, 2, 4),
                         .topk = ONE_OF (d, 1, 2),
                         .expert_ffn = f->layout.etp * ONE_OF (d, 32, 96),
                         .shared_ffn = (guint32)below (d, 2) * f->layout.tp * 64,
                         .router_bias = below (d, 2) };
  run->moe.topk = MIN (run->moe.topk, run->moe.experts);
  run->moe.shared_gate = run->moe.shared_ffn > 0 && below (d, 2);
}

static void
draw_layout (Draw *d, Fixture *f)
{
  ModelLayout *l = &f->layout;
  *l = fixture_layout (ONE_OF (d, 1, 2, 4), FALSE);
  l->cp = ONE_OF (d, 1, 1, 2);
  l->dp = ONE_OF (d, 1, 2, 4);
  l->mbs = ONE_OF (d, 1, 2);
  guint32 ranks = l->tp * l->cp * l->dp;
  l->ep = ONE_OF (d, 1, 2, 4);
  l->etp = ONE_OF (d, 1, 1, 2);
  if (ranks % (l->ep * l->etp) != 0)
    l->ep = l->etp = 1;
  l->sp = l->tp > 1 && below (d, 2);
  l->cp_comm = (ModelCpComm)below (d, MODEL_CP_N_KINDS);
  l->attn = (ModelAttnKernel)below (d, MODEL_ATTN_N_KINDS);
  l->zero = (guint8)below (d, 4);
  l->dtype = below (d, 5) == 0 ? MODEL_DTYPE_FP8 : MODEL_DTYPE_BF16;
  l->recompute.kind = (guint8)below (d, 3);
  l->recompute.method = (guint8)below (d, 2);
  l->recompute.n = 1 + (guint32)below (d, 3);
  l->recompute.modules = (guint16)below (d, 128);
}

static void
draw_profile (Draw *d, ModelProfile *p)
{
  *p = fixture_profile ();
  p->fused_norm = below (d, 2);
  p->fused_activation = below (d, 2);
  p->fused_residual = below (d, 2);
  p->fused_cross_entropy = below (d, 2);
  p->keeps_everything = below (d, 4) == 0;
  p->main_grad_bytes = below (d, 2) * 4;
  p->reshard_after_forward = below (d, 2);
  p->loss_chunks = ONE_OF (d, 1, 8);
}

static void
draw_pipeline (Draw *d, Fixture *f)
{
  ModelLayout *l = &f->layout;
  l->pp = ONE_OF (d, 1, 1, 2, 3);
  l->pp = MIN (l->pp, f->arch.layers);
  if (l->pp > 1 && f->arch.layers >= 2 * l->pp && below (d, 2)) {
    l->vpp = 2;
    l->schedule = MODEL_SCHEDULE_INTERLEAVED;
    l->overlap_p2p = TRUE;
  }
}

static void
draw_case (guint index, Fixture *f)
{
  Draw draw = { .stream = index }, *d = &draw;
  *f = (Fixture){ 0 };
  draw_layout (d, f);
  draw_profile (d, &f->profile);
  f->arch.hidden = ONE_OF (d, 128, 192, 256);
  draw_attention (d, f);
  f->arch.n_runs = 1 + (guint)below (d, 2);
  gboolean any_moe = FALSE;
  for (guint i = 0; i < f->arch.n_runs; i++) {
    gboolean moe = f->layout.ep * f->layout.etp > 1 || below (d, 2);
    any_moe |= moe;
    draw_run (d, f, &f->runs[i], moe && (i > 0 || f->arch.n_runs == 1));
    f->arch.layers += f->runs[i].count;
  }
  f->arch.runs = f->runs;
  f->arch.vocab = 4 * 100;
  f->arch.gated = below (d, 2);
  f->arch.mlp_bias = below (d, 2);
  f->arch.norm = (ModelNormKind)below (d, 2);
  f->arch.norms_per_block = ONE_OF (d, 2, 2, 4);
  f->arch.parallel_residual = below (d, 4) == 0;
  if (f->arch.parallel_residual)
    f->arch.norms_per_block = ONE_OF (d, 1, 2);
  f->arch.position = below (d, 2) ? MODEL_POSITION_LEARNED : MODEL_POSITION_NONE;
  f->arch.position_rows = 512;
  f->arch.embedding_norm = below (d, 4) == 0;
  f->arch.tied = below (d, 2);
  f->arch.head_bias = below (d, 4) == 0;
  /* Without sequence parallelism tp ranks repeat what is not split: routing and low-rank latents. */
  if (f->layout.tp > 1 && (any_moe || f->arch.attention.kind == MODEL_ATTENTION_MLA))
    f->layout.sp = TRUE;
  draw_pipeline (d, f);
  f->job = (ModelJob){ .seq = 512 * (1 + below (d, 2)),
                       .global_batch = 12ull * f->layout.mbs * f->layout.dp,
                       .dropout = below (d, 2) * 0.1 };
}

static ModelProgram *
program_of (const Fixture *f, guint32 rank)
{
  g_autoptr (GError) error = NULL;
  ModelProgram *program
      = model_program_new (&f->arch, &f->job, &f->layout, &f->profile, rank, &error);
  assert_no_error (error);
  return program;
}

static gboolean
is_made_forward (const ModelProgram *program, const ModelTensor *tensor)
{
  return tensor->role != MODEL_ROLE_WEIGHT && tensor->role != MODEL_ROLE_ACTIVATION_GRAD
         && (tensor->producer == MODEL_TENSOR_NONE
             || program->ops[tensor->producer].phase == MODEL_PHASE_FORWARD);
}

/* One producer, no use before it or after the last user, kept if and only if read after forward. */
static void
check_life (const ModelProgram *program)
{
  g_autofree guint32 *producers = g_new0 (guint32, program->n_tensors);
  g_autofree guint32 *last = g_new0 (guint32, program->n_tensors);
  g_autofree gboolean *later = g_new0 (gboolean, program->n_tensors);
  for (guint32 i = 0; i < program->n_tensors; i++)
    last[i] = MODEL_TENSOR_NONE;
  for (guint32 i = 0; i < program->n_ops; i++) {
    const ModelOp *op = &program->ops[i];
    for (guint j = 0; j < op->n_in; j++) {
      assert_true (op->in[j] < program->n_tensors);
      const ModelTensor *tensor = &program->tensors[op->in[j]];
      assert_true (tensor->producer == MODEL_TENSOR_NONE || tensor->producer < i);
      last[op->in[j]] = i;
      later[op->in[j]] |= op->phase != MODEL_PHASE_FORWARD;
    }
    for (guint j = 0; j < op->n_out; j++) {
      assert_true (op->out[j] < program->n_tensors);
      producers[op->out[j]]++;
      assert_int_equal (program->tensors[op->out[j]].producer, i);
    }
  }
  for (guint32 i = 0; i < program->n_tensors; i++) {
    const ModelTensor *tensor = &program->tensors[i];
    assert_int_equal (producers[i], tensor->producer != MODEL_TENSOR_NONE);
    assert_int_equal (tensor->last_user, last[i]);
    assert_int_equal (tensor->kept, later[i] && is_made_forward (program, tensor));
    /* an input that nobody reads would be a name that lowering does not know */
    if (tensor->role == MODEL_ROLE_WEIGHT)
      assert_true (tensor->last_user != MODEL_TENSOR_NONE);
  }
}

/* Elements of all weights, unsharded; and on this rank. */
static void
count_weights (const ModelProgram *program, guint64 *out_global, guint64 *out_local)
{
  *out_global = *out_local = 0;
  for (guint32 i = 0; i < program->n_tensors; i++) {
    const ModelTensor *tensor = &program->tensors[i];
    guint64 elements = 1;
    if (tensor->role != MODEL_ROLE_WEIGHT)
      continue;
    for (guint d = 0; d < tensor->n_dims; d++)
      elements *= tensor->shape[d];
    *out_global += elements;
    *out_local += tensor->local_bytes / (model_dtype_bits ((ModelDtype)tensor->dtype) / 8);
  }
}

/* Every weight has a gradient in training (the router's correction bias too, which is not used). */
static void
check_gradients (const ModelProgram *program)
{
  guint weights = 0, grads = 0;
  for (guint32 i = 0; i < program->n_tensors; i++) {
    weights += program->tensors[i].role == MODEL_ROLE_WEIGHT;
    grads += program->tensors[i].role == MODEL_ROLE_WEIGHT_GRAD;
  }
  assert_int_equal (weights, grads);
}

static void
test_programs (void **state)
{
  for (guint index = 0; index < N_CASES; index++) {
    Fixture f;
    draw_case (index, &f);
    double model_flop = 0;
    guint64 weights = 0;
    guint32 next_layer[16] = { 0 }, n_stages = f.layout.pp * f.layout.vpp;
    for (guint32 rank = 0; rank < f.layout.pp; rank++) {
      g_autoptr (ModelProgram) program = program_of (&f, rank);
      ModelProgramFlop flop;
      guint64 global, local;
      check_life (program);
      check_gradients (program);
      model_program_flop (program, &flop);
      model_flop += flop.model_flop;
      count_weights (program, &global, &local);
      weights += global;
      /* a tied head on the embedding's own stage reads its matrix; the table lists it twice */
      guint64 twice
          = f.arch.tied && f.layout.pp == 1 ? f.arch.vocab / f.layout.tp * f.arch.hidden : 0;
      assert_int_equal (local - twice, program->weight_count + program->expert_weight_count);
      for (guint32 i = 0; i < program->n_chunks; i++) {
        const ModelChunk *chunk = &program->chunks[i];
        assert_in_range (chunk->stage, 0, n_stages - 1);
        next_layer[chunk->stage] = chunk->first_layer + chunk->n_layers;
        assert_true (chunk->n_layers > 0);
      }
    }
    /* stages cover the layers once */
    for (guint32 stage = 1; stage < n_stages; stage++)
      assert_true (next_layer[stage] > next_layer[stage - 1]);
    assert_int_equal (next_layer[n_stages - 1], f.arch.layers);
    /* parameters over all ranks equal the count (and the tied matrix is listed with the head) */
    if (f.arch.tied)
      weights -= f.arch.vocab * f.arch.hidden;
    assert_int_equal (weights, model_params_total (&f.arch));
    /* FLOPs over all ranks equal the unsplit model's */
    double ranks = (double)f.layout.tp * f.layout.cp * f.layout.dp;
    assert_near (model_flop * ranks, model_step_flop (&f.arch, &f.job), 1e-9);
  }
}

/* Pieces of one weight on all ranks make it up: nothing is lost or held twice within a replica. */
static void
test_weights_split_evenly (void **state)
{
  for (guint index = 0; index < N_CASES; index++) {
    Fixture f;
    draw_case (index, &f);
    for (guint run = 0; run < f.arch.n_runs; run++) {
      g_autoptr (ModelSegment) segment
          = fixture_segment (&f, MODEL_PART_BLOCK, run, MODEL_RECOMPUTE_NONE);
      const guint32 mesh[] = { f.layout.tp, f.layout.cp, f.layout.ep, f.layout.etp };
      guint64 total = 0;
      for (guint i = 0; i < segment->n_tensors; i++) {
        const ModelTensor *tensor = &segment->tensors[i];
        guint64 pieces = 1;
        if (tensor->role != MODEL_ROLE_WEIGHT)
          continue;
        for (guint m = 0; m < MODEL_MESH_N_DIMS; m++)
          pieces *= tensor->placement[m].kind == MODEL_PLACEMENT_SHARD ? mesh[m] : 1;
        total += tensor->local_bytes * pieces;
      }
      ModelParam params[MODEL_PARAMS_MAX];
      guint n = model_params_list (&f.arch, MODEL_PART_BLOCK, run, params);
      guint64 count = 0;
      for (guint i = 0; i < n; i++)
        count += params[i].count;
      assert_int_equal (total, 2 * count);
    }
  }
}

/* Bytes that tp collectives move in one direction of one dense block; all-gathers that backward
 * repeats are left out. A pair of gather and scatter counts as the all-reduce it replaces. */
static double
tp_bytes (const ModelSegment *segment, gboolean forward)
{
  double bytes = 0;
  for (guint i = 0; i < segment->n_ops; i++) {
    const ModelOp *op = &segment->ops[i];
    if (op->kind == MODEL_OP_COLLECTIVE && op->group == MODEL_GROUP_TP
        && op->phase != MODEL_PHASE_RECOMPUTE && (op->phase == MODEL_PHASE_FORWARD) == forward
        && !(op->flags & MODEL_OP_REGATHER))
      bytes
          += (double)op->message_bytes * (op->collective == MODEL_COLLECTIVE_ALL_REDUCE ? 1 : 0.5);
  }
  return bytes;
}

static void
test_tp_bytes (void **state)
{
  guint checked = 0;
  for (guint index = 0; index < N_CASES; index++) {
    Fixture f;
    draw_case (index, &f);
    f.layout.dtype = MODEL_DTYPE_BF16;
    if (f.layout.tp == 1 || f.runs[0].kind != MODEL_BLOCK_DENSE
        || f.arch.attention.kind == MODEL_ATTENTION_MLA)
      continue;
    g_autoptr (ModelSegment) segment
        = fixture_segment (&f, MODEL_PART_BLOCK, 0, (ModelRecomputeKind)f.layout.recompute.kind);
    double message = (double)(f.layout.mbs * f.job.seq / f.layout.cp * f.arch.hidden * 2);
    assert_near (tp_bytes (segment, TRUE), 2 * message, 1e-12);
    assert_near (tp_bytes (segment, FALSE), 2 * message, 1e-12);
    checked++;
  }
  assert_true (checked > 100);
}

/* Memory by brute force: bytes alive at each op, found by looking at every tensor. */
static guint64
brute_force_work (const ModelSegment *segment, guint first, guint end)
{
  guint64 most = 0;
  for (guint i = first; i < end; i++) {
    guint64 alive = 0;
    for (guint t = 0; t < segment->n_tensors; t++) {
      const ModelTensor *tensor = &segment->tensors[t];
      if (tensor->kept || tensor->role == MODEL_ROLE_WEIGHT
          || tensor->role == MODEL_ROLE_WEIGHT_GRAD || tensor->role == MODEL_ROLE_LOGITS)
        continue;
      gboolean made = tensor->producer == MODEL_TENSOR_NONE ? tensor->last_user != MODEL_TENSOR_NONE
                                                            : tensor->producer <= i;
      gboolean wanted = tensor->producer == i
                        || (tensor->last_user != MODEL_TENSOR_NONE && tensor->last_user >= i)
                        || t == segment->output || t == segment->input_grad;
      gboolean passed = t == segment->output && first > 0; /* the next piece's from then on */
      if (made && wanted && !passed)
        alive += tensor->local_bytes;
    }
    most = MAX (most, alive);
  }
  return most;
}

static void
test_memory (void **state)
{
  for (guint index = 0; index < N_CASES; index++) {
    Fixture f;
    draw_case (index, &f);
    guint64 kept[3];
    for (guint recompute = 0; recompute < 3; recompute++) {
      g_autoptr (ModelSegment) segment
          = fixture_segment (&f, MODEL_PART_BLOCK, 0, (ModelRecomputeKind)recompute);
      ModelSegmentMemory memory;
      model_segment_memory (segment, &memory);
      assert_int_equal (memory.forward_work_bytes,
                        brute_force_work (segment, 0, segment->n_forward));
      assert_int_equal (memory.backward_work_bytes,
                        brute_force_work (segment, segment->n_forward, segment->n_ops));
      kept[recompute] = memory.kept_bytes;
      assert_true (recompute == 0 || segment->n_recompute > 0 || f.layout.recompute.modules != 0);
    }
    /* recompute never keeps more, and all of it keeps the input only */
    assert_true (kept[MODEL_RECOMPUTE_SELECTIVE] <= kept[MODEL_RECOMPUTE_NONE]);
    guint64 rows = f.layout.mbs * f.job.seq / f.layout.cp / (f.layout.sp ? f.layout.tp : 1);
    assert_int_equal (kept[MODEL_RECOMPUTE_FULL], rows * f.arch.hidden * 2);
  }
}

/* An odd vocabulary is padded to a multiple of vocab_multiple · tp: the head computes the padding
 * too, and nothing else does. */
static void
test_padding (void **state)
{
  Fixture f;
  fixture_llama (&f, 256, 8, 4, 512, 2, 128);
  f.arch.vocab = 1000;
  f.profile.vocab_multiple = 128;
  f.layout.tp = 2; /* 1000 → 1024 */
  g_autoptr (ModelProgram) program = program_of (&f, 0);
  ModelProgramFlop flop;
  model_program_flop (program, &flop);
  double padding = 6.0 * 24 * 256 * 128 * 8;
  assert_near (2 * flop.model_flop, model_step_flop (&f.arch, &f.job) + padding, 1e-12);
  assert_int_equal (program->weight_count,
                    2 * 512 * 256 + 2 * (256 * (768 + 1536) / 2 + 512) + 256);
}

/* One catalog model under one catalog profile: life of tensors, parameters, FLOPs with padding. */
static void
check_preset (const ModelArch *arch, const ModelProfile *profile, guint32 tp)
{
  g_autoptr (GError) error = NULL;
  /* 7680 tokens give every expert of every preset a whole number of them (160 experts, 6 chosen; 384
   * experts, 8 chosen) */
  ModelJob job = { .seq = 7680, .global_batch = 2, .dropout = arch->dropout };
  ModelLayout layout = fixture_layout (tp, tp > 1);
  g_autoptr (ModelProgram) program = model_program_new (arch, &job, &layout, profile, 0, &error);
  assert_no_error (error);
  check_life (program);
  check_gradients (program);
  guint64 global, local,
      vocab = model_params_padded_vocab (arch->vocab, tp, profile->vocab_multiple);
  guint64 padded
      = (vocab - arch->vocab) * arch->hidden; /* of one matrix of the vocabulary's size */
  count_weights (program, &global, &local);
  guint64 listed = model_params_total (arch) + 2 * padded;
  listed += arch->tied ? arch->vocab * arch->hidden : 0;
  listed += arch->head_bias ? vocab - arch->vocab : 0;
  assert_int_equal (global, listed);
  ModelProgramFlop flop;
  model_program_flop (program, &flop);
  assert_near (flop.model_flop * tp, model_step_flop (arch, &job) + 6.0 * (double)padded * 7680 * 2,
               1e-9);
}

static void
test_presets (void **state)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *dir = g_build_filename (g_getenv ("PLAIT_TEST_DIR"), "..", "catalog", NULL);
  g_autoptr (BaseCatalog) catalog = base_catalog_new (dir, &error);
  assert_no_error (error);
  g_auto (GStrv) models = base_catalog_list (catalog, "models");
  g_auto (GStrv) profiles = base_catalog_list (catalog, "profiles");
  assert_true (g_strv_length (models) >= 20);
  for (guint i = 0; models[i] != NULL; i++) {
    g_autoptr (ModelArch) arch = model_arch_load (catalog, models[i], &error);
    assert_no_error (error);
    for (guint j = 0; profiles[j] != NULL; j++) {
      g_autoptr (ModelProfile) profile = model_profile_load (catalog, profiles[j], &error);
      assert_no_error (error);
      check_preset (arch, profile, 1);
      if (arch->attention.heads % 2 == 0)
        check_preset (arch, profile, 2);
    }
  }
}

int
main (void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_programs), cmocka_unit_test (test_weights_split_evenly),
    cmocka_unit_test (test_tp_bytes), cmocka_unit_test (test_memory),
    cmocka_unit_test (test_padding),  cmocka_unit_test (test_presets),
  };
  return cmocka_run_group_tests_name ("model_laws", tests, NULL, NULL);
}
