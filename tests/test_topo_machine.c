/* Tests of machine files and clusters: the catalog, refusals, sizes. */
#include "tests/topo_util.h"
#include "topo/live.h"
#include "topo/machine-private.h"
#include <sched.h>

/* Hand-worked from the machine tables: NIC rate per GPU = NICs x Gb/s / 8 / GPUs. */
typedef struct {
  const char *slug;
  const char *gpu;
  guint32 gpus_per_node, domain;
  TopoLinkClass node_class;
  double node_bytes_per_s, nic_bytes_per_s;
  gboolean nvls;
  TopoFabric fabric;
} MachineCase;

#define NVL(n)  TOPO_LINK_CLASS_NVLINK##n
#define PCIE(n) TOPO_LINK_CLASS_PCIE##n
static const MachineCase machines[] = {
  { "dgx-1v-16g", "v100-sxm2-16g", 8, 8, NVL (2), 150e9, 6.25e9, FALSE, TOPO_FABRIC_IB },
  { "dgx-1v-32g", "v100-sxm2-32g", 8, 8, NVL (2), 150e9, 6.25e9, FALSE, TOPO_FABRIC_IB },
  { "dgx-a100-40g", "a100-sxm-40g", 8, 8, NVL (3), 300e9, 25e9, FALSE, TOPO_FABRIC_IB },
  { "dgx-a100-80g", "a100-sxm-80g", 8, 8, NVL (3), 300e9, 25e9, FALSE, TOPO_FABRIC_IB },
  { "hgx-h100", "h100-sxm-80g", 8, 8, NVL (4), 450e9, 50e9, TRUE, TOPO_FABRIC_IB },
  { "hgx-h100-96g", "h100-sxm-96g-hbm2e", 8, 8, NVL (4), 450e9, 50e9, TRUE, TOPO_FABRIC_ROCE },
  { "hgx-h200", "h200-sxm", 8, 8, NVL (4), 450e9, 50e9, TRUE, TOPO_FABRIC_IB },
  { "hgx-h800", "h800-sxm-80g", 8, 8, NVL (4), 200e9, 50e9, TRUE, TOPO_FABRIC_IB },
  { "hgx-h20", "h20-96g", 8, 8, NVL (4), 450e9, 50e9, TRUE, TOPO_FABRIC_IB },
  { "hgx-b200", "b200-sxm", 8, 8, NVL (5), 900e9, 50e9, TRUE, TOPO_FABRIC_IB },
  { "hgx-b200-powerlimited", "b200-sxm", 8, 8, NVL (5), 900e9, 50e9, TRUE, TOPO_FABRIC_IB },
  { "hgx-b300", "b300-sxm", 8, 8, NVL (5), 900e9, 100e9, TRUE, TOPO_FABRIC_IB },
  { "gb200-nvl72", "gb200", 4, 72, NVL (5), 900e9, 50e9, TRUE, TOPO_FABRIC_IB },
  { "gb300-nvl72", "gb300", 4, 72, NVL (5), 900e9, 100e9, TRUE, TOPO_FABRIC_IB },
  { "a100-pcie-nvlink", "a100-pcie-80g", 4, 4, PCIE (4_SYS), 31e9, 3.125e9, FALSE, TOPO_FABRIC_IB },
  { "h100-pcie-nvlink", "h100-pcie-80g", 4, 4, PCIE (5), 63e9, 0, FALSE, TOPO_FABRIC_NONE },
  { "l40s-8x-pcie", "l40s", 8, 8, PCIE (4_SYS), 31e9, 0, FALSE, TOPO_FABRIC_NONE },
  { "rtx4090-8x-pcie", "rtx-4090", 8, 8, PCIE (4_SYS), 31e9, 0, FALSE, TOPO_FABRIC_NONE },
  { "rtx-pro-6000-8x-pcie", "rtx-pro-6000-bse", 8, 8, PCIE (5), 63e9, 0, FALSE, TOPO_FABRIC_NONE },
  { "aws-p4d", "a100-sxm-40g", 8, 8, NVL (3), 300e9, 6.25e9, FALSE, TOPO_FABRIC_EFA1 },
  { "aws-p4de", "a100-sxm-80g", 8, 8, NVL (3), 300e9, 6.25e9, FALSE, TOPO_FABRIC_EFA1 },
  { "aws-p5", "h100-sxm-80g", 8, 8, NVL (4), 450e9, 50e9, TRUE, TOPO_FABRIC_EFA },
  { "aws-p5en", "h200-sxm", 8, 8, NVL (4), 450e9, 50e9, TRUE, TOPO_FABRIC_EFA },
  { "aws-p6-b200", "b200-sxm", 8, 8, NVL (5), 900e9, 50e9, TRUE, TOPO_FABRIC_EFA },
  { "azure-ndv4", "a100-sxm-40g", 8, 8, NVL (3), 300e9, 25e9, FALSE, TOPO_FABRIC_IB },
  { "azure-ndv5", "h100-sxm-80g", 8, 8, NVL (4), 450e9, 50e9, TRUE, TOPO_FABRIC_IB },
  { "gcp-a3-high", "h100-sxm-80g", 8, 8, NVL (4), 450e9, 12.5e9, TRUE, TOPO_FABRIC_TCPX },
  { "gcp-a3-mega", "h100-sxm-80g", 8, 8, NVL (4), 450e9, 25e9, TRUE, TOPO_FABRIC_TCPXO },
  { "gcp-a3-ultra", "h200-sxm", 8, 8, NVL (4), 450e9, 50e9, TRUE, TOPO_FABRIC_GCPRDMA },
  { "oci-h100", "h100-sxm-80g", 8, 8, NVL (4), 450e9, 50e9, TRUE, TOPO_FABRIC_ROCE },
  { "oci-h200", "h200-sxm", 8, 8, NVL (4), 450e9, 50e9, TRUE, TOPO_FABRIC_ROCE },
  { "oci-a100-40g", "a100-sxm-40g", 8, 8, NVL (3), 300e9, 25e9, FALSE, TOPO_FABRIC_ROCE },
  { "jeanzay-a100", "a100-sxm-80g", 8, 8, NVL (3), 300e9, 6.25e9, FALSE, TOPO_FABRIC_OPA },
  /* 3 peers x 2 links x 25 */
  { "jeanzay-v100", "v100-sxm2-32g", 4, 4, NVL (2), 150e9, 12.5e9, FALSE, TOPO_FABRIC_OPA },
  { "abci2-a100", "a100-sxm-40g", 8, 8, NVL (3), 300e9, 12.5e9, FALSE, TOPO_FABRIC_IB },
  { "abci2-v100", "v100-sxm2-16g", 4, 4, NVL (2), 150e9, 6.25e9, FALSE, TOPO_FABRIC_IB },
  { "mi300x-8x", "mi300x", 8, 8, TOPO_LINK_CLASS_XGMI, 448e9, 50e9, FALSE, TOPO_FABRIC_IB },
  { "tpu-v5p-pod", "tpu-v5p", 4, 8960, TOPO_LINK_CLASS_ICI, 600e9, 6.25e9, FALSE,
    TOPO_FABRIC_ETHERNET },
};

