/* topo/contention_groups.c - all groups of a layout, node by node. */
#include "topo/contention-private.h"
#include "topo/machine-private.h"

/* Groups { base + i*stride, i < size } of a world on nodes. */
typedef struct {
  const TopoMachine *machine;
  guint64 world, stride, block; /* block = stride * size */
  guint64 node;
} Layout;

/* Sets of the ranks start … start + node of one node: those of a group together. */
static void
sets_of_node (const Layout *layout, guint64 start, TopoNodeSets *sets)
{
  guint64 of[TOPO_MAX_GPUS_PER_NODE]; /* first member of the group of each set */
  sets->n_sets = 0;
  for (guint64 p = 0; p < layout->node && start + p < layout->world; p++) {
    guint64 rank = start + p;
    guint64 base = rank - rank % layout->block + rank % layout->block % layout->stride;
    guint32 i = 0;
    while (i < sets->n_sets && of[i] != base)
      i++;
    if (i == sets->n_sets) {
      of[i] = base;
      sets->sets[sets->n_sets++] = 0;
    }
    sets->sets[i] |= G_GUINT64_CONSTANT (1) << p;
  }
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

/* Pairs (p, p + stride) of one node. The first node holds all there are in any. */
static void
pairs_of_node (const Layout *layout, TopoNodeSets *sets)
{
  guint64 end = MIN (layout->node, layout->world);
  sets->n_sets = 0;
  for (guint64 p = 0; p + layout->stride < end; p++)
    sets->sets[sets->n_sets++]
        = G_GUINT64_CONSTANT (1) << p | G_GUINT64_CONSTANT (1) << (p + layout->stride);
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
                    .node = machine->gpus_per_node };
  Seen seen = { 0, 0 };
  TopoNodeSets sets;
  *out = (TopoNodeShare){ 0 };
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
      contention_fold (out, &share);
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

gboolean
topo_machine_fill_paths (TopoMachine *machine, GError **error)
{
  if (!paths_new (machine, &machine->paths, error))
    return FALSE;
  if (machine->paths != NULL && !topo_machine_is_uniform (machine))
    fill_nested (machine);
  if (machine->n_nics > 0)
    machine->nic_share
        = topo_machine_nic_share (machine, machine_first_bits (machine->gpus_per_node));
  return TRUE;
}
