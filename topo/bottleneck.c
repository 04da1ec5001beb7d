/* topo/bottleneck.c - the link that bounds a group, in words. */
#include "topo/placement.h"
#include <math.h>

/*
 * Of a ring over k domains of g members each GPU sends (n-1)/n of the bytes inside the domain, and
 * its NIC carries 1/g of that: the network bounds the group when the NICs of its g members
 * together are slower than one member's link inside.
 */
static gboolean
network_bounds (const TopoGroupShape *shape)
{
  if (shape->domains < 2)
    return FALSE;
  return shape->ranks_per_domain < 2
         || shape->inter_bytes_per_s * shape->ranks_per_domain < shape->intra_bytes_per_s;
}

/* "inter-socket CPU0-CPU1" */
static void
append_link (GString *text, const TopoMachine *machine, const TopoLink *link)
{
  g_string_append_printf (text, "%s %s-%s", topo_link_kind_name (link->kind),
                          topo_graph_vertex (machine->graph, link->from)->name,
                          topo_graph_vertex (machine->graph, link->to)->name);
}

/* @port: rate of the NIC that binds. */
static void
append_nic (GString *text, const TopoMachine *machine, double port, double per_gpu)
{
  double sharers = port / per_gpu;
  g_string_append_printf (text, "NIC %g Gb/s %s", port * 8 / 1e9,
                          topo_fabric_name (machine->fabric));
  if (sharers > 1.01)
    g_string_append_printf (text, " shared by %g GPUs", round (sharers * 100) / 100);
  else if (sharers < 0.99)
    g_string_append_printf (text, " x %g per GPU", round (100 / sharers) / 100);
}

static void
append_network (GString *text, const TopoMachine *machine, const TopoGroupShape *shape)
{
  const TopoLink *link = shape->inter_link;
  if (shape->spine_binds)
    g_string_append_printf (text, "spine, oversubscribed %g to 1", machine->oversubscription_ratio);
  else if (link != NULL && link->kind != TOPO_LINK_NIC)
    append_link (text, machine, link);
  else
    append_nic (text, machine, link != NULL ? link->bytes_per_s : machine->nics[0].bytes_per_s,
                shape->inter_bytes_per_s);
}

static gboolean
is_own_link (const TopoMachine *machine, const TopoLink *link)
{
  return topo_graph_vertex (machine->graph, link->from)->kind == TOPO_VERTEX_GPU
         || topo_graph_vertex (machine->graph, link->to)->kind == TOPO_VERTEX_GPU;
}

/* A link shared by several GPUs is named; of a GPU's own the class says enough. */
static void
append_inside (GString *text, const TopoMachine *machine, const TopoGroupShape *shape)
{
  const TopoLink *link = shape->intra_link;
  if (link != NULL && !is_own_link (machine, link)) {
    append_link (text, machine, link);
    return;
  }
  g_string_append (text, topo_link_class_name ((TopoLinkClass)shape->link_class));
  if (shape->crosses_socket)
    g_string_append (text, " across sockets");
}

char *
topo_group_bottleneck (const TopoMachine *machine, const TopoGroupShape *shape)
{
  if (shape->ranks < 2)
    return g_strdup ("none");
  double per_gpu
      = shape->intra_link != NULL ? shape->intra_link_bytes_per_s : shape->intra_bytes_per_s;
  g_autoptr (GString) text = g_string_new (NULL);
  if (network_bounds (shape)) {
    if (!(shape->inter_bytes_per_s > 0))
      return g_strdup ("network, unknown");
    per_gpu = shape->inter_bytes_per_s;
    append_network (text, machine, shape);
  } else {
    append_inside (text, machine, shape);
  }
  g_autofree char *rate = base_units_format_rate (per_gpu);
  g_string_append_printf (text, ", %s per GPU one way", rate);
  return g_string_free (g_steal_pointer (&text), FALSE);
}