static void
test_machine (void **state)
{
  const MachineCase *c = *state;
  g_autoptr (TopoMachine) machine = load_machine (c->slug);
  assert_string_equal (machine->slug, c->slug);
  assert_string_equal (machine->gpu->slug, c->gpu);
  assert_int_equal (machine->gpus_per_node, c->gpus_per_node);
  assert_int_equal (machine->domain_size, c->domain);
  assert_string_equal (topo_link_class_name (machine->node_link_class),
                       topo_link_class_name (c->node_class));
  assert_near (machine->node_link_bytes_per_s, c->node_bytes_per_s, 1e-12);
  assert_near (machine->nic_share.bytes_per_s, c->nic_bytes_per_s, 1e-12);
  assert_int_equal (machine->nvls, c->nvls);
  assert_int_equal (machine->fabric, c->fabric);
}

static void
test_catalog_is_the_table (void **state)
{
  GError *error = NULL;
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  g_autoptr (GPtrArray) all = topo_machine_load_all (catalog, &error);
  assert_no_error (error);
  assert_int_equal (all->len, G_N_ELEMENTS (machines));
  for (guint i = 0; i < all->len; i++) {
    const TopoMachine *machine = g_ptr_array_index (all, i);
    assert_int_equal (topo_graph_count (machine->graph, TOPO_VERTEX_NIC),
                      machine->wiring == TOPO_WIRING_TORUS
                          ? machine->n_nics
                          : machine->n_nics * machine->domain_size / machine->gpus_per_node);
    /* A price has a date and a source, or does not exist. */
    assert_true (isnan (machine->price_usd_per_gpu_hour) == (machine->price_as_of == NULL));
    assert_true (isnan (machine->price_usd_per_gpu_hour) == (machine->price_source == NULL));
  }
}

