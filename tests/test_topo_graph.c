/* Tests of topo/graph.c, topo/link.c and the graphs that machine files give. */
#include "tests/topo_util.h"

/* Two GPUs joined by 4 links of 25 GB/s, GPU 1 also to a CPU. */
static TopoGraph *
small_graph (void)
{
  TopoGraph *graph = topo_graph_new ();
  guint32 a = topo_graph_add_vertex (graph, TOPO_VERTEX_GPU, 0, 0, 0, "GPU0");
  guint32 b = topo_graph_add_vertex (graph, TOPO_VERTEX_GPU, 1, 0, 0, "GPU1");
  guint32 cpu = topo_graph_add_vertex (graph, TOPO_VERTEX_CPU, 0, 0, 0, "CPU0");
  topo_graph_join (graph, b, cpu, TOPO_LINK_PCIE4, 1, 31e9, NAN);
  topo_graph_join (graph, a, b, TOPO_LINK_NVLINK3, 4, 25e9, 1e-6);
  return graph;
}

static void
test_adjacency (void **state)
{
  GError *error = NULL;
  g_autoptr (TopoGraph) graph = small_graph ();
  assert_true (topo_graph_finish (graph, &error));
  assert_int_equal (topo_graph_n_vertices (graph), 3);
  assert_int_equal (topo_graph_n_links (graph), 4);
  const TopoLink *link = topo_graph_link_between (graph, 0, 1, TOPO_LINK_NVLINK3);
  assert_non_null (link);
  assert_int_equal (link->count, 4);
  assert_near (link->bytes_per_s, 100e9, 1e-12);
  assert_non_null (topo_graph_link_between (graph, 1, 0, TOPO_LINK_NVLINK3));
  assert_null (topo_graph_link_between (graph, 0, 1, TOPO_LINK_PCIE4));
  assert_null (topo_graph_link_between (graph, 0, 2, TOPO_LINK_PCIE4));
  assert_int_equal (topo_graph_find (graph, TOPO_VERTEX_CPU, 0), 2);
  assert_int_equal (topo_graph_find (graph, TOPO_VERTEX_GPU, 2), -1);
  assert_int_equal (graph->first_link[0], 0);
  assert_int_equal (graph->first_link[1], 1);
  assert_int_equal (graph->first_link[3], 4);
}

typedef struct {
  const char *name;
  guint32 a, b, count;
  TopoLinkKind kind;
  double bytes_per_s, latency_s;
  const char *message;
} LinkCase;

static const LinkCase bad_links[] = {
  { "link/self", 1, 1, 1, TOPO_LINK_PCIE4, 1e9, NAN, "'GPU1' is linked to itself" },
  { "link/nowhere", 1, 7, 1, TOPO_LINK_PCIE4, 1e9, NAN, "only 3 vertices" },
  { "link/zero_rate", 0, 2, 1, TOPO_LINK_PCIE4, 0, NAN, "rate > 0" },
  { "link/negative_rate", 0, 2, 1, TOPO_LINK_PCIE4, -1, NAN, "rate > 0" },
  { "link/infinite_rate", 0, 2, 1, TOPO_LINK_PCIE4, INFINITY, NAN, "rate > 0" },
  { "link/negative_latency", 0, 2, 1, TOPO_LINK_PCIE4, 1e9, -1e-9, "latency >= 0" },
  { "link/no_count", 0, 2, 0, TOPO_LINK_PCIE4, 1e9, NAN, "needs a count" },
  { "link/twice", 0, 1, 2, TOPO_LINK_NVLINK3, 1e9, NAN, "joined twice by nvlink3" },
};

static void
test_bad_link (void **state)
{
  const LinkCase *c = *state;
  GError *error = NULL;
  g_autoptr (TopoGraph) graph = small_graph ();
  topo_graph_join (graph, c->a, c->b, c->kind, c->count, c->bytes_per_s, c->latency_s);
  assert_false (topo_graph_finish (graph, &error));
  assert_message (error, c->message);
  assert_false (graph->is_finished);
  g_clear_error (&error);
}

