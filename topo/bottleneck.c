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

static char *
describe_nic (const TopoMachine *machine, const TopoGroupShape *shape)
{
  double nic = machine->nics[0].bytes_per_s;
  double sharers = nic / shape->inter_bytes_per_s;
  g_autofree char *rate = base_units_format_rate (shape->inter_bytes_per_s);
  g_autoptr (GString) text = g_string_new (NULL);
  g_string_printf (text, "NIC %g Gb/s %s", nic * 8 / 1e9, topo_fabric_name (machine->fabric));
  if (sharers > 1.01)
    g_string_append_printf (text, " shared by %g GPUs", round (sharers * 100) / 100);
  else if (sharers < 0.99)
    g_string_append_printf (text, " x %g per GPU", round (100 / sharers) / 100);
  g_string_append_printf (text, ", %s per GPU one way", rate);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

char *
topo_group_bottleneck (const TopoMachine *machine, const TopoGroupShape *shape)
{
  if (shape->ranks < 2)
    return g_strdup ("none");
  if (network_bounds (shape))
    return shape->inter_bytes_per_s > 0 ? describe_nic (machine, shape)
                                        : g_strdup ("network, unknown");
  g_autofree char *rate = base_units_format_rate (shape->intra_bytes_per_s);
  return g_strdup_printf ("%s%s, %s per GPU one way",
                          topo_link_class_name ((TopoLinkClass)shape->link_class),
                          shape->crosses_socket ? " across sockets" : "", rate);
}
