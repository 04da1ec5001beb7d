/* tests/test_costmodel_pieces.c - the pieces of a step add up to what tier 2 says. */
#include "costmodel/pieces.h"
#include "tests/costmodel_setting.h"

typedef struct {
  const char *name, *model, *machine, *profile;
  guint32 gpus;
  guint64 batch;
  const char *layout;
} PiecesCase;

static const PiecesCase cases[] = {
  { "pieces/sp", "llama-3.1-8b", "hgx-h100", "megatron", 32, 64, "tp=4,pp=2,sp=1,zero=1" },
  { "pieces/no_sp", "llama-2-7b", "dgx-a100-80g", "megatron", 16, 64, "tp=4,pp=2,zero=0" },
  { "pieces/rings", "llama-3.1-8b", "hgx-h100", "nemo", 32, 64, "tp=2,cp=4,pp=2,sp=1,zero=1" },
  { "pieces/moe", "mixtral-8x7b", "hgx-h100", "megatron", 64, 64, "tp=2,sp=1,pp=4,ep=8,zero=1" },
  { "pieces/full_recompute", "llama-3.1-8b", "hgx-h100", "megatron", 32, 64,
    "tp=4,pp=4,sp=1,recompute=full" },
  { "pieces/fsdp", "llama-3.1-8b", "hgx-h100", "torchtitan", 32, 64, "zero=3" },
  { "pieces/hsdp", "llama-3.1-8b", "hgx-h100", "torchtitan", 32, 64, "zero=3,hsdp=8" },
  { "pieces/hsdp_moe", "mixtral-8x7b", "hgx-h100", "torchtitan", 64, 64, "zero=3,hsdp=16,ep=4" },
  { "pieces/zero_1_hsdp", "llama-3.1-8b", "hgx-h100", "megatron", 32, 64,
    "tp=2,sp=1,zero=1,hsdp=4" },
  { "pieces/zero_2", "llama-3.1-8b", "hgx-h100", "torchtitan", 32, 64, "tp=2,zero=2" },
  { "pieces/mirror", "llama-3.1-8b", "hgx-h100", "megatron", 32, 64,
    "tp=4,pp=4,schedule=dualpipe" },
};

/* Sums of @times by pass against @block, and apart. */
static void
check_block (const CostTemplate *tmpl, const ModelLayout *layout, const ModelSegment *segment,
             const CostBlock *block)
{
  g_autofree CostOpTime *times = g_new0 (CostOpTime, MAX (segment->n_ops, 1));
  double sum_s[3] = { 0 }, apart_s[3] = { 0 };
  cost_op_times (&tmpl->context, layout, segment, block, times);
  for (guint i = 0; i < segment->n_ops; i++) {
    const ModelOp *op = &segment->ops[i];
    guint pass = op->phase == MODEL_PHASE_FORWARD           ? COST_PASS_FORWARD
                 : op->phase == MODEL_PHASE_BACKWARD_WEIGHT ? COST_PASS_BACKWARD_WEIGHT
                                                            : COST_PASS_BACKWARD_INPUT;
    gboolean is_compute = op->stream == MODEL_STREAM_COMPUTE;
    sum_s[pass] += is_compute ? times[i].time_s + times[i].gap_s : times[i].exposed_s;
    apart_s[pass] += is_compute ? times[i].time_s + times[i].gap_s : times[i].apart_exposed_s;
    assert_true (times[i].exposed_s <= times[i].time_s * (1 + 1e-12));
    assert_true (times[i].exposed_s >= 0 && times[i].apart_exposed_s >= times[i].exposed_s);
  }
  for (guint pass = 0; pass < COST_PASS_N_KINDS; pass++)
    if (block->pass_s[pass] > 0)
      assert_near (sum_s[pass], block->pass_s[pass], 1e-9);
  double both = apart_s[1] + apart_s[2] - sum_s[1] - sum_s[2];
  assert_true (fabs (both - block->wgrad_hidden_s) <= 1e-9 * (sum_s[1] + 1e-9));
}

static void
test_pieces (void **state)
{
  const PiecesCase *p = *state;
  g_auto (Setting) s = { 0 };
  g_auto (ModelLayout) layout = { 0 };
  g_autoptr (GError) error = NULL;
  g_autofree CostTemplate *tmpl = g_new0 (CostTemplate, 1);
  g_auto (CostStageMap) map = { 0 };
  g_auto (CostPrediction) prediction = { 0 };
  CostBlockKinds kinds;
  CostPlacement placement;
  double longest_s = 0;

  setting_init (&s, p->model, p->machine, p->profile, p->gpus, 2048, p->batch);
  setting_layout (&s, p->layout, &layout);
  assert_true (cost_block_kinds_init (&kinds, s.arch, &error));
  assert_true (cost_template_init (tmpl, s.arch, &kinds, &s.job, &layout, s.profile, s.machine,
                                   &s.numbers, p->gpus, &error));
  for (guint kind = 0; kind < kinds.n_kinds; kind++) {
    g_autoptr (ModelSegment) segment
        = model_segment_new (s.arch, &s.job, &layout, s.profile, MODEL_PART_BLOCK,
                             kinds.representative[kind], layout.recompute.kind, &error);
    assert_no_error (error);
    check_block (tmpl, &layout, segment, &tmpl->blocks[kind]);
  }
  cost_placement_init (&placement, &s.problem, &layout, tmpl);
  g_autofree guint32 *layers = g_new0 (guint32, model_layout_n_stages (&layout));
  assert_true (model_stages_layers (s.arch, &layout, s.profile, layers));
  cost_stage_map_init (&map, s.arch, &kinds, layout.pp, layout.vpp, layout.schedule, layers);
  for (guint32 i = 0; i < map.n_classes; i++) {
    CostWeights weights;
    CostStageTime time;
    CostTailPieces pieces;
    const CostStageContent *content = &map.classes[i].content;
    cost_weights_count (&weights, tmpl, content, layout.pp > 1);
    cost_stage_time (&time, tmpl, &placement, &layout, content);
    cost_tail_pieces (&pieces, &s.problem, &layout, tmpl, &placement, content, &weights, &time);
    longest_s = MAX (longest_s,
                     cost_tail_pieces_sum (&pieces, model_layout_microbatches (&layout, &s.job)));
  }
  assert_true (cost_predict (&s.problem, &layout, &prediction, &error));
  assert_near (longest_s, prediction.tail_s, 1e-9);
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (cases)];
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    tests[i] = (struct CMUnitTest){ .name = cases[i].name,
                                    .test_func = test_pieces,
                                    .initial_state = (void *)&cases[i] };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
