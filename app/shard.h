/* app/shard.h - use case: how DTensor lays a tensor over a mesh, and what a redistribute costs. */
#pragma once
#include "app/error.h"
#include "model/shard.h"
#include <glib.h>
G_BEGIN_DECLS
typedef struct {
  guint32 coordinates[MODEL_SHARD_MAX_DIMS];
  guint64 local_shape[MODEL_SHARD_MAX_DIMS];
  guint64 offset[MODEL_SHARD_MAX_DIMS];
} AppShardRank;

typedef struct {
  guint n_dims, n_mesh;
  guint32 n_ranks;
  AppShardRank *ranks; /* (owned) */
  GArray *steps;       /* (owned, nullable) ModelRedistributeStep */
  double time_s;       /* of the steps on a machine; NaN without one */
} AppShard;

/* @to, @dtype, @machine: (nullable). At most 65,536 ranks. Returns: (owned). */
AppShard *app_shard_new (const char *catalog_dir, const char *shape, const char *mesh,
                         const char *placements, const char *to, const char *dtype,
                         const char *machine, GError **error);
void app_shard_free (AppShard *shard);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AppShard, app_shard_free)
const char *app_shard_step_name (ModelRedistributeKind kind); /* "all_gather", "local_chunk", … */
G_END_DECLS
