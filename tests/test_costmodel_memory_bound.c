/* tests/test_costmodel_memory_bound.c - what the bound calls hopeless has no cut that fits.
 *
 * For many layouts the need of the fullest stage is worked out stage by stage, for cuts of several
 * kinds; with a limit just at that need the bound must say that they may fit. */
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
  { "moe", "qwen3-30b-a3b", "hgx-h100", "megatron", 16, 4096, 64 },
  /* two kinds of blocks */
  { "mla", "deepseek-v2", "hgx-h100", "megatron", 32, 4096, 64 },
};

static const char *const recomputes[]
    = { "none", "selective", "full", "full:block:1", "full:block:2", "full:uniform:2" };

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
  CostMemoryPlan plan;

  cost_memory_plan_init (&plan, tmpl, layout, model_layout_microbatches (layout, &s->job), shards,
                         &map);
  return cost_memory_may_fit (&plan, s->arch, kinds, kept, limit);
}

/* Of one layout. Returns how tight the bound is: the least limit that may do, over the least need
 * of the cuts; 0 if the layout is not legal. */
static double
check_layout (const Setting *s, const CostBlockKinds *kinds, const ModelLayout *layout)
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
  cost_placement_init (&placement, &s->problem, layout, tmpl);
  cost_placement_shards (&shards, layout);
  assert_memory_equal (&shards, &placement.shards, sizeof shards);
  for (guint cut = 0; cut < N_CUTS; cut++)
    if (cut_layers (cut, s->arch->layers, layout->pp, layout->vpp, layers))
      least = MIN (least, need_of_cut (s, kinds, tmpl, layout, &placement, layers));
  if (!(least < INFINITY))
    return 0;
  assert_true (may_fit (s, kinds, tmpl, layout, &shards, kept, least));
  assert_true (may_fit (s, kinds, tmpl, layout, &shards, COST_KEPT_EITHER, least));
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
  double sum = 0;
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
            tight = check_layout (&s, &kinds, &layout);
            sum += tight;
            n += tight > 0;
          }
  assert_true (n > 20);
  /* a bound that lets everything pass would be of no use */
  assert_true (sum / n > 0.6);
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
