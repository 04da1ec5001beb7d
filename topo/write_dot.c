/* topo/write_dot.c - a graph for Graphviz. */
#include "topo/write.h"
#include <math.h>

static const char *const shapes[TOPO_VERTEX_N_KINDS] = {
  [TOPO_VERTEX_GPU] = "box",
  [TOPO_VERTEX_NVSWITCH] = "hexagon",
  [TOPO_VERTEX_PCIE_SWITCH] = "diamond",
  [TOPO_VERTEX_CPU] = "ellipse",
  [TOPO_VERTEX_NIC] = "cds",
  [TOPO_VERTEX_FABRIC] = "doubleoctagon",
};

/* Pen width from 1 (unknown, or up to 10 GB/s) to 6 (300 GB/s and more), by decades. */
static double
width_of (double bytes_per_s)
{
  if (isnan (bytes_per_s) || bytes_per_s <= 10e9)
    return 1;
  return MIN (6, 1 + 5 * log (bytes_per_s / 10e9) / log (30));
}

char *
topo_write_dot (const TopoMachine *machine)
{
  const TopoGraph *graph = machine->graph;
  GString *out = g_string_new ("graph topology {\n  node [fontsize=10];\n  edge [fontsize=8];\n");
  for (guint32 v = 0; v < topo_graph_n_vertices (graph); v++) {
    const TopoVertex *vertex = topo_graph_vertex (graph, v);
    g_string_append_printf (out, "  \"%s\" [shape=%s", vertex->name, shapes[vertex->kind]);
    if (vertex->kind == TOPO_VERTEX_CPU && vertex->numa >= 0)
      g_string_append_printf (out, ", label=\"%s\\nNUMA %d\"", vertex->name, vertex->numa);
    g_string_append (out, "];\n");
  }
  for (guint32 l = 0; l < topo_graph_n_links (graph); l++) {
    const TopoLink *link = topo_graph_link (graph, l);
    if (link->from > link->to)
      continue;
    g_autofree char *rate
        = isnan (link->bytes_per_s) ? g_strdup ("?") : base_units_format_rate (link->bytes_per_s);
    g_string_append_printf (out, "  \"%s\" -- \"%s\" [label=\"%s x%u\\n%s\", penwidth=%.2f];\n",
                            topo_graph_vertex (graph, link->from)->name,
                            topo_graph_vertex (graph, link->to)->name,
                            topo_link_kind_name (link->kind), link->count, rate,
                            width_of (link->bytes_per_s));
  }
  g_string_append (out, "}\n");
  return g_string_free (out, FALSE);
}
