/* topo/machine_links.c - [links] of a machine file, and sets of numbers. */
#include "topo/machine-private.h"
#include <math.h>
#include <string.h>

#define MAX_RATE_BYTES_PER_S 1e15
#define MAX_LINKS            255

gboolean
machine_parse_range (const char *text, guint32 limit, guint64 *first, guint64 *last)
{
  g_auto (GStrv) ends = g_strsplit (text, "-", 2);
  if (ends[0] == NULL || !base_units_parse_count (g_strstrip (ends[0]), 0, limit - 1, first, NULL))
    return FALSE;
  *last = *first;
  if (ends[1] == NULL)
    return TRUE;
  return base_units_parse_count (g_strstrip (ends[1]), *first, limit - 1, last, NULL);
}

gboolean
machine_read_set (BaseIni *ini, const char *group, const char *key, guint32 limit, guint64 *out,
                  GError **error)
{
  guint64 set = 0;
  g_auto (GStrv) items = base_ini_get_list (ini, group, key);
  if (limit == 0 && items[0] != NULL) {
    base_ini_set_error (ini, group, key, error, "found '%s', but there are none", items[0]);
    return FALSE;
  }
  for (char **item = items; *item != NULL; item++) {
    guint64 first, last;
    if (!machine_parse_range (*item, limit, &first, &last)) {
      base_ini_set_error (ini, group, key, error,
                          "found '%s', expected numbers or ranges from 0 to %u such as \"0-3, 5\"",
                          *item, limit - 1);
      return FALSE;
    }
    for (guint64 i = first; i <= last; i++) {
      if (set & (G_GUINT64_CONSTANT (1) << i)) {
        base_ini_set_error (ini, group, key, error, "found %" G_GUINT64_FORMAT " twice", i);
        return FALSE;
      }
      set |= G_GUINT64_CONSTANT (1) << i;
    }
  }
  *out = set;
  return TRUE;
}

static gboolean
set_pair (TopoMachine *machine, guint64 a, guint64 b, guint8 count)
{
  guint32 n = machine->gpus_per_node;
  if (a == b || machine->direct_count[a * n + b] != 0)
    return FALSE;
  machine->direct_count[a * n + b] = machine->direct_count[b * n + a] = count;
  return TRUE;
}

/* "0-1" (@default_count links) or "0-3:2". */
static gboolean
parse_pair (TopoMachine *machine, const char *text, guint32 default_count, gboolean counted)
{
  guint64 a, b, count = default_count;
  g_auto (GStrv) parts = g_strsplit (text, ":", 2);
  if (parts[0] == NULL || strchr (parts[0], '-') == NULL || (parts[1] != NULL) != counted)
    return FALSE;
  if (counted && !base_units_parse_count (g_strstrip (parts[1]), 1, MAX_LINKS, &count, NULL))
    return FALSE;
  g_auto (GStrv) ends = g_strsplit (parts[0], "-", 2);
  guint64 max = machine->gpus_per_node - 1;
  return base_units_parse_count (g_strstrip (ends[0]), 0, max, &a, NULL)
         && base_units_parse_count (g_strstrip (ends[1]), 0, max, &b, NULL)
         && set_pair (machine, a, b, (guint8)count);
}

static gboolean
read_pairs (BaseIni *ini, TopoMachine *machine, gboolean counted, GError **error)
{
  g_auto (GStrv) items = base_ini_get_list (ini, "links", "pairs");
  if (items[0] == NULL) {
    base_ini_set_error (ini, "links", "pairs", error,
                        "key is missing or empty, expected a list such as \"%s\"",
                        counted ? "0-1:1, 0-2:2" : "0-1, 2-3");
    return FALSE;
  }
  for (char **item = items; *item != NULL; item++)
    if (!parse_pair (machine, *item, machine->links_per_gpu, counted)) {
      base_ini_set_error (ini, "links", "pairs", error,
                          "found '%s', expected two different GPUs below %u, each pair once%s",
                          *item, machine->gpus_per_node,
                          counted ? ", and a count of links: \"0-3:2\"" : ": \"0-1\"");
      return FALSE;
    }
  return TRUE;
}

/* No GPU may have more links than its file says. */
static gboolean
check_link_counts (BaseIni *ini, const TopoMachine *machine, GError **error)
{
  guint32 n = machine->gpus_per_node;
  for (guint32 i = 0; i < n; i++) {
    guint32 used = 0;
    for (guint32 j = 0; j < n; j++)
      used += machine->direct_count[i * n + j];
    if (used > machine->links_per_gpu) {
      base_ini_set_error (ini, "links", "wiring", error,
                          "GPU %u would have %u links, expected at most %u", i, used,
                          machine->links_per_gpu);
      return FALSE;
    }
  }
  return TRUE;
}

static gboolean
read_mesh (BaseIni *ini, TopoMachine *machine, GError **error)
{
  guint64 count = 0;
  guint32 n = machine->gpus_per_node;
  if (!base_ini_get_count (ini, "links", "links_per_pair", 1, MAX_LINKS, &count, error))
    return FALSE;
  for (guint32 i = 0; i < n; i++)
    for (guint32 j = i + 1; j < n; j++)
      set_pair (machine, i, j, (guint8)count);
  return TRUE;
}

