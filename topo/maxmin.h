/* topo/maxmin.h - max-min fair sharing of links by flows, solved exactly; knows no topology.
 *
 * A class is a number of identical flows. Each of them takes weight w of a link per unit of its
 * rate x, so that a link carries
 *     sum over classes (count · w · x)  <=  capacity
 * Rates are max-min fair: none can grow without a smaller or equal one shrinking. Equivalently,
 * every flow runs at its cap or has a bottleneck: a full link on which none is faster.
 *
 * Method: progressive filling. All rates rise together until a link is full or a cap is reached;
 * what is stopped by it is fixed, the rest rises on. Loads are summed anew in each round, so errors
 * do not pile up. At most min (links + classes with a cap, classes) rounds of O(nonzeros + links).
 * Source: Bertsekas and Gallager, "Data Networks" (1992), section 6.5.2.
 *
 * A full-duplex link is two links. A capacity may be 0 (what crosses it stands still) or INFINITY.
 */
#pragma once
#include "topo/error.h"
#include <glib.h>
G_BEGIN_DECLS

#define TOPO_MAXMIN_BY_CAP G_MAXUINT32 /* a bottleneck: the flow's own cap */

/* Everything is borrowed. Class c uses links[first[c]] … links[first[c + 1] - 1]; a link named twice
 * counts twice. */
typedef struct {
  guint32 n_links;
  guint32 n_classes;
  const double *capacities; /* n_links, >= 0; unit of work per second, such as bytes_per_s */
  const guint32 *first;     /* n_classes + 1, ascending from 0 */
  const guint32 *links;     /* first[n_classes] link numbers */
  const double *weights;    /* (nullable: all 1) first[n_classes], > 0 and finite */
  const guint32 *counts;    /* (nullable: all 1) n_classes, >= 1 */
  const double *caps;       /* (nullable: none) n_classes, >= 0; INFINITY: none */
} TopoMaxmin;

/* Doubles that topo_maxmin_solve() needs as @scratch. */
gsize topo_maxmin_scratch_count (const TopoMaxmin *problem);

/*
 * @out_rates: (out) n_classes, of one flow of the class; written only on success
 * @out_bottlenecks: (out, nullable) n_classes, the first link that stops the class, or
 *   TOPO_MAXMIN_BY_CAP
 * @scratch: topo_maxmin_scratch_count() doubles; nothing is allocated
 *
 * Returns: FALSE with TOPO_ERROR_BAD_VALUE, naming the link or class: a capacity, weight, count or
 * cap out of range, a link that does not exist, a class that nothing bounds.
 */
gboolean topo_maxmin_solve (const TopoMaxmin *problem, double *out_rates, guint32 *out_bottlenecks,
                            double *scratch, GError **error);
G_END_DECLS
