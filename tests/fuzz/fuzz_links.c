/* tests/fuzz/fuzz_links.c - any bytes as the files of catalog/links. */
#include "tests/fuzz/fuzz.h"
#include "topo/link_facts-private.h"
#include <math.h>

static void
try_file (const uint8_t *data, size_t size, const char *slug)
{
  GError *error = NULL;
  TopoLinkFacts facts = { 0 };
  g_autoptr (BaseIni) ini
      = base_ini_new_from_data ((const char *)data, (gssize)size, "fuzz.ini", &error);
  g_clear_error (&error);
  if (ini == NULL)
    return;
  gboolean ok = link_facts_read (&facts, slug, ini, &error);
  fuzz_require_outcome (ok, &error);
  for (guint g = TOPO_PCIE_FIRST; ok && g_str_equal (slug, "pcie") && g <= TOPO_PCIE_LAST; g++)
    fuzz_require (topo_link_facts_pcie (&facts, g) > 0);
  for (guint g = 0; ok && g_str_equal (slug, "nvlink") && g < TOPO_NVLINK_GENERATIONS; g++) {
    TopoLinkKind kind = TOPO_LINK_NIC;
    double bytes_per_s = 0;
    fuzz_require (
        topo_link_facts_nvlink_of (&facts, facts.nvlink[g].capabilities[0], &kind, &bytes_per_s));
    fuzz_require (kind == (TopoLinkKind)(TOPO_LINK_NVLINK1 + g) && bytes_per_s > 0);
  }
  for (guint i = 1; ok && i < facts.n_intel; i++)
    fuzz_require (facts.intel[i].from_model > facts.intel[i - 1].from_model);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  try_file (data, size, "pcie");
  try_file (data, size, "nvlink");
  try_file (data, size, "inter-socket");
  return 0;
}
