/* topo/pci.h - what PCI numbers mean for a topology. */
#pragma once
#include <glib.h>
G_BEGIN_DECLS

typedef enum {
  PCI_OTHER,
  PCI_BRIDGE,   /* class 0604 */
  PCI_GPU,      /* 03xx display, 1200 processing accelerator */
  PCI_NIC,      /* 02xx network */
  PCI_NVSWITCH, /* 0680 of NVIDIA, as NCCL writes it */
} PciKind;

/* @class_code: "0x030200", "0302", any case. */
PciKind pci_kind_of_class (const char *class_code);

/* "8 GT/s", "16.0 GT/s PCIe", "32 GT/s PCIe/s" -> 3 4 5; 0 for "", "Unknown" and others. */
guint pci_generation_of_text (const char *text);
/* Generation and lanes of a link of @gb_per_s (hwloc's pci_link_speed); FALSE for idle or odd ones:
 * links of cards at rest run at generation 1. */
gboolean pci_link_of_rate (double gb_per_s, guint *out_generation, guint *out_lanes);
G_END_DECLS
