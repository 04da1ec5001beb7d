/* topo/nccltests-private.h - shared by the two readers of nccl-tests output. */
#pragma once
#include "topo/reading-private.h"
G_BEGIN_DECLS
/* One row: microseconds and GB/s (1e9), as printed. Values that are not numbers become NaN. */
void nccltests_add (TopoReading *reading, const char *what, guint32 ranks, guint64 size_bytes,
                    double time_us, double algbw_gb, double busbw_gb, gboolean in_place);
/* A rank's device: its number (below 0: not told) and the name that the driver prints for it. */
void nccltests_add_device (TopoReading *reading, double number, const char *name);
/* What TopoMeasurement calls a collective that is not told. */
#define NCCLTESTS_UNNAMED "unknown"

/* "all_reduce" of the first "all_reduce_perf" in @text, or NULL. (owned) */
char *nccltests_collective (const char *text, gsize length);
/* Fails when nothing was measured; notes names that are not told. */
gboolean nccltests_finish (TopoReading *reading, GError **error);
G_END_DECLS
