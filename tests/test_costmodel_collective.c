/* Collectives: the formulas by hand, and published bus bandwidths of large messages. */
#include "costmodel/collective.h"
#include "tests/testutil.h"

/* Classes of reference "collective-model" parameters.csv. */
static CostNumbers
numbers_of (TopoLinkClass link_class, double base_s, double hop_s, double bandwidth_ratio)
{
  CostNumbers numbers
      = { .fabric = { .hop_s = 5.249e-6, .bandwidth_ratio = 1.0 },
          .collective = { .fill_ratio = 2, .network_ring_fill_ratio = 2 },
          .step
          = { .collective_delta = 0.87, .alltoall_steps = 1.144, .nvls_latency_s = 15.626e-6 } };
  numbers.links[link_class]
      = (CostLinkNumbers){ .base_s = base_s,
                           .hop_s = hop_s,
                           .bandwidth_ratio = bandwidth_ratio,
                           .alltoall_copy = 0.87,
                           .size_ratio = { { 1, 1, 1, 1 }, { 1, 1, 1, 1 }, { 1, 1, 1, 1 } } };
  return numbers;
}

static CostNumbers
nvlink3 (void)
{
  return numbers_of (TOPO_LINK_CLASS_NVLINK3, 8.783e-6, 0.87e-6, 0.861);
}

static CostNumbers
nvlink4 (void)
{
  CostNumbers numbers = numbers_of (TOPO_LINK_CLASS_NVLINK4, 5.378e-6, 0.711e-6, 0.977);
  numbers.nvls_share = 0.757;
  return numbers;
}

static CostNumbers
nvlink5 (void)
{
  CostNumbers numbers = numbers_of (TOPO_LINK_CLASS_NVLINK5, 7.664e-6, 1.115e-6, 0.908);
  numbers.nvls_share = 0.658;
  return numbers;
}

static TopoGroupShape
node (TopoLinkClass link_class, double bytes_per_s, guint32 ranks)
{
  return (TopoGroupShape){ .ranks = ranks,
                           .domains = 1,
                           .ranks_per_domain = ranks,
                           .ranks_per_domain_max = ranks,
                           .link_class = (guint16)link_class,
                           .nvls = link_class >= TOPO_LINK_CLASS_NVLINK4 && ranks >= 5,
                           .intra_bytes_per_s = bytes_per_s };
}

typedef struct {
  const char *name;
  CostNumbers (*numbers) (void);
  TopoLinkClass link_class;
  double link_bytes_per_s;
  guint32 ranks;
  ModelCollectiveKind kind;
  double bytes;
  const char *algorithm;    /* that has to be taken */
  double busbw_bytes_per_s; /* reference link-and-gpu-facts §1 (nccl-tests, large messages) */
} BusCase;

#define GIB (1024.0 * 1024 * 1024)

static const BusCase bus_cases[] = {
  { "busbw/h100_all_reduce_nvls", nvlink4, TOPO_LINK_CLASS_NVLINK4, 450e9, 8,
    MODEL_COLLECTIVE_ALL_REDUCE, 8 * GIB, "nvls", 475e9 },
  { "busbw/h100_all_gather_ring", nvlink4, TOPO_LINK_CLASS_NVLINK4, 450e9, 8,
    MODEL_COLLECTIVE_ALL_GATHER, 8 * GIB, "ring", 360e9 },
  { "busbw/h100_reduce_scatter_ring", nvlink4, TOPO_LINK_CLASS_NVLINK4, 450e9, 8,
    MODEL_COLLECTIVE_REDUCE_SCATTER, 8 * GIB, "ring", 363e9 },
  { "busbw/a100_all_reduce", nvlink3, TOPO_LINK_CLASS_NVLINK3, 300e9, 8,
    MODEL_COLLECTIVE_ALL_REDUCE, 8 * GIB, "ring", 235e9 },
  { "busbw/a100_all_gather", nvlink3, TOPO_LINK_CLASS_NVLINK3, 300e9, 8,
    MODEL_COLLECTIVE_ALL_GATHER, 8 * GIB, "ring", 223e9 },
  { "busbw/a100_alltoall", nvlink3, TOPO_LINK_CLASS_NVLINK3, 300e9, 8, MODEL_COLLECTIVE_ALL_TO_ALL,
    8 * GIB, "direct", 224e9 },
  { "busbw/b200_all_reduce_nvls", nvlink5, TOPO_LINK_CLASS_NVLINK5, 900e9, 8,
    MODEL_COLLECTIVE_ALL_REDUCE, 8 * GIB, "nvls", 842e9 },
  { "busbw/b200_all_gather_ring", nvlink5, TOPO_LINK_CLASS_NVLINK5, 900e9, 8,
    MODEL_COLLECTIVE_ALL_GATHER, 8 * GIB, "ring", 677e9 },
};

