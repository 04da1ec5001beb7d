/* topo/live.c - this host: hwloc's discovery, read back as its XML, and NVML. */
#include "topo/live.h"
#include "topo/nvml.h"
#include "topo/reading-private.h"
#ifdef HAVE_HWLOC
#include <hwloc.h>
#include <string.h>
#endif

#ifdef HAVE_HWLOC

/* What hwloc finds, as XML. Returns: (owned) or NULL. */
static char *
discover (gsize *out_length, GError **error)
{
  hwloc_topology_t topology = NULL;
  char *xml = NULL, *copy = NULL;
  int length = 0;
  gboolean ok = hwloc_topology_init (&topology) == 0;
  ok = ok && hwloc_topology_set_io_types_filter (topology, HWLOC_TYPE_FILTER_KEEP_ALL) == 0
       && hwloc_topology_load (topology) == 0
       && hwloc_topology_export_xmlbuffer (topology, &xml, &length, 0) == 0;
  if (ok)
    copy = g_strndup (xml, (gsize)length);
  else
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_UNAVAILABLE,
                 "hwloc could not read the topology of this host");
  if (xml != NULL)
    hwloc_free_xmlbuffer (topology, xml);
  if (topology != NULL)
    hwloc_topology_destroy (topology);
  *out_length = copy != NULL ? strlen (copy) : 0;
  return copy;
}

/* A link that one end has lost is lost. */
static void
make_links_symmetric (TopoReading *reading, Sketch *sketch)
{
  for (guint i = 0; i < sketch->n_gpus; i++)
    for (guint j = i + 1; j < sketch->n_gpus; j++) {
      guint16 there = sketch->links[i][j], back = sketch->links[j][i];
      if (there != back)
        reading_note (reading, "GPU%u and GPU%u count %u and %u NVLinks to each other", i, j, there,
                      back);
      sketch->links[i][j] = sketch->links[j][i] = MIN (there, back);
    }
}

static void
ask_driver (TopoReading *reading, Sketch *sketch)
{
  g_autofree char *why = NULL;
  guint unplaced = 0;
  gboolean answered = nvml_fill (sketch, &unplaced, &why);
  if (!answered && sketch->n_gpus > 0 && sketch->links_seen)
    reading_assume (reading, "nvlink", "by the rates that hwloc states: %s", why);
  else if (!answered && sketch->n_gpus > 0)
    reading_note (reading, "%s: NVLinks are not known", why);
  if (unplaced > 0)
    reading_note (reading, "%u GPU%s of the driver %s no PCI device that hwloc sees: left out",
                  unplaced, unplaced > 1 ? "s" : "", unplaced > 1 ? "are" : "is");
  if (answered)
    make_links_symmetric (reading, sketch);
}

TopoReading *
topo_reading_new_live (const TopoReadOptions *options, GError **error)
{
  gsize length = 0;
  g_autofree char *xml = discover (&length, error);
  g_autoptr (TopoReading) reading = reading_new (TOPO_FORMAT_LIVE, "live");
  g_autoptr (Sketch) sketch = sketch_new (options->catalog, error);
  if (sketch == NULL || xml == NULL || !read_hwloc_xml (xml, length, reading, sketch, error))
    return NULL;
  g_free (sketch->source);
  sketch->source = g_strdup ("this host, by hwloc and NVML");
  ask_driver (reading, sketch);
  if (!reading_finish (reading, sketch, options, error))
    return NULL;
  return g_steal_pointer (&reading);
}

#else

TopoReading *
topo_reading_new_live (const TopoReadOptions *options, GError **error)
{
  g_set_error (error, TOPO_ERROR, TOPO_ERROR_UNAVAILABLE,
               "this plait was built without hwloc, which finds the topology of this host: install "
               "libhwloc-dev and build again, or give a file");
  return NULL;
}

#endif
