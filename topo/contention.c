/* topo/contention.c - loads of sets of GPUs on the links of a node, shared max-min fairly. */
#include "topo/contention-private.h"
#include "topo/maxmin.h"
#include <math.h>
#include <string.h>

/* Sets are disjoint: a set of g touches at most 16 links per ordered pair, and all of them at most
 * PATHS_MAX_LINKS; largest for ten sets of six. */
#define MAX_ENTRIES 8192

/* One sharing problem, on the caller's stack. Links are numbered as in TopoPaths. */
typedef struct {
  const TopoMachine *machine;
  const TopoPaths *paths;
  double load[PATHS_MAX_LINKS]; /* of the set being added; else 0 */
  guint32 n_classes;
  guint32 first[TOPO_MAX_GPUS_PER_NODE + 1];
  guint32 links[MAX_ENTRIES];
  double weights[MAX_ENTRIES];
  TopoSubset subsets[TOPO_MAX_GPUS_PER_NODE];
  double alone[TOPO_MAX_GPUS_PER_NODE]; /* rate of the class acting alone */
} Loads;

static double
capacity_of (const TopoPaths *paths, guint32 link)
{
  return g_array_index (paths->capacities, double, link);
}

static const TopoLink *
graph_link (const TopoMachine *machine, guint32 link)
{
  return topo_graph_link (machine->graph,
                          g_array_index (machine->paths->graph_links, guint32, link));
}

static void
load_span (Loads *loads, const PathsSpan *span, double amount)
{
  for (guint32 i = 0; i < span->n; i++)
    loads->load[g_array_index (loads->paths->links, guint16, span->first + i)] += amount;
}

static guint32
members_of (guint64 set, guint8 *members)
{
  guint32 n = 0;
  for (; set != 0; set &= set - 1)
    members[n++] = (guint8)__builtin_ctzll (set);
  return n;
}

/* Over the switch every member sends one unit and receives one; ends of a chain only one of them. */
static void
load_switch (Loads *loads, const guint8 *members, guint32 n, TopoPattern pattern)
{
  for (guint32 i = 0; i < n; i++) {
    if (pattern != TOPO_PATTERN_CHAIN || i + 1 < n)
      load_span (loads, &loads->paths->up[members[i]], 1);
    if (pattern != TOPO_PATTERN_CHAIN || i > 0)
      load_span (loads, &loads->paths->down[members[i]], 1);
  }
}

static void
load_host (Loads *loads, const guint8 *members, guint32 n, TopoPattern pattern)
{
  const TopoPaths *paths = loads->paths;
  guint32 hops = pattern == TOPO_PATTERN_CHAIN ? n - 1 : n;
  for (guint32 i = 0; i < hops; i++)
    load_span (loads, &paths->pairs[members[i] * paths->n_gpus + members[(i + 1) % n]], 1);
}

/* Turns the load of one set into a class, unless nothing known bounds it. */
static void
close_class (Loads *loads, const TopoSubset *subset)
{
  guint32 c = loads->n_classes, e = loads->first[c];
  double alone = INFINITY;
  for (guint32 l = 0; l < loads->paths->graph_links->len; l++) {
    double load = loads->load[l], capacity = capacity_of (loads->paths, l);
    loads->load[l] = 0;
    if (load == 0 || isinf (capacity) || e == MAX_ENTRIES)
      continue;
    loads->links[e] = l;
    loads->weights[e++] = load;
    alone = fmin (alone, capacity / load);
  }
  if (isinf (alone))
    return;
  loads->subsets[c] = *subset;
  loads->alone[c] = alone;
  loads->first[c + 1] = e;
  loads->n_classes = c + 1;
}

/* Narrower, or as narrow and of a worse class; anything is worse than class NONE. */
static gboolean
is_worse (const TopoSubset *a, const TopoSubset *b)
{
  if (b->link_class == TOPO_LINK_CLASS_NONE || a->bytes_per_s != b->bytes_per_s)
    return b->link_class == TOPO_LINK_CLASS_NONE || a->bytes_per_s < b->bytes_per_s;
  return a->link_class > b->link_class;
}

static double
least_known (double a, double b)
{
  return a > 0 && (a < b || !(b > 0)) ? a : b;
}

void
contention_fold (TopoNodeShare *out, const TopoNodeShare *candidate)
{
  gboolean crosses = out->subset.crosses_socket || candidate->subset.crosses_socket;
  double alltoall = least_known (out->alltoall_bytes_per_s, candidate->alltoall_bytes_per_s);
  if (is_worse (&candidate->subset, &out->subset))
    *out = *candidate;
  out->subset.crosses_socket = crosses;
  out->alltoall_bytes_per_s = alltoall;
}

/* A set over links of its own, or over links of unknown rate, has its peak. */
static void
fold_unshared (TopoNodeShare *out, const TopoSubset *subset)
{
  TopoNodeShare share = { .subset = *subset,
                          .shared_bytes_per_s = subset->bytes_per_s,
                          .alone_bytes_per_s = subset->bytes_per_s };
  contention_fold (out, &share);
}

static void
add_set (Loads *loads, guint64 set, TopoPattern pattern, TopoNodeShare *out)
{
  guint8 members[TOPO_MAX_GPUS_PER_NODE];
  guint32 n = members_of (set, members), before = loads->n_classes;
  TopoSubset subset;
  if (n < 2)
    return;
  topo_machine_subset (loads->machine, set, &subset);
  if (loads->paths == NULL) {
    fold_unshared (out, &subset);
    return;
  }
  if (topo_link_class_is_pcie (subset.link_class))
    load_host (loads, members, n, pattern);
  else if (loads->machine->direct_count == NULL)
    load_switch (loads, members, n, pattern);
  close_class (loads, &subset);
  if (loads->n_classes == before)
    fold_unshared (out, &subset);
}

