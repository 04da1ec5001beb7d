/* topo/maxmin.c against SimGrid's own solver: network model CM02 without TCP window or cross
 * traffic, so that flows share links max-min fairly and nothing else.
 *
 * Every flow sends as many bytes as our rates carry in 1000 s, all from time 0. If all arrive
 * at 1000 s, no rate changed on the way, and each of SimGrid's rates is ours. All cases run in one
 * simulation, each in a zone of its own.
 */
#include "tests/maxmin_util.h"
#include "tests/topo_util.h"
#include <glib/gstdio.h>
#include <simgrid/actor.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>

#define N_RANDOM   300
#define DURATION_S 1000.0

/* One simulated flow; the name of its mailbox and hosts is derived from both numbers. */
typedef struct {
  guint32 id, flow;
  double bytes;
  double arrived_s;
} Flow;

static GArray *flows; /* of Flow */

/* Hand-worked, as classes over links of these capacities: what SimGrid must say too. */
static void
hand_case (guint32 which, MaxminCase *c)
{
  guint32 n_nics = which == 0 ? 8 : 4;
  memset (c, 0, sizeof *c);
  if (which == 2) { /* a line of two links, 1e6 and 2e6: 0.5, 0.5 and 1.5 */
    static const guint32 links[] = { 0, 1, 0, 1 }, first[] = { 0, 2, 3, 4 };
    c->n_links = 2;
    c->n_classes = 3;
    c->capacities[0] = 1e6;
    c->capacities[1] = 2e6;
    memcpy (c->links, links, sizeof links);
    memcpy (c->first, first, sizeof first);
  } else { /* eight rings of two nodes: a NIC each, or one for two */
    c->n_links = n_nics;
    c->n_classes = 8;
    for (guint32 f = 0; f < 8; f++) {
      c->capacities[f * n_nics / 8] = 50e6;
      c->links[f] = f * n_nics / 8;
      c->first[f + 1] = f + 1;
    }
  }
  for (guint32 f = 0; f < c->n_classes; f++) {
    c->counts[f] = 1;
    c->caps[f] = INFINITY;
  }
  for (guint32 e = 0; e < c->first[c->n_classes]; e++)
    c->weights[e] = 1;
}

static void
write_zone (GString *xml, const MaxminCase *c, guint32 id, const double *rates)
{
  g_string_append_printf (xml, "<zone id=\"z%u\" routing=\"Full\">\n", id);
  GString *routes = g_string_new (NULL), *links = g_string_new (NULL);
  guint32 n = 0;
  for (guint32 l = 0; l < c->n_links; l++)
    g_string_append_printf (links,
                            "<link id=\"%u-l%u\" bandwidth=\"%.17gBps\" latency=\"0s\" "
                            "sharing_policy=\"SHARED\"/>\n",
                            id, l, c->capacities[l]);
  for (guint32 f = 0; f < c->n_classes; f++)
    for (guint32 copy = 0; copy < c->counts[f]; copy++, n++) {
      Flow flow = { .id = id, .flow = n, .bytes = rint (rates[f] * DURATION_S) };
      g_array_append_val (flows, flow);
      g_string_append_printf (xml,
                              "<host id=\"%u-s%u\" speed=\"1Gf\"/><host id=\"%u-r%u\" "
                              "speed=\"1Gf\"/>\n",
                              id, n, id, n);
      g_string_append_printf (routes, "<route src=\"%u-s%u\" dst=\"%u-r%u\" symmetrical=\"NO\">",
                              id, n, id, n);
      for (guint32 e = c->first[f]; e < c->first[f + 1]; e++)
        g_string_append_printf (routes, "<link_ctn id=\"%u-l%u\"/>", id, c->links[e]);
      if (isfinite (c->caps[f])) { /* a cap is a link of one's own */
        g_string_append_printf (links,
                                "<link id=\"%u-c%u\" bandwidth=\"%.17gBps\" latency=\"0s\" "
                                "sharing_policy=\"SHARED\"/>\n",
                                id, n, c->caps[f]);
        g_string_append_printf (routes, "<link_ctn id=\"%u-c%u\"/>", id, n);
      }
      g_string_append (routes, "</route>\n");
    }
  g_string_append_len (xml, links->str, (gssize)links->len);
  g_string_append_len (xml, routes->str, (gssize)routes->len);
  g_string_append (xml, "</zone>\n");
  g_string_free (links, TRUE);
  g_string_free (routes, TRUE);
}

