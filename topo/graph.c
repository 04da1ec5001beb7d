/* topo/graph.c - building and checking node graphs. */
#include "topo/graph.h"
#include <math.h>
#include <string.h>

static const char *const vertex_kind_names[TOPO_VERTEX_N_KINDS] = {
  [TOPO_VERTEX_GPU] = "gpu", [TOPO_VERTEX_NVSWITCH] = "nvswitch",
  [TOPO_VERTEX_CPU] = "cpu", [TOPO_VERTEX_PCIE_SWITCH] = "pcie-switch",
  [TOPO_VERTEX_NIC] = "nic", [TOPO_VERTEX_FABRIC] = "fabric",
};

const char *
topo_vertex_kind_name (TopoVertexKind kind)
{
  g_return_val_if_fail ((guint)kind < TOPO_VERTEX_N_KINDS, "?");
  return vertex_kind_names[kind];
}

TopoGraph *
topo_graph_new (void)
{
  TopoGraph *graph = g_new0 (TopoGraph, 1);
  graph->vertices = g_array_new (FALSE, TRUE, sizeof (TopoVertex));
  graph->links = g_array_new (FALSE, TRUE, sizeof (TopoLink));
  return graph;
}

void
topo_graph_free (TopoGraph *graph)
{
  if (graph == NULL)
    return;
  g_array_unref (graph->vertices);
  g_array_unref (graph->links);
  g_free (graph->first_link);
  g_free (graph);
}

guint32
topo_graph_add_vertex (TopoGraph *graph, TopoVertexKind kind, guint32 index, gint32 numa,
                       gint32 socket, const char *name)
{
  TopoVertex vertex
      = { .kind = kind, .index = index, .numa = numa, .socket = socket, .bridge = -1 };
  g_strlcpy (vertex.name, name, sizeof vertex.name);
  g_array_append_val (graph->vertices, vertex);
  graph->is_finished = FALSE;
  return graph->vertices->len - 1;
}

void
topo_graph_join (TopoGraph *graph, guint32 a, guint32 b, TopoLinkKind kind, guint32 count,
                 double link_bytes_per_s, double latency_s)
{
  TopoLink forth = { .from = a,
                     .to = b,
                     .kind = kind,
                     .count = count,
                     .bytes_per_s = count * link_bytes_per_s,
                     .latency_s = latency_s };
  TopoLink back = forth;
  back.from = b;
  back.to = a;
  g_array_append_val (graph->links, forth);
  g_array_append_val (graph->links, back);
  graph->is_finished = FALSE;
}

static gint
compare_links (gconstpointer a, gconstpointer b)
{
  const TopoLink *x = a, *y = b;
  if (x->from != y->from)
    return x->from < y->from ? -1 : 1;
  if (x->to != y->to)
    return x->to < y->to ? -1 : 1;
  return (gint)x->kind - (gint)y->kind;
}

guint32
topo_graph_n_vertices (const TopoGraph *graph)
{
  return graph->vertices->len;
}

guint32
topo_graph_n_links (const TopoGraph *graph)
{
  return graph->links->len;
}

const TopoVertex *
topo_graph_vertex (const TopoGraph *graph, guint32 vertex)
{
  g_return_val_if_fail (vertex < graph->vertices->len, NULL);
  return &g_array_index (graph->vertices, TopoVertex, vertex);
}

const TopoLink *
topo_graph_link (const TopoGraph *graph, guint32 link)
{
  g_return_val_if_fail (link < graph->links->len, NULL);
  return &g_array_index (graph->links, TopoLink, link);
}

gint64
topo_graph_find (const TopoGraph *graph, TopoVertexKind kind, guint32 index)
{
  for (guint32 v = 0; v < graph->vertices->len; v++) {
    const TopoVertex *vertex = topo_graph_vertex (graph, v);
    if (vertex->kind == kind && vertex->index == index)
      return v;
  }
  return -1;
}

guint32
topo_graph_count (const TopoGraph *graph, TopoVertexKind kind)
{
  guint32 count = 0;
  for (guint32 v = 0; v < graph->vertices->len; v++)
    count += topo_graph_vertex (graph, v)->kind == kind;
  return count;
}

const TopoLink *
topo_graph_link_between (const TopoGraph *graph, guint32 a, guint32 b, TopoLinkKind kind)
{
  g_return_val_if_fail (graph->is_finished && a < graph->vertices->len, NULL);
  for (guint32 l = graph->first_link[a]; l < graph->first_link[a + 1]; l++) {
    const TopoLink *link = topo_graph_link (graph, l);
    if (link->to == b && link->kind == kind)
      return link;
  }
  return NULL;
}

