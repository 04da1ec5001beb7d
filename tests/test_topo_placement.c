/* Tests of topo/placement.c: hand-worked shapes, and a plain enumeration of every group. */
#include "base/philox.h"
#include "tests/topo_util.h"

typedef struct {
  const char *name;
  const char *machine;
  guint32 world, stride, size; /* size 0: the pairs (r, r + stride) */
  guint32 k, g, g_max;
  const char *link_class;
  double intra_bytes_per_s, inter_bytes_per_s;
  gboolean nvls;
} ShapeCase;

static const ShapeCase shapes[] = {
  { "one_rank", "hgx-h100", 64, 8, 1, 1, 1, 1, "none", 0, 0, FALSE },
  { "tp8_in_node", "hgx-h100", 64, 1, 8, 1, 8, 8, "nvlink4", 450e9, 0, TRUE },
  /* a switch adds nothing up for fewer than 5 GPUs */
  { "tp4_in_node", "hgx-h100", 64, 1, 4, 1, 4, 4, "nvlink4", 450e9, 0, FALSE },
  /* 8 x 400 Gb/s over 8 GPUs = 50 GB/s each */
  { "tp16_two_nodes", "hgx-h100", 64, 1, 16, 2, 8, 8, "nvlink4", 450e9, 50e9, TRUE },
  { "dp_over_nodes", "hgx-h100", 64, 8, 8, 8, 1, 1, "none", 0, 50e9, FALSE },
  { "dp_two_per_node", "hgx-h100", 64, 4, 16, 8, 2, 2, "nvlink4", 450e9, 50e9, FALSE },
  { "everyone", "hgx-h100", 64, 1, 64, 8, 8, 8, "nvlink4", 450e9, 50e9, TRUE },
  /* 8 x 200 Gb/s = 25 GB/s each */
  { "tp16_dgx_a100", "dgx-a100-80g", 32, 1, 16, 2, 8, 8, "nvlink3", 300e9, 25e9, FALSE },
  /* 4 x 100 Gb/s over 8 GPUs: 12.5e9 / 2 */
  { "tp16_p4d", "aws-p4d", 32, 1, 16, 2, 8, 8, "nvlink3", 300e9, 6.25e9, FALSE },
  /* 72 GPUs are one domain, 144 are two */
  { "rack", "gb200-nvl72", 72, 1, 72, 1, 72, 72, "nvlink5", 900e9, 0, TRUE },
  { "two_racks", "gb200-nvl72", 144, 1, 144, 2, 72, 72, "nvlink5", 900e9, 50e9, TRUE },
  { "tp16_in_rack", "gb200-nvl72", 72, 1, 8, 1, 8, 8, "nvlink5", 900e9, 0, TRUE },
  /* 128 GPUs: 2 racks x 64, so that 64 contiguous stay in one */
  { "ep64_in_rack", "gb200-nvl72", 128, 1, 64, 1, 64, 64, "nvlink5", 900e9, 0, TRUE },
  { "dp_two_racks", "gb200-nvl72", 128, 64, 2, 2, 1, 1, "none", 0, 50e9, FALSE },
  /* {0,1,2} {3,4,5} {6,7|8}: the worst has 2 + 1; groups inside stay on NVLink */
  { "tp3_straddles", "dgx-a100-80g", 24, 1, 3, 2, 1, 2, "nvlink3", 300e9, 25e9, FALSE },
  /* on p4d, {6,7|8}: 6 and 7 share a NIC, so 6.25 */
  { "tp3_straddles_p4d", "aws-p4d", 24, 1, 3, 2, 1, 2, "nvlink3", 300e9, 6.25e9, FALSE },
  /* {0..5} {6,7|8..11} {12..15|16,17}: the worst has 4 + 2 */
  { "tp6_straddles", "dgx-a100-80g", 48, 1, 6, 2, 2, 4, "nvlink3", 300e9, 25e9, FALSE },
  /* {0,3,6|9}: 3 + 1; {2,5|8,11}: 2 + 2; {1,4,7|10}; blocks of 12 */
  { "stride3_size4", "dgx-a100-80g", 24, 3, 4, 2, 1, 3, "nvlink3", 300e9, 25e9, FALSE },
  /* stride 12 skips nodes: one rank in each of 4 */
  { "stride12", "dgx-a100-80g", 48, 12, 4, 4, 1, 1, "none", 0, 25e9, FALSE },
  /* eight two-node groups, one per rail: 4 NICs instead of 8 of the same speed halve the rate */
  { "rails_8_nics", "gcp-a3-mega", 16, 8, 2, 2, 1, 1, "none", 0, 25e9, FALSE },
  { "rails_4_nics", "gcp-a3-high", 16, 8, 2, 2, 1, 1, "none", 0, 12.5e9, FALSE },
  { "part_of_a_node", "hgx-h100", 6, 1, 6, 1, 6, 6, "nvlink4", 450e9, 0, TRUE },
  { "part_of_a_node_dp", "hgx-h100", 6, 2, 3, 1, 3, 3, "nvlink4", 450e9, 0, FALSE },
  /* cube mesh: {0..3} has min cut 4 links (GPU 0 or 1), {4..7} too */
  { "dgx1v_tp4", "dgx-1v-16g", 8, 1, 4, 1, 4, 4, "nvlink2", 100e9, 0, FALSE },
  { "dgx1v_tp8", "dgx-1v-16g", 8, 1, 8, 1, 8, 8, "nvlink2", 150e9, 0, FALSE },
  /* {0,1} {2,3} {4,5} {6,7}: 1, 2, 1, 2 links */
  { "dgx1v_tp2", "dgx-1v-16g", 8, 1, 2, 1, 2, 2, "nvlink2", 25e9, 0, FALSE },
  /* {0,4} {1,5} 2 links, {2,6} {3,7} 1 link */
  { "dgx1v_dp2", "dgx-1v-16g", 8, 4, 2, 1, 2, 2, "nvlink2", 25e9, 0, FALSE },
  /* {0,2,4,6}: 0-2:1 0-4:2 2-6:1 4-6:1; GPU 2 has 2; {1,3,5,7}: 1-3:1 1-5:2 3-7:1 5-7:1: cut 2 */
  { "dgx1v_every_second", "dgx-1v-16g", 8, 2, 4, 1, 4, 4, "nvlink2", 50e9, 0, FALSE },
  /* bridged pair, then both pairs across sockets */
  { "bridge_pair", "a100-pcie-nvlink", 4, 1, 2, 1, 2, 2, "nvlink3", 300e9, 0, FALSE },
  { "bridge_all", "a100-pcie-nvlink", 4, 1, 4, 1, 4, 4, "pcie4-sys", 31e9, 0, FALSE },
  /* {0,2} and {1,3} halve the link between the CPUs */
  { "bridge_across", "a100-pcie-nvlink", 4, 2, 2, 1, 2, 2, "pcie4-sys", 15.5e9, 0, FALSE },
  /* {0,4} and {1,5} share both uplinks */
  { "l40s_far_pairs", "l40s-8x-pcie", 8, 4, 2, 1, 2, 2, "pcie4-sys", 15.5e9, 0, FALSE },
  /* 100 Gb/s over 4 GPUs */
  { "bridge_dp", "a100-pcie-nvlink", 16, 4, 4, 4, 1, 1, "none", 0, 3.125e9, FALSE },
  /* measured: a pair 21 GB/s, four 5 GB/s: the classes must differ */
  { "l40s_pair", "l40s-8x-pcie", 8, 1, 2, 1, 2, 2, "pcie4", 31e9, 0, FALSE },
  { "l40s_four", "l40s-8x-pcie", 8, 1, 4, 1, 4, 4, "pcie4-sys", 31e9, 0, FALSE },
  /* mesh: (n - 1) x 64 */
  { "mi300x_pair", "mi300x-8x", 8, 1, 2, 1, 2, 2, "xgmi", 64e9, 0, FALSE },
  { "mi300x_four", "mi300x-8x", 8, 2, 4, 1, 4, 4, "xgmi", 192e9, 0, FALSE },
  { "mi300x_all", "mi300x-8x", 16, 1, 16, 2, 8, 8, "xgmi", 448e9, 50e9, FALSE },
  /* pipeline neighbours: tp 8 crosses nodes, tp 4 does so for half of the hops */
  { "p2p_node", "hgx-h100", 64, 8, 0, 2, 1, 1, "none", 0, 50e9, FALSE },
  { "p2p_half", "hgx-h100", 64, 4, 0, 2, 1, 1, "nvlink4", 450e9, 50e9, FALSE },
  { "p2p_inside", "hgx-h100", 8, 4, 0, 1, 2, 2, "nvlink4", 450e9, 0, FALSE },
  /* of a p4d node only GPU 7 sends on, alone on its NIC */
  { "p2p_one_sender", "aws-p4d", 16, 1, 0, 2, 1, 1, "nvlink3", 300e9, 12.5e9, FALSE },
  /* first and last stage of 2 ranks on 16 GPUs: GPUs 0 and 1 share a NIC */
  { "embedding_pair", "aws-p4d", 16, 14, 0, 2, 1, 1, "none", 0, 6.25e9, FALSE },
  { "tpu_pod", "tpu-v5p-pod", 512, 1, 512, 1, 512, 512, "ici", 600e9, 0, FALSE },
  { "tpu_two_pods", "tpu-v5p-pod", 17920, 8960, 2, 2, 1, 1, "none", 0, 6.25e9, FALSE },
};