static void
test_bus_bandwidth (void **state)
{
  const BusCase *c = *state;
  CostNumbers numbers = c->numbers ();
  TopoGroupShape shape = node (c->link_class, c->link_bytes_per_s, c->ranks);
  CostGroup group;
  cost_group_init (&group, &numbers, &shape);
  double time_s = cost_collective_s (&group, c->kind, c->bytes);
  double busbw = c->bytes / time_s * cost_collective_bus_factor (c->kind, c->ranks);
  assert_near (busbw, c->busbw_bytes_per_s, 0.10);
  const CostWay *way = cost_collective_way (&group, c->kind, c->bytes, NULL, NULL);
  assert_string_equal (way->algorithm, c->algorithm);
  assert_near (cost_way_s (way, c->bytes), time_s, 0);
}

/* 8 A100, all_reduce of 1 MiB = 1048576 B, B = .861 x 300e9 = 258.3e9.
 * L = 2 x 7 x .87 us = 12.18 us; T = 1048576 (14 + .87)/8 / 258.3e9 = 7.5456 us
 * t = 8.783 + (sqrt 12.18 + sqrt 7.5456)^2 = 8.783 + 12.18 + 7.5456 + 2 x 9.58676 = 47.682 us */
static void
test_ring_by_hand (void **state)
{
  CostNumbers numbers = nvlink3 ();
  TopoGroupShape shape = node (TOPO_LINK_CLASS_NVLINK3, 300e9, 8);
  CostGroup group;
  cost_group_init (&group, &numbers, &shape);
  assert_near (cost_collective_s (&group, MODEL_COLLECTIVE_ALL_REDUCE, 1 << 20), 47.682e-6, 1e-4);
  /* 0 bytes: base + L */
  assert_near (cost_collective_s (&group, MODEL_COLLECTIVE_ALL_REDUCE, 0), 20.963e-6, 1e-9);
  /* ring exchange: 7 rounds of (8.783 base + .87 hop), 1e6 B at 258.3e9: T = 3.8715 us, L = 6.09
   * t = 61.481 + 6.09 + 3.8715 + 2 sqrt (23.577) = 81.1537 us */
  assert_near (cost_collective_s (&group, MODEL_COLLECTIVE_SEND_RECV, 1e6), 81.1537e-6, 1e-5);
}

/* A link whose all-reduce takes 4 times the formula at 512 KiB, and as long at 16 KiB and 16 MiB. Half
 * way in logarithms, at 92682 and 2965821 bytes, it takes twice as long. */
static void
test_size_ratio (void **state)
{
  static const struct {
    double bytes, ratio;
  } points[] = { { 1024, 1 },    { 16384, 1 },    { 92681.9, 2 }, { 524288, 4 },
                 { 2965821, 2 }, { 16777216, 1 }, { GIB, 1 } };
  CostNumbers numbers = nvlink3 ();
  TopoGroupShape shape = node (TOPO_LINK_CLASS_NVLINK3, 300e9, 8);
  CostGroup plain, group;
  cost_group_init (&plain, &numbers, &shape);
  numbers.links[TOPO_LINK_CLASS_NVLINK3].size_ratio[0][1] = 4;
  cost_group_init (&group, &numbers, &shape);
  for (guint i = 0; i < G_N_ELEMENTS (points); i++) {
    double bytes = points[i].bytes;
    assert_near (cost_collective_s (&group, MODEL_COLLECTIVE_ALL_REDUCE, bytes),
                 points[i].ratio * cost_collective_s (&plain, MODEL_COLLECTIVE_ALL_REDUCE, bytes),
                 1e-5);
    assert_near (cost_collective_s (&group, MODEL_COLLECTIVE_ALL_GATHER, bytes),
                 cost_collective_s (&plain, MODEL_COLLECTIVE_ALL_GATHER, bytes), 1e-12);
  }
  (void)state;
}

