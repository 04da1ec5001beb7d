/* Tests of topo/route.c: path types and bottlenecks on machines whose matrix is known. */
#include "tests/topo_util.h"
#include "topo/route.h"

typedef struct {
  const char *name;
  const char *machine;
  TopoVertexKind from_kind;
  guint32 from;
  TopoVertexKind to_kind;
  guint32 to;
  gboolean allow_net;
  const char *type;
  guint32 n_links;
  double bytes_per_s;
} RouteCase;

#define GPU TOPO_VERTEX_GPU
#define NIC TOPO_VERTEX_NIC
#define CPU TOPO_VERTEX_CPU
static const RouteCase routes[] = {
  { "route/self", "hgx-h100", GPU, 3, GPU, 3, FALSE, "LOC", 0, INFINITY },
  /* GPU, switch, GPU */
  { "route/nvswitch", "hgx-h100", GPU, 0, GPU, 7, FALSE, "NVL", 2, 450e9 },
  { "route/rack", "gb200-nvl72", GPU, 0, GPU, 71, FALSE, "NVL", 2, 900e9 },
  /* 2 links and 1 link of 25 */
  { "route/dgx1v_two_links", "dgx-1v-16g", GPU, 0, GPU, 3, FALSE, "NVL", 1, 50e9 },
  { "route/dgx1v_one_link", "dgx-1v-16g", GPU, 0, GPU, 1, FALSE, "NVL", 1, 25e9 },
  /* no direct link 0-5: through 1 (1 and 2 links) or 4 (2 and 1): 25 either way */
  { "route/dgx1v_through_peer", "dgx-1v-16g", GPU, 0, GPU, 5, FALSE, "NVB", 2, 25e9 },
  /* 0-7 through 3 (2, 1) or 4 (2, 2): the wider is taken */
  { "route/dgx1v_wider_peer", "dgx-1v-16g", GPU, 0, GPU, 7, FALSE, "NVB", 2, 50e9 },
  { "route/bridge", "a100-pcie-nvlink", GPU, 0, GPU, 1, FALSE, "NVL", 1, 300e9 },
  /* GPU, CPU, CPU, GPU: 10 GB/s between the sockets */
  { "route/across_sockets", "a100-pcie-nvlink", GPU, 0, GPU, 2, FALSE, "SYS", 3, 10e9 },
  { "route/one_switch", "rtx-pro-6000-8x-pcie", GPU, 0, GPU, 3, FALSE, "PIX", 2, 63e9 },
  { "route/one_cpu", "rtx-pro-6000-8x-pcie", GPU, 0, GPU, 4, FALSE, "PHB", 4, 63e9 },
  { "route/no_switch", "rtx4090-8x-pcie", GPU, 0, GPU, 7, FALSE, "PHB", 2, 31e9 },
  { "route/own_nic", "hgx-h100", GPU, 2, NIC, 2, FALSE, "PIX", 2, 63e9 },
  { "route/neighbours_nic", "hgx-h100", GPU, 2, NIC, 3, FALSE, "PHB", 4, 63e9 },
  { "route/far_nic", "hgx-h100", GPU, 2, NIC, 7, FALSE, "SYS", 5, 22e9 },
  { "route/cpu", "gb200-nvl72", GPU, 0, CPU, 0, FALSE, "C2C", 1, 450e9 },
  { "route/cpu_pcie", "rtx4090-8x-pcie", GPU, 0, CPU, 0, FALSE, "PHB", 1, 31e9 },
  /* a NIC reaches the fabric over its own port, 100 Gb/s */
  { "route/fabric", "aws-p4d", GPU, 0, TOPO_VERTEX_FABRIC, 0, TRUE, "NET", 3, 12.5e9 },
  { "route/xgmi", "mi300x-8x", GPU, 0, GPU, 7, FALSE, "NVL", 1, 64e9 },
};

static guint32
vertex_of (const TopoGraph *graph, TopoVertexKind kind, guint32 index)
{
  gint64 vertex = topo_graph_find (graph, kind, index);
  assert_true (vertex >= 0);
  return (guint32)vertex;
}