static void
shape_of (const TopoMachine *machine, guint32 world, guint32 stride, guint32 size,
          TopoGroupShape *shape)
{
  if (size == 0)
    topo_pair_shape (machine, world, stride, shape);
  else
    topo_group_shape (machine, world, stride, size, shape);
}

static void
test_shape (void **state)
{
  const ShapeCase *c = *state;
  TopoGroupShape shape;
  g_autoptr (TopoMachine) machine = load_machine (c->machine);
  shape_of (machine, c->world, c->stride, c->size, &shape);
  assert_int_equal (shape.ranks, c->size == 0 ? 2 : c->size);
  assert_int_equal (shape.domains, c->k);
  assert_int_equal (shape.ranks_per_domain, c->g);
  assert_int_equal (shape.ranks_per_domain_max, c->g_max);
  assert_string_equal (topo_link_class_name ((TopoLinkClass)shape.link_class), c->link_class);
  assert_near (shape.intra_bytes_per_s, c->intra_bytes_per_s, 1e-12);
  assert_near (shape.inter_bytes_per_s, c->inter_bytes_per_s, 1e-12);
  assert_int_equal (shape.nvls, c->nvls);
}

/* An HGX H100 whose switch has lost links; @joined is a line of [links]. */
static TopoMachine *
damaged_machine (const char *joined)
{
  GError *error = NULL;
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  g_autofree char *text
      = g_strdup_printf ("[machine]\nname = x\ngpu = h100-sxm-80g\ngpus_per_node = 8\n"
                         "source = test\n[links]\nwiring = switch\nnvls = yes\n%s\n"
                         "[pcie]\ngeneration = 5\ninter_socket = 22GB/s\n"
                         "[numa 0]\ngpus = 0-3\n[numa 1]\ngpus = 4-7\n",
                         joined);
  g_autoptr (BaseIni) ini = base_ini_new_from_data (text, -1, "x.ini", &error);
  assert_no_error (error);
  TopoGpu *gpu = topo_gpu_load (catalog, "h100-sxm-80g", &error);
  assert_no_error (error);
  TopoMachine *machine = topo_machine_new_from_ini (catalog, ini, "x", gpu, &error);
  assert_no_error (error);
  return machine;
}

