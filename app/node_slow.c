/* app/node_slow.c - devices and links that are slower than the others of their kind. */
#include "app/node_result-private.h"

#include "base/stats.h"

#include <math.h>

#define DEVICE_SLOW 0.10 /* of the rate: what cards of one kind differ by is 3 to 5 % */
#define LINK_SLOW   0.25 /* of the rate: a link that lost half its lanes loses 50 % */
#define DISTURBED   1.5  /* step over the sum of its ops: alone it is 1.05 to 1.2 */
#define LARGE_BYTES 4194304

/* Least time of all but @but. */
static double
least_of_others (const double *seconds, guint32 n, guint32 but)
{
  double least = INFINITY;
  for (guint32 i = 0; i < n; i++)
    if (i != but && seconds[i] > 0)
      least = fmin (least, seconds[i]);
  return least;
}

/* Median of the others: one slow device must not move what it is compared with. */
static double
median_of_others (const double *seconds, guint32 n, guint32 but)
{
  g_autofree double *others = g_new (double, n);
  guint count = 0;
  for (guint32 i = 0; i < n; i++)
    if (i != but && seconds[i] > 0)
      others[count++] = seconds[i];
  return count > 0 ? base_quantile (others, count, 0.5) : (double)NAN;
}

/* Rate of rank @r over the others', median over all programs. NaN: nothing to compare. */
static double
relative_rate (const GPtrArray *benches, guint32 ranks, guint32 r)
{
  g_autoptr (GArray) ratios = g_array_new (FALSE, FALSE, sizeof (double));
  for (guint i = 0; i < benches->len; i++) {
    const NodeBench *bench = g_ptr_array_index (benches, i);
    if (bench->state != NODE_BENCH_DONE || bench->bench.kind != EXEC_BENCH_PROGRAM
        || bench->program->layout.pp > 1 || !(bench->device_s[r] > 0))
      continue;
    double others = ranks > 2 ? median_of_others (bench->device_s, ranks, r)
                              : least_of_others (bench->device_s, ranks, r);
    double ratio = others / bench->device_s[r];
    if (isfinite (ratio))
      g_array_append_val (ratios, ratio);
  }
  return ratios->len > 0 ? base_quantile ((double *)ratios->data, ratios->len, 0.5) : (double)NAN;
}

static void
find_devices (const GPtrArray *benches, guint32 ranks, const char *backend, GPtrArray *warnings)
{
  for (guint32 r = 0; r < ranks; r++) {
    double rate = relative_rate (benches, ranks, r);
    if (rate < 1 - DEVICE_SLOW)
      g_ptr_array_add (warnings,
                       g_strdup_printf ("%s%u: GEMM %.0f %% below the others: %s?",
                                        g_str_equal (backend, "cuda") ? "GPU" : "rank ", r,
                                        100 * (1 - rate),
                                        g_str_equal (backend, "cuda") ? "throttling"
                                                                      : "a busy core, throttling"));
  }
}

/* Large messages between neighbours. */
static void
find_links (const GPtrArray *benches, guint32 ranks, GPtrArray *warnings)
{
  g_autofree double *seconds = g_new0 (double, ranks);
  for (guint i = 0; i < benches->len; i++) {
    const NodeBench *bench = g_ptr_array_index (benches, i);
    if (bench->state == NODE_BENCH_DONE && bench->bench.kind == EXEC_BENCH_MESSAGE
        && bench->bench.bytes == LARGE_BYTES)
      seconds[bench->bench.from] = ((NodePoint *)g_ptr_array_index (bench->points, 0))->measured_s;
  }
  for (guint32 r = 0; r + 1 < ranks; r++) {
    double rate = median_of_others (seconds, ranks, r) / seconds[r];
    if (seconds[r] > 0 && rate < 1 - LINK_SLOW)
      g_ptr_array_add (warnings, g_strdup_printf ("link of ranks %u and %u: %.0f %% of the others' "
                                                  "rate: fewer lanes, another path?",
                                                  r, r + 1, 100 * rate));
  }
}

/* Steps that take much longer than their ops say that somebody else uses the node. */
static void
find_disturbance (const GPtrArray *benches, GPtrArray *warnings)
{
  g_autoptr (GArray) ratios = g_array_new (FALSE, FALSE, sizeof (double));
  for (guint i = 0; i < benches->len; i++) {
    const NodeBench *bench = g_ptr_array_index (benches, i);
    if (bench->state != NODE_BENCH_DONE || !(bench->ops_s > 0))
      continue;
    const NodePoint *step = g_ptr_array_index (bench->points, bench->points->len - 1);
    double ratio = step->measured_s / bench->ops_s;
    g_array_append_val (ratios, ratio);
  }
  double median = base_quantile ((double *)ratios->data, ratios->len, 0.5);
  if (median > DISTURBED)
    g_ptr_array_add (
        warnings, g_strdup_printf ("the fastest steps took %.1f times as long as their ops: this "
                                   "node is busy; 'plait calibrate --fresh' when it is idle",
                                   median));
}

void
node_slow_find (const GPtrArray *benches, guint32 ranks, const char *backend, GPtrArray *warnings)
{
  find_disturbance (benches, warnings);
  find_devices (benches, ranks, backend, warnings);
  find_links (benches, ranks, warnings);
}
