/* cli/topo_json.c - plait topo --json. */
#include "cli/topo_json.h"

#include "cli/plan_json.h"

#include <math.h>

static void
add_vertex (JsonBuilder *builder, const TopoMachine *machine, const TopoVertex *vertex)
{
  json_builder_begin_object (builder);
  cli_json_text (builder, "name", vertex->name);
  cli_json_text (builder, "kind", topo_vertex_kind_name (vertex->kind));
  cli_json_count (builder, "index", vertex->index);
  if (vertex->kind == TOPO_VERTEX_GPU)
    cli_json_text (builder, "gpu", machine->gpu->slug);
  json_builder_set_member_name (builder, "numa");
  if (vertex->numa >= 0)
    json_builder_add_int_value (builder, vertex->numa);
  else
    json_builder_add_null_value (builder);
  if (vertex->socket >= 0)
    cli_json_count (builder, "socket", vertex->socket);
  if (vertex->bridge >= 0)
    cli_json_count (builder, "host_bridge", vertex->bridge);
  json_builder_end_object (builder);
}

/* Links are alike in both directions: each pair once. */
static void
add_link (JsonBuilder *builder, const TopoGraph *graph, const TopoLink *link)
{
  json_builder_begin_object (builder);
  cli_json_text (builder, "a", topo_graph_vertex (graph, link->from)->name);
  cli_json_text (builder, "b", topo_graph_vertex (graph, link->to)->name);
  cli_json_text (builder, "kind", topo_link_kind_name (link->kind));
  cli_json_count (builder, "count", link->count);
  cli_json_number (builder, "bytes_per_s", link->bytes_per_s);
  cli_json_number (builder, "latency_s", link->latency_s);
  json_builder_end_object (builder);
}

static void
add_graph (JsonBuilder *builder, const TopoMachine *machine)
{
  const TopoGraph *graph = machine->graph;

  json_builder_set_member_name (builder, "vertices");
  json_builder_begin_array (builder);
  for (guint32 v = 0; v < topo_graph_n_vertices (graph); v++)
    add_vertex (builder, machine, topo_graph_vertex (graph, v));
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "links");
  json_builder_begin_array (builder);
  for (guint32 l = 0; l < topo_graph_n_links (graph); l++)
    if (topo_graph_link (graph, l)->from < topo_graph_link (graph, l)->to)
      add_link (builder, graph, topo_graph_link (graph, l));
  json_builder_end_array (builder);
}

static void
add_assumed (JsonBuilder *builder, const TopoReading *reading)
{
  guint n = 0;

  json_builder_set_member_name (builder, "assumed");
  json_builder_begin_object (builder);
  for (guint i = 0; i < reading->assumed->len; i++) {
    const TopoAssumption *assumption = g_ptr_array_index (reading->assumed, i);

    cli_json_text (builder, assumption->key, assumption->text);
  }
  for (char **text = reading->machine != NULL ? reading->machine->assumed : NULL;
       text != NULL && *text != NULL; text++) {
    g_autofree char *key = g_strdup_printf ("machine_%u", ++n);

    cli_json_text (builder, key, *text);
  }
  json_builder_end_object (builder);
}

static void
add_device (JsonBuilder *builder, const char *key, gint32 device)
{
  if (device == TOPO_MEASUREMENT_HOST)
    cli_json_text (builder, key, "host");
  else if (device >= 0)
    cli_json_count (builder, key, device);
}

static void
add_measurement (JsonBuilder *builder, const TopoMeasurement *m)
{
  json_builder_begin_object (builder);
  cli_json_text (builder, "what", m->what);
  add_device (builder, "from", m->from);
  add_device (builder, "to", m->to);
  if (m->ranks > 0)
    cli_json_count (builder, "ranks", m->ranks);
  if (m->size_bytes > 0)
    cli_json_count (builder, "bytes", (gint64)m->size_bytes);
  if (!isnan (m->time_s))
    cli_json_number (builder, "time_s", m->time_s);
  if (!isnan (m->algbw_bytes_per_s))
    cli_json_number (builder, "algbw_bytes_per_s", m->algbw_bytes_per_s);
  if (!isnan (m->busbw_bytes_per_s))
    cli_json_number (builder, "busbw_bytes_per_s", m->busbw_bytes_per_s);
  cli_json_bool (builder, "in_place", m->in_place);
  json_builder_end_object (builder);
}

static void
add_lists (JsonBuilder *builder, const TopoReading *reading)
{
  json_builder_set_member_name (builder, "notes");
  json_builder_begin_array (builder);
  for (guint i = 0; i < reading->notes->len; i++)
    json_builder_add_string_value (builder, g_ptr_array_index (reading->notes, i));
  json_builder_end_array (builder);
  if (reading->measurements->len == 0)
    return;
  json_builder_set_member_name (builder, "measurements");
  json_builder_begin_array (builder);
  for (guint i = 0; i < reading->measurements->len; i++)
    add_measurement (builder, &g_array_index (reading->measurements, TopoMeasurement, i));
  json_builder_end_array (builder);
}

void
cli_topo_json (const TopoReading *reading)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  cli_json_text (builder, "format", topo_format_name (reading->format));
  if (reading->machine != NULL) {
    cli_json_text (builder, "gpu", reading->machine->gpu->slug);
    cli_json_count (builder, "gpus_per_node", reading->machine->gpus_per_node);
    add_graph (builder, reading->machine);
  }
  add_assumed (builder, reading);
  add_lists (builder, reading);
  json_builder_end_object (builder);
  cli_json_print (builder);
}

void
cli_topo_differences_json (const char *expected, const GPtrArray *differences)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  cli_json_text (builder, "expected", expected);
  json_builder_set_member_name (builder, "differences");
  json_builder_begin_array (builder);
  for (guint i = 0; i < differences->len; i++)
    json_builder_add_string_value (builder, g_ptr_array_index (differences, i));
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  cli_json_print (builder);
}
