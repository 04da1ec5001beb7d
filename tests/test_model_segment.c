/* Kept activations, collectives and FLOPs of lowered blocks against the published formulas. */
#include "tests/model_fixtures.h"

/*
 * Korthikanti et al. 2022 (arXiv 2205.05198), Table 2, bytes per layer and micro-batch: GPT with
 * 16-bit activations, dropout and unfused attention; 22B model: h = 6144, a = 64, s = 2048, b = 4.
 */
typedef struct {
  const char *name;
  guint32 tp;
  gboolean sp;
  ModelRecomputeKind recompute;
  double replicated, split, scores; /* s·b·h·(replicated + split/t + scores·a·s/(h·t)) */
} GptCase;

static const GptCase gpt_cases[] = {
  { "gpt/kept_alone", 1, FALSE, MODEL_RECOMPUTE_NONE, 0, 34, 5 },
  { "gpt/kept_tp8", 8, FALSE, MODEL_RECOMPUTE_NONE, 10, 24, 5 },
  { "gpt/kept_tp8_sp", 8, TRUE, MODEL_RECOMPUTE_NONE, 0, 34, 5 },
  { "gpt/kept_tp8_selective", 8, FALSE, MODEL_RECOMPUTE_SELECTIVE, 10, 24, 0 },
  { "gpt/kept_tp8_sp_selective", 8, TRUE, MODEL_RECOMPUTE_SELECTIVE, 0, 34, 0 },
  { "gpt/kept_full", 1, FALSE, MODEL_RECOMPUTE_FULL, 2, 0, 0 },
  { "gpt/kept_tp8_full", 8, FALSE, MODEL_RECOMPUTE_FULL, 2, 0, 0 },
  { "gpt/kept_tp8_sp_full", 8, TRUE, MODEL_RECOMPUTE_FULL, 0, 2, 0 },
};

static void
test_gpt (void **state)
{
  const GptCase *c = *state;
  const guint64 h = 6144, a = 64, s = 2048, b = 4;
  Fixture f;
  fixture_gpt (&f, h, (guint32)a, 48, s, 0.1);
  f.layout.tp = c->tp;
  f.layout.sp = c->sp;
  f.layout.mbs = (guint32)b;
  double sbh = (double)(s * b * h);
  double want
      = sbh * (c->replicated + c->split / c->tp) + c->scores * (double)(a * s * s * b) / c->tp;
  ModelSegmentMemory memory = fixture_memory (&f, MODEL_PART_BLOCK, 0, c->recompute);
  assert_int_equal (memory.kept_bytes, (guint64)want);
  assert_int_equal (memory.input_bytes, s * b * h * 2 / (c->sp ? c->tp : 1));
}

/* Multiples of tokens·2 B·(…): reference, profiles block B (mcore-26). */
typedef struct {
  const char *name;
  guint32 tp, cp;
  gboolean fused_activation;
  guint16 modules;
  double h, f; /* kept per token: h·hidden + 4h·k/a + f·ffn, and 4a of statistics */
} LlamaCase;

static const LlamaCase llama_cases[] = {
  { "llama/kept_alone", 1, 1, TRUE, 0, 12, 6 },
  { "llama/kept_tp4_sp", 4, 1, TRUE, 0, 12, 6 },
  { "llama/kept_tp2_sp_cp4", 2, 4, TRUE, 0, 12, 6 },
  { "llama/kept_plain_swiglu", 2, 1, FALSE, 0, 12, 8 },
  /* the norms' outputs are dropped: 2 · 2h */
  { "llama/kept_layernorm", 2, 1, TRUE, MODEL_RECOMPUTE_LAYERNORM, 8, 6 },
  /* norm output, fc1 output and activation of the MLP are rebuilt: 12h − 2h */
  { "llama/kept_mlp", 2, 1, TRUE, MODEL_RECOMPUTE_MLP, 10, 0 },
};

