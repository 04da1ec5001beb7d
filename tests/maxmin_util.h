/* tests/maxmin_util.h - random sharing problems, the same for our solver and for SimGrid. */
#pragma once
#include "base/philox.h"
#include "topo/maxmin.h"
#include <math.h>
#include <string.h>

#define MAXMIN_MAX_LINKS   10
#define MAXMIN_MAX_CLASSES 64
#define MAXMIN_MAX_ENTRIES (MAXMIN_MAX_CLASSES * MAXMIN_MAX_LINKS)

typedef struct {
  guint32 n_links, n_classes;
  double capacities[MAXMIN_MAX_LINKS];
  guint32 first[MAXMIN_MAX_CLASSES + 1];
  guint32 links[MAXMIN_MAX_ENTRIES]; /* no link twice in a class */
  double weights[MAXMIN_MAX_ENTRIES];
  guint32 counts[MAXMIN_MAX_CLASSES];
  double caps[MAXMIN_MAX_CLASSES];
} MaxminCase;

static inline TopoMaxmin
maxmin_problem (const MaxminCase *c)
{
  return (TopoMaxmin){ .n_links = c->n_links,
                       .n_classes = c->n_classes,
                       .capacities = c->capacities,
                       .first = c->first,
                       .links = c->links,
                       .weights = c->weights,
                       .counts = c->counts,
                       .caps = c->caps };
}

/*
 * Up to 10 links of 1e6 … 1e9 (a few equal, so that ties occur), up to 12 classes of up to 4 flows
 * over 1 … all links; a third are capped. @weighted: weights other than 1.
 */
static inline void
maxmin_random (MaxminCase *c, guint64 seed, guint64 index, gboolean weighted)
{
  guint64 at = index << 16;
  memset (c, 0, sizeof *c);
  c->n_links = 1 + (guint32)base_philox_below (seed, 1, at++, MAXMIN_MAX_LINKS);
  c->n_classes = 1 + (guint32)base_philox_below (seed, 2, at++, 12);
  for (guint32 l = 0; l < c->n_links; l++)
    c->capacities[l] = base_philox_below (seed, 3, at++, 3) == 0
                           ? 1e7
                           : 1e6 * pow (10, 3 * base_philox_uniform (seed, 4, at++));
  for (guint32 f = 0; f < c->n_classes; f++) {
    guint32 e = c->first[f], must = (guint32)base_philox_below (seed, 5, at++, c->n_links);
    for (guint32 l = 0; l < c->n_links; l++) {
      if (l != must && base_philox_below (seed, 6, at++, 3) > 0)
        continue;
      c->links[e] = l;
      c->weights[e++] = weighted ? 0.25 + 3 * base_philox_uniform (seed, 7, at++) : 1;
    }
    c->first[f + 1] = e;
    c->counts[f] = 1 + (guint32)base_philox_below (seed, 8, at++, 4);
    c->caps[f] = base_philox_below (seed, 9, at++, 3) == 0
                     ? 1e5 * pow (10, 3 * base_philox_uniform (seed, 10, at++))
                     : INFINITY;
  }
}

/* Appends one flow of class @f of @c to @d as a class of its own; of[that class] = @f. */
static inline void
maxmin_split (const MaxminCase *c, guint32 f, MaxminCase *d, guint32 *of)
{
  guint32 n = d->n_classes++, e = d->first[n];
  for (guint32 i = c->first[f]; i < c->first[f + 1]; i++, e++) {
    d->links[e] = c->links[i];
    d->weights[e] = c->weights[i];
  }
  d->first[n + 1] = e;
  d->counts[n] = 1;
  d->caps[n] = c->caps[f];
  of[n] = f;
}
