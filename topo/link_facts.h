/* topo/link_facts.h - what the catalog says of links by their kind, whichever machine has them.
 *
 * catalog/links/pcie.ini, nvlink.ini and inter-socket.ini, each number with its source; a user's
 * catalog folder may replace any of them. Read once per catalog.
 */
#pragma once
#include "base/catalog.h"
#include "topo/link.h"
G_BEGIN_DECLS

#define TOPO_PCIE_FIRST              3 /* generations that TopoLinkKind knows */
#define TOPO_PCIE_LAST               6
#define TOPO_NVLINK_GENERATIONS      5
#define TOPO_MAX_CAPABILITIES        8
#define TOPO_MAX_INTEL_MODELS        16
#define TOPO_INTEL_FAMILY_OF_SERVERS 6

typedef struct {
  double link_bytes_per_s; /* one link, one direction */
  guint32 links_per_gpu;   /* the most a card of it has */
  guint32 nvls_from_gpus;  /* of a domain: the switch adds an all-reduce up; 0 never */
  guint32 n_capabilities;
  guint32 capabilities[TOPO_MAX_CAPABILITIES]; /* CUDA compute capability x 10 */
} TopoNvlinkFacts;

typedef struct {
  guint32 from_model;
  double bytes_per_s;
} TopoIntelFacts;

/* Plain value: copy freely, nothing to free. */
typedef struct {
  double pcie_x16_bytes_per_s[TOPO_PCIE_LAST - TOPO_PCIE_FIRST + 1]; /* one direction */
  TopoNvlinkFacts nvlink[TOPO_NVLINK_GENERATIONS];                   /* from NVLINK1 on */
  double arm64_bytes_per_s, ppc64_bytes_per_s, amd_bytes_per_s;      /* between CPUs */
  guint32 n_intel;
  TopoIntelFacts intel[TOPO_MAX_INTEL_MODELS]; /* by ascending model */
} TopoLinkFacts;

/* FALSE, with *facts undefined: a file lacks a number, or has one that is none. */
gboolean topo_link_facts_init (TopoLinkFacts *facts, const BaseCatalog *catalog, GError **error);

/* PCIe x16, one direction, bytes per second; NaN for a generation that is unknown (0). */
double topo_link_facts_pcie (const TopoLinkFacts *facts, guint generation);

/*
 * GPUs of a domain from which on its switch of such links adds an all-reduce up (NVLink SHARP).
 * 0: it never does, or @kind is no NVLink of a known generation.
 */
guint32 topo_link_facts_nvls_from (const TopoLinkFacts *facts, TopoLinkKind kind);

/* The most NVLinks that a card of any generation has. */
guint32 topo_link_facts_most_links (const TopoLinkFacts *facts);

/* The generation whose GPUs have @compute_capability (times 10: 90); FALSE if none. */
gboolean topo_link_facts_nvlink_of (const TopoLinkFacts *facts, guint64 compute_capability,
                                    TopoLinkKind *out_kind, double *out_link_bytes_per_s);

/*
 * Between CPUs of a host, one direction; NaN unknown.
 * @arch, @vendor: (nullable) "x86_64", "GenuineIntel" as CPUID and NCCL's XML spell them
 * @family, @model: of CPUID, with @model_known; else ignored
 */
double topo_link_facts_inter_socket (const TopoLinkFacts *facts, const char *arch,
                                     const char *vendor, gboolean model_known, guint64 family,
                                     guint64 model);
G_END_DECLS
