/* app/shard.c - DTensor arithmetic for the command line. */
#include "app/shard.h"

#include "app/problem.h"
#include "base/suggest.h"
#include "base/units.h"
#include "costmodel/collective.h"
#include "model/dtype.h"

#include <math.h>

#define MAX_RANKS 65536

static gboolean
parse_sizes (const char *what, const char *text, guint64 max, guint64 *out, guint *out_n,
             GError **error)
{
  g_auto (GStrv) items = g_strsplit (text, "x", -1);
  guint n = g_strv_length (items);

  if (n == 0 || n > MODEL_SHARD_MAX_DIMS) {
    g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
                 "%s: found '%s', expected 1 to %d sizes such as 1024x512", what, text,
                 MODEL_SHARD_MAX_DIMS);
    return FALSE;
  }
  for (guint i = 0; i < n; i++)
    if (!base_units_parse_count (items[i], 1, max, &out[i], error)) {
      g_prefix_error (error, "%s: ", what);
      return FALSE;
    }
  *out_n = n;
  return TRUE;
}

static gboolean
parse_mesh (const char *text, guint32 *out, guint *out_n, guint32 *out_ranks, GError **error)
{
  guint64 sizes[MODEL_SHARD_MAX_DIMS];
  guint64 ranks = 1;

  if (!parse_sizes ("--mesh", text, MAX_RANKS, sizes, out_n, error))
    return FALSE;
  for (guint i = 0; i < *out_n; i++) {
    out[i] = (guint32)sizes[i];
    ranks *= sizes[i];
    if (ranks > MAX_RANKS) {
      g_set_error (error, APP_ERROR, APP_ERROR_USAGE, "--mesh: '%s' has more than %d ranks", text,
                   MAX_RANKS);
      return FALSE;
    }
  }
  *out_ranks = (guint32)ranks;
  return TRUE;
}

static gboolean
parse_placements (const char *what, const char *text, guint n_dims, guint n_mesh,
                  ModelPlacement *out, GError **error)
{
  guint n = 0;

  if (!model_placements_parse (text, n_dims, out, MODEL_SHARD_MAX_DIMS, &n, error)) {
    g_prefix_error (error, "%s: ", what);
    return FALSE;
  }
  if (n == n_mesh)
    return TRUE;
  g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
               "%s: found %u placements for %u mesh dimensions: give one for each", what, n,
               n_mesh);
  return FALSE;
}

static ModelCollectiveKind
collective_of (ModelRedistributeKind kind)
{
  switch (kind) {
  case MODEL_REDISTRIBUTE_ALL_REDUCE:
    return MODEL_COLLECTIVE_ALL_REDUCE;
  case MODEL_REDISTRIBUTE_REDUCE_SCATTER:
    return MODEL_COLLECTIVE_REDUCE_SCATTER;
  case MODEL_REDISTRIBUTE_ALL_TO_ALL:
    return MODEL_COLLECTIVE_ALL_TO_ALL;
  default:
    return MODEL_COLLECTIVE_ALL_GATHER;
  }
}

/* Seconds of the steps, one after the other, on the machine's links. */
static gboolean
price (AppShard *shard, const char *catalog_dir, const char *machine_name, const guint32 *mesh,
       GError **error)
{
  g_autoptr (BaseCatalog) catalog = base_catalog_new (catalog_dir, error);
  g_autoptr (TopoMachine) machine = NULL;
  g_autoptr (CostCalibration) calibration = NULL;
  g_auto (CostNumbers) numbers = { 0 };
  TopoCluster cluster;

  if (catalog == NULL)
    return FALSE;
  const AppInputs inputs = { .machine = machine_name, .live_ranks = shard->n_ranks };
  machine = app_machine_load (catalog, &inputs, error);
  if (machine == NULL || !topo_cluster_init (&cluster, machine, shard->n_ranks, error))
    return FALSE;
  calibration = cost_calibration_load (catalog, "default", error);
  if (calibration == NULL || !cost_numbers_init (&numbers, calibration, machine, "generic", error))
    return FALSE;
  cost_numbers_alone (&numbers);
  shard->time_s = 0;
  for (guint i = 0; i < shard->steps->len; i++) {
    const ModelRedistributeStep *step = &g_array_index (shard->steps, ModelRedistributeStep, i);
    guint32 stride = 1;
    TopoGroupShape shape;
    CostGroup group;

    if (step->bytes_sent_per_rank == 0)
      continue;
    for (guint d = step->mesh_dim + 1; d < shard->n_mesh; d++)
      stride *= mesh[d];
    topo_group_shape (machine, shard->n_ranks, stride, mesh[step->mesh_dim], &shape);
    cost_group_init (&group, &numbers, &shape);
    shard->time_s
        += cost_collective_s (&group, collective_of (step->kind), (double)step->logical_bytes);
  }
  return TRUE;
}

