/* topo/write_matrix.c - a graph as an nvidia-smi style matrix. */
#include "topo/write.h"
#include <string.h>

/* For every vertex the one above it in the PCIe tree, found from the CPUs down; -1 none. */
static gint64 *
find_parents (const TopoGraph *graph)
{
  guint32 n = topo_graph_n_vertices (graph), head = 0;
  gint64 *parent = g_new (gint64, (gsize)n + 1);
  g_autoptr (GArray) queue = g_array_new (FALSE, FALSE, sizeof (guint32));
  for (guint32 v = 0; v < n; v++) {
    parent[v] = -1;
    if (topo_graph_vertex (graph, v)->kind == TOPO_VERTEX_CPU)
      g_array_append_val (queue, v);
  }
  while (head < queue->len) {
    guint32 v = g_array_index (queue, guint32, head++);
    for (guint32 l = graph->first_link[v]; l < graph->first_link[v + 1]; l++) {
      const TopoLink *link = topo_graph_link (graph, l);
      TopoVertexKind kind = topo_graph_vertex (graph, link->to)->kind;
      gboolean down = topo_link_kind_is_pcie (link->kind) || link->kind == TOPO_LINK_C2C;
      if (!down || parent[link->to] >= 0 || kind == TOPO_VERTEX_CPU)
        continue;
      parent[link->to] = v;
      if (kind == TOPO_VERTEX_PCIE_SWITCH)
        g_array_append_val (queue, link->to);
    }
  }
  return parent;
}

static gint64
cpu_above (const TopoGraph *graph, const gint64 *parent, guint32 vertex)
{
  gint64 v = vertex;
  while (v >= 0 && topo_graph_vertex (graph, (guint32)v)->kind != TOPO_VERTEX_CPU)
    v = parent[v];
  return v;
}

static gboolean
share_a_switch (const TopoGraph *graph, const gint64 *parent, guint32 a, guint32 b)
{
  for (gint64 x = parent[a]; x >= 0; x = parent[x])
    for (gint64 y = parent[b]; y >= 0; y = parent[y])
      if (x == y && topo_graph_vertex (graph, (guint32)x)->kind == TOPO_VERTEX_PCIE_SWITCH)
        return TRUE;
  return FALSE;
}

/* PCIe relation of two devices, "" where the graph has no PCIe tree. */
static const char *
relation (const TopoGraph *graph, const gint64 *parent, guint32 a, guint32 b)
{
  gint64 x = cpu_above (graph, parent, a), y = cpu_above (graph, parent, b);
  gint32 p = topo_graph_vertex (graph, a)->bridge, q = topo_graph_vertex (graph, b)->bridge;
  if (x < 0 || y < 0)
    return "";
  if (x != y)
    return "SYS";
  if (parent[a] == parent[b] && parent[a] != x)
    return "PIX";
  if (share_a_switch (graph, parent, a, b))
    return "PXB";
  return p != q && p >= 0 && q >= 0 ? "NODE" : "PHB";
}

static const TopoLink *
direct_link (const TopoGraph *graph, guint32 from, guint32 to)
{
  for (guint32 l = graph->first_link[from]; l < graph->first_link[from + 1]; l++) {
    const TopoLink *link = topo_graph_link (graph, l);
    if (link->to == to && topo_link_kind_is_direct (link->kind))
      return link;
  }
  return NULL;
}

static const TopoLink *
link_between_gpus (const TopoGraph *graph, guint32 a, guint32 b)
{
  const TopoLink *straight = direct_link (graph, a, b);
  for (guint32 l = graph->first_link[a]; straight == NULL && l < graph->first_link[a + 1]; l++) {
    const TopoLink *link = topo_graph_link (graph, l), *other;
    if (topo_graph_vertex (graph, link->to)->kind != TOPO_VERTEX_NVSWITCH
        || (other = direct_link (graph, b, link->to)) == NULL)
      continue;
    return link->count <= other->count ? link : other;
  }
  return straight;
}