/* 16 nodes of 8 H100, NIC 50e9 per GPU, eta 1, hop 5.249 us: all-reduce of 1 GiB.
 * ring inside: L = 14 x .711 + 2 x 4 x 5.249 = 51.946 us
 * W/B = P (2 x 127 + .87)/128 / 439.65e9 = 4.8629 ms; WN/N = P 2 x 15/(16 x 8) / 50e9 = 5.0332 ms
 * tree: 5.378 + 51.946 + 5033.2 + 2 sqrt (51.946 x 5033.2) = 6113.1 us
 * nvls: L = 15.626 + 41.992 = 57.618; T = max (P 1.125/(.757 x 439.65e9) = 3.6295 ms, 5.0332 ms)
 *   5.378 + 57.618 + 5033.2 + 2 sqrt (57.618 x 5033.2) = 6173.2 us: tree wins by a hair.
 * all-gather: L = (128-16) x .711 + 15 x 5.249 = 158.367 us, W/B = P 127.87/128/439.65e9
 *   = 2.4398 ms; WN/N = P 127/(128 x 8)/50e9 = 2.6634 ms
 *   5.378 + 158.367 + 2663.4 + 2 sqrt (158.367 x 2663.4) = 4126.0 us */
static void
test_nodes_by_hand (void **state)
{
  CostNumbers numbers = nvlink4 ();
  TopoGroupShape shape = node (TOPO_LINK_CLASS_NVLINK4, 450e9, 128);
  shape.domains = 16;
  shape.ranks_per_domain = shape.ranks_per_domain_max = 8;
  shape.inter_bytes_per_s = 50e9;
  shape.fabric = TOPO_FABRIC_IB;
  CostGroup group;
  cost_group_init (&group, &numbers, &shape);
  assert_near (cost_collective_s (&group, MODEL_COLLECTIVE_ALL_REDUCE, GIB), 6113.1e-6, 1e-3);
  assert_near (cost_collective_s (&group, MODEL_COLLECTIVE_ALL_GATHER, GIB), 4126.0e-6, 1e-3);
  const CostWay *nvls
      = cost_collective_way (&group, MODEL_COLLECTIVE_ALL_REDUCE, GIB, "nvlstree", NULL);
  assert_non_null (nvls);
  assert_near (cost_way_s (nvls, GIB), 6173.2e-6, 1e-3);
  assert_null (cost_collective_way (&group, MODEL_COLLECTIVE_ALL_GATHER, GIB, "nvlstree", NULL));
}

/* One rank per node: nothing goes over NVLink, neither do its steps. 2 ranks, 400 Gb/s, 50 MB:
 * tree: SN = 2 log2 2 = 2, WN = 2 (2-1)/(2 x 1) = 1: L = 10.498, T = 1000 us
 * 5.378 + 10.498 + 1000 + 2 sqrt (10498) = 1220.80 us */
static void
test_one_rank_per_node (void **state)
{
  CostNumbers numbers = nvlink4 ();
  numbers.links[TOPO_LINK_CLASS_NONE].base_s = 5.378e-6;
  TopoGroupShape shape = { .ranks = 2,
                           .domains = 2,
                           .ranks_per_domain = 1,
                           .ranks_per_domain_max = 1,
                           .inter_bytes_per_s = 50e9,
                           .fabric = TOPO_FABRIC_IB };
  CostGroup group;
  cost_group_init (&group, &numbers, &shape);
  assert_near (cost_collective_s (&group, MODEL_COLLECTIVE_ALL_REDUCE, 50e6), 1220.80e-6, 1e-4);
  /* a pipeline message: base + (sqrt 5.249 + sqrt 1000)^2 us = 5.378 + 1005.249 + 144.90 */
  assert_near (cost_p2p_s (&numbers, &shape, 50e6), 1155.53e-6, 1e-4);
}

