/* topo/reading_finish.c - from a sketch to a machine: the GPU's model, the machine file, and all
 * that had to be inferred, in words. */
#include "topo/reading-private.h"
#include <math.h>
#include <string.h>

static const TopoGpu *
find_by_pci_id (const TopoGpuTable *table, const char *pci_id)
{
  for (guint i = 0; pci_id != NULL && i < topo_gpu_table_size (table); i++) {
    const TopoGpu *gpu = topo_gpu_table_get (table, i);
    if (g_strv_contains ((const char *const *)gpu->pci_ids, pci_id))
      return gpu;
  }
  return NULL;
}

/* Model by PCI id, then by product name. *out: (owned), NULL where the catalog has neither. FALSE:
 * the catalog cannot be read. */
static gboolean
guess_gpu (TopoReading *reading, const Sketch *sketch, const BaseCatalog *catalog, TopoGpu **out,
           GError **error)
{
  *out = NULL;
  if (sketch->gpu_pci_id == NULL && sketch->gpu_product == NULL)
    return TRUE;
  g_autoptr (TopoGpuTable) table = topo_gpu_table_new (catalog, error);
  if (table == NULL)
    return FALSE;
  const TopoGpu *found = find_by_pci_id (table, sketch->gpu_pci_id);
  if (found != NULL)
    reading_assume (reading, "gpu", "%s, by its PCI id %s", found->slug, sketch->gpu_pci_id);
  else if (sketch->gpu_product != NULL
           && (found = topo_gpu_table_find (table, sketch->gpu_product, NULL)) != NULL)
    reading_assume (reading, "gpu", "%s, by its name %s", found->slug, sketch->gpu_product);
  if (found == NULL)
    return TRUE;
  *out = topo_gpu_load (catalog, found->slug, error);
  return *out != NULL;
}

static void
say_gpu_unknown (TopoReading *reading, const Sketch *sketch)
{
  const char *named = sketch->gpu_product != NULL ? sketch->gpu_product : sketch->gpu_pci_id;
  if (sketch->n_gpus == 0)
    reading_assume (reading, "gpu", "none: the description shows no GPUs");
  else if (named != NULL)
    reading_assume (reading, "gpu", "unknown: '%s' is not in the catalog; give --gpu", named);
  else
    reading_assume (reading, "gpu", "unknown: the file does not name the model; give --gpu");
}

/* Sets *out (owned, NULL when unknown). */
static gboolean
resolve_gpu (TopoReading *reading, const Sketch *sketch, const TopoReadOptions *options,
             BaseIni *base, TopoGpu **out, GError **error)
{
  const char *name = options->gpu;
  *out = NULL;
  if (sketch->n_gpus == 0 && name != NULL) {
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_NOT_FOUND,
                 "found no GPUs, but --gpu names a model: '%s'", name);
    return FALSE;
  }
  if (name == NULL && base != NULL
      && (name = base_ini_get_string (base, "machine", "gpu", error)) == NULL)
    return FALSE;
  if (name != NULL && strcmp (name, "unknown") != 0)
    return (*out = topo_gpu_load (options->catalog, name, error)) != NULL;
  if (sketch->n_gpus > 0 && !guess_gpu (reading, sketch, options->catalog, out, error))
    return FALSE;
  if (*out == NULL)
    say_gpu_unknown (reading, sketch);
  return TRUE;
}

/*
 * hwloc states rates, not links. Counted in 25 GB/s they come out double for NVLink 5, and for
 * NVLink 3 and 4 as hwloc before 2.9.1 wrote them: halved when the card has no more.
 */
static void
halve_links (TopoReading *reading, Sketch *sketch, const TopoGpu *gpu, SketchWiring *wiring)
{
  guint most = gpu != NULL ? (gpu->has_direct ? gpu->direct_links : 0)
                           : topo_link_facts_most_links (&sketch->facts);
  gboolean by_rates
      = reading->format == TOPO_FORMAT_HWLOC_XML || reading->format == TOPO_FORMAT_LIVE;
  if (!by_rates || most == 0)
    return;
  gboolean too_many = wiring->wiring != TOPO_WIRING_NONE && wiring->links_per_gpu > most;
  for (guint i = 0; i < sketch->n_gpus; i++)
    for (guint j = 0; j < sketch->n_gpus; j++)
      too_many = too_many && sketch->links[i][j] % 2 == 0 && sketch->switch_links[i] % 2 == 0;
  if (!too_many)
    return;
  for (guint i = 0; i < sketch->n_gpus; i++) {
    sketch->switch_links[i] /= 2;
    for (guint j = 0; j < sketch->n_gpus; j++)
      sketch->links[i][j] /= 2;
  }
  if (gpu == NULL)
    sketch->link_bytes_per_s = NAN;
  reading_assume (reading, "link_counts",
                  "halved: at 25 GB/s each a GPU would have more links than a card can (%u)", most);
  sketch_wiring (sketch, gpu != NULL ? gpu->direct_links : 0, wiring);
}

