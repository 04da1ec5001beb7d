/* topo/sketch.h - one node as a reader gathers it, before it becomes a machine file.
 *
 * Devices hang in a tree: NUMA nodes, below them host bridges (where known), below these PCIe
 * switches, which may nest. GPUs are joined to each other or to an NVSwitch by counted links.
 */
#pragma once
#include "base/ini.h"
#include "topo/cluster.h"
#include "topo/link_facts.h"
G_BEGIN_DECLS

#define SKETCH_MAX_DEVICES 64 /* GPUs, and NICs */

/* Where a device or switch hangs: below a switch, else a bridge, else a NUMA node. -1: not so. */
typedef struct {
  gint32 numa; /* numbers of the arrays below */
  gint32 bridge;
  gint32 parent;
} SketchPlace;

typedef struct {
  char name[32];
  SketchPlace place;
  guint generation;   /* PCIe; 0 unknown */
  guint lanes;        /* 0 unknown */
  double bytes_per_s; /* of a NIC's port; NaN unknown */
} SketchDevice;

typedef struct {
  gint32 number; /* the system's; -1 unknown until sketch_number_numas () */
  gint32 socket; /* -1 unknown */
} SketchNuma;

typedef struct {
  TopoLinkFacts facts;
  guint n_gpus, n_nics;
  SketchDevice gpus[SKETCH_MAX_DEVICES], nics[SKETCH_MAX_DEVICES];
  GArray *numas;                                         /* (owned) of SketchNuma */
  GArray *bridges;                                       /* (owned) of SketchPlace */
  GArray *switches;                                      /* (owned) of SketchDevice: name unused */
  guint16 links[SKETCH_MAX_DEVICES][SKETCH_MAX_DEVICES]; /* between GPUs, symmetric */
  guint16 switch_links[SKETCH_MAX_DEVICES];              /* to NVSwitches */
  char bus_ids[SKETCH_MAX_DEVICES][16];                  /* PCI addresses of the GPUs; "" unknown */
  gboolean links_seen;             /* FALSE: the format, or this file, does not show links */
  TopoLinkKind direct;             /* NVLINK or XGMI, or a generation where it is known */
  double link_bytes_per_s;         /* of one; NaN unknown */
  double cpu_bytes_per_s;          /* coherent link of each GPU to its CPU; 0 none */
  double inter_socket_bytes_per_s; /* NaN unknown */
  char *gpu_product;               /* (owned, nullable) what the file calls the GPUs */
  char *gpu_pci_id;                /* (owned, nullable) "10de:2330" */
  char *source;                    /* (owned) what the file is */
} Sketch;

/* Empty. NULL: @catalog has no facts of links. */
Sketch *sketch_new (const BaseCatalog *catalog, GError **error);
void sketch_free (Sketch *sketch);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Sketch, sketch_free)

guint sketch_add_numa (Sketch *sketch, gint32 number, gint32 socket);
gboolean sketch_has_numa (const Sketch *sketch, gint32 number);
/* NUMA nodes that are not told get the least free numbers. Returns how many. */
guint sketch_number_numas (Sketch *sketch);
guint sketch_add_bridge (Sketch *sketch, gint32 numa);
guint sketch_add_switch (Sketch *sketch, SketchPlace place, guint generation, guint lanes);

/* Names a NIC: only letters, digits and _.:- are kept, and no two names are alike. */
void sketch_name_nic (Sketch *sketch, guint nic, const char *name);

/* How the GPUs are joined, decided from the counts. */
typedef struct {
  TopoWiring wiring;
  guint links_per_gpu;                   /* most of any GPU */
  guint links_per_pair;                  /* MESH, PAIRS */
  guint n_islands;                       /* SWITCH */
  guint64 islands[SKETCH_MAX_DEVICES];   /* bits */
  guint16 gpu_links[SKETCH_MAX_DEVICES]; /* SWITCH: of each GPU */
  gboolean inferred;                     /* a switch, by counts no card has ports for */
  gboolean ambiguous;                    /* mesh, or a switch of a card with fewer links */
} SketchWiring;

/* @card_links: links the GPU model has; 0 unknown. */
void sketch_wiring (const Sketch *sketch, guint card_links, SketchWiring *out);

/* Relations of two devices in the PCIe tree, by distance. */
typedef enum {
  SKETCH_UNKNOWN,
  SKETCH_PIX,
  SKETCH_PXB,
  SKETCH_PHB,
  SKETCH_NODE,
  SKETCH_SYS,
} SketchRelation;

/* What is known of the places of n devices (GPUs, then NICs). */
typedef struct {
  guint n;
  guint8 relation[2 * SKETCH_MAX_DEVICES][2 * SKETCH_MAX_DEVICES]; /* SketchRelation, symmetric */
  gint32 numa[2 * SKETCH_MAX_DEVICES];                             /* -1 unknown */
  const char *cpus[2 * SKETCH_MAX_DEVICES]; /* (borrowed, nullable) affinity */
} SketchRelations;

typedef struct {
  guint contradictions; /* pairs whose relation the tree does not give back */
  guint first, second;  /* one of them */
  guint beside;         /* GPUs that nothing places, put with the GPU counted before them */
  guint unplaced;       /* other devices that nothing places, put into one NUMA node */
  guint numbered;       /* NUMA nodes whose number is not told */
} SketchTreeResult;

/* Builds the tree of @sketch (its devices exist) from @relations. */
void sketch_tree (Sketch *sketch, const SketchRelations *relations, SketchTreeResult *out);

/* What of the machine @base holds for this node of it: its domain, its network, the curve of @group.
 * @gpu, @base: (nullable, but for a curve's @base) */
gboolean sketch_takes_domain (const Sketch *sketch, const TopoGpu *gpu, BaseIni *base);
gboolean sketch_takes_network (const Sketch *sketch, BaseIni *base);
gboolean sketch_takes_curve (const Sketch *sketch, const TopoGpu *gpu, BaseIni *base,
                             const char *group);

/*
 * The machine file. @gpu: (nullable) model, when known. @base: (nullable) machine file whose links
 * and network fill in what the sketch lacks. Returns: (owned).
 */
char *sketch_to_ini (const Sketch *sketch, const char *name, const TopoGpu *gpu, BaseIni *base);
G_END_DECLS
