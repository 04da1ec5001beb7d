/* app/collective_rows.h - rows of nccl-tests figures, resolved to groups on machines.
 *
 * Columns: machine (slug) or gpu, gpus, nodes, collective, bytes (as nccl-tests prints them),
 * time_us; optional slug (the log a row is from), use (1: score it), fabric, algo,
 * nic_gbps_per_gpu, nccl_version, notes. What a row states goes before what the machine's file
 * says: its NIC rate, and the fabric where that is another kind of network.
 *
 * How a figure was taken is part of it: notes that name a torch loop or a single process driving
 * all GPUs add that harness's time (collective-model §3), and versions to 2.8 count as old.
 */
#pragma once
#include "app/error.h"
#include "base/csv.h"
#include "costmodel/collective.h"
#include <glib.h>
G_BEGIN_DECLS

/* Numbers of one machine on one fabric and NCCL generation. */
typedef struct {
  TopoMachine *machine; /* (owned) */
  gboolean old_nccl;
  CostNumbers numbers; /* resolved by collective_rows_resolve() */
  gboolean resolved;
} CollectiveSetting;

/* What took the time beside the collective. */
typedef enum {
  COLLECTIVE_HARNESS_NCCL_TESTS,
  COLLECTIVE_HARNESS_TORCH,
  COLLECTIVE_HARNESS_ONE_PROCESS,
} CollectiveHarness;

/* Rows that differ in bytes only. */
typedef struct {
  guint setting;
  TopoGroupShape shape;
  ModelCollectiveKind kind;
  const char *algorithm; /* static: the way that ran; NULL: the model's choice */
  gboolean no_nvls;
  gboolean nic_assumed; /* over domains, at the NIC rate of the machine's file */
  CollectiveHarness harness;
} CollectiveCurve;

typedef struct {
  guint curve;
  double bytes, measured_s;
  char *log, *machine; /* (owned) */
} CollectiveRow;

typedef struct {
  BaseCatalog *catalog;                  /* (owned) */
  CostCalibration *calibration;          /* (owned) */
  GHashTable *setting_keys, *curve_keys; /* (owned) char * -> index + 1 */
  GArray *settings;                      /* (owned) CollectiveSetting */
  GArray *curves;                        /* (owned) CollectiveCurve */
  GArray *rows;                          /* (owned) CollectiveRow */
  GHashTable *skipped;                   /* (owned) reason -> count */
  guint n_rows;                          /* with use = 1 */
  guint n_tables;                        /* files with the columns of such a table */
  GPtrArray *left_out;                   /* (owned) char *: other files, and what they lack */
} CollectiveRows;

/* @files: NULL-terminated. A file without the columns is left out; fails if all lack them, and on a
 * malformed cell. */
gboolean collective_rows_init (CollectiveRows *rows, const char *catalog_dir,
                               const char *calibration, const char *const *files, GError **error);
void collective_rows_clear (CollectiveRows *rows);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (CollectiveRows, collective_rows_clear)

/* Resolves every setting's numbers from rows->calibration as it is now. */
gboolean collective_rows_resolve (CollectiveRows *rows, GError **error);
/* Predicted seconds of every row (rows->rows->len of them); NaN where no way answers. */
void collective_rows_predict (const CollectiveRows *rows, double *out_s);
G_END_DECLS