typedef struct {
  const char *name;
  const char *joined;
  guint32 stride, size;
  const char *link_class;
  double intra_bytes_per_s;
  gboolean crosses_socket, nvls;
} DamagedCase;

static const DamagedCase damaged[] = {
  { "damaged/none", "", 1, 8, "nvlink4", 450e9, FALSE, TRUE },
  /* GPU 2 is off NVLink: whoever groups with it uses PCIe, and the worst group counts */
  { "damaged/all", "joined = 0-1, 3-7", 1, 8, "pcie5-sys", 63e9, TRUE, FALSE },
  { "damaged/pairs", "joined = 0-1, 3-7", 1, 2, "pcie5", 63e9, FALSE, FALSE },
  { "damaged/far_pairs", "joined = 0-1, 3-7", 4, 2, "pcie5-sys", 63e9, TRUE, FALSE },
  { "damaged/two_boards", "joined = 0-3 | 4-7", 1, 4, "nvlink4", 450e9, FALSE, FALSE },
  /* four pairs on the link between the CPUs */
  { "damaged/across_boards", "joined = 0-3 | 4-7", 4, 2, "pcie5-sys", 63e9 / 4, TRUE, FALSE },
  /* 16 of 18 links: 16 x 25 */
  { "damaged/fewer_links", "fewer = 3:16", 1, 8, "nvlink4", 400e9, FALSE, TRUE },
};

static void
test_damaged (void **state)
{
  const DamagedCase *c = *state;
  TopoGroupShape shape;
  g_autoptr (TopoMachine) machine = damaged_machine (c->joined);
  topo_group_shape (machine, 8, c->stride, c->size, &shape);
  assert_string_equal (topo_link_class_name ((TopoLinkClass)shape.link_class), c->link_class);
  assert_near (shape.intra_bytes_per_s, c->intra_bytes_per_s, 1e-12);
  assert_int_equal (shape.crosses_socket, c->crosses_socket);
  assert_int_equal (shape.nvls, c->nvls);
}

