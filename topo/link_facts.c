/* topo/link_facts.c - reads catalog/links. */
#include "topo/link_facts-private.h"
#include <math.h>
#include <string.h>

#define MIN_RATE_BYTES_PER_S 1e6
#define MAX_RATE_BYTES_PER_S 1e15

static gboolean
read_rate (BaseIni *ini, const char *group, const char *key, double *out, GError **error)
{
  return base_ini_get_string (ini, group, "source", error) != NULL
         && base_ini_get_number (ini, group, key, BASE_DIM_BYTES_PER_SECOND, MIN_RATE_BYTES_PER_S,
                                 MAX_RATE_BYTES_PER_S, out, error);
}

static gboolean
read_pcie (BaseIni *ini, TopoLinkFacts *facts, GError **error)
{
  for (guint g = TOPO_PCIE_FIRST; g <= TOPO_PCIE_LAST; g++) {
    g_autofree char *group = g_strdup_printf ("generation %u", g);
    if (!read_rate (ini, group, "x16_rate", &facts->pcie_x16_bytes_per_s[g - TOPO_PCIE_FIRST],
                    error))
      return FALSE;
  }
  return TRUE;
}

static gboolean
read_capabilities (BaseIni *ini, const char *group, TopoNvlinkFacts *nvlink, GError **error)
{
  g_auto (GStrv) items = base_ini_get_list (ini, group, "compute_capabilities");
  if (*items == NULL) {
    base_ini_set_error (ini, group, "compute_capabilities", error,
                        "found none, expected numbers such as \"90\" for 9.0");
    return FALSE;
  }
  for (char **item = items; *item != NULL; item++) {
    guint64 value = 0;
    if (nvlink->n_capabilities == TOPO_MAX_CAPABILITIES
        || !base_units_parse_count (*item, 10, 9999, &value, NULL)) {
      base_ini_set_error (ini, group, "compute_capabilities", error,
                          "found '%s', expected at most %d numbers such as \"90\" for 9.0", *item,
                          TOPO_MAX_CAPABILITIES);
      return FALSE;
    }
    nvlink->capabilities[nvlink->n_capabilities++] = (guint32)value;
  }
  return TRUE;
}

/* A GPU has links of one generation. */
static gboolean
check_capabilities (BaseIni *ini, const TopoLinkFacts *facts, guint g, GError **error)
{
  for (guint i = 0; i < facts->nvlink[g].n_capabilities; i++)
    for (guint other = 0; other <= g; other++)
      for (guint j = 0; j < (other == g ? i : facts->nvlink[other].n_capabilities); j++) {
        guint32 capability = facts->nvlink[g].capabilities[i];
        if (facts->nvlink[other].capabilities[j] != capability)
          continue;
        base_ini_set_error (ini, topo_link_kind_name ((TopoLinkKind)(TOPO_LINK_NVLINK1 + g)),
                            "compute_capabilities", error,
                            "%u is there twice, first in [%s]: expected every one once", capability,
                            topo_link_kind_name ((TopoLinkKind)(TOPO_LINK_NVLINK1 + other)));
        return FALSE;
      }
  return TRUE;
}

static gboolean
read_nvlink (BaseIni *ini, TopoLinkFacts *facts, GError **error)
{
  for (guint g = 0; g < TOPO_NVLINK_GENERATIONS; g++) {
    TopoNvlinkFacts *nvlink = &facts->nvlink[g];
    const char *group = topo_link_kind_name ((TopoLinkKind)(TOPO_LINK_NVLINK1 + g));
    guint64 from = 0, links = 0;
    if (!read_rate (ini, group, "link_rate", &nvlink->link_bytes_per_s, error)
        || !base_ini_get_count (ini, group, "links_per_gpu", 1, 255, &links, error)
        || !base_ini_get_count_optional (ini, group, "nvls_from_gpus", 2, 65536, &from, error)
        || !read_capabilities (ini, group, nvlink, error)
        || !check_capabilities (ini, facts, g, error))
      return FALSE;
    nvlink->links_per_gpu = (guint32)links;
    nvlink->nvls_from_gpus = (guint32)from;
  }
  return TRUE;
}

/* "[intel 0x8F]": the model number, or FALSE. */
static gboolean
parse_model (const char *group, guint64 *out)
{
  const char *digits = group + strlen ("intel ");
  return g_str_has_prefix (digits, "0x")
         && g_ascii_string_to_unsigned (digits + 2, 16, 0, 0xFFFF, out, NULL);
}

static gboolean
read_intel (BaseIni *ini, const char *group, TopoLinkFacts *facts, GError **error)
{
  guint64 model = 0;
  if (!parse_model (group, &model) || facts->n_intel == TOPO_MAX_INTEL_MODELS) {
    base_ini_set_error (ini, group, NULL, error,
                        "expected at most %d groups [intel 0xMODEL] with the CPU's model number",
                        TOPO_MAX_INTEL_MODELS);
    return FALSE;
  }
  if (facts->n_intel > 0 && model <= facts->intel[facts->n_intel - 1].from_model) {
    base_ini_set_error (ini, group, NULL, error,
                        "expected ascending model numbers: the group before has 0x%02X",
                        facts->intel[facts->n_intel - 1].from_model);
    return FALSE;
  }
  TopoIntelFacts *intel = &facts->intel[facts->n_intel++];
  intel->from_model = (guint32)model;
  return read_rate (ini, group, "rate", &intel->bytes_per_s, error);
}