static void
test_llama (void **state)
{
  const LlamaCase *c = *state;
  const guint64 h = 8192, a = 64, k = 8, ffn = 28672, s = 8192;
  Fixture f;
  fixture_llama (&f, h, (guint32)a, (guint32)k, (guint32)ffn, 80, s);
  f.layout.tp = c->tp;
  f.layout.sp = c->tp > 1;
  f.layout.cp = c->cp;
  f.profile.fused_activation = c->fused_activation;
  f.layout.recompute.modules = c->modules;
  double tokens = (double)s / c->cp / c->tp;
  double want = tokens * (c->h * (double)h + 4.0 * (double)(h * k / a) + c->f * (double)ffn)
                + 4.0 * (double)a * tokens;
  ModelRecomputeKind kind = c->modules ? MODEL_RECOMPUTE_SELECTIVE : MODEL_RECOMPUTE_NONE;
  ModelSegmentMemory memory = fixture_memory (&f, MODEL_PART_BLOCK, 0, kind);
  assert_int_equal (memory.kept_bytes, (guint64)want);
}

/* With a flash kernel, recompute of the attention core saves the statistics only (4a): its inputs
 * and its output are kept for others. */
static void
test_core_attention_of_flash_saves_little (void **state)
{
  Fixture f;
  fixture_llama (&f, 4096, 32, 8, 14336, 32, 4096);
  guint64 none = fixture_memory (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_NONE).kept_bytes;
  f.layout.recompute.modules = MODEL_RECOMPUTE_CORE_ATTN;
  guint64 core = fixture_memory (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_SELECTIVE).kept_bytes;
  assert_int_equal (none - core, 4 * 32 * 4096);
}

/* Plain Hugging Face modelling code, measured in copies of the hidden state (2h) per layer
 * (ml-engineering, training/performance): 28.0, 24.0, 38.0, 29.8. */
typedef struct {
  const char *name;
  guint32 hidden, heads, kv_heads, head_dim, ffn;
  gboolean qk_norm;
  double copies;
} EagerCase;

static const EagerCase eager_cases[] = {
  { "eager/llama_3.1_8b", 4096, 32, 8, 128, 14336, FALSE, 28.0 },
  { "eager/smollm2_360m", 960, 15, 5, 64, 2560, FALSE, 24.0 },
  { "eager/qwen3_4b", 2560, 32, 8, 128, 9728, TRUE, 38.0 },
  { "eager/qwen3_8b_distill", 4096, 32, 8, 128, 12288, TRUE, 29.8 },
};

static void
test_eager (void **state)
{
  const EagerCase *c = *state;
  Fixture f;
  fixture_llama (&f, c->hidden, c->heads, c->kv_heads, c->ffn, 1, 1024);
  f.arch.attention.head_dim = f.arch.attention.v_head_dim = c->head_dim;
  f.arch.attention.qk_norm = c->qk_norm;
  f.profile.fused_norm = f.profile.fused_activation = FALSE;
  f.profile.fused_residual = FALSE;
  f.profile.keeps_everything = TRUE;
  ModelSegmentMemory memory = fixture_memory (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_NONE);
  double copies = (double)(memory.kept_bytes - 4 * c->heads * 1024) / (2.0 * c->hidden * 1024);
  assert_near (copies, c->copies, 0.03);
}

/*
 * torchtitan's selective recompute keeps, in bytes per token (reference: profiles, block B, titan):
 * the block's input 2h, q, k and v 2h(1 + 2k/a), attention's output 2h, the first of gate and up 2f,
 * the MLP's output 2h: 8h + 4h·k/a + 2f, and the softmax statistics 4a. It runs the output projection
 * and one of gate and up again, and no attention.
 */
static void
test_selective_by_op (void **state)
{
  Fixture f;
  const guint64 h = 4096, a = 32, kv = 8, ffn = 14336, seq = 1024;
  fixture_llama (&f, h, (guint32)a, (guint32)kv, (guint32)ffn, 1, seq);
  f.profile.selective_by_op = TRUE;
  f.layout.recompute
      = (ModelRecompute){ .kind = MODEL_RECOMPUTE_SELECTIVE, .modules = MODEL_RECOMPUTE_CORE_ATTN };
  ModelSegmentMemory memory = fixture_memory (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_SELECTIVE);
  assert_int_equal (memory.kept_bytes, seq * (8 * h + 4 * h * kv / a + 2 * ffn + 4 * a));
  g_autoptr (ModelSegment) segment
      = fixture_segment (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_SELECTIVE);
  double flop = 0;
  for (guint i = segment->n_forward; i < segment->n_forward + segment->n_recompute; i++) {
    assert_int_not_equal (segment->ops[i].kind, MODEL_OP_ATTENTION);
    flop += model_op_flop (&segment->ops[i]);
  }
  assert_near (flop, 2.0 * seq * h * (h + ffn), 1e-12);
}

