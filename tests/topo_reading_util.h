/* tests/topo_reading_util.h - reading fixtures and comparing graphs. */
#pragma once
#include "tests/topo_util.h"
#include "topo/write.h"

/* Path of an own fixture. (owned) */
static inline char *
fixture_path (const char *name)
{
  const char *dir = g_getenv ("PLAIT_TEST_DIR");
  assert_non_null (dir);
  return g_build_filename (dir, "topo", name, NULL);
}

static inline TopoReading *
read_path (const char *path, const char *gpu, const char *machine, GError **error)
{
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  TopoReadOptions options = { catalog, gpu, machine };
  return topo_reading_new_from_file (path, &options, error);
}

static inline void
assert_same_graph (const TopoGraph *a, const TopoGraph *b)
{
  assert_int_equal (topo_graph_n_vertices (a), topo_graph_n_vertices (b));
  assert_int_equal (topo_graph_n_links (a), topo_graph_n_links (b));
  for (guint32 v = 0; v < topo_graph_n_vertices (a); v++) {
    const TopoVertex *x = topo_graph_vertex (a, v), *y = topo_graph_vertex (b, v);
    assert_string_equal (x->name, y->name);
    assert_true (x->kind == y->kind && x->index == y->index && x->numa == y->numa
                 && x->socket == y->socket && x->bridge == y->bridge);
  }
  for (guint32 l = 0; l < topo_graph_n_links (a); l++) {
    const TopoLink *x = topo_graph_link (a, l), *y = topo_graph_link (b, l);
    assert_true (x->from == y->from && x->to == y->to && x->kind == y->kind
                 && x->count == y->count);
    assert_true (x->bytes_per_s == y->bytes_per_s
                 || (isnan (x->bytes_per_s) && isnan (y->bytes_per_s)));
  }
}

/* What --ini prints is read again as the same graph. */
static inline void
assert_round_trip (const TopoReading *reading)
{
  GError *error = NULL;
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  TopoReadOptions options = { catalog, NULL, NULL };
  g_autoptr (TopoReading) again = topo_reading_new_from_data (reading->ini, strlen (reading->ini),
                                                              "again.ini", &options, &error);
  assert_no_error (error);
  assert_same_graph (reading->machine->graph, again->machine->graph);
  assert_string_equal (reading->machine->gpu->slug, again->machine->gpu->slug);
}

/* Is @words in one of the assumptions or notes? */
static inline gboolean
says (const TopoReading *reading, const char *words)
{
  for (guint i = 0; i < reading->assumed->len; i++)
    if (strstr (((TopoAssumption *)g_ptr_array_index (reading->assumed, i))->text, words) != NULL)
      return TRUE;
  for (guint i = 0; i < reading->notes->len; i++)
    if (strstr (g_ptr_array_index (reading->notes, i), words) != NULL)
      return TRUE;
  return FALSE;
}