static gboolean
check_link (const TopoGraph *graph, const TopoLink *link, GError **error)
{
  if (link->from >= graph->vertices->len || link->to >= graph->vertices->len) {
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE, "link %u-%u: there are only %u vertices",
                 link->from, link->to, graph->vertices->len);
    return FALSE;
  }
  const char *a = topo_graph_vertex (graph, link->from)->name;
  const char *b = topo_graph_vertex (graph, link->to)->name;
  if (link->from == link->to) {
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE, "'%s' is linked to itself", a);
    return FALSE;
  }
  gboolean rate_ok
      = isnan (link->bytes_per_s) || (link->bytes_per_s > 0 && isfinite (link->bytes_per_s));
  gboolean latency_ok
      = isnan (link->latency_s) || (link->latency_s >= 0 && isfinite (link->latency_s));
  if (link->count == 0 || !rate_ok || !latency_ok) {
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE,
                 "%s link '%s'-'%s': needs a count, a rate > 0 and a latency >= 0, got %u links of "
                 "%g bytes/s together and %g s",
                 topo_link_kind_name (link->kind), a, b, link->count, link->bytes_per_s,
                 link->latency_s);
    return FALSE;
  }
  return TRUE;
}

static gboolean
check_links (const TopoGraph *graph, GError **error)
{
  for (guint32 l = 0; l < graph->links->len; l++) {
    const TopoLink *link = topo_graph_link (graph, l);
    if (!check_link (graph, link, error))
      return FALSE;
    if (l > 0 && compare_links (link, topo_graph_link (graph, l - 1)) == 0) {
      g_set_error (error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE,
                   "'%s' and '%s' are joined twice by %s: state one link with a count",
                   topo_graph_vertex (graph, link->from)->name,
                   topo_graph_vertex (graph, link->to)->name, topo_link_kind_name (link->kind));
      return FALSE;
    }
  }
  return TRUE;
}

static gboolean
check_names (const TopoGraph *graph, GError **error)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint32 v = 0; v < graph->vertices->len; v++) {
    TopoVertex *vertex = &g_array_index (graph->vertices, TopoVertex, v);
    if (g_hash_table_add (seen, vertex->name))
      continue;
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_BAD_VALUE, "two vertices are called '%s'",
                 vertex->name);
    return FALSE;
  }
  return TRUE;
}

/* Vertices reachable from @start, marked in @reached. */
static void
flood (const TopoGraph *graph, guint32 start, gboolean *reached, guint32 *stack)
{
  guint32 depth = 0;
  reached[start] = TRUE;
  stack[depth++] = start;
  while (depth > 0) {
    guint32 v = stack[--depth];
    for (guint32 l = graph->first_link[v]; l < graph->first_link[v + 1]; l++) {
      guint32 to = topo_graph_link (graph, l)->to;
      if (reached[to])
        continue;
      reached[to] = TRUE;
      stack[depth++] = to;
    }
  }
}

static gboolean
check_gpus_connected (const TopoGraph *graph, GError **error)
{
  guint32 n = graph->vertices->len;
  g_autofree gboolean *reached = g_new0 (gboolean, n + 1);
  g_autofree guint32 *stack = g_new0 (guint32, n + 1);
  const TopoVertex *first = NULL;
  for (guint32 v = 0; v < n; v++) {
    const TopoVertex *vertex = topo_graph_vertex (graph, v);
    if (vertex->kind != TOPO_VERTEX_GPU)
      continue;
    if (first == NULL) {
      first = vertex;
      flood (graph, v, reached, stack);
    } else if (!reached[v]) {
      g_set_error (error, TOPO_ERROR, TOPO_ERROR_NO_PATH, "nothing joins '%s' and '%s'",
                   first->name, vertex->name);
      return FALSE;
    }
  }
  return TRUE;
}

static void
build_adjacency (TopoGraph *graph)
{
  guint32 n = graph->vertices->len;
  g_free (graph->first_link);
  graph->first_link = g_new0 (guint32, (gsize)n + 1);
  for (guint32 l = 0; l < graph->links->len; l++)
    graph->first_link[topo_graph_link (graph, l)->from + 1]++;
  for (guint32 v = 0; v < n; v++)
    graph->first_link[v + 1] += graph->first_link[v];
  graph->is_finished = TRUE;
}

gboolean
topo_graph_finish (TopoGraph *graph, GError **error)
{
  g_array_sort (graph->links, compare_links);
  graph->is_finished = FALSE;
  if (!check_names (graph, error) || !check_links (graph, error))
    return FALSE;
  build_adjacency (graph);
  if (!check_gpus_connected (graph, error)) {
    graph->is_finished = FALSE;
    return FALSE;
  }
  return TRUE;
}
