/* Tests of topo/contention.c: hand-worked sharing of NICs, PCIe, CPUs and spine; the closed forms of
 * placement against it on every machine; a plain enumeration of hosts. */
#include "base/philox.h"
#include "tests/topo_util.h"
#include "topo/contention.h"
#include "topo/link_facts.h"

/* An H100 board with @n_nics NICs of 400 Gb/s, one switch per GPU or pair of GPUs; more [network]. */
static TopoMachine *
board (guint n_nics, const char *network, GError **error)
{
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  g_autoptr (GString) text = g_string_new (
      "[machine]\nname = X\ngpu = h100-sxm-80g\ngpus_per_node = 8\nsource = made up\n"
      "[links]\nwiring = switch\n[pcie]\ngeneration = 5\ninter_socket = 22GB/s\n");
  for (guint s = 0; s < n_nics; s++)
    g_string_append_printf (text, "[switch %u]\nnuma = %u\ngpus = %u-%u\nnics = %u\n", s,
                            s * 2 / n_nics, s * 8 / n_nics, (s + 1) * 8 / n_nics - 1, s);
  g_string_append_printf (text, "[network]\nfabric = ib\nnics = %u\nnic_rate = 400Gb/s\n%s\n",
                          n_nics, network);
  g_autoptr (BaseIni) ini = base_ini_new_from_data (text->str, -1, "x.ini", error);
  assert_non_null (ini);
  TopoGpu *gpu = topo_gpu_load (catalog, "h100-sxm-80g", error);
  return topo_machine_new_from_ini (catalog, ini, "x", gpu, error);
}

typedef struct {
  const char *name;
  guint n_nics; /* of a board(); 0: a machine of the catalog */
  const char *network;
  guint32 world, stride, size;
  double intra, inter; /* per GPU, by the peak of the link that binds */
  const char *intra_link, *inter_link;
} GroupCase;

