/* sim/links.h - which traffic can meet on which links of the machine.
 *
 * A source is one kind of traffic of one owner: a pipeline rank with all its groups where ranks
 * that behave alike are played once, or a single group (a single sender) where every rank is
 * played. For every node of the cluster the loads of all sources are laid on the node's links
 * (topo/node_loads.h); links that carry the same traffic are one, and a link stays only if two
 * sources and more together can ask for more than it has.
 *
 * Capacities are what transfers reach of a link: peak times the calibration's bandwidth ratio. A
 * source alone never exceeds them: its own groups' sharing is in its time already.
 */
#pragma once
#include "sim/tape.h"
#include <glib.h>
G_BEGIN_DECLS

typedef struct _SimLinks SimLinks;

/* @full: every rank is an owner, else every pipeline rank. @c: (borrowed) */
SimLinks *sim_links_new (const SimCase *c, gboolean full);
void sim_links_free (SimLinks *links);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SimLinks, sim_links_free)

/* Says that @pp_rank runs @op; to be called for all communication before sim_links_build. */
void sim_links_note (SimLinks *links, guint32 pp_rank, const SimOp *op);
void sim_links_build (SimLinks *links);

guint32 sim_links_count (const SimLinks *links);
double sim_links_capacity (const SimLinks *links, guint32 link);
const char *sim_links_name (const SimLinks *links, guint32 link); /* "NIC3-ib nic of stage 4" */

/* What one source puts on a link for each byte per second of its two rates (SimOp). */
typedef struct {
  guint32 link;
  float link_weight, network_weight;
} SimLoad;

/* Loads of @op when @owner runs it: first rank of the group, sender, or pipeline rank. */
const SimLoad *sim_links_loads (const SimLinks *links, guint32 owner, const SimOp *op,
                                guint *out_n);
G_END_DECLS