/* Message bytes of the tp collectives of one kind in one phase; gathers of backward that repeat
 * forward ones are left out. */
static guint64
tp_bytes (const ModelSegment *segment, gboolean forward, ModelCollectiveKind kind, guint *out_count)
{
  guint64 bytes = 0;
  *out_count = 0;
  for (guint i = 0; i < segment->n_ops; i++) {
    const ModelOp *op = &segment->ops[i];
    if (op->kind != MODEL_OP_COLLECTIVE || op->group != MODEL_GROUP_TP
        || (op->phase == MODEL_PHASE_FORWARD) != forward || op->collective != kind
        || op->flags & MODEL_OP_REGATHER)
      continue;
    bytes += op->message_bytes;
    ++*out_count;
  }
  return bytes;
}

/* Textbook: 2 all-reduces of s·b·h forward and 2 backward; with sequence parallelism as many pairs
 * of all-gather and reduce-scatter. */
static void
test_tp_collectives (void **state)
{
  const guint64 message = 2048 * 2 * 6144 * 2;
  Fixture f;
  guint count;
  fixture_gpt (&f, 6144, 64, 48, 2048, 0.1);
  f.layout.tp = 8;
  f.layout.mbs = 2;
  for (guint sp = 0; sp < 2; sp++) {
    f.layout.sp = sp;
    g_autoptr (ModelSegment) segment
        = fixture_segment (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_NONE);
    for (guint forward = 0; forward < 2; forward++) {
      assert_int_equal (tp_bytes (segment, forward, MODEL_COLLECTIVE_ALL_REDUCE, &count),
                        sp ? 0 : 2 * message);
      assert_int_equal (count, sp ? 0 : 2);
      assert_int_equal (tp_bytes (segment, forward, MODEL_COLLECTIVE_ALL_GATHER, &count),
                        sp ? 2 * message : 0);
      assert_int_equal (tp_bytes (segment, forward, MODEL_COLLECTIVE_REDUCE_SCATTER, &count),
                        sp ? 2 * message : 0);
    }
  }
}

/* Half of the channels synchronized: as many messages of half the size. */
static void
test_tp_sync (void **state)
{
  Fixture f;
  guint count;
  fixture_llama (&f, 4096, 32, 32, 11008, 32, 4096);
  f.layout.tp = 8;
  f.layout.tp_sync = 0.5;
  g_autoptr (ModelSegment) segment
      = fixture_segment (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_NONE);
  for (guint forward = 0; forward < 2; forward++) {
    assert_int_equal (tp_bytes (segment, forward, MODEL_COLLECTIVE_ALL_REDUCE, &count),
                      2ull * 4096 * 2048 * 2);
    assert_int_equal (count, 2);
  }
}

/* Bytes of memory-bound ops per token: 20h + 4·(q + k) + 6f forward, 24h + 6·(q + k) + 10f
 * backward (time model, section 3, item 7). */
static void
test_memory_bound_bytes (void **state)
{
  const double h = 4096, kv = 1024, ffn = 14336, tokens = 4096;
  Fixture f;
  fixture_llama (&f, 4096, 32, 8, 14336, 32, 4096);
  g_autoptr (ModelSegment) segment
      = fixture_segment (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_NONE);
  double bytes[2] = { 0, 0 };
  for (guint i = 0; i < segment->n_ops; i++) {
    const ModelOp *op = &segment->ops[i];
    if (op->kind != MODEL_OP_GEMM && op->kind != MODEL_OP_ATTENTION)
      bytes[op->phase != MODEL_PHASE_FORWARD] += (double)op->read_bytes + (double)op->write_bytes;
  }
  assert_near (bytes[0], tokens * (20 * h + 4 * (h + kv) + 6 * ffn), 1e-12);
  assert_near (bytes[1], tokens * (24 * h + 6 * (h + kv) + 10 * ffn), 1e-12);
}

/* Embedding keeps 8 B per token id and the dropout mask; the head keeps norm input and output
 * (4h) and 4 B per logit, and holds 6 B per logit at the peak. */