static void
test_other_card_on_the_board (void **state)
{
  GError *error = NULL;
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  g_autoptr (TopoMachine) machine
      = topo_machine_load (catalog, "azure-ndv4", "A100-80G-SXM", &error);
  assert_no_error (error);
  assert_string_equal (machine->gpu->slug, "a100-sxm-80g");
  assert_null (topo_machine_load (catalog, "azure-ndv4", "a100-sxm-81g", &error));
  assert_message (error, "a100-sxm-81g");
  g_clear_error (&error);
  assert_null (topo_machine_load (catalog, "azure-ndv9", NULL, &error));
  assert_message (error, "azure-ndv");
  g_clear_error (&error);
}

/* Runs that name the card only. */
static void
test_only_the_card (void **state)
{
  static const struct {
    const char *card;
    guint32 per_node;
    const char *slug;
    guint32 gpus_per_node;
  } cases[] = {
    { "L40S", 8, "l40s-8x-pcie", 8 },       { "H800-80G", 8, "hgx-h800", 8 },
    { "RTX3090-24G", 1, "rtx-3090-x1", 1 }, { "RTX5090-32G", 2, "rtx-5090-x2", 2 },
    { "GH200", 1, "gh200-96g-x1", 1 },      { "NVIDIA H100 NVL", 4, "h100-pcie-nvlink", 4 },
  };
  GError *error = NULL;
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (TopoMachine) machine
        = topo_machine_load_for_gpu (catalog, cases[i].card, cases[i].per_node, &error);
    assert_no_error (error);
    assert_string_equal (machine->slug, cases[i].slug);
    assert_int_equal (machine->gpus_per_node, cases[i].gpus_per_node);
    guint n = g_strv_length (machine->assumed);
    assert_non_null (strstr (machine->assumed[n - 1], "only the card is known"));
  }
  assert_null (topo_machine_load_for_gpu (catalog, "RTX3091", 1, &error));
  assert_message (error, "RTX3091");
  g_clear_error (&error);
  assert_null (topo_machine_load_for_gpu (catalog, "RTX3090", 0, &error));
  assert_message (error, "gpus_per_node");
  g_clear_error (&error);
}

/* A card's board exists and can carry it. */
static void
test_boards (void **state)
{
  GError *error = NULL;
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  g_autoptr (TopoGpuTable) table = topo_gpu_table_new (catalog, &error);
  for (guint i = 0; i < topo_gpu_table_size (table); i++) {
    const TopoGpu *gpu = topo_gpu_table_get (table, i);
    g_autoptr (TopoMachine) machine = topo_machine_load_for_gpu (catalog, gpu->slug, 2, &error);
    assert_no_error (error);
    assert_string_equal (machine->gpu->slug, gpu->slug);
  }
}

