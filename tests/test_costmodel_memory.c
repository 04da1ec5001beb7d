/* tests/test_costmodel_memory.c - stage memory against published peaks and hand-made blocks. */
#include "tests/costmodel_setting.h"

#define GIB 1073741824.0

static guint64
sum_of (const CostStageMemory *memory)
{
  guint64 sum = 0;
  for (guint i = 0; i < COST_MEMORY_N_KINDS; i++)
    sum += memory->bytes[i];
  return sum;
}

/*
 * Korthikanti et al. 2022, 175B on 64 A100, tp 8, pp 8, 3 chunks, sequence parallel, selective:
 * 18 bytes for 12 layers of 12 h² + 13 h and the embedding, all / 8: 46.9 GiB; 31 chunks of 4
 * layers of 34·s·b·h/t: 12.35 GiB.
 */
static void
test_gpt3 (void **state)
{
  g_auto (Setting) s = { 0 };
  g_auto (CostPrediction) p = { 0 };
  setting_init (&s, "gpt3-175b", "dgx-a100-80g", "megatron", 64, 2048, 64);
  setting_predict (&s, "tp=8,pp=8,vpp=3,sp=1,mbs=1,zero=0,attn=unfused,recompute=selective", &p);
  const CostStageMemory *m = &p.stages[0].memory;
  assert_int_equal (p.fullest_stage, 0);
  assert_int_equal (m->in_flight_count, 31);
  double states = (double)(m->bytes[COST_MEMORY_WEIGHTS] + m->bytes[COST_MEMORY_GRADIENTS]
                           + m->bytes[COST_MEMORY_OPTIMIZER]);
  assert_near (states / GIB, 46.9, 0.02);
  assert_near ((double)m->bytes[COST_MEMORY_ACTIVATIONS] / GIB, 12.35, 0.02);
  assert_int_equal (sum_of (m), m->peak_bytes);
}

typedef struct {
  const char *name, *model;
  guint32 layers, kv_heads;
  guint64 seq, batch;
  const char *layout;
  double allocated_gib, tolerance;
} Peak;

/* Fullest rank, torch max_memory_allocated of a real run: measured runs, family simumax-b200
 * (MooreThreads/SimuMax b200_release_v1.2_summary.json @4dcaae513ba7); 8 micro-batches of 1. */
static const Peak peaks[] = {
  { "70b/tp1_pp2", "llama-3.1-70b", 12, 8, 4096, 32, "pp=2,zero=1", 66.55, 0.03 },
  { "70b/tp2", "llama-3.1-70b", 12, 8, 4096, 32, "tp=2,sp=1,zero=1", 60.68, 0.03 },
  { "70b/tp4", "llama-3.1-70b", 12, 8, 4096, 16, "tp=4,sp=1,zero=1", 39.07, 0.03 },
  { "70b/tp8", "llama-3.1-70b", 12, 8, 4096, 8, "tp=8,sp=1,zero=1", 28.29, 0.03 },
  { "405b/tp1_pp2", "llama-3.1-405b", 4, 16, 4096, 32, "pp=2,zero=1", 87.08, 0.03 },
  { "405b/tp2", "llama-3.1-405b", 4, 16, 4096, 32, "tp=2,sp=1,zero=1", 81.59, 0.03 },
  { "405b/tp4", "llama-3.1-405b", 4, 16, 4096, 16, "tp=4,sp=1,zero=1", 52.89, 0.03 },
  { "405b/tp8", "llama-3.1-405b", 4, 16, 4096, 8, "tp=8,sp=1,zero=1", 38.57, 0.03 },
  { "70b/tp2_cp4_32k", "llama-3.1-70b", 12, 8, 32768, 4, "tp=2,sp=1,cp=4,cp_comm=a2a,zero=1", 68.43,
    0.03 },
  { "70b/cp8_32k", "llama-3.1-70b", 12, 8, 32768, 4, "cp=8,cp_comm=a2a,zero=1", 104.51, 0.03 },
  { "70b/cp8_128k", "llama-3.1-70b", 12, 8, 131072, 4, "cp=8,cp_comm=a2a,zero=1", 147.99, 0.03 },
};

