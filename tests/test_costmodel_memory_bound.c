/* tests/test_costmodel_memory_bound.c - what the bound calls hopeless has no cut that fits.
 *
 * For many layouts the need of the fullest stage is worked out stage by stage, for cuts of several
 * kinds; with a limit just at that need the bound must say that they may fit, and what must be
 * recomputed for it may not be more than what is. */
#include "tests/costmodel_setting.h"

#define N_CUTS 6

typedef struct {
  const char *name, *model, *machine, *profile;
  guint32 gpus;
  guint64 seq, batch;
} Case;

static const Case cases[] = {
  { "gpt3", "gpt3-175b", "dgx-a100-80g", "megatron", 64, 2048, 64 },
  { "llama", "llama-3.1-8b", "hgx-h100", "megatron", 16, 8192, 64 },
  { "fsdp", "llama-3.1-8b", "hgx-h100", "torchtitan", 8, 8192, 16 },
  { "tied", "gpt2-xl", "hgx-h100", "megatron", 16, 1024, 64 },
  { "copies", "llama-3.1-8b", "hgx-h100", "nanotron", 16, 4096, 64 },
  { "biases", "gpt3-175b", "dgx-a100-80g", "deepspeed", 64, 2048, 64 },
  { "moe", "qwen3-30b-a3b", "hgx-h100", "megatron", 16, 4096, 64 },
  /* two kinds of blocks */
  { "mla", "deepseek-v2", "hgx-h100", "megatron", 32, 4096, 64 },
};

static const char *const recomputes[] = { "none",
                                          "selective",
                                          "full",
                                          "full:block:1",
                                          "full:block:2",
                                          "full:uniform:2",
                                          "selective:layernorm",
                                          "selective:layernorm+mlp",
                                          "selective:moe_act",
                                          "selective:core_attn+mla_up_proj" };

/* Layers of each stage: an even cut, then others that move layers to and fro; chunks of a rank stay
 * within one layer of each other. FALSE: no such cut. */
static gboolean
cut_layers (guint cut, guint32 n_layers, guint32 pp, guint32 vpp, guint32 *out)
{
  guint32 n = pp * vpp, sum = 0;

  if (n > n_layers)
    return FALSE;
  for (guint32 i = 0; i < n; i++)
    out[i] = n_layers / n + (i >= n - n_layers % n ? 1 : 0);
  for (guint32 i = 0; i < cut && vpp == 1 && pp > 1; i++) {
    guint32 from = (i * 7 + cut) % pp, to = (i * 3 + 2 * cut) % pp,
            moved = MIN (out[from] - 1, cut);

    out[from] -= moved;
    out[to] += moved;
  }
  for (guint32 i = 0; i < n; i++)
    sum += out[i];
  assert_int_equal (sum, n_layers);
  return cut == 0 || vpp == 1;
}

/* Recompute of modules saves no more than what they have made. */
static void
check_modules (const CostBlockKinds *kinds, const CostTemplate *tmpl, const ModelLayout *layout)
{
  guint modules
      = layout->recompute.modules != 0 ? layout->recompute.modules : MODEL_RECOMPUTE_CORE_ATTN;

  if (layout->recompute.kind != MODEL_RECOMPUTE_SELECTIVE || tmpl->context.profile->selective_by_op)
    return;
  for (guint kind = 0; kind < kinds->n_kinds; kind++) {
    const ModelSegmentMemory *plain = &tmpl->plain_blocks[kind].memory;
    guint64 saved = 0;

    for (guint module = 0; module < MODEL_RECOMPUTE_N_MODULES; module++)
      if (modules & (1u << module))
        saved += plain->module_kept_bytes[module];
    assert_true (tmpl->blocks[kind].memory.kept_bytes + saved >= plain->kept_bytes);
  }
}

static double
need_of_cut (const Setting *s, const CostBlockKinds *kinds, const CostTemplate *tmpl,
             const ModelLayout *layout, const CostPlacement *placement, const guint32 *layers)
{
  g_auto (CostStageMap) map = { 0 };
  CostBound bound;

  cost_stage_map_init_recompute (&map, s->arch, kinds, layout->pp, layout->vpp, layout->schedule,
                                 layers, cost_stage_map_recompute_layers (layout));
  cost_evaluate_bound (&s->problem, layout, tmpl, &map, placement, &bound);
  return (double)bound.need_bytes;
}

