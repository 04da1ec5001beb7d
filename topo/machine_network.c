/* topo/machine_network.c - [network] of a machine file: NICs, whom they serve, the fabric. */
#include "topo/machine-private.h"
#include <math.h>
#include <string.h>

#define MAX_NICS            64
#define MAX_NIC_BYTES_PER_S 1e13

static guint64
all_gpus (const TopoMachine *machine)
{
  return machine->gpus_per_node == 64 ? G_MAXUINT64
                                      : (G_GUINT64_CONSTANT (1) << machine->gpus_per_node) - 1;
}

/* NICs in order over GPUs in order: 4 NICs on 8 GPUs serve pairs, 16 NICs give two to each. */
static gboolean
serve_evenly (BaseIni *ini, TopoMachine *machine, GError **error)
{
  guint32 nics = machine->n_nics, gpus = machine->gpus_per_node;
  if (nics % gpus != 0 && gpus % nics != 0) {
    base_ini_set_error (
        ini, "network", "serves", error,
        "%u NICs cannot be dealt evenly to %u GPUs, expected \"all\" or a list with "
        "one entry per NIC such as \"0-1, 2-3\"",
        nics, gpus);
    return FALSE;
  }
  for (guint32 g = 0; g < gpus; g++)
    for (guint32 c = 0; c < nics; c++)
      if ((guint64)g * nics / gpus == c || (nics > gpus && c / (nics / gpus) == g))
        machine->nics[c].gpus |= G_GUINT64_CONSTANT (1) << g;
  return TRUE;
}

static gboolean
serve_by_list (BaseIni *ini, TopoMachine *machine, GError **error)
{
  g_auto (GStrv) items = base_ini_get_list (ini, "network", "serves");
  guint n_items = g_strv_length (items);
  for (guint c = 0; c < n_items && n_items == machine->n_nics; c++) {
    guint64 first = 0, last = 0;
    g_auto (GStrv) ends = g_strsplit (items[c], "-", 2);
    guint64 max = machine->gpus_per_node - 1;
    gboolean ok = base_units_parse_count (g_strstrip (ends[0]), 0, max, &first, NULL);
    last = first;
    if (ok && ends[1] != NULL)
      ok = base_units_parse_count (g_strstrip (ends[1]), first, max, &last, NULL);
    if (!ok) {
      base_ini_set_error (ini, "network", "serves", error,
                          "found '%s', expected a GPU or a range of GPUs below %u", items[c],
                          machine->gpus_per_node);
      return FALSE;
    }
    for (guint64 g = first; g <= last; g++)
      machine->nics[c].gpus |= G_GUINT64_CONSTANT (1) << g;
  }
  if (n_items == machine->n_nics)
    return TRUE;
  base_ini_set_error (ini, "network", "serves", error,
                      "found %u entries, expected \"even\", \"all\" or one per NIC (%u)", n_items,
                      machine->n_nics);
  return FALSE;
}

static gboolean
read_serves (BaseIni *ini, TopoMachine *machine, GError **error)
{
  const char *serves = base_ini_get_string_or (ini, "network", "serves", NULL);
  if (serves == NULL) {
    machine_assume (machine, "NICs serve all GPUs of a node: the file does not say which");
    serves = "all";
  }
  if (strcmp (serves, "even") == 0)
    return serve_evenly (ini, machine, error);
  if (strcmp (serves, "all") != 0)
    return serve_by_list (ini, machine, error);
  for (guint32 c = 0; c < machine->n_nics; c++)
    machine->nics[c].gpus = all_gpus (machine);
  return TRUE;
}

gboolean
machine_read_network (BaseIni *ini, TopoMachine *machine, GError **error)
{
  guint fabric = TOPO_FABRIC_NONE;
  guint64 nics = 0, rails = 0;
  double rate = 0;
  machine->fabric = TOPO_FABRIC_NONE;
  if (!base_ini_has_group (ini, "network")) {
    machine_assume (machine, "the network is unknown: plans stay inside one node");
    return TRUE;
  }
  base_ini_mark_used (ini, "network", "source");
  if (base_ini_get_string (ini, "network", "fabric", error) == NULL
      || !base_ini_get_enum_optional (ini, "network", "fabric", topo_fabric_names, &fabric, error)
      || !base_ini_get_count (ini, "network", "nics", 1, MAX_NICS, &nics, error)
      || !base_ini_get_number (ini, "network", "nic_rate", BASE_DIM_BYTES_PER_SECOND, 1e5,
                               MAX_NIC_BYTES_PER_S, &rate, error)
      || !base_ini_get_count_optional (ini, "network", "rails", 1, MAX_NICS, &rails, error))
    return FALSE;
  if (fabric == TOPO_FABRIC_NONE) {
    base_ini_set_error (ini, "network", "fabric", error,
                        "found 'none', expected a fabric, or no [network] at all");
    return FALSE;
  }
  machine->fabric = (TopoFabric)fabric;
  machine->rails = (guint32)rails;
  machine->n_nics = (guint32)nics;
  machine->nics = g_new0 (TopoNic, nics);
  for (guint64 c = 0; c < nics; c++)
    machine->nics[c].bytes_per_s = rate;
  if (!read_serves (ini, machine, error))
    return FALSE;
  machine->nic_bytes_per_s_per_gpu = topo_machine_nic_share (machine, all_gpus (machine));
  return TRUE;
}

double
topo_machine_nic_share (const TopoMachine *machine, guint64 senders)
{
  double worst = INFINITY, total = 0;
  for (guint32 c = 0; c < machine->n_nics; c++)
    total += machine->nics[c].bytes_per_s;
  for (guint32 i = 0; i < machine->gpus_per_node; i++) {
    guint64 bit = G_GUINT64_CONSTANT (1) << i;
    double rate = 0;
    if ((senders & bit) == 0)
      continue;
    for (guint32 c = 0; c < machine->n_nics; c++)
      if (machine->nics[c].gpus & bit)
        rate += machine->nics[c].bytes_per_s
                / __builtin_popcountll (machine->nics[c].gpus & senders);
    if (rate == 0) /* no NIC of its own: a share of all */
      rate = total / __builtin_popcountll (senders);
    worst = MIN (worst, rate);
  }
  return isfinite (worst) ? worst : 0;
}
