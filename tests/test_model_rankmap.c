/* Ranks, coordinates and groups: one worked example and what holds for every layout. */
#include "base/philox.h"
#include "model/rankmap.h"
#include "tests/testutil.h"

/*
 * tp=2, cp=2, dp=3, pp=2: 24 ranks, 12 a stage. Rank 17 is 5 in stage 1: tp 1, cp 0, dp 1.
 * ep=3, etp=2: edp = 12/6 = 2; 17 = 12 + 5: ep 2, etp 1, edp 0.
 */
static void
test_worked_example (void **state)
{
  const ModelLayout layout = { .tp = 2, .cp = 2, .dp = 3, .pp = 2, .ep = 3, .etp = 2, .zero = 1 };
  ModelRankMap map;
  model_rankmap_init (&map, &layout);
  ModelRankCoordinates at = model_rankmap_coordinates (&map, 17);
  assert_int_equal (map.world, 24);
  assert_int_equal (at.tp, 1);
  assert_int_equal (at.cp, 0);
  assert_int_equal (at.dp, 1);
  assert_int_equal (at.pp, 1);
  assert_int_equal (model_rankmap_group_base (&map, MODEL_GROUP_TP, 17), 16);
  assert_int_equal (model_rankmap_group_base (&map, MODEL_GROUP_CP, 17), 17);   /* 17 19 */
  assert_int_equal (model_rankmap_group_base (&map, MODEL_GROUP_DP, 17), 13);   /* 13 17 21 */
  assert_int_equal (model_rankmap_group_base (&map, MODEL_GROUP_DPCP, 17), 13); /* 13 15 … 23 */
  assert_int_equal (model_rankmap_group_base (&map, MODEL_GROUP_PP, 17), 5);    /* 5 17 */
  assert_int_equal (model_rankmap_group_base (&map, MODEL_GROUP_ETP, 17), 16);  /* 16 17 */
  assert_int_equal (model_rankmap_group_base (&map, MODEL_GROUP_EP, 17), 13);   /* 13 15 17 */
  assert_int_equal (model_rankmap_group_base (&map, MODEL_GROUP_EDP, 17), 17);  /* 17 23 */
  /* tp = etp (2, 1), cp (2, 2), shards = dp·cp (6, 2), pp (2, 12), ep (3, 2), edp (2, 6) */
  assert_int_equal (map.communicators_per_rank, 6);
}

typedef struct {
  const char *name;
  ModelLayout layout;
  guint32 want;
} CommunicatorCase;

static const CommunicatorCase communicator_cases[] = {
  { "communicators/one_gpu", { .tp = 1, .cp = 1, .dp = 1, .pp = 1, .ep = 1, .etp = 1 }, 0 },
  { "communicators/dp_only", { .tp = 1, .cp = 1, .dp = 8, .pp = 1, .ep = 1, .etp = 1 }, 1 },
  { "communicators/tp_pp_dp", /* a dense model has no expert groups */
    { .tp = 8, .cp = 1, .dp = 2, .pp = 4, .ep = 1, .etp = 1, .zero = 1 },
    3 },
  { "communicators/hsdp", /* tp, shards of 4, copies of 2 */
    { .tp = 2, .cp = 1, .dp = 8, .pp = 1, .ep = 1, .etp = 1, .zero = 3, .hsdp = 4 },
    3 },
  { "communicators/hsdp_experts", /* shards (4,1), copies (2,4); ep (2,1), edp shards (2,2), copies as
                                     the dense ones */
    { .tp = 1, .cp = 1, .dp = 8, .pp = 1, .ep = 2, .etp = 1, .zero = 3, .hsdp = 4 },
    4 },
  { "communicators/ep_is_dp", /* ep = all of dp: the same ranks as the dense reduction */
    { .tp = 1, .cp = 1, .dp = 8, .pp = 1, .ep = 8, .etp = 1, .zero = 1 },
    1 },
  { "communicators/moe", /* tp (4,1), dp (8,4), pp (2,32), ep (8,1), edp (4,8) */
    { .tp = 4, .cp = 1, .dp = 8, .pp = 2, .ep = 8, .etp = 1, .zero = 1 },
    5 },
};

static void
test_communicators (void **state)
{
  const CommunicatorCase *c = *state;
  ModelRankMap map;
  model_rankmap_init (&map, &c->layout);
  assert_int_equal (map.communicators_per_rank, c->want);
}

static guint32
draw (guint64 *at, guint32 bound)
{
  return 1 + (guint32)base_philox_below (11, 0, (*at)++, bound);
}