static void
test_embedding_and_head (void **state)
{
  const guint64 s = 2048, h = 6144, v = 51200;
  Fixture f;
  guint count;
  fixture_gpt (&f, h, 64, 48, s, 0.1);
  f.layout.tp = 8;
  f.layout.sp = TRUE;
  ModelSegmentMemory memory = fixture_memory (&f, MODEL_PART_EMBEDDING, 0, MODEL_RECOMPUTE_NONE);
  assert_int_equal (memory.kept_bytes, 8 * s + s * h / 8);
  memory = fixture_memory (&f, MODEL_PART_HEAD, 0, MODEL_RECOMPUTE_NONE);
  assert_int_equal (memory.kept_bytes, 4 * s * h / 8);
  assert_int_equal (memory.logits_kept_bytes, 4 * s * v / 8);
  assert_int_equal (memory.logits_peak_bytes, 6 * s * v / 8);
  f.layout.sp = FALSE;
  g_autoptr (ModelSegment) head = fixture_segment (&f, MODEL_PART_HEAD, 0, MODEL_RECOMPUTE_NONE);
  /* three times 4 B per token forward, the input's gradient backward */
  assert_int_equal (tp_bytes (head, TRUE, MODEL_COLLECTIVE_ALL_REDUCE, &count), 3 * 4 * s);
  assert_int_equal (count, 3);
  assert_int_equal (tp_bytes (head, FALSE, MODEL_COLLECTIVE_ALL_REDUCE, &count), 2 * s * h);
  g_autoptr (ModelSegment) embedding
      = fixture_segment (&f, MODEL_PART_EMBEDDING, 0, MODEL_RECOMPUTE_NONE);
  assert_int_equal (tp_bytes (embedding, TRUE, MODEL_COLLECTIVE_ALL_REDUCE, &count), 2 * s * h);
  assert_int_equal (tp_bytes (embedding, FALSE, MODEL_COLLECTIVE_ALL_REDUCE, &count), 0);
}

/* However many pieces the loss is computed in, all logits pass through it once: of 6 B per logit at
 * the peak and 4 kept, forward reads 2 and writes 4, backward reads 4 and writes 2. */
static void
test_loss_in_pieces (void **state)
{
  const guint64 logits = 2048ull * 51200 / 8;
  Fixture f;
  fixture_gpt (&f, 6144, 64, 48, 2048, 0);
  f.layout.tp = 8;
  for (f.profile.loss_chunks = 1; f.profile.loss_chunks <= 1024; f.profile.loss_chunks *= 32) {
    g_autoptr (ModelSegment) head = fixture_segment (&f, MODEL_PART_HEAD, 0, MODEL_RECOMPUTE_NONE);
    guint n = 0;
    for (guint i = 0; i < head->n_ops; i++) {
      const ModelOp *op = &head->ops[i];
      if (op->kind != MODEL_OP_CROSS_ENTROPY)
        continue;
      gboolean forward = op->phase == MODEL_PHASE_FORWARD;
      assert_int_equal (op->read_bytes, (forward ? 2 : 4) * logits);
      assert_int_equal (op->write_bytes, (forward ? 4 : 2) * logits);
      n++;
    }
    assert_int_equal (n, 2);
  }
}

static void
add_moe (Fixture *f, guint32 experts, guint32 topk, guint32 expert_ffn, guint32 shared_ffn)
{
  f->runs[0].kind = MODEL_BLOCK_MOE;
  f->runs[0].ffn = 0;
  f->runs[0].moe = (ModelMoe){
    .experts = experts, .topk = topk, .expert_ffn = expert_ffn, .shared_ffn = shared_ffn
  };
}

/*
 * MoE, reference: memory formulas section 5: beside attention and norms (12h + 4h·k/a of a dense
 * block), topk·(2h + 6f_moe + 2h) and 4E of router probabilities; the chosen weights (4 B) and
 * indices (8 B) per expert chosen.
 */
