/* topo/reading_measured.c - measured collectives as groups of a machine file.
 *
 * Of each collective and number of ranks: the out-of-place times (in place where a log has no
 * other), the geometric mean where a size was measured more than once.
 */
#include "base/suggest.h"
#include "topo/curve.h"
#include "topo/reading-private.h"
#include <math.h>
#include <string.h>

/* One curve while it is gathered. */
typedef struct {
  const char *what; /* (borrowed) */
  guint32 ranks;
  GArray *points; /* (owned) TopoCurvePoint; time_s holds the sum of logarithms, then the mean */
  GArray *counts; /* (owned) guint */
} Gathered;

static gboolean
is_of_curve (const TopoMeasurement *m, const Gathered *curve, gboolean in_place)
{
  return m->in_place == in_place && m->ranks == curve->ranks && m->size_bytes > 0 && m->time_s > 0
         && strcmp (m->what, curve->what) == 0;
}

static void
add_point (Gathered *curve, double bytes, double time_s)
{
  guint i = 0, one = 1;
  TopoCurvePoint point = { bytes, log (time_s) };
  while (i < curve->points->len && g_array_index (curve->points, TopoCurvePoint, i).bytes < bytes)
    i++;
  if (i < curve->points->len && g_array_index (curve->points, TopoCurvePoint, i).bytes == bytes) {
    g_array_index (curve->points, TopoCurvePoint, i).time_s += point.time_s;
    g_array_index (curve->counts, guint, i)++;
    return;
  }
  g_array_insert_val (curve->points, i, point);
  g_array_insert_val (curve->counts, i, one);
}

static void
gather (const GArray *measurements, Gathered *curve)
{
  for (guint side = 0; side < 2 && curve->points->len == 0; side++)
    for (guint i = 0; i < measurements->len; i++) {
      const TopoMeasurement *m = &g_array_index (measurements, TopoMeasurement, i);
      if (is_of_curve (m, curve, side == 1))
        add_point (curve, (double)m->size_bytes, m->time_s);
    }
}

/* Takes "[@group]" with its keys out of @text: what is measured anew replaces it. */
static void
drop_group (GString *text, const char *group)
{
  g_autofree char *header = g_strdup_printf ("\n[%s]\n", group);
  char *at = strstr (text->str, header);
  if (at == NULL)
    return;
  char *next = strstr (at + 1, "\n[");
  g_string_erase (text, at - text->str, next != NULL ? next - at : -1);
}

static void
append_curve (GString *out, const Gathered *curve, const char *source)
{
  g_autofree char *group = g_strdup_printf ("measured %s %u", curve->what, curve->ranks);
  drop_group (out, group);
  g_string_append_printf (out, "\n[%s]\nsource = %s\npoints = ", group, source);
  for (guint i = 0; i < curve->points->len; i++) {
    const TopoCurvePoint *point = &g_array_index (curve->points, TopoCurvePoint, i);
    char text[G_ASCII_DTOSTR_BUF_SIZE];
    double time_s = exp (point->time_s / g_array_index (curve->counts, guint, i));
    g_string_append_printf (out, "%s%.0fB:%sus", i > 0 ? ", " : "", point->bytes,
                            g_ascii_formatd (text, sizeof text, "%.7g", time_s * 1e6));
  }
  g_string_append_c (out, '\n');
}

static gboolean
is_new (const TopoMeasurement *m, const GArray *measurements, guint i)
{
  for (guint j = 0; j < i; j++) {
    const TopoMeasurement *other = &g_array_index (measurements, TopoMeasurement, j);
    if (other->ranks == m->ranks && strcmp (other->what, m->what) == 0)
      return FALSE;
  }
  return TRUE;
}

guint
measured_append (GString *out, const TopoReading *reading)
{
  const GArray *measurements = reading->measurements;
  g_autofree char *source = g_strdup_printf ("%s", topo_format_name (reading->format));
  guint n = 0;
  for (guint i = 0; i < measurements->len; i++) {
    const TopoMeasurement *m = &g_array_index (measurements, TopoMeasurement, i);
    if (m->ranks < 2 || base_name_index (m->what, topo_curve_names) < 0
        || !is_new (m, measurements, i))
      continue;
    g_autoptr (GArray) points = g_array_new (FALSE, FALSE, sizeof (TopoCurvePoint));
    g_autoptr (GArray) counts = g_array_new (FALSE, FALSE, sizeof (guint));
    Gathered curve = { m->what, m->ranks, points, counts };
    gather (measurements, &curve);
    if (points->len < 2)
      continue;
    append_curve (out, &curve, source);
    n++;
  }
  return n;
}

gboolean
reading_attach (TopoReading *reading, const TopoReadOptions *options, GError **error)
{
  g_autoptr (TopoReading) whole = topo_reading_new_from_machine (options->machine, options, error);
  if (whole == NULL)
    return FALSE;
  g_autoptr (GString) text = g_string_new (whole->ini);
  guint n = measured_append (text, reading);
  if (n == 0) {
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_PARSE,
                 "holds no curve of a collective: two sizes and more, with its name and the number "
                 "of ranks");
    return FALSE;
  }
  g_autoptr (BaseIni) ini = base_ini_new_from_data (text->str, -1, options->machine, error);
  if (ini == NULL)
    return FALSE;
  TopoGpu *gpu = topo_gpu_is_unknown (whole->machine->gpu)
                     ? topo_gpu_new_unknown ()
                     : topo_gpu_load (options->catalog, whole->machine->gpu->slug, error);
  if (gpu == NULL)
    return FALSE;
  reading->machine = topo_machine_new_from_ini (ini, whole->name, gpu, error);
  reading->ini = g_string_free (g_steal_pointer (&text), FALSE);
  reading_note (reading, "%u measured curve%s attached to %s", n, n > 1 ? "s" : "",
                options->machine);
  return reading->machine != NULL;
}