static const GroupCase groups[] = {
  /* Eight two-node all-reduces at once, one per rail: a NIC of 50 GB/s each, or one for two */
  { "rails/eight_nics", 8, "serves = even", 16, 8, 2, 0, 50e9, "own", "ports" },
  { "rails/four_nics", 4, "serves = even", 16, 8, 2, 0, 25e9, "own", "ports" },
  /* Each node's ports are 8 x 50; the spine carries a quarter: 100 over 8 senders */
  { "spine/all", 8, "serves = even\noversubscription_ratio = 4", 16, 8, 2, 0, 12.5e9, "own",
    "spine" },
  { "spine/none_crosses", 8, "serves = even\noversubscription_ratio = 4", 16, 1, 8, 450e9, 0, "own",
    "ports" },
  /* groups of 3: of the first two nodes 6, 7 and 15 | 8, 16 send; node 1 has 8 and 15: 100 / 2 = 50 */
  { "spine/few_senders", 8, "serves = even\noversubscription_ratio = 4", 24, 1, 3, 450e9, 50e9,
    "own", "NIC6-ib nic" },
  /* tp = 16 over two nodes: 50 GB/s of network per GPU beside 450 inside */
  { "tp16", 8, "serves = even", 32, 1, 16, 450e9, 50e9, "own", "ports" },
  /* NIC 0 serves GPUs 0-4, the others one or more of the rest: 50 / 5 */
  { "uneven/nics", 4, "serves = 0-4, 5, 6, 7", 16, 8, 2, 0, 10e9, "own", "ports" },
  /* GPU 7 has no NIC: an eighth part of each of 8 … its flow loads each by 1/8: 50 / (1 + 1/8) */
  { "uneven/lone_gpu", 8, "serves = 0, 1, 2, 3, 4, 5, 6, 6", 16, 8, 2, 0, 50e9 / 1.125, "own",
    "NIC0-ib nic" },
  /* PXN: all 8 GPUs on NIC 0 reach it over GPU 0's NVLink and PCIe; its port still binds: 50 / 8 */
  { "pxn", 8, "serves = 0-7, 1, 2, 3, 4, 5, 6, 7", 16, 8, 2, 0, 50e9 / (1 + 7 / 2.), "own",
    "NIC0-ib nic" },
  /* one group of four crosses the CPUs, alone: nothing to share */
  { "pcie/all_four", 0, "a100-pcie-nvlink", 4, 1, 4, 10e9, 0, "CPU0-CPU1 inter-socket", "ports" },
  /* {0,2} and {1,3}: 10 GB/s between the CPUs for two */
  { "pcie/sockets", 0, "a100-pcie-nvlink", 4, 2, 2, 5e9, 0, "CPU0-CPU1 inter-socket", "ports" },
  /* one NIC of 12.5 below CPU 0 for four: 3.125; GPUs 2 and 3 need 6.25 of the 10 between CPUs */
  { "pcie/far_nic", 0, "a100-pcie-nvlink", 8, 4, 2, 0, 3.125e9, "own", "NIC0-ib nic" },
  /* two GPUs per switch: {0,4} {1,5} … halve uplinks of 31 */
  { "pcie/uplinks", 0, "l40s-8x-pcie", 8, 4, 2, 15.5e9, 0, "PLX0-CPU0 pcie4", "ports" },
  /* four GPUs per switch: {0,4} {1,5} {2,6} {3,7} quarter uplinks of 63 */
  { "pcie/four_per_switch", 0, "rtx-pro-6000-8x-pcie", 8, 4, 2, 15.75e9, 0, "PLX0-CPU0 pcie5",
    "ports" },
  /* {0,2,4,6} and {1,3,5,7}: each ring crosses each uplink once */
  { "pcie/two_rings", 0, "rtx-pro-6000-8x-pcie", 8, 2, 4, 31.5e9, 0, "PLX0-CPU0 pcie5", "ports" },
  /* p2p = none: GPUs below one CPU; own lanes of 31 up and down, one unit each */
  { "pcie/through_memory", 0, "rtx4090-8x-pcie", 8, 1, 8, 31e9, 0, "GPU0-CPU0 pcie4", "ports" },
  { "nothing", 8, "serves = even", 16, 1, 1, 0, 0, "own", "ports" },
};

/* (owned) */
static char *
name_link (const TopoMachine *machine, const TopoLink *link, const char *otherwise)
{
  if (link == NULL)
    return g_strdup (otherwise);
  return g_strdup_printf ("%s-%s %s", topo_graph_vertex (machine->graph, link->from)->name,
                          topo_graph_vertex (machine->graph, link->to)->name,
                          topo_link_kind_name (link->kind));
}

static void
test_group (void **state)
{
  const GroupCase *c = *state;
  GError *error = NULL;
  TopoGroupShape shape;
  g_autoptr (TopoMachine) machine
      = c->n_nics > 0 ? board (c->n_nics, c->network, &error) : load_machine (c->network);
  assert_no_error (error);
  topo_group_shape (machine, c->world, c->stride, c->size, &shape);
  g_autofree char *intra = name_link (machine, shape.intra_link, "own");
  g_autofree char *inter
      = name_link (machine, shape.inter_link, shape.spine_binds ? "spine" : "ports");
  assert_near (shape.intra_link != NULL ? shape.intra_link_bytes_per_s : shape.intra_bytes_per_s,
               c->intra, 1e-12);
  assert_near (shape.inter_bytes_per_s, c->inter, 1e-12);
  assert_string_equal (intra, c->intra_link);
  assert_string_equal (inter, c->inter_link);
}

/* What a member sends when the first link that several share fills up: a member sends 1/(g-1) of it
 * to each other. */
