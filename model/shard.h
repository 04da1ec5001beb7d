/* model/shard.h - DTensor's arithmetic: local shapes, offsets and redistribute plans.
 *
 * One placement per mesh dimension, applied left to right; the mesh is row-major over ranks.
 * Shard follows torch.chunk: chunk = ceil(n/k), trailing ranks may be short or empty.
 * Rules and sources: reference "dtensor".
 */
#pragma once
#include "model/error.h"
#include <glib.h>
G_BEGIN_DECLS
#define MODEL_SHARD_MAX_DIMS 8 /* tensor and mesh dimensions */
typedef enum {
  MODEL_PLACEMENT_REPLICATE,
  MODEL_PLACEMENT_SHARD,
  MODEL_PLACEMENT_STRIDED_SHARD, /* _StridedShard(dim, split_factor) */
  MODEL_PLACEMENT_PARTIAL,
} ModelPlacementKind;
typedef enum {
  MODEL_REDUCE_SUM,
  MODEL_REDUCE_AVG,
  MODEL_REDUCE_PRODUCT,
  MODEL_REDUCE_MAX,
  MODEL_REDUCE_MIN
} ModelReduceOp;
typedef struct {
  guint8 kind;          /* ModelPlacementKind */
  gint8 dim;            /* tensor dimension of a shard */
  guint8 reduce;        /* ModelReduceOp of a partial */
  guint32 split_factor; /* of a strided shard */
} ModelPlacement;

/* One dimension: piece @index of @parts of @size elements by the torch.chunk rule. */
void model_shard_chunk (guint64 size, guint64 parts, guint64 index, guint64 *out_offset,
                        guint64 *out_size);
/* The largest piece, ceil(size/parts): what memory and padding must allow for. */
static inline guint64
model_shard_ceil (guint64 size, guint64 parts)
{
  return size / parts + (size % parts != 0);
}
/*
 * Local shape and global offset of @rank. @out_contiguous (nullable): FALSE when a strided shard
 * holds several pieces. Offset of an empty shard is the global size of that dimension.
 */
gboolean model_shard_local (const guint64 *shape, guint n_dims, const guint32 *mesh, guint n_mesh,
                            const ModelPlacement *placements, guint32 rank, guint64 *out_shape,
                            guint64 *out_offset, gboolean *out_contiguous, GError **error);
/* "[S(0);R]", "S(0),R", "_S(0, 2)", "P", "P(sum)"; negative dims are normalised by @n_dims. */
gboolean model_placements_parse (const char *text, guint n_dims, ModelPlacement *out, guint max,
                                 guint *out_n, GError **error);
char *model_placement_format (const ModelPlacement *placement); /* (owned) "S(0)" */

typedef enum {
  MODEL_REDISTRIBUTE_NONE,
  MODEL_REDISTRIBUTE_LOCAL_CHUNK,  /* no communication */
  MODEL_REDISTRIBUTE_LOCAL_DIVIDE, /* Replicate → Partial */
  MODEL_REDISTRIBUTE_ALL_GATHER,
  MODEL_REDISTRIBUTE_ALL_REDUCE,
  MODEL_REDISTRIBUTE_REDUCE_SCATTER,
  MODEL_REDISTRIBUTE_ALL_TO_ALL,
} ModelRedistributeKind;
typedef struct {
  ModelRedistributeKind kind;
  guint mesh_dim;
  ModelPlacement from, to;
  guint64 bytes_sent_per_rank; /* ring */
  guint64 logical_bytes;       /* S of the step: bytes of the tensor logical on that mesh dim */
} ModelRedistributeStep;
/* Greedy plan of PyTorch's redistribute. Returns: (owned) GArray of ModelRedistributeStep. */
GArray *model_redistribute_plan (const guint64 *shape, guint n_dims, guint64 element_bytes,
                                 const guint32 *mesh, guint n_mesh, const ModelPlacement *from,
                                 const ModelPlacement *to, GError **error);
G_END_DECLS
