/* model/stages.h - which blocks each virtual pipeline stage holds.
 *
 * Virtual stage s = chunk·pp + rank for straight placement. A stage holds a contiguous range of
 * layers, the first also the embedding, the last also the head.
 *
 * "auto", for L layers in n stages:
 *   n divides L: L/n each.
 *   else, L + 2 >= 2n: embedding and head count as one layer each; every stage gets (L + 2)/n of
 *     these, rounded down (the first and the last thus one layer less), and what is left goes one
 *     by one to the stages nearest the middle, the earlier of two equally near ones first, since
 *     the last stage's head costs time and the first one's embedding hardly any.
 *   else: first and last hold one layer each; the stages between share L − 2 by the same rule.
 */
#pragma once
#include "model/layout.h"
#include "model/profile.h"
#include <glib.h>
G_BEGIN_DECLS
/* Layers of each of the @n_stages virtual stages. FALSE (nothing written) if one would be empty. */
gboolean model_stages_balance (guint32 layers, guint32 n_stages, guint32 *out);
/* Layers of stage @stage alone; needs 1 <= n_stages <= layers, stage < n_stages. */
guint32 model_stages_balanced_at (guint32 layers, guint32 n_stages, guint32 stage);
/* Where stages are cut by cost, or a run did so, the last may hold the head and no layer. */
static inline gboolean
model_stages_is_bare_head (const ModelProfile *profile, const ModelLayout *layout, guint64 stage)
{
  return (profile->balances_by_cost || layout->head_alone)
         && stage + 1 == model_layout_n_stages (layout);
}
/* @layout's list, or the balanced one. @out has model_layout_n_stages entries. FALSE if
 * illegal. */
gboolean model_stages_layers (const ModelArch *arch, const ModelLayout *layout,
                              const ModelProfile *profile, guint32 *out);
/*
 * Cut by cost (nanotron): a block costs 4h² + 3fh, the head vocabulary × h, everything else nothing;
 * a stage ends with the block at which the running sum passes its share. A stage left without a
 * layer takes one from the fullest, except the last: the head may stand there alone, as it does in
 * nanotron. FALSE if there are more stages than layers.
 */
gboolean model_stages_by_cost (const ModelArch *arch, guint32 n_stages, guint32 *out);

G_END_DECLS