static void
test_alltoall (void **state)
{
  static const struct {
    const char *machine;
    guint32 world, stride, size;
    double bytes_per_s;
  } cases[] = {
    /* four below a switch, of which each sends 4/7 up: 63 / (16/7) */
    { "rtx-pro-6000-8x-pcie", 8, 1, 8, 27.5625e9 },
    /* below one switch nothing is shared */
    { "rtx-pro-6000-8x-pcie", 8, 1, 4, 0 },
    /* {0,2,4,6} {1,3,5,7}: four below a switch, of which each sends 2/3 up: 63 / (8/3) */
    { "rtx-pro-6000-8x-pcie", 8, 2, 4, 23.625e9 },
    /* {0,4} {1,5} {2,6} {3,7}: all four up */
    { "rtx-pro-6000-8x-pcie", 8, 4, 2, 15.75e9 },
    /* two below a switch, each 2/3 up, or 6/7: 31 / (4/3), 31 / (12/7) */
    { "l40s-8x-pcie", 8, 1, 4, 23.25e9 },
    { "l40s-8x-pcie", 8, 1, 8, 31e9 * 7 / 12 },
    { "l40s-8x-pcie", 8, 1, 2, 0 },
    /* two below a CPU, each 2/3 to the other CPU: 10 / (4/3); over NVLink nothing of it */
    { "a100-pcie-nvlink", 4, 1, 4, 7.5e9 },
    { "a100-pcie-nvlink", 4, 1, 2, 0 },
    { "hgx-h100", 16, 1, 16, 0 },
    { "dgx-1v-16g", 8, 1, 8, 0 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    TopoGroupShape shape;
    g_autoptr (TopoMachine) machine = load_machine (cases[i].machine);
    topo_group_shape (machine, cases[i].world, cases[i].stride, cases[i].size, &shape);
    assert_near (shape.alltoall_bytes_per_s, cases[i].bytes_per_s, 1e-12);
  }
}

static void
test_spine_in_words (void **state)
{
  GError *error = NULL;
  TopoGroupShape shape;
  g_autoptr (TopoMachine) machine = board (8, "serves = even\noversubscription_ratio = 4", &error);
  assert_no_error (error);
  topo_group_shape (machine, 16, 8, 2, &shape);
  g_autofree char *text = topo_group_bottleneck (machine, &shape);
  assert_string_equal (text, "spine, oversubscribed 4 to 1, 12.5 GB/s per GPU one way");
}

static void
test_bad_ratio (void **state)
{
  static const char *const bad[] = { "0.5", "0", "-1", "nan", "1e9", "x", "" };
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_autoptr (GError) error = NULL;
    g_autofree char *line = g_strdup_printf ("serves = even\noversubscription_ratio = %s", bad[i]);
    assert_null (board (8, line, &error));
    assert_message (error, "oversubscription_ratio");
  }
}

/* ---- the closed forms of placement against the solver, on every machine ---- */

typedef struct {
  const TopoMachine *machine;
  guint32 world, stride, size, domain;
} World;

static guint32
base_of (const World *world, guint32 rank)
{
  guint32 block = world->stride * world->size;
  return rank - rank % block + rank % block % world->stride;
}

/* Group by group: sets and senders of the node that starts at @start. */
static guint64
look_at_node (const World *world, guint32 start, TopoNodeSets *sets)
{
  guint32 bases[TOPO_MAX_GPUS_PER_NODE];
  guint64 senders = 0;
  sets->n_sets = 0;
  for (guint32 p = 0; p < world->machine->gpus_per_node && start + p < world->world; p++) {
    guint32 base = base_of (world, start + p), i = 0;
    for (guint32 m = 0; m < world->size; m++)
      if ((base + m * world->stride) / world->domain != (start + p) / world->domain)
        senders |= 1ull << p;
    while (i < sets->n_sets && bases[i] != base)
      i++;
    if (i == sets->n_sets) {
      bases[sets->n_sets] = base;
      sets->sets[sets->n_sets++] = 0;
    }
    sets->sets[i] |= 1ull << p;
  }
  return senders;
}