guint
topo_gpu_links (const TopoGraph *graph, guint a, guint b)
{
  gint64 x = topo_graph_find (graph, TOPO_VERTEX_GPU, a);
  gint64 y = topo_graph_find (graph, TOPO_VERTEX_GPU, b);
  const TopoLink *link
      = x >= 0 && y >= 0 && x != y ? link_between_gpus (graph, (guint32)x, (guint32)y) : NULL;
  return link != NULL ? link->count : 0;
}

static char *
cell_of (const TopoGraph *graph, const gint64 *parent, guint32 a, guint32 b)
{
  const TopoLink *link = NULL;
  if (a == b)
    return g_strdup ("X");
  if (topo_graph_vertex (graph, a)->kind == TOPO_VERTEX_GPU
      && topo_graph_vertex (graph, b)->kind == TOPO_VERTEX_GPU)
    link = link_between_gpus (graph, a, b);
  if (link == NULL)
    return g_strdup (relation (graph, parent, a, b));
  return g_strdup_printf ("%s%u",
                          link->kind == TOPO_LINK_XGMI  ? "XGMI"
                          : link->kind == TOPO_LINK_ICI ? "ICI"
                          : link->kind == TOPO_LINK_SHM ? "SHM"
                                                        : "NV",
                          link->count);
}

/* GPUs, then NICs, of the first node. Returns: (owned) GArray of guint32 vertices. */
static GArray *
devices_of (const TopoMachine *machine, guint32 *n_gpus)
{
  const TopoGraph *graph = machine->graph;
  GArray *devices = g_array_new (FALSE, FALSE, sizeof (guint32));
  guint32 nics = topo_graph_count (graph, TOPO_VERTEX_NIC) / topo_machine_nodes_shown (machine);
  *n_gpus = machine->gpus_per_node;
  for (guint32 i = 0; i < machine->gpus_per_node + nics; i++) {
    gboolean is_gpu = i < *n_gpus;
    gint64 v = topo_graph_find (graph, is_gpu ? TOPO_VERTEX_GPU : TOPO_VERTEX_NIC,
                                is_gpu ? i : i - *n_gpus);
    guint32 vertex = (guint32)MAX (v, 0);
    g_array_append_val (devices, vertex);
  }
  return devices;
}

static void
append_line (GString *out, const char *first, char **cells, guint n, const char *last)
{
  g_string_append_printf (out, "%-10s", first);
  for (guint i = 0; i < n; i++)
    g_string_append_printf (out, " %-8s", cells[i]);
  g_string_append_printf (out, " %s\n", last);
}

char *
topo_write_matrix (const TopoReading *reading)
{
  const TopoGraph *graph = reading->machine->graph;
  guint32 n_gpus = 0;
  g_autoptr (GArray) devices = devices_of (reading->machine, &n_gpus);
  g_autofree gint64 *parent = find_parents (graph);
  GString *out = g_string_new (NULL);
  guint n = devices->len;
  g_auto (GStrv) names = g_new0 (char *, n + 1);
  for (guint i = 0; i < n; i++)
    names[i] = g_strdup (topo_graph_vertex (graph, g_array_index (devices, guint32, i))->name);
  append_line (out, "", names, n, "NUMA");
  for (guint i = 0; i < n; i++) {
    guint32 a = g_array_index (devices, guint32, i);
    gint32 numa = topo_graph_vertex (graph, a)->numa;
    g_autofree char *numa_text = numa >= 0 ? g_strdup_printf ("%d", numa) : g_strdup ("");
    g_auto (GStrv) cells = g_new0 (char *, n + 1);
    for (guint j = 0; j < n; j++) {
      const char *kept = reading->n_cells == n ? reading->cells[i * n + j] : "";
      cells[j] = *kept != '\0' ? g_strdup (kept)
                               : cell_of (graph, parent, a, g_array_index (devices, guint32, j));
    }
    append_line (out, names[i], cells, n, numa_text);
  }
  return g_string_free (out, FALSE);
}