/* A card cannot have more links than its model. */
static gboolean
check_links (const Sketch *sketch, const TopoGpu *gpu, const SketchWiring *wiring, GError **error)
{
  guint most = gpu->has_direct ? gpu->direct_links : 0;
  if (wiring->wiring == TOPO_WIRING_NONE || wiring->links_per_gpu <= most)
    return TRUE;
  g_set_error (error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE,
               "found %u %s links at one GPU, but '%s' has %u: give the model that is there with "
               "--gpu",
               wiring->links_per_gpu, sketch->direct == TOPO_LINK_XGMI ? "XGMI" : "NVLink",
               gpu->slug, most);
  return FALSE;
}

static void
say_wiring (TopoReading *reading, const Sketch *sketch, const SketchWiring *wiring)
{
  if (sketch->n_gpus < 2)
    return;
  if (!sketch->links_seen) {
    reading_assume (reading, "links", "unknown: this file does not show NVLink; give --machine");
    return;
  }
  if (wiring->wiring == TOPO_WIRING_NONE && reading->format == TOPO_FORMAT_SMI_TOPO
      && sketch->n_gpus > 1)
    reading_assume (reading, "links", "none in the matrix (topo -mp would hide NVLink)");
  if (wiring->inferred)
    reading_assume (reading, "links",
                    "joined by NVSwitch, %u links of each GPU: side by side they would be more "
                    "than a card has",
                    wiring->links_per_gpu);
  if (wiring->ambiguous)
    reading_assume (reading, "links",
                    "taken as %u links between every two GPUs; could be a switch, which --gpu "
                    "would tell",
                    wiring->links_per_pair);
}

static void
say_rates (TopoReading *reading, const Sketch *sketch, const TopoGpu *gpu, BaseIni *base,
           const SketchWiring *wiring)
{
  guint pcie = sketch->n_gpus > 0 ? sketch->gpus[0].generation : 0;
  gboolean of_base = base != NULL && base_ini_has_key (base, "links", "link_rate");
  if (wiring->wiring != TOPO_WIRING_NONE && gpu != NULL && !of_base)
    reading_assume (reading, "link_rate", "%g GB/s per link and direction, of %s",
                    gpu->direct_link_bytes_per_s / 1e9, gpu->slug);
  else if (wiring->wiring != TOPO_WIRING_NONE && gpu == NULL && isnan (sketch->link_bytes_per_s))
    reading_assume (reading, "link_rate", "unknown without the model of the GPUs");
  if (sketch->n_gpus == 0 || (pcie >= 3 && pcie <= 6))
    return;
  if (gpu != NULL && gpu->pcie_generation > 0)
    reading_assume (reading, "pcie", "generation %u x16, of %s", gpu->pcie_generation, gpu->slug);
  else
    reading_assume (reading, "pcie", "generation and width unknown");
}

/* --machine: must have as many GPUs. Returns: (owned) or NULL. */
static BaseIni *
open_base (const Sketch *sketch, const TopoReadOptions *options, GError **error)
{
  guint64 n = 0;
  g_autoptr (BaseIni) base
      = base_catalog_open_any (options->catalog, "machines", options->machine, NULL, error);
  if (base == NULL || !base_ini_get_count (base, "machine", "gpus_per_node", 1, 64, &n, error))
    return NULL;
  if (n == sketch->n_gpus)
    return g_steal_pointer (&base);
  g_set_error (error, TOPO_ERROR, TOPO_ERROR_SIZE,
               "found %u GPUs, but a node of '%s' has %" G_GUINT64_FORMAT ": they do not merge",
               sketch->n_gpus, options->machine, n);
  return NULL;
}