static void
test_edges (void **state)
{
  CostNumbers numbers = nvlink4 ();
  TopoGroupShape shape = node (TOPO_LINK_CLASS_NVLINK4, 450e9, 1);
  CostGroup group;
  cost_group_init (&group, &numbers, &shape);
  for (guint kind = 0; kind < MODEL_COLLECTIVE_N_KINDS; kind++) {
    assert_true (cost_collective_s (&group, kind, 1e9) == 0);
    assert_null (cost_collective_way (&group, kind, 1e9, NULL, NULL));
  }
  assert_true (cost_p2p_s (&numbers, &shape, 1e9) == 0);
  /* every kind has a price on a real group, and an unknown network costs infinity, never NaN */
  shape = node (TOPO_LINK_CLASS_NVLINK4, 450e9, 16);
  shape.domains = 2;
  shape.ranks_per_domain = 8;
  cost_group_init (&group, &numbers, &shape);
  for (guint kind = 0; kind < MODEL_COLLECTIVE_N_KINDS; kind++)
    assert_true (isinf (cost_collective_s (&group, kind, 1e6)));
  shape.inter_bytes_per_s = 50e9;
  cost_group_init (&group, &numbers, &shape);
  for (guint kind = 0; kind < MODEL_COLLECTIVE_N_KINDS; kind++) {
    assert_true (isfinite (cost_collective_s (&group, kind, 1e6)));
    assert_true (cost_collective_s (&group, kind, 2e6) > cost_collective_s (&group, kind, 1e6));
  }
}

/* PCIe: no local step. Two L40S, pcie4, all_gather 1 GiB: B = .696 x 31e9 = 21.576e9,
 * L = .839 us, T = GiB x 1/2 / 21.576e9 = 24882.7 us: 4.895 + .839 + 24882.7 + 2 sqrt (20876.6) */
static void
test_pcie_has_no_local_step (void **state)
{
  CostNumbers numbers = numbers_of (TOPO_LINK_CLASS_PCIE4, 4.895e-6, 0.839e-6, 0.696);
  TopoGroupShape shape = node (TOPO_LINK_CLASS_PCIE4, 31e9, 2);
  shape.nvls = FALSE;
  CostGroup group;
  cost_group_init (&group, &numbers, &shape);
  assert_near (cost_collective_s (&group, MODEL_COLLECTIVE_ALL_GATHER, GIB), 25177.4e-6, 1e-4);
}

/* 4 GPUs of NVLink 5, two protocols: base 7.5, hop 1.2, bulk base 3.7 us, bulk hop x 2, B = .9 x
 * 900e9 = 810e9, low latency .65 of it, c = 1, no local step.
 * all-gather of 4 MiB, shards of 1 MiB below the 2 MiB of the switch:
 *   L = 3 x 1.2 = 3.6 us, T = 4194304 x 3/4 / (.65 x 810e9) = 5.97480 us
 *   7.5 + 3.6 + 5.97480 + sqrt (21.50928) = 4.63781: 21.71261 us
 * of 8 MiB, shards of 2 MiB, in bulk:
 *   L = 7.2 us, T = 8388608 x 3/4 / 810e9 = 7.76723 us
 *   11.2 + 7.2 + 7.76723 + sqrt (55.92406) = 7.47824: 33.64547 us
 * 8 MiB in low latency: T = 11.94959, 7.5 + 3.6 + 11.94959 + sqrt (43.01852) = 6.55885: 29.60844 */
static void
test_protocols_by_hand (void **state)
{
  CostNumbers numbers = numbers_of (TOPO_LINK_CLASS_NVLINK5, 7.5e-6, 1.2e-6, 0.9);
  numbers.step.collective_delta = 0;
  numbers.links[TOPO_LINK_CLASS_NVLINK5].bulk_shard_bytes = 2097152;
  numbers.collective = (CostCollectiveNumbers){ .bulk_base_s = 3.7e-6,
                                                .bulk_hop_ratio = 2,
                                                .low_bandwidth_ratio = 0.65,
                                                .low_alltoall_ratio = 0.5,
                                                .alltoall_low_bytes = 16384,
                                                .alltoall_bandwidth_ratio = 1,
                                                .low_fill_ratio = 1,
                                                .bulk_fill_ratio = 1,
                                                .fill_ratio = 2 };
  TopoGroupShape shape = node (TOPO_LINK_CLASS_NVLINK5, 900e9, 4);
  CostGroup group;
  cost_group_init (&group, &numbers, &shape);
  const ModelCollectiveKind kind = MODEL_COLLECTIVE_ALL_GATHER;
  assert_near (cost_collective_s (&group, kind, 4194304), 21.71261e-6, 1e-6);
  assert_near (cost_collective_s (&group, kind, 8388608), 33.64547e-6, 1e-6);
  assert_string_equal (cost_collective_way (&group, kind, 4194304, NULL, NULL)->protocol, "ll");
  assert_string_equal (cost_collective_way (&group, kind, 8388608, NULL, NULL)->protocol, "simple");
  const CostWay *forced = cost_collective_way (&group, kind, 8388608, "ring", "ll128");
  assert_near (cost_way_s (forced, 8388608), 29.60844e-6, 1e-6);
  assert_null (cost_collective_way (&group, kind, 8388608, "tree", NULL));
  /* all-to-all: 16 KiB to each of 4 peers is the last of LL */
  const ModelCollectiveKind all = MODEL_COLLECTIVE_ALL_TO_ALL;
  assert_string_equal (cost_collective_way (&group, all, 65536, NULL, NULL)->protocol, "ll");
  assert_string_equal (cost_collective_way (&group, all, 65537, NULL, NULL)->protocol, "simple");
}

