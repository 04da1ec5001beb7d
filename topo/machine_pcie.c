/* topo/machine_pcie.c - [pcie], [numa N] and [switch N] of a machine file. */
#include "topo/machine-private.h"
#include <math.h>
#include <string.h>

#define MAX_PLACES           64
#define MAX_RATE_BYTES_PER_S 1e15

void
machine_layout_init (MachineLayout *layout)
{
  memset (layout, 0, sizeof *layout);
  layout->numas = g_array_new (FALSE, TRUE, sizeof (MachinePlace));
  layout->switches = g_array_new (FALSE, TRUE, sizeof (MachinePlace));
}

void
machine_layout_clear (MachineLayout *layout)
{
  g_clear_pointer (&layout->numas, g_array_unref);
  g_clear_pointer (&layout->switches, g_array_unref);
}

static MachinePlace *
find_place (GArray *places, guint32 number)
{
  for (guint i = 0; i < places->len; i++) {
    MachinePlace *place = &g_array_index (places, MachinePlace, i);
    if (place->number == number)
      return place;
  }
  return NULL;
}

static void
add_numa (MachineLayout *layout, guint32 number)
{
  MachinePlace place = { .number = number, .socket = -1 };
  if (find_place (layout->numas, number) == NULL)
    g_array_append_val (layout->numas, place);
}

static gboolean
read_place (BaseIni *ini, const TopoMachine *machine, const char *group, gboolean is_switch,
            MachinePlace *place, GError **error)
{
  guint64 numa = 0, socket = 0, number = 0;
  const char *text = strchr (group, ' ') + 1;
  if (!base_units_parse_count (text, 0, MAX_PLACES - 1, &number, NULL)) {
    base_ini_set_error (ini, group, NULL, error, "found '%s', expected a number from 0 to %d", text,
                        MAX_PLACES - 1);
    return FALSE;
  }
  if (!machine_read_set (ini, group, "gpus", machine->gpus_per_node, &place->gpus, error)
      || !machine_read_set (ini, group, "nics", MAX (machine->n_nics, 1), &place->nics, error))
    return FALSE;
  place->number = (guint32)number;
  place->socket = -1;
  if (is_switch) {
    if (!base_ini_get_count (ini, group, "numa", 0, MAX_PLACES - 1, &numa, error))
      return FALSE;
    place->numa = (guint32)numa;
  } else if (base_ini_has_key (ini, group, "socket")) {
    if (!base_ini_get_count (ini, group, "socket", 0, MAX_PLACES - 1, &socket, error))
      return FALSE;
    place->socket = (gint32)socket;
  }
  if (machine->n_nics > 0 || place->nics == 0)
    return TRUE;
  base_ini_set_error (ini, group, "nics", error, "found NICs, but there is no [network]");
  return FALSE;
}

/* Each GPU and NIC hangs in one place. */
static gboolean
claim (BaseIni *ini, const char *group, const char *key, guint64 mine, guint64 *taken,
       GError **error)
{
  guint64 twice = mine & *taken;
  *taken |= mine;
  if (twice == 0)
    return TRUE;
  base_ini_set_error (ini, group, key, error, "number %d hangs below two places",
                      __builtin_ctzll (twice));
  return FALSE;
}

static gboolean
read_places (BaseIni *ini, const TopoMachine *machine, MachineLayout *layout, guint64 *gpus,
             guint64 *nics, GError **error)
{
  *gpus = *nics = 0;
  for (guint i = 0; i < base_ini_n_groups (ini); i++) {
    const char *group = base_ini_group_name (ini, i);
    gboolean is_switch = g_str_has_prefix (group, "switch ");
    MachinePlace place = { 0 };
    if (!is_switch && !g_str_has_prefix (group, "numa "))
      continue;
    if (!read_place (ini, machine, group, is_switch, &place, error)
        || !claim (ini, group, "gpus", place.gpus, gpus, error)
        || !claim (ini, group, "nics", place.nics, nics, error))
      return FALSE;
    if (find_place (is_switch ? layout->switches : layout->numas, place.number) != NULL) {
      base_ini_set_error (ini, group, NULL, error, "number %u is used twice", place.number);
      return FALSE;
    }
    g_array_append_val (is_switch ? layout->switches : layout->numas, place);
  }
  for (guint i = 0; i < layout->switches->len; i++)
    add_numa (layout, g_array_index (layout->switches, MachinePlace, i).numa);
  return TRUE;
}

