/* tests/fuzz/fuzz_topo.h - what every reader of topologies promises for any bytes. */
#pragma once
#include "tests/fuzz/fuzz.h"
#include "topo/write.h"
#include <math.h>

/* The embedded one, made once. */
static inline const BaseCatalog *
fuzz_catalog (void)
{
  static BaseCatalog *catalog = NULL;
  if (catalog == NULL)
    catalog = base_catalog_new (NULL, NULL);
  fuzz_require (catalog != NULL);
  return catalog;
}

/* The machine file of a reading gives the same graph. */
static inline void
fuzz_require_same_graph (const TopoGraph *a, const TopoGraph *b)
{
  fuzz_require (topo_graph_n_vertices (a) == topo_graph_n_vertices (b));
  fuzz_require (topo_graph_n_links (a) == topo_graph_n_links (b));
  for (guint32 v = 0; v < topo_graph_n_vertices (a); v++) {
    const TopoVertex *x = topo_graph_vertex (a, v), *y = topo_graph_vertex (b, v);
    fuzz_require (x->kind == y->kind && x->numa == y->numa && x->bridge == y->bridge);
    fuzz_require (strcmp (x->name, y->name) == 0);
  }
  for (guint32 l = 0; l < topo_graph_n_links (a); l++) {
    const TopoLink *x = topo_graph_link (a, l), *y = topo_graph_link (b, l);
    fuzz_require (x->from == y->from && x->to == y->to && x->kind == y->kind);
    fuzz_require (x->count == y->count);
    fuzz_require (x->bytes_per_s == y->bytes_per_s
                  || (isnan (x->bytes_per_s) && isnan (y->bytes_per_s)));
  }
}

static inline void
fuzz_read_topology (const uint8_t *data, size_t size, const char *name)
{
  GError *error = NULL;
  TopoReadOptions options = { fuzz_catalog (), NULL, NULL };
  if (topo_format_detect ((const char *)data, size) == TOPO_FORMAT_MACHINE)
    return; /* fuzz_machine.c */
  g_autoptr (TopoReading) reading
      = topo_reading_new_from_data ((const char *)data, size, name, &options, &error);
  fuzz_require_outcome (reading != NULL, &error);
  if (reading == NULL)
    return;
  fuzz_require (reading->machine != NULL || reading->measurements->len > 0);
  if (reading->machine == NULL)
    return;
  g_autofree char *matrix = topo_write_matrix (reading);
  g_autofree char *dot = topo_write_dot (reading->machine);
  fuzz_require (g_utf8_validate (matrix, -1, NULL) && g_utf8_validate (dot, -1, NULL));
  for (guint i = 0; i < reading->notes->len; i++)
    fuzz_require (g_utf8_validate (g_ptr_array_index (reading->notes, i), -1, NULL));
  g_autoptr (TopoReading) again = topo_reading_new_from_data (reading->ini, strlen (reading->ini),
                                                              "again.ini", &options, &error);
  if (again == NULL)
    fprintf (stderr, "%s\n%s\n", error->message, reading->ini);
  fuzz_require (again != NULL);
  fuzz_require_same_graph (reading->machine->graph, again->machine->graph);
}
