/* topo/machine.c - reads a machine file and owns what it says. */
#include "topo/change-private.h"
#include "topo/contention.h"
#include "topo/gpu-private.h"
#include "topo/machine-private.h"
#include <math.h>
#include <string.h>

#define MAX_DOMAIN 65536

void
topo_machine_free (TopoMachine *machine)
{
  if (machine == NULL)
    return;
  g_free (machine->slug);
  g_free (machine->name);
  topo_gpu_free (machine->gpu);
  g_free (machine->nics);
  g_free (machine->price_as_of);
  g_free (machine->price_source);
  g_free (machine->direct_count);
  g_free (machine->islands);
  g_free (machine->fewer_links);
  g_free (machine->gpu_numa);
  g_free (machine->gpu_switch);
  g_free (machine->subsets);
  g_clear_pointer (&machine->curves, g_array_unref);
  topo_graph_free (machine->graph);
  topo_paths_free (machine->paths);
  g_strfreev (machine->assumed);
  g_free (machine->source);
  g_free (machine);
}

void
machine_assume (TopoMachine *machine, const char *format, ...)
{
  guint n = g_strv_length (machine->assumed);
  va_list arguments;
  va_start (arguments, format);
  machine->assumed = g_renew (char *, machine->assumed, n + 2);
  machine->assumed[n] = g_strdup_vprintf (format, arguments);
  machine->assumed[n + 1] = NULL;
  va_end (arguments);
}

static gboolean
read_price (BaseIni *ini, TopoMachine *machine, GError **error)
{
  machine->price_usd_per_gpu_hour = NAN;
  if (!base_ini_has_group (ini, "price"))
    return TRUE;
  const char *as_of, *source;
  if (!base_ini_get_number (ini, "price", "per_gpu_hour", BASE_DIM_USD_PER_HOUR, 0, 1e6,
                            &machine->price_usd_per_gpu_hour, error)
      || (as_of = base_ini_get_string (ini, "price", "as_of", error)) == NULL
      || (source = base_ini_get_string (ini, "price", "source", error)) == NULL)
    return FALSE;
  machine->price_as_of = g_strdup (as_of);
  machine->price_source = g_strdup (source);
  return TRUE;
}

static gboolean
read_identity (BaseIni *ini, TopoMachine *machine, GError **error)
{
  guint64 per_node = 0, domain = 0;
  /* A dump of a host without GPUs is a machine to look at. */
  guint64 fewest = topo_gpu_is_unknown (machine->gpu) ? 0 : 1;
  const char *name, *source;
  machine->power_limit_ratio = machine->oversubscription_ratio = 1;
  base_ini_mark_used (ini, "machine", "gpu");
  if ((name = base_ini_get_string (ini, "machine", "name", error)) == NULL
      || !base_ini_get_count (ini, "machine", "gpus_per_node", fewest, TOPO_MAX_GPUS_PER_NODE,
                              &per_node, error)
      || !base_ini_get_number_optional (ini, "machine", "power_limit_ratio", BASE_DIM_RATIO, 0.05,
                                        1, &machine->power_limit_ratio, error)
      || (source = base_ini_get_string (ini, "machine", "source", error)) == NULL)
    return FALSE;
  const char *assumed = base_ini_get_string_or (ini, "machine", "assumed", NULL);
  if (assumed != NULL)
    machine_assume (machine, "%s", assumed);
  machine->name = g_strdup (name);
  machine->source = g_strdup (source);
  domain = per_node;
  if (!base_ini_get_count_optional (ini, "machine", "domain", fewest, MAX_DOMAIN, &domain, error))
    return FALSE;
  if (per_node == 0 ? domain != 0 : domain % per_node != 0) {
    base_ini_set_error (ini, "machine", "domain", error,
                        "found %" G_GUINT64_FORMAT
                        ", expected a multiple of gpus_per_node (%" G_GUINT64_FORMAT ")",
                        domain, per_node);
    return FALSE;
  }
  machine->gpus_per_node = (guint32)per_node;
  machine->domain_size = (guint32)domain;
  return TRUE;
}

/* Only a switch or torus joins nodes into one domain. */
static gboolean
check_domain (BaseIni *ini, const TopoMachine *machine, GError **error)
{
  if (machine->domain_size == machine->gpus_per_node || machine->wiring == TOPO_WIRING_SWITCH
      || machine->wiring == TOPO_WIRING_TORUS)
    return TRUE;
  base_ini_set_error (ini, "machine", "domain", error,
                      "found %u, expected gpus_per_node (%u): only a switch or torus joins nodes",
                      machine->domain_size, machine->gpus_per_node);
  return FALSE;
}

