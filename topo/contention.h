/* topo/contention.h - what is left to each GPU when all groups of a kind act at once.
 *
 * Links of one node, each direction its own: NVLink to the switch, PCIe lanes of GPUs and NICs,
 * uplinks of PCIe switches, links between CPUs, NIC ports, and a node's share of the spine. Paths:
 *
 *   GPU - GPU  NVLink where the set talks over it (topo_machine_subset), else the host's tree: the
 *              fewest hops; where GPUs cannot copy to each other ([pcie] p2p = none), up to the
 *              sender's CPU first, for the copy goes through its memory
 *   GPU - NIC  over its affine NICs ([network] serves), evenly; a GPU without one uses all. The
 *              tree directly where no CPU is passed (GPUDirect); else, when an NVLink peer sits
 *              with that NIC below one switch, through the peer (PXN); else through host memory.
 *              Plain Ethernet and boards without peer copies have no GPUDirect.
 *
 * A collective moves at the pace of its slowest hop. So a group is one flow, loading each link with
 * one unit per hop of a ring that crosses it; in an all-to-all each pair of g members loads its path
 * with 1/(g-1) of what a member sends. A GPU's network traffic is one flow, loading each of its n
 * NICs and their paths with 1/n.
 * Flows share links max-min fairly (maxmin.h). Links of a mesh or bridge between members of a set
 * belong to that set alone: its minimum cut (machine_subset.c) is not divided.
 *
 * Not in it: traffic inside and out of the node at once on the same PCIe link; memory bandwidth of
 * the CPU; rings ordered otherwise than by rank; leaf switches (every flow that leaves a domain
 * counts as crossing the spine). See docs/contention.md.
 */
#pragma once
#include "topo/cluster.h"
#include <glib.h>
G_BEGIN_DECLS

typedef enum {
  TOPO_PATTERN_RING,     /* neighbours, and the last to the first */
  TOPO_PATTERN_ALLTOALL, /* every member to every other: single links only (node_loads.h); for groups
                            of a kind see alltoall_bytes_per_s */
  TOPO_PATTERN_CHAIN,    /* each member to the next, the last to none: pipeline neighbours */
} TopoPattern;

/* Paths of one node, made once per machine; NULL where the file states no PCIe tree. */
typedef struct TopoPaths TopoPaths;
void topo_paths_free (TopoPaths *paths);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TopoPaths, topo_paths_free)

/* Last step of making a machine: its paths, and the NIC rate that they leave. */
gboolean topo_machine_fill_paths (TopoMachine *machine, GError **error);

/* Sets of GPUs of one node that act at once; no GPU in two sets. CHAIN: each set is a pair, in
 * order, and a GPU may be in several. */
typedef struct {
  guint32 n_sets;
  guint64 sets[TOPO_MAX_GPUS_PER_NODE];
} TopoNodeSets;

/* The worst-off set. */
typedef struct {
  TopoSubset subset;           /* class of the set; its peak times (shared / alone) */
  double shared_bytes_per_s;   /* rate of one GPU's traffic by link peaks, all sets acting */
  double alone_bytes_per_s;    /* same, this set acting alone */
  const TopoLink *bottleneck;  /* (borrowed, nullable) of the graph; NULL: the set's own NVLinks, or
                                 unknown rates */
  double alltoall_bytes_per_s; /* RING only: where the members of all sets over PCIe send to all
                                  others of their set, what a GPU sends when the first link of the
                                  host that carries more than one sends fills up, by its peak;
                                  0 no such link, or unknown */
} TopoNodeShare;

/*
 * Worst-off of @sets, those of two GPUs and more in the domain; link class NONE when there are none. The peak is
 * scaled, not replaced, because calibrations relate to what a lone group reaches of its peak.
 * Nothing is allocated.
 */
void topo_contention_node (const TopoMachine *machine, const TopoNodeSets *sets,
                           TopoPattern pattern, TopoNodeShare *out);

/*
 * The same over all nodes, for the groups (@stride, @size) of @world ranks, or with @size 0 for the
 * pairs (r, r + @stride). For machines whose domain is the node. Groups that fill nodes alike are
 * looked up, others solved once per distinct node. Nothing is allocated.
 */
void topo_contention_inside (const TopoMachine *machine, guint32 world, guint32 stride,
                             guint32 size, TopoNodeShare *out);

/*
 * Rate to the network, one direction, of the worst-off of @senders (bits) of one node, all sending.
 * By symmetry also of the worst-off receiver. Zeroes without senders or network. Nothing is
 * allocated.
 */
TopoNicShare topo_contention_network (const TopoMachine *machine, guint64 senders);

/* NIC ports bind first whatever the senders, and the NICs are dealt evenly: closed forms hold. */
gboolean topo_paths_only_ports_bind (const TopoMachine *machine);

G_END_DECLS
