/* topo/contention_paths.c - finds the paths of one node that groups share. */
#include "topo/contention-private.h"
#include "topo/machine-private.h"
#include <math.h>
#include <string.h>

#define NO_LINK  G_MAXUINT32
#define MAX_HOPS 136 /* up through 64 switches at most, over to a CPU, down through 64 */

void
topo_paths_free (TopoPaths *paths)
{
  if (paths == NULL)
    return;
  g_array_unref (paths->graph_links);
  g_array_unref (paths->capacities);
  g_array_unref (paths->links);
  g_free (paths->pairs);
  g_free (paths->to_nics);
  g_free (paths->up);
  g_free (paths->down);
  g_free (paths->nested);
  g_free (paths);
}

gboolean
topo_paths_only_ports_bind (const TopoMachine *machine)
{
  return machine->paths == NULL || machine->paths->only_ports_bind;
}

guint64
paths_nics_of (const TopoMachine *machine, guint32 gpu)
{
  guint64 nics = 0;
  for (guint32 c = 0; c < machine->n_nics; c++)
    if (machine->nics[c].gpus >> gpu & 1)
      nics |= G_GUINT64_CONSTANT (1) << c;
  return nics != 0 ? nics : machine_first_bits (machine->n_nics);
}

/* Fewest hops over the host's tree from one vertex: the link by which each vertex is reached. */
typedef struct {
  const TopoGraph *graph;
  guint32 *by;    /* per vertex; NO_LINK: not reached */
  guint32 *queue; /* vertices in order of distance */
  guint32 n;      /* of the queue */
} Tree;

static void
tree_clear (Tree *tree)
{
  g_free (tree->by);
  g_free (tree->queue);
}

static gboolean
is_host_link (const TopoLink *link)
{
  return topo_link_kind_is_pcie (link->kind) || link->kind == TOPO_LINK_C2C
         || link->kind == TOPO_LINK_INTER_SOCKET;
}

/* GPUs and NICs end a path. */
static void
tree_grow (Tree *tree, guint32 start)
{
  const TopoGraph *graph = tree->graph;
  guint32 n_vertices = topo_graph_n_vertices (graph);
  memset (tree->by, 0xff, n_vertices * sizeof (guint32));
  tree->n = 0;
  tree->queue[tree->n++] = start;
  for (guint32 i = 0; i < tree->n; i++) {
    guint32 v = tree->queue[i];
    TopoVertexKind kind = topo_graph_vertex (graph, v)->kind;
    if (i > 0 && (kind == TOPO_VERTEX_GPU || kind == TOPO_VERTEX_NIC))
      continue;
    for (guint32 l = graph->first_link[v]; l < graph->first_link[v + 1]; l++) {
      const TopoLink *link = topo_graph_link (graph, l);
      if (!is_host_link (link) || link->to == start || tree->by[link->to] != NO_LINK)
        continue;
      tree->by[link->to] = l;
      tree->queue[tree->n++] = link->to;
    }
  }
}

/* The nearest CPU, or -1. */
static gint64
tree_cpu (const Tree *tree)
{
  for (guint32 i = 0; i < tree->n; i++)
    if (topo_graph_vertex (tree->graph, tree->queue[i])->kind == TOPO_VERTEX_CPU)
      return tree->queue[i];
  return -1;
}

static gboolean
tree_passes_cpu (const Tree *tree, guint32 to)
{
  const TopoGraph *graph = tree->graph;
  for (guint32 v = to; tree->by[v] != NO_LINK; v = topo_graph_link (graph, tree->by[v])->from)
    if (topo_graph_vertex (graph, v)->kind == TOPO_VERTEX_CPU)
      return TRUE;
  return FALSE;
}

/* Number of graph link @link, given on first use. */
static guint16
number_link (TopoPaths *paths, const TopoGraph *graph, guint32 link)
{
  for (guint32 i = 0; i < paths->graph_links->len; i++)
    if (g_array_index (paths->graph_links, guint32, i) == link)
      return (guint16)i;
  double rate = topo_graph_link (graph, link)->bytes_per_s;
  if (isnan (rate))
    rate = INFINITY;
  g_array_append_val (paths->graph_links, link);
  g_array_append_val (paths->capacities, rate);
  return (guint16)(paths->graph_links->len - 1);
}