static void
test_unknown_rate_is_legal (void **state)
{
  GError *error = NULL;
  g_autoptr (TopoGraph) graph = small_graph ();
  topo_graph_join (graph, 0, 2, TOPO_LINK_PCIE4, 1, NAN, NAN);
  assert_true (topo_graph_finish (graph, &error));
}

static void
test_same_name_and_islands (void **state)
{
  GError *error = NULL;
  g_autoptr (TopoGraph) twins = small_graph ();
  topo_graph_add_vertex (twins, TOPO_VERTEX_NIC, 0, 0, 0, "GPU1");
  assert_false (topo_graph_finish (twins, &error));
  assert_message (error, "two vertices are called 'GPU1'");
  g_clear_error (&error);
  g_autoptr (TopoGraph) islands = small_graph ();
  topo_graph_add_vertex (islands, TOPO_VERTEX_GPU, 2, 0, 0, "GPU2");
  assert_false (topo_graph_finish (islands, &error));
  assert_true (g_error_matches (error, TOPO_ERROR, TOPO_ERROR_NO_PATH));
  assert_message (error, "nothing joins 'GPU0' and 'GPU2'");
  g_clear_error (&error);
}

static void
test_empty_graph (void **state)
{
  GError *error = NULL;
  g_autoptr (TopoGraph) graph = topo_graph_new ();
  assert_true (topo_graph_finish (graph, &error));
  assert_int_equal (topo_graph_n_links (graph), 0);
  topo_graph_free (NULL);
}

static guint32
gpu_links (const TopoMachine *machine, guint32 a, guint32 b)
{
  const TopoLink *link
      = topo_graph_link_between (machine->graph,
                                 (guint32)topo_graph_find (machine->graph, TOPO_VERTEX_GPU, a),
                                 (guint32)topo_graph_find (machine->graph, TOPO_VERTEX_GPU, b),
                                 machine->direct);
  return link == NULL ? 0 : link->count;
}

/* The sccl matrix of DGX-1V: 16 joined pairs, 24 links, 6 per GPU; 12 pairs without. */
static void
test_dgx1v (void **state)
{
  static const guint8 absent[][2] = { { 0, 5 }, { 0, 6 }, { 0, 7 }, { 1, 4 }, { 1, 6 }, { 1, 7 },
                                      { 2, 4 }, { 2, 5 }, { 2, 7 }, { 3, 4 }, { 3, 5 }, { 3, 6 } };
  guint32 pairs = 0, links = 0;
  g_autoptr (TopoMachine) machine = load_machine ("dgx-1v-32g");
  for (guint32 a = 0; a < 8; a++) {
    guint32 own = 0;
    for (guint32 b = 0; b < 8; b++)
      own += a == b ? 0 : gpu_links (machine, a, b);
    assert_int_equal (own, 6);
    for (guint32 b = a + 1; b < 8; b++) {
      pairs += gpu_links (machine, a, b) > 0;
      links += gpu_links (machine, a, b);
    }
  }
  assert_int_equal (pairs, 16);
  assert_int_equal (links, 24);
  for (guint i = 0; i < G_N_ELEMENTS (absent); i++)
    assert_int_equal (gpu_links (machine, absent[i][0], absent[i][1]), 0);
  assert_int_equal (gpu_links (machine, 0, 3), 2);
  assert_int_equal (gpu_links (machine, 0, 1), 1);
}