/* Every node of every domain, solved anew. */
static void
solve_all_nodes (const World *world, TopoNodeShare *inside, double *outside)
{
  *inside = (TopoNodeShare){ 0 };
  *outside = 0;
  for (guint32 start = 0; world->size > 1 && start < world->world;
       start += world->machine->gpus_per_node) {
    TopoNodeSets sets;
    TopoNodeShare share;
    guint64 senders = look_at_node (world, start, &sets);
    double rate = topo_contention_network (world->machine, senders).bytes_per_s;
    topo_contention_node (world->machine, &sets, TOPO_PATTERN_RING, &share);
    if (share.subset.link_class != TOPO_LINK_CLASS_NONE
        && (inside->subset.link_class == TOPO_LINK_CLASS_NONE
            || share.subset.bytes_per_s < inside->subset.bytes_per_s))
      *inside = share;
    if (rate > 0 && (*outside == 0 || rate < *outside))
      *outside = rate;
  }
}

static void
check_shape (const TopoMachine *machine, guint32 world, guint32 stride, guint32 size)
{
  TopoGroupShape shape;
  TopoNodeShare inside;
  double outside;
  World all = { machine, world, stride, size, topo_machine_domain_in_use (machine, world) };
  topo_group_shape (machine, world, stride, size, &shape);
  solve_all_nodes (&all, &inside, &outside);
  gboolean ok = fabs (shape.inter_bytes_per_s - outside) <= 1;
  /* Members of one rack may be alone on their trays: joined all the same. */
  if (all.domain == machine->gpus_per_node)
    ok = ok && fabs (shape.intra_bytes_per_s - inside.subset.bytes_per_s) <= 1;
  ok = ok && (shape.link_class != TOPO_LINK_CLASS_NONE) == (shape.intra_bytes_per_s > 0);
  if (ok)
    return;
  print_error ("%s world %u stride %u size %u: shape %g inside %g outside, solver %g %g\n",
               machine->slug, world, stride, size, shape.intra_bytes_per_s, shape.inter_bytes_per_s,
               inside.subset.bytes_per_s, outside);
  fail ();
}

/* Whole domains, at most 64 nodes; random strides and sizes that divide the world. */
static void
test_closed_forms (void **state)
{
  GError *error = NULL;
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  g_autoptr (GPtrArray) all = topo_machine_load_all (catalog, &error);
  assert_no_error (error);
  for (guint m = 0; m < all->len; m++) {
    const TopoMachine *machine = g_ptr_array_index (all, m);
    guint32 domain = machine->domain_size > 1000 ? machine->gpus_per_node : machine->domain_size;
    if (machine->wiring == TOPO_WIRING_TORUS) /* a pod: the graph shows one host of it */
      continue;
    for (guint64 i = 0; i < 400; i++) {
      guint64 at = ((guint64)m * 400 + i) << 16;
      guint32 domains
          = machine->n_nics == 0 ? 1 : 1 + (guint32)base_philox_below (31, 1, at, 512 / domain + 1);
      guint32 world = domain * domains, block, size;
      do
        block = 1 + (guint32)base_philox_below (31, 2, at++, world);
      while (world % block != 0);
      do
        size = 1 + (guint32)base_philox_below (31, 3, at++, block);
      while (block % size != 0);
      check_shape (machine, world, block / size, size);
    }
  }
}

/* ---- a plain enumeration of hosts with one level of switches ---- */

enum { UP, DOWN, N_WAYS };
typedef struct {
  double gpu[8][N_WAYS], uplink[8][N_WAYS], cpus[8][8];
} PlainLoad;

/* What one byte from @a to @b loads. Ends below one switch do not leave it. */
static void
plain_hop (const TopoMachine *machine, guint32 a, guint32 b, PlainLoad *load)
{
  gint switch_a = machine->gpu_switch[a], switch_b = machine->gpu_switch[b];
  load->gpu[a][UP]++;
  load->gpu[b][DOWN]++;
  if (switch_a >= 0 && switch_a == switch_b)
    return;
  if (switch_a >= 0)
    load->uplink[switch_a][UP]++;
  if (switch_b >= 0)
    load->uplink[switch_b][DOWN]++;
  if (machine->gpu_numa[a] != machine->gpu_numa[b])
    load->cpus[machine->gpu_numa[a]][machine->gpu_numa[b]]++;
}

