/* sim/balance.h - contiguous layers per stage so that the slowest stage is as fast as can be.
 *
 * Minimises the largest stage time (to 3e-5 of a layer) over all ways to cut the layers into
 * @n_stages non-empty runs, the first stage also paying for the embedding, the last for the head:
 * the smallest threshold at which a greedy fill from the last stage backwards succeeds. Among the
 * cuts within that threshold the most even one is taken.
 */
#pragma once
#include <glib.h>
G_BEGIN_DECLS
/* @layer_s: @n_layers times, all > 0. @out: @n_stages counts. FALSE if n_stages > n_layers. */
gboolean sim_balance_stages (const double *layer_s, guint32 n_layers, double embedding_s,
                             double head_s, guint32 n_stages, guint32 *out);
G_END_DECLS