static void
test_peak (void **state)
{
  const Peak *row = *state;
  g_auto (Setting) s = { 0 };
  g_auto (CostPrediction) p = { 0 };
  setting_init (&s, row->model, "hgx-b200", "megatron", 8, row->seq, row->batch);
  setting_cut_layers (&s, row->layers);
  s.arch->attention.kv_heads = row->kv_heads;
  /* Transformer Engine's fused loss keeps 4 bytes per logit (reference profiles, §E). */
  s.profile->fused_cross_entropy = TRUE;
  s.profile->logits_peak_bytes = s.profile->logits_kept_bytes = 4;
  setting_predict (&s, row->layout, &p);
  guint64 allocated = 0;
  for (guint32 i = 0; i < p.n_stages; i++)
    allocated = MAX (allocated, p.stages[i].memory.allocated_bytes);
  double got = (double)allocated / GIB;
  print_message ("%s: %.2f GiB of %.2f, %+.2f %%\n", row->name, got, row->allocated_gib,
                 100 * (got / row->allocated_gib - 1));
  assert_near (got, row->allocated_gib, row->tolerance);
}

/* One kind of block, numbers chosen to be told apart in sums. */
typedef struct {
  ModelProfile profile;
  CostNumbers numbers;
  CostTemplate tmpl;
  ModelLayout layout;
  CostShards shards;
  CostStageMap map;
  CostStageClass class;
  CostStageContent content;
  guint16 content_of_stage[8];
} Hand;

static void
hand_init (Hand *hand)
{
  memset (hand, 0, sizeof *hand);
  hand->profile = (ModelProfile){ .param_bytes = 2,
                                  .main_grad_bytes = 4,
                                  .master_bytes = 4,
                                  .moment_bytes = 8,
                                  .reduce_bytes = 4,
                                  .fsdp_units_in_flight = 2,
                                  .reshard_after_forward = TRUE };
  hand->numbers.profile.reserved_ratio = hand->numbers.profile.need_ratio = 1;
  hand->numbers.profile.need_changing_ratio = hand->numbers.memory.imbalance_ratio = 1;
  hand->tmpl.n_kinds = 1;
  hand->tmpl.element_bytes = 2;
  hand->tmpl.context.profile = &hand->profile;
  hand->tmpl.context.numbers = &hand->numbers;
  hand->tmpl.plain_blocks[0] = (CostBlock){
    .weight_count = 1000,
    .largest_mlp_weight_count = 700,
    .memory
    = { .input_bytes = 10, .kept_bytes = 100, .forward_work_bytes = 20, .backward_work_bytes = 50 },
  };
  hand->tmpl.blocks[0] = hand->tmpl.plain_blocks[0];
  hand->layout
      = (ModelLayout){ .tp = 1, .cp = 1, .pp = 1, .vpp = 1, .ep = 1, .etp = 1, .dp = 8, .mbs = 1 };
  hand->shards = (CostShards){ 8, 8, 0 };
  hand->content = (CostStageContent){ .blocks = { 6 }, .recomputed = { 6 }, .layers = 6 };
  hand->class = (CostStageClass){
    .n_ranks = 1, .content = hand->content, .n_chunks = 1, .max_chunk_layers = 6
  };
  hand->map = (CostStageMap){
    .pp = 1, .vpp = 1, .contents = &hand->content, .content_of_stage = hand->content_of_stage
  };
}

