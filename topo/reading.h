/* topo/reading.h - what a description of real hardware says, whatever its format.
 *
 * A reader turns `nvidia-smi topo -m` text, NCCL's or hwloc's XML into the same machine file a
 * user would write; the graph is that file's. What the description does not tell (GPU model, link
 * rates) stays unknown there; what was inferred is said in assumed, what was odd in notes.
 * Outputs of nvbandwidth and nccl-tests are measurements, without a graph; collectives measured on
 * a machine that is named become part of its file.
 */
#pragma once
#include "topo/cluster.h"
#include "topo/measurement.h"
G_BEGIN_DECLS

#define TOPO_READING_MAX_BYTES (64 << 20)

typedef enum {
  TOPO_FORMAT_UNKNOWN,
  TOPO_FORMAT_MACHINE,          /* a machine file, or a catalog entry */
  TOPO_FORMAT_SMI_TOPO,         /* nvidia-smi topo -m or -mp */
  TOPO_FORMAT_NCCL_XML,         /* NCCL_TOPO_FILE or NCCL_TOPO_DUMP_FILE, RCCL's too */
  TOPO_FORMAT_HWLOC_XML,        /* lstopo --of xml, hwloc 2 or later */
  TOPO_FORMAT_NVBANDWIDTH_JSON, /* nvbandwidth -j */
  TOPO_FORMAT_NCCL_TESTS_TEXT,
  TOPO_FORMAT_NCCL_TESTS_JSON, /* -J */
  TOPO_FORMAT_LIVE,            /* this host, through hwloc and NVML */
  TOPO_FORMAT_N_KINDS
} TopoFormat;

const char *topo_format_name (TopoFormat format); /* "nvidia-smi topo" … */
/* From content alone; UNKNOWN when it is none of them. */
TopoFormat topo_format_detect (const char *data, gsize length);

/* What was inferred, by what it is about: "gpu", "links", "pcie", "places", "network". */
typedef struct {
  char *key;
  char *text;
} TopoAssumption;

typedef struct {
  TopoFormat format;
  char *name;           /* base name of the file, without its ending */
  TopoMachine *machine; /* (owned, nullable) NULL: measurements only */
  char *ini;            /* (owned, nullable) the machine file */
  GPtrArray *assumed;   /* (owned) of TopoAssumption */
  GPtrArray *notes;     /* (owned) of char *: what is odd in the file */
  GArray *measurements; /* (owned) of TopoMeasurement */
  GPtrArray *devices;   /* (owned) of char *: GPUs as a log of nccl-tests names them, each once */
  guint n_host_devices; /* the highest device number of such a log, plus one; 0 without */
  gboolean hides_links; /* a description that does not show how GPUs are joined */
  guint n_cells;        /* devices of the matrix as read; 0 without one */
  char **cells;         /* (owned) n_cells^2 words, "" unknown; GPUs, then NICs, as in the graph */
} TopoReading;

/* What the caller adds to the description. All borrowed. */
typedef struct {
  const BaseCatalog *catalog;
  const char *gpu;     /* (nullable) model of the GPUs */
  const char *machine; /* (nullable) machine that fills in what a partial file leaves out */
} TopoReadOptions;

/* @name: how messages call it. Returns: (owned) or NULL. */
TopoReading *topo_reading_new_from_data (const char *data, gsize length, const char *name,
                                         const TopoReadOptions *options, GError **error);
TopoReading *topo_reading_new_from_file (const char *path, const TopoReadOptions *options,
                                         GError **error);
/* Machine of the catalog, or a machine file. */
TopoReading *topo_reading_new_from_machine (const char *name, const TopoReadOptions *options,
                                            GError **error);
void topo_reading_free (TopoReading *reading);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TopoReading, topo_reading_free)

/* Takes the machine out. Fails with TOPO_ERROR_NOT_FOUND while its GPU is unknown. (owned) */
TopoMachine *topo_reading_steal_machine (TopoReading *reading, GError **error);
G_END_DECLS
