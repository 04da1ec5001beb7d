/* topo/cluster.h - a machine (node graph + fabric + GPU) and a cluster of its nodes.
 *
 * A *node* is what one operating system sees (gpus_per_node). A *domain* is the set of GPUs that
 * talk without the network: the node, or the rack of 18 nodes for GB200 NVL72. The graph covers
 * one domain (one node for a TPU pod). A cluster is nodes x fabric, never a graph of all nodes.
 */
#pragma once
#include "base/catalog.h"
#include "topo/curve.h"
#include "topo/gpu.h"
#include "topo/graph.h"
#include <glib.h>
G_BEGIN_DECLS

#define TOPO_MAX_GPUS_PER_NODE 64 /* sets of a node's GPUs are bits of a guint64 */

typedef enum {
  TOPO_WIRING_NONE,   /* PCIe only */
  TOPO_WIRING_SWITCH, /* every GPU to every other of the domain at full rate */
  TOPO_WIRING_PAIRS,  /* bridged pairs */
  TOPO_WIRING_LINKS,  /* an explicit list: the DGX-1V cube mesh */
  TOPO_WIRING_MESH,   /* the same number of links between every two GPUs of a node */
  TOPO_WIRING_TORUS,  /* ICI; counted as a crossbar at the full rate of a chip */
  TOPO_WIRING_SHM,    /* CPU ranks of one host, through its memory */
} TopoWiring;

/* How far GPUs copy to each other directly; beyond, through host memory (class "-sys"). */
typedef enum {
  TOPO_P2P_NONE,   /* not at all */
  TOPO_P2P_SWITCH, /* below a common PCIe switch */
  TOPO_P2P_SOCKET, /* below one CPU (the default: crossing sockets is "-sys" by name) */
} TopoP2p;

typedef struct {
  double bytes_per_s; /* port rate, one direction; NaN unknown */
  guint64 gpus;       /* GPUs of the node it serves, a bit each */
} TopoNic;

/* Network rate of a GPU, one direction, and what bounds it. */
typedef struct {
  double bytes_per_s; /* 0 unknown */
  const TopoLink
      *link; /* (borrowed, nullable) of the graph; NULL: NIC ports dealt evenly, or ... */
  gboolean spine_binds; /* ... the spine */
} TopoNicShare;

/* What a set of GPUs inside one node talks over (see topo_machine_subset). */
typedef struct {
  TopoLinkClass link_class;
  gboolean crosses_socket;
  double bytes_per_s; /* one direction per GPU, peak */
} TopoSubset;

typedef struct {
  char *slug;   /* catalog slug, or the file's base name */
  char *name;   /* display name */
  TopoGpu *gpu; /* (owned) */
  guint32 gpus_per_node;
  guint32 domain_size; /* multiple of gpus_per_node */
  TopoWiring wiring;
  TopoLinkKind direct;       /* kind of the GPU-GPU links; unless WIRING_NONE */
  guint32 links_per_gpu;     /* unless WIRING_NONE */
  double direct_bytes_per_s; /* all links of one GPU, one direction; 0 without, NaN unknown */
  gboolean nvls;             /* the switch reduces (NVLink SHARP) */
  guint32 nvls_from_gpus;    /* of a domain, where it reduces */
  guint pcie_generation;     /* 0 unknown */
  double pcie_bytes_per_s;   /* a GPU's own PCIe link, one direction; 0 unknown */
  TopoP2p p2p;
  double inter_socket_bytes_per_s; /* one direction; NaN unknown */
  TopoFabric fabric;
  guint32 n_nics;                /* compute NICs of a node; 0 = network unknown */
  TopoNic *nics;                 /* (owned) n_nics */
  TopoNicShare nic_share;        /* of the worst-off GPU when all of a node send */
  guint32 rails;                 /* 0 unknown or not rail-optimised */
  double oversubscription_ratio; /* NIC ports over what the spine carries, >= 1 */
  double price_usd_per_gpu_hour; /* NaN unknown */
  char *price_as_of;             /* NULL unknown */
  char *price_source;            /* NULL unknown */
  double power_limit_ratio;      /* power limit / TDP of the GPU; 1 by default */
  TopoLinkClass node_link_class; /* class of a group that fills the node */
  double node_link_bytes_per_s;  /* its peak, one direction per GPU */
  guint8 *direct_count; /* (owned) links between GPUs i and j of a node at [i * n + j]; NULL when
                           all of a domain reach each other at full rate, or there are none */
  double direct_link_bytes_per_s; /* one of them, one direction; NaN unknown */
  guint64
      *islands; /* (owned) WIRING_SWITCH: sets of GPUs that share a switch; NULL = one set of all.
                       A GPU in none has lost its links and uses PCIe. */
  guint32 n_islands;
  guint8 *fewer_links;     /* (owned, nullable) WIRING_SWITCH: links of each GPU, where not all have
                          direct_bytes_per_s; 0 = the usual number */
  gint16 *gpu_numa;        /* (owned) NUMA node of each GPU of a node */
  gint16 *gpu_switch;      /* (owned) PCIe switch, -1 = below the CPU directly or unknown */
  TopoSubset *subsets;     /* (owned, nullable) by bit mask, gpus_per_node <= 8 */
  GArray *curves;          /* (owned) of TopoCurve: what was measured on it */
  TopoGraph *graph;        /* (owned) */
  struct TopoPaths *paths; /* (owned, nullable) what groups share inside a node: contention.h */
  char **assumed;          /* (owned) strv: what the file does not say, in words */
  char *source;
} TopoMachine;