static void
test_moe_kept (void **state)
{
  const guint64 h = 4096, s = 4096, topk = 2, ffn = 14336;
  Fixture f;
  fixture_llama (&f, h, 32, 8, 0, 32, s);
  add_moe (&f, 8, (guint32)topk, (guint32)ffn, 0);
  guint64 attention = 12 * h + h + 4 * 32;
  guint64 moe = topk * (4 * h + 6 * ffn) + 4 * 8 + topk * 12;
  ModelSegmentMemory memory = fixture_memory (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_NONE);
  assert_int_equal (memory.kept_bytes, s * (attention + moe));
  /* the same tokens pass through a rank with expert parallelism, balanced */
  f.layout.ep = 8;
  f.layout.dp = 8;
  memory = fixture_memory (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_NONE);
  assert_int_equal (memory.kept_bytes, s * (attention + moe));
  f.layout.recompute.modules = MODEL_RECOMPUTE_MOE_ACT;
  memory = fixture_memory (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_SELECTIVE);
  assert_int_equal (memory.kept_bytes, s * (attention + moe - topk * 2 * ffn));
  f.layout.recompute.modules = MODEL_RECOMPUTE_MOE;
  memory = fixture_memory (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_SELECTIVE);
  assert_int_equal (memory.kept_bytes, s * attention);
}

/* Expert tensor parallelism over 2 ranks: twice the rows on half of the expert's columns, so fc1
 * input 4h instead of 2h per choice and 6f as before. Recompute of the shared experts keeps their
 * input only, which is the router's as well: 6·f_shared less. */
static void
test_moe_kept_split_experts (void **state)
{
  const guint64 h = 4096, s = 4096, topk = 2, ffn = 1408, shared = 2816, tp = 2;
  Fixture f;
  fixture_llama (&f, h, 32, 8, 0, 32, s);
  add_moe (&f, 8, (guint32)topk, (guint32)ffn, (guint32)shared);
  f.layout.tp = (guint32)tp;
  f.layout.sp = TRUE;
  f.layout.etp = 2;
  guint64 attention = 12 * h + h + 4 * 32;
  guint64 moe = topk * (2 * 2 * h + 6 * ffn + 2 * h) + 4 * 8 + topk * 12 + 6 * shared;
  ModelSegmentMemory memory = fixture_memory (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_NONE);
  assert_int_equal (memory.kept_bytes, s / tp * (attention + moe));
  f.layout.recompute.modules = MODEL_RECOMPUTE_SHARED_EXPERTS;
  memory = fixture_memory (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_SELECTIVE);
  assert_int_equal (memory.kept_bytes, s / tp * (attention + moe - 6 * shared));
}

/* Two all-to-alls of topk·T·h·2 B forward, two backward; experts' GEMMs see balanced tokens. */
static void
test_moe_exchange (void **state)
{
  const guint64 h = 4096, s = 4096;
  Fixture f;
  fixture_llama (&f, h, 32, 8, 0, 32, s);
  add_moe (&f, 64, 6, 1408, 2816);
  f.layout.ep = 8;
  f.layout.dp = 8;
  f.layout.tp = 2;
  f.layout.sp = TRUE;
  g_autoptr (ModelSegment) segment
      = fixture_segment (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_NONE);
  guint count[2] = { 0, 0 };
  for (guint i = 0; i < segment->n_ops; i++) {
    const ModelOp *op = &segment->ops[i];
    if (op->kind == MODEL_OP_COLLECTIVE && op->group == MODEL_GROUP_EP) {
      assert_int_equal (op->collective, MODEL_COLLECTIVE_ALL_TO_ALL);
      assert_int_equal (op->message_bytes, 6 * (s / 2) * h * 2);
      count[op->phase != MODEL_PHASE_FORWARD]++;
    }
    if (op->kind == MODEL_OP_GEMM && op->flags & MODEL_OP_GROUPED
        && op->phase == MODEL_PHASE_FORWARD) {
      assert_int_equal (op->batch, 8);
      assert_int_equal (op->m, (s / 2) * 6 / 8);
    }
  }
  assert_int_equal (count[0], 2);
  assert_int_equal (count[1], 2);
}

/*
 * MLA of DeepSeek-V3 (a 128, dqk 128 + 64, dv 128, rq 1536, rkv 512, h 7168), reference: memory
 * formulas section 6, its 182.4 kB per token, which leave out the normed latents (2·(rq + rkv)),
 * here counted, and norm input and output of the block.
 */