/* What sketch_to_ini() takes from --machine beside links that the file does not show. */
static void
say_base (TopoReading *reading, const Sketch *sketch, const TopoGpu *gpu, BaseIni *base,
          const char *name)
{
  static const char *const kept[] = { "p2p", "inter_socket" };
  const char *domain = base_ini_get_string_or (base, "machine", "domain", NULL);
  const char *power = base_ini_get_string_or (base, "machine", "power_limit_ratio", NULL);
  const char *rate = base_ini_get_string_or (base, "links", "link_rate", NULL);
  guint curves = 0, left_out = 0;
  if (domain != NULL && sketch_takes_domain (sketch, gpu, base))
    reading_assume (reading, "domain", "%s GPUs, of %s", domain, name);
  else if (domain != NULL)
    reading_assume (reading, "domain",
                    "this node alone: that of %s (%s GPUs) was left out, no switch joins all of "
                    "this file",
                    name, domain);
  if (power != NULL)
    reading_assume (reading, "power_limit_ratio", "%s, of %s", power, name);
  if (rate != NULL && sketch->links_seen && gpu != NULL && gpu->has_direct)
    reading_assume (reading, "link_rate", "%s, of %s", rate, name);
  for (guint i = 0; i < base_ini_n_groups (base); i++) {
    const char *group = base_ini_group_name (base, i);
    guint taken = sketch_takes_curve (sketch, gpu, base, group);
    curves += taken;
    left_out += g_str_has_prefix (group, "measured ") && !taken;
  }
  if (curves > 0)
    reading_assume (reading, "measured", "%u curve%s of %s", curves, curves > 1 ? "s" : "", name);
  if (left_out > 0)
    reading_note (reading, "%u measured curve%s of %s left out: over more ranks than can be seated",
                  left_out, left_out > 1 ? "s" : "", name);
  for (guint i = 0; sketch->numas->len > 0 && i < G_N_ELEMENTS (kept); i++) {
    const char *value = base_ini_get_string_or (base, "pcie", kept[i], NULL);
    if (value != NULL
        && (i == 0 || (sketch->numas->len > 1 && isnan (sketch->inter_socket_bytes_per_s))))
      reading_assume (reading, kept[i], "%s, of %s", value, name);
  }
  guint64 nics = 0;
  if (base_ini_has_group (base, "network"))
    base_ini_get_count_optional (base, "network", "nics", 1, 64, &nics, NULL);
  if (sketch_takes_network (sketch, base))
    reading_assume (reading, "network", "of %s", name);
  else if (nics > 0)
    reading_assume (reading, "network",
                    "unknown: that of %s was left out, it has %" G_GUINT64_FORMAT
                    " NICs and this file %u",
                    name, nics, sketch->n_nics);
}

static void
say_nvls (TopoReading *reading, const Sketch *sketch, const TopoGpu *gpu,
          const SketchWiring *wiring)
{
  if (wiring->wiring == TOPO_WIRING_SWITCH && gpu != NULL && gpu->has_direct
      && topo_link_facts_nvls_from (&sketch->facts, gpu->direct) > 0)
    reading_assume (reading, "nvls", "yes: the switches of %s can reduce",
                    topo_link_kind_name (gpu->direct));
}

static gboolean
build (TopoReading *reading, const Sketch *sketch, const TopoReadOptions *options, TopoGpu *gpu,
       BaseIni *base, GError **error)
{
  reading->ini = sketch_to_ini (sketch, reading->name, gpu, base);
  g_autoptr (BaseIni) ini = base_ini_new_from_data (reading->ini, -1, reading->name, error);
  if (ini == NULL) {
    topo_gpu_free (gpu);
    return FALSE;
  }
  reading->machine = topo_machine_new_from_ini (options->catalog, ini, reading->name,
                                                gpu != NULL ? gpu : topo_gpu_new_unknown (), error);
  return reading->machine != NULL;
}

/*
 * A matrix without any NVLink is that of topo -mp as much as of a machine that has none: with
 * --machine what is there follows from that.
 */
static gboolean
may_hide_links (const TopoReading *reading, const SketchWiring *wiring, BaseIni *base)
{
  return reading->format == TOPO_FORMAT_SMI_TOPO && wiring->wiring == TOPO_WIRING_NONE
         && base != NULL
         && strcmp (base_ini_get_string_or (base, "links", "wiring", "none"), "none") != 0;
}

