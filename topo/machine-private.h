/* topo/machine-private.h - a machine while its file is being read. */
#pragma once
#include "base/ini.h"
#include "topo/cluster.h"
G_BEGIN_DECLS

/* A NUMA node or PCIe switch of one node, and what hangs below it. */
typedef struct {
  guint32 number; /* as in the group's name */
  gint32 socket;  /* of a NUMA node; -1 unknown */
  guint32 numa;   /* of a switch: number of its NUMA node */
  guint64 gpus;   /* bits */
  guint64 nics;   /* bits */
} MachinePlace;

/* What the graph needs beside TopoMachine. */
typedef struct {
  GArray *numas;    /* of MachinePlace */
  GArray *switches; /* of MachinePlace */
  guint32 links_per_gpu;
  guint uplink_generation; /* PCIe, switch to CPU */
} MachineLayout;

void machine_layout_init (MachineLayout *layout);
void machine_layout_clear (MachineLayout *layout);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (MachineLayout, machine_layout_clear)

void machine_assume (TopoMachine *machine, const char *format, ...) G_GNUC_PRINTF (2, 3);

/* "0-3, 8": numbers below @limit (at most 64) as bits. Absent key: no bits. */
gboolean machine_read_set (BaseIni *ini, const char *group, const char *key, guint32 limit,
                           guint64 *out, GError **error);

/* [links], [pcie] with [numa N] and [switch N], [network]. */
gboolean machine_read_links (BaseIni *ini, TopoMachine *machine, MachineLayout *layout,
                             GError **error);
gboolean machine_read_pcie (BaseIni *ini, TopoMachine *machine, MachineLayout *layout,
                            GError **error);
gboolean machine_read_network (BaseIni *ini, TopoMachine *machine, GError **error);

/* Builds machine->graph. */
gboolean machine_build_graph (TopoMachine *machine, const MachineLayout *layout, GError **error);
/* Fills subsets, node_link_*. */
void machine_fill_subsets (TopoMachine *machine);
G_END_DECLS
