/* tests/test_costmodel_evaluate.c - whole predictions: sums, bounds, published steps. */
#include "tests/costmodel_setting.h"

/* Whatever a prediction must fulfil. */
static void
check_prediction (const CostPrediction *p)
{
  double sum = 0;
  for (guint i = 0; i < COST_PART_N_KINDS; i++) {
    assert_true (p->breakdown_s[i] >= 0);
    sum += p->breakdown_s[i];
  }
  assert_near (sum, p->step_s, 1e-12);
  assert_true (p->step_s_p10 < p->step_s && p->step_s < p->step_s_p90);
  assert_true (p->mfu > 0 && p->mfu < 1);
  assert_true (p->oom_risk >= 0 && p->oom_risk <= 1);
  for (guint32 i = 0; i < p->n_stages; i++) {
    const CostStageMemory *m = &p->stages[i].memory;
    guint64 bytes = 0;
    for (guint j = 0; j < COST_MEMORY_N_KINDS; j++)
      bytes += m->bytes[j];
    assert_int_equal (bytes, m->peak_bytes);
    assert_true (m->allocated_bytes <= m->reserved_bytes && m->reserved_bytes <= m->peak_bytes);
    assert_true (m->peak_bytes <= p->stages[p->fullest_stage].memory.peak_bytes);
    assert_true (p->stages[i].oom_risk <= p->oom_risk);
  }
}

/* Korthikanti et al. 2022, table 5, 175B on 64 A100: seconds of a step. */
static void
test_published_steps (void **state)
{
  static const struct {
    const char *layout;
    double step_s;
  } rows[] = {
    { "tp=8,pp=8,vpp=3,sp=1,mbs=1,zero=0,attn=unfused,recompute=selective", 13.75 },
    { "tp=8,pp=8,vpp=3,mbs=1,zero=0,attn=unfused,recompute=full", 18.13 },
  };
  g_auto (Setting) s = { 0 };
  setting_init (&s, "gpt3-175b", "dgx-a100-80g", "megatron", 64, 2048, 64);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_auto (CostPrediction) p = { 0 };
    setting_predict (&s, rows[i].layout, &p);
    check_prediction (&p);
    print_message ("%s: %.2f s of %.2f:", rows[i].layout, p.step_s, rows[i].step_s);
    for (guint j = 0; j < COST_PART_N_KINDS; j++)
      print_message (" %s %.3f", cost_part_name (j), p.breakdown_s[j]);
    print_message ("\n");
    assert_near (p.step_s, rows[i].step_s, 0.12);
    assert_true (p.fits);
  }
}

/* A GPU whose file has no fp32 peak is not priced at its 16-bit one. */
static void
test_refuses_unknown_dtype (void **state)
{
  g_autoptr (GError) error = NULL;
  g_auto (Setting) s = { 0 };
  g_auto (ModelLayout) layout = { 0 };
  g_auto (CostPrediction) p = { 0 };
  setting_init (&s, "llama-3.1-8b", "tpu-v5p-pod", "generic", 8, 2048, 8);
  setting_layout (&s, "dtype=fp32", &layout);
  assert_false (cost_predict (&s.problem, &layout, &p, &error));
  assert_true (g_error_matches (error, COST_ERROR, COST_ERROR_NO_DATA));
  assert_non_null (strstr (error->message, "dtype=fp32: use one of bf16"));
}

typedef struct {
  const char *name, *model, *machine, *profile;
  guint32 gpus;
  guint64 seq, batch;
} Space;

static const Space spaces[] = {
  { "dense", "llama-3.1-70b", "hgx-h100", "megatron", 64, 8192, 128 },
  { "dense_titan", "llama-3.1-8b", "hgx-h100", "torchtitan", 32, 8192, 64 },
  { "uneven", "llama-3.1-405b", "hgx-h100", "megatron", 512, 8192, 512 },
  { "moe", "deepseek-v3", "hgx-h800", "megatron", 256, 4096, 1024 },
  { "tied_dropout", "gpt2-xl", "dgx-a100-80g", "generic", 16, 1024, 64 },
  /* copies around attention, bias gradients apart, hosts that bind */
  { "copies", "llama-3.1-8b", "hgx-h100", "nanotron", 32, 4096, 64 },
  { "biases", "gpt3-175b", "dgx-a100-80g", "deepspeed", 128, 2048, 128 },
};

static guint32
pick (GRand *rand, const guint32 *values, guint n)
{
  return values[g_rand_int_range (rand, 0, n)];
}