static void
fold_classes (const Loads *loads, TopoNodeShare *out)
{
  const TopoPaths *paths = loads->paths;
  double rates[TOPO_MAX_GPUS_PER_NODE];
  guint32 by[TOPO_MAX_GPUS_PER_NODE];
  double scratch[2 * PATHS_MAX_LINKS + TOPO_MAX_GPUS_PER_NODE];
  TopoMaxmin problem = { .n_links = paths->graph_links->len,
                         .n_classes = loads->n_classes,
                         .capacities = (const double *)(const void *)paths->capacities->data,
                         .first = loads->first,
                         .links = loads->links,
                         .weights = loads->weights };
  g_return_if_fail (topo_maxmin_scratch_count (&problem) <= G_N_ELEMENTS (scratch));
  gboolean solved = topo_maxmin_solve (&problem, rates, by, scratch, NULL);
  g_return_if_fail (solved);
  for (guint32 c = 0; c < loads->n_classes; c++) {
    TopoNodeShare share = { .subset = loads->subsets[c],
                            .shared_bytes_per_s = rates[c],
                            .alone_bytes_per_s = loads->alone[c],
                            .bottleneck = graph_link (loads->machine, by[c]) };
    share.subset.bytes_per_s *= fmin (rates[c] / loads->alone[c], 1);
    contention_fold (out, &share);
  }
}

/*
 * Every member sends at one rate, an equal part to each other member of its set: the first link to
 * fill up bounds it, of those that carry more than one member sends. No solver needed: the worst-off
 * set is one that this link stops.
 */
static double
alltoall_bytes_per_s (Loads *loads, const TopoNodeSets *sets)
{
  const TopoPaths *paths = loads->paths;
  double rate = INFINITY;
  for (guint32 s = 0; s < sets->n_sets; s++) {
    guint8 members[TOPO_MAX_GPUS_PER_NODE];
    guint32 n = members_of (sets->sets[s], members);
    TopoSubset subset;
    if (n < 2)
      continue;
    topo_machine_subset (loads->machine, sets->sets[s], &subset);
    for (guint32 i = 0; topo_link_class_is_pcie (subset.link_class) && i < n; i++)
      for (guint32 j = 0; j < n; j++)
        if (i != j)
          load_span (loads, &paths->pairs[members[i] * paths->n_gpus + members[j]], 1.0 / (n - 1));
  }
  for (guint32 l = 0; l < paths->graph_links->len; l++) {
    if (loads->load[l] > 1 + 1e-9)
      rate = fmin (rate, capacity_of (paths, l) / loads->load[l]);
    loads->load[l] = 0;
  }
  return isinf (rate) ? 0 : rate;
}

void
topo_contention_node (const TopoMachine *machine, const TopoNodeSets *sets, TopoPattern pattern,
                      TopoNodeShare *out)
{
  Loads loads; /* large: only what is used is set */
  loads.machine = machine;
  loads.paths = machine->paths;
  loads.n_classes = 0;
  loads.first[0] = 0;
  if (loads.paths != NULL)
    memset (loads.load, 0, loads.paths->graph_links->len * sizeof (double));
  *out = (TopoNodeShare){ 0 };
  for (guint32 i = 0; i < sets->n_sets; i++)
    add_set (&loads, sets->sets[i], pattern, out);
  if (loads.n_classes > 0)
    fold_classes (&loads, out);
  if (loads.paths != NULL && pattern == TOPO_PATTERN_RING)
    out->alltoall_bytes_per_s = alltoall_bytes_per_s (&loads, sets);
}

/* All senders load alike, so the worst-off is stopped by the first link to fill: no solver needed. */
static TopoNicShare
first_full (const TopoMachine *machine, const double *load)
{
  TopoNicShare share = { .bytes_per_s = INFINITY };
  for (guint32 l = 0; l < machine->paths->graph_links->len; l++) {
    double level = load[l] > 0 ? capacity_of (machine->paths, l) / load[l] : INFINITY;
    if (level < share.bytes_per_s) {
      share.bytes_per_s = level;
      share.link = graph_link (machine, l);
    }
  }
  return share;
}

TopoNicShare
topo_contention_network (const TopoMachine *machine, guint64 senders)
{
  const TopoPaths *paths = machine->paths;
  double load[PATHS_MAX_LINKS], total = 0;
  if (paths == NULL || paths->n_nics == 0 || senders == 0)
    return (TopoNicShare){ 0 };
  memset (load, 0, paths->graph_links->len * sizeof (double));
  for (guint64 rest = senders; rest != 0; rest &= rest - 1) {
    guint32 g = (guint32)__builtin_ctzll (rest);
    guint64 nics = paths_nics_of (machine, g);
    double share = 1.0 / __builtin_popcountll (nics);
    for (; nics != 0; nics &= nics - 1) {
      const PathsSpan *span = &paths->to_nics[g * paths->n_nics + __builtin_ctzll (nics)];
      for (guint32 i = 0; i < span->n; i++)
        load[g_array_index (paths->links, guint16, span->first + i)] += share;
    }
  }
  TopoNicShare share = first_full (machine, load);
  for (guint32 c = 0; c < machine->n_nics; c++)
    total += machine->nics[c].bytes_per_s;
  double spine = total / machine->oversubscription_ratio / __builtin_popcountll (senders);
  if (machine->oversubscription_ratio > 1 && spine < share.bytes_per_s)
    share = (TopoNicShare){ .bytes_per_s = spine, .spine_binds = TRUE };
  return share;
}
