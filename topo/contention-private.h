/* topo/contention-private.h - paths of one node as lists of numbered links. */
#pragma once
#include "topo/contention.h"
G_BEGIN_DECLS

#define PATHS_MAX_LINKS 1024 /* of one node that any path uses; beyond, no paths are made */

/* A path is links[first] … links[first + n - 1]. */
typedef struct {
  guint32 first;
  guint16 n;
  gboolean exists;
} PathsSpan;

struct TopoPaths {
  guint32 n_gpus, n_nics;
  GArray *graph_links;  /* guint32: graph link of each numbered link */
  GArray *capacities;   /* double: bytes per second; INFINITY where unknown */
  GArray *links;        /* guint16 numbered links, path after path */
  PathsSpan *pairs;     /* n_gpus * n_gpus, over the host's tree */
  PathsSpan *to_nics;   /* n_gpus * n_nics, with the NIC's port */
  PathsSpan *up, *down; /* n_gpus: NVLink to and from the switch */
  gboolean only_ports_bind;
  /* (nullable) share of rings of g members at stride s that fill a node, at [s * (n_gpus + 1) + g]
   * for s * g that divide n_gpus; NULL where any two GPUs are joined alike */
  TopoNodeShare *nested;
};

/* Narrower, or as narrow and of a worse class; anything is worse than class NONE. */
gboolean contention_is_worse (const TopoSubset *a, const TopoSubset *b);
TopoPaths *paths_new (const TopoMachine *machine);

/* NICs that GPU @gpu uses, a bit each. */
guint64 paths_nics_of (const TopoMachine *machine, guint32 gpu);
G_END_DECLS
