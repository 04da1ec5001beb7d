/* model/redistribute.c - PyTorch's greedy plan from one list of placements to another. */
#include "model/shard-private.h"
#include <string.h>

#define MAX_BYTES (G_GUINT64_CONSTANT (1) << 62)

/* A plan in the making. */
typedef struct {
  const guint64 *shape;
  guint n_dims;
  guint64 element_bytes;
  const guint32 *mesh;
  guint n_mesh;
  ModelPlacement now[MODEL_SHARD_MAX_DIMS];
  GArray *steps;
} Plan;

static gboolean
same (const ModelPlacement *a, const ModelPlacement *b)
{
  if (a->kind != b->kind)
    return FALSE;
  switch (a->kind) {
  case MODEL_PLACEMENT_SHARD:
    return a->dim == b->dim;
  case MODEL_PLACEMENT_STRIDED_SHARD:
    return a->dim == b->dim && a->split_factor == b->split_factor;
  case MODEL_PLACEMENT_PARTIAL:
    return a->reduce == b->reduce;
  default:
    return TRUE;
  }
}

static gboolean
checked_bytes (const guint64 *shape, guint n_dims, guint64 element_bytes, guint64 *out)
{
  guint64 bytes = element_bytes;
  for (guint i = 0; i < n_dims; i++)
    if (!g_uint64_checked_mul (&bytes, bytes, shape[i]) || bytes > MAX_BYTES)
      return FALSE;
  *out = bytes;
  return bytes <= MAX_BYTES;
}

/* What a ring carries past each of n ranks: steps·bytes/n, rounded up. */
static guint64
ring_bytes (guint64 bytes, guint64 steps, guint64 n)
{
  return bytes / n * steps + (bytes % n * steps + n - 1) / n;
}

/*
 * The tensor as mesh dimension @mesh_dim sees it: cut by every other mesh dimension as it stands,
 * on the first rank, whose shards are the largest.
 */
static void
logical_shape (const Plan *plan, guint mesh_dim, guint64 *out)
{
  guint64 offset[MODEL_SHARD_MAX_DIMS];
  ModelPlacement others[MODEL_SHARD_MAX_DIMS];
  memcpy (others, plan->now, sizeof others);
  others[mesh_dim].kind = MODEL_PLACEMENT_REPLICATE;
  model_shard_local (plan->shape, plan->n_dims, plan->mesh, plan->n_mesh, others, 0, out, offset,
                     NULL, NULL);
}

/*
 * Bytes of @shape with @dim (and @dim2, if it is another) padded to whole chunks, over n ranks;
 * more than MAX_BYTES when that is what they are.
 */
static guint64
padded_bytes (const Plan *plan, const guint64 *shape, guint32 n, gint dim, gint dim2)
{
  guint64 padded[MODEL_SHARD_MAX_DIMS], bytes;
  for (gint i = 0; i < (gint)plan->n_dims; i++)
    if (i != dim && i != dim2)
      padded[i] = shape[i];
    else if (!g_uint64_checked_mul (&padded[i], model_shard_ceil (shape[i], n), n))
      return G_MAXUINT64;
  if (!checked_bytes (padded, plan->n_dims, plan->element_bytes, &bytes))
    return G_MAXUINT64;
  return bytes;
}

static ModelRedistributeKind
kind_of (const ModelPlacement *from, const ModelPlacement *to)
{
  gboolean from_shard = model_placement_is_shard (from), to_shard = model_placement_is_shard (to);
  gboolean from_partial = from->kind == MODEL_PLACEMENT_PARTIAL;
  gboolean to_partial = to->kind == MODEL_PLACEMENT_PARTIAL;
  gboolean plain = to->kind == MODEL_PLACEMENT_SHARD;
  if (from_shard && to->kind == MODEL_PLACEMENT_REPLICATE)
    return MODEL_REDISTRIBUTE_ALL_GATHER;
  if (from_partial && to->kind == MODEL_PLACEMENT_REPLICATE)
    return MODEL_REDISTRIBUTE_ALL_REDUCE;
  if (from_partial && plain)
    return MODEL_REDISTRIBUTE_REDUCE_SCATTER;
  if (from->kind == MODEL_PLACEMENT_SHARD && plain)
    return MODEL_REDISTRIBUTE_ALL_TO_ALL;
  if (from->kind == MODEL_PLACEMENT_REPLICATE && to_shard)
    return MODEL_REDISTRIBUTE_LOCAL_CHUNK;
  if (from->kind == MODEL_PLACEMENT_REPLICATE && to_partial && to->reduce == MODEL_REDUCE_SUM)
    return MODEL_REDISTRIBUTE_LOCAL_DIVIDE;
  return MODEL_REDISTRIBUTE_NONE;
}

/* FALSE if padding takes the tensor out of range. */
static gboolean
bytes_sent (const Plan *plan, ModelRedistributeStep *step, const guint64 *shape)
{
  guint32 n = plan->mesh[step->mesh_dim];
  guint64 bytes = 0, hops = n - 1;
  switch (step->kind) {
  case MODEL_REDISTRIBUTE_ALL_GATHER: /* shards padded to the largest */
    bytes = padded_bytes (plan, shape, n, step->from.dim, -1);
    break;
  case MODEL_REDISTRIBUTE_REDUCE_SCATTER:
    bytes = padded_bytes (plan, shape, n, step->to.dim, -1);
    break;
  case MODEL_REDISTRIBUTE_ALL_REDUCE: /* not padded; there and back */
    bytes = step->logical_bytes;
    hops *= 2;
    break;
  case MODEL_REDISTRIBUTE_ALL_TO_ALL: /* a share of a shard to each of the others */
    bytes = padded_bytes (plan, shape, n, step->from.dim, step->to.dim);
    if (bytes <= MAX_BYTES)
      bytes /= n;
    break;
  default:
    break;
  }
  if (bytes > MAX_BYTES)
    return FALSE;
  step->bytes_sent_per_rank = ring_bytes (bytes, hops, n);
  return TRUE;
}

