/* topo/change.h - what if a machine had other links, memory or peaks: changes made while its files
 * are read, so that all that follows from a rate follows from the changed one.
 *
 *   "nvlink=+50%,nic=800Gb/s,hbm=139.8GiB"
 *
 * A change is a percentage (+50%, -20%) of what the files say, or a value:
 *   flops    peak of 16-bit tensor cores; all peaks change in proportion
 *   hbm      bytes that a program can use; in decimal GB what is the label of a GPU is refused:
 *            "141GB" is the name of a card, on which 139.8GiB can be used ("141e9B" is what it says)
 *   hbm_bw   memory bandwidth
 *   nvlink   direct links of a GPU together, one direction (NVLink, XGMI, ICI)
 *   nic      one compute NIC, one direction
 *   price    per GPU-hour
 */
#pragma once
#include "topo/cluster.h"
#include <glib.h>
G_BEGIN_DECLS

typedef enum {
  TOPO_RESOURCE_FLOPS,
  TOPO_RESOURCE_HBM,
  TOPO_RESOURCE_HBM_BW,
  TOPO_RESOURCE_NVLINK,
  TOPO_RESOURCE_NIC,
  TOPO_RESOURCE_PRICE,
  TOPO_RESOURCE_N_KINDS
} TopoResource;
const char *topo_resource_name (TopoResource resource);

typedef struct {
  double factor;  /* of what the files say; 0: not changed by a factor */
  double value;   /* instead of it, SI; 0: none */
  double name_gb; /* of hbm: written in GB, so that it may be the name of a card; 0: it is not */
} TopoChange;

/* By resource; all zero changes nothing. Plain value. */
typedef struct _TopoChanges {
  TopoChange of[TOPO_RESOURCE_N_KINDS];
} TopoChanges;

/* Refuses unknown resources (with a suggestion), a resource named twice, percentages of -100 % and
 * less, values of another dimension. */
gboolean topo_changes_parse (TopoChanges *changes, const char *text, GError **error);
/* @factor times whatever @changes makes of @resource. */
void topo_changes_scale (TopoChanges *changes, TopoResource resource, double factor);

/* topo_machine_load with @changes, noted in assumed. Fails where a changed resource is not there
 * (NVLink of a PCIe card, NICs of a machine without) and where hbm is a label. */
TopoMachine *topo_machine_load_changed (const BaseCatalog *catalog, const char *name,
                                        const char *gpu_name, const TopoChanges *changes,
                                        GError **error);
G_END_DECLS
