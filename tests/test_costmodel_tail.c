/* tests/test_costmodel_tail.c - the end of the step as the cost model sums it against the same end
 * as the program lists it, op by op. */
#include "costmodel/evaluate-private.h"
#include "costmodel/opcost.h"
#include "tests/costmodel_setting.h"

typedef struct {
  const char *name, *model, *profile;
  guint32 gpus;
  const char *layout;
} TailCase;

/* All without overlap: the whole traffic shows. */
static const TailCase cases[] = {
  { "tail/zero0", "llama-3.1-8b", "torchtitan", 16, "tp=2,zero=0,overlap_dp=0" },
  { "tail/zero1", "llama-3.1-8b", "torchtitan", 16, "tp=2,zero=1,overlap_dp=0" },
  { "tail/zero1_all_reduce", "llama-3.1-8b", "nanotron", 16, "tp=2,zero=1,overlap_dp=0" },
  { "tail/zero2", "llama-3.1-8b", "torchtitan", 16, "tp=2,zero=2,overlap_dp=0" },
  { "tail/zero2_pipelined", "llama-3.1-8b", "torchtitan", 16, "pp=2,zero=2,overlap_dp=0" },
  { "tail/zero3", "llama-3.1-8b", "torchtitan", 16, "tp=2,zero=3,overlap_dp=0" },
  { "tail/zero3_pipelined", "llama-3.1-8b", "torchtitan", 16, "pp=2,zero=3,overlap_dp=0" },
  /* main gradients of 4 B, reduced in 2 B */
  { "tail/fsdp_replicated", "llama-3.1-8b", "fsdp", 16, "tp=2,sp=1,zero=1,overlap_dp=0" },
  { "tail/sp", "llama-3.1-8b", "megatron", 16, "tp=2,sp=1,zero=1" },
  { "tail/tp_sync", "llama-3.1-8b", "megatron", 16, "tp=2,tp_sync=0.5" },
  { "tail/tied", "gpt2-xl", "fsdp", 16, "pp=2,zero=1,overlap_dp=0" },
  { "tail/tied_padded", "gpt2-xl", "megatron", 20, "pp=2,tp=5" },
  { "tail/experts", "mixtral-8x7b", "megatron", 32, "pp=2,ep=4,zero=1,overlap_dp=0" },
  { "tail/hsdp_zero1", "llama-3.1-8b", "torchtitan", 32, "hsdp=8,zero=1,overlap_dp=0" },
  { "tail/hsdp_zero2", "llama-3.1-8b", "torchtitan", 32, "hsdp=8,zero=2,overlap_dp=0" },
  { "tail/hsdp_zero3", "llama-3.1-8b", "torchtitan", 32, "hsdp=8,zero=3,overlap_dp=0" },
  { "tail/hsdp_experts", "mixtral-8x7b", "torchtitan", 32, "ep=4,hsdp=8,zero=1,overlap_dp=0" },
  { "tail/hsdp_experts_zero2", "mixtral-8x7b", "torchtitan", 32,
    "ep=4,hsdp=8,zero=2,overlap_dp=0" },
  { "tail/hsdp_experts_whole", "mixtral-8x7b", "torchtitan", 32,
    "ep=8,hsdp=8,zero=1,overlap_dp=0" },
  { "tail/experts_zero0", "mixtral-8x7b", "megatron", 32, "pp=2,ep=4,zero=0,overlap_dp=0" },
};

/* What one layout needs to be priced. */
typedef struct {
  Setting setting;
  ModelLayout layout;
  CostTemplate tmpl;
  CostStageMap map;
  CostPlacement placement;
  CostContext context; /* with the groups of the tail, too */
} Priced;

static void
priced_clear (Priced *priced)
{
  cost_stage_map_clear (&priced->map);
  model_layout_clear (&priced->layout);
  setting_clear (&priced->setting);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Priced, priced_clear)

static void
priced_init (Priced *p, const TailCase *c)
{
  GError *error = NULL;
  CostBlockKinds kinds;
  ModelRankMap ranks;
  Setting *s = &p->setting;
  setting_init (s, c->model, "hgx-h100", c->profile, c->gpus, 2048, 64);
  setting_layout (s, c->layout, &p->layout);
  g_autofree guint32 *layers = g_new (guint32, p->layout.pp * p->layout.vpp);
  assert_true (model_stages_layers (s->arch, &p->layout, s->profile, layers));
  cost_block_kinds_init (&kinds, s->arch, &error);
  assert_no_error (error);
  cost_stage_map_init_recompute (&p->map, s->arch, &kinds, p->layout.pp, p->layout.vpp,
                                 p->layout.schedule, layers,
                                 cost_stage_map_recompute_layers (&p->layout));
  cost_template_init (&p->tmpl, s->arch, &kinds, &s->job, &p->layout, s->profile, s->machine,
                      &s->numbers, c->gpus, &error);
  assert_no_error (error);
  cost_placement_init (&p->placement, &s->problem, &p->layout, &p->tmpl);
  model_rankmap_init (&ranks, &p->layout);
  cost_context_init (&p->context, s->machine, s->profile, &s->numbers, &ranks);
}