static void
test_route (void **state)
{
  const RouteCase *c = *state;
  GError *error = NULL;
  TopoRoute route;
  g_autoptr (TopoMachine) machine = load_machine (c->machine);
  const TopoGraph *graph = machine->graph;
  guint32 from = vertex_of (graph, c->from_kind, c->from);
  guint32 to = vertex_of (graph, c->to_kind, c->to);
  assert_true (topo_route_find (graph, from, to, c->allow_net, &route, &error));
  assert_string_equal (topo_path_type_name (route.type), c->type);
  assert_int_equal (route.n_links, c->n_links);
  assert_near (route.bytes_per_s, c->bytes_per_s, 1e-12);
  if (route.n_links > 0)
    assert_near (topo_graph_link (graph, route.bottleneck)->bytes_per_s, c->bytes_per_s, 1e-12);
  /* The links are a chain from one end to the other. */
  guint32 at = from;
  for (guint32 i = 0; i < route.n_links; i++) {
    assert_int_equal (topo_graph_link (graph, route.links[i])->from, at);
    at = topo_graph_link (graph, route.links[i])->to;
  }
  assert_int_equal (at, to);
}

/* Full-duplex links: a route back has the same type, rate and length, on every machine. */
static void
test_symmetric (void **state)
{
  GError *error = NULL;
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  g_autoptr (GPtrArray) all = topo_machine_load_all (catalog, &error);
  assert_no_error (error);
  for (guint m = 0; m < all->len; m++) {
    const TopoMachine *machine = g_ptr_array_index (all, m);
    guint32 n = MIN (machine->gpus_per_node, 8);
    for (guint32 a = 0; a < n; a++)
      for (guint32 b = 0; b < a; b++) {
        TopoRoute there, back;
        guint32 x = vertex_of (machine->graph, GPU, a), y = vertex_of (machine->graph, GPU, b);
        assert_true (topo_route_find (machine->graph, x, y, FALSE, &there, &error));
        assert_true (topo_route_find (machine->graph, y, x, FALSE, &back, &error));
        assert_int_equal (there.type, back.type);
        assert_int_equal (there.n_links, back.n_links);
        assert_near (there.bytes_per_s, back.bytes_per_s, 1e-12);
      }
  }
}

/* GPUs do not forward PCIe traffic, NICs only when the network is allowed; 2 us + 3 us = 5 us. */
static void
test_no_path (void **state)
{
  GError *error = NULL;
  TopoRoute route;
  g_autoptr (TopoGraph) graph = topo_graph_new ();
  guint32 a = topo_graph_add_vertex (graph, GPU, 0, 0, 0, "GPU0");
  guint32 nic = topo_graph_add_vertex (graph, NIC, 0, 0, 0, "NIC0");
  guint32 net = topo_graph_add_vertex (graph, TOPO_VERTEX_FABRIC, 0, -1, -1, "ib");
  topo_graph_join (graph, a, nic, TOPO_LINK_PCIE4, 1, 31e9, 2e-6);
  topo_graph_join (graph, nic, net, TOPO_LINK_NIC, 1, 25e9, 3e-6);
  assert_true (topo_graph_finish (graph, &error));
  assert_false (topo_route_find (graph, a, net, FALSE, &route, &error));
  assert_true (g_error_matches (error, TOPO_ERROR, TOPO_ERROR_NO_PATH));
  assert_message (error, "no path from 'GPU0' to 'ib' without the network");
  g_clear_error (&error);
  assert_true (topo_route_find (graph, a, net, TRUE, &route, &error));
  assert_near (route.latency_s, 5e-6, 1e-12);
  assert_near (route.bytes_per_s, 25e9, 1e-12);
}

int
main (void)
{
  const struct CMUnitTest fixed[] = {
    cmocka_unit_test (test_symmetric),
    cmocka_unit_test (test_no_path),
  };
  struct CMUnitTest tests[G_N_ELEMENTS (fixed) + G_N_ELEMENTS (routes)] = { 0 };
  guint n = 0;
  for (guint i = 0; i < G_N_ELEMENTS (fixed); i++)
    tests[n++] = fixed[i];
  for (guint i = 0; i < G_N_ELEMENTS (routes); i++)
    tests[n++] = (struct CMUnitTest){ .name = routes[i].name,
                                      .test_func = test_route,
                                      .initial_state = (void *)&routes[i] };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