static const char good_machine[] = "[machine]\n"
                                   "name = Test box\n"
                                   "gpu = h100-sxm-80g\n"
                                   "gpus_per_node = 4\n"
                                   "source = test\n"
                                   "[links]\n"
                                   "wiring = links\n"
                                   "pairs = 0-1:4, 1-2:4, 2-3:4, 3-0:4\n"
                                   "[pcie]\n"
                                   "generation = 5\n"
                                   "inter_socket = 22GB/s\n"
                                   "[numa 0]\n"
                                   "socket = 0\n"
                                   "gpus = 0-1\n"
                                   "nics = 0\n"
                                   "[switch 7]\n"
                                   "numa = 1\n"
                                   "gpus = 2, 3\n"
                                   "nics = 1\n"
                                   "[network]\n"
                                   "fabric = ib\n"
                                   "nics = 2\n"
                                   "nic_rate = 400Gb/s\n"
                                   "serves = 0-2, 3\n"
                                   "[price]\n"
                                   "per_gpu_hour = 2.50USD/h\n"
                                   "as_of = 2026-01-01\n"
                                   "source = test\n";

/* 65536 nodes of 1 GPU and 8 NICs. */
static const char wide_machine[] = "[machine]\n"
                                   "name = Wide\n"
                                   "gpu = h100-sxm-80g\n"
                                   "gpus_per_node = 1\n"
                                   "domain = 65536\n"
                                   "source = test\n"
                                   "[links]\n"
                                   "wiring = switch\n"
                                   "[network]\n"
                                   "fabric = ib\n"
                                   "nics = 8\n"
                                   "nic_rate = 400Gb/s\n"
                                   "serves = all\n";

static TopoMachine *
parse_machine (const char *text, GError **error)
{
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  g_autoptr (BaseIni) ini = base_ini_new_from_data (text, -1, "box.ini", error);
  if (ini == NULL)
    return NULL;
  TopoGpu *gpu = topo_gpu_load (catalog, "h100-sxm-80g", NULL);
  assert_non_null (gpu);
  return topo_machine_new_from_ini (catalog, ini, "box", gpu, error);
}

static void
test_good_file (void **state)
{
  GError *error = NULL;
  g_autoptr (TopoMachine) machine = parse_machine (good_machine, &error);
  assert_no_error (error);
  assert_near (machine->price_usd_per_gpu_hour, 2.5, 1e-12);
  assert_near (machine->inter_socket_bytes_per_s, 22e9, 1e-12);
  assert_int_equal (machine->nics[0].gpus, 7);
  assert_int_equal (machine->nics[1].gpus, 8);
  /* NIC 0 is split over three GPUs: 50e9 / 3 */
  assert_near (machine->nic_share.bytes_per_s, 50e9 / 3, 1e-12);
  assert_int_equal (machine->gpu_numa[1], 0);
  assert_int_equal (machine->gpu_numa[2], 1);
  assert_int_equal (machine->gpu_switch[2], 7);
  assert_int_equal (machine->gpu_switch[0], -1);
  /* 4 GPUs, 2 CPUs, 1 PCIe switch, 2 NICs, 1 fabric */
  assert_int_equal (topo_graph_n_vertices (machine->graph), 10);
  /* both ways: 4 NVLink, 1 inter-socket, 4 GPU, 2 NIC, 1 uplink, 2 ports */
  assert_int_equal (topo_graph_n_links (machine->graph), 2 * 14);
  assert_int_equal (g_strv_length (machine->assumed), 0);
}

