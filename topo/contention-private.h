/* topo/contention-private.h - paths of one node as lists of numbered links. */
#pragma once
#include "topo/contention.h"
G_BEGIN_DECLS

#define PATHS_MAX_LINKS 1024 /* of one node that any path uses; beyond, the machine is refused */

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

/* Keeps the worse of the two in @worst: the narrower, or as narrow and of a worse class. */
void contention_fold (TopoNodeShare *worst, const TopoNodeShare *share);
/* *out: (owned) NULL where there are no GPUs. TOPO_ERROR_SIZE beyond PATHS_MAX_LINKS. */
gboolean paths_new (const TopoMachine *machine, TopoPaths **out, GError **error);

/* NICs that GPU @gpu uses, a bit each. */
guint64 paths_nics_of (const TopoMachine *machine, guint32 gpu);
G_END_DECLS