static gboolean
read_wiring (BaseIni *ini, TopoMachine *machine, GError **error)
{
  gboolean ok = TRUE;
  if (machine->wiring != TOPO_WIRING_PAIRS && machine->wiring != TOPO_WIRING_LINKS
      && machine->wiring != TOPO_WIRING_MESH)
    return machine_read_joined (ini, machine, error);
  machine->direct_count = g_new0 (guint8, machine->gpus_per_node * machine->gpus_per_node);
  if (machine->wiring == TOPO_WIRING_MESH)
    ok = read_mesh (ini, machine, error);
  else
    ok = read_pairs (ini, machine, machine->wiring == TOPO_WIRING_LINKS, error);
  return ok && check_link_counts (ini, machine, error);
}

/* Kind, links and rate: of the GPU's file unless [links] says otherwise. */
static gboolean
read_link_rates (BaseIni *ini, TopoMachine *machine, GError **error)
{
  const TopoGpu *gpu = machine->gpu;
  guint64 links = gpu->direct_links;
  double rate = gpu->direct_link_bytes_per_s;
  const char *kind = base_ini_get_string_or (ini, "links", "kind", NULL);
  machine->direct = machine->wiring == TOPO_WIRING_SHM ? TOPO_LINK_SHM : gpu->direct;
  gboolean is_unknown = topo_gpu_is_unknown (gpu);
  /* "nvlink" alone: of the generation of the GPU, which may be unknown. */
  if (g_strcmp0 (kind, "nvlink") == 0 && gpu->has_direct)
    kind = NULL;
  if (kind != NULL
      && (!topo_link_kind_from_name (kind, &machine->direct)
          || !topo_link_kind_is_direct (machine->direct)
          || (machine->direct == TOPO_LINK_NVLINK && !is_unknown))) {
    base_ini_set_error (ini, "links", "kind", error,
                        "found '%s', expected nvlink1 to nvlink5, xgmi or ici", kind);
    return FALSE;
  }
  if (machine->wiring == TOPO_WIRING_SHM)
    links = 1;
  if (!base_ini_get_count_optional (ini, "links", "links_per_gpu", 1, MAX_LINKS, &links, error)
      || !base_ini_get_number_optional (ini, "links", "link_rate", BASE_DIM_BYTES_PER_SECOND, 1e6,
                                        MAX_RATE_BYTES_PER_S, &rate, error))
    return FALSE;
  if (is_unknown && kind != NULL && links > 0 && !(rate > 0))
    rate = NAN;
  else if (links == 0 || !(rate > 0)) {
    base_ini_set_error (ini, "links", "wiring", error,
                        "GPU '%s' states no links of its own: expected kind, links_per_gpu and "
                        "link_rate here, or wiring = none",
                        gpu->slug);
    return FALSE;
  }
  machine->links_per_gpu = (guint32)links;
  machine->direct_link_bytes_per_s = rate;
  machine->direct_bytes_per_s = links * rate;
  return TRUE;
}

static gboolean
read_nvls (BaseIni *ini, const TopoLinkFacts *facts, TopoMachine *machine, GError **error)
{
  if (machine->wiring == TOPO_WIRING_SWITCH)
    machine->nvls_from_gpus = topo_link_facts_nvls_from (facts, machine->direct);
  if (!machine->nvls || machine->nvls_from_gpus > 0)
    return TRUE;
  if (machine->wiring != TOPO_WIRING_SWITCH)
    base_ini_set_error (ini, "links", "nvls", error, "found yes, but only a switch can reduce");
  else
    base_ini_set_error (ini, "links", "nvls", error,
                        "found yes, but switches of %s cannot reduce: links/nvlink.ini has no "
                        "nvls_from_gpus for it",
                        topo_link_kind_name (machine->direct));
  return FALSE;
}

gboolean
machine_read_links (BaseIni *ini, const TopoLinkFacts *facts, TopoMachine *machine,
                    MachineLayout *layout, GError **error)
{
  static const char *const wirings[]
      = { "none", "switch", "pairs", "links", "mesh", "torus", "shm", NULL };
  guint wiring = TOPO_WIRING_NONE;
  base_ini_mark_used (ini, "links", "source");
  if (base_ini_get_string (ini, "links", "wiring", error) == NULL
      || !base_ini_get_enum_optional (ini, "links", "wiring", wirings, &wiring, error)
      || !base_ini_get_bool_optional (ini, "links", "nvls", &machine->nvls, error))
    return FALSE;
  machine->wiring = (TopoWiring)wiring;
  if (machine->wiring == TOPO_WIRING_NONE)
    return read_nvls (ini, facts, machine, error);
  return read_link_rates (ini, machine, error) && read_nvls (ini, facts, machine, error)
         && base_ini_get_number_optional (ini, "links", "cpu_rate", BASE_DIM_BYTES_PER_SECOND, 1e6,
                                          MAX_RATE_BYTES_PER_S, &layout->cpu_bytes_per_s, error)
         && read_wiring (ini, machine, error);
}