/* The root of a broadcast waits for no step while 8 KiB or less are on the way.
 * 2 nodes of 8, base 5.378, beyond L = 7 x .711 + .5 x 5.249 = 7.6015 us; T = bytes/8/50e9 or
 * bytes/439.65e9, the slower: 8192: .02048 us, 5.378 + .02048 = 5.39848
 * 8193: 5.378 + 7.6015 + .0204825 + 2 sqrt (.155698) = 13.78915 us
 * One node: 8192/439.65e9 = .0186330: 5.378 + .0186330 = 5.39663 us */
static void
test_broadcast_is_eager (void **state)
{
  CostNumbers numbers = nvlink4 ();
  numbers.collective.broadcast_hops = 0.5;
  numbers.collective.broadcast_eager_bytes = 8192;
  TopoGroupShape shape = node (TOPO_LINK_CLASS_NVLINK4, 450e9, 16);
  shape.domains = 2;
  shape.ranks_per_domain = shape.ranks_per_domain_max = 8;
  shape.inter_bytes_per_s = 50e9;
  CostGroup group;
  cost_group_init (&group, &numbers, &shape);
  assert_near (cost_collective_s (&group, MODEL_COLLECTIVE_BROADCAST, 8192), 5.39848e-6, 1e-5);
  assert_near (cost_collective_s (&group, MODEL_COLLECTIVE_BROADCAST, 8193), 13.78915e-6, 1e-5);
  shape = node (TOPO_LINK_CLASS_NVLINK4, 450e9, 8);
  cost_group_init (&group, &numbers, &shape);
  assert_near (cost_collective_s (&group, MODEL_COLLECTIVE_BROADCAST, 8192), 5.39663e-6, 1e-5);
}

/*
 * Steps that carry data take longer: half of the rise at a shard of 4 KiB. All-gather of 32 KiB on 8
 * H100 in low latency, rise .2, no fill, all of the bandwidth: L = 7 x .711 = 4.977,
 * T = 32768 (7 + .87)/8 / 439.65e9 = .0733204, rise .2 (5.378 + 4.977)/2 = 1.0355:
 * 5.378 + 4.977 + .0733204 + 1.0355 = 11.46382 us. Over two nodes, ring: L = 14 x .711 + 5.249 =
 * 15.203, T = 32768 x 15/16/8 / 50e9 = .0768, or 32768 (15 + .87)/16 / 439.65e9 = .0739258; shard
 * 2 KiB of a rise of .5 at 4 KiB: .5 (5.378 + 15.203)/3 = 3.430167: 24.08797 us
 */
static void
test_rise_by_hand (void **state)
{
  CostNumbers numbers = nvlink4 ();
  CostGroup group;
  numbers.links[TOPO_LINK_CLASS_NVLINK4].bulk_shard_bytes = 1048576;
  numbers.collective = (CostCollectiveNumbers){ .bulk_hop_ratio = 1,
                                                .low_bandwidth_ratio = 1,
                                                .low_alltoall_ratio = 1,
                                                .alltoall_bandwidth_ratio = 1,
                                                .low_rise_ratio = 0.2,
                                                .low_rise_bytes = 4096,
                                                .network_rise_ratio = 0.5,
                                                .network_rise_bytes = 4096 };
  TopoGroupShape shape = node (TOPO_LINK_CLASS_NVLINK4, 450e9, 8);
  cost_group_init (&group, &numbers, &shape);
  assert_near (cost_collective_s (&group, MODEL_COLLECTIVE_ALL_GATHER, 32768), 11.46382e-6, 1e-6);
  shape.ranks = 16;
  shape.domains = 2;
  shape.inter_bytes_per_s = 50e9;
  cost_group_init (&group, &numbers, &shape);
  assert_near (cost_collective_s (&group, MODEL_COLLECTIVE_ALL_GATHER, 32768), 24.08797e-6, 1e-6);
}