/* The ring of the members of one group in the node at @start; FALSE if it stays off PCIe. */
static gboolean
plain_ring (const TopoMachine *machine, guint64 set, PlainLoad *load)
{
  TopoSubset subset;
  guint32 members[8], n = 0;
  memset (load, 0, sizeof *load);
  for (guint32 p = 0; p < 8; p++)
    if (set >> p & 1)
      members[n++] = p;
  if (n < 2)
    return FALSE;
  topo_machine_subset (machine, set, &subset);
  if (!topo_link_class_is_pcie (subset.link_class))
    return FALSE;
  for (guint32 i = 0; i < n; i++)
    plain_hop (machine, members[i], members[(i + 1) % n], load);
  return TRUE;
}

#define N_PLAIN (sizeof (PlainLoad) / sizeof (double))
static void
plain_capacities (const TopoMachine *machine, double *out)
{
  PlainLoad capacity;
  TopoLinkFacts facts;
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  assert_true (topo_link_facts_init (&facts, catalog, NULL));
  double uplink = topo_link_facts_pcie (&facts, machine->pcie_generation);
  for (guint i = 0; i < 8; i++) {
    for (guint way = 0; way < N_WAYS; way++) {
      capacity.gpu[i][way] = machine->pcie_bytes_per_s;
      capacity.uplink[i][way] = uplink;
    }
    for (guint j = 0; j < 8; j++)
      capacity.cpus[i][j] = isnan (machine->inter_socket_bytes_per_s)
                                ? INFINITY
                                : machine->inter_socket_bytes_per_s;
  }
  memcpy (out, &capacity, sizeof capacity);
}

/* Raises all rates together; whoever meets a full link stops. */
static void
plain_fill (double loads[][N_PLAIN], guint32 n, const double *capacities, double *rates)
{
  gboolean stopped[8] = { FALSE };
  for (guint32 left = n; left > 0;) {
    double level = INFINITY;
    for (guint pass = 0; pass < 2; pass++)
      for (guint l = 0; l < N_PLAIN; l++) {
        double room = capacities[l], rising = 0;
        for (guint32 f = 0; f < n; f++) {
          room -= stopped[f] ? rates[f] * loads[f][l] : 0;
          rising += stopped[f] ? 0 : loads[f][l];
        }
        if (pass == 0 && rising > 0)
          level = fmin (level, room / rising);
        for (guint32 f = 0; pass == 1 && f < n; f++)
          if (!stopped[f] && loads[f][l] > 0 && room / rising <= level * (1 + 1e-9)) {
            stopped[f] = TRUE;
            rates[f] = level;
            left--;
          }
      }
  }
}

/* Worst (shared / alone) x peak of the PCIe groups of one node. */
static double
plain_node (const TopoMachine *machine, guint32 world, guint32 stride, guint32 size, guint32 start)
{
  double loads[8][N_PLAIN], capacities[N_PLAIN], rates[8], worst = INFINITY;
  guint32 n = 0;
  gboolean done[8] = { FALSE };
  plain_capacities (machine, capacities);
  for (guint32 p = 0; p < machine->gpus_per_node && start + p < world; p++) {
    guint64 set = 0;
    for (guint32 q = p; q < machine->gpus_per_node && start + q < world; q++) {
      guint32 a = start + p, b = start + q, block = stride * size;
      if (done[q] || a / block != b / block || a % block % stride != b % block % stride)
        continue;
      set |= 1ull << q;
      done[q] = TRUE;
    }
    n += plain_ring (machine, set, (PlainLoad *)(void *)loads[n]);
  }
  plain_fill (loads, n, capacities, rates);
  for (guint32 f = 0; f < n; f++) {
    double alone = INFINITY;
    for (guint l = 0; l < N_PLAIN; l++)
      if (loads[f][l] > 0)
        alone = fmin (alone, capacities[l] / loads[f][l]);
    worst = fmin (worst, rates[f] / alone * machine->pcie_bytes_per_s);
  }
  return worst;
}