/* What no group places: below one host bridge, said as assumed. */
static gboolean
place_the_rest (BaseIni *ini, TopoMachine *machine, MachineLayout *layout, guint64 gpus,
                guint64 nics, GError **error)
{
  guint64 all_gpus = G_MAXUINT64 >> (64 - machine->gpus_per_node);
  guint64 all_nics = machine->n_nics == 0 ? 0 : G_MAXUINT64 >> (64 - machine->n_nics);
  if (gpus != all_gpus && layout->numas->len > 0) {
    base_ini_set_error (ini, "pcie", NULL, error,
                        "GPU %d is below no [numa N] or [switch N]: place every GPU, or none",
                        __builtin_ctzll (all_gpus & ~gpus));
    return FALSE;
  }
  if (layout->numas->len == 0) {
    machine_assume (machine, "the PCIe tree is unknown: all GPUs and NICs below one CPU");
    add_numa (layout, 0);
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
    for (guint i = 0; i < layout->switches->len; i++) {
      const MachinePlace *place = &g_array_index (layout->switches, MachinePlace, i);
      if ((place->gpus & bit) == 0)
        continue;
      machine->gpu_switch[g] = (gint16)place->number;
      machine->gpu_numa[g] = (gint16)place->numa;
    }
  }
}

static gboolean
read_rates (BaseIni *ini, TopoMachine *machine, MachineLayout *layout, GError **error)
{
  static const char *const reaches[] = { "none", "switch", "socket", NULL };
  guint64 generation = machine->gpu->pcie_generation, uplink = 0, lanes = 16;
  guint p2p = TOPO_P2P_SOCKET;
  base_ini_mark_used (ini, "pcie", "source");
  if (!base_ini_get_count (ini, "pcie", "generation", 3, 6, &generation, error))
    return FALSE;
  uplink = generation;
  if (!base_ini_get_count_optional (ini, "pcie", "uplink_generation", 3, 6, &uplink, error)
      || !base_ini_get_count_optional (ini, "pcie", "lanes", 1, 32, &lanes, error)
      || !base_ini_get_enum_optional (ini, "pcie", "p2p", reaches, &p2p, error)
      || !base_ini_get_number_optional (ini, "pcie", "inter_socket", BASE_DIM_BYTES_PER_SECOND, 1e6,
                                        MAX_RATE_BYTES_PER_S, &machine->inter_socket_bytes_per_s,
                                        error))
    return FALSE;
  machine->pcie_generation = (guint)generation;
  machine->pcie_bytes_per_s = topo_pcie_x16_bytes_per_s ((guint)generation) * lanes / 16;
  machine->p2p = (TopoP2p)p2p;
  layout->uplink_generation = (guint)uplink;
  return TRUE;
}

gboolean
machine_read_pcie (BaseIni *ini, TopoMachine *machine, MachineLayout *layout, GError **error)
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
  if (!read_rates (ini, machine, layout, error)
      || !read_places (ini, machine, layout, &gpus, &nics, error)
      || !place_the_rest (ini, machine, layout, gpus, nics, error))
    return FALSE;
  if (layout->numas->len > 1 && isnan (machine->inter_socket_bytes_per_s))
    machine_assume (machine, "the rate between NUMA nodes is unknown");
  fill_gpu_places (machine, layout);
  return TRUE;
}
