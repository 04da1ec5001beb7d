/* topo/node_loads.c - see node_loads.h. */
#include "topo/node_loads.h"
#include "topo/contention-private.h"
#include <math.h>

struct _TopoNodeLoads {
  const TopoMachine *machine;
  const TopoPaths *paths;
  guint32 n;        /* numbered links */
  guint32 *reverse; /* (owned) of each: the numbered link the other way, or n + itself */
};

static guint32
find_reverse (const TopoPaths *paths, const TopoGraph *graph, guint32 number)
{
  const TopoLink *link
      = topo_graph_link (graph, g_array_index (paths->graph_links, guint32, number));
  for (guint32 i = 0; i < paths->graph_links->len; i++) {
    const TopoLink *other = topo_graph_link (graph, g_array_index (paths->graph_links, guint32, i));
    if (other->from == link->to && other->to == link->from && other->kind == link->kind)
      return i;
  }
  return paths->graph_links->len + number;
}

TopoNodeLoads *
topo_node_loads_new (const TopoMachine *machine)
{
  if (machine->paths == NULL)
    return NULL;
  TopoNodeLoads *loads = g_new0 (TopoNodeLoads, 1);
  loads->machine = machine;
  loads->paths = machine->paths;
  loads->n = machine->paths->graph_links->len;
  loads->reverse = g_new (guint32, MAX (loads->n, 1));
  for (guint32 i = 0; i < loads->n; i++)
    loads->reverse[i] = find_reverse (loads->paths, machine->graph, i);
  return loads;
}

void
topo_node_loads_free (TopoNodeLoads *loads)
{
  if (loads == NULL)
    return;
  g_free (loads->reverse);
  g_free (loads);
}

guint32
topo_node_loads_n_links (const TopoNodeLoads *loads)
{
  return 2 * loads->n + 2;
}

static double
spine_bytes_per_s (const TopoMachine *machine)
{
  double total = 0;
  if (!(machine->oversubscription_ratio > 1))
    return INFINITY;
  for (guint32 c = 0; c < machine->n_nics; c++)
    total += machine->nics[c].bytes_per_s;
  return isnan (total) ? INFINITY : total / machine->oversubscription_ratio;
}

static const TopoLink *
graph_link (const TopoNodeLoads *loads, guint32 link)
{
  return topo_graph_link (loads->machine->graph,
                          g_array_index (loads->paths->graph_links, guint32, link % loads->n));
}

double
topo_node_loads_capacity (const TopoNodeLoads *loads, guint32 link, TopoLinkKind *out_kind)
{
  gboolean is_spine = link >= 2 * loads->n;
  if (out_kind != NULL)
    *out_kind = is_spine ? TOPO_LINK_NIC : graph_link (loads, link)->kind;
  return is_spine ? spine_bytes_per_s (loads->machine)
                  : g_array_index (loads->paths->capacities, double, link % loads->n);
}

char *
topo_node_loads_name (const TopoNodeLoads *loads, guint32 link)
{
  if (link >= 2 * loads->n)
    return g_strdup (link == 2 * loads->n ? "spine out" : "spine in");
  const TopoGraph *graph = loads->machine->graph;
  const TopoLink *at = graph_link (loads, link);
  guint32 from = link < loads->n ? at->from : at->to, to = link < loads->n ? at->to : at->from;
  return g_strdup_printf ("%s-%s %s", topo_graph_vertex (graph, from)->name,
                          topo_graph_vertex (graph, to)->name, topo_link_kind_name (at->kind));
}

static void
add_span (const TopoNodeLoads *loads, const PathsSpan *span, gboolean outward, double amount,
          double *amounts)
{
  for (guint32 i = 0; i < span->n; i++) {
    guint32 link = g_array_index (loads->paths->links, guint16, span->first + i);
    amounts[outward ? link : loads->reverse[link]] += amount;
  }
}

void
topo_node_loads_add_switch (const TopoNodeLoads *loads, guint32 gpu, gboolean outward,
                            double amount, double *amounts)
{
  add_span (loads, outward ? &loads->paths->up[gpu] : &loads->paths->down[gpu], TRUE, amount,
            amounts);
}

static void
add_host (const TopoNodeLoads *loads, const guint8 *members, guint32 n, TopoPattern pattern,
          double amount, double *amounts)
{
  const TopoPaths *paths = loads->paths;
  for (guint32 i = 0; i < n; i++)
    for (guint32 j = 0; j < n; j++) {
      gboolean is_next = j == (i + 1) % n && (pattern != TOPO_PATTERN_CHAIN || i + 1 < n);
      double share = pattern == TOPO_PATTERN_ALLTOALL ? 1.0 / (n - 1) : is_next ? 1 : 0;
      if (i != j && share > 0)
        add_span (loads, &paths->pairs[members[i] * paths->n_gpus + members[j]], TRUE,
                  share * amount, amounts);
    }
}

void
topo_node_loads_add_set (const TopoNodeLoads *loads, guint64 set, gboolean beyond,
                         TopoPattern pattern, double amount, double *amounts)
{
  guint8 members[TOPO_MAX_GPUS_PER_NODE];
  TopoSubset subset;
  guint32 n = 0;
  for (guint64 rest = set; rest != 0; rest &= rest - 1)
    members[n++] = (guint8)__builtin_ctzll (rest);
  if (n < 2 && !beyond)
    return;
  topo_machine_subset (loads->machine, set, &subset);
  if (topo_link_class_is_pcie (subset.link_class)) {
    add_host (loads, members, n, pattern, amount, amounts);
    return;
  }
  if (loads->machine->direct_count != NULL)
    return;
  for (guint32 i = 0; i < n; i++) {
    if (pattern != TOPO_PATTERN_CHAIN || i + 1 < n)
      topo_node_loads_add_switch (loads, members[i], TRUE, amount, amounts);
    if (pattern != TOPO_PATTERN_CHAIN || i > 0)
      topo_node_loads_add_switch (loads, members[i], FALSE, amount, amounts);
  }
}

void
topo_node_loads_add_network (const TopoNodeLoads *loads, guint32 gpu, gboolean outward,
                             double amount, double *amounts)
{
  const TopoPaths *paths = loads->paths;
  if (paths->n_nics == 0)
    return;
  guint64 nics = paths_nics_of (loads->machine, gpu);
  double share = amount / __builtin_popcountll (nics);
  for (; nics != 0; nics &= nics - 1)
    add_span (loads, &paths->to_nics[gpu * paths->n_nics + (guint32)__builtin_ctzll (nics)],
              outward, share, amounts);
  amounts[2 * loads->n + (outward ? 0 : 1)] += amount;
}
