/* tests/test_costmodel_stagemap.c - contents, classes and runs against hand-counted pipelines. */
#include "costmodel/stagemap.h"
#include "tests/testutil.h"

/* deepseek-v3: 3 dense blocks, then 58 MoE. */
static ModelBlockRun deepseek_runs[] = {
  { .kind = MODEL_BLOCK_DENSE, .count = 3, .ffn = 18432 },
  { .kind = MODEL_BLOCK_MOE,
    .count = 58,
    .moe = { .experts = 256, .topk = 8, .expert_ffn = 2048 } },
};

static ModelArch
arch_of (ModelBlockRun *runs, guint n_runs)
{
  ModelArch arch = { .name = (char *)"test", .runs = runs, .n_runs = n_runs };
  for (guint i = 0; i < n_runs; i++)
    arch.layers += runs[i].count;
  return arch;
}

static void
map_of (CostStageMap *map, const ModelArch *arch, guint32 pp, guint32 vpp, const guint32 *layers,
        guint32 recompute_layers)
{
  CostBlockKinds kinds;
  g_autoptr (GError) error = NULL;
  assert_true (cost_block_kinds_init (&kinds, arch, &error));
  cost_stage_map_init_recompute (map, arch, &kinds, pp, vpp,
                                 vpp > 1 ? MODEL_SCHEDULE_INTERLEAVED : MODEL_SCHEDULE_1F1B, layers,
                                 recompute_layers);
}

/* 61 layers in 4 stages of 15 16 16 14: (3 dense + 12 MoE + embedding), two of 16 MoE, and
 * 14 MoE + head: three classes, three runs. */
static void
test_first_k_dense (void **state)
{
  static const guint32 layers[] = { 15, 16, 16, 14 };
  ModelArch arch = arch_of (deepseek_runs, 2);
  g_auto (CostStageMap) map = { 0 };
  map_of (&map, &arch, 4, 1, layers, G_MAXUINT32);
  assert_int_equal (map.n_contents, 3);
  assert_int_equal (map.n_classes, 3);
  assert_int_equal (map.n_runs, 3);
  static const struct {
    guint32 first_rank, n_ranks, dense, moe, embedding, head;
  } want[] = { { 0, 1, 3, 12, 1, 0 }, { 1, 2, 0, 16, 0, 0 }, { 3, 1, 0, 14, 0, 1 } };
  for (guint i = 0; i < 3; i++) {
    const CostStageClass *class = &map.classes[i];
    assert_int_equal (class->first_rank, want[i].first_rank);
    assert_int_equal (class->n_ranks, want[i].n_ranks);
    assert_int_equal (class->content.blocks[0], want[i].dense);
    assert_int_equal (class->content.blocks[1], want[i].moe);
    assert_int_equal (class->content.recomputed[1], want[i].moe);
    assert_int_equal (class->content.has_embedding, want[i].embedding);
    assert_int_equal (class->content.has_head, want[i].head);
    assert_int_equal (map.runs[i].n_ranks, want[i].n_ranks);
  }
}

/* 96 equal layers, pp 8, vpp 3: 4 layers a chunk, 12 a rank; rank 0 with embedding, 7 with head. */
static void
test_interleaved (void **state)
{
  ModelBlockRun run = { .kind = MODEL_BLOCK_DENSE, .count = 96, .ffn = 49152 };
  ModelArch arch = arch_of (&run, 1);
  guint32 layers[24];
  for (guint i = 0; i < 24; i++)
    layers[i] = 4;
  g_auto (CostStageMap) map = { 0 };
  map_of (&map, &arch, 8, 3, layers, G_MAXUINT32);
  assert_int_equal (map.n_contents, 3);
  assert_int_equal (map.n_classes, 3);
  assert_int_equal (map.classes[1].n_ranks, 6);
  for (guint i = 0; i < 3; i++) {
    assert_int_equal (map.classes[i].content.blocks[0], 12);
    assert_int_equal (map.classes[i].max_chunk_layers, 4);
  }
  assert_int_equal (map.runs[0].first_content, map.content_of_stage[0]);
  assert_int_equal (map.runs[0].last_content, map.content_of_stage[16]);
  assert_int_equal (map.runs[2].last_content, map.content_of_stage[23]);
}

/* Ranks with equal sums but other chunks are other classes: 2 + 1 and 1 + 2 layers. The class
 * of ranks 0 and 2 would be one but for the embedding; ranks 1 and 3 differ by the head. */
