/* topo/sketch_tree.c - the PCIe tree behind a matrix of relations.
 *
 * Relations of a tree are ultrametric: devices within one switch (PIX), below one switch of
 * switches (PXB), one host bridge (PHB), one NUMA node (NODE) are sets that nest. So the sets of
 * each level are those that relations up to this level connect; NUMA affinities of the file
 * connect too. Matrices have gaps (NVLink hides PCIe) and contradictions (virtual machines); a
 * relation that the tree does not give back is counted.
 */
#include "topo/sketch.h"
#include <string.h>

#define MAX_NODES (2 * SKETCH_MAX_DEVICES)
#define LEVELS    (SKETCH_NODE + 1)

typedef struct {
  Sketch *sketch;
  const SketchRelations *relations;
  guint8 set[LEVELS][MAX_NODES]; /* at each level: the least member of the set of a device */
  gboolean informed[MAX_NODES];  /* some relation places it within its NUMA node */
} Tree;

static void
merge (guint8 *set, guint n, guint a, guint b)
{
  guint8 from = MAX (set[a], set[b]), to = MIN (set[a], set[b]);
  for (guint i = 0; i < n; i++)
    if (set[i] == from)
      set[i] = to;
}

static SketchDevice *
device_at (Tree *tree, guint i)
{
  Sketch *sketch = tree->sketch;
  return i < sketch->n_gpus ? &sketch->gpus[i] : &sketch->nics[i - sketch->n_gpus];
}

static void
merge_relations (Tree *tree)
{
  const SketchRelations *r = tree->relations;
  for (guint level = SKETCH_PIX; level < LEVELS; level++)
    for (guint i = 0; i < r->n; i++)
      tree->set[level][i] = (guint8)i;
  for (guint level = SKETCH_PIX; level < LEVELS; level++)
    for (guint i = 0; i < r->n; i++)
      for (guint j = i + 1; j < r->n; j++) {
        guint relation = r->relation[i][j];
        if (relation == SKETCH_UNKNOWN || relation > level)
          continue;
        merge (tree->set[level], r->n, i, j);
        tree->informed[i] = tree->informed[j] = TRUE;
      }
}

/* Devices of one NUMA affinity, or where that is not told of one CPU affinity, are together. */
static void
merge_affinities (Tree *tree)
{
  const SketchRelations *r = tree->relations;
  for (guint i = 0; i < r->n; i++)
    for (guint j = i + 1; j < r->n; j++) {
      gboolean same = r->numa[i] >= 0 && r->numa[i] == r->numa[j];
      if (r->numa[i] < 0 && r->numa[j] < 0 && r->relation[i][j] != SKETCH_SYS)
        same = r->cpus[i] != NULL && g_strcmp0 (r->cpus[i], r->cpus[j]) == 0;
      if (same)
        merge (tree->set[SKETCH_NODE], r->n, i, j);
    }
}

/* Nothing says where it is: not related to anything, no affinity, and some relation missing. */
static gboolean
is_unplaced (const Tree *tree, guint i)
{
  const SketchRelations *r = tree->relations;
  gboolean gap = r->n == 1;
  if (r->numa[i] >= 0 || tree->informed[i])
    return FALSE;
  for (guint j = 0; j < r->n; j++) {
    if (j != i && tree->set[SKETCH_NODE][j] == tree->set[SKETCH_NODE][i])
      return FALSE;
    gap = gap || (j != i && r->relation[i][j] == SKETCH_UNKNOWN);
  }
  return gap;
}

/* GPUs in the NUMA set of @i; *out_excluded when one of its devices is SYS from @from. */
static guint
count_gpus (const Tree *tree, guint i, guint from, gboolean *out_excluded)
{
  guint count = 0;
  for (guint j = 0; j < tree->relations->n; j++) {
    if (tree->set[SKETCH_NODE][j] != tree->set[SKETCH_NODE][i])
      continue;
    count += j < tree->sketch->n_gpus;
    *out_excluded = *out_excluded || tree->relations->relation[from][j] == SKETCH_SYS;
  }
  return count;
}

/*
 * GPUs are counted along the PCI bus, and sockets are filled alike: a GPU that nothing places is
 * beside the one before it, unless SYS to a device there, or that node is then the fullest.
 */
static guint
merge_neighbours (Tree *tree)
{
  guint merged = 0, n = tree->sketch->n_gpus;
  gboolean unplaced[MAX_NODES];
  for (guint i = 0; i < n; i++)
    unplaced[i] = is_unplaced (tree, i);
  for (guint i = 1; i < n; i++) {
    guint own = 0, fullest = 0;
    gboolean excluded = FALSE, ignored = FALSE;
    if (!unplaced[i] || unplaced[i - 1])
      continue;
    own = count_gpus (tree, i - 1, i, &excluded);
    for (guint j = 0; j < n; j++)
      if (tree->set[SKETCH_NODE][j] != tree->set[SKETCH_NODE][i - 1])
        fullest = MAX (fullest, count_gpus (tree, j, i, &ignored));
    if (excluded || own >= fullest)
      continue;
    merge (tree->set[SKETCH_NODE], tree->relations->n, i - 1, i);
    unplaced[i] = FALSE;
    merged++;
  }
  return merged;
}

