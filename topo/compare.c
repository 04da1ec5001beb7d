/* topo/compare.c - what a machine lacks of the one it should be. */
#include "topo/write.h"
#include <string.h>

static char *
links_in_words (const TopoMachine *machine, guint count)
{
  gboolean xgmi = machine->direct == TOPO_LINK_XGMI && machine->wiring != TOPO_WIRING_NONE;
  if (count == 0)
    return g_strdup (xgmi ? "no XGMI" : "no NVLink");
  return g_strdup_printf ("%s%u", xgmi ? "XGMI" : "NV", count);
}

static void
compare_links (const TopoMachine *found, const TopoMachine *expected, GPtrArray *out)
{
  guint n = MIN (found->gpus_per_node, expected->gpus_per_node);
  for (guint i = 0; i < n; i++)
    for (guint j = i + 1; j < n; j++) {
      guint has = topo_gpu_links (found->graph, i, j),
            wants = topo_gpu_links (expected->graph, i, j);
      const TopoMachine *words = expected->wiring != TOPO_WIRING_NONE ? expected : found;
      if (has == wants)
        continue;
      g_autofree char *there = links_in_words (words, has), *wanted = links_in_words (words, wants);
      g_ptr_array_add (out, g_strdup_printf ("GPU%u–GPU%u: %s, expected %s", i, j, there, wanted));
    }
}

static guint32
nics_of_node (const TopoMachine *machine)
{
  return topo_graph_count (machine->graph, TOPO_VERTEX_NIC) / topo_machine_nodes_shown (machine);
}

/* More NICs than expected are storage and management; fewer are missing, where any are shown. */
static void
compare_devices (const TopoMachine *found, const TopoMachine *expected, GPtrArray *out)
{
  guint32 has = nics_of_node (found), wants = nics_of_node (expected);
  if (found->gpus_per_node != expected->gpus_per_node)
    g_ptr_array_add (out, g_strdup_printf ("%u GPUs, expected %u", found->gpus_per_node,
                                           expected->gpus_per_node));
  if (has > 0 && has < wants)
    g_ptr_array_add (out, g_strdup_printf ("%u NICs, expected %u", has, wants));
  if (!topo_gpu_is_unknown (found->gpu) && strcmp (found->gpu->slug, expected->gpu->slug) != 0)
    g_ptr_array_add (out, g_strdup_printf ("GPU model %s, expected %s", found->gpu->slug,
                                           expected->gpu->slug));
  if (found->pcie_generation != 0 && expected->pcie_generation != 0
      && found->pcie_generation < expected->pcie_generation)
    g_ptr_array_add (out, g_strdup_printf ("PCIe generation %u, expected %u",
                                           found->pcie_generation, expected->pcie_generation));
}

/* The most links between two GPUs. */
static guint
most_links (const TopoMachine *machine)
{
  guint most = 0;
  for (guint i = 0; i < machine->gpus_per_node; i++)
    for (guint j = i + 1; j < machine->gpus_per_node; j++)
      most = MAX (most, topo_gpu_links (machine->graph, i, j));
  return most;
}

GPtrArray *
topo_reading_differences (const TopoReading *found, const TopoMachine *expected)
{
  GPtrArray *out = g_ptr_array_new_with_free_func (g_free);
  compare_devices (found->machine, expected, out);
  if (!found->hides_links) {
    compare_links (found->machine, expected, out);
  } else if (most_links (expected) > 0) {
    g_autofree char *wanted = links_in_words (expected, most_links (expected));
    g_ptr_array_add (out, g_strdup_printf ("links between GPUs: not told by %s, expected %s",
                                           topo_format_name (found->format), wanted));
  }
  return out;
}

GPtrArray *
topo_machine_differences (const TopoMachine *found, const TopoMachine *expected)
{
  GPtrArray *out = g_ptr_array_new_with_free_func (g_free);
  compare_devices (found, expected, out);
  compare_links (found, expected, out);
  return out;
}
