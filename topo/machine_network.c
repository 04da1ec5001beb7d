/* topo/machine_network.c - [network] of a machine file: NICs, whom they serve, the fabric. */
#include "topo/contention.h"
#include "topo/machine-private.h"
#include <math.h>
#include <string.h>

#define MAX_NICS             64
#define MAX_NIC_BYTES_PER_S  1e13
#define MAX_OVERSUBSCRIPTION 1e3

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
    if (!machine_parse_range (items[c], machine->gpus_per_node, &first, &last)) {
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
    machine->nics[c].gpus = machine_first_bits (machine->gpus_per_node);
  return TRUE;
}

/* "unknown" leaves *out_known FALSE: the NICs are listed, nothing is known of what they plug into. */
static gboolean
read_fabric (BaseIni *ini, TopoMachine *machine, gboolean *out_known, GError **error)
{
  guint fabric = TOPO_FABRIC_NONE;
  const char *word = base_ini_get_string (ini, "network", "fabric", error);
  if (word == NULL)
    return FALSE;
  *out_known = strcmp (word, "unknown") != 0;
  if (!*out_known)
    return TRUE;
  if (!base_ini_get_enum_optional (ini, "network", "fabric", topo_fabric_names, &fabric, error))
    return FALSE;
  if (fabric == TOPO_FABRIC_NONE) {
    base_ini_set_error (ini, "network", "fabric", error,
                        "found 'none', expected a fabric, or no [network] at all");
    return FALSE;
  }
  machine->fabric = (TopoFabric)fabric;
  return TRUE;
}

/* A list with one entry per NIC, or absent. Returns: (owned) or NULL on failure. */
static char **
read_list_of_nics (BaseIni *ini, const char *key, guint n_nics, GError **error)
{
  g_auto (GStrv) items = base_ini_get_list (ini, "network", key);
  guint n = g_strv_length (items);
  if (n == 0 || n == n_nics)
    return g_steal_pointer (&items);
  base_ini_set_error (ini, "network", key, error, "found %u entries, expected one per NIC (%u)", n,
                      n_nics);
  return NULL;
}

static gboolean
read_rate_list (BaseIni *ini, MachineLayout *layout, gboolean known, GError **error)
{
  g_auto (GStrv) rates = read_list_of_nics (ini, "nic_rates", layout->nics->len, error);
  for (guint c = 0; rates != NULL && rates[0] != NULL && c < layout->nics->len; c++) {
    MachineNic *nic = &g_array_index (layout->nics, MachineNic, c);
    if (!known && strcmp (rates[c], "unknown") == 0)
      continue;
    if (!base_units_parse (rates[c], BASE_DIM_BYTES_PER_SECOND, &nic->bytes_per_s, NULL)
        || nic->bytes_per_s < 1e5 || nic->bytes_per_s > MAX_NIC_BYTES_PER_S) {
      base_ini_set_error (ini, "network", "nic_rates", error,
                          "found '%s', expected a rate such as 400Gb/s%s", rates[c],
                          known ? "" : ", or unknown");
      return FALSE;
    }
  }
  return rates != NULL;
}

static gboolean
read_nic_list (BaseIni *ini, MachineLayout *layout, gboolean known, GError **error)
{
  guint64 nics = 0;
  double rate = NAN;
  if (!base_ini_get_count (ini, "network", "nics", 1, MAX_NICS, &nics, error))
    return FALSE;
  gboolean required = known && !base_ini_has_key (ini, "network", "nic_rates");
  if (required
          ? !base_ini_get_number (ini, "network", "nic_rate", BASE_DIM_BYTES_PER_SECOND, 1e5,
                                  MAX_NIC_BYTES_PER_S, &rate, error)
          : !base_ini_get_number_optional (ini, "network", "nic_rate", BASE_DIM_BYTES_PER_SECOND,
                                           1e5, MAX_NIC_BYTES_PER_S, &rate, error))
    return FALSE;
  for (guint64 c = 0; c < nics; c++) {
    MachineNic nic = { .bytes_per_s = rate };
    g_array_append_val (layout->nics, nic);
  }
  g_auto (GStrv) names = read_list_of_nics (ini, "names", (guint)nics, error);
  if (names == NULL)
    return FALSE;
  for (guint c = 0; names[0] != NULL && c < nics; c++)
    g_array_index (layout->nics, MachineNic, c).name = g_strdup (names[c]);
  return read_rate_list (ini, layout, known, error);
}

gboolean
machine_read_network (BaseIni *ini, TopoMachine *machine, MachineLayout *layout, GError **error)
{
  gboolean known = FALSE;
  guint64 rails = 0;
  machine->fabric = TOPO_FABRIC_NONE;
  if (!base_ini_has_group (ini, "network")) {
    machine_assume (machine, "the network is unknown: plans stay inside one node");
    return TRUE;
  }
  base_ini_mark_used (ini, "network", "source");
  if (!read_fabric (ini, machine, &known, error) || !read_nic_list (ini, layout, known, error))
    return FALSE;
  if (!known) {
    machine_assume (machine, "the network is unknown: plans stay inside one node");
    return TRUE;
  }
  if (!base_ini_get_count_optional (ini, "network", "rails", 1, MAX_NICS, &rails, error)
      || !base_ini_get_number_optional (ini, "network", "oversubscription_ratio", BASE_DIM_RATIO, 1,
                                        MAX_OVERSUBSCRIPTION, &machine->oversubscription_ratio,
                                        error))
    return FALSE;
  machine->rails = (guint32)rails;
  machine->n_nics = layout->nics->len;
  machine->nics = g_new0 (TopoNic, machine->n_nics);
  for (guint c = 0; c < machine->n_nics; c++)
    machine->nics[c].bytes_per_s = g_array_index (layout->nics, MachineNic, c).bytes_per_s;
  return read_serves (ini, machine, error);
}

TopoNicShare
topo_machine_nic_share (const TopoMachine *machine, guint64 senders)
{
  double worst = INFINITY, total = 0;
  if (!topo_paths_only_ports_bind (machine))
    return topo_contention_network (machine, senders);
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
  return (TopoNicShare){ .bytes_per_s = isfinite (worst) ? worst : 0 };
}