/* What a file says of the link to the CPU goes before what the GPU's file says, as for all links. */
static void
test_cpu_rate (void **state)
{
  static const struct {
    const char *line;
    double bytes_per_s;
  } cases[] = { { "", 450e9 }, { "cpu_rate = 100GB/s\n", 100e9 } };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    GError *error = NULL;
    g_autoptr (BaseCatalog) catalog = open_catalog ();
    g_autofree char *text
        = g_strdup_printf ("[machine]\nname = x\ngpu = gb200\ngpus_per_node = 4\nsource = test\n"
                           "[links]\nwiring = switch\n%s[pcie]\ngeneration = 5\n"
                           "[numa 0]\ngpus = 0-3\n",
                           cases[i].line);
    g_autoptr (BaseIni) ini = base_ini_new_from_data (text, -1, "x.ini", &error);
    TopoGpu *gpu = topo_gpu_load (catalog, "gb200", &error);
    g_autoptr (TopoMachine) machine = topo_machine_new_from_ini (catalog, ini, "x", gpu, &error);
    assert_no_error (error);
    gint64 a = topo_graph_find (machine->graph, TOPO_VERTEX_GPU, 0);
    gint64 b = topo_graph_find (machine->graph, TOPO_VERTEX_CPU, 0);
    const TopoLink *link
        = topo_graph_link_between (machine->graph, (guint32)a, (guint32)b, TOPO_LINK_C2C);
    assert_non_null (link);
    assert_near (link->bytes_per_s, cases[i].bytes_per_s, 1e-12);
  }
}

/* A rate between NUMA nodes that are not there would change nothing. */
static void
test_socket_rate_alone (void **state)
{
  GError *error = NULL;
  g_autoptr (TopoMachine) machine
      = parse_machine ("[machine]\nname = x\ngpu = h100-sxm-80g\ngpus_per_node = 4\nsource = test\n"
                       "[links]\nwiring = switch\n[pcie]\ngeneration = 5\ninter_socket = 22GB/s\n",
                       &error);
  assert_null (machine);
  assert_message (error, "one NUMA node");
  g_clear_error (&error);
}

/* ---- this host ---- */

/* A model that nobody has is no reason to plan for the CPU instead. */
static void
test_live_names_no_gpu (void **state)
{
  GError *error = NULL;
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  TopoReadOptions options = { catalog, "no-such-card", NULL };
  assert_null (topo_machine_new_live (&options, 1, &error));
  assert_non_null (error);
  g_clear_error (&error);
}

/* On one of the cores there is one core to plan for. */
static void
test_live_cores (void **state)
{
  GError *error = NULL;
  cpu_set_t before, one;
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  TopoReadOptions options = { catalog, NULL, NULL };
  assert_int_equal (sched_getaffinity (0, sizeof before, &before), 0);
  CPU_ZERO (&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT (&one) == 0; cpu++)
    if (CPU_ISSET (cpu, &before))
      CPU_SET (cpu, &one);
  assert_int_equal (sched_setaffinity (0, sizeof one, &one), 0);
  g_autoptr (TopoMachine) machine = topo_machine_new_live (&options, 1, &error);
  sched_setaffinity (0, sizeof before, &before);
  if (machine == NULL) { /* GPUs that the catalog does not know */
    g_clear_error (&error);
    return;
  }
  if (strcmp (machine->gpu->generation, "cpu") == 0)
    assert_int_equal (machine->gpu->sm_count, 1);
}

typedef struct {
  const char *name;
  const char *key, *line;
  const char *message;
} BadCase;