/* Seconds of the ops of @kind on some streams of a range of the program; the optimizer's without
 * launches, which the cost model leaves to the step's fixed time. */
static double
sum_s (const Priced *p, const ModelProgram *program, ModelOpRange range, ModelOpKind kind,
       guint streams)
{
  double sum = 0;
  for (guint32 i = range.first; i < range.first + range.count; i++) {
    const ModelOp *op = &program->ops[i];
    if (op->kind == kind && streams & 1u << op->stream)
      sum += cost_op_s (&p->context, op)
             - (kind == MODEL_OP_ADAM ? p->setting.numbers.gpu.gemm.launch_s : 0);
  }
  return sum;
}

/* Reductions that ZeRO 2 makes after every micro-batch, where the cost model takes those of all
 * layers for one message; ZeRO 3's are in the passes. */
static double
per_microbatch_s (const Priced *p, const ModelProgram *program)
{
  double bytes[MODEL_GROUP_N_KINDS] = { 0 }, sum = 0;
  for (guint32 i = 0; i < program->n_ops && p->layout.zero == 2; i++) {
    const ModelOp *op = &program->ops[i];
    if (op->phase == MODEL_PHASE_BACKWARD_WEIGHT && op->stream == MODEL_STREAM_DP)
      bytes[op->group] += (double)op->message_bytes;
  }
  for (guint i = 0; i < MODEL_GROUP_N_KINDS; i++)
    if (bytes[i] > 0)
      sum += cost_collective_s (&p->context.groups[i], MODEL_COLLECTIVE_REDUCE_SCATTER, bytes[i]);
  return sum * (double)program->microbatches;
}

static void
test_tail (void **state)
{
  const TailCase *c = *state;
  g_auto (Priced) p = { 0 };
  priced_init (&p, c);
  const Setting *s = &p.setting;
  const CostStageTime under = { .forward_s = 1, .backward_s = 2 };
  for (guint32 rank = 0; rank < p.layout.pp; rank++) {
    g_autoptr (GError) error = NULL;
    const CostStageContent *content = &p.map.classes[p.map.class_of_rank[rank]].content;
    CostWeights weights;
    CostTail tail;
    cost_weights_count (&weights, &p.tmpl, content, p.layout.pp > 1);
    cost_tail (&tail, &s->problem, &p.layout, &p.tmpl, &p.placement, content, &weights,
               model_layout_microbatches (&p.layout, &s->job), &under);
    g_autoptr (ModelProgram) program
        = model_program_new (s->arch, &s->job, &p.layout, s->profile, rank, &error);
    assert_no_error (error);
    double dp_s = sum_s (&p, program, program->tail, MODEL_OP_COLLECTIVE,
                         1u << MODEL_STREAM_DP | 1u << MODEL_STREAM_PP)
                  + per_microbatch_s (&p, program);
    print_message ("%s rank %u: dp %.6f s, %.6f s\n", c->layout, rank, tail.dp_s, dp_s);
    assert_near (tail.dp_s, dp_s, 1e-6);
    assert_near (tail.tp_s,
                 sum_s (&p, program, program->tail, MODEL_OP_COLLECTIVE, 1u << MODEL_STREAM_TP),
                 1e-9);
    /* shards are rounded up to whole weights */
    assert_near (tail.optimizer_s,
                 sum_s (&p, program, program->tail, MODEL_OP_ADAM, 1u << MODEL_STREAM_COMPUTE),
                 1e-6);
  }
}

/* Half of a backward of 4 ms hides the reduction, half of a forward of 2 ms the gather, where the
 * profile overlaps it; @dp_s without overlap is the sum of both. */
