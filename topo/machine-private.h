/* topo/machine-private.h - a machine while its file is being read. */
#pragma once
#include "base/ini.h"
#include "topo/cluster.h"
#include "topo/link_facts.h"
G_BEGIN_DECLS

/* A NUMA node, host bridge or PCIe switch of one node, and what hangs below it. */
typedef struct {
  guint32 number; /* as in the group's name */
  gint32 socket;  /* of a NUMA node; -1 unknown */
  guint32 numa;   /* of a switch or bridge: number of its NUMA node */
  gint32 parent;  /* of a switch: number of the switch above it; -1 none */
  gint32 bridge;  /* of a switch: number of its host bridge; -1 unknown */
  guint64 gpus;   /* bits */
  guint64 nics;   /* bits */
} MachinePlace;

/* A NIC as the graph shows it, also where the network is unknown. */
typedef struct {
  char *name;         /* (owned, nullable) */
  double bytes_per_s; /* NaN unknown */
} MachineNic;

/* What the graph needs beside TopoMachine. */
typedef struct {
  GArray *numas;           /* of MachinePlace */
  GArray *switches;        /* of MachinePlace */
  GArray *bridges;         /* of MachinePlace */
  GArray *nics;            /* of MachineNic */
  gboolean has_host;       /* [pcie] is there; its generation may be unknown (0) */
  double cpu_bytes_per_s;  /* coherent link of each GPU to its own CPU; 0 none */
  guint uplink_generation; /* PCIe, switch to CPU and to switch; 0 unknown */
  guint nic_generation;    /* 0 unknown */
  double uplink_bytes_per_s, nic_bytes_per_s; /* NaN unknown */
} MachineLayout;

void machine_layout_init (MachineLayout *layout);
void machine_layout_clear (MachineLayout *layout);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (MachineLayout, machine_layout_clear)

/* The lowest @n of 64 bits. */
static inline guint64
machine_first_bits (guint n)
{
  return n == 0 ? 0 : G_MAXUINT64 >> (64 - n);
}

void machine_assume (TopoMachine *machine, const char *format, ...) G_GNUC_PRINTF (2, 3);

/* "0-3, 8": numbers below @limit (at most 64) as bits. Absent key: no bits. */
gboolean machine_read_set (BaseIni *ini, const char *group, const char *key, guint32 limit,
                           guint64 *out, GError **error);

/* Adds a NUMA node unless it is there. */
void machine_add_numa (MachineLayout *layout, guint32 number);
/* All groups of places; *gpus and *nics are the bits placed. */
gboolean machine_read_places (BaseIni *ini, const TopoMachine *machine, MachineLayout *layout,
                              guint64 *gpus, guint64 *nics, GError **error);

/* "3" or "0-3", below @limit. */
gboolean machine_parse_range (const char *text, guint32 limit, guint64 *first, guint64 *last);
/* joined and fewer of [links]. */
gboolean machine_read_joined (BaseIni *ini, TopoMachine *machine, GError **error);
/* WIRING_SWITCH: links to the switch of the worst-off of @mask (bits); 0 when not all share one. */
guint32 machine_switch_links (const TopoMachine *machine, guint64 mask);

/* [links], [pcie] with its places, [network]. */
gboolean machine_read_links (BaseIni *ini, const TopoLinkFacts *facts, TopoMachine *machine,
                             MachineLayout *layout, GError **error);
gboolean machine_read_pcie (BaseIni *ini, const TopoLinkFacts *facts, TopoMachine *machine,
                            MachineLayout *layout, GError **error);
gboolean machine_read_network (BaseIni *ini, TopoMachine *machine, MachineLayout *layout,
                               GError **error);

/* Every [measured OP RANKS]; the rest of the machine is read. */
gboolean machine_read_measured (BaseIni *ini, TopoMachine *machine, GError **error);

/* Builds machine->graph. */
gboolean machine_build_graph (TopoMachine *machine, const MachineLayout *layout, GError **error);
/* Fills subsets, node_link_*. */
void machine_fill_subsets (TopoMachine *machine);
G_END_DECLS
