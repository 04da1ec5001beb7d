/* app/collective.c - a group that fills the first ranks of a machine, priced size by size. */
#include "app/collective.h"

#include "base/suggest.h"
#include "costmodel/collective_spread.h"
#include "topo/cluster.h"

#include <string.h>

static const struct {
  const char *name;
  ModelCollectiveKind kind;
} ops[] = {
  { "all_reduce", MODEL_COLLECTIVE_ALL_REDUCE },
  { "all_gather", MODEL_COLLECTIVE_ALL_GATHER },
  { "reduce_scatter", MODEL_COLLECTIVE_REDUCE_SCATTER },
  { "alltoall", MODEL_COLLECTIVE_ALL_TO_ALL },
  { "broadcast", MODEL_COLLECTIVE_BROADCAST },
  { "reduce", MODEL_COLLECTIVE_REDUCE },
  { "sendrecv", MODEL_COLLECTIVE_SEND_RECV },
};

/* NCCL's tuning model: LL carries 4 bytes of data in 8, LL128 120 in 128 (and reaches .92). */
static const struct {
  const char *name;
  double wire_factor;
} protocols[] = { { "auto", 1 }, { "ll", 2 }, { "ll128", 1 / 0.92 }, { "simple", 1 } };

static const char *const algorithms[]
    = { "auto", "ring", "tree", "nvls", "nvlstree", "pat", "direct", "sharp", "host", NULL };

static gboolean
find_op (const char *name, guint *out, GError **error)
{
  const char *names[G_N_ELEMENTS (ops) + 1] = { NULL };
  const char *near = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (ops); i++) {
    names[i] = ops[i].name;
    if (g_str_equal (name, ops[i].name)) {
      *out = i;
      return TRUE;
    }
  }
  near = base_suggest (name, names);
  g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
               "--op is '%s': expected all_reduce, all_gather, reduce_scatter, alltoall, "
               "broadcast, reduce or sendrecv%s%s%s",
               name, near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
               near != NULL ? "'?" : "");
  return FALSE;
}

static gboolean
find_protocol (const char *name, guint *out, GError **error)
{
  *out = 0;
  for (guint i = 0; name != NULL && i < G_N_ELEMENTS (protocols); i++)
    if (g_str_equal (name, protocols[i].name)) {
      *out = i;
      return TRUE;
    }
  if (name == NULL)
    return TRUE;
  g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
               "--proto is '%s': expected ll, ll128, simple or auto", name);
  return FALSE;
}

static gboolean
check_algorithm (const char *name, GError **error)
{
  if (name == NULL || g_strv_contains (algorithms, name))
    return TRUE;
  g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
               "--algo is '%s': expected ring, tree, nvls, nvlstree, pat, direct, sharp, host or "
               "auto",
               name);
  return FALSE;
}

/* TRUE where neither the link class nor the fabric is a default. */
static gboolean
is_measured (const CostNumbers *numbers)
{
  for (guint i = 0; i < numbers->assumed->len; i++) {
    const char *note = g_ptr_array_index (numbers->assumed, i);

    if (g_str_has_prefix (note, "link") || g_str_has_prefix (note, "fabric"))
      return FALSE;
  }
  return TRUE;
}

static gboolean
price (const AppCollectiveRequest *request, const CostGroup *group, guint op, guint protocol,
       gboolean over_nodes, gboolean measured, AppCollective *out, GError **error)
{
  ModelCollectiveKind kind = ops[op].kind;
  gboolean chosen = request->algo != NULL && !g_str_equal (request->algo, "auto");

  for (guint i = 0; i < request->bytes->len; i++) {
    AppCollectiveSize size = { .bytes = g_array_index (request->bytes, guint64, i) };
    const CostWay *way
        = cost_collective_way (group, kind, (double)size.bytes, chosen ? request->algo : NULL);
    double p10 = 1, p90 = 1;
    CostWay forced;

    if (way == NULL) {
      g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
                   "--algo %s is no way that %s of %" G_GUINT64_FORMAT " ranks is done on '%s' in "
                   "this model: leave it out for the fastest",
                   chosen ? request->algo : "auto", ops[op].name, out->ranks, out->machine);
      return FALSE;
    }
    forced = *way;
    forced.wire_s_per_byte *= protocols[protocol].wire_factor;
    size.time_s = cost_way_s (&forced, (double)size.bytes);
    size.algorithm = way->algorithm;
    cost_collective_spread ((double)size.bytes, over_nodes, measured, &p10, &p90);
    size.time_s_p10 = size.time_s * p10;
    size.time_s_p90 = size.time_s * p90;
    size.algbw_bytes_per_s = size.time_s > 0 ? (double)size.bytes / size.time_s : 0;
    size.busbw_bytes_per_s
        = size.algbw_bytes_per_s * cost_collective_bus_factor (kind, (guint32)out->ranks);
    g_array_append_val (out->sizes, size);
  }
  return TRUE;
}

AppCollective *
app_collective (const AppCollectiveRequest *request, GError **error)
{
  g_autoptr (BaseCatalog) catalog = NULL;
  g_autoptr (TopoMachine) machine = NULL;
  g_autoptr (CostCalibration) calibration = NULL;
  g_auto (CostNumbers) numbers = { 0 };
  g_autoptr (AppCollective) out = g_new0 (AppCollective, 1);
  guint op = 0, protocol = 0;
  TopoCluster cluster;
  TopoGroupShape shape;
  CostGroup group;

  if (!find_op (request->op, &op, error) || !find_protocol (request->proto, &protocol, error)
      || !check_algorithm (request->algo, error))
    return NULL;
  catalog = base_catalog_new (request->catalog_dir, error);
  if (catalog != NULL)
    machine = topo_machine_load (catalog, request->machine, request->gpu, error);
  if (machine == NULL || !topo_cluster_init (&cluster, machine, request->ranks, error))
    return NULL;
  calibration
      = cost_calibration_load (catalog,
                               request->calibration != NULL ? request->calibration : "default",
                               error);
  if (calibration == NULL || !cost_numbers_init (&numbers, calibration, machine, "generic", error))
    return NULL;
  cost_numbers_alone (&numbers);
  topo_group_shape (machine, (guint32)request->ranks, 1, (guint32)request->ranks, &shape);
  cost_group_init (&group, &numbers, &shape);
  out->machine = g_strdup (machine->slug);
  out->ranks = request->ranks;
  out->op = ops[op].name;
  out->protocol = protocols[protocol].name;
  out->bottleneck = topo_group_bottleneck (machine, &shape);
  out->sizes = g_array_new (FALSE, FALSE, sizeof (AppCollectiveSize));
  if (!price (request, &group, op, protocol, shape.domains > 1, is_measured (&numbers), out, error))
    return NULL;
  return g_steal_pointer (&out);
}

void
app_collective_free (AppCollective *collective)
{
  if (collective == NULL)
    return;
  g_free (collective->machine);
  g_free (collective->bottleneck);
  g_clear_pointer (&collective->sizes, g_array_unref);
  g_free (collective);
}