/* ---- a plain enumeration, written without the closed forms ---- */

/* Smallest cut of the links among @mask, over all ways to split it in two. */
static guint32
plain_min_cut (const TopoMachine *machine, guint32 mask)
{
  guint32 n = machine->gpus_per_node, fewest = G_MAXUINT32;
  for (guint32 part = (mask - 1) & mask; part != 0; part = (part - 1) & mask) {
    guint32 cut = 0;
    for (guint32 i = 0; i < n; i++)
      for (guint32 j = 0; j < n; j++)
        if ((part >> i & 1) && (mask & ~part) >> j & 1)
          cut += machine->direct_count[i * n + j];
    fewest = MIN (fewest, cut);
  }
  return fewest;
}

static void
test_min_cut (void **state)
{
  static const char *const slugs[]
      = { "dgx-1v-16g", "jeanzay-v100", "a100-pcie-nvlink", "mi300x-8x" };
  for (guint s = 0; s < G_N_ELEMENTS (slugs); s++) {
    g_autoptr (TopoMachine) machine = load_machine (slugs[s]);
    for (guint32 mask = 0; mask < 1u << machine->gpus_per_node; mask++) {
      TopoSubset subset;
      if (__builtin_popcount (mask) < 2)
        continue;
      guint32 cut = plain_min_cut (machine, mask);
      topo_machine_subset (machine, mask, &subset);
      if (cut > 0)
        assert_near (subset.bytes_per_s, cut * machine->direct_link_bytes_per_s, 1e-12);
      else
        assert_true (topo_link_class_is_pcie (subset.link_class));
    }
  }
}

typedef struct {
  guint32 k, g, g_max;
  double intra, inter;
} Plain;

/* One group by counting its members per domain. */
static void
plain_group (const TopoMachine *machine, guint32 d, guint32 base, guint32 stride, guint32 size,
             guint8 *sends, Plain *worst)
{
  guint32 k = 0, g = G_MAXUINT32, g_max = 0;
  for (guint32 i = 0; i < size;) {
    guint32 domain = (base + i * stride) / d, count = 0;
    guint64 mask = 0;
    for (; i < size && (base + i * stride) / d == domain; i++, count++)
      if (d <= 64)
        mask |= 1ull << ((base + i * stride) % d);
    if (count > 1) {
      TopoSubset subset;
      topo_machine_subset (machine, d <= 64 ? mask : 3, &subset);
      worst->intra = MIN (worst->intra, subset.bytes_per_s);
    }
    k++;
    g = MIN (g, count);
    g_max = MAX (g_max, count);
  }
  for (guint32 i = 0; k > 1 && i < size; i++)
    sends[base + i * stride] = 1;
  if (k > worst->k || (k == worst->k && g < worst->g)
      || (k == worst->k && g == worst->g && g_max > worst->g_max)) {
    worst->k = k;
    worst->g = g;
    worst->g_max = g_max;
  }
}

/* A NIC that serves all hangs below NUMA node 0: the far senders share the link between the CPUs. */
static double
plain_far_rate (const TopoMachine *machine, guint32 node, guint32 world, const guint8 *sends)
{
  guint32 far = 0;
  for (guint32 p = 0; p < machine->gpus_per_node && node + p < world; p++)
    far += sends[node + p] && machine->gpu_numa[p] != 0;
  return machine->n_nics == 1 && far > 0 ? machine->inter_socket_bytes_per_s / far : INFINITY;
}

/* Rate of the worst sender of all nodes: each NIC is divided by the senders it serves. */
static double
plain_inter (const TopoMachine *machine, guint32 world, const guint8 *sends)
{
  double worst = INFINITY;
  for (guint32 rank = 0; rank < world; rank++) {
    guint32 node = rank / machine->gpus_per_node * machine->gpus_per_node;
    double rate = 0;
    for (guint32 c = 0; c < machine->n_nics; c++) {
      guint32 sharers = 0;
      if (!(machine->nics[c].gpus >> (rank - node) & 1))
        continue;
      for (guint32 p = 0; p < machine->gpus_per_node && node + p < world; p++)
        sharers += sends[node + p] && (machine->nics[c].gpus >> p & 1);
      rate += sharers == 0 ? 0 : machine->nics[c].bytes_per_s / sharers;
    }
    if (sends[rank])
      worst = MIN (worst, MIN (rate, plain_far_rate (machine, node, world, sends)));
  }
  return isfinite (worst) ? worst : 0;
}