/*
 * Loads by slug or path. @gpu_name (nullable) replaces the file's GPU: boards sold with several
 * cards. Returns: (owned) or NULL.
 */
TopoMachine *topo_machine_load (const BaseCatalog *catalog, const char *name, const char *gpu_name,
                                GError **error);
/* Same, but a file may say "gpu = unknown": to be shown, compared or written, never planned with. */
TopoMachine *topo_machine_load_unfinished (const BaseCatalog *catalog, const char *name,
                                           const char *gpu_name, GError **error);
/*
 * For runs that name the card only (slug, alias or file): the board its file states, else
 * @gpus_per_node cards on PCIe below one CPU without a network. Either is noted in assumed.
 */
TopoMachine *topo_machine_load_for_gpu (const BaseCatalog *catalog, const char *gpu_name,
                                        guint32 gpus_per_node, GError **error);
/* @catalog: of its links' facts. @slug names it. @gpu: (owned, taken even on failure) */
TopoMachine *topo_machine_new_from_ini (const BaseCatalog *catalog, BaseIni *ini, const char *slug,
                                        TopoGpu *gpu, GError **error);
void topo_machine_free (TopoMachine *machine);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TopoMachine, topo_machine_free)

/* Every machine of the catalog, in slug order. Returns: (owned) GPtrArray of TopoMachine. */
GPtrArray *topo_machine_load_all (const BaseCatalog *catalog, GError **error);

/* Any two GPUs of a domain are joined alike: a switch (or torus, or host memory) that has lost no
 * link. */
gboolean topo_machine_is_uniform (const TopoMachine *machine);

/* Class and rate of the GPUs in @mask (two bits or more) of one node. No allocation. */
void topo_machine_subset (const TopoMachine *machine, guint64 mask, TopoSubset *out);

/*
 * NIC rate, one direction, of the worst-off of the @senders (bits) of one node: each NIC is split
 * evenly over the senders it serves; a GPU that none serves has an even share of all. Where NICs
 * serve unevenly, or PCIe, a link between CPUs or the spine may fill up before the ports do, it is
 * what topo_contention_network() finds.
 */
TopoNicShare topo_machine_nic_share (const TopoMachine *machine, guint64 senders);

/*
 * GPUs used per domain when @gpus of them work: the whole domain, except that racks are filled
 * alike where that leaves at most 1/9 of each idle (128 GPUs on NVL72: 2 racks x 64, the usual
 * block of 16 trays), so that no group straddles racks without need.
 */
guint32 topo_machine_domain_in_use (const TopoMachine *machine, guint32 gpus);

/* Nodes that machine->graph shows: those of a domain, one of a pod that repeats it; at least 1. */
guint32 topo_machine_nodes_shown (const TopoMachine *machine);

/* n nodes of a machine. Plain value; borrows the machine. */
typedef struct {
  const TopoMachine *machine;
  guint32 gpus;
  guint32 nodes;
  guint32 domains;
  guint32 domain_in_use; /* GPUs per domain */
} TopoCluster;

/*
 * @gpus must be a multiple of the node, or less than one node; more than one domain needs a known
 * network. Otherwise TOPO_ERROR_SIZE, saying the nearest legal counts.
 */
gboolean topo_cluster_init (TopoCluster *cluster, const TopoMachine *machine, guint64 gpus,
                            GError **error);
G_END_DECLS