static gboolean
may_fit (const Setting *s, const CostBlockKinds *kinds, const CostTemplate *tmpl,
         const ModelLayout *layout, const CostShards *shards, CostKept kept, double limit)
{
  const CostStageMap map = { .pp = layout->pp, .vpp = layout->vpp, .schedule = layout->schedule };
  guint64 microbatches = model_layout_microbatches (layout, &s->job);
  CostMemoryPlan plan;
  CostRoom room;

  cost_memory_plan_init (&plan, tmpl, layout, microbatches, shards, &map);
  cost_room_init (&room, &plan, s->arch, kinds, kept, kept, limit);
  return cost_room_may_fit (&room, &map, microbatches);
}

/* What the layers of a cut recompute in one micro-batch. */
static double
recompute_of_cut (const Setting *s, const CostBlockKinds *kinds, const CostTemplate *tmpl,
                  const ModelLayout *layout, const guint32 *layers)
{
  g_auto (CostStageMap) map = { 0 };
  double extra_s[COST_MAX_RUN_KINDS], sum_s = 0;

  cost_stage_map_init_recompute (&map, s->arch, kinds, layout->pp, layout->vpp, layout->schedule,
                                 layers, cost_stage_map_recompute_layers (layout));
  cost_template_recompute_s (tmpl, layout->schedule, extra_s);
  for (guint32 stage = 0; stage < layout->pp * layout->vpp; stage++)
    for (guint kind = 0; kind < kinds->n_kinds; kind++)
      sum_s += map.contents[map.content_of_stage[stage]].recomputed[kind] * extra_s[kind];
  return sum_s;
}

static double
least_recompute (const Setting *s, const CostBlockKinds *kinds, const CostTemplate *tmpl,
                 const ModelLayout *layout, const CostShards *shards, double limit)
{
  const CostStageMap map = { .pp = layout->pp, .vpp = layout->vpp, .schedule = layout->schedule };
  guint64 microbatches = model_layout_microbatches (layout, &s->job);
  double extra_s[COST_MAX_RUN_KINDS];
  CostMemoryPlan plan;
  CostRoom room;

  cost_memory_plan_init (&plan, tmpl, layout, microbatches, shards, &map);
  cost_room_init (&room, &plan, s->arch, kinds, COST_KEPT_PLAIN, COST_KEPT_EITHER, limit);
  cost_template_recompute_s (tmpl, layout->schedule, extra_s);
  return cost_room_least_recompute_s (&room, &map, microbatches,
                                      cost_room_saved_per_s (&room, tmpl, extra_s));
}

/* The least recompute with which @cut's need is not exceeded is no more than what @cut does, and
 * the time bound with it no more than @cut's step. Adds up both, for how tight it is. */
static void
check_recompute (const Setting *s, const CostBlockKinds *kinds, const CostTemplate *tmpl,
                 const ModelLayout *layout, const CostPlacement *placement, const guint32 *layers,
                 double *bounds_s, double *cuts_s)
{
  double need = need_of_cut (s, kinds, tmpl, layout, placement, layers);
  double least_s = least_recompute (s, kinds, tmpl, layout, &placement->shards, need);
  double cut_s = recompute_of_cut (s, kinds, tmpl, layout, layers);
  g_autoptr (CostPipelineScratch) scratch = cost_pipeline_scratch_new ();
  g_auto (CostPrediction) prediction = { 0 };
  g_auto (CostStageMap) map = { 0 };

  assert_true (least_s >= 0 && least_s <= cut_s * (1 + 1e-9));
  cost_stage_map_init_recompute (&map, s->arch, kinds, layout->pp, layout->vpp, layout->schedule,
                                 layers, cost_stage_map_recompute_layers (layout));
  assert_true (
      cost_evaluate (&s->problem, layout, tmpl, &map, placement, scratch, &prediction, NULL));
  assert_true (cost_template_least_cut_s (&s->problem, tmpl, kinds, layout, TRUE, least_s)
               <= prediction.step_s);
  /* nothing to recompute where everything fits */
  assert_true (least_recompute (s, kinds, tmpl, layout, &placement->shards, 1e18) == 0);
  *bounds_s += least_s;
  *cuts_s += cut_s;
}

/* Of one layout. Returns how tight the bound is: the least limit that may do, over the least need
 * of the cuts; 0 if the layout is not legal. */
