/* app/collective.c - a group that fills the first ranks of a machine, priced size by size. */
#include "app/collective.h"

#include "app/calibration_source.h"
#include "base/suggest.h"
#include "costmodel/collective.h"
#include "topo/cluster.h"

#include <string.h>

static const char *const protocols[] = { "auto", "ll", "ll128", "simple", NULL };

static const char *const algorithms[]
    = { "auto", "ring", "tree", "nvls", "nvlstree", "pat", "direct", "sharp", "host", NULL };

/* Place of @name in @names, or an error that names @option. */
static gboolean
find_word (const char *option, const char *name, const char *const *names, gint *out,
           GError **error)
{
  *out = name != NULL ? base_name_index (name, names) : 0;
  if (*out >= 0)
    return TRUE;
  g_autofree char *expected = base_suggest_one_of (name, names);
  g_set_error (error, APP_ERROR, APP_ERROR_USAGE, "%s is '%s': expected %s", option, name,
               expected);
  return FALSE;
}

/* NULL where @name leaves the choice to the model. */
static const char *
unless_auto (const char *name)
{
  return name != NULL && !g_str_equal (name, "auto") ? name : NULL;
}

typedef struct {
  const AppCollectiveRequest *request;
  const CostNumbers *numbers;
  const TopoGroupShape *shape;
  ModelCollectiveKind kind;
} Pricing;

static gboolean
is_host (const AppCollectiveRequest *request)
{
  return request->algo != NULL && g_str_equal (request->algo, "host");
}

/* Nothing is forced: what was measured on the machine answers. */
static gboolean
is_free (const AppCollectiveRequest *request)
{
  return unless_auto (request->algo) == NULL && unless_auto (request->proto) == NULL;
}

/* What was asked for: the model's choice, one of its ways, or one that is never chosen (@forced). */
static const CostWay *
find_way (const Pricing *pricing, const CostGroup *group, double bytes, CostWay *forced)
{
  const char *algo = unless_auto (pricing->request->algo);
  const char *proto = unless_auto (pricing->request->proto);

  if (is_host (pricing->request)) /* through host memory: rings over another link */
    algo = NULL;
  if (algo != NULL && (proto == NULL || g_str_equal (proto, "simple"))
      && cost_way_init_forced (forced, pricing->numbers, pricing->shape, pricing->kind, algo))
    return forced;
  return cost_collective_way (group, pricing->kind, bytes, algo, proto);
}

static gboolean
price_size (const Pricing *pricing, const CostGroup *group, AppCollectiveSize *size,
            const AppCollective *out, GError **error)
{
  const AppCollectiveRequest *request = pricing->request;
  ModelCollectiveKind kind = pricing->kind;
  double bytes = (double)size->bytes, low = 1, high = 1;
  CostWay forced;
  const CostWay *way = find_way (pricing, group, bytes, &forced);
  if (way == NULL) {
    g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
                 "--algo %s, --proto %s is no way that %s of %" G_GUINT64_FORMAT
                 " ranks is done on '%s' in this model: leave them out for the fastest",
                 request->algo != NULL ? request->algo : "auto",
                 request->proto != NULL ? request->proto : "auto", model_collective_name (kind),
                 out->ranks, out->machine);
    return FALSE;
  }
  size->time_s = cost_way_s (way, bytes);
  if (is_free (request) && group->curves[kind] != NULL) {
    size->time_s = cost_collective_s (group, kind, bytes);
    size->is_measured = cost_curve_covers (group->curves[kind], bytes);
  }
  size->algorithm = is_host (request) ? "host" : way->algorithm;
  size->protocol = way->protocol;
  cost_collective_spread (pricing->numbers, size->is_measured ? NULL : pricing->shape, bytes, &low,
                          &high);
  size->time_s_p10 = size->time_s * low;
  size->time_s_p90 = size->time_s * high;
  size->algbw_bytes_per_s = size->time_s > 0 ? bytes / size->time_s : 0;
  size->busbw_bytes_per_s
      = size->algbw_bytes_per_s * cost_collective_bus_factor (kind, (guint32)out->ranks);
  return TRUE;
}

static gboolean
price (const Pricing *pricing, AppCollective *out, GError **error)
{
  const GArray *bytes = pricing->request->bytes;
  CostGroup group;

  cost_group_init (&group, pricing->numbers, pricing->shape);
  for (guint i = 0; i < bytes->len; i++) {
    AppCollectiveSize size = { .bytes = g_array_index (bytes, guint64, i) };

    if (!price_size (pricing, &group, &size, out, error))
      return FALSE;
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
  gint op = 0, proto = 0, algo = 0;
  TopoCluster cluster;
  TopoGroupShape shape;

  if (!find_word ("--op", request->op, model_collective_names, &op, error)
      || !find_word ("--proto", request->proto, protocols, &proto, error)
      || !find_word ("--algo", request->algo, algorithms, &algo, error))
    return NULL;
  catalog = base_catalog_new (request->inputs.catalog_dir, error);
  if (catalog != NULL)
    machine = app_machine_load (catalog, &request->inputs, error);
  if (machine == NULL || !topo_cluster_init (&cluster, machine, request->ranks, error))
    return NULL;
  calibration = app_calibration_load (catalog, request->inputs.calibration, request->inputs.db_path,
                                      machine, error);
  if (calibration == NULL || !cost_numbers_init (&numbers, calibration, machine, "generic", error))
    return NULL;
  cost_numbers_alone (&numbers);
  topo_group_shape (machine, (guint32)request->ranks, 1, (guint32)request->ranks, &shape);
  if (is_host (request) && !topo_group_shape_through_host (machine, &shape)) {
    g_set_error (error, APP_ERROR, APP_ERROR_USAGE,
                 "--algo host: '%s' states no PCIe that joins these ranks through host memory",
                 machine->slug);
    return NULL;
  }
  out->machine = g_strdup (machine->slug);
  out->ranks = request->ranks;
  out->op = model_collective_name ((ModelCollectiveKind)op);
  out->bottleneck = topo_group_bottleneck (machine, &shape);
  out->sizes = g_array_new (FALSE, FALSE, sizeof (AppCollectiveSize));
  if (!price (&(Pricing){ request, &numbers, &shape, (ModelCollectiveKind)op }, out, error))
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