static void
test_overlap (void **state)
{
  g_auto (Priced) p = { 0 };
  priced_init (&p, &(TailCase){ "overlap", "llama-3.1-8b", "megatron", 16, "tp=2,zero=1" });
  Setting *s = &p.setting;
  ModelProfile profile = *s->profile; /* shallow */
  CostProblem problem = s->problem;
  CostNumbers numbers = *problem.numbers;
  const CostStageTime under = { .forward_s = 2e-3, .backward_s = 4e-3 };
  CostWeights weights;
  CostTail bare, reduced, both;
  const CostStageContent *content = &p.map.classes[0].content;
  problem.profile = &profile;
  problem.numbers = &numbers;
  numbers.profile.overlap_dp_ratio = 0.5;
  cost_weights_count (&weights, &p.tmpl, content, FALSE);
  p.layout.overlap_dp = FALSE;
  cost_tail (&bare, &problem, &p.layout, &p.tmpl, &p.placement, content, &weights, 1, &under);
  p.layout.overlap_dp = TRUE;
  profile.overlap_param_gather = FALSE;
  cost_tail (&reduced, &problem, &p.layout, &p.tmpl, &p.placement, content, &weights, 1, &under);
  profile.overlap_param_gather = TRUE;
  cost_tail (&both, &problem, &p.layout, &p.tmpl, &p.placement, content, &weights, 1, &under);
  assert_near (bare.dp_s - reduced.dp_s, 2e-3, 1e-9);
  assert_near (reduced.dp_s - both.dp_s, 1e-3, 1e-9);
  assert_near (bare.reduction_s - reduced.reduction_s, 2e-3, 1e-9);
}

/* ZeRO-1 of a profile that reduces whole gradients does so after the backward, whatever the layout
 * asks for; without ZeRO half of a backward of 4 ms hides it. */
static void
test_not_under_backward (void **state)
{
  const CostStageTime under = { .forward_s = 2e-3, .backward_s = 4e-3 };
  double dp_s[2][2];
  for (guint zero = 0; zero < 2; zero++)
    for (guint overlap = 0; overlap < 2; overlap++) {
      g_auto (Priced) p = { 0 };
      g_autofree char *layout = g_strdup_printf ("tp=2,zero=%u,overlap_dp=%u", zero, overlap);
      priced_init (&p, &(TailCase){ "under", "llama-3.1-8b", "nanotron", 16, layout });
      CostProblem problem = p.setting.problem;
      CostNumbers numbers = *problem.numbers;
      CostWeights weights;
      CostTail tail;
      const CostStageContent *content = &p.map.classes[0].content;
      problem.numbers = &numbers;
      numbers.profile.overlap_dp_ratio = 0.5;
      cost_weights_count (&weights, &p.tmpl, content, FALSE);
      cost_tail (&tail, &problem, &p.layout, &p.tmpl, &p.placement, content, &weights, 1, &under);
      dp_s[zero][overlap] = tail.dp_s;
    }
  assert_near (dp_s[0][0] - dp_s[0][1], 2e-3, 1e-9);
  assert_near (dp_s[1][0], dp_s[1][1], 1e-12);
}

/* Four equal stages that reduce in turn: what shows of the reduction counts four times. */
static void
test_in_turn (void **state)
{
  g_auto (Priced) p = { 0 };
  priced_init (&p, &(TailCase){ "turn", "llama-3.1-8b", "megatron", 32, "pp=4,zero=0" });
  Setting *s = &p.setting;
  ModelProfile profile = *s->profile; /* shallow */
  CostNumbers numbers = *s->problem.numbers;
  numbers.profile.overlap_dp_ratio = 0;
  CostProblem problem = s->problem;
  problem.profile = &profile;
  problem.numbers = &numbers;
  double tail_s[2], reductions_s = 0, longest_s = 0;
  for (guint turn = 0; turn < 2; turn++) {
    g_auto (CostPrediction) prediction = { 0 };
    profile.overlap_dp = profile.reduces_before_sends = turn;
    p.layout.overlap_dp = TRUE;
    assert_true (cost_predict (&problem, &p.layout, &prediction, NULL));
    tail_s[turn] = prediction.tail_s;
  }
  for (guint32 rank = 0; rank < 4; rank++) {
    const CostStageContent *content = &p.map.classes[p.map.class_of_rank[rank]].content;
    const CostStageTime none = { 0 };
    CostWeights weights;
    CostTail tail;
    cost_weights_count (&weights, &p.tmpl, content, TRUE);
    cost_tail (&tail, &problem, &p.layout, &p.tmpl, &p.placement, content, &weights, 1, &none);
    reductions_s += tail.reduction_s;
    longest_s = MAX (longest_s, tail.reduction_s);
  }
  assert_true (reductions_s > 2 * longest_s);
  assert_near (tail_s[1] - tail_s[0], reductions_s - longest_s, 1e-9);
}

int
main (void)
{
  static const struct CMUnitTest more[] = {
    cmocka_unit_test (test_overlap),
    cmocka_unit_test (test_not_under_backward),
    cmocka_unit_test (test_in_turn),
  };
  struct CMUnitTest tests[G_N_ELEMENTS (cases) + G_N_ELEMENTS (more)];
  memcpy (tests + G_N_ELEMENTS (cases), more, sizeof more);
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    tests[i] = (struct CMUnitTest){ .name = cases[i].name,
                                    .test_func = test_tail,
                                    .initial_state = (void *)&cases[i] };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
