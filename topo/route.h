/* topo/route.h - the best way between two vertices of a node, named as NCCL names paths.
 *
 * A path is as good as its worst hop: types are ordered LOC < NVL < NVB < C2C < PIX < PXB < PHB <
 * SYS < NET, a better type wins over a wider link, then the wider bottleneck, then fewer hops.
 * GPUs do not forward for others, except one NVLink peer (NVB).
 */
#pragma once
#include "topo/graph.h"
G_BEGIN_DECLS

typedef enum {
  TOPO_PATH_LOC, /* the vertex itself */
  TOPO_PATH_NVL, /* NVLink, XGMI or ICI, directly or through a switch */
  TOPO_PATH_NVB, /* NVLink through one other GPU */
  TOPO_PATH_C2C, /* chip-to-chip link to the CPU */
  TOPO_PATH_PIX, /* at most one PCIe switch */
  TOPO_PATH_PXB, /* several PCIe switches, no host bridge */
  TOPO_PATH_PHB, /* through the CPU of one NUMA node ("NODE" of nvidia-smi included) */
  TOPO_PATH_SYS, /* between NUMA nodes or sockets */
  TOPO_PATH_NET, /* through NICs and the fabric */
  TOPO_PATH_DIS, /* not connected */
  TOPO_PATH_N_TYPES
} TopoPathType;

const char *topo_path_type_name (TopoPathType type);

#define TOPO_ROUTE_MAX_LINKS 16

typedef struct {
  TopoPathType type;
  guint32 n_links;
  guint32 links[TOPO_ROUTE_MAX_LINKS]; /* numbers of directed links, in order */
  guint32 bottleneck;                  /* the narrowest of them (a link number) */
  double bytes_per_s;                  /* of the bottleneck, one direction; INFINITY for LOC */
  double latency_s;                    /* sum; NaN when one is unknown */
} TopoRoute;

/*
 * Best route from @from to @to, never through a NIC unless @allow_net.
 * Returns: FALSE with TOPO_ERROR_NO_PATH when nothing joins them.
 */
gboolean topo_route_find (const TopoGraph *graph, guint32 from, guint32 to, gboolean allow_net,
                          TopoRoute *out, GError **error);
G_END_DECLS
