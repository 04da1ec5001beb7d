/* topo/contention_groups.c - all groups of a layout, node by node. */
#include "topo/contention-private.h"
#include <math.h>
#include <string.h>

/* Groups { base + i*stride, i < size } of a world on nodes of a domain. */
typedef struct {
  const TopoMachine *machine;
  guint64 world, stride, block; /* block = stride * size */
  guint64 domain, node;
} Layout;

/* Members of the group that starts at @base among the ranks from @begin to before @end. */
static guint64
members_between (const Layout *layout, guint64 base, guint64 begin, guint64 end)
{
  guint64 s = layout->stride, n = layout->block / s;
  guint64 first = begin <= base ? 0 : (begin - base + s - 1) / s;
  guint64 last = end <= base ? 0 : (end - base + s - 1) / s;
  return MIN (last, n) - MIN (first, n);
}

/* Sets of the ranks start … start + node of one node: those of a group together. */
static void
sets_of_node (const Layout *layout, guint64 start, TopoNodeSets *sets)
{
  guint64 of[TOPO_MAX_GPUS_PER_NODE]; /* first member of the group of each set */
  sets->n_sets = 0;
  sets->beyond = 0;
  for (guint64 p = 0; p < layout->node && start + p < layout->world; p++) {
    guint64 rank = start + p;
    guint64 base = rank - rank % layout->block + rank % layout->block % layout->stride;
    guint32 i = 0;
    while (i < sets->n_sets && of[i] != base)
      i++;
    if (i == sets->n_sets) {
      guint64 domain = start - start % layout->domain;
      of[i] = base;
      sets->sets[sets->n_sets++] = 0;
      if (members_between (layout, base, domain, domain + layout->domain)
          > members_between (layout, base, start, start + layout->node))
        sets->beyond |= G_GUINT64_CONSTANT (1) << i;
    }
    sets->sets[i] |= G_GUINT64_CONSTANT (1) << p;
  }
}

/* Ranks of the node whose group reaches into another domain, as bits. */
static guint64
senders_of_node (const Layout *layout, guint64 start)
{
  guint64 senders = 0;
  for (guint64 p = 0; p < layout->node && start + p < layout->world; p++) {
    guint64 rank = start + p;
    guint64 base = rank - rank % layout->block + rank % layout->block % layout->stride;
    guint64 last = base + layout->block - layout->stride;
    if (base / layout->domain != last / layout->domain)
      senders |= G_GUINT64_CONSTANT (1) << p;
  }
  return senders;
}

static void
name_link (const TopoMachine *machine, gint64 number, const char *otherwise, char *out, gsize size)
{
  if (number < 0) {
    g_strlcpy (out, otherwise, size);
    return;
  }
  const TopoLink *link = topo_graph_link (machine->graph, (guint32)number);
  g_snprintf (out, size, "%s-%s %s", topo_graph_vertex (machine->graph, link->from)->name,
              topo_graph_vertex (machine->graph, link->to)->name, topo_link_kind_name (link->kind));
}

static void
fold_inside (const Layout *layout, guint64 start, TopoPattern pattern, TopoContention *out)
{
  TopoNodeSets sets;
  TopoNodeShare share;
  sets_of_node (layout, start, &sets);
  topo_contention_node (layout->machine, &sets, pattern, &share);
  if (share.subset.link_class == TOPO_LINK_CLASS_NONE
      || (out->intra_bytes_per_s > 0 && share.shared_bytes_per_s >= out->intra_bytes_per_s))
    return;
  out->intra_bytes_per_s = share.shared_bytes_per_s;
  out->intra_alone_bytes_per_s = share.alone_bytes_per_s;
  name_link (layout->machine, share.bottleneck, topo_link_class_name (share.subset.link_class),
             out->intra_bottleneck, sizeof out->intra_bottleneck);
}

static void
fold_network (const Layout *layout, guint64 start, TopoContention *out)
{
  gint64 bottleneck = -1;
  guint64 senders = senders_of_node (layout, start);
  double rate = topo_contention_network (layout->machine, senders, &bottleneck);
  if (!(rate > 0) || (out->inter_bytes_per_s > 0 && rate >= out->inter_bytes_per_s))
    return;
  out->inter_bytes_per_s = rate;
  name_link (layout->machine, bottleneck, "spine", out->inter_bottleneck,
             sizeof out->inter_bottleneck);
}

/* Nodes already looked at. What a node holds follows from where the first block begins in it, or,
 * when none does, from its first rank's place within a stride. */
typedef struct {
  guint64 by_begin, by_place;
} Seen;

