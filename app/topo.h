/* app/topo.h - use case: read, convert and check a topology. */
#pragma once
#include "app/error.h"
#include "topo/write.h"
G_BEGIN_DECLS

/* All borrowed. */
typedef struct {
  const char *catalog_dir;
  const char *source;  /* a file, a catalog slug, or "live" */
  const char *gpu;     /* (nullable) */
  const char *machine; /* (nullable) fills in what a partial file leaves out */
} AppTopoInputs;

TopoReading *app_topo_read (const AppTopoInputs *inputs, GError **error);

/* Differences from the machine @expected (slug or file). Returns: (owned) GPtrArray of char *. */
GPtrArray *app_topo_check (const char *catalog_dir, const TopoReading *reading,
                           const char *expected, GError **error);
G_END_DECLS
