/* model/shard-private.h - shared by shard.c and redistribute.c. */
#pragma once
#include "model/shard.h"
G_BEGIN_DECLS
gboolean model_placement_is_shard (const ModelPlacement *placement); /* plain or strided */
/* Refuses sizes out of range and shards of dimensions that are not there. */
gboolean model_shard_check (const guint64 *shape, guint n_dims, const guint32 *mesh, guint n_mesh,
                            const ModelPlacement *placements, GError **error);
G_END_DECLS
