/* topo/placement.h - where the groups of a layout land, and what that leaves each of them.
 *
 * Groups of a layout are arithmetic: { base + i*stride, i < size }. The groups of one kind, the
 * siblings, cover all ranks: base = b*stride*size + j with b < world/(stride*size), j < stride.
 * Ranks fill nodes in order. All siblings act at once, and a shape describes the worst of them.
 *
 *   domains (k)           NVLink domains (node, or rack) the group touches
 *   ranks_per_domain (g)  the fewest members in a domain it touches
 *
 * The worst group has the largest k, then the smallest g. Link class and rate are the worst over
 * all siblings. Closed form where stride*size and the domain divide one another; else every
 * distinct offset within a domain is looked at once, at most domain-size of them. Nothing is
 * allocated.
 */
#pragma once
#include "topo/cluster.h"
#include <glib.h>
G_BEGIN_DECLS

typedef struct {
  guint32 ranks;                /* n */
  guint32 domains;              /* k */
  guint32 ranks_per_domain;     /* g: smallest count in a touched domain */
  guint32 ranks_per_domain_max; /* largest */
  guint16 link_class;           /* TopoLinkClass of the worst pair inside a domain */
  guint16 fabric;               /* TopoFabric; meaningful when domains > 1 */
  gboolean crosses_socket;      /* PCIe classes: some pair inside a node spans NUMA nodes */
  gboolean nvls;                /* the switch adds up an all-reduce of so many members */
  double intra_bytes_per_s;     /* peak one direction per GPU inside the domain; 0 if none */
  double alltoall_bytes_per_s;  /* where a member sends to all others inside over PCIe, the rate at
                                   which the first link of the host fills up, by its peak, all
                                   siblings acting; 0: no link is shared, or unknown */
  double inter_bytes_per_s;     /* NIC rate per GPU, one direction, with all siblings sending;
                                   0 when domains == 1 or the network is unknown */
  /* What binds inside: the first link to fill up with all siblings acting, and a GPU's traffic by
   * that link's peak. NULL: the links between the members, which no sibling shares. */
  const TopoLink *intra_link; /* (borrowed, nullable) of the machine's graph */
  double intra_link_bytes_per_s;
  /* What binds outside; NULL: NIC ports dealt evenly, or with spine_binds the spine. */
  const TopoLink *inter_link; /* (borrowed, nullable) of the machine's graph */
  gboolean spine_binds;
} TopoGroupShape;

/*
 * Shape of the groups (@stride, @size) of @world ranks on @machine.
 * @world must be a multiple of @stride * @size; @size >= 1. size == 1 gives n = k = g = 1.
 */
void topo_group_shape (const TopoMachine *machine, guint32 world, guint32 stride, guint32 size,
                       TopoGroupShape *out);

/*
 * Shape of the pairs (r, r + offset) for all r < world - offset: pipeline neighbours with
 * offset = ranks per stage; first and last stage with offset = world - ranks per stage.
 */
void topo_pair_shape (const TopoMachine *machine, guint32 world, guint32 offset,
                      TopoGroupShape *out);

/*
 * The same group where no GPU copies to another directly (NCCL_P2P_DISABLE): members of a node talk
 * over PCIe through host memory. FALSE, with *shape untouched: the PCIe of the machine is unknown,
 * or a domain in use is more than one node.
 */
gboolean topo_group_shape_through_host (const TopoMachine *machine, TopoGroupShape *shape);

/*
 * The link that bounds a group of this shape, in words: "nvlink4, 450 GB/s per GPU one way",
 * "NIC 100 Gb/s efa shared by 2 GPUs, 6.25 GB/s per GPU one way", "inter-socket CPU0-CPU1, 10.0
 * GB/s per GPU one way". Returns: (owned).
 */
char *topo_group_bottleneck (const TopoMachine *machine, const TopoGroupShape *shape);
G_END_DECLS