static gboolean
fill_ranks (AppShard *shard, const guint64 *shape, const guint32 *mesh,
            const ModelPlacement *placements, GError **error)
{
  shard->ranks = g_new0 (AppShardRank, shard->n_ranks);
  for (guint32 rank = 0; rank < shard->n_ranks; rank++) {
    AppShardRank *row = &shard->ranks[rank];
    guint32 rest = rank;

    for (guint d = shard->n_mesh; d-- > 0;) {
      row->coordinates[d] = rest % mesh[d];
      rest /= mesh[d];
    }
    if (!model_shard_local (shape, shard->n_dims, mesh, shard->n_mesh, placements, rank,
                            row->local_shape, row->offset, NULL, error))
      return FALSE;
  }
  return TRUE;
}

/* Elements that are addressed one by one: whole bytes. */
static gboolean
parse_dtype (const char *text, ModelDtype *out, GError **error)
{
  if (text == NULL)
    return TRUE;
  gint dtype = base_name_index (text, model_dtype_names);
  if (dtype >= 0 && model_dtype_bits ((ModelDtype)dtype) >= 8) {
    *out = (ModelDtype)dtype;
    return TRUE;
  }
  const char *names[MODEL_DTYPE_N_KINDS + 1] = { NULL };
  for (guint i = 0, n = 0; model_dtype_names[i] != NULL; i++)
    if (model_dtype_bits ((ModelDtype)i) >= 8)
      names[n++] = model_dtype_names[i];
  g_autofree char *expected = base_suggest_one_of (text, names);
  g_set_error (error, APP_ERROR, APP_ERROR_USAGE, "--dtype: found '%s', expected %s", text,
               expected);
  return FALSE;
}

AppShard *
app_shard_new (const char *catalog_dir, const char *shape_text, const char *mesh_text,
               const char *placements_text, const char *to_text, const char *dtype_text,
               const char *machine, GError **error)
{
  g_autoptr (AppShard) shard = g_new0 (AppShard, 1);
  guint64 shape[MODEL_SHARD_MAX_DIMS];
  guint32 mesh[MODEL_SHARD_MAX_DIMS];
  ModelPlacement from[MODEL_SHARD_MAX_DIMS];
  ModelPlacement to[MODEL_SHARD_MAX_DIMS];
  ModelDtype dtype = MODEL_DTYPE_BF16;

  shard->time_s = NAN;
  if (!parse_sizes ("--shape", shape_text, G_GUINT64_CONSTANT (1) << 40, shape, &shard->n_dims,
                    error)
      || !parse_mesh (mesh_text, mesh, &shard->n_mesh, &shard->n_ranks, error)
      || !parse_placements ("--placements", placements_text, shard->n_dims, shard->n_mesh, from,
                            error))
    return NULL;
  if (!parse_dtype (dtype_text, &dtype, error) || !fill_ranks (shard, shape, mesh, from, error))
    return NULL;
  if (to_text == NULL)
    return g_steal_pointer (&shard);
  if (!parse_placements ("--to", to_text, shard->n_dims, shard->n_mesh, to, error))
    return NULL;
  shard->steps = model_redistribute_plan (shape, shard->n_dims, model_dtype_bits (dtype) / 8, mesh,
                                          shard->n_mesh, from, to, error);
  if (shard->steps == NULL
      || (machine != NULL && !price (shard, catalog_dir, machine, mesh, error)))
    return NULL;
  return g_steal_pointer (&shard);
}

void
app_shard_free (AppShard *shard)
{
  if (shard == NULL)
    return;
  g_free (shard->ranks);
  g_clear_pointer (&shard->steps, g_array_unref);
  g_free (shard);
}

const char *
app_shard_step_name (ModelRedistributeKind kind)
{
  static const char *const names[] = { "none",       "local_chunk",    "local_divide", "all_gather",
                                       "all_reduce", "reduce_scatter", "all_to_all" };

  return names[kind];
}
