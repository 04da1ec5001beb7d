/* Measured curves: interpolation by hand, and points left out of every published curve. */
#include "tests/costmodel_bench.h"

#include "base/csv.h"
#include "base/stats.h"
#include "base/suggest.h"

#define MAX_POINTS 64
#define MAX_ERRORS 16384

/* Loaded once: thousands of curves are priced. */
static BaseCatalog *catalog;
static CostCalibration *calibration;

static TopoMachine *
load_machine (const char *slug)
{
  return topo_machine_load (catalog, slug, NULL, NULL);
}

static void
add_curve (TopoMachine *machine, const char *what, guint32 ranks, const TopoCurvePoint *points,
           guint n)
{
  TopoCurve curve = { .what = g_strdup (what),
                      .ranks = ranks,
                      .points = g_array_new (FALSE, FALSE, sizeof (TopoCurvePoint)) };
  g_array_append_vals (curve.points, points, n);
  g_array_append_val (machine->curves, curve);
}

static void
numbers_of (CostNumbers *numbers, const TopoMachine *machine)
{
  g_autoptr (GError) error = NULL;
  assert_true (cost_numbers_init (numbers, calibration, machine, "generic", &error));
}

/*
 * Two points, measured at twice and eight times the formula: at a point the measured time; half way
 * in log bytes the ratio is their geometric mean, 4; beyond the last it stays 8.
 */
static void
test_by_hand (void **state)
{
  g_autoptr (TopoMachine) plain = load_machine ("hgx-h100");
  g_autoptr (TopoMachine) measured = load_machine ("hgx-h100");
  g_auto (CostNumbers) formula = { 0 };
  g_auto (CostNumbers) numbers = { 0 };
  TopoGroupShape shape, half;
  CostGroup by_formula, by_curve;
  const double mib = 1 << 20;
  topo_group_shape (plain, 8, 1, 8, &shape);
  numbers_of (&formula, plain);
  cost_group_init (&by_formula, &formula, &shape);
  TopoCurvePoint points[] = { { mib, 0 }, { 64 * mib, 0 } };
  double ratios[] = { 2, 8 };
  for (guint i = 0; i < 2; i++)
    points[i].time_s
        = ratios[i] * cost_collective_s (&by_formula, MODEL_COLLECTIVE_ALL_REDUCE, points[i].bytes);
  add_curve (measured, "all_reduce", 8, points, 2);
  numbers_of (&numbers, measured);
  cost_group_init (&by_curve, &numbers, &shape);
  static const struct {
    double mibs, ratio;
  } cases[] = { { 0.25, 2 }, { 1, 2 }, { 8, 4 }, { 64, 8 }, { 1024, 8 } };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    double bytes = cases[i].mibs * mib;
    double want
        = cases[i].ratio * cost_collective_s (&by_formula, MODEL_COLLECTIVE_ALL_REDUCE, bytes);
    assert_near (cost_collective_s (&by_curve, MODEL_COLLECTIVE_ALL_REDUCE, bytes), want, 1e-9);
  }
  assert_true (cost_curve_covers (by_curve.curves[MODEL_COLLECTIVE_ALL_REDUCE], 8 * mib));
  assert_false (cost_curve_covers (by_curve.curves[MODEL_COLLECTIVE_ALL_REDUCE], 128 * mib));
  /* another collective, another group: the formula */
  assert_null (by_curve.curves[MODEL_COLLECTIVE_ALL_GATHER]);
  topo_group_shape (measured, 8, 1, 4, &half);
  cost_group_init (&by_curve, &numbers, &half);
  assert_null (by_curve.curves[MODEL_COLLECTIVE_ALL_REDUCE]);
}

/* ---- published curves ---- */

typedef struct {
  char *machine, *collective;
  guint32 ranks, n;
  TopoCurvePoint points[MAX_POINTS]; /* bytes rising; time_s of the first log line of a size */
} Published;

static void
add_point (Published *curve, double bytes, double time_s)
{
  guint i = 0;
  while (i < curve->n && curve->points[i].bytes < bytes)
    i++;
  if (curve->n == MAX_POINTS || (i < curve->n && curve->points[i].bytes == bytes))
    return;
  memmove (&curve->points[i + 1], &curve->points[i], (curve->n - i) * sizeof *curve->points);
  curve->points[i] = (TopoCurvePoint){ bytes, time_s };
  curve->n++;
}