static void
random_layout (const Setting *s, GRand *rand, ModelLayout *layout)
{
  static const guint32 powers[] = { 1, 2, 4, 8, 16 };
  model_layout_init (layout, s->profile);
  layout->tp = pick (rand, powers, 4);
  layout->cp = pick (rand, powers, 2);
  layout->pp = pick (rand, powers, 5);
  layout->vpp = g_rand_int_range (rand, 1, 5);
  layout->mbs = pick (rand, powers, 3);
  layout->sp = layout->tp > 1 && g_rand_boolean (rand);
  layout->zero = (guint8)g_rand_int_range (rand, 0, 4);
  layout->schedule = layout->vpp > 1         ? MODEL_SCHEDULE_INTERLEAVED
                     : g_rand_boolean (rand) ? MODEL_SCHEDULE_1F1B
                                             : MODEL_SCHEDULE_GPIPE;
  layout->recompute.kind = (guint8)g_rand_int_range (rand, 0, 3);
  if (layout->recompute.kind == MODEL_RECOMPUTE_SELECTIVE)
    layout->recompute.modules = MODEL_RECOMPUTE_CORE_ATTN;
  if (layout->recompute.kind == MODEL_RECOMPUTE_FULL) {
    layout->recompute.method = (guint8)g_rand_int_range (rand, 0, 2);
    layout->recompute.n = g_rand_int_range (rand, 1, 4);
  }
  layout->overlap_dp = g_rand_boolean (rand);
  layout->overlap_p2p = layout->vpp > 1 && g_rand_boolean (rand);
  if (s->arch->runs[s->arch->n_runs - 1].kind == MODEL_BLOCK_MOE)
    layout->ep = pick (rand, powers, 5);
  layout->dp = s->problem.gpus / (layout->tp * layout->cp * layout->pp);
}

/* The same with a schedule that splits, folds or feeds from both ends. */
static void
random_listed_layout (const Setting *s, GRand *rand, ModelLayout *layout)
{
  random_layout (s, rand, layout);
  layout->schedule
      = (ModelScheduleKind)g_rand_int_range (rand, MODEL_SCHEDULE_ZB_H1, MODEL_SCHEDULE_FILE);
  layout->vpp = model_schedule_chunks (layout->schedule);
}

static gboolean
is_legal (const Setting *s, const ModelLayout *layout)
{
  return layout->dp > 0
         && model_layout_check (s->arch, &s->job, layout, s->profile, s->problem.gpus)
                == MODEL_LEGAL;
}

static void
check_tiers (const Setting *s, const ModelLayout *layout, double *out_tightness)
{
  GError *error = NULL;
  CostBlockKinds kinds;
  CostPlacement placement;
  CostBound bound;
  g_auto (CostStageMap) map = { 0 };
  g_auto (CostPrediction) p = { 0 };
  g_autofree CostTemplate *tmpl = g_new (CostTemplate, 1);
  g_autofree guint32 *layers = g_new (guint32, layout->pp * layout->vpp);
  g_autoptr (CostPipelineScratch) scratch = cost_pipeline_scratch_new ();
  cost_block_kinds_init (&kinds, s->arch, &error);
  assert_no_error (error);
  assert_true (model_stages_layers (s->arch, layout, s->profile, layers));
  cost_stage_map_init_recompute (&map, s->arch, &kinds, layout->pp, layout->vpp, layout->schedule,
                                 layers, cost_stage_map_recompute_layers (layout));
  cost_template_init (tmpl, s->arch, &kinds, &s->job, layout, s->profile, s->machine, &s->numbers,
                      s->problem.gpus, &error);
  assert_no_error (error);
  cost_placement_init (&placement, &s->problem, layout, tmpl);
  cost_evaluate_bound (&s->problem, layout, tmpl, &map, &placement, &bound);
  cost_evaluate (&s->problem, layout, tmpl, &map, &placement, scratch, &p, &error);
  assert_no_error (error);
  check_prediction (&p);
  guint64 need = 0;
  for (guint32 i = 0; i < p.n_stages; i++)
    need = MAX (need, p.stages[i].memory.need_bytes);
  assert_true (bound.lower_bound_s <= p.step_s);
  assert_int_equal (bound.peak_bytes, p.stages[p.fullest_stage].memory.peak_bytes);
  assert_int_equal (bound.need_bytes, need);
  assert_true (fabs (bound.oom_risk - p.oom_risk) < 1e-4);
  assert_true (p.fits == (need <= p.usable_bytes));
  *out_tightness = bound.lower_bound_s / p.step_s;
}

static void
test_random_layouts (void **state)
{
  const Space *space = *state;
  g_auto (Setting) s = { 0 };
  g_autoptr (GRand) rand = g_rand_new_with_seed (11);
  setting_init (&s, space->model, space->machine, space->profile, space->gpus, space->seq,
                space->batch);
  guint n = 0;
  double sum = 0, least = 1;
  for (guint i = 0; i < 20000 && n < 250; i++) {
    g_auto (ModelLayout) layout = { 0 };
    random_layout (&s, rand, &layout);
    if (!is_legal (&s, &layout))
      continue;
    double tightness;
    check_tiers (&s, &layout, &tightness);
    least = MIN (least, tightness);
    sum += tightness;
    n++;
  }
  print_message ("%s: %u layouts, bound over step %.4f on average, %.3f at least\n", space->name, n,
                 sum / n, least);
  assert_true (n >= 50);
  assert_true (sum / n > 0.95);
}

