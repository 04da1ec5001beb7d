/* topo/node_loads.h - what traffic of a node's GPUs puts on the single links of the node.
 *
 * The loads that contention.h shares among groups of one kind, given out link by link, for whoever
 * has several kinds of traffic at once. Links are those of the node's paths, each direction its
 * own, then the way in of every link on the way to a NIC (a GPU receives over the links that it
 * sends by, in the other direction), then the spine, out and in.
 *
 * As in contention.h: over an NVSwitch every member of a set sends and receives one unit; over the
 * host's tree every hop loads its path; the own links of a mesh or bridge are not counted, for
 * no other set has them; network traffic spreads evenly over the NICs that serve a GPU.
 */
#pragma once
#include "topo/contention.h"
#include <glib.h>
G_BEGIN_DECLS

typedef struct _TopoNodeLoads TopoNodeLoads;

/* NULL where the links of the machine's nodes are not known. @machine: (borrowed) */
TopoNodeLoads *topo_node_loads_new (const TopoMachine *machine);
void topo_node_loads_free (TopoNodeLoads *loads);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TopoNodeLoads, topo_node_loads_free)

guint32 topo_node_loads_n_links (const TopoNodeLoads *loads);
/* Bytes per second; INFINITY where unknown. @out_kind: (nullable); the spine counts as a NIC. */
double topo_node_loads_capacity (const TopoNodeLoads *loads, guint32 link, TopoLinkKind *out_kind);
/* "PLX0-CPU0 pcie4", "spine out". Returns: (owned) */
char *topo_node_loads_name (const TopoNodeLoads *loads, guint32 link);

/*
 * Adds to @amounts (topo_node_loads_n_links entries) what the members @set of one group do inside
 * the node, @amount per hop. @beyond: the group has members in other nodes of the domain.
 */
void topo_node_loads_add_set (const TopoNodeLoads *loads, guint64 set, gboolean beyond,
                              TopoPattern pattern, double amount, double *amounts);
/* What GPU @gpu sends to the network (@outward), or receives from it. */
void topo_node_loads_add_network (const TopoNodeLoads *loads, guint32 gpu, gboolean outward,
                                  double amount, double *amounts);
/* What GPU @gpu sends to a peer of its domain in another node, or receives from it. */
void topo_node_loads_add_switch (const TopoNodeLoads *loads, guint32 gpu, gboolean outward,
                                 double amount, double *amounts);
G_END_DECLS
