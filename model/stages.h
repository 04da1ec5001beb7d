/* model/stages.h - which blocks each virtual pipeline stage holds.
 *
 * Virtual stage s = chunk·pp + rank for straight placement. A stage holds a contiguous range of
 * layers, the first also the embedding, the last also the head. "auto": equal layer counts when
 * layers divide by pp·vpp; otherwise balanced with embedding and head counted as one layer each,
 * extra layers placed from the middle outwards so that first and last stay the lightest.
 */
#pragma once
#include "model/layout.h"
#include <glib.h>
G_BEGIN_DECLS
/* Layers of each of the @n_stages virtual stages. FALSE (nothing written) if one would be empty. */
gboolean model_stages_balance (guint32 layers, guint32 n_stages, guint32 *out);
/* @layout's list, or the balanced one. @out has pp·vpp entries. FALSE if illegal. */
gboolean model_stages_layers (const ModelArch *arch, const ModelLayout *layout, guint32 *out);
/* Blocks of each run in layers [first, first + count): @out has arch->n_runs entries. */
void model_stages_count_runs (const ModelArch *arch, guint32 first, guint32 count, guint32 *out);
G_END_DECLS