/*
 * All-to-all of 1 GiB on 8 GPUs of PCIe 5 below two switches: base 3.839, hop 1.327 us, B = .4 x 63 =
 * 25.2 GB/s; the uplinks fill up at 27.5625 GB/s a GPU, of which .8 are reached: 22.05.
 *   L = 1.144 x 4 x 1.327 = 6.07235 us; T = GiB x 7/8 / 22.05e9 = 42608.8 us
 *   3.839 + L + T + 2 sqrt (L T) = 1017.32: 43636.0 us
 * by rings' numbers alone T = GiB x 7/8 / 25.2e9 = 37282.7, sqrt 951.62: 38244.2
 * Two nodes of four, shared link 10 GB/s: inside GiB x 3/8 / 8e9 = 50331.6 us is more than
 * GiB x 7/8 / 25.2e9; L = 1.144 x 3 x 1.327 + 5.249 = 9.80326; sqrt 1404.87: 51750.1 us
 */
static void
test_alltoall_shares_uplinks (void **state)
{
  CostNumbers numbers = numbers_of (TOPO_LINK_CLASS_PCIE5, 3.839e-6, 1.327e-6, 0.4);
  numbers.collective.alltoall_uplink_ratio = 0.8;
  TopoGroupShape shape = node (TOPO_LINK_CLASS_PCIE5, 63e9, 8);
  CostGroup group;
  shape.alltoall_bytes_per_s = 27.5625e9;
  cost_group_init (&group, &numbers, &shape);
  assert_near (cost_collective_s (&group, MODEL_COLLECTIVE_ALL_TO_ALL, GIB), 43636.0e-6, 1e-5);
  double gather_s = cost_collective_s (&group, MODEL_COLLECTIVE_ALL_GATHER, GIB);
  shape.alltoall_bytes_per_s = 0;
  cost_group_init (&group, &numbers, &shape);
  assert_near (cost_collective_s (&group, MODEL_COLLECTIVE_ALL_TO_ALL, GIB), 38244.2e-6, 1e-5);
  assert_near (cost_collective_s (&group, MODEL_COLLECTIVE_ALL_GATHER, GIB), gather_s, 1e-12);
  /* a calibration that does not know the number counts nothing of it */
  shape.alltoall_bytes_per_s = 27.5625e9;
  numbers.collective.alltoall_uplink_ratio = 0;
  cost_group_init (&group, &numbers, &shape);
  assert_near (cost_collective_s (&group, MODEL_COLLECTIVE_ALL_TO_ALL, GIB), 38244.2e-6, 1e-5);
  numbers.collective.alltoall_uplink_ratio = 0.8;
  shape.domains = 2;
  shape.ranks_per_domain = shape.ranks_per_domain_max = 4;
  shape.inter_bytes_per_s = 50e9;
  shape.alltoall_bytes_per_s = 10e9;
  cost_group_init (&group, &numbers, &shape);
  assert_near (cost_collective_s (&group, MODEL_COLLECTIVE_ALL_TO_ALL, GIB), 51750.1e-6, 1e-5);
}

/* NCCL 2.8: 2.5 times the fill, and a ring's bytes over the network. 2 nodes of 8, all-reduce of
 * 1 GiB: tree WN = 2 x 15/16/8: T = GiB x .234375/50e9 = 5033.16 us; W/B = GiB x (30 + .87)/16 /
 * 439.65e9 = 4712.03; L = 14 x .711 + 2 x 5.249 = 20.452; c = 5
 * 5.378 + 20.452 + 5033.16 + 5 sqrt (20.452 x 5033.16) = 1604.19: 6663.18 us */
static void
test_old_nccl (void **state)
{
  CostNumbers numbers = nvlink4 ();
  numbers.nvls_share = 0;
  numbers.collective.old_fill_ratio = 2.5;
  cost_numbers_old_nccl (&numbers);
  cost_numbers_old_nccl (&numbers); /* once is enough */
  TopoGroupShape shape = node (TOPO_LINK_CLASS_NVLINK4, 450e9, 16);
  shape.domains = 2;
  shape.ranks_per_domain = shape.ranks_per_domain_max = 8;
  shape.inter_bytes_per_s = 50e9;
  CostGroup group;
  cost_group_init (&group, &numbers, &shape);
  assert_near (cost_collective_s (&group, MODEL_COLLECTIVE_ALL_REDUCE, GIB), 6663.18e-6, 1e-5);
}