static void
add_file (GHashTable *curves, const char *name)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *relative = g_build_filename ("collectives", name, NULL);
  g_autofree char *path = test_data_path (relative);
  g_autoptr (BaseCsv) csv = base_csv_new_from_file (path, &error);
  assert_no_error (error);
  for (guint i = 0; i < base_csv_n_rows (csv); i++) {
    double bytes = base_csv_number (csv, i, "bytes");
    if (base_csv_number (csv, i, "use") != 1 || !(bytes > 0)
        || *base_csv_get (csv, i, "machine") == '\0')
      continue;
    char *key = g_strjoin ("|", base_csv_get (csv, i, "slug"), base_csv_get (csv, i, "machine"),
                           base_csv_get (csv, i, "collective"), base_csv_get (csv, i, "gpus"),
                           base_csv_get (csv, i, "algo"), base_csv_get (csv, i, "dtype"), NULL);
    Published *curve = g_hash_table_lookup (curves, key);
    if (curve == NULL) {
      curve = g_new0 (Published, 1);
      curve->machine = g_strdup (base_csv_get (csv, i, "machine"));
      curve->collective = g_strdup (base_csv_get (csv, i, "collective"));
      curve->ranks = (guint32)base_csv_number (csv, i, "gpus");
      g_hash_table_insert (curves, g_strdup (key), curve);
    }
    g_free (key);
    add_point (curve, bytes, base_csv_number (csv, i, "time_us") * 1e-6);
  }
}

/* Every other point and both ends are seen; the rest is predicted. */
static guint
leave_out (const Published *published, guint odd, double *errors)
{
  g_autoptr (TopoMachine) machine = load_machine (published->machine);
  gint kind = base_name_index (published->collective, topo_curve_names);
  TopoCluster cluster;
  TopoCurvePoint seen[MAX_POINTS];
  TopoGroupShape shape;
  CostGroup group;
  guint n_seen = 0, n = 0;
  if (machine == NULL || kind < 0 || published->n < 5
      || !topo_cluster_init (&cluster, machine, published->ranks, NULL))
    return 0;
  for (guint i = 0; i < published->n; i++)
    if (i % 2 == odd || i == 0 || i + 1 == published->n)
      seen[n_seen++] = published->points[i];
  add_curve (machine, published->collective, published->ranks, seen, n_seen);
  g_auto (CostNumbers) numbers = { 0 };
  numbers_of (&numbers, machine);
  cost_numbers_alone (&numbers);
  topo_group_shape (machine, published->ranks, 1, published->ranks, &shape);
  cost_group_init (&group, &numbers, &shape);
  for (guint i = 1; i + 1 < published->n; i++)
    if (i % 2 != odd) {
      double got
          = cost_collective_s (&group, (ModelCollectiveKind)kind, published->points[i].bytes);
      errors[n++] = fabs (got / published->points[i].time_s - 1);
    }
  return n;
}

static void
free_published (gpointer data)
{
  Published *curve = data;
  g_free (curve->machine);
  g_free (curve->collective);
  g_free (curve);
}

/* A point per factor of four, as a sweep that doubles twice has them: at most 4 % at the others. */
static void
test_left_out (void **state)
{
  g_autoptr (GHashTable) curves
      = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, free_published);
  g_autofree double *errors = g_new (double, MAX_ERRORS);
  guint n = 0;
  GHashTableIter iter;
  gpointer value;
  add_file (curves, "nccl_tests.csv");
  add_file (curves, "nccl_sweeps.csv");
  g_hash_table_iter_init (&iter, curves);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    for (guint odd = 0; odd < 2 && n + MAX_POINTS < MAX_ERRORS; odd++)
      n += leave_out (value, odd, errors + n);
  assert_true (n > 2000);
  double median = base_quantile (errors, n, 0.5);
  print_message ("%u points left out: median %.2f %%, p90 %.1f %%\n", n, median * 100,
                 base_quantile (errors, n, 0.9) * 100);
  assert_true (median <= 0.04);
}

int
main (void)
{
  const struct CMUnitTest tests[]
      = { cmocka_unit_test (test_by_hand), cmocka_unit_test (test_left_out) };
  g_autoptr (GError) error = NULL;
  g_autofree char *data = test_data_path ("collectives/nccl_tests.csv");
  catalog = base_catalog_new (NULL, &error);
  assert_no_error (error);
  calibration = cost_calibration_load (catalog, "default", &error);
  assert_no_error (error);
  int failed = data == NULL ? _cmocka_run_group_tests ("measured", tests, 1, NULL, NULL)
                            : cmocka_run_group_tests (tests, NULL, NULL);
  cost_calibration_free (calibration);
  base_catalog_free (catalog);
  return failed;
}
