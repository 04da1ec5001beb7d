/* topo/machine_generic.c - the machine of a run that names its card only. */
#include "topo/machine-private.h"

/* Fallback where no PCIe generation is known: the oldest in use with any card of the catalog. */
#define OLDEST_PCIE_GENERATION 3

static TopoMachine *
new_generic (const BaseCatalog *catalog, TopoGpu *gpu, guint32 gpus_per_node, GError **error)
{
  guint generation = gpu->pcie_generation == 0 ? OLDEST_PCIE_GENERATION : gpu->pcie_generation;
  g_autofree char *slug = g_strdup_printf ("%s-x%u", gpu->slug, gpus_per_node);
  g_autofree char *text = g_strdup_printf (
      "[machine]\nname = %u x %s\ngpu = %s\ngpus_per_node = %u\nsource = assumed\n"
      "[links]\nwiring = none\n[pcie]\ngeneration = %u\n",
      gpus_per_node, gpu->slug, gpu->slug, gpus_per_node, generation);
  g_autoptr (BaseIni) ini = base_ini_new_from_data (text, -1, slug, error);
  if (ini == NULL) {
    topo_gpu_free (gpu);
    return NULL;
  }
  TopoMachine *machine = topo_machine_new_from_ini (catalog, ini, slug, gpu, error);
  if (machine != NULL)
    machine_assume (machine, "only the card is known: %u on PCIe %u below one CPU, no NVLink",
                    gpus_per_node, generation);
  return machine;
}

TopoMachine *
topo_machine_load_for_gpu (const BaseCatalog *catalog, const char *gpu_name, guint32 gpus_per_node,
                           GError **error)
{
  g_autoptr (TopoGpu) gpu = topo_gpu_load (catalog, gpu_name, error);
  if (gpu == NULL)
    return NULL;
  if (gpu->board == NULL)
    return new_generic (catalog, g_steal_pointer (&gpu), gpus_per_node, error);
  TopoMachine *machine = topo_machine_load (catalog, gpu->board, gpu_name, error);
  if (machine != NULL)
    machine_assume (machine, "only the card is known: the machine is taken to be '%s'", gpu->board);
  return machine;
}
