/* topo/live.h - the machine at hand, through hwloc and, where there is one, NVIDIA's driver. */
#pragma once
#include "topo/reading.h"
G_BEGIN_DECLS

/*
 * Packages, NUMA nodes, PCI tree, NICs and GPUs of this host. NVML (libnvidia-ml.so.1, opened at
 * run time) adds the GPUs' names and NVLinks. Fails with TOPO_ERROR_UNAVAILABLE in a build without
 * hwloc. Returns: (owned).
 */
TopoReading *topo_reading_new_live (const TopoReadOptions *options, GError **error);

/*
 * This host as a machine to plan for. With GPUs: their machine. Without (or in a build that cannot
 * look): @ranks devices of kind "cpu", each with its share of RAM and of the hardware threads that
 * this process may run on, joined by shared memory. options->gpu names GPUs that must be there.
 */
TopoMachine *topo_machine_new_live (const TopoReadOptions *options, guint32 ranks, GError **error);
G_END_DECLS