static Plain
plain_shape (const TopoMachine *machine, guint32 world, guint32 stride, guint32 size)
{
  Plain worst = { .intra = INFINITY };
  guint32 d = topo_machine_domain_in_use (machine, world);
  g_autofree guint8 *sends = g_new0 (guint8, world);
  if (size == 0) {
    for (guint32 base = 0; base + stride < world; base++) {
      guint32 before = sends[base + stride];
      plain_group (machine, d, base, stride, 2, sends, &worst);
      sends[base + stride] = (guint8)before; /* only the first of a pair sends */
    }
  } else {
    for (guint32 block = 0; block < world; block += stride * size)
      for (guint32 j = 0; j < stride; j++)
        plain_group (machine, d, block + j, stride, size, sends, &worst);
  }
  worst.inter = worst.k > 1 ? plain_inter (machine, world, sends) : 0;
  if (!isfinite (worst.intra))
    worst.intra = 0;
  return worst;
}

/* Whole nodes, and stride x size dividing the world. */
static guint32
random_case (guint64 index, const TopoMachine *machine, guint32 *stride, guint32 *size)
{
  guint32 node = machine->gpus_per_node;
  guint32 world = node * (1 + (guint32)base_philox_below (7, 1, index, 48));
  guint32 block;
  do {
    block = 1 + (guint32)base_philox_below (7, 2, index++, world);
  } while (world % block != 0);
  do {
    *size = 1 + (guint32)base_philox_below (7, 3, index++, block);
  } while (block % *size != 0);
  *stride = block / *size;
  if (base_philox_below (7, 4, index, 4) == 0 && world > 1) { /* a pair instead */
    *size = 0;
    *stride = 1 + (guint32)base_philox_below (7, 5, index, world - 1);
  }
  return world;
}

/* On PCIe siblings take their part (test_topo_contention.c says how much); else all of it is left. */
static gboolean
is_share_of (const TopoGroupShape *shape, double peak_bytes_per_s)
{
  if (topo_link_class_is_pcie ((TopoLinkClass)shape->link_class))
    return shape->intra_bytes_per_s > 0 && shape->intra_bytes_per_s <= peak_bytes_per_s;
  return fabs (shape->intra_bytes_per_s - peak_bytes_per_s) <= 1;
}

static void
test_against_enumeration (void **state)
{
  static const char *const slugs[]
      = { "hgx-h100",    "aws-p4d",  "dgx-1v-16g",   "a100-pcie-nvlink",
          "gb200-nvl72", "oci-h100", "l40s-8x-pcie", "mi300x-8x" };
  for (guint s = 0; s < G_N_ELEMENTS (slugs); s++) {
    g_autoptr (TopoMachine) machine = load_machine (slugs[s]);
    for (guint i = 0; i < 1500; i++) {
      guint32 stride, size;
      TopoGroupShape shape;
      guint32 world = random_case (((guint64)s * 1500 + i) << 20, machine, &stride, &size);
      if (size == 1)
        continue;
      Plain want = plain_shape (machine, world, stride, size);
      shape_of (machine, world, stride, size, &shape);
      if (shape.domains != want.k || shape.ranks_per_domain != want.g
          || shape.ranks_per_domain_max != want.g_max || !is_share_of (&shape, want.intra)
          || fabs (shape.inter_bytes_per_s - want.inter) > 1) {
        print_error ("%s world %u stride %u size %u: got k %u g %u..%u intra %g inter %g, want %u "
                     "%u..%u %g %g\n",
                     slugs[s], world, stride, size, shape.domains, shape.ranks_per_domain,
                     shape.ranks_per_domain_max, shape.intra_bytes_per_s, shape.inter_bytes_per_s,
                     want.k, want.g, want.g_max, want.intra, want.inter);
        fail ();
      }
    }
  }
}

