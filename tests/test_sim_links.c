/* tests/test_sim_links.c - which traffic meets on which links, and how it is shared. */
#include "sim/links.h"
#include "tests/costmodel_setting.h"

static SimOp
message_op (guint traffic, double bytes_per_s)
{
  return (SimOp){ .duration_s = 1,
                  .traffic = (guint8)traffic,
                  .link_bytes_per_s = bytes_per_s,
                  .network_bytes_per_s = bytes_per_s };
}

static SimOp
ring_op (guint traffic, double link, double network)
{
  return (SimOp){ .duration_s = 1,
                  .traffic = (guint8)traffic,
                  .link_bytes_per_s = link,
                  .network_bytes_per_s = network };
}

typedef struct {
  Setting s;
  ModelLayout layout;
  SimCase c;
  SimLinks *links;
} Fixture;

static void
fixture_init (Fixture *f, const char *machine, guint32 gpus, const char *layout, gboolean full)
{
  g_autoptr (GError) error = NULL;
  setting_init (&f->s, "llama-3.1-8b", machine, "megatron", gpus, 2048, 64);
  setting_layout (&f->s, layout, &f->layout);
  assert_true (sim_case_init (&f->c, &f->s.problem, &f->layout, &error));
  f->links = sim_links_new (&f->c, full);
}

static void
fixture_clear (Fixture *f)
{
  sim_links_free (f->links);
  sim_case_clear (&f->c);
  model_layout_clear (&f->layout);
  setting_clear (&f->s);
}

/* Weight of @op of @owner on @link; 0: not on it. */
static double
weight_on (const Fixture *f, guint32 owner, const SimOp *op, guint32 link, gboolean network)
{
  guint n;
  const SimLoad *loads = sim_links_loads (f->links, owner, op, &n);
  for (guint i = 0; i < n; i++)
    if (loads[i].link == link)
      return network ? loads[i].network_weight : loads[i].link_weight;
  return 0;
}

/*
 * tp=8 fills a node of hgx-h100, with a NIC of 400 Gb/s for each GPU. Gradients (every GPU sends
 * and receives over its NIC) and messages back from stage 1 meet on the NICs of its nodes, on the
 * way out; on those of stage 0 on the way in. One unit each: a GPU has a NIC of its own.
 */
static void
test_nics (void **state)
{
  Fixture f = { 0 };
  SimOp gradients = ring_op (MODEL_GROUP_HSDP_SHARD, 0, 25e9);
  SimOp back = message_op (SIM_TRAFFIC_BACK, 30e9);
  (void)state;
  fixture_init (&f, "hgx-h100", 32, "tp=8,pp=2,sp=1,zero=1", FALSE);
  for (guint32 stage = 0; stage < 2; stage++) {
    sim_links_note (f.links, stage, &gradients);
    sim_links_note (f.links, stage, &back);
  }
  sim_links_build (f.links);
  double nic = 50e9 * fmin (f.s.numbers.fabric.bandwidth_ratio, 1);
  guint out = 0, in = 0;
  for (guint32 link = 0; link < sim_links_count (f.links); link++) {
    /* back from stage 1 goes out of stage 1 and into stage 0; with two stages stage 0 sends to
     * "the one before", too: 1 */
    double from_1 = weight_on (&f, 1, &back, link, TRUE);
    double g0 = weight_on (&f, 0, &gradients, link, TRUE),
           g1 = weight_on (&f, 1, &gradients, link, TRUE);
    assert_near (sim_links_capacity (f.links, link), nic, 1e-9);
    assert_non_null (strstr (sim_links_name (f.links, link), "nic"));
    assert_near (g0 + g1, 1, 1e-6);
    out += from_1 == 1 && g1 == 1;
    in += from_1 == 1 && g0 == 1;
  }
  assert_true (out >= 1 && in >= 1);
  fixture_clear (&f);
}

