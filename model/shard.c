/* model/shard.c - local shapes and offsets of DTensor placements. */
#include "model/shard-private.h"

void
model_shard_chunk (guint64 size, guint64 parts, guint64 index, guint64 *out_offset,
                   guint64 *out_size)
{
  guint64 chunk = model_shard_ceil (size, parts);
  /* index·chunk can only exceed size, never matter, once index >= size / chunk rounded up */
  guint64 begin = chunk == 0 || index > size / chunk ? size : MIN (index * chunk, size);
  *out_offset = begin;
  *out_size = MIN (chunk, size - begin);
}

/* One placement applied to one tensor dimension: what its rank keeps of @size elements. */
typedef struct {
  guint64 size;        /* before */
  guint64 pieces;      /* 1, or the split factor */
  guint32 parts, part; /* the mesh dimension and the rank's place in it */
} Cut;

/* Elements of a piece of the cut: @last is the short one, if there is one. */
static guint64
piece_share (const Cut *cut, guint64 piece_size, guint64 *out_begin)
{
  guint64 share;
  model_shard_chunk (piece_size, cut->parts, cut->part, out_begin, &share);
  return share;
}

static guint64
cut_size (const Cut *cut)
{
  guint64 piece = model_shard_ceil (cut->size, cut->pieces), begin;
  if (piece == 0)
    return 0;
  return cut->size / piece * piece_share (cut, piece, &begin)
         + piece_share (cut, cut->size % piece, &begin);
}

/* Where element @local of what the cut keeps lay before it; needs local < cut_size(). */
static guint64
cut_origin (const Cut *cut, guint64 local)
{
  guint64 piece = model_shard_ceil (cut->size, cut->pieces), begin;
  guint64 share = piece_share (cut, piece, &begin), full = cut->size / piece;
  if (local < full * share)
    return local / share * piece + begin + local % share;
  piece_share (cut, cut->size % piece, &begin);
  return full * piece + begin + local - full * share;
}

gboolean
model_placement_is_shard (const ModelPlacement *placement)
{
  return placement->kind == MODEL_PLACEMENT_SHARD
         || placement->kind == MODEL_PLACEMENT_STRIDED_SHARD;
}

gboolean
model_shard_check (const guint64 *shape, guint n_dims, const guint32 *mesh, guint n_mesh,
                   const ModelPlacement *placements, GError **error)
{
  guint64 ranks = 1;
  if (n_dims > MODEL_SHARD_MAX_DIMS || n_mesh > MODEL_SHARD_MAX_DIMS || n_mesh == 0) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_BAD_VALUE,
                 "found a tensor of %u and a mesh of %u dimensions, expected at most %d each and a "
                 "mesh of at least one",
                 n_dims, n_mesh, MODEL_SHARD_MAX_DIMS);
    return FALSE;
  }
  for (guint i = 0; i < n_mesh; i++) {
    ranks *= mesh[i];
    if (ranks == 0 || ranks > G_MAXINT32) {
      g_set_error (error, MODEL_ERROR, MODEL_ERROR_BAD_VALUE,
                   "mesh dimension %u: found %u, expected 1 to 2^31 - 1 ranks in all", i, mesh[i]);
      return FALSE;
    }
    if (model_placement_is_shard (&placements[i])
        && (placements[i].dim < 0 || placements[i].dim >= (gint)n_dims
            || (placements[i].kind == MODEL_PLACEMENT_STRIDED_SHARD
                && placements[i].split_factor == 0))) {
      g_set_error (error, MODEL_ERROR, MODEL_ERROR_BAD_VALUE,
                   "mesh dimension %u: a shard of tensor dimension %d of a tensor with %u", i,
                   placements[i].dim, n_dims);
      return FALSE;
    }
  }
  return TRUE;
}

/* The cuts of tensor dimension @dim, outermost first. Returns: how many. */
static guint
cuts_of (guint64 size, guint dim, const guint32 *mesh, guint n_mesh,
         const ModelPlacement *placements, const guint32 *at, Cut *cuts)
{
  guint n = 0;
  for (guint i = 0; i < n_mesh; i++) {
    if (!model_placement_is_shard (&placements[i]) || placements[i].dim != (gint)dim)
      continue;
    gboolean strided = placements[i].kind == MODEL_PLACEMENT_STRIDED_SHARD;
    cuts[n] = (Cut){ .size = size,
                     .pieces = strided ? placements[i].split_factor : 1,
                     .parts = mesh[i],
                     .part = at[i] };
    size = cut_size (&cuts[n]);
    n++;
  }
  return n;
}

/* Global index of element @local, through all cuts, innermost first. */
static guint64
origin (const Cut *cuts, guint n, guint64 local)
{
  while (n > 0)
    local = cut_origin (&cuts[--n], local);
  return local;
}

gboolean
model_shard_local (const guint64 *shape, guint n_dims, const guint32 *mesh, guint n_mesh,
                   const ModelPlacement *placements, guint32 rank, guint64 *out_shape,
                   guint64 *out_offset, gboolean *out_contiguous, GError **error)
{
  guint32 at[MODEL_SHARD_MAX_DIMS];
  gboolean contiguous = TRUE;
  guint32 rest = rank;
  if (!model_shard_check (shape, n_dims, mesh, n_mesh, placements, error))
    return FALSE;
  for (guint i = n_mesh; i > 0; i--) {
    at[i - 1] = rest % mesh[i - 1];
    rest /= mesh[i - 1];
  }
  if (rest != 0) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_BAD_VALUE, "rank %u is outside the mesh", rank);
    return FALSE;
  }
  for (guint dim = 0; dim < n_dims; dim++) {
    Cut cuts[MODEL_SHARD_MAX_DIMS];
    guint n = cuts_of (shape[dim], dim, mesh, n_mesh, placements, at, cuts);
    guint64 size = n > 0 ? cut_size (&cuts[n - 1]) : shape[dim];
    out_shape[dim] = size;
    out_offset[dim] = size > 0 ? origin (cuts, n, 0) : shape[dim];
    /* The map from local to global grows strictly: no gap means last − first = size − 1. */
    contiguous &= size == 0 || origin (cuts, n, size - 1) - out_offset[dim] == size - 1;
  }
  if (out_contiguous != NULL)
    *out_contiguous = contiguous;
  return TRUE;
}