static void
span_begin (const TopoPaths *paths, PathsSpan *span)
{
  *span = (PathsSpan){ .first = paths->links->len, .exists = TRUE };
}

static void
span_add (TopoPaths *paths, const TopoGraph *graph, PathsSpan *span, guint32 link)
{
  guint16 number = number_link (paths, graph, link);
  g_array_append_val (paths->links, number);
  span->n++;
}

/* The tree's way to @to, first hop first. */
static void
span_add_way (TopoPaths *paths, const Tree *tree, PathsSpan *span, guint32 to)
{
  guint32 hops[MAX_HOPS], n = 0;
  for (guint32 v = to; tree->by[v] != NO_LINK && n < MAX_HOPS;
       v = topo_graph_link (tree->graph, tree->by[v])->from)
    hops[n++] = tree->by[v];
  while (n > 0)
    span_add (paths, tree->graph, span, hops[--n]);
}

/* What the making of paths works on: a tree from every GPU and from its CPU. */
typedef struct {
  const TopoMachine *machine;
  TopoPaths *paths;
  guint32 gpus[TOPO_MAX_GPUS_PER_NODE]; /* vertices */
  guint32 nics[64];
  Tree from_gpu[TOPO_MAX_GPUS_PER_NODE];
  Tree from_cpu[TOPO_MAX_GPUS_PER_NODE]; /* by == NULL: no CPU */
} Maker;

static gboolean
is_reached (const Tree *tree, guint32 vertex)
{
  return tree->by != NULL && (tree->by[vertex] != NO_LINK || tree->queue[0] == vertex);
}

/* Through the memory of the CPU of GPU @g. */
static void
add_way_by_host (Maker *maker, guint32 g, guint32 to, PathsSpan *span)
{
  guint32 cpu = maker->from_cpu[g].queue[0];
  span_begin (maker->paths, span);
  span_add_way (maker->paths, &maker->from_gpu[g], span, cpu);
  span_add_way (maker->paths, &maker->from_cpu[g], span, to);
}

static void
make_pair (Maker *maker, guint32 i, guint32 j)
{
  PathsSpan *span = &maker->paths->pairs[i * maker->paths->n_gpus + j];
  if (!is_reached (&maker->from_gpu[i], maker->gpus[j]))
    return;
  if (maker->machine->p2p == TOPO_P2P_NONE && is_reached (&maker->from_cpu[i], maker->gpus[j])) {
    add_way_by_host (maker, i, maker->gpus[j], span);
    return;
  }
  span_begin (maker->paths, span);
  span_add_way (maker->paths, &maker->from_gpu[i], span, maker->gpus[j]);
}

/* NVLink from GPU @from to GPU @to of the node, directly or over the switch: up to two links. */
static guint32
nvlink_way (const TopoGraph *graph, guint32 from, guint32 to, guint32 links[2])
{
  for (guint32 l = graph->first_link[from]; l < graph->first_link[from + 1]; l++) {
    const TopoLink *link = topo_graph_link (graph, l);
    if (!topo_link_kind_is_direct (link->kind))
      continue;
    links[0] = l;
    if (link->to == to)
      return 1;
    if (topo_graph_vertex (graph, link->to)->kind != TOPO_VERTEX_NVSWITCH)
      continue;
    for (guint32 k = graph->first_link[link->to]; k < graph->first_link[link->to + 1]; k++)
      if (topo_graph_link (graph, k)->to == to) {
        links[1] = k;
        return 2;
      }
  }
  return 0;
}

/* Through an NVLink peer that sits with the NIC below one switch (NCCL's PXN). */
static gboolean
make_pxn (Maker *maker, guint32 g, guint32 nic, PathsSpan *span)
{
  const TopoGraph *graph = maker->machine->graph;
  for (guint32 p = 0; p < maker->paths->n_gpus; p++) {
    guint32 links[2], n;
    if (p == g || !is_reached (&maker->from_gpu[p], nic)
        || tree_passes_cpu (&maker->from_gpu[p], nic))
      continue;
    n = nvlink_way (graph, maker->gpus[g], maker->gpus[p], links);
    if (n == 0)
      continue;
    span_begin (maker->paths, span);
    for (guint32 i = 0; i < n; i++)
      span_add (maker->paths, graph, span, links[i]);
    span_add_way (maker->paths, &maker->from_gpu[p], span, nic);
    return TRUE;
  }
  return FALSE;
}

