/* topo/reading_measured.c - what was measured, in the words of a machine file.
 *
 * Collectives become [measured OP RANKS]: the out-of-place times (in place where a log has no
 * other), the geometric mean where a size was measured more than once. Copies between GPUs joined
 * by NVLink lower the links' rate where the worst pair falls short of what a copy usually reaches
 * of the peak ([links] copy_ratio of the GPU): calibrations relate to the peak.
 */
#include "base/suggest.h"
#include "topo/curve.h"
#include "topo/nccltests-private.h"
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
measured_append (GString *out, const TopoReading *reading, const char *source)
{
  const GArray *measurements = reading->measurements;
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

/* The pair whose copies fall short most. Returns: its rate over the usual, NaN without any. */
static double
worst_copy (const TopoReading *reading, const TopoMachine *machine, TopoMeasurement *out)
{
  double worst = NAN;
  for (guint i = 0; i < reading->measurements->len; i++) {
    const TopoMeasurement *m = &g_array_index (reading->measurements, TopoMeasurement, i);
    const guint64 one = 1;
    TopoSubset pair;
    if (!g_str_has_prefix (m->what, "device_to_device_memcpy") || m->from < 0 || m->to < 0
        || m->from == m->to || !(m->busbw_bytes_per_s > 0)
        || (guint32)MAX (m->from, m->to) >= machine->gpus_per_node)
      continue;
    topo_machine_subset (machine, one << m->from | one << m->to, &pair);
    if (topo_link_class_is_pcie (pair.link_class))
      continue;
    double ratio = m->busbw_bytes_per_s / (pair.bytes_per_s * machine->gpu->copy_ratio);
    if (isnan (worst) || ratio < worst) {
      worst = ratio;
      *out = *m;
    }
  }
  return worst;
}

/* Sets link_rate of [links] in @text. */
static void
set_link_rate (GString *text, double bytes_per_s)
{
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  char *group = strstr (text->str, "[links]\n");
  g_return_if_fail (group != NULL);
  char *next = strstr (group, "\n[");
  char *old = strstr (group, "\nlink_rate =");
  gssize at = group - text->str + (gssize)strlen ("[links]\n");
  if (old != NULL && (next == NULL || old < next))
    g_string_erase (text, old - text->str + 1, (gssize)strcspn (old + 1, "\n") + 1);
  g_autofree char *line
      = g_strdup_printf ("link_rate = %sGB/s\n",
                         g_ascii_formatd (number, sizeof number, "%.6g", bytes_per_s / 1e9));
  g_string_insert (text, at, line);
}

/* Returns: something was said of the links. */
static gboolean
attach_copies (GString *text, TopoReading *reading, const TopoMachine *machine)
{
  TopoMeasurement m = { 0 };
  double ratio = worst_copy (reading, machine, &m);
  if (isnan (ratio))
    return FALSE;
  if (ratio >= 1) {
    reading_note (reading, "copies between GPUs reach what is usual: link_rate stays");
    return TRUE;
  }
  set_link_rate (text, machine->direct_link_bytes_per_s * ratio);
  reading_assume (reading, "link_rate",
                  "%.3g GB/s in place of %g: GPU%d to GPU%d copies %.4g GB/s, usual are %.4g",
                  machine->direct_link_bytes_per_s * ratio / 1e9,
                  machine->direct_link_bytes_per_s / 1e9, m.from, m.to, m.busbw_bytes_per_s / 1e9,
                  m.busbw_bytes_per_s / ratio / 1e9);
  return TRUE;
}

/* What was measured and is not used is said. */
static void
note_unused (TopoReading *reading)
{
  guint host = 0;
  for (guint i = 0; i < reading->measurements->len; i++) {
    const TopoMeasurement *m = &g_array_index (reading->measurements, TopoMeasurement, i);
    host += m->from == TOPO_MEASUREMENT_HOST || m->to == TOPO_MEASUREMENT_HOST;
  }
  if (host > 0)
    reading_note (reading, "%u measurements with the host are not used", host);
}

gboolean
reading_attach (TopoReading *reading, const TopoReadOptions *options, GError **error)
{
  g_autoptr (TopoReading) whole = topo_reading_new_from_machine (options->machine, options, error);
  if (whole == NULL)
    return FALSE;
  g_autofree char *source = NULL;
  if (!measured_check_devices (reading, whole->machine, options, &source, error))
    return FALSE;
  g_autoptr (GString) text = g_string_new (whole->ini);
  guint n = measured_append (text, reading, source);
  if (n == 0 && reading->measurements->len > 0
      && strcmp (g_array_index (reading->measurements, TopoMeasurement, 0).what, NCCLTESTS_UNNAMED)
             == 0) {
    g_set_error (
        error, TOPO_ERROR, TOPO_ERROR_PARSE,
        "nothing to attach to '%s': the log does not tell its collective; keep the command "
        "line in it (all_reduce_perf …), or in the name of the file",
        options->machine);
    return FALSE;
  }
  if (!attach_copies (text, reading, whole->machine) && n == 0) {
    g_set_error (error, TOPO_ERROR, TOPO_ERROR_PARSE,
                 "nothing to attach to '%s': neither a collective with its name, its ranks and two "
                 "sizes, nor copies over NVLink whose usual share of the peak is known ([links] "
                 "copy_ratio of '%s')",
                 options->machine, whole->machine->gpu->slug);
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
  reading->machine = topo_machine_new_from_ini (options->catalog, ini, whole->name, gpu, error);
  reading->ini = g_string_free (g_steal_pointer (&text), FALSE);
  note_unused (reading);
  if (n > 0)
    reading_note (reading, "%u measured curve%s attached to %s", n, n > 1 ? "s" : "",
                  options->machine);
  return reading->machine != NULL;
}