static void
test_mla_kept (void **state)
{
  const guint64 h = 7168, s = 4096, ffn = 18432;
  Fixture f;
  fixture_llama (&f, h, 128, 128, (guint32)ffn, 61, s);
  f.arch.attention = (ModelAttention){ .kind = MODEL_ATTENTION_MLA,
                                       .heads = 128,
                                       .kv_heads = 128,
                                       .head_dim = 192,
                                       .v_head_dim = 128,
                                       .q_lora_rank = 1536,
                                       .kv_lora_rank = 512,
                                       .qk_nope_dim = 128,
                                       .qk_rope_dim = 64,
                                       .rotary_ratio = 1.0 / 3 };
  guint64 published = 2 * (7168 + 1536 + 576 + 128 * (192 + 192 + 128 + 128));
  assert_int_equal (published, 182400);
  guint64 rest = 2 * (1536 + 512) + 4 * 128 /* lse */ + 2 * h /* norm input */
                 + 4 * h /* the MLP's norm */ + 6 * ffn;
  ModelSegmentMemory memory = fixture_memory (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_NONE);
  assert_int_equal (memory.kept_bytes, s * (published + rest));
  f.layout.recompute.modules = MODEL_RECOMPUTE_MLA_UP_PROJ;
  memory = fixture_memory (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_SELECTIVE);
  assert_int_equal (memory.kept_bytes, s * (published + rest - 2 * 128 * (192 + 192 + 128)));
  f.layout.tp = 8;
  f.layout.sp = TRUE;
  memory = fixture_memory (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_NONE);
  assert_int_equal (memory.kept_bytes, s * (published + rest) / 8);
}

/* Context parallelism over 4 ranks: bytes to the next neighbour in 3 rounds, k and v of 8 heads. */
static void
test_context_exchange (void **state)
{
  const guint64 s = 8192, kv = 8 * 128;
  Fixture f;
  fixture_llama (&f, 8192, 64, 8, 28672, 80, s);
  f.layout.cp = 4;
  for (guint comm = 0; comm < MODEL_CP_N_KINDS; comm++) {
    f.layout.cp_comm = (ModelCpComm)comm;
    g_autoptr (ModelSegment) segment
        = fixture_segment (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_NONE);
    guint64 bytes[2] = { 0, 0 };
    double flop = 0;
    for (guint i = 0; i < segment->n_ops; i++) {
      const ModelOp *op = &segment->ops[i];
      if (op->kind == MODEL_OP_COLLECTIVE && op->group == MODEL_GROUP_CP)
        bytes[op->phase != MODEL_PHASE_FORWARD] += op->message_bytes;
      if (op->kind == MODEL_OP_ATTENTION && op->phase == MODEL_PHASE_FORWARD)
        flop = model_op_flop (op);
    }
    guint64 local = s / 4, block = 2 * local * kv * 2;
    /* ring 3 blocks; all-to-all q, k, v, then the output; gather of the whole k and v */
    guint64 forward[] = { 3 * block, local * (8192 + 2 * kv) * 2 + local * 8192 * 2, 4 * block };
    guint64 backward[] = { 6 * block, forward[1], 8 * block };
    assert_int_equal (bytes[0], forward[comm]);
    assert_int_equal (bytes[1], backward[comm]);
    /* 2 GEMMs · 2 · s²/2 · 8192, a quarter of it on this rank */
    assert_near (flop, 2.0 * (double)(s * s) * 8192 / 4, 1e-12);
  }
}

/* 8-bit layouts keep the cast inputs of GEMMs (1 B) in place of the 16-bit norm outputs and
 * activation: 12h + 4hk/a + 6f loses 2h − h twice, the attention output gains h, 6f becomes 5f. */
static void
test_fp8_kept (void **state)
{
  const guint64 h = 4096, s = 4096, ffn = 14336;
  Fixture f;
  fixture_llama (&f, h, 32, 8, (guint32)ffn, 32, s);
  f.layout.dtype = MODEL_DTYPE_FP8;
  ModelSegmentMemory memory = fixture_memory (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_NONE);
  assert_int_equal (memory.kept_bytes, s * (11 * h + h + 5 * ffn + 4 * 32));
}

/* Full recompute rebuilds in backward what forward did not keep: the working set holds a whole
 * block's set (34h + 5as less the input, which is kept) beside gradients. */