/* A file without GPUs: those of --machine, in that machine's own places. */
static gboolean
take_machine (TopoReading *reading, const TopoReadOptions *options, GError **error)
{
  g_autoptr (TopoReading) whole = topo_reading_new_from_machine (options->machine, options, error);
  if (whole == NULL)
    return FALSE;
  reading->machine = g_steal_pointer (&whole->machine);
  reading->ini = g_steal_pointer (&whole->ini);
  reading_assume (reading, "gpu", "%s of %s: the file shows no GPUs", reading->machine->gpu->slug,
                  options->machine);
  reading_assume (reading, "places", "all of %s: the file does not place GPUs", options->machine);
  return TRUE;
}

gboolean
reading_finish (TopoReading *reading, Sketch *sketch, const TopoReadOptions *options,
                GError **error)
{
  g_autoptr (BaseIni) base = NULL;
  g_autoptr (TopoGpu) gpu = NULL;
  SketchWiring wiring;
  if (options->machine != NULL && sketch->n_gpus == 0)
    return take_machine (reading, options, error);
  if (options->machine != NULL && (base = open_base (sketch, options, error)) == NULL)
    return FALSE;
  if (!resolve_gpu (reading, sketch, options, base, &gpu, error))
    return FALSE;
  sketch_wiring (sketch, gpu != NULL && gpu->has_direct ? gpu->direct_links : 0, &wiring);
  halve_links (reading, sketch, gpu, &wiring);
  if (gpu != NULL && !check_links (sketch, gpu, &wiring, error))
    return FALSE;
  reading->hides_links = !sketch->links_seen && base == NULL;
  if (sketch->links_seen && may_hide_links (reading, &wiring, base)) {
    sketch->links_seen = FALSE;
    reading_assume (reading, "links", "of %s: the matrix shows none, as topo -mp does",
                    options->machine);
  } else if (base != NULL && !sketch->links_seen)
    reading_assume (reading, "links", "of %s", options->machine);
  else {
    say_wiring (reading, sketch, &wiring);
    say_nvls (reading, sketch, gpu, &wiring);
  }
  if (base != NULL)
    say_base (reading, sketch, gpu, base, options->machine);
  say_rates (reading, sketch, gpu, base, &wiring);
  return build (reading, sketch, options, g_steal_pointer (&gpu), base, error);
}

/* ---- machine files ---- */

static char *
ini_to_text (BaseIni *ini, const char *gpu)
{
  GString *out = g_string_new (NULL);
  for (guint i = 0; i < base_ini_n_groups (ini); i++) {
    const char *group = base_ini_group_name (ini, i);
    g_autofree const char **keys = base_ini_keys (ini, group);
    g_string_append_printf (out, "%s[%s]\n", i > 0 ? "\n" : "", group);
    for (guint k = 0; keys[k] != NULL; k++) {
      gboolean is_gpu = strcmp (group, "machine") == 0 && strcmp (keys[k], "gpu") == 0;
      g_string_append_printf (out, "%s = %s\n", keys[k],
                              is_gpu && gpu != NULL
                                  ? gpu
                                  : base_ini_get_string_or (ini, group, keys[k], ""));
    }
  }
  return g_string_free (out, FALSE);
}

TopoReading *
reading_of_machine_file (BaseIni *ini, const char *slug, const TopoReadOptions *options,
                         GError **error)
{
  const char *own = base_ini_get_string (ini, "machine", "gpu", error);
  const char *name = options->gpu != NULL ? options->gpu : own;
  TopoGpu *gpu = NULL;
  if (own == NULL)
    return NULL;
  gpu = strcmp (name, "unknown") == 0 ? topo_gpu_new_unknown ()
                                      : topo_gpu_load (options->catalog, name, error);
  if (gpu == NULL)
    return NULL;
  g_autoptr (TopoReading) reading = reading_new (TOPO_FORMAT_MACHINE, slug);
  reading->ini = ini_to_text (ini, options->gpu != NULL ? gpu->slug : NULL);
  reading->machine = topo_machine_new_from_ini (options->catalog, ini, slug, gpu, error);
  if (reading->machine == NULL)
    return NULL;
  if (topo_gpu_is_unknown (reading->machine->gpu))
    reading_assume (reading, "gpu", "unknown: give --gpu");
  return g_steal_pointer (&reading);
}

TopoReading *
topo_reading_new_from_machine (const char *name, const TopoReadOptions *options, GError **error)
{
  g_autoptr (BaseIni) ini = base_catalog_open_any (options->catalog, "machines", name, NULL, error);
  if (ini == NULL)
    return NULL;
  return reading_of_machine_file (ini, name, options, error);
}
