/* topo/link.h - kinds of links, link classes (what a calibration is keyed by), and one link.
 *
 * A link *kind* is a piece of hardware between two vertices of a node graph. A link *class* is
 * what a group of GPUs inside one domain talks over: it follows from the worst pair of the group.
 * PCIe has two classes per generation: "pcie4" (peers below one CPU) and "pcie4-sys" (across
 * sockets, or through host memory where GPUs cannot copy to each other directly).
 */
#pragma once
#include <glib.h>
G_BEGIN_DECLS

typedef enum {
  TOPO_LINK_NVLINK1,
  TOPO_LINK_NVLINK2,
  TOPO_LINK_NVLINK3,
  TOPO_LINK_NVLINK4,
  TOPO_LINK_NVLINK5,
  TOPO_LINK_XGMI, /* AMD Infinity Fabric between GPUs */
  TOPO_LINK_ICI,  /* TPU inter-chip interconnect */
  TOPO_LINK_C2C,  /* GPU to its own CPU, coherent */
  TOPO_LINK_PCIE3,
  TOPO_LINK_PCIE4,
  TOPO_LINK_PCIE5,
  TOPO_LINK_PCIE6,
  TOPO_LINK_INTER_SOCKET, /* QPI, UPI, xGMI between CPUs, or between NUMA nodes */
  TOPO_LINK_SHM,          /* host memory between processes of one host */
  TOPO_LINK_NIC,          /* NIC port to the fabric */
  TOPO_LINK_NVLINK,       /* NVLink of a generation that the description does not tell */
  TOPO_LINK_PCIE,         /* PCIe of a generation that the description does not tell */
  TOPO_LINK_N_KINDS
} TopoLinkKind;

typedef enum {
  TOPO_LINK_CLASS_NONE, /* the group has one GPU in each domain: nothing to cross inside */
  TOPO_LINK_CLASS_NVLINK1,
  TOPO_LINK_CLASS_NVLINK2,
  TOPO_LINK_CLASS_NVLINK3,
  TOPO_LINK_CLASS_NVLINK4,
  TOPO_LINK_CLASS_NVLINK5,
  TOPO_LINK_CLASS_XGMI,
  TOPO_LINK_CLASS_ICI,
  TOPO_LINK_CLASS_PCIE3,
  TOPO_LINK_CLASS_PCIE4,
  TOPO_LINK_CLASS_PCIE5,
  TOPO_LINK_CLASS_PCIE6,
  TOPO_LINK_CLASS_PCIE3_SYS,
  TOPO_LINK_CLASS_PCIE4_SYS,
  TOPO_LINK_CLASS_PCIE5_SYS,
  TOPO_LINK_CLASS_PCIE6_SYS,
  TOPO_LINK_CLASS_SHM, /* ranks of one host without GPUs */
  TOPO_LINK_CLASS_N_KINDS
} TopoLinkClass;

/* What joins nodes. NONE: the machine's network is unknown, it stays one node. */
typedef enum {
  TOPO_FABRIC_NONE,
  TOPO_FABRIC_IB,
  TOPO_FABRIC_ROCE,
  TOPO_FABRIC_EFA, /* from the second generation on: RDMA writes */
  TOPO_FABRIC_TCPX,
  TOPO_FABRIC_TCPXO,
  TOPO_FABRIC_GCPRDMA,
  TOPO_FABRIC_OPA,
  TOPO_FABRIC_ETHERNET,
  TOPO_FABRIC_EFA1, /* EFA of P4d and P4de: sends and receives, a flush of each GPU's reads */
  TOPO_FABRIC_ICI,  /* between chips of a pod; the links count as the domain's */
  TOPO_FABRIC_N_KINDS
} TopoFabric;

/* Words used in files, JSON and as calibration keys: "nvlink4", "inter-socket", "pcie4-sys", "ib". */
const char *topo_link_kind_name (TopoLinkKind kind);
const char *topo_link_class_name (TopoLinkClass link_class);
const char *topo_fabric_name (TopoFabric fabric);
/* NULL-terminated, indexed by TopoFabric: for option and key parsing. */
extern const char *const topo_fabric_names[];
extern const char *const topo_link_class_names[]; /* indexed by TopoLinkClass */
/* Fabric of that word; FALSE (and *out untouched) when there is none. */
gboolean topo_fabric_from_name (const char *name, TopoFabric *out);
gboolean topo_link_class_from_name (const char *name, TopoLinkClass *out);
gboolean topo_link_kind_from_name (const char *name, TopoLinkKind *out);

/* NVLink, XGMI or ICI: a link between GPUs (or GPU and switch) that is not PCIe. */
gboolean topo_link_kind_is_direct (TopoLinkKind kind);
gboolean topo_link_kind_is_pcie (TopoLinkKind kind);
gboolean topo_link_class_is_pcie (TopoLinkClass link_class); /* with or without "-sys" */

/* Class of a group whose worst pair uses links of @kind. @sys: across sockets or through host
 * memory; matters for PCIe only. NIC and INTER_SOCKET have no class of their own: NONE. */
TopoLinkClass topo_link_class_of (TopoLinkKind kind, gboolean sys);

/* TOPO_LINK_PCIE3 for 3, …; TOPO_LINK_PCIE for 0, an unknown generation. */
TopoLinkKind topo_link_kind_of_pcie (guint generation);

/* One directed link. Plain value. */
typedef struct {
  guint32 from; /* vertex numbers */
  guint32 to;
  TopoLinkKind kind;
  guint32 count;      /* parallel physical links folded into this one, >= 1 */
  double bytes_per_s; /* all of them together, this direction, > 0; NaN = unknown */
  double latency_s;   /* first byte in to first byte out; NaN = unknown */
} TopoLink;

G_END_DECLS