static ModelLayout
random_layout (guint64 index)
{
  guint64 at = index * 16;
  ModelLayout layout = { .tp = draw (&at, 4),
                         .cp = draw (&at, 3),
                         .dp = draw (&at, 6),
                         .pp = draw (&at, 4),
                         .zero = (guint8)(draw (&at, 4) - 1) };
  guint32 stage = layout.tp * layout.cp * layout.dp, all = layout.dp * layout.cp;
  do
    layout.etp = draw (&at, stage);
  while (stage % layout.etp != 0);
  do
    layout.ep = draw (&at, stage / layout.etp);
  while (stage / layout.etp % layout.ep != 0);
  layout.hsdp = all > 1 && layout.zero > 0 && all % 2 == 0 ? 2 : 0;
  return layout;
}

/* Every rank is in exactly one group of a kind: walking each group from its base meets all once. */
static void
check_groups (const ModelRankMap *map, ModelGroupKind kind)
{
  const ModelGroup *group = &map->groups[kind];
  g_autofree guint8 *met = g_new0 (guint8, map->world);
  for (guint32 rank = 0; rank < map->world; rank++) {
    if (model_rankmap_group_base (map, kind, rank) != rank)
      continue;
    for (guint32 i = 0; i < group->size; i++) {
      guint32 member = rank + i * group->stride;
      assert_true (member < map->world && met[member] == 0);
      assert_int_equal (model_rankmap_group_base (map, kind, member), rank);
      met[member] = 1;
    }
  }
  for (guint32 rank = 0; rank < map->world; rank++)
    assert_int_equal (met[rank], 1);
}

/* Members of a group differ only in the coordinates that the group runs over. */
static void
check_coordinates (const ModelRankMap *map, guint32 rank)
{
  ModelRankCoordinates at = model_rankmap_coordinates (map, rank), base;
  guint32 stage = map->tp * map->cp * map->dp;
  assert_int_equal (model_rankmap_rank (map, at), rank);
  assert_true (at.tp < map->tp && at.cp < map->cp && at.dp < map->dp && at.pp < map->pp);
  base = model_rankmap_coordinates (map, model_rankmap_group_base (map, MODEL_GROUP_DPCP, rank));
  assert_true (base.tp == at.tp && base.pp == at.pp && base.cp == 0 && base.dp == 0);
  base = model_rankmap_coordinates (map, model_rankmap_group_base (map, MODEL_GROUP_PP, rank));
  assert_true (base.tp == at.tp && base.cp == at.cp && base.dp == at.dp && base.pp == 0);
  /* expert groups stay inside a stage */
  assert_int_equal (model_rankmap_group_base (map, MODEL_GROUP_EP, rank) / stage, at.pp);
  assert_int_equal (model_rankmap_group_base (map, MODEL_GROUP_EDP, rank) / stage, at.pp);
}

static void
test_random_layouts (void **state)
{
  for (guint64 index = 0; index < 500; index++) {
    ModelLayout layout = random_layout (index);
    ModelRankMap map;
    model_rankmap_init (&map, &layout);
    guint32 stage = map.tp * map.cp * map.dp;
    assert_int_equal (map.edp * map.ep * map.etp, stage);
    assert_int_equal (map.groups[MODEL_GROUP_HSDP_SHARD].size
                          * map.groups[MODEL_GROUP_HSDP_REPLICATE].size,
                      map.dp * map.cp);
    for (guint kind = 0; kind < MODEL_GROUP_N_KINDS; kind++)
      if (kind != MODEL_GROUP_EMBEDDING) /* only first and last stage have one */
        check_groups (&map, kind);
    for (guint32 rank = 0; rank < map.world; rank++)
      check_coordinates (&map, rank);
  }
}

/* pp=4, 6 ranks a stage: rank 2 shares the embedding with rank 20 of the last stage. */
static void
test_embedding_group (void **state)
{
  const ModelLayout layout = { .tp = 2, .cp = 1, .dp = 3, .pp = 4, .ep = 1, .etp = 1 };
  ModelRankMap map;
  model_rankmap_init (&map, &layout);
  assert_int_equal (map.groups[MODEL_GROUP_EMBEDDING].size, 2);
  assert_int_equal (map.groups[MODEL_GROUP_EMBEDDING].stride, 18);
  assert_int_equal (model_rankmap_group_base (&map, MODEL_GROUP_EMBEDDING, 20), 2);
  assert_int_equal (model_rankmap_group_base (&map, MODEL_GROUP_EMBEDDING, 2), 2);
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (communicator_cases) + 3];
  guint n = 0;
  for (guint i = 0; i < G_N_ELEMENTS (communicator_cases); i++)
    tests[n++] = (struct CMUnitTest){ .name = communicator_cases[i].name,
                                      .test_func = test_communicators,
                                      .initial_state = (void *)&communicator_cases[i] };
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_worked_example);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_random_layouts);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_embedding_group);
  return cmocka_run_group_tests_name ("rankmap", tests, NULL, NULL);
}
