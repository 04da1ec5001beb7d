/* Bus bandwidths of large messages on machines of the catalog, with the catalog's numbers.
 *
 * Measured: reference "link-and-gpu-facts" §1 (nccl-tests at 8 GiB); the bar is 8 %.
 */
#include "tests/costmodel_bench.h"

#define BYTES 8589934592.0
#define BAR   0.08

typedef struct {
  const char *name, *machine;
  guint32 ranks;
  ModelCollectiveKind kind;
  const char *algorithm; /* NULL: the model's choice */
  double busbw_bytes_per_s;
} Published;

static const Published cases[] = {
  { "published/h100_nvls", "hgx-h100", 8, MODEL_COLLECTIVE_ALL_REDUCE, "nvls", 475e9 },
  { "published/h100_chosen", "hgx-h100", 8, MODEL_COLLECTIVE_ALL_REDUCE, NULL, 475e9 },
  { "published/h100_ring", "hgx-h100", 8, MODEL_COLLECTIVE_ALL_REDUCE, "ring", 365e9 },
  { "published/h100_all_gather", "hgx-h100", 8, MODEL_COLLECTIVE_ALL_GATHER, NULL, 360e9 },
  { "published/a100", "dgx-a100-80g", 8, MODEL_COLLECTIVE_ALL_REDUCE, NULL, 235e9 },
  { "published/b200_nvls", "hgx-b200", 8, MODEL_COLLECTIVE_ALL_REDUCE, "nvls", 842e9 },
  { "published/b200_chosen", "hgx-b200", 8, MODEL_COLLECTIVE_ALL_REDUCE, NULL, 842e9 },
  { "published/b200_ring", "hgx-b200", 8, MODEL_COLLECTIVE_ALL_REDUCE, "ring", 682e9 },
};

/* nvls=FALSE: as with NCCL_NVLS_ENABLE=0 */
static double
time_of (const char *machine_name, guint32 ranks, gboolean nvls, ModelCollectiveKind kind,
         const char *algorithm)
{
  g_autoptr (BaseCatalog) catalog = base_catalog_new (NULL, NULL);
  g_autoptr (TopoMachine) machine = topo_machine_load (catalog, machine_name, NULL, NULL);
  g_autoptr (CostCalibration) calibration = cost_calibration_load (catalog, "default", NULL);
  g_auto (CostNumbers) numbers = { 0 };
  TopoGroupShape shape;
  CostGroup group;
  assert_non_null (machine);
  assert_true (cost_numbers_init (&numbers, calibration, machine, "generic", NULL));
  topo_group_shape (machine, ranks, 1, ranks, &shape);
  shape.nvls = shape.nvls && nvls;
  cost_group_init (&group, &numbers, &shape);
  const CostWay *way = cost_collective_way (&group, kind, BYTES, algorithm, NULL);
  assert_non_null (way);
  return cost_way_s (way, BYTES);
}

static void
test_published (void **state)
{
  const Published *c = *state;
  double time_s = time_of (c->machine, c->ranks, TRUE, c->kind, c->algorithm);
  double busbw = BYTES / time_s * cost_collective_bus_factor (c->kind, c->ranks);
  assert_near (busbw, c->busbw_bytes_per_s, BAR);
}

/* H200, 8 GiB: gain of NVLS over ring 1.00, 1.14, 1.19, 1.26, 1.29 on 4 to 8 GPUs. */
static void
test_nvls_gain (void **state)
{
  static const double measured[] = { 1.00, 1.14, 1.19, 1.26, 1.29 };
  for (guint32 i = 0; i < G_N_ELEMENTS (measured); i++) {
    const ModelCollectiveKind kind = MODEL_COLLECTIVE_ALL_REDUCE;
    double gain = time_of ("hgx-h200", 4 + i, FALSE, kind, NULL)
                  / time_of ("hgx-h200", 4 + i, TRUE, kind, NULL);
    assert_near (gain, measured[i], i == 0 ? 1e-12 : BAR);
    assert_true (i == 0 || gain > 1);
  }
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (cases) + 1];
  guint n = 0;
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    tests[n++] = (struct CMUnitTest){ .name = cases[i].name,
                                      .test_func = test_published,
                                      .initial_state = (void *)&cases[i] };
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_nvls_gain);
  return _cmocka_run_group_tests ("costmodel_collective_published", tests, n, NULL, NULL);
}