/* Contiguous groups that grow by a factor never touch fewer domains, nor get a better link. */
static void
test_monotonic (void **state)
{
  static const char *const slugs[]
      = { "hgx-h100", "aws-p4d", "gb200-nvl72", "rtx-pro-6000-8x-pcie" };
  for (guint s = 0; s < G_N_ELEMENTS (slugs); s++) {
    g_autoptr (TopoMachine) machine = load_machine (slugs[s]);
    guint32 world = machine->n_nics == 0 ? machine->gpus_per_node : 576;
    TopoGroupShape small = { 0 }, large;
    for (guint32 size = 1; size <= world; size *= 2) {
      if (world % size != 0)
        break;
      topo_group_shape (machine, world, 1, size, &large);
      assert_true (large.domains >= small.domains);
      assert_true (large.ranks_per_domain_max <= large.ranks);
      assert_true ((guint64)large.domains * large.ranks_per_domain <= large.ranks);
      assert_true ((guint64)large.domains * large.ranks_per_domain_max >= large.ranks);
      assert_true (size < 4 || large.intra_bytes_per_s <= small.intra_bytes_per_s);
      small = large;
    }
  }
}

typedef struct {
  const char *name;
  const char *machine;
  guint32 world, stride, size;
  const char *text;
} BottleneckCase;

static const BottleneckCase bottlenecks[] = {
  { "bottleneck/inside", "hgx-h100", 64, 1, 8, "nvlink4, 450 GB/s per GPU one way" },
  /* 8 NICs of 50 GB/s together are slower than one GPU's 450 GB/s */
  { "bottleneck/tp16", "hgx-h100", 64, 1, 16, "NIC 400 Gb/s ib, 50.0 GB/s per GPU one way" },
  { "bottleneck/shared", "aws-p4d", 32, 8, 4,
    "NIC 100 Gb/s efa1 shared by 2 GPUs, 6.25 GB/s per GPU one way" },
  { "bottleneck/several", "aws-p5", 32, 8, 4,
    "NIC 100 Gb/s efa x 4 per GPU, 50.0 GB/s per GPU one way" },
  /* 72 x 50 GB/s out of the rack exceed 900 GB/s inside */
  { "bottleneck/racks", "gb200-nvl72", 144, 1, 144, "nvlink5, 900 GB/s per GPU one way" },
  { "bottleneck/sockets", "a100-pcie-nvlink", 4, 1, 4,
    "inter-socket CPU0-CPU1, 10.0 GB/s per GPU one way" },
  /* {0,2} and {1,3} halve it */
  { "bottleneck/two_across", "a100-pcie-nvlink", 4, 2, 2,
    "inter-socket CPU0-CPU1, 5.00 GB/s per GPU one way" },
  { "bottleneck/uplink", "l40s-8x-pcie", 8, 4, 2, "pcie4 PLX0-CPU0, 15.5 GB/s per GPU one way" },
  { "bottleneck/far_nic", "a100-pcie-nvlink", 8, 4, 2,
    "NIC 100 Gb/s ib shared by 4 GPUs, 3.12 GB/s per GPU one way" },
  { "bottleneck/none", "hgx-h100", 64, 1, 1, "none" },
  { "bottleneck/unknown", "l40s-8x-pcie", 64, 8, 8, "network, unknown" },
};

static void
test_bottleneck (void **state)
{
  const BottleneckCase *c = *state;
  TopoGroupShape shape;
  g_autoptr (TopoMachine) machine = load_machine (c->machine);
  topo_group_shape (machine, c->world, c->stride, c->size, &shape);
  g_autofree char *text = topo_group_bottleneck (machine, &shape);
  assert_string_equal (text, c->text);
}

int
main (void)
{
  const struct CMUnitTest fixed[] = {
    cmocka_unit_test (test_min_cut),
    cmocka_unit_test (test_against_enumeration),
    cmocka_unit_test (test_monotonic),
  };
  struct CMUnitTest tests[G_N_ELEMENTS (fixed) + G_N_ELEMENTS (shapes) + G_N_ELEMENTS (bottlenecks)
                          + G_N_ELEMENTS (damaged)]
      = { 0 };
  guint n = 0;
  for (guint i = 0; i < G_N_ELEMENTS (fixed); i++)
    tests[n++] = fixed[i];
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    tests[n++] = (struct CMUnitTest){ .name = shapes[i].name,
                                      .test_func = test_shape,
                                      .initial_state = (void *)&shapes[i] };
  for (guint i = 0; i < G_N_ELEMENTS (bottlenecks); i++)
    tests[n++] = (struct CMUnitTest){ .name = bottlenecks[i].name,
                                      .test_func = test_bottleneck,
                                      .initial_state = (void *)&bottlenecks[i] };
  for (guint i = 0; i < G_N_ELEMENTS (damaged); i++)
    tests[n++] = (struct CMUnitTest){ .name = damaged[i].name,
                                      .test_func = test_damaged,
                                      .initial_state = (void *)&damaged[i] };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