/* Why @to cannot be reached in one step. Returns: FALSE. */
static gboolean
refuse_step (guint mesh_dim, const ModelPlacement *from, const ModelPlacement *to, GError **error)
{
  g_autofree char *from_text = model_placement_format (from);
  g_autofree char *to_text = model_placement_format (to);
  g_set_error (error, MODEL_ERROR, MODEL_ERROR_UNSUPPORTED,
               "redistribute: mesh dimension %u: no step leads from %s to %s; go through R",
               mesh_dim, from_text, to_text);
  return FALSE;
}

static gboolean
refuse_size (GError **error)
{
  g_set_error (error, MODEL_ERROR, MODEL_ERROR_BAD_VALUE,
               "redistribute: the tensor, padded to equal shards, has more than 2^62 bytes");
  return FALSE;
}

/* Appends the change of one mesh dimension to @to; a dimension of one rank changes for free. */
static gboolean
change (Plan *plan, guint mesh_dim, const ModelPlacement *to, GError **error)
{
  guint64 shape[MODEL_SHARD_MAX_DIMS];
  ModelRedistributeStep step = { .mesh_dim = mesh_dim, .from = plan->now[mesh_dim], .to = *to };
  if (plan->mesh[mesh_dim] > 1) {
    step.kind = kind_of (&step.from, to);
    if (step.kind == MODEL_REDISTRIBUTE_NONE)
      return refuse_step (mesh_dim, &step.from, to, error);
    logical_shape (plan, mesh_dim, shape);
    if (!checked_bytes (shape, plan->n_dims, plan->element_bytes, &step.logical_bytes)
        || !bytes_sent (plan, &step, shape))
      return refuse_size (error);
    g_array_append_val (plan->steps, step);
  }
  plan->now[mesh_dim] = *to;
  return TRUE;
}

/* Do the mesh dimensions before @mesh_dim shard tensor dimension @dim alike now and in the end? */
static gboolean
aligned_before (const Plan *plan, const ModelPlacement *to, guint mesh_dim, gint8 dim)
{
  for (guint i = 0; i < mesh_dim; i++) {
    gboolean now = model_placement_is_shard (&plan->now[i]) && plan->now[i].dim == dim;
    gboolean then = model_placement_is_shard (&to[i]) && to[i].dim == dim;
    if (now != then)
      return FALSE;
  }
  return TRUE;
}

/*
 * Inner to outer: nested shards must be opened from the inside. A dimension whose target shard
 * would lie inside a sharding that has yet to change is replicated first.
 */
static gboolean
open_nested (Plan *plan, const ModelPlacement *to, GError **error)
{
  const ModelPlacement replicate = { .kind = MODEL_PLACEMENT_REPLICATE };
  for (guint i = plan->n_mesh; i-- > 0;) {
    const ModelPlacement *target = &to[i];
    if (model_placement_is_shard (target) && !aligned_before (plan, to, i, target->dim))
      target = &replicate;
    if (!same (&plan->now[i], target) && !change (plan, i, target, error))
      return FALSE;
  }
  return TRUE;
}

static gboolean
is_sharded (const Plan *plan)
{
  for (guint i = 0; i < plan->n_mesh; i++)
    if (model_placement_is_shard (&plan->now[i]) && plan->mesh[i] > 1)
      return TRUE;
  return FALSE;
}

/* Opens what is nested, then brings every mesh dimension to its target, outer to inner. */
static gboolean
make_plan (Plan *plan, const ModelPlacement *to, GError **error)
{
  if (plan->n_mesh > 1 && is_sharded (plan) && !open_nested (plan, to, error))
    return FALSE;
  for (guint i = 0; i < plan->n_mesh; i++)
    if (!same (&plan->now[i], &to[i]) && !change (plan, i, &to[i], error))
      return FALSE;
  return TRUE;
}

GArray *
model_redistribute_plan (const guint64 *shape, guint n_dims, guint64 element_bytes,
                         const guint32 *mesh, guint n_mesh, const ModelPlacement *from,
                         const ModelPlacement *to, GError **error)
{
  guint64 bytes;
  if (!model_shard_check (shape, n_dims, mesh, n_mesh, from, error)
      || !model_shard_check (shape, n_dims, mesh, n_mesh, to, error))
    return NULL;
  if (!checked_bytes (shape, n_dims, element_bytes, &bytes)) {
    refuse_size (error);
    return NULL;
  }
  g_autoptr (GArray) steps = g_array_new (FALSE, TRUE, sizeof (ModelRedistributeStep));
  Plan plan = { .shape = shape,
                .n_dims = n_dims,
                .element_bytes = element_bytes,
                .mesh = mesh,
                .n_mesh = n_mesh,
                .steps = steps };
  memcpy (plan.now, from, n_mesh * sizeof *from);
  if (!make_plan (&plan, to, error))
    return NULL;
  return g_steal_pointer (&steps);
}
