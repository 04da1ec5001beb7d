/* topo/smi_lines.h - header and rows of an `nvidia-smi topo` matrix inside pasted text. */
#pragma once
#include "topo/error.h"
#include <glib.h>
G_BEGIN_DECLS

/* A cell: a SketchRelation, SELF, or NVLINK + count. */
#define SMI_CELL_SELF   100
#define SMI_CELL_NVLINK 1000

typedef struct {
  guint line;    /* in the file, from 1 */
  char *label;   /* (owned) "GPU0", "mlx5_0" */
  GArray *cells; /* (owned) of guint16 */
  char *cpus;    /* (owned, nullable) CPU Affinity */
  char *numa;    /* (owned, nullable) NUMA Affinity */
} SmiRow;

typedef struct {
  GPtrArray *header;   /* (owned) of char *; empty without one */
  guint n_affinities;  /* titles over the columns right of the cells; 0 unknown */
  GPtrArray *rows;     /* (owned) of SmiRow */
  GHashTable *legend;  /* (owned) "NIC0" -> "mlx5_0" */
  GPtrArray *products; /* (owned) of char *: models that the same paste names (nvidia-smi, -L) */
  gboolean is_amd;     /* XGMI links: of rocm-smi or amd-smi */
  guint joined;        /* line breaks inside rows and headers that were taken out */
  guint p2p_rows;      /* rows of a capability matrix (topo -p2p) */
  guint matrices;      /* further matrices that differ from the first */
} SmiLines;

SmiLines *smi_lines_new (const char *data, gsize length);
void smi_lines_free (SmiLines *lines);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SmiLines, smi_lines_free)

gboolean smi_is_gpu (const char *name); /* "GPU" and digits */
G_END_DECLS