/* 20 GB/s and 20 GB/s go through a NIC of 50: they never meet, so nothing is kept. */
static void
test_room_for_all (void **state)
{
  Fixture f = { 0 };
  SimOp gradients = ring_op (MODEL_GROUP_HSDP_SHARD, 0, 20e9);
  SimOp back = message_op (SIM_TRAFFIC_BACK, 20e9);
  (void)state;
  fixture_init (&f, "hgx-h100", 32, "tp=8,pp=2,sp=1,zero=1", FALSE);
  for (guint32 stage = 0; stage < 2; stage++) {
    sim_links_note (f.links, stage, &gradients);
    sim_links_note (f.links, stage, &back);
  }
  sim_links_build (f.links);
  assert_int_equal (sim_links_count (f.links), 0);
  fixture_clear (&f);
}

/* tp=4 and dp=2 in one node: both over every GPU's NVLink to the switch; one unit each. */
static void
test_nvlink (void **state)
{
  Fixture f = { 0 };
  SimOp tp = ring_op (MODEL_GROUP_TP, 300e9, 0), dp = ring_op (MODEL_GROUP_HSDP_SHARD, 300e9, 0);
  (void)state;
  fixture_init (&f, "hgx-h100", 8, "tp=4,pp=1,sp=1,zero=1", FALSE);
  sim_links_note (f.links, 0, &tp);
  sim_links_note (f.links, 0, &dp);
  sim_links_build (f.links);
  assert_int_equal (sim_links_count (f.links), 1); /* 16 directions, all alike */
  assert_non_null (strstr (sim_links_name (f.links, 0), "nvlink4"));
  assert_near (weight_on (&f, 0, &tp, 0, FALSE), 1, 1e-6);
  assert_near (weight_on (&f, 0, &dp, 0, FALSE), 1, 1e-6);
  assert_near (sim_links_capacity (f.links, 0),
               450e9 * fmin (f.s.numbers.links[TOPO_LINK_CLASS_NVLINK4].bandwidth_ratio, 1), 1e-9);
  fixture_clear (&f);
}

/* Where every rank is its own owner, two tp groups of a node do not meet each other. */
static void
test_full (void **state)
{
  Fixture f = { 0 };
  SimOp tp = ring_op (MODEL_GROUP_TP, 300e9, 0), dp = ring_op (MODEL_GROUP_HSDP_SHARD, 300e9, 0);
  guint n;
  (void)state;
  fixture_init (&f, "hgx-h100", 8, "tp=4,pp=1,sp=1,zero=1", TRUE);
  sim_links_note (f.links, 0, &tp);
  sim_links_note (f.links, 0, &dp);
  sim_links_build (f.links);
  /* group {0..3} with {0,4} {1,5} {2,6} {3,7}, and {4..7} with them: 8 pairs of groups */
  assert_int_equal (sim_links_count (f.links), 8);
  sim_links_loads (f.links, 0, &tp, &n);
  assert_int_equal (n, 4);
  sim_links_loads (f.links, 0, &dp, &n);
  assert_int_equal (n, 2);
  fixture_clear (&f);
}

/* What the node's links are not known for is not shared. */
static void
test_unknown (void **state)
{
  Fixture f = { 0 };
  SimOp tp = ring_op (MODEL_GROUP_TP, 1e12, 0);
  guint n = 7;
  (void)state;
  fixture_init (&f, "hgx-h100", 8, "tp=8,sp=1", FALSE);
  sim_links_note (f.links, 0, &tp);
  sim_links_build (f.links);
  sim_links_loads (f.links, 0, &tp, &n);
  assert_int_equal (n, 0); /* alone on its links: what it takes is in its time */
  fixture_clear (&f);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_nics),    cmocka_unit_test (test_room_for_all),
    cmocka_unit_test (test_nvlink),  cmocka_unit_test (test_full),
    cmocka_unit_test (test_unknown),
  };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