static void
make_way_to_nic (Maker *maker, guint32 g, guint32 nic, PathsSpan *span)
{
  const TopoMachine *machine = maker->machine;
  const Tree *tree = &maker->from_gpu[g];
  gboolean direct = machine->fabric != TOPO_FABRIC_ETHERNET && machine->p2p != TOPO_P2P_NONE;
  span_begin (maker->paths, span);
  if (!is_reached (tree, nic))
    return;
  if (direct && !tree_passes_cpu (tree, nic))
    span_add_way (maker->paths, tree, span, nic);
  else if (direct && make_pxn (maker, g, nic, span))
    return;
  else if (is_reached (&maker->from_cpu[g], nic))
    add_way_by_host (maker, g, nic, span);
  else
    span_add_way (maker->paths, tree, span, nic);
}

static void
make_to_nic (Maker *maker, guint32 g, guint32 c)
{
  const TopoGraph *graph = maker->machine->graph;
  PathsSpan *span = &maker->paths->to_nics[g * maker->paths->n_nics + c];
  guint32 nic = maker->nics[c];
  make_way_to_nic (maker, g, nic, span);
  for (guint32 l = graph->first_link[nic]; l < graph->first_link[nic + 1]; l++)
    if (topo_graph_link (graph, l)->kind == TOPO_LINK_NIC)
      span_add (maker->paths, graph, span, l);
}

/* NVLink of GPU @g to its switch, and back. */
static void
make_switch_links (Maker *maker, guint32 g)
{
  const TopoGraph *graph = maker->machine->graph;
  TopoPaths *paths = maker->paths;
  for (guint32 l = graph->first_link[maker->gpus[g]]; l < graph->first_link[maker->gpus[g] + 1];
       l++) {
    guint32 joint = topo_graph_link (graph, l)->to;
    if (topo_graph_vertex (graph, joint)->kind != TOPO_VERTEX_NVSWITCH)
      continue;
    span_begin (paths, &paths->up[g]);
    span_add (paths, graph, &paths->up[g], l);
    for (guint32 k = graph->first_link[joint]; k < graph->first_link[joint + 1]; k++)
      if (topo_graph_link (graph, k)->to == maker->gpus[g]) {
        span_begin (paths, &paths->down[g]);
        span_add (paths, graph, &paths->down[g], k);
      }
  }
}

/* NICs are dealt evenly: any two GPUs have the same NICs or none in common, all of one rate. */
static gboolean
deals_evenly (const TopoMachine *machine)
{
  for (guint32 i = 0; i < machine->gpus_per_node; i++)
    for (guint32 j = 0; j < i; j++) {
      guint64 a = paths_nics_of (machine, i), b = paths_nics_of (machine, j);
      if (a != b && (a & b) != 0)
        return FALSE;
    }
  for (guint32 c = 1; c < machine->n_nics; c++)
    if (machine->nics[c].bytes_per_s != machine->nics[0].bytes_per_s)
      return FALSE;
  return TRUE;
}

/*
 * No link but the ports fills up, whoever sends: every link has room for all ports behind it.
 */
static gboolean
only_ports_bind (const TopoMachine *machine, const TopoPaths *paths)
{
  guint64 behind[PATHS_MAX_LINKS] = { 0 }; /* by link: NICs that some path over it leads to */
  for (guint32 g = 0; g < paths->n_gpus; g++)
    for (guint32 c = 0; c < paths->n_nics; c++) {
      const PathsSpan *span = &paths->to_nics[g * paths->n_nics + c];
      for (guint32 i = 0; i < span->n; i++)
        behind[g_array_index (paths->links, guint16, span->first + i)] |= G_GUINT64_CONSTANT (1)
                                                                          << c;
    }
  for (guint32 l = 0; l < paths->graph_links->len; l++) {
    double most = 0;
    for (guint64 rest = behind[l]; rest != 0; rest &= rest - 1)
      most += machine->nics[__builtin_ctzll (rest)].bytes_per_s;
    if (most > g_array_index (paths->capacities, double, l) * (1 + 1e-9))
      return FALSE;
  }
  return machine->oversubscription_ratio <= 1 && deals_evenly (machine);
}