static void
test_random_listed (void **state)
{
  const Space *space = *state;
  g_auto (Setting) s = { 0 };
  g_autoptr (GRand) rand = g_rand_new_with_seed (12);
  setting_init (&s, space->model, space->machine, space->profile, space->gpus, space->seq,
                space->batch);
  guint n = 0;
  double sum = 0, least = 1;
  for (guint i = 0; i < 20000 && n < 100; i++) {
    g_auto (ModelLayout) layout = { 0 };
    double tightness;
    random_listed_layout (&s, rand, &layout);
    if (!is_legal (&s, &layout))
      continue;
    check_tiers (&s, &layout, &tightness);
    least = MIN (least, tightness);
    sum += tightness;
    n++;
  }
  print_message ("%s, listed: %u layouts, bound over step %.4f on average, %.3f at least\n",
                 space->name, n, sum / n, least);
  assert_true (n >= 50);
  assert_true (sum / n > 0.7);
}

/* One GPU: no pipeline, no groups, nothing exposed; and a GPU without the dtype. */
static void
test_single (void **state)
{
  g_auto (Setting) s = { 0 };
  g_auto (CostPrediction) p = { 0 };
  setting_init (&s, "tiny", "dgx-a100-80g", "plait", 1, 128, 8);
  setting_predict (&s, "mbs=1", &p);
  check_prediction (&p);
  assert_int_equal (p.n_groups, 0);
  assert_int_equal (p.n_stages, 1);
  assert_true (p.fits);
  static const CostPart none[] = { COST_PART_TP,        COST_PART_CP,  COST_PART_EP,
                                   COST_PART_PP_BUBBLE, COST_PART_P2P, COST_PART_DP };
  for (guint i = 0; i < G_N_ELEMENTS (none); i++)
    assert_true (p.breakdown_s[none[i]] == 0);
  g_autoptr (GError) error = NULL;
  g_auto (ModelLayout) layout = { 0 };
  CostPrediction untouched = { .step_s = -1 };
  setting_layout (&s, "mbs=1", &layout);
  layout.dtype = MODEL_DTYPE_FP8; /* Ampere has none */
  assert_false (cost_predict (&s.problem, &layout, &untouched, &error));
  assert_true (g_error_matches (error, COST_ERROR, COST_ERROR_NO_DATA));
  assert_true (untouched.step_s == -1);
}

/* Data parallelism: 8 times the GPUs and the batch give about 8 times the tokens, and never
 * more; ZeRO 1 updates an eighth of the parameters. */
static void
test_data_parallel (void **state)
{
  g_auto (Setting) one = { 0 }, eight = { 0 };
  g_auto (CostPrediction) a = { 0 }, b = { 0 }, c = { 0 };
  setting_init (&one, "gpt2-xl", "hgx-h100", "megatron", 1, 1024, 64);
  setting_init (&eight, "gpt2-xl", "hgx-h100", "megatron", 8, 1024, 512);
  setting_predict (&one, "mbs=4", &a);
  setting_predict (&eight, "mbs=4", &b);
  setting_predict (&eight, "mbs=4,zero=1", &c);
  assert_near (a.breakdown_s[COST_PART_COMPUTE], b.breakdown_s[COST_PART_COMPUTE], 1e-9);
  assert_true (b.breakdown_s[COST_PART_DP] > 0);
  assert_true (b.tokens_per_s_per_gpu < a.tokens_per_s_per_gpu);
  assert_near (c.breakdown_s[COST_PART_OPTIMIZER], b.breakdown_s[COST_PART_OPTIMIZER] / 8, 1e-6);
}

/* tokens/s/GPU = batch · seq / step / gpus, TFLOPS from the model's FLOPs, MFU over 989.4e12. */
static void
test_rates (void **state)
{
  g_auto (Setting) s = { 0 };
  g_auto (CostPrediction) p = { 0 };
  setting_init (&s, "llama-3.1-70b", "hgx-h100", "megatron", 64, 8192, 128);
  setting_predict (&s, "tp=4,sp=1,pp=4,vpp=5,zero=1", &p);
  assert_near (p.tokens_per_s_per_gpu, 128.0 * 8192 / p.step_s / 64, 1e-12);
  assert_near (p.tflops_per_gpu, s.problem.model_flop / p.step_s / 64 / 1e12, 1e-12);
  assert_near (p.mfu, p.tflops_per_gpu * 1e12 / s.machine->gpu->peak_flop_per_s[TOPO_DTYPE_BF16],
               1e-12);
}

int
main (void)
{
  static const struct CMUnitTest fixed[] = {
    cmocka_unit_test (test_published_steps),       cmocka_unit_test (test_single),
    cmocka_unit_test (test_data_parallel),         cmocka_unit_test (test_rates),
    cmocka_unit_test (test_refuses_unknown_dtype),
  };
  enum { N_FIXED = G_N_ELEMENTS (fixed) };
  enum { N_SPACES = G_N_ELEMENTS (spaces) };
  struct CMUnitTest tests[N_FIXED + 2 * N_SPACES];
  memcpy (tests, fixed, sizeof fixed);
  for (guint i = 0; i < 2 * N_SPACES; i++)
    tests[N_FIXED + i]
        = (struct CMUnitTest){ .name = spaces[i % N_SPACES].name,
                               .test_func = i < N_SPACES ? test_random_layouts : test_random_listed,
                               .initial_state = (void *)&spaces[i % N_SPACES] };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
