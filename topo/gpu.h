/* topo/gpu.h - one model of GPU (or accelerator) as its file states it.
 *
 * A GPU enters the catalog with a dense peak, a memory bandwidth and usable bytes, or not at all;
 * every other fact may be unknown (0, NaN for rates, NULL for text). Card labels ("80GB") are
 * names: usable= in decimal GB that equals a known label is refused, showing both readings.
 */
#pragma once
#include "base/catalog.h"
#include "topo/error.h"
#include "topo/link.h"
#include <glib.h>
G_BEGIN_DECLS

typedef enum {
  TOPO_DTYPE_FP32,
  TOPO_DTYPE_TF32,
  TOPO_DTYPE_FP16,
  TOPO_DTYPE_BF16,
  TOPO_DTYPE_FP8,
  TOPO_DTYPE_FP4,
  TOPO_DTYPE_N_KINDS
} TopoDtype;

const char *topo_dtype_name (TopoDtype dtype); /* "fp32" … "fp4" */

typedef struct {
  char *slug;               /* "h100-sxm-80g" */
  char *product;            /* vendor's name, as the driver prints it */
  char **aliases;           /* other names, strv, may be empty; matched without regard to case */
  char **pci_ids;           /* "10de:2330", strv, may be empty */
  char *compute_capability; /* "9.0", "gfx942"; NULL unknown */
  char *generation;         /* volta turing ampere ada hopper blackwell cdna3 tpu */
  guint32 sm_count;         /* SMs, CUs or cores; 0 unknown */
  double peak_flop_per_s[TOPO_DTYPE_N_KINDS]; /* dense, fp32 accumulate; 0 = the chip has none */
  double clock_hertz;                         /* clock the peak belongs to; NaN unknown */
  double hbm_bytes_per_s;
  guint64 usable_bytes; /* what a program can allocate from: without the driver's reserve */
  double label_gb;      /* the number on the card: 80; NaN unknown */
  char *memory_kind;    /* "HBM3"; NULL unknown */
  guint64 l2_bytes;     /* 0 unknown */
  gboolean has_direct;  /* NVLink, XGMI or ICI exists on the card */
  TopoLinkKind direct;  /* which; only when has_direct */
  guint32 direct_links; /* links per GPU */
  double direct_link_bytes_per_s; /* one link, one direction */
  double copy_ratio;              /* of these links' peak, a large copy to a peer; NaN unknown */
  gboolean has_c2c;
  double c2c_bytes_per_s; /* GPU to its CPU, one direction; only when has_c2c */
  guint pcie_generation;  /* 0 unknown */
  double tdp_w;           /* NaN unknown */
  char *board;            /* machine slug where a run names the card only; NULL: none is typical */
  char *source;
} TopoGpu;

TopoGpu *topo_gpu_new_from_ini (BaseIni *ini, const char *slug, GError **error);
void topo_gpu_free (TopoGpu *gpu);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TopoGpu, topo_gpu_free)

/*
 * A GPU of which nothing is known, slug "unknown": what a topology dump that names no model has.
 * Machines carry it while they are shown or written out; plans refuse it.
 */
TopoGpu *topo_gpu_new_unknown (void);
gboolean topo_gpu_is_unknown (const TopoGpu *gpu);

/* Peak of @dtype; a dtype the chip lacks gives 0. fp32 matmuls do not silently use tf32. */
double topo_gpu_peak (const TopoGpu *gpu, TopoDtype dtype);
/* NVLink (XGMI, ICI) of all links together, one direction; 0 without any. */
double topo_gpu_direct_bytes_per_s (const TopoGpu *gpu);

/* All GPUs of a catalog, in slug order. */
typedef struct _TopoGpuTable TopoGpuTable;
TopoGpuTable *topo_gpu_table_new (const BaseCatalog *catalog, GError **error);
void topo_gpu_table_free (TopoGpuTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TopoGpuTable, topo_gpu_table_free)
guint topo_gpu_table_size (const TopoGpuTable *table);
const TopoGpu *topo_gpu_table_get (const TopoGpuTable *table, guint index); /* (borrowed) */

/*
 * By slug, product or alias, without regard to case. Two GPUs claiming one alias are an error
 * when the table is made, so that a name never depends on the order of files.
 * Returns: (borrowed) or NULL with TOPO_ERROR_NOT_FOUND and a suggestion.
 */
const TopoGpu *topo_gpu_table_find (const TopoGpuTable *table, const char *name, GError **error);

/* Loads one GPU: slug, alias, or path of a file. Returns: (owned). */
TopoGpu *topo_gpu_load (const BaseCatalog *catalog, const char *name, GError **error);
G_END_DECLS