TopoMachine *
topo_machine_new_from_ini (const BaseCatalog *catalog, BaseIni *ini, const char *slug, TopoGpu *gpu,
                           GError **error)
{
  /* clang-format off */
  static const char *const known_keys[]
      = { "name",          "gpu",          "gpus_per_node",  "domain",         "power_limit_ratio",
          "source",        "wiring",       "nvls",           "kind",           "pairs",
          "links_per_gpu", "link_rate",    "generation",     "links_per_pair", "uplink_generation",
          "lanes",         "p2p",          "inter_socket",   "socket",         "numa",
          "gpus",          "nics",         "fabric",         "nic_rate",       "serves",
          "joined",        "fewer",        "cpu_rate",       "parent",         "bridge",
          "names",         "nic_rates",    "nic_generation", "nic_lanes",      "uplink_lanes",
          "rails",         "per_gpu_hour", "assumed",        "as_of",
          "oversubscription_ratio",        "points",        NULL };
  /* clang-format on */
  g_autoptr (TopoMachine) machine = g_new0 (TopoMachine, 1);
  g_auto (MachineLayout) layout;
  TopoLinkFacts facts;
  machine_layout_init (&layout);
  machine->slug = g_strdup (slug);
  machine->gpu = gpu;
  machine->assumed = g_new0 (char *, 1);
  if (!topo_link_facts_init (&facts, catalog, error) || !read_identity (ini, machine, error)
      || !machine_read_links (ini, &facts, machine, &layout, error)
      || !check_domain (ini, machine, error) || !machine_read_network (ini, machine, &layout, error)
      || !machine_read_pcie (ini, &facts, machine, &layout, error)
      || !read_price (ini, machine, error) || !machine_read_measured (ini, machine, error)
      || !base_ini_finish (ini, known_keys, error))
    return NULL;
  if (machine_build_graph (machine, &layout, error)) {
    machine_fill_subsets (machine);
    if (topo_machine_fill_paths (machine, error))
      return g_steal_pointer (&machine);
  }
  g_prefix_error (error, "%s: ", base_ini_name (ini));
  return NULL;
}

static TopoGpu *
load_gpu_of (BaseIni *ini, const BaseCatalog *catalog, const char *gpu_name,
             gboolean may_be_unknown, GError **error)
{
  const char *own = base_ini_get_string (ini, "machine", "gpu", error);
  TopoGpu *gpu = NULL;
  if (own == NULL)
    return NULL;
  if (gpu_name == NULL && strcmp (own, "unknown") == 0) {
    if (may_be_unknown)
      return topo_gpu_new_unknown ();
    base_ini_set_error (ini, "machine", "gpu", error,
                        "found 'unknown', expected a GPU of the catalog, there or with --gpu");
    return NULL;
  }
  if ((gpu = topo_gpu_load (catalog, gpu_name != NULL ? gpu_name : own, error)) == NULL
      && gpu_name == NULL)
    g_prefix_error (error, "%s:%u: [machine] gpu: ", base_ini_name (ini),
                    base_ini_line (ini, "machine", "gpu"));
  return gpu;
}

static TopoMachine *
load_machine (const BaseCatalog *catalog, const char *name, const char *gpu_name,
              gboolean may_be_unknown, const TopoChanges *changes, GError **error)
{
  gboolean is_file = FALSE;
  g_autoptr (BaseIni) ini = base_catalog_open_any (catalog, "machines", name, &is_file, error);
  if (ini == NULL)
    return NULL;
  TopoGpu *gpu = load_gpu_of (ini, catalog, gpu_name, may_be_unknown, error);
  if (gpu == NULL)
    return NULL;
  if (changes != NULL
      && (!topo_change_gpu (gpu, changes, catalog, error)
          || !topo_change_file (ini, changes, error))) {
    topo_gpu_free (gpu);
    return NULL;
  }
  g_autofree char *slug = is_file ? topo_slug_of_file (name) : g_strdup (name);
  TopoMachine *machine = topo_machine_new_from_ini (catalog, ini, slug, gpu, error);
  if (machine != NULL && changes != NULL)
    topo_change_note (machine, changes);
  return machine;
}

TopoMachine *
topo_machine_load_changed (const BaseCatalog *catalog, const char *name, const char *gpu_name,
                           const TopoChanges *changes, GError **error)
{
  return load_machine (catalog, name, gpu_name, FALSE, changes, error);
}

TopoMachine *
topo_machine_load (const BaseCatalog *catalog, const char *name, const char *gpu_name,
                   GError **error)
{
  return load_machine (catalog, name, gpu_name, FALSE, NULL, error);
}

TopoMachine *
topo_machine_load_unfinished (const BaseCatalog *catalog, const char *name, const char *gpu_name,
                              GError **error)
{
  return load_machine (catalog, name, gpu_name, TRUE, NULL, error);
}

GPtrArray *
topo_machine_load_all (const BaseCatalog *catalog, GError **error)
{
  g_autoptr (GPtrArray) machines
      = g_ptr_array_new_with_free_func ((GDestroyNotify)topo_machine_free);
  g_auto (GStrv) slugs = base_catalog_list (catalog, "machines");
  for (char **slug = slugs; *slug != NULL; slug++) {
    TopoMachine *machine = topo_machine_load (catalog, *slug, NULL, error);
    if (machine == NULL)
      return NULL;
    g_ptr_array_add (machines, machine);
  }
  return g_steal_pointer (&machines);
}
