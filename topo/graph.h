/* topo/graph.h - a node (or NVLink rack) as vertices and directed links.
 *
 * NVSwitches of a domain are folded into one vertex, as NCCL does: links of a GPU to different
 * switches add up. Links come in pairs, one per direction. Vertices and links are plain arrays,
 * so a reader of a topology dump fills a graph the same way as a machine file does.
 */
#pragma once
#include "topo/error.h"
#include "topo/link.h"
#include <glib.h>
G_BEGIN_DECLS

typedef enum {
  TOPO_VERTEX_GPU,
  TOPO_VERTEX_NVSWITCH, /* all switches of a domain; an ICI torus folded into one */
  TOPO_VERTEX_PCIE_SWITCH,
  TOPO_VERTEX_CPU, /* one NUMA node: cores, memory controller and host bridges */
  TOPO_VERTEX_NIC,
  TOPO_VERTEX_FABRIC, /* the network the NICs plug into */
  TOPO_VERTEX_N_KINDS
} TopoVertexKind;

const char *topo_vertex_kind_name (TopoVertexKind kind); /* "gpu" "nvswitch" … */

typedef struct {
  TopoVertexKind kind;
  guint32 index; /* number within its kind: GPU 3 has 3 */
  gint32 numa;   /* NUMA node, -1 unknown */
  gint32 socket; /* -1 unknown */
  gint32 bridge; /* host bridge it hangs below, numbered over the node; -1 unknown */
  char name[32]; /* "GPU3", "mlx5_0"; unique in the graph */
} TopoVertex;

typedef struct {
  GArray *vertices;     /* of TopoVertex */
  GArray *links;        /* of TopoLink, sorted by (from, to) after topo_graph_finish() */
  guint32 *first_link;  /* n_vertices + 1 entries: links of vertex v are [first[v], first[v+1]) */
  gboolean is_finished; /* adjacency is valid */
} TopoGraph;

TopoGraph *topo_graph_new (void);
void topo_graph_free (TopoGraph *graph);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TopoGraph, topo_graph_free)

/* Adds a vertex; @name is cut to 31 bytes. Returns its number. */
guint32 topo_graph_add_vertex (TopoGraph *graph, TopoVertexKind kind, guint32 index, gint32 numa,
                               gint32 socket, const char *name);
/* Adds @count links of @link_bytes_per_s each between @a and @b, in both directions. */
void topo_graph_join (TopoGraph *graph, guint32 a, guint32 b, TopoLinkKind kind, guint32 count,
                      double link_bytes_per_s, double latency_s);
/*
 * Sorts, builds the adjacency and checks: rates > 0 (NaN: unknown), latencies NaN or >= 0, ends exist and differ,
 * no two links of one kind between the same ends, names unique, every GPU reaches every other.
 */
gboolean topo_graph_finish (TopoGraph *graph, GError **error);

guint32 topo_graph_n_vertices (const TopoGraph *graph);
guint32 topo_graph_n_links (const TopoGraph *graph);
const TopoVertex *topo_graph_vertex (const TopoGraph *graph, guint32 vertex); /* (borrowed) */
const TopoLink *topo_graph_link (const TopoGraph *graph, guint32 link);       /* (borrowed) */
/* Vertex of @kind number @index, or -1. */
gint64 topo_graph_find (const TopoGraph *graph, TopoVertexKind kind, guint32 index);
/* Directed link of @kind from @a to @b, or NULL. (borrowed) */
const TopoLink *topo_graph_link_between (const TopoGraph *graph, guint32 a, guint32 b,
                                         TopoLinkKind kind);
guint32 topo_graph_count (const TopoGraph *graph, TopoVertexKind kind);
G_END_DECLS
