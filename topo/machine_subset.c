/* topo/machine_subset.c - what a set of GPUs of one node talks over.
 *
 * Without a switch the NVLink rate of a set is the minimum cut of the links among its members
 * (Stoer and Wagner, "A simple min-cut algorithm", J. ACM 44, 1997): whatever goes round in rings
 * must cross every cut, so this bounds all rings together. It is reached on the boards we know:
 * {0,1,2,3} of DGX-1V carries 4 rings of one link, its cut. A pair has the links between the two,
 * a full mesh (n-1) links; a set not connected over NVLink has 0 and uses PCIe.
 */
#include "topo/machine-private.h"
#include <string.h>

/* Cut of the last vertex in a maximum adjacency order; merges it into the one before. */
static guint32
cut_of_phase (guint16 weight[64][64], guint8 *alive, guint32 n_alive)
{
  guint32 order_key[64] = { 0 };
  gboolean added[64] = { FALSE };
  guint8 last = alive[0], before = alive[0];
  guint32 cut = 0;
  for (guint32 step = 0; step < n_alive; step++) {
    gint best = -1;
    for (guint32 i = 0; i < n_alive; i++)
      if (!added[alive[i]] && (best < 0 || order_key[alive[i]] > order_key[best]))
        best = alive[i];
    added[best] = TRUE;
    before = last;
    last = (guint8)best;
    cut = order_key[best];
    for (guint32 i = 0; i < n_alive; i++)
      order_key[alive[i]] += added[alive[i]] ? 0 : weight[best][alive[i]];
  }
  for (guint32 i = 0; i < n_alive; i++) {
    weight[before][alive[i]] += weight[last][alive[i]];
    weight[alive[i]][before] = weight[before][alive[i]];
  }
  weight[before][before] = 0;
  for (guint32 i = 0; i < n_alive; i++)
    if (alive[i] == last)
      alive[i] = alive[n_alive - 1];
  return cut;
}

static guint32
min_cut_links (const TopoMachine *machine, const guint8 *members, guint32 n)
{
  guint16 weight[64][64];
  guint8 alive[64];
  guint32 fewest = G_MAXUINT32;
  for (guint32 i = 0; i < n; i++) {
    alive[i] = (guint8)i;
    for (guint32 j = 0; j < n; j++)
      weight[i][j] = machine->direct_count[members[i] * machine->gpus_per_node + members[j]];
  }
  for (guint32 n_alive = n; n_alive > 1; n_alive--) {
    guint32 cut = cut_of_phase (weight, alive, n_alive);
    fewest = MIN (fewest, cut);
  }
  return fewest;
}

static void
pcie_subset (const TopoMachine *machine, const guint8 *members, guint32 n, TopoSubset *out)
{
  gboolean one_switch = machine->gpu_switch[members[0]] >= 0;
  for (guint32 i = 1; i < n; i++) {
    if (machine->gpu_numa[members[i]] != machine->gpu_numa[members[0]])
      out->crosses_socket = TRUE;
    if (machine->gpu_switch[members[i]] != machine->gpu_switch[members[0]])
      one_switch = FALSE;
  }
  gboolean sys = out->crosses_socket || machine->p2p == TOPO_P2P_NONE
                 || (machine->p2p == TOPO_P2P_SWITCH && !one_switch);
  TopoLinkKind kind = topo_link_kind_of_pcie (machine->pcie_generation);
  out->link_class = topo_link_class_of (kind, sys);
  out->bytes_per_s = machine->pcie_bytes_per_s;
}

static void
compute_subset (const TopoMachine *machine, guint64 mask, TopoSubset *out)
{
  guint8 members[64];
  guint32 n = 0;
  memset (out, 0, sizeof *out);
  for (guint64 rest = mask; rest != 0; rest &= rest - 1)
    members[n++] = (guint8)__builtin_ctzll (rest);
  if (n < 2)
    return;
  guint32 links = 0;
  if (machine->direct_count != NULL)
    links = min_cut_links (machine, members, n);
  else if (machine->wiring == TOPO_WIRING_SWITCH)
    links = machine_switch_links (machine, mask);
  if (links == 0) {
    pcie_subset (machine, members, n, out);
    return;
  }
  out->link_class = topo_link_class_of (machine->direct, FALSE);
  out->bytes_per_s = links * machine->direct_link_bytes_per_s;
}

gboolean
topo_machine_is_uniform (const TopoMachine *machine)
{
  return machine->wiring != TOPO_WIRING_NONE && machine->direct_count == NULL
         && machine->islands == NULL && machine->fewer_links == NULL;
}

void
topo_machine_subset (const TopoMachine *machine, guint64 mask, TopoSubset *out)
{
  if (topo_machine_is_uniform (machine)) {
    *out = (TopoSubset){ .link_class = topo_link_class_of (machine->direct, FALSE),
                         .bytes_per_s = machine->direct_bytes_per_s };
    return;
  }
  if (machine->subsets != NULL)
    *out = machine->subsets[mask];
  else
    compute_subset (machine, mask, out);
}

void
machine_fill_subsets (TopoMachine *machine)
{
  TopoSubset all;
  guint32 n = machine->gpus_per_node;
  if (n <= 8 && !topo_machine_is_uniform (machine)) {
    machine->subsets = g_new0 (TopoSubset, (gsize)1 << n);
    for (guint64 mask = 0; mask < G_GUINT64_CONSTANT (1) << n; mask++)
      compute_subset (machine, mask, &machine->subsets[mask]);
  }
  if (n < 2)
    return;
  topo_machine_subset (machine, machine_first_bits (n), &all);
  machine->node_link_class = all.link_class;
  machine->node_link_bytes_per_s = all.bytes_per_s;
}