static void
test_uneven_chunks (void **state)
{
  ModelBlockRun run = { .kind = MODEL_BLOCK_DENSE, .count = 12, .ffn = 4 };
  ModelArch arch = arch_of (&run, 1);
  static const guint32 layers[] = { 2, 1, 2, 1, 1, 2, 1, 2 };
  g_auto (CostStageMap) map = { 0 };
  map_of (&map, &arch, 4, 2, layers, G_MAXUINT32);
  assert_int_equal (map.n_classes, 4);
  static const guint32 again[] = { 1, 2, 1, 2, 1, 2, 1, 1, 2, 1, 2, 2, 1, 1, 1, 3 };
  ModelBlockRun more = { .kind = MODEL_BLOCK_DENSE, .count = 24, .ffn = 4 };
  ModelArch longer = arch_of (&more, 1);
  cost_stage_map_clear (&map);
  /* rank: 0 (1e,2) 1 (2,1) 2 (1,2) 3 (2,2) 4 (1,1) 5 (2,1) 6 (1,1) 7 (1,3h): 1 = 5, 4 = 6 */
  map_of (&map, &longer, 8, 2, again, G_MAXUINT32);
  assert_int_equal (map.n_classes, 6);
  assert_int_equal (map.n_runs, 8);
  assert_int_equal (map.class_of_rank[1], map.class_of_rank[5]);
  assert_int_equal (map.class_of_rank[4], map.class_of_rank[6]);
}

/* full:block:4 of chunks of 15 16 16 14 layers: the first four layers, so 3 dense + 1 MoE first. */
static void
test_block_recompute (void **state)
{
  static const guint32 layers[] = { 15, 16, 16, 14 };
  ModelArch arch = arch_of (deepseek_runs, 2);
  g_auto (CostStageMap) map = { 0 };
  map_of (&map, &arch, 4, 1, layers, 4);
  assert_int_equal (map.classes[0].content.recomputed[0], 3);
  assert_int_equal (map.classes[0].content.recomputed[1], 1);
  assert_int_equal (map.classes[1].content.recomputed[1], 4);
  ModelLayout layout
      = { .recompute = { .kind = MODEL_RECOMPUTE_FULL, .method = MODEL_RECOMPUTE_BLOCK, .n = 4 } };
  assert_int_equal (cost_stage_map_recompute_layers (&layout), 4);
  layout.recompute.method = MODEL_RECOMPUTE_UNIFORM;
  assert_int_equal (cost_stage_map_recompute_layers (&layout), G_MAXUINT32);
}

/* gemma2: windowed and full blocks in turn are two kinds; nine kinds are refused. */
static void
test_kinds (void **state)
{
  ModelBlockRun runs[42];
  for (guint i = 0; i < 42; i++)
    runs[i] = (ModelBlockRun){ .kind = MODEL_BLOCK_DENSE, .count = 1, .window = i % 2 ? 0 : 4096 };
  ModelArch arch = arch_of (runs, 42);
  CostBlockKinds kinds;
  g_autoptr (GError) error = NULL;
  assert_true (cost_block_kinds_init (&kinds, &arch, &error));
  assert_int_equal (kinds.n_kinds, 2);
  assert_int_equal (kinds.kind_of_run[41], 1);
  for (guint i = 0; i < 9; i++)
    runs[i].window = i + 1;
  assert_false (cost_block_kinds_init (&kinds, &arch, &error));
  assert_true (g_error_matches (error, MODEL_ERROR, MODEL_ERROR_UNSUPPORTED));
}

/* Whatever the cut, contents cover every layer once and classes every rank once. */
static void
test_covers_all (void **state)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (7);
  for (guint i = 0; i < 500; i++) {
    ModelBlockRun runs[6];
    guint n_runs = g_rand_int_range (rand, 1, 7);
    for (guint j = 0; j < n_runs; j++)
      runs[j] = (ModelBlockRun){ .kind = MODEL_BLOCK_DENSE,
                                 .count = g_rand_int_range (rand, 8, 30),
                                 .window = j % 3 };
    ModelArch arch = arch_of (runs, n_runs);
    guint32 pp = g_rand_int_range (rand, 1, 5), vpp = g_rand_int_range (rand, 1, 3), layers[8];
    assert_true (model_stages_balance (arch.layers, pp * vpp, layers));
    guint32 first = g_rand_int_range (rand, 0, 4);
    g_auto (CostStageMap) map = { 0 };
    map_of (&map, &arch, pp, vpp, layers, first);
    guint32 n_ranks = 0, n_layers = 0, n_recomputed = 0, in_runs = 0;
    for (guint32 j = 0; j < map.n_classes; j++) {
      const CostStageClass *class = &map.classes[j];
      n_ranks += class->n_ranks;
      for (guint k = 0; k < COST_MAX_RUN_KINDS; k++) {
        n_layers += class->n_ranks * class->content.blocks[k];
        n_recomputed += class->n_ranks * class->content.recomputed[k];
      }
    }
    for (guint32 j = 0; j < map.n_runs; j++)
      in_runs += map.runs[j].n_ranks;
    assert_int_equal (n_ranks, pp);
    assert_int_equal (in_runs, pp);
    assert_int_equal (n_layers, arch.layers);
    guint32 wanted = 0;
    for (guint32 j = 0; j < pp * vpp; j++)
      wanted += MIN (first, layers[j]);
    assert_int_equal (n_recomputed, wanted);
  }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_first_k_dense), cmocka_unit_test (test_interleaved),
    cmocka_unit_test (test_uneven_chunks), cmocka_unit_test (test_block_recompute),
    cmocka_unit_test (test_kinds),         cmocka_unit_test (test_covers_all),
  };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
