/* sim/balance.h - contiguous layers per stage so that the slowest stage is as fast as can be.
 *
 * Minimises the largest stage time (to 3e-5 of a layer) over all ways to cut the layers into
 * @n_stages non-empty runs of at most most_layers each; the first stage also pays for the
 * embedding, the last for the head. It is what the dynamic programme
 *   T(s, e) = min over b of max (T(s − 1, b), time of layers b … e)
 * gives: a threshold is reachable exactly when filling stages from the last to the first, each as
 * full as time and cap allow, places every layer, and the least reachable one is found by halving.
 * Among the cuts within that threshold the most even one is taken.
 */
#pragma once
#include <glib.h>
G_BEGIN_DECLS
typedef struct {
  const double *layer_s; /* (borrowed) n_layers times, all > 0; NULL: equal_layer_s each */
  double equal_layer_s;
  guint32 n_layers;
  double embedding_s, head_s;
  guint32 n_stages;
  const guint32 *most_layers; /* (borrowed) (nullable) by stage: what memory allows */
} SimBalance;
/* @out: n_stages counts. FALSE if there are more stages than layers, or the caps hold too few. */
gboolean sim_balance_stages (const SimBalance *balance, guint32 *out);
/*
 * The same for n_stages ranks that hold @vpp chunks each, in turn: @out has n_stages·vpp counts in
 * pipeline order. Ranks are balanced by the mean time of a layer; each chunk holds one at least,
 * and the chunks with embedding and head are the rank's shortest. most_layers is by rank.
 */
gboolean sim_balance_chunks (const SimBalance *balance, guint32 vpp, guint32 *out);
G_END_DECLS