static void
add_case (GString *xml, const MaxminCase *c, guint32 id, double *rates)
{
  GError *error = NULL;
  double scratch[2 * MAXMIN_MAX_LINKS + MAXMIN_MAX_CLASSES];
  TopoMaxmin problem = maxmin_problem (c);
  assert_true (topo_maxmin_solve (&problem, rates, NULL, scratch, &error));
  write_zone (xml, c, id, rates);
}

static void
send_flow (int argc, char **argv)
{
  const Flow *flow = &g_array_index (flows, Flow, (guint)g_ascii_strtoull (argv[1], NULL, 10));
  sg_mailbox_put (sg_mailbox_by_name (argv[1]), (void *)flow, (long)flow->bytes);
}

static void
receive_flow (int argc, char **argv)
{
  Flow *flow = sg_mailbox_get (sg_mailbox_by_name (argv[1]));
  flow->arrived_s = simgrid_get_clock ();
}

static void
start_flows (void)
{
  for (guint i = 0; i < flows->len; i++) {
    const Flow *flow = &g_array_index (flows, Flow, i);
    g_autofree char *number = g_strdup_printf ("%u", i);
    g_autofree char *from = g_strdup_printf ("%u-s%u", flow->id, flow->flow);
    g_autofree char *to = g_strdup_printf ("%u-r%u", flow->id, flow->flow);
    const char *arguments[] = { "flow", number };
    sg_actor_create_ (from, sg_host_by_name (from), send_flow, 2, arguments);
    sg_actor_create_ (to, sg_host_by_name (to), receive_flow, 2, arguments);
  }
}

/* The platform goes through a file. */
static void
load_platform (const GString *xml)
{
  GError *error = NULL;
  g_autofree char *path = NULL;
  int fd = g_file_open_tmp ("plait-maxmin-XXXXXX.xml", &path, &error);
  assert_true (fd >= 0);
  g_close (fd, NULL);
  assert_true (g_file_set_contents (path, xml->str, (gssize)xml->len, &error));
  simgrid_load_platform (path);
  g_unlink (path);
}

static void
test_against_simgrid (void **state)
{
  double rates[MAXMIN_MAX_CLASSES];
  MaxminCase c;
  g_autoptr (GString) xml = g_string_new (
      "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
      "<platform version=\"4.1\">\n<zone id=\"root\" routing=\"Full\">\n");
  flows = g_array_new (FALSE, TRUE, sizeof (Flow));
  for (guint32 which = 0; which < 3; which++) {
    static const double want[] = { 50e6, 25e6, 1.5e6 }; /* of the last flow */
    hand_case (which, &c);
    add_case (xml, &c, N_RANDOM + which, rates);
    assert_near (rates[c.n_classes - 1], want[which], 1e-14);
  }
  for (guint32 i = 0; i < N_RANDOM; i++) {
    maxmin_random (&c, 21, i, FALSE);
    add_case (xml, &c, i, rates);
  }
  g_string_append (xml, "</zone>\n</platform>\n");
  load_platform (xml);
  start_flows ();
  simgrid_run ();
  assert_true (flows->len > N_RANDOM);
  for (guint i = 0; i < flows->len; i++) {
    const Flow *flow = &g_array_index (flows, Flow, i);
    /* whole bytes of at least 1e7: 1e-7; SimGrid stops a flow within 1e-5 bytes and 1e-9 s */
    if (fabs (flow->arrived_s / DURATION_S - 1) > 1e-6) {
      print_error ("case %u flow %u: %g bytes arrived at %.9g s, not %g\n", flow->id, flow->flow,
                   flow->bytes, flow->arrived_s, DURATION_S);
      fail ();
    }
  }
  print_message ("%u flows in %u cases\n", flows->len, N_RANDOM + 3);
  g_array_unref (flows);
}

int
main (int argc, char **argv)
{
  char *options[] = { argv[0],
                      (char *)"--cfg=network/model:CM02",
                      (char *)"--cfg=network/TCP-gamma:0",
                      (char *)"--cfg=network/crosstraffic:0",
                      (char *)"--cfg=maxmin/precision:1e-9",
                      (char *)"--cfg=contexts/stack-size:64",
                      (char *)"--log=root.thres:error",
                      NULL };
  int n = G_N_ELEMENTS (options) - 1;
  const struct CMUnitTest tests[] = { cmocka_unit_test (test_against_simgrid) };
  simgrid_init (&n, options);
  return cmocka_run_group_tests (tests, NULL, NULL);
}