static void
test_plain_hosts (void **state)
{
  static const char *const slugs[]
      = { "l40s-8x-pcie",     "rtx-pro-6000-8x-pcie", "rtx4090-8x-pcie", "dgx-1v-16g",
          "a100-pcie-nvlink", "h100-pcie-nvlink",     "jeanzay-v100" };
  guint checked = 0;
  for (guint s = 0; s < G_N_ELEMENTS (slugs); s++) {
    g_autoptr (TopoMachine) machine = load_machine (slugs[s]);
    guint32 node = machine->gpus_per_node;
    for (guint32 nodes = 1; nodes <= 12; nodes++)
      for (guint32 block = 2; block <= node * nodes; block++)
        for (guint32 stride = 1; stride < MIN (node, block); stride++) {
          guint32 world = node * nodes;
          double want = INFINITY;
          TopoGroupShape shape;
          if (world % block != 0 || block % stride != 0 || block == stride)
            continue;
          for (guint32 start = 0; start < world; start += node)
            want = fmin (want, plain_node (machine, world, stride, block / stride, start));
          topo_group_shape (machine, world, stride, block / stride, &shape);
          if (isfinite (want) != topo_link_class_is_pcie ((TopoLinkClass)shape.link_class)
              || (isfinite (want) && fabs (shape.intra_bytes_per_s / want - 1) > 1e-9)) {
            print_error ("%s world %u stride %u size %u: got %g, want %g\n", slugs[s], world,
                         stride, block / stride, shape.intra_bytes_per_s, want);
            fail ();
          }
          checked += isfinite (want);
        }
  }
  assert_true (checked > 500);
}

/* The shared rate is at most the rate alone, and at least an eighth of it: eight GPUs have eight
 * hops, which share a link evenly. */
static void
test_laws (void **state)
{
  g_autoptr (TopoMachine) machine = load_machine ("rtx-pro-6000-8x-pcie");
  for (guint64 i = 0; i < 2000; i++) {
    TopoNodeShare share;
    TopoNodeSets sets = { .n_sets = 1 + (guint32)base_philox_below (41, 1, i, 4) };
    for (guint32 p = 0; p < 8; p++)
      sets.sets[base_philox_below (41, 2 + p, i, sets.n_sets)] |= 1ull << p;
    topo_contention_node (machine, &sets, TOPO_PATTERN_RING, &share);
    assert_true (share.shared_bytes_per_s <= share.alone_bytes_per_s * (1 + 1e-12));
    assert_true (share.shared_bytes_per_s * 8 >= share.alone_bytes_per_s * (1 - 1e-12));
    assert_true (share.subset.bytes_per_s <= 63e9 * (1 + 1e-12));
  }
}

int
main (void)
{
  const struct CMUnitTest fixed[] = {
    cmocka_unit_test (test_alltoall),    cmocka_unit_test (test_spine_in_words),
    cmocka_unit_test (test_bad_ratio),   cmocka_unit_test (test_closed_forms),
    cmocka_unit_test (test_plain_hosts), cmocka_unit_test (test_laws),
  };
  struct CMUnitTest tests[G_N_ELEMENTS (fixed) + G_N_ELEMENTS (groups)] = { 0 };
  guint n = 0;
  for (guint i = 0; i < G_N_ELEMENTS (fixed); i++)
    tests[n++] = fixed[i];
  for (guint i = 0; i < G_N_ELEMENTS (groups); i++)
    tests[n++] = (struct CMUnitTest){ .name = groups[i].name,
                                      .test_func = test_group,
                                      .initial_state = (void *)&groups[i] };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