static const BadCase bad[] = {
  { "bad/no_gpus", "gpus_per_node", "", "gpus_per_node" },
  { "bad/zero_gpus", "gpus_per_node", "gpus_per_node = 0", "gpus_per_node" },
  { "bad/many_gpus", "gpus_per_node", "gpus_per_node = 65", "gpus_per_node" },
  { "bad/huge_gpus", "gpus_per_node", "gpus_per_node = 9223372036854775808", "gpus_per_node" },
  { "bad/negative_gpus", "gpus_per_node", "gpus_per_node = -4", "gpus_per_node" },
  { "bad/fewer_gpus_than_placed", "gpus_per_node", "gpus_per_node = 2", "pairs" },
  { "bad/domain", "gpus_per_node", "gpus_per_node = 4\ndomain = 6", "multiple of gpus_per_node" },
  { "bad/domain_without_switch", "gpus_per_node", "gpus_per_node = 4\ndomain = 8",
    "only a switch" },
  { "bad/domain_for_graph", NULL, NULL, "too many for one graph" },
  { "bad/domain_huge", "gpus_per_node", "gpus_per_node = 4\ndomain = 4000000000", "domain" },
  { "bad/power", "gpus_per_node", "gpus_per_node = 4\npower_limit_ratio = 1.5",
    "power_limit_ratio" },
  { "bad/power_nan", "gpus_per_node", "gpus_per_node = 4\npower_limit_ratio = nan",
    "power_limit_ratio" },
  { "bad/no_name", "name", "", "name" },
  { "bad/wiring", "wiring", "wiring = ring", "switch" },
  { "bad/nvls_without_switch", "wiring", "wiring = links\nnvls = yes", "only a switch" },
  { "bad/nvls_on_nvlink3", "wiring", "wiring = switch\nkind = nvlink3\nnvls = yes",
    "switches of nvlink3 cannot reduce" },
  { "bad/pair_self", "pairs", "pairs = 1-1:2", "'1-1:2'" },
  { "bad/pair_twice", "pairs", "pairs = 0-1:2, 1-0:2", "each pair once" },
  { "bad/pair_out_of_range", "pairs", "pairs = 0-4:2", "below 4" },
  { "bad/pair_no_count", "pairs", "pairs = 0-1", "count" },
  { "bad/pair_zero_links", "pairs", "pairs = 0-1:0", "'0-1:0'" },
  { "bad/pair_junk", "pairs", "pairs = zero-one", "zero-one" },
  { "bad/pair_too_many_links", "pairs", "pairs = 0-1:10, 0-2:10", "at most 18" },
  { "bad/no_pairs", "pairs", "", "pairs" },
  { "bad/link_rate", "wiring", "wiring = links\nlink_rate = 0GB/s", "link_rate" },
  { "bad/link_kind", "wiring", "wiring = links\nkind = pcie4", "pcie4" },
  { "bad/pcie_generation", "generation", "generation = 2", "generation" },
  { "bad/pcie_missing", "generation", "", "generation" },
  { "bad/socket_rate_unit", "inter_socket", "inter_socket = 22GB", "inter_socket" },
  { "bad/set_junk", "gpus = 0-1", "gpus = 0-x", "0-x" },
  { "bad/set_reversed", "gpus = 0-1", "gpus = 1-0", "1-0" },
  { "bad/set_twice", "gpus = 2, 3", "gpus = 2, 2", "twice" },
  { "bad/set_overlap", "gpus = 2, 3", "gpus = 1-3", "two places" },
  { "bad/gpu_nowhere", "gpus = 2, 3", "gpus = 2", "GPU 3 is below no" },
  { "bad/nic_out_of_range", "nics = 1", "nics = 2", "nics" },
  { "bad/place_name", "[switch 7]", "[switch x]", "'x'" },
  { "bad/place_huge", "[switch 7]", "[switch 256]", "0 to 255" },
  { "bad/place_empty", "[switch 7]", "[switch ]", "switch" },
  { "bad/switch_no_numa", "numa = 1", "", "numa" },
  { "bad/fabric", "fabric", "fabric = infiniband", "fabric" },
  { "bad/fabric_none", "fabric", "fabric = none", "no [network]" },
  { "bad/nic_count", "nics = 2", "nics = 0", "nics" },
  { "bad/nic_many", "nics = 2", "nics = 65", "nics" },
  { "bad/nic_rate_unit", "nic_rate", "nic_rate = 400", "nic_rate" },
  { "bad/nic_rate_zero", "nic_rate", "nic_rate = 0Gb/s", "nic_rate" },
  { "bad/nic_rate_huge", "nic_rate", "nic_rate = 1e30GB/s", "nic_rate" },
  { "bad/serves_short", "serves", "serves = 0-3", "one per NIC (2)" },
  { "bad/serves_range", "serves", "serves = 0-4, 1", "0-4" },
  { "bad/serves_uneven", "nics = 2", "nics = 3\n", "one per NIC (3)" },
  { "bad/price_no_unit", "per_gpu_hour", "per_gpu_hour = 2.50", "per_gpu_hour" },
  { "bad/price_negative", "per_gpu_hour", "per_gpu_hour = -1USD/h", "per_gpu_hour" },
  { "bad/price_undated", "as_of", "", "as_of" },
#define MEASURED(head, points) "[measured " head "]\nsource = test\npoints = " points
  { "bad/measured_what", NULL, MEASURED ("all_reduced 4", "1B:1us, 2B:1us"), "all_reduce 8" },
  { "bad/measured_alone", NULL, MEASURED ("all_reduce", "1B:1us, 2B:1us"), "number of ranks" },
  { "bad/measured_ranks", NULL, MEASURED ("all_reduce 5", "1B:1us, 2B:1us"), "nodes of 4" },
  { "bad/measured_one", NULL, MEASURED ("all_reduce 4", "1B:1us"), "expected 2 to" },
  { "bad/measured_unit", NULL, MEASURED ("all_reduce 4", "1B:1us, 2B:3"), "'2B:3'" },
  { "bad/measured_zero", NULL, MEASURED ("all_reduce 4", "1B:0us, 2B:3us"), "'1B:0us'" },
  { "bad/measured_falling", NULL, MEASURED ("all_reduce 4", "2B:1us, 1B:3us"), "rising" },
  { "bad/measured_source", NULL, "[measured all_reduce 4]\npoints = 1B:1us, 2B:3us", "source" },
  { "bad/unknown_key", "name", "nmae = x", "name" },
  { "bad/unknown_group", NULL, "[nvlink]\nx = 1", "nvlink" },
  { "bad/duplicate_group", NULL, "[pcie]\ngeneration = 4", "pcie" },
};