static void
test_full_recompute_works (void **state)
{
  const guint64 h = 1024, s = 512;
  Fixture f;
  fixture_gpt (&f, h, 16, 4, s, 0.1);
  ModelSegmentMemory memory = fixture_memory (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_FULL);
  guint64 set = s * h * 34 + 5 * 16 * s * s;
  assert_true (memory.backward_work_bytes >= set - 2 * s * h);
  assert_true (memory.backward_work_bytes <= set + 16 * s * h);
}

static double
rebuilt_gemm_flop (const Fixture *f)
{
  double sum = 0;
  g_autoptr (ModelSegment) segment
      = model_segment_new (&f->arch, &f->job, &f->layout, &f->profile, MODEL_PART_BLOCK, 0,
                           MODEL_RECOMPUTE_FULL, NULL);
  for (guint i = segment->n_forward; i < segment->n_forward + segment->n_recompute; i++)
    if (segment->ops[i].kind == MODEL_OP_GEMM)
      sum += model_op_flop (&segment->ops[i]);
  return sum;
}

/* GPT's GEMMs are 12h² per token: the last, 4h², need not run again, unless the next block of the
 * group reads what it gives. */
static void
test_recompute_stops_early (void **state)
{
  const double h = 1024, s = 512;
  Fixture f;
  fixture_gpt (&f, 1024, 16, 4, 512, 0);
  assert_near (rebuilt_gemm_flop (&f), 2 * s * 12 * h * h, 1e-12);
  guint64 whole = fixture_memory (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_FULL).kept_bytes;
  f.profile.recompute_stops_early = TRUE;
  assert_near (rebuilt_gemm_flop (&f), 2 * s * 8 * h * h, 1e-12);
  assert_int_equal (fixture_memory (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_FULL).kept_bytes,
                    whole);
  f.layout.recompute
      = (ModelRecompute){ .kind = MODEL_RECOMPUTE_FULL, .method = MODEL_RECOMPUTE_UNIFORM, .n = 2 };
  assert_near (rebuilt_gemm_flop (&f), 2 * s * 12 * h * h, 1e-12);
}

/* Scores of 16 heads over 2048 tokens outweigh all else at h = 64: 16 · 2048² · 2 B. Forward holds
 * them beside what is kept, backward their gradient, and one more through dropout. */
static void
test_scores_of_unfused_attention (void **state)
{
  const double scores = 16 * 2048.0 * 2048 * 2;
  for (guint dropout = 0; dropout < 2; dropout++) {
    Fixture f;
    fixture_gpt (&f, 64, 16, 4, 2048, 0.1 * dropout);
    ModelSegmentMemory memory = fixture_memory (&f, MODEL_PART_BLOCK, 0, MODEL_RECOMPUTE_NONE);
    assert_near ((double)memory.forward_work_bytes, scores, 0.05);
    assert_near ((double)memory.backward_work_bytes, (1 + dropout) * scores, 0.05);
  }
}

int
main (void)
{
  static const struct CMUnitTest plain[] = {
    cmocka_unit_test (test_core_attention_of_flash_saves_little),
    cmocka_unit_test (test_scores_of_unfused_attention),
    cmocka_unit_test (test_tp_collectives),
    cmocka_unit_test (test_tp_sync),
    cmocka_unit_test (test_memory_bound_bytes),
    cmocka_unit_test (test_embedding_and_head),
    cmocka_unit_test (test_loss_in_pieces),
    cmocka_unit_test (test_moe_kept),
    cmocka_unit_test (test_moe_kept_split_experts),
    cmocka_unit_test (test_moe_exchange),
    cmocka_unit_test (test_mla_kept),
    cmocka_unit_test (test_context_exchange),
    cmocka_unit_test (test_fp8_kept),
    cmocka_unit_test (test_full_recompute_works),
    cmocka_unit_test (test_selective_by_op),
    cmocka_unit_test (test_recompute_stops_early),
  };
  struct CMUnitTest tests[64];
  gsize n = 0;
  ADD_ROWS (gpt_cases, test_gpt);
  ADD_ROWS (llama_cases, test_llama);
  ADD_ROWS (eager_cases, test_eager);
  for (gsize i = 0; i < G_N_ELEMENTS (plain); i++)
    tests[n++] = plain[i];
  return _cmocka_run_group_tests ("model_segment", tests, n, NULL, NULL);
}