static gboolean
is_new_node (const Layout *layout, guint64 start, Seen *seen)
{
  guint64 begin = layout->block - start % layout->block;
  guint64 *mask = begin < layout->node ? &seen->by_begin : &seen->by_place;
  guint64 bit = G_GUINT64_CONSTANT (1)
                << (begin < layout->node ? begin : MIN (start % layout->stride, 63));
  gboolean is_new = (*mask & bit) == 0;
  *mask |= bit;
  return is_new;
}

void
topo_contention_groups (const TopoMachine *machine, guint32 world, guint32 stride, guint32 size,
                        TopoPattern pattern, TopoContention *out)
{
  Layout layout = { .machine = machine,
                    .world = world,
                    .stride = stride,
                    .block = (guint64)stride * size,
                    .domain = topo_machine_domain_in_use (machine, world),
                    .node = machine->gpus_per_node };
  Seen seen = { 0, 0 };
  g_return_if_fail (stride > 0 && size > 0 && world % layout.block == 0);
  memset (out, 0, sizeof *out);
  for (guint64 start = 0; size > 1 && start < world; start += layout.node) {
    if (stride < layout.domain
        && (layout.domain > layout.node || is_new_node (&layout, start, &seen)))
      fold_inside (&layout, start, pattern, out);
    fold_network (&layout, start, out);
  }
}

/* Pairs (p, p + stride) of one node. The first node holds all there are in any. */
static void
pairs_of_node (const Layout *layout, TopoNodeSets *sets)
{
  guint64 end = MIN (layout->node, layout->world);
  sets->n_sets = 0;
  sets->beyond = 0;
  for (guint64 p = 0; p + layout->stride < end; p++)
    sets->sets[sets->n_sets++]
        = G_GUINT64_CONSTANT (1) << p | G_GUINT64_CONSTANT (1) << (p + layout->stride);
}

static void
fold_share (TopoNodeShare *worst, const TopoNodeShare *share)
{
  gboolean crosses = worst->subset.crosses_socket || share->subset.crosses_socket;
  if (contention_is_worse (&share->subset, &worst->subset))
    *worst = *share;
  worst->subset.crosses_socket = crosses;
}

/* Groups that fill every node alike: members per node, else 0. */
static guint32
nested_members (const Layout *layout, guint32 size)
{
  if (layout->world >= layout->node && layout->node % layout->block == 0)
    return size;
  if (layout->block % layout->node == 0 && layout->node % layout->stride == 0)
    return (guint32)(layout->node / layout->stride);
  return 0;
}

void
topo_contention_inside (const TopoMachine *machine, guint32 world, guint32 stride, guint32 size,
                        TopoNodeShare *out)
{
  Layout layout = { .machine = machine,
                    .world = world,
                    .stride = stride,
                    .block = (guint64)stride * size,
                    .domain = machine->gpus_per_node,
                    .node = machine->gpus_per_node };
  Seen seen = { 0, 0 };
  TopoNodeSets sets;
  *out = (TopoNodeShare){ .bottleneck = -1 };
  if (size == 0) {
    pairs_of_node (&layout, &sets);
    topo_contention_node (machine, &sets, TOPO_PATTERN_CHAIN, out);
    return;
  }
  guint32 members = nested_members (&layout, size);
  if (members > 1 && machine->paths != NULL && machine->paths->nested != NULL) {
    *out = machine->paths->nested[stride * (machine->gpus_per_node + 1) + members];
    return;
  }
  for (guint64 start = 0; stride < layout.node && start < world; start += layout.node) {
    TopoNodeShare share;
    if (!is_new_node (&layout, start, &seen))
      continue;
    sets_of_node (&layout, start, &sets);
    topo_contention_node (machine, &sets, TOPO_PATTERN_RING, &share);
    if (share.subset.link_class != TOPO_LINK_CLASS_NONE)
      fold_share (out, &share);
  }
}

static void
fill_nested (TopoMachine *machine)
{
  guint32 n = machine->gpus_per_node;
  TopoNodeShare *nested = g_new0 (TopoNodeShare, (gsize)n * (n + 1) + n + 1);
  for (guint32 stride = 1; stride <= n; stride++)
    for (guint32 g = 2; g * stride <= n; g++)
      if (n % (g * stride) == 0)
        topo_contention_inside (machine, n, stride, g, &nested[stride * (n + 1) + g]);
  machine->paths->nested = nested;
}

void
topo_machine_fill_paths (TopoMachine *machine)
{
  machine->paths = paths_new (machine);
  if (machine->paths == NULL)
    return;
  if (!topo_machine_is_uniform (machine))
    fill_nested (machine);
  if (machine->n_nics > 0)
    machine->nic_bytes_per_s_per_gpu
        = topo_machine_nic_share (machine, G_MAXUINT64 >> (64 - machine->gpus_per_node));
}