static void
test_bad (void **state)
{
  const BadCase *c = *state;
  GError *error = NULL;
  g_autofree char *text
      = c->line == NULL ? g_strdup (wide_machine) : edit_ini (good_machine, c->key, c->line);
  TopoMachine *machine = parse_machine (text, &error);
  if (machine != NULL)
    print_error ("%s was accepted\n", c->name);
  assert_null (machine);
  assert_message (error, c->message);
  assert_message (error, "box.ini");
  g_clear_error (&error);
}

/* Cut anywhere, a file is refused or read, but never crashes. */
static void
test_truncated (void **state)
{
  guint read = 0;
  for (gsize length = 0; length < sizeof good_machine; length++) {
    GError *error = NULL;
    g_autofree char *text = g_strndup (good_machine, length);
    g_autoptr (TopoMachine) machine = parse_machine (text, &error);
    assert_true ((machine == NULL) == (error != NULL));
    read += machine != NULL;
    g_clear_error (&error);
  }
  assert_true (read > 0);
}

typedef struct {
  const char *name;
  const char *machine;
  guint64 gpus;
  guint32 nodes, domains, domain_in_use; /* 0: refused */
  const char *message;
} ClusterCase;

static const ClusterCase clusters[] = {
  { "cluster/one_gpu", "hgx-h100", 1, 1, 1, 8, NULL },
  { "cluster/below_a_node", "hgx-h100", 5, 1, 1, 8, NULL },
  { "cluster/nodes", "hgx-h100", 64, 8, 8, 8, NULL },
  { "cluster/not_whole_nodes", "hgx-h100", 12, 0, 0, 0, "take 8 or 16" },
  { "cluster/none", "hgx-h100", 0, 0, 0, 0, "found 0 GPUs" },
  { "cluster/too_many", "hgx-h100", 1ull << 25, 0, 0, 0, "expected 1 to 16777216" },
  { "cluster/2_63", "hgx-h100", 1ull << 63, 0, 0, 0, "expected 1 to" },
  { "cluster/no_network", "l40s-8x-pcie", 16, 0, 0, 0, "take at most 8" },
  { "cluster/no_network_one_node", "l40s-8x-pcie", 8, 1, 1, 8, NULL },
  { "cluster/rack_part", "gb200-nvl72", 8, 2, 1, 72, NULL },
  { "cluster/rack", "gb200-nvl72", 72, 18, 1, 72, NULL },
  { "cluster/two_racks", "gb200-nvl72", 144, 36, 2, 72, NULL },
  /* 128 = 2 x 64: alike rather than 72 + 56 */
  { "cluster/racks_of_64", "gb200-nvl72", 128, 32, 2, 64, NULL },
  { "cluster/racks_of_68", "gb200-nvl72", 136, 34, 2, 68, NULL },
  { "cluster/racks_packed", "gb200-nvl72", 80, 20, 2, 72, NULL },
  { "cluster/racks_2048", "gb200-nvl72", 2048, 512, 32, 64, NULL },
  { "cluster/tray_cut", "gb200-nvl72", 10, 0, 0, 0, "take 8 or 12" },
};

