/* topo/machine_pcie.c - [pcie] of a machine file: rates, and where each GPU and NIC hangs. */
#include "topo/machine-private.h"
#include <math.h>
#include <string.h>

#define MAX_RATE_BYTES_PER_S 1e15

/* What no group places: below one host bridge, said as assumed. */
static gboolean
place_the_rest (BaseIni *ini, TopoMachine *machine, MachineLayout *layout, guint64 gpus,
                guint64 nics, GError **error)
{
  guint64 all_gpus = machine_first_bits (machine->gpus_per_node);
  guint64 all_nics = machine_first_bits (layout->nics->len);
  if (gpus != all_gpus && layout->numas->len > 0) {
    base_ini_set_error (ini, "pcie", NULL, error,
                        "GPU %d is below no [numa N] or [switch N]: place every GPU, or none",
                        __builtin_ctzll (all_gpus & ~gpus));
    return FALSE;
  }
  if (layout->numas->len == 0) {
    machine_assume (machine, "the PCIe tree is unknown: all GPUs and NICs below one CPU");
    machine_add_numa (layout, 0);
  } else if (nics != all_nics) {
    machine_assume (machine, "places of some NICs are unknown: below NUMA node %u",
                    g_array_index (layout->numas, MachinePlace, 0).number);
  }
  MachinePlace *first = &g_array_index (layout->numas, MachinePlace, 0);
  first->gpus |= all_gpus & ~gpus;
  first->nics |= all_nics & ~nics;
  return TRUE;
}

static void
fill_gpu_places (TopoMachine *machine, const MachineLayout *layout)
{
  for (guint32 g = 0; g < machine->gpus_per_node; g++) {
    guint64 bit = G_GUINT64_CONSTANT (1) << g;
    machine->gpu_switch[g] = -1;
    for (guint i = 0; i < layout->numas->len; i++)
      if (g_array_index (layout->numas, MachinePlace, i).gpus & bit)
        machine->gpu_numa[g] = (gint16)g_array_index (layout->numas, MachinePlace, i).number;
    for (guint i = 0; i < layout->bridges->len; i++)
      if (g_array_index (layout->bridges, MachinePlace, i).gpus & bit)
        machine->gpu_numa[g] = (gint16)g_array_index (layout->bridges, MachinePlace, i).numa;
    for (guint i = 0; i < layout->switches->len; i++) {
      const MachinePlace *place = &g_array_index (layout->switches, MachinePlace, i);
      if ((place->gpus & bit) == 0)
        continue;
      machine->gpu_switch[g] = (gint16)place->number;
      machine->gpu_numa[g] = (gint16)place->numa;
    }
  }
}

/* "unknown": the GPU's own, 0 where its model is unknown too. */
static gboolean
read_generation (BaseIni *ini, const TopoMachine *machine, guint *out, GError **error)
{
  guint64 generation = machine->gpu->pcie_generation;
  const char *text = base_ini_get_string (ini, "pcie", "generation", error);
  if (text == NULL)
    return FALSE;
  gboolean follows_gpu
      = strcmp (text, "unknown") == 0 && (generation != 0 || topo_gpu_is_unknown (machine->gpu));
  if (!follows_gpu && !base_ini_get_count (ini, "pcie", "generation", 3, 6, &generation, error))
    return FALSE;
  *out = (guint)generation;
  return TRUE;
}

/* Generation and lanes of NICs or uplinks; the GPUs' generation and 16 lanes unless stated. */
static gboolean
read_link_of (BaseIni *ini, const TopoLinkFacts *facts, const char *generation_key,
              const char *lanes_key, guint generation, guint *out_generation,
              double *out_bytes_per_s, GError **error)
{
  guint64 own = generation, lanes = 16;
  if (!base_ini_get_count_optional (ini, "pcie", generation_key, 3, 6, &own, error)
      || !base_ini_get_count_optional (ini, "pcie", lanes_key, 1, 32, &lanes, error))
    return FALSE;
  *out_generation = (guint)own;
  *out_bytes_per_s = topo_link_facts_pcie (facts, (guint)own) * (double)lanes / 16;
  return TRUE;
}

static gboolean
read_rates (BaseIni *ini, const TopoLinkFacts *facts, TopoMachine *machine, MachineLayout *layout,
            GError **error)
{
  static const char *const reaches[] = { "none", "switch", "socket", NULL };
  guint64 lanes = 16;
  guint p2p = TOPO_P2P_SOCKET, generation = 0;
  base_ini_mark_used (ini, "pcie", "source");
  if (!read_generation (ini, machine, &generation, error)
      || !read_link_of (ini, facts, "uplink_generation", "uplink_lanes", generation,
                        &layout->uplink_generation, &layout->uplink_bytes_per_s, error)
      || !read_link_of (ini, facts, "nic_generation", "nic_lanes", generation,
                        &layout->nic_generation, &layout->nic_bytes_per_s, error)
      || !base_ini_get_count_optional (ini, "pcie", "lanes", 1, 32, &lanes, error)
      || !base_ini_get_enum_optional (ini, "pcie", "p2p", reaches, &p2p, error)
      || !base_ini_get_number_optional (ini, "pcie", "inter_socket", BASE_DIM_BYTES_PER_SECOND, 1e6,
                                        MAX_RATE_BYTES_PER_S, &machine->inter_socket_bytes_per_s,
                                        error))
    return FALSE;
  machine->pcie_generation = generation;
  if (generation != 0)
    machine->pcie_bytes_per_s = topo_link_facts_pcie (facts, generation) * (double)lanes / 16;
  machine->p2p = (TopoP2p)p2p;
  layout->has_host = TRUE;
  return TRUE;
}

gboolean
machine_read_pcie (BaseIni *ini, const TopoLinkFacts *facts, TopoMachine *machine,
                   MachineLayout *layout, GError **error)
{
  guint64 gpus = 0, nics = 0;
  machine->inter_socket_bytes_per_s = NAN;
  machine->gpu_numa = g_new0 (gint16, machine->gpus_per_node);
  machine->gpu_switch = g_new0 (gint16, machine->gpus_per_node);
  fill_gpu_places (machine, layout);
  if (!base_ini_has_group (ini, "pcie")) {
    if (machine->wiring == TOPO_WIRING_SWITCH || machine->wiring == TOPO_WIRING_TORUS
        || machine->wiring == TOPO_WIRING_SHM)
      return TRUE;
    base_ini_set_error (ini, "pcie", NULL, error,
                        "group is missing, expected it where not all GPUs are joined by a switch");
    return FALSE;
  }
  if (!read_rates (ini, facts, machine, layout, error)
      || !machine_read_places (ini, machine, layout, &gpus, &nics, error)
      || !place_the_rest (ini, machine, layout, gpus, nics, error))
    return FALSE;
  if (layout->numas->len < 2 && base_ini_has_key (ini, "pcie", "inter_socket")) {
    base_ini_set_error (
        ini, "pcie", "inter_socket", error,
        "found it with one NUMA node, expected [numa N] groups that say what it joins");
    return FALSE;
  }
  if (layout->numas->len > 1 && isnan (machine->inter_socket_bytes_per_s))
    machine_assume (machine, "the rate between NUMA nodes is unknown");
  fill_gpu_places (machine, layout);
  return TRUE;
}