static guint
merge_unplaced (Tree *tree)
{
  const guint n = tree->relations->n;
  gboolean unplaced[MAX_NODES] = { FALSE };
  guint count = 0, first = n;
  for (guint i = 0; i < n; i++) {
    unplaced[i] = is_unplaced (tree, i);
    count += unplaced[i];
    first = unplaced[i] ? MIN (first, i) : first;
  }
  for (guint i = 0; i < n; i++)
    if (unplaced[i])
      merge (tree->set[SKETCH_NODE], n, first, i);
  return count;
}

/* Number of the NUMA node that the members of set @leader name; the first named wins. */
static gint32
numa_number (const Tree *tree, guint leader)
{
  const SketchRelations *r = tree->relations;
  for (guint i = leader; i < r->n; i++)
    if (tree->set[SKETCH_NODE][i] == leader && r->numa[i] >= 0)
      return r->numa[i];
  return -1;
}

/* NUMA nodes in the order of their first device; those not told get the least free numbers. */
static guint
add_numas (Tree *tree, gint32 *numa_of)
{
  const guint n = tree->relations->n;
  for (guint i = 0; i < n; i++)
    if (tree->set[SKETCH_NODE][i] == i) {
      gint32 number = numa_number (tree, i);
      if (number >= 0 && sketch_has_numa (tree->sketch, number))
        number = -1; /* two sets that name one node stay apart: the relations win */
      numa_of[i] = (gint32)sketch_add_numa (tree->sketch, number, -1);
    }
  return sketch_number_numas (tree->sketch);
}

/* Sets at @level among the informed devices of the set of @i one level up. */
static guint
count_sets (const Tree *tree, guint level, guint above, guint i)
{
  guint count = 0;
  for (guint j = 0; j < tree->relations->n; j++)
    count += tree->set[above][j] == tree->set[above][i] && tree->set[level][j] == j
             && tree->informed[j];
  return count;
}

static guint
set_size (const Tree *tree, guint level, guint i)
{
  guint size = 0;
  for (guint j = 0; j < tree->relations->n; j++)
    size += tree->set[level][j] == tree->set[level][i];
  return size;
}

/* Switches of the PXB set of @i: one when all of it is PIX, else one above one per PIX set. */
static gint32
switch_of (Tree *tree, guint i, SketchPlace above, gint32 *top_of, gint32 *leaf_of)
{
  guint top = tree->set[SKETCH_PXB][i], leaf = tree->set[SKETCH_PIX][i];
  if (set_size (tree, SKETCH_PXB, i) == 1)
    return -1;
  if (top_of[top] < 0)
    top_of[top] = (gint32)sketch_add_switch (tree->sketch, above, 0, 0);
  if (set_size (tree, SKETCH_PXB, i) == set_size (tree, SKETCH_PIX, i))
    return top_of[top];
  if (leaf_of[leaf] < 0)
    leaf_of[leaf]
        = (gint32)sketch_add_switch (tree->sketch, (SketchPlace){ -1, -1, top_of[top] }, 0, 0);
  return leaf_of[leaf];
}

static void
hang_devices (Tree *tree, const gint32 *numa_of)
{
  gint32 bridge_of[MAX_NODES], top_of[MAX_NODES], leaf_of[MAX_NODES];
  memset (bridge_of, -1, sizeof bridge_of);
  memset (top_of, -1, sizeof top_of);
  memset (leaf_of, -1, sizeof leaf_of);
  for (guint i = 0; i < tree->relations->n; i++) {
    gint32 numa = numa_of[tree->set[SKETCH_NODE][i]];
    guint bridge = tree->set[SKETCH_PHB][i];
    SketchPlace place = { numa, -1, -1 };
    /* One host bridge needs no mention; a device of which nothing is known is below none. */
    if (tree->informed[i] && count_sets (tree, SKETCH_PHB, SKETCH_NODE, i) > 1) {
      if (bridge_of[bridge] < 0)
        bridge_of[bridge] = (gint32)sketch_add_bridge (tree->sketch, numa);
      place = (SketchPlace){ -1, bridge_of[bridge], -1 };
    }
    gint32 parent = switch_of (tree, i, place, top_of, leaf_of);
    device_at (tree, i)->place = parent >= 0 ? (SketchPlace){ -1, -1, parent } : place;
  }
}

/* The relation that the sets give back. */
static guint
given_back (const Tree *tree, guint i, guint j)
{
  for (guint level = SKETCH_PIX; level < LEVELS; level++)
    if (tree->set[level][i] == tree->set[level][j])
      return level;
  return SKETCH_SYS;
}

static void
count_contradictions (const Tree *tree, SketchTreeResult *out)
{
  const SketchRelations *r = tree->relations;
  for (guint i = 0; i < r->n; i++)
    for (guint j = i + 1; j < r->n; j++) {
      guint relation = r->relation[i][j];
      if (relation == SKETCH_UNKNOWN || relation == given_back (tree, i, j))
        continue;
      if (out->contradictions++ > 0)
        continue;
      out->first = i;
      out->second = j;
    }
}

void
sketch_tree (Sketch *sketch, const SketchRelations *relations, SketchTreeResult *out)
{
  Tree tree = { .sketch = sketch, .relations = relations };
  gint32 numa_of[MAX_NODES] = { 0 };
  g_return_if_fail (relations->n == sketch->n_gpus + sketch->n_nics);
  memset (out, 0, sizeof *out);
  merge_relations (&tree);
  merge_affinities (&tree);
  out->beside = merge_neighbours (&tree);
  out->unplaced = merge_unplaced (&tree);
  out->numbered = add_numas (&tree, numa_of);
  hang_devices (&tree, numa_of);
  count_contradictions (&tree, out);
}