/*
 * PAT, all-gather of 32 MiB over 4 nodes of one GPU, hop 5.249 us, NIC 50 GB/s:
 *   L = .286 x 5.249 us x 2 + 2.8 us x 4 = 14.202 us; T = 33554432 x 3/4 / .75 / 50e9 = 671.089 us
 *   t = L + T (no base: link class none has none here)
 * SHARP, all-reduce of 1 GiB over 2 nodes of 8 with NVLS .757, B = .977 x 450e9:
 *   L = 2 x .711 us + 31 us; T = max (1073741824 x 1.125 / .757 / 439.65e9 = 3629.49 us,
 *   1073741824 / 8 / 50e9 = 2684.35 us); t = 5.378 us + L + T = 3667.29 us
 * over 2 nodes of 4, whose switches add nothing up, NIC 100 GB/s: a ring's halves inside,
 *   T = 1073741824 x (6 + .87)/4 / 439.65e9 = 4194.59 us: 4232.39 us
 */
static void
test_forced_by_hand (void **state)
{
  CostNumbers numbers = nvlink4 ();
  CostWay way;
  TopoGroupShape lone = { .ranks = 4,
                          .domains = 4,
                          .ranks_per_domain = 1,
                          .ranks_per_domain_max = 1,
                          .inter_bytes_per_s = 50e9 };
  TopoGroupShape nodes = node (TOPO_LINK_CLASS_NVLINK4, 450e9, 16);
  nodes.domains = 2;
  nodes.ranks_per_domain = nodes.ranks_per_domain_max = 8;
  nodes.inter_bytes_per_s = 50e9;
  numbers.collective.pat_hop_ratio = 0.286;
  numbers.collective.pat_rank_s = 2.8e-6;
  numbers.collective.pat_bandwidth_ratio = 0.75;
  numbers.collective.sharp_latency_s = 31e-6;
  assert_true (cost_way_init_forced (&way, &numbers, &lone, MODEL_COLLECTIVE_ALL_GATHER, "pat"));
  assert_near (cost_way_s (&way, 33554432), 685.291e-6, 1e-5);
  assert_true (cost_way_init_forced (&way, &numbers, &nodes, MODEL_COLLECTIVE_ALL_REDUCE, "sharp"));
  assert_near (cost_way_s (&way, 1073741824), 3667.29e-6, 1e-5);
  TopoGroupShape few = node (TOPO_LINK_CLASS_NVLINK4, 450e9, 4);
  few.ranks = 8;
  few.domains = 2;
  few.inter_bytes_per_s = 100e9;
  assert_true (cost_way_init_forced (&way, &numbers, &few, MODEL_COLLECTIVE_ALL_REDUCE, "sharp"));
  assert_near (cost_way_s (&way, 1073741824), 4232.39e-6, 1e-5);
  /* PAT is for one rank per node, and not for all-reduce; SHARP for all-reduce over nodes */
  assert_false (cost_way_init_forced (&way, &numbers, &nodes, MODEL_COLLECTIVE_ALL_GATHER, "pat"));
  assert_false (cost_way_init_forced (&way, &numbers, &lone, MODEL_COLLECTIVE_ALL_REDUCE, "pat"));
  assert_false (
      cost_way_init_forced (&way, &numbers, &nodes, MODEL_COLLECTIVE_ALL_GATHER, "sharp"));
  assert_false (cost_way_init_forced (&way, &numbers, &nodes, MODEL_COLLECTIVE_ALL_REDUCE, "ring"));
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (bus_cases) + 12];
  guint n = 0;
  for (gsize i = 0; i < G_N_ELEMENTS (bus_cases); i++)
    tests[n++] = (struct CMUnitTest){ .name = bus_cases[i].name,
                                      .test_func = test_bus_bandwidth,
                                      .initial_state = (void *)&bus_cases[i] };
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_ring_by_hand);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_forced_by_hand);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_size_ratio);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_nodes_by_hand);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_one_rank_per_node);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_edges);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_pcie_has_no_local_step);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_protocols_by_hand);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_broadcast_is_eager);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_rise_by_hand);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_alltoall_shares_uplinks);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_old_nccl);
  return _cmocka_run_group_tests ("costmodel_collective", tests, n, NULL, NULL);
}