/* A rack: 18 trays of 4 GPUs, 2 Grace and 4 NICs, one folded switch, one fabric. */
static void
test_rack (void **state)
{
  g_autoptr (TopoMachine) machine = load_machine ("gb200-nvl72");
  const TopoGraph *graph = machine->graph;
  assert_int_equal (topo_graph_count (graph, TOPO_VERTEX_GPU), 72);
  assert_int_equal (topo_graph_count (graph, TOPO_VERTEX_CPU), 36);
  assert_int_equal (topo_graph_count (graph, TOPO_VERTEX_NIC), 72);
  assert_int_equal (topo_graph_count (graph, TOPO_VERTEX_NVSWITCH), 1);
  guint32 gpu = (guint32)topo_graph_find (graph, TOPO_VERTEX_GPU, 71);
  guint32 nvs = (guint32)topo_graph_find (graph, TOPO_VERTEX_NVSWITCH, 0);
  const TopoLink *link = topo_graph_link_between (graph, gpu, nvs, TOPO_LINK_NVLINK5);
  assert_int_equal (link->count, 18);
  assert_near (link->bytes_per_s, 900e9, 1e-12);
  guint32 cpu = (guint32)topo_graph_find (graph, TOPO_VERTEX_CPU, 35);
  assert_near (topo_graph_link_between (graph, gpu, cpu, TOPO_LINK_C2C)->bytes_per_s, 450e9, 1e-12);
}

/* Names are what calibrations are keyed by. */
static void
test_names (void **state)
{
  TopoFabric fabric = TOPO_FABRIC_NONE;
  TopoLinkClass link_class = TOPO_LINK_CLASS_NONE;
  assert_string_equal (topo_link_class_name (TOPO_LINK_CLASS_PCIE4_SYS), "pcie4-sys");
  assert_string_equal (topo_link_kind_name (TOPO_LINK_INTER_SOCKET), "inter-socket");
  assert_true (topo_fabric_from_name ("gcprdma", &fabric));
  assert_int_equal (fabric, TOPO_FABRIC_GCPRDMA);
  assert_false (topo_fabric_from_name ("IB", &fabric));
  assert_int_equal (fabric, TOPO_FABRIC_GCPRDMA);
  for (guint c = 0; c < TOPO_LINK_CLASS_N_KINDS; c++) {
    assert_true (topo_link_class_from_name (topo_link_class_name ((TopoLinkClass)c), &link_class));
    assert_int_equal (link_class, c);
  }
  for (guint k = 0; k < TOPO_LINK_N_KINDS; k++) {
    TopoLinkKind kind = (TopoLinkKind)k;
    const char *name = topo_link_class_name (topo_link_class_of (kind, FALSE));
    if (kind == TOPO_LINK_NVLINK || kind == TOPO_LINK_PCIE) /* generation unknown */
      assert_string_equal (name, "none");
    else if (topo_link_kind_is_direct (kind) || topo_link_kind_is_pcie (kind)
             || kind == TOPO_LINK_SHM)
      assert_string_equal (name, topo_link_kind_name (kind));
    else if (kind != TOPO_LINK_C2C)
      assert_string_equal (name, "none");
  }
  assert_int_equal (topo_link_class_of (TOPO_LINK_PCIE5, TRUE), TOPO_LINK_CLASS_PCIE5_SYS);
  assert_int_equal (topo_link_class_of (TOPO_LINK_NVLINK4, TRUE), TOPO_LINK_CLASS_NVLINK4);
}

int
main (void)
{
  const struct CMUnitTest fixed[] = {
    cmocka_unit_test (test_adjacency),
    cmocka_unit_test (test_unknown_rate_is_legal),
    cmocka_unit_test (test_same_name_and_islands),
    cmocka_unit_test (test_empty_graph),
    cmocka_unit_test (test_dgx1v),
    cmocka_unit_test (test_rack),
    cmocka_unit_test (test_names),
  };
  struct CMUnitTest tests[G_N_ELEMENTS (fixed) + G_N_ELEMENTS (bad_links)] = { 0 };
  guint n = 0;
  for (guint i = 0; i < G_N_ELEMENTS (fixed); i++)
    tests[n++] = fixed[i];
  for (guint i = 0; i < G_N_ELEMENTS (bad_links); i++)
    tests[n++] = (struct CMUnitTest){ .name = bad_links[i].name,
                                      .test_func = test_bad_link,
                                      .initial_state = (void *)&bad_links[i] };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
