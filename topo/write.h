/* topo/write.h - a topology as people and other programs read it. */
#pragma once
#include "topo/reading.h"
G_BEGIN_DECLS

/*
 * The matrix in the words of nvidia-smi topo: X, NV#, PIX, PXB, PHB, NODE, SYS, and a NUMA column.
 * Cells that the file gave are kept; others follow from the graph. First node of a domain only.
 * Returns: (owned).
 */
char *topo_write_matrix (const TopoReading *reading);

/* Graphviz, undirected; widths of links by rate. (owned) */
char *topo_write_dot (const TopoMachine *machine);

/* Links between GPUs @a and @b of the first node: of the pair, or through the switch; 0 none. */
guint topo_gpu_links (const TopoGraph *graph, guint a, guint b);

/*
 * How @found differs from @expected in what a node has and how its GPUs are joined, one line per
 * difference: "GPU5–GPU6: no NVLink, expected NV18". Returns: (owned) GPtrArray of char *.
 */
GPtrArray *topo_machine_differences (const TopoMachine *found, const TopoMachine *expected);
/* The same of a reading with a machine; links that its file does not show are one line. (owned) */
GPtrArray *topo_reading_differences (const TopoReading *found, const TopoMachine *expected);
G_END_DECLS