static gboolean
read_inter_socket (BaseIni *ini, TopoLinkFacts *facts, GError **error)
{
  for (guint i = 0; i < base_ini_n_groups (ini); i++) {
    const char *group = base_ini_group_name (ini, i);
    if (g_str_has_prefix (group, "intel ") && !read_intel (ini, group, facts, error))
      return FALSE;
  }
  return read_rate (ini, "arm64", "rate", &facts->arm64_bytes_per_s, error)
         && read_rate (ini, "ppc64", "rate", &facts->ppc64_bytes_per_s, error)
         && read_rate (ini, "amd", "rate", &facts->amd_bytes_per_s, error);
}

static const struct {
  const char *slug;
  gboolean (*read) (BaseIni *ini, TopoLinkFacts *facts, GError **error);
} files[]
    = { { "pcie", read_pcie }, { "nvlink", read_nvlink }, { "inter-socket", read_inter_socket } };

gboolean
link_facts_read (TopoLinkFacts *facts, const char *slug, BaseIni *ini, GError **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (files); i++)
    if (strcmp (slug, files[i].slug) == 0)
      return files[i].read (ini, facts, error) && base_ini_finish (ini, NULL, error);
  g_return_val_if_reached (FALSE);
}

static gpointer
read_all (const BaseCatalog *catalog, GError **error)
{
  g_autofree TopoLinkFacts *facts = g_new0 (TopoLinkFacts, 1);
  for (guint i = 0; i < G_N_ELEMENTS (files); i++) {
    g_autoptr (BaseIni) ini = base_catalog_open (catalog, "links", files[i].slug, error);
    if (ini == NULL || !link_facts_read (facts, files[i].slug, ini, error))
      return NULL;
  }
  return g_steal_pointer (&facts);
}

gboolean
topo_link_facts_init (TopoLinkFacts *facts, const BaseCatalog *catalog, GError **error)
{
  const TopoLinkFacts *kept = base_catalog_once (catalog, "link facts", read_all, g_free, error);
  if (kept == NULL)
    return FALSE;
  *facts = *kept;
  return TRUE;
}

double
topo_link_facts_pcie (const TopoLinkFacts *facts, guint generation)
{
  if (generation < TOPO_PCIE_FIRST || generation > TOPO_PCIE_LAST)
    return NAN;
  return facts->pcie_x16_bytes_per_s[generation - TOPO_PCIE_FIRST];
}

guint32
topo_link_facts_nvls_from (const TopoLinkFacts *facts, TopoLinkKind kind)
{
  if (kind < TOPO_LINK_NVLINK1 || kind >= TOPO_LINK_NVLINK1 + TOPO_NVLINK_GENERATIONS)
    return 0;
  return facts->nvlink[kind - TOPO_LINK_NVLINK1].nvls_from_gpus;
}

guint32
topo_link_facts_most_links (const TopoLinkFacts *facts)
{
  guint32 most = 0;
  for (guint g = 0; g < TOPO_NVLINK_GENERATIONS; g++)
    most = MAX (most, facts->nvlink[g].links_per_gpu);
  return most;
}

gboolean
topo_link_facts_nvlink_of (const TopoLinkFacts *facts, guint64 compute_capability,
                           TopoLinkKind *out_kind, double *out_link_bytes_per_s)
{
  for (guint g = 0; g < TOPO_NVLINK_GENERATIONS; g++)
    for (guint i = 0; i < facts->nvlink[g].n_capabilities; i++)
      if (facts->nvlink[g].capabilities[i] == compute_capability) {
        *out_kind = (TopoLinkKind)(TOPO_LINK_NVLINK1 + g);
        *out_link_bytes_per_s = facts->nvlink[g].link_bytes_per_s;
        return TRUE;
      }
  return FALSE;
}

double
topo_link_facts_inter_socket (const TopoLinkFacts *facts, const char *arch, const char *vendor,
                              gboolean model_known, guint64 family, guint64 model)
{
  double bytes_per_s = NAN;
  if (g_strcmp0 (arch, "arm64") == 0)
    return facts->arm64_bytes_per_s;
  if (g_strcmp0 (arch, "ppc64") == 0)
    return facts->ppc64_bytes_per_s;
  if (g_strcmp0 (vendor, "AuthenticAMD") == 0)
    return facts->amd_bytes_per_s;
  if (g_strcmp0 (vendor, "GenuineIntel") != 0 || !model_known
      || family != TOPO_INTEL_FAMILY_OF_SERVERS)
    return NAN;
  for (guint i = 0; i < facts->n_intel && model >= facts->intel[i].from_model; i++)
    bytes_per_s = facts->intel[i].bytes_per_s;
  return bytes_per_s;
}
