/* topo/cluster.c - how many nodes and domains a number of GPUs is. */
#include "topo/cluster.h"
#include <string.h>

#define MAX_GPUS (1u << 24)

guint32
topo_machine_domain_in_use (const TopoMachine *machine, guint32 gpus)
{
  guint32 domain = machine->domain_size, node = machine->gpus_per_node;
  if (gpus <= domain || domain == node || machine->wiring == TOPO_WIRING_TORUS)
    return domain;
  for (guint32 used = domain; used * 9 >= domain * 8; used -= node)
    if (gpus % used == 0)
      return used;
  return domain;
}

guint32
topo_machine_nodes_shown (const TopoMachine *machine)
{
  if (machine->gpus_per_node == 0 || machine->wiring == TOPO_WIRING_TORUS)
    return 1;
  return machine->domain_size / machine->gpus_per_node;
}

static gboolean
check_size (const TopoMachine *machine, guint64 gpus, GError **error)
{
  guint32 node = machine->gpus_per_node;
  if (gpus == 0 || gpus > MAX_GPUS) {
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_SIZE,
                 "found %" G_GUINT64_FORMAT " GPUs, expected 1 to %u", gpus, MAX_GPUS);
    return FALSE;
  }
  if (gpus > node && gpus % node != 0) {
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_SIZE,
                 "%" G_GUINT64_FORMAT
                 " GPUs are no whole number of '%s' nodes of %u: take %" G_GUINT64_FORMAT
                 " or %" G_GUINT64_FORMAT,
                 gpus, machine->slug, node, gpus / node * node, (gpus / node + 1) * node);
    return FALSE;
  }
  if (gpus > machine->domain_size && machine->n_nics == 0) {
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_SIZE,
                 "%" G_GUINT64_FORMAT " GPUs need more than one '%s', whose network is unknown: "
                 "take at most %u, or a machine file with a [network] group",
                 gpus, machine->slug, machine->domain_size);
    return FALSE;
  }
  return TRUE;
}

gboolean
topo_cluster_init (TopoCluster *cluster, const TopoMachine *machine, guint64 gpus, GError **error)
{
  if (!check_size (machine, gpus, error))
    return FALSE;
  guint32 domain = topo_machine_domain_in_use (machine, (guint32)gpus);
  guint32 node = machine->gpus_per_node;
  memset (cluster, 0, sizeof *cluster);
  cluster->machine = machine;
  cluster->gpus = (guint32)gpus;
  cluster->nodes = (cluster->gpus + node - 1) / node;
  cluster->domain_in_use = domain;
  cluster->domains = (cluster->gpus + domain - 1) / domain;
  return TRUE;
}
