/* topo/route.c - best-first search for the best path. */
#include "topo/route.h"
#include <math.h>
#include <string.h>

static const char *const type_names[TOPO_PATH_N_TYPES]
    = { "LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "PHB", "SYS", "NET", "DIS" };

const char *
topo_path_type_name (TopoPathType type)
{
  g_return_val_if_fail ((guint)type < TOPO_PATH_N_TYPES, "?");
  return type_names[type];
}

/* A partial path; its type grows as links are added. */
typedef struct {
  guint32 vertex;
  guint32 n_links;
  guint32 links[TOPO_ROUTE_MAX_LINKS];
  double bytes_per_s; /* INFINITY before the first known rate */
  guint8 n_direct;    /* NVLink hops */
  guint8 n_gpus;      /* GPUs passed through */
  guint8 n_switches;  /* PCIe switches passed through */
  guint8 n_cpus;      /* stood on, ends included */
  gboolean c2c, pcie, net, inter_socket;
} Path;

static TopoPathType
type_of (const Path *path)
{
  if (path->n_links == 0)
    return TOPO_PATH_LOC;
  if (path->net)
    return TOPO_PATH_NET;
  if (path->inter_socket)
    return TOPO_PATH_SYS;
  if (path->n_direct > 0 && !path->pcie && !path->c2c)
    return path->n_gpus > 0 ? TOPO_PATH_NVB : TOPO_PATH_NVL;
  if (path->c2c && !path->pcie && path->n_links == 1)
    return TOPO_PATH_C2C;
  if (path->n_cpus > 0)
    return TOPO_PATH_PHB;
  return path->n_switches > 1 ? TOPO_PATH_PXB : TOPO_PATH_PIX;
}

static gboolean
is_better (const Path *a, const Path *b)
{
  TopoPathType x = type_of (a), y = type_of (b);
  if (x != y)
    return x < y;
  if (a->bytes_per_s != b->bytes_per_s)
    return a->bytes_per_s > b->bytes_per_s;
  return a->n_links < b->n_links;
}

/* May a path that stands on @vertex go on over @link? */
static gboolean
may_pass (const TopoGraph *graph, const Path *path, const TopoLink *link, gboolean allow_net)
{
  if (path->n_links == TOPO_ROUTE_MAX_LINKS)
    return FALSE;
  if (link->kind == TOPO_LINK_NIC && !allow_net)
    return FALSE;
  if (path->n_links == 0)
    return TRUE;
  const TopoVertex *here = topo_graph_vertex (graph, path->vertex);
  const TopoLink *last = topo_graph_link (graph, path->links[path->n_links - 1]);
  switch (here->kind) {
  case TOPO_VERTEX_GPU: /* one NVLink peer may forward, on NVLink */
    return path->n_gpus == 0 && path->n_direct == path->n_links
           && topo_link_kind_is_direct (last->kind) && topo_link_kind_is_direct (link->kind)
           && topo_graph_vertex (graph, link->to)->kind == TOPO_VERTEX_GPU
           && topo_graph_vertex (graph, last->from)->kind == TOPO_VERTEX_GPU;
  case TOPO_VERTEX_NIC:
    return last->kind == TOPO_LINK_NIC || link->kind == TOPO_LINK_NIC;
  default:
    return TRUE;
  }
}

static void
extend (const TopoGraph *graph, const Path *path, guint32 number, Path *out)
{
  const TopoLink *link = topo_graph_link (graph, number);
  *out = *path;
  if (path->n_links > 0) { /* the vertex left behind was passed through */
    TopoVertexKind kind = topo_graph_vertex (graph, path->vertex)->kind;
    out->n_gpus += kind == TOPO_VERTEX_GPU;
    out->n_switches += kind == TOPO_VERTEX_PCIE_SWITCH;
  }
  out->n_cpus += topo_graph_vertex (graph, link->to)->kind == TOPO_VERTEX_CPU;
  out->vertex = link->to;
  out->links[out->n_links++] = number;
  out->n_direct += topo_link_kind_is_direct (link->kind);
  out->c2c = out->c2c || link->kind == TOPO_LINK_C2C;
  out->pcie = out->pcie || topo_link_kind_is_pcie (link->kind);
  out->net = out->net || link->kind == TOPO_LINK_NIC;
  out->inter_socket = out->inter_socket || link->kind == TOPO_LINK_INTER_SOCKET;
  if (!isnan (link->bytes_per_s))
    out->bytes_per_s = MIN (out->bytes_per_s, link->bytes_per_s);
}

static void
finish_route (const TopoGraph *graph, const Path *path, TopoRoute *out)
{
  memset (out, 0, sizeof *out);
  out->type = type_of (path);
  out->n_links = path->n_links;
  out->bytes_per_s = path->bytes_per_s;
  memcpy (out->links, path->links, sizeof out->links);
  gboolean has_bottleneck = FALSE;
  for (guint32 i = 0; i < path->n_links; i++) {
    const TopoLink *link = topo_graph_link (graph, path->links[i]);
    out->latency_s += link->latency_s;
    if (!has_bottleneck && link->bytes_per_s == path->bytes_per_s) {
      out->bottleneck = path->links[i];
      has_bottleneck = TRUE;
    }
  }
}

/* The best open path, taken out of @open. */
static Path
pop_best (GArray *open)
{
  guint best = 0;
  for (guint i = 1; i < open->len; i++)
    if (is_better (&g_array_index (open, Path, i), &g_array_index (open, Path, best)))
      best = i;
  Path path = g_array_index (open, Path, best);
  g_array_remove_index_fast (open, best);
  return path;
}

/*
 * A vertex may be reached in ways that continue differently (a GPU on NVLink may forward, one on
 * PCIe may not), so what is settled is (vertex, kind of the last link).
 */
static gboolean
search (const TopoGraph *graph, guint32 to, gboolean allow_net, GArray *open, Path *found)
{
  guint32 n = topo_graph_n_vertices (graph);
  g_autofree gboolean *settled = g_new0 (gboolean, (gsize)n * TOPO_LINK_N_KINDS);
  while (open->len > 0) {
    Path path = pop_best (open);
    if (path.vertex == to) {
      *found = path;
      return TRUE;
    }
    if (path.n_links > 0) {
      TopoLinkKind last = topo_graph_link (graph, path.links[path.n_links - 1])->kind;
      if (settled[path.vertex * TOPO_LINK_N_KINDS + last])
        continue;
      settled[path.vertex * TOPO_LINK_N_KINDS + last] = TRUE;
    }
    for (guint32 l = graph->first_link[path.vertex]; l < graph->first_link[path.vertex + 1]; l++) {
      Path next;
      if (!may_pass (graph, &path, topo_graph_link (graph, l), allow_net))
        continue;
      extend (graph, &path, l, &next);
      g_array_append_val (open, next);
    }
  }
  return FALSE;
}

gboolean
topo_route_find (const TopoGraph *graph, guint32 from, guint32 to, gboolean allow_net,
                 TopoRoute *out, GError **error)
{
  guint32 n = topo_graph_n_vertices (graph);
  g_return_val_if_fail (graph->is_finished && from < n && to < n, FALSE);
  Path start = { .vertex = from, .bytes_per_s = INFINITY }, found;
  start.n_cpus = topo_graph_vertex (graph, from)->kind == TOPO_VERTEX_CPU;
  g_autoptr (GArray) open = g_array_new (FALSE, FALSE, sizeof (Path));
  g_array_append_val (open, start);
  if (!search (graph, to, allow_net, open, &found)) {
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_NO_PATH, "no path from '%s' to '%s'%s",
                 topo_graph_vertex (graph, from)->name, topo_graph_vertex (graph, to)->name,
                 allow_net ? "" : " without the network");
    return FALSE;
  }
  finish_route (graph, &found, out);
  return TRUE;
}