static CostStageMemory
hand_memory (Hand *hand, guint64 microbatches)
{
  CostWeights weights;
  CostMemoryPlan plan;
  CostStageMemory memory;
  hand->map.pp = hand->layout.pp;
  hand->map.vpp = hand->layout.vpp;
  hand->map.schedule = hand->layout.schedule;
  hand->class.content = hand->content;
  for (guint i = 0; i < COST_MAX_RUN_KINDS; i++) {
    hand->class.content.blocks[i] *= hand->layout.vpp;
    hand->class.content.recomputed[i] *= hand->layout.vpp;
  }
  cost_weights_count (&weights, &hand->tmpl, &hand->class.content, hand->layout.pp > 1);
  cost_memory_plan_init (&plan, &hand->tmpl, &hand->layout, microbatches, &hand->shards,
                         &hand->map);
  cost_stage_memory (&memory, &plan, &hand->class, &weights);
  assert_int_equal (sum_of (&memory), memory.peak_bytes);
  return memory;
}

/* 6 blocks of 1000 parameters over 8 ranks: 750 a shard. */
static void
test_zero_stages (void **state)
{
  static const struct {
    guint zero;
    double param_bytes;
    gboolean shards_main_grad;
    guint64 weights, gradients, optimizer, gathers;
  } rows[] = {
    { 0, 2, FALSE, 12000, 24000, 72000, 0 },
    { 1, 2, FALSE, 12000, 24000, 9000, 0 },
    { 1, 2, TRUE, 12000, 3000, 9000, 0 },
    { 2, 2, FALSE, 12000, 3000, 9000, 0 },
    /* two units of 1000 in 2 bytes, one gradient in 4 */
    { 3, 2, FALSE, 1500, 3000, 9000, 8000 },
    /* the fp32 master is the parameter: all 6000 in 2 bytes to compute with, unless ZeRO 3 gathers */
    { 0, 0, FALSE, 0, 24000, 72000, 12000 },
    { 1, 0, FALSE, 0, 24000, 9000, 12000 },
    { 2, 0, FALSE, 0, 3000, 9000, 12000 },
    { 3, 0, FALSE, 0, 3000, 9000, 8000 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    Hand hand;
    hand_init (&hand);
    hand.layout.zero = rows[i].zero;
    hand.profile.param_bytes = rows[i].param_bytes;
    hand.profile.shards_main_grad_zero1 = rows[i].shards_main_grad;
    CostStageMemory m = hand_memory (&hand, 4);
    assert_int_equal (m.bytes[COST_MEMORY_WEIGHTS], rows[i].weights);
    assert_int_equal (m.bytes[COST_MEMORY_GRADIENTS], rows[i].gradients);
    assert_int_equal (m.bytes[COST_MEMORY_OPTIMIZER], rows[i].optimizer);
    assert_int_equal (m.bytes[COST_MEMORY_GATHERS], rows[i].gathers);
  }
}

/* FSDP in a pipeline keeps 6000 parameters gathered in 2 bytes; the bucket of a framework that
 * makes gradients apart is at most the model. */
static void
test_gathers (void **state)
{
  Hand hand;
  hand_init (&hand);
  hand.layout.zero = 3;
  hand.layout.pp = 2;
  assert_int_equal (hand_memory (&hand, 4).bytes[COST_MEMORY_GATHERS], 12000);
  hand_init (&hand);
  hand.profile.grad_bytes = hand.profile.reduce_bytes = 2;
  hand.profile.bucket_elements = 4000;
  assert_int_equal (hand_memory (&hand, 4).bytes[COST_MEMORY_GATHERS], 8000);
  hand.profile.bucket_elements = 5000000;
  assert_int_equal (hand_memory (&hand, 4).bytes[COST_MEMORY_GATHERS], 12000);
}

/* fp32 throughout: whole masters are computed with as they are, shards are gathered in 4 bytes. */
static void
test_fp32_master (void **state)
{
  Hand hand;
  hand_init (&hand);
  hand.profile.param_bytes = 0;
  hand.tmpl.element_bytes = 4;
  assert_int_equal (hand_memory (&hand, 4).bytes[COST_MEMORY_GATHERS], 0);
  hand.layout.zero = 1;
  assert_int_equal (hand_memory (&hand, 4).bytes[COST_MEMORY_GATHERS], 24000);
}

/* Kept by 6 blocks: 600 a micro-batch and chunk. */
static void
test_in_flight (void **state)
{
  static const struct {
    ModelScheduleKind schedule;
    guint32 pp, vpp;
    guint64 m, in_flight;
  } rows[] = {
    { MODEL_SCHEDULE_1F1B, 4, 1, 8, 4 },        { MODEL_SCHEDULE_1F1B, 4, 1, 2, 2 },
    { MODEL_SCHEDULE_GPIPE, 4, 1, 8, 8 },       { MODEL_SCHEDULE_INTERLEAVED, 4, 2, 8, 11 },
    { MODEL_SCHEDULE_INTERLEAVED, 4, 2, 4, 8 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    Hand hand;
    hand_init (&hand);
    hand.layout.schedule = rows[i].schedule;
    hand.layout.pp = rows[i].pp;
    hand.layout.vpp = rows[i].vpp;
    CostStageMemory m = hand_memory (&hand, rows[i].m);
    assert_int_equal (m.in_flight_count, rows[i].in_flight);
    assert_int_equal (m.bytes[COST_MEMORY_ACTIVATIONS], rows[i].in_flight * 600);
  }
}

/* Full recompute: a block keeps its input (10). uniform:4 of 6 layers keeps 2 inputs and rebuilds
 * 4 layers at once: one running (60) beside three that keep 100 each. block:2 keeps 2 inputs
 * and 4 whole layers. */
static void
test_recompute (void **state)
{
  Hand hand;
  hand_init (&hand);
  hand.layout.recompute = (ModelRecompute){ .kind = MODEL_RECOMPUTE_FULL, .n = 1 };
  hand.tmpl.blocks[0].memory = (ModelSegmentMemory){
    .input_bytes = 10, .kept_bytes = 10, .forward_work_bytes = 20, .backward_work_bytes = 60
  };
  CostStageMemory m = hand_memory (&hand, 4);
  assert_int_equal (m.bytes[COST_MEMORY_ACTIVATIONS], 60);
  assert_int_equal (m.bytes[COST_MEMORY_WORKSPACE], 60);
  hand.layout.recompute.n = 4;
  m = hand_memory (&hand, 4);
  assert_int_equal (m.bytes[COST_MEMORY_ACTIVATIONS], 20);
  assert_int_equal (m.bytes[COST_MEMORY_WORKSPACE], 60 + 3 * 100);
  hand.layout.recompute.method = MODEL_RECOMPUTE_BLOCK;
  hand.layout.recompute.n = 2;
  hand.content.recomputed[0] = 2;
  m = hand_memory (&hand, 4);
  assert_int_equal (m.bytes[COST_MEMORY_ACTIVATIONS], 2 * 10 + 4 * 100);
  assert_int_equal (m.bytes[COST_MEMORY_WORKSPACE], 60);
}

/* Two peaks: 600 kept + 50 work are free at the step. A copy of 4 bytes for 6000 parameters finds
 * 650 of its 24000 there; over 8 shards 3000. */
static void
test_step_copy (void **state)
{
  Hand hand;
  hand_init (&hand);
  hand.profile.step_copy_bytes = 4;
  CostStageMemory m = hand_memory (&hand, 4);
  assert_int_equal (m.allocated_bytes, 12000 + 24000 + 72000 + 24000);
  assert_int_equal (m.bytes[COST_MEMORY_WORKSPACE], 24000 - 600);
  hand.layout.zero = 1;
  m = hand_memory (&hand, 4);
  assert_int_equal (m.allocated_bytes, 12000 + 24000 + 9000 + 3000);
  hand.profile.step_copy_bytes = 0.1;
  m = hand_memory (&hand, 4);
  assert_int_equal (m.bytes[COST_MEMORY_WORKSPACE], 50);
}

/* Logits of 300 at the peak hide the layer's 50; the head itself works with 7. Dummy gradients
 * 2·700. reserved 1.07, need 1.2; 3 communicators of 1000, context 5000. */
static void
test_head_and_views (void **state)
{
  Hand hand;
  hand_init (&hand);
  hand.content.has_head = TRUE;
  hand.tmpl.head.memory = (ModelSegmentMemory){
    .kept_bytes = 5, .logits_kept_bytes = 200, .logits_peak_bytes = 300, .backward_work_bytes = 7
  };
  hand.profile.dummy_wgrad = TRUE;
  hand.numbers.profile.reserved_ratio = 1.07;
  hand.numbers.profile.need_ratio = 1.2;
  hand.numbers.memory.communicator_bytes = 1000;
  hand.profile.context_bytes = 5000;
  hand.shards.communicators = 3;
  CostStageMemory m = hand_memory (&hand, 4);
  guint64 allocated = 12000 + 24000 + 72000 + 605 + 300 + 7 + 1400;
  assert_int_equal (m.bytes[COST_MEMORY_LOGITS], 300);
  assert_int_equal (m.bytes[COST_MEMORY_WORKSPACE], 1407);
  assert_int_equal (m.allocated_bytes, allocated);
  assert_int_equal (m.reserved_bytes, allocated + 7721); /* 0.07 · 110312 = 7721.8 */
  assert_int_equal (m.peak_bytes, allocated + 7721 + 3000 + 5000);
  assert_int_equal (m.need_bytes, 132374 + 8000); /* 1.2 · 110312 = 132374.4 */
  /* half as much again of what comes and goes: 605 + 300 + 7 + 1400 */
  hand.numbers.profile.need_changing_ratio = 1.5;
  m = hand_memory (&hand, 4);
  assert_int_equal (m.need_bytes, 133530 + 8000); /* 132374.4 + 0.5 · 2312 */
  hand.profile.expandable_segments = TRUE;
  m = hand_memory (&hand, 4);
  assert_int_equal (m.need_bytes, allocated + 8000);
}

/*
 * BLOOM's engine in bf16: 2 + 2 + 4 bytes per parameter whole, 12 / d sharded (profiles, block C);
 * per micro-batch in flight a stage keeps its output, 2·s·b·h, beside the inputs of its layers
 * (block E of DeepSpeed's pipeline buffers). 176B layers: 12 h² + 13 h weights each, / tp.
 */
static void
test_bloom_engine (void **state)
{
  g_auto (Setting) s = { 0 };
  g_auto (CostPrediction) bf16 = { 0 };
  g_auto (CostPrediction) fp16 = { 0 };
  const char *layout = "tp=4,pp=12,dp=8,zero=1,mbs=2,attn=unfused,recompute=full";
  g_autofree char *half = g_strconcat (layout, ",dtype=fp16", NULL);
  setting_init (&s, "bloom-176b", "dgx-a100-80g", "deepspeed", 384, 2048, 2048);
  setting_predict (&s, layout, &bf16);
  setting_predict (&s, half, &fp16);
  const CostStageMemory *m = &bf16.stages[5].memory, *h = &fp16.stages[5].memory;
  double weights = (double)m->bytes[COST_MEMORY_WEIGHTS] / 2, hidden = 14336;
  assert_near (weights, bf16.stages[5].layers * (12 * hidden * hidden + 13 * hidden) / 4, 1e-3);
  assert_near ((double)m->bytes[COST_MEMORY_GRADIENTS], 6 * weights, 1e-9);
  assert_near ((double)h->bytes[COST_MEMORY_GRADIENTS], 2 * weights, 1e-9);
  assert_near ((double)m->bytes[COST_MEMORY_OPTIMIZER], 12 * weights / 8, 1e-6);
  double boundary = 2.0 * 2048 * 2 * hidden;
  assert_near ((double)m->bytes[COST_MEMORY_ACTIVATIONS],
               (double)m->in_flight_count * (bf16.stages[5].layers + 1) * boundary, 1e-9);
}

/* Six tenths of what is kept are routed tokens: the hottest rank has a half more of them. FSDP under
 * a pipeline reduces once per step: gradients are whole. */
static void
test_routing_and_late_gradients (void **state)
{
  Hand hand;
  hand_init (&hand);
  CostStageMemory even = hand_memory (&hand, 4);
  hand.numbers.memory.imbalance_ratio = 1.5;
  hand.tmpl.blocks[0].memory.routed_kept_bytes = hand.tmpl.blocks[0].memory.kept_bytes * 3 / 5;
  hand.tmpl.plain_blocks[0].memory.routed_kept_bytes
      = hand.tmpl.plain_blocks[0].memory.kept_bytes * 3 / 5;
  CostStageMemory hot = hand_memory (&hand, 4);
  assert_int_equal (hot.allocated_bytes, even.allocated_bytes);
  assert_int_equal (hot.need_bytes, even.need_bytes + even.bytes[COST_MEMORY_ACTIVATIONS] * 3 / 10);
  hand.layout.zero = 3;
  guint64 sharded = hand_memory (&hand, 4).bytes[COST_MEMORY_GRADIENTS];
  hand.layout.pp = 2;
  guint64 whole = hand_memory (&hand, 4).bytes[COST_MEMORY_GRADIENTS];
  assert_int_equal (whole, even.bytes[COST_MEMORY_GRADIENTS]);
  assert_true (sharded < whole);
}

/* More of anything never needs less. */
static void
test_monotone (void **state)
{
  static const char *const steps[][2] = {
    { "tp=8,pp=2,sp=1,mbs=1", "tp=8,pp=2,sp=1,mbs=2" },
    { "tp=8,pp=2,sp=1,mbs=1", "tp=4,pp=2,sp=1,mbs=1" },
    { "tp=8,pp=4,sp=1,mbs=1", "tp=8,pp=2,sp=1,mbs=1" },
    { "tp=8,pp=2,sp=1,mbs=1,zero=1", "tp=8,pp=2,sp=1,mbs=1" },
    { "tp=8,pp=2,sp=1,mbs=1", "tp=8,pp=2,mbs=1" },
    { "tp=8,pp=2,sp=1,mbs=1,recompute=full", "tp=8,pp=2,sp=1,mbs=1" },
    { "tp=8,pp=4,sp=1,mbs=1,recompute=full", "tp=8,pp=4,sp=1,mbs=1,recompute=full:block:4" },
  };
  g_auto (Setting) s = { 0 };
  setting_init (&s, "llama-3.1-70b", "hgx-h100", "megatron", 64, 8192, 128);
  for (guint i = 0; i < G_N_ELEMENTS (steps); i++) {
    g_auto (CostPrediction) less = { 0 }, more = { 0 };
    setting_predict (&s, steps[i][0], &less);
    setting_predict (&s, steps[i][1], &more);
    assert_true (less.stages[less.fullest_stage].memory.allocated_bytes
                 < more.stages[more.fullest_stage].memory.allocated_bytes);
  }
}

int
main (void)
{
  static const struct CMUnitTest fixed[] = {
    cmocka_unit_test (test_gpt3),
    cmocka_unit_test (test_zero_stages),
    cmocka_unit_test (test_gathers),
    cmocka_unit_test (test_fp32_master),
    cmocka_unit_test (test_in_flight),
    cmocka_unit_test (test_recompute),
    cmocka_unit_test (test_step_copy),
    cmocka_unit_test (test_head_and_views),
    cmocka_unit_test (test_routing_and_late_gradients),
    cmocka_unit_test (test_bloom_engine),
    cmocka_unit_test (test_monotone),
  };
  enum { N_FIXED = G_N_ELEMENTS (fixed) };
  struct CMUnitTest tests[N_FIXED + G_N_ELEMENTS (peaks)];
  memcpy (tests, fixed, sizeof fixed);
  for (guint i = 0; i < G_N_ELEMENTS (peaks); i++)
    tests[N_FIXED + i] = (struct CMUnitTest){ .name = peaks[i].name,
                                              .test_func = test_peak,
                                              .initial_state = (void *)&peaks[i] };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