static double
check_layout (const Setting *s, const CostBlockKinds *kinds, const ModelLayout *layout,
              double *bounds_s, double *cuts_s)
{
  g_autofree CostTemplate *tmpl = g_new (CostTemplate, 1);
  g_autofree guint32 *layers = g_new (guint32, s->arch->layers + 1);
  gboolean partial = layout->recompute.kind == MODEL_RECOMPUTE_FULL
                     && layout->recompute.method == MODEL_RECOMPUTE_BLOCK;
  CostKept kept = partial ? COST_KEPT_EITHER : COST_KEPT_BLOCKS;
  CostPlacement placement;
  CostShards shards;
  double least = INFINITY, low = 0, high = 0;

  if (model_layout_check (s->arch, &s->job, layout, s->profile, s->problem.gpus) != MODEL_LEGAL)
    return 0;
  assert_true (cost_template_init (tmpl, s->arch, kinds, &s->job, layout, s->profile, s->machine,
                                   &s->numbers, s->problem.gpus, NULL));
  check_modules (kinds, tmpl, layout);
  cost_placement_init (&placement, &s->problem, layout, tmpl);
  cost_placement_shards (&shards, layout);
  assert_memory_equal (&shards, &placement.shards, sizeof shards);
  for (guint cut = 0; cut < N_CUTS; cut++)
    if (cut_layers (cut, s->arch->layers, layout->pp, layout->vpp, layers)) {
      least = MIN (least, need_of_cut (s, kinds, tmpl, layout, &placement, layers));
      if (partial)
        check_recompute (s, kinds, tmpl, layout, &placement, layers, bounds_s, cuts_s);
    }
  if (!(least < INFINITY))
    return 0;
  assert_true (may_fit (s, kinds, tmpl, layout, &shards, kept, least));
  assert_true (may_fit (s, kinds, tmpl, layout, &shards, COST_KEPT_EITHER, least));
  assert_true (may_fit (s, kinds, tmpl, layout, &shards, COST_KEPT_ASKED, least));
  assert_true (may_fit (s, kinds, tmpl, layout, &shards, COST_KEPT_INPUTS, least));
  high = least;
  for (guint i = 0; i < 20; i++) {
    double middle = (low + high) / 2;

    *(may_fit (s, kinds, tmpl, layout, &shards, kept, middle) ? &high : &low) = middle;
  }
  return high / least;
}

static void
test_bound (void **state)
{
  const Case *c = *state;
  g_auto (Setting) s = { 0 };
  CostBlockKinds kinds;
  double sum = 0, bounds_s = 0, cuts_s = 0;
  guint n = 0;

  setting_init (&s, c->model, c->machine, c->profile, c->gpus, c->seq, c->batch);
  assert_true (cost_block_kinds_init (&kinds, s.arch, NULL));
  for (guint32 tp = 1; tp <= 8; tp *= 2)
    for (guint32 pp = 1; tp * pp <= c->gpus; pp *= 2)
      for (guint32 vpp = 1; vpp <= 3; vpp++)
        for (guint zero = 0; zero <= 3; zero++)
          for (guint r = 0; r < G_N_ELEMENTS (recomputes); r++) {
            g_autofree char *text
                = g_strdup_printf ("tp=%u,sp=%u,pp=%u,vpp=%u,dp=%u,mbs=%u,zero=%u,recompute=%s", tp,
                                   tp > 1, pp, vpp, c->gpus / tp / pp, 1 + (tp + r) % 2, zero,
                                   recomputes[r]);
            g_auto (ModelLayout) layout = { 0 };
            double tight = 0;

            if (!model_layout_parse (&layout, text, s.profile, NULL))
              continue;
            tight = check_layout (&s, &kinds, &layout, &bounds_s, &cuts_s);
            sum += tight;
            n += tight > 0;
          }
  assert_true (n > 20);
  /* a bound that lets everything pass would be of no use */
  assert_true (sum / n > 0.6);
  print_message ("%s: needs are bounded by %.2f of them, recompute by %.2f of it\n", c->name,
                 sum / n, bounds_s / cuts_s);
  /* least where the host binds: rebuilding is then waiting, which the bound leaves out */
  assert_true (bounds_s > 0.02 * cuts_s);
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (cases)];

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    tests[i] = (struct CMUnitTest){ .name = cases[i].name,
                                    .test_func = test_bound,
                                    .initial_state = (void *)&cases[i] };
  return _cmocka_run_group_tests ("costmodel_memory_bound", tests, G_N_ELEMENTS (cases), NULL,
                                  NULL);
}
