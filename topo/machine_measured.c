/* topo/machine_measured.c - [measured OP RANKS] of a machine file. */
#include "base/suggest.h"
#include "topo/curve.h"
#include "topo/machine-private.h"
#include <string.h>

#define MAX_POINTS 1024
#define MAX_TIME_S 1e5

const char *const topo_curve_names[] = { "all_reduce", "all_gather", "reduce_scatter", "alltoall",
                                         "broadcast",  "reduce",     "sendrecv",       NULL };

void
topo_curve_clear (TopoCurve *curve)
{
  g_clear_pointer (&curve->what, g_free);
  g_clear_pointer (&curve->source, g_free);
  g_clear_pointer (&curve->points, g_array_unref);
}

/* "1MiB:25us" */
static gboolean
parse_point (const char *text, TopoCurvePoint *out)
{
  guint64 bytes = 0;
  g_auto (GStrv) parts = g_strsplit (text, ":", 2);
  if (g_strv_length (parts) != 2 || !base_units_parse_bytes (g_strstrip (parts[0]), &bytes, NULL)
      || !base_units_parse (g_strstrip (parts[1]), BASE_DIM_SECONDS, &out->time_s, NULL))
    return FALSE;
  out->bytes = (double)bytes;
  return bytes > 0 && out->time_s > 0 && out->time_s <= MAX_TIME_S;
}

static gboolean
read_points (BaseIni *ini, const char *group, TopoCurve *curve, GError **error)
{
  g_auto (GStrv) items = base_ini_get_list (ini, group, "points");
  guint n = g_strv_length (items);
  if (n < 2 || n > MAX_POINTS) {
    base_ini_set_error (ini, group, "points", error,
                        "found %u, expected 2 to %d sizes and times such as \"8B:12.3us, "
                        "1MiB:25us\"",
                        n, MAX_POINTS);
    return FALSE;
  }
  for (guint i = 0; i < n; i++) {
    TopoCurvePoint point;
    if (!parse_point (items[i], &point)) {
      base_ini_set_error (ini, group, "points", error,
                          "found '%s', expected a size and a time such as \"1MiB:25us\"", items[i]);
      return FALSE;
    }
    if (i > 0 && point.bytes <= g_array_index (curve->points, TopoCurvePoint, i - 1).bytes) {
      base_ini_set_error (ini, group, "points", error, "found '%s', expected rising sizes",
                          items[i]);
      return FALSE;
    }
    g_array_append_val (curve->points, point);
  }
  return TRUE;
}

/* The machine must be able to seat the ranks. */
static gboolean
check_ranks (BaseIni *ini, const TopoMachine *machine, const char *group, guint64 ranks,
             GError **error)
{
  TopoCluster cluster;
  g_autoptr (GError) why = NULL;
  if (topo_cluster_init (&cluster, machine, ranks, &why))
    return TRUE;
  base_ini_set_error (ini, group, NULL, error, "%s", why->message);
  return FALSE;
}

static gboolean
read_curve (BaseIni *ini, TopoMachine *machine, const char *group, GError **error)
{
  guint64 ranks = 0;
  g_auto (GStrv) words = g_strsplit (group, " ", 3);
  if (g_strv_length (words) != 3 || base_name_index (words[1], topo_curve_names) < 0
      || !base_units_parse_count (words[2], 2, 1 << 24, &ranks, NULL)) {
    base_ini_set_error (ini, group, NULL, error,
                        "expected a collective and a number of ranks, such as [measured "
                        "all_reduce 8]; collectives: all_reduce, all_gather, reduce_scatter, "
                        "alltoall, broadcast, reduce, sendrecv");
    return FALSE;
  }
  const char *source = base_ini_get_string (ini, group, "source", error);
  if (source == NULL || !check_ranks (ini, machine, group, ranks, error))
    return FALSE;
  TopoCurve curve = { .what = g_strdup (words[1]),
                      .ranks = (guint32)ranks,
                      .points = g_array_new (FALSE, FALSE, sizeof (TopoCurvePoint)),
                      .source = g_strdup (source) };
  gboolean ok = read_points (ini, group, &curve, error);
  g_array_append_val (machine->curves, curve);
  return ok;
}

gboolean
machine_read_measured (BaseIni *ini, TopoMachine *machine, GError **error)
{
  machine->curves = g_array_new (FALSE, TRUE, sizeof (TopoCurve));
  g_array_set_clear_func (machine->curves, (GDestroyNotify)topo_curve_clear);
  for (guint i = 0; i < base_ini_n_groups (ini); i++) {
    const char *group = base_ini_group_name (ini, i);
    if (g_str_has_prefix (group, "measured ") && !read_curve (ini, machine, group, error))
      return FALSE;
  }
  return TRUE;
}