static void
test_cluster (void **state)
{
  const ClusterCase *c = *state;
  GError *error = NULL;
  TopoCluster cluster = { 0 };
  g_autoptr (TopoMachine) machine = load_machine (c->machine);
  gboolean ok = topo_cluster_init (&cluster, machine, c->gpus, &error);
  if (c->nodes == 0) {
    assert_false (ok);
    assert_true (g_error_matches (error, TOPO_ERROR, TOPO_ERROR_SIZE));
    assert_message (error, c->message);
    assert_null (cluster.machine); /* untouched */
    g_clear_error (&error);
    return;
  }
  assert_no_error (error);
  assert_int_equal (cluster.nodes, c->nodes);
  assert_int_equal (cluster.domains, c->domains);
  assert_int_equal (cluster.domain_in_use, c->domain_in_use);
}

#define ADD(cases, function)                                                                       \
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)                                                 \
    tests[n++] = (struct CMUnitTest)                                                               \
    {                                                                                              \
      .name = name_of (&cases[i]), .test_func = function, .initial_state = (void *)&cases[i]       \
    }

/* Each case struct starts with its name. */
static const char *
name_of (const void *test_case)
{
  return *(const char *const *)test_case;
}

int
main (void)
{
  const struct CMUnitTest fixed[] = {
    cmocka_unit_test (test_catalog_is_the_table),
    cmocka_unit_test (test_other_card_on_the_board),
    cmocka_unit_test (test_only_the_card),
    cmocka_unit_test (test_boards),
    cmocka_unit_test (test_good_file),
    cmocka_unit_test (test_cpu_rate),
    cmocka_unit_test (test_socket_rate_alone),
    cmocka_unit_test (test_live_names_no_gpu),
    cmocka_unit_test (test_live_cores),
    cmocka_unit_test (test_truncated),
  };
  struct CMUnitTest tests[G_N_ELEMENTS (machines) + G_N_ELEMENTS (bad) + G_N_ELEMENTS (clusters)
                          + G_N_ELEMENTS (fixed)]
      = { 0 };
  guint n = 0;
  ADD (machines, test_machine);
  ADD (bad, test_bad);
  ADD (clusters, test_cluster);
  for (guint i = 0; i < G_N_ELEMENTS (fixed); i++)
    tests[n++] = fixed[i];
  return cmocka_run_group_tests (tests, NULL, NULL);
}