static gboolean
find_vertices (Maker *maker)
{
  const TopoMachine *machine = maker->machine;
  for (guint32 v = 0; v < topo_graph_n_vertices (machine->graph); v++) {
    const TopoVertex *vertex = topo_graph_vertex (machine->graph, v);
    if (vertex->kind == TOPO_VERTEX_GPU && vertex->index < machine->gpus_per_node)
      maker->gpus[vertex->index] = v;
    if (vertex->kind == TOPO_VERTEX_NIC && vertex->index < machine->n_nics)
      maker->nics[vertex->index] = v;
  }
  return machine->gpus_per_node > 0;
}

static void
grow_trees (Maker *maker, guint32 g)
{
  const TopoGraph *graph = maker->machine->graph;
  guint32 n = topo_graph_n_vertices (graph);
  Tree *tree = &maker->from_gpu[g];
  *tree = (Tree){ .graph = graph, .by = g_new (guint32, n), .queue = g_new (guint32, n) };
  tree_grow (tree, maker->gpus[g]);
  gint64 cpu = tree_cpu (tree);
  if (cpu < 0)
    return;
  tree = &maker->from_cpu[g];
  *tree = (Tree){ .graph = graph, .by = g_new (guint32, n), .queue = g_new (guint32, n) };
  tree_grow (tree, (guint32)cpu);
}

static TopoPaths *
paths_alloc (const TopoMachine *machine)
{
  TopoPaths *paths = g_new0 (TopoPaths, 1);
  gsize n = machine->gpus_per_node, m = machine->n_nics;
  paths->n_gpus = (guint32)n;
  paths->n_nics = (guint32)m;
  paths->graph_links = g_array_new (FALSE, FALSE, sizeof (guint32));
  paths->capacities = g_array_new (FALSE, FALSE, sizeof (double));
  paths->links = g_array_new (FALSE, FALSE, sizeof (guint16));
  paths->pairs = g_new0 (PathsSpan, n * n);
  paths->to_nics = g_new0 (PathsSpan, n * m);
  paths->up = g_new0 (PathsSpan, n);
  paths->down = g_new0 (PathsSpan, n);
  return paths;
}

static void
make_all (Maker *maker)
{
  TopoPaths *paths = maker->paths;
  for (guint32 g = 0; g < paths->n_gpus; g++)
    grow_trees (maker, g);
  for (guint32 g = 0; g < paths->n_gpus; g++) {
    make_switch_links (maker, g);
    for (guint32 j = 0; j < paths->n_gpus; j++)
      if (j != g && !topo_machine_is_uniform (maker->machine))
        make_pair (maker, g, j);
    guint64 nics = paths->n_nics == 0 ? 0 : paths_nics_of (maker->machine, g);
    for (; nics != 0; nics &= nics - 1)
      make_to_nic (maker, g, (guint32)__builtin_ctzll (nics));
  }
  for (guint32 g = 0; g < paths->n_gpus; g++) {
    tree_clear (&maker->from_gpu[g]);
    tree_clear (&maker->from_cpu[g]);
  }
}

gboolean
paths_new (const TopoMachine *machine, TopoPaths **out, GError **error)
{
  Maker maker = { .machine = machine };
  *out = NULL;
  if (!find_vertices (&maker))
    return TRUE;
  g_autoptr (TopoPaths) paths = paths_alloc (machine);
  maker.paths = paths;
  make_all (&maker);
  if (paths->graph_links->len > PATHS_MAX_LINKS) {
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_SIZE,
                 "a node has %u links between GPUs and NICs, expected at most %d",
                 paths->graph_links->len, PATHS_MAX_LINKS);
    return FALSE;
  }
  paths->only_ports_bind = paths->n_nics == 0 || only_ports_bind (machine, paths);
  *out = g_steal_pointer (&paths);
  return TRUE;
}
