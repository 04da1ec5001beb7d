/* bench/collective.c - instructions of one collective's estimate, cold and prepared.
 *
 * cold: a group is made ready for one collective and asked once. memo: the group is ready.
 * Counted by callgrind, as the difference of two runs:
 *   valgrind --tool=callgrind --callgrind-out-file=/dev/null bench/collective cold 1000
 *   valgrind --tool=callgrind --callgrind-out-file=/dev/null bench/collective cold 2000
 * usage: bench-collective cold|memo [REPEATS]
 */
#include "costmodel/collective.h"
#include "base/units.h"

#include <stdio.h>
#include <string.h>

static gboolean
run (gboolean cold, guint64 repeats, double *out_sum_s, GError **error)
{
  g_autoptr (BaseCatalog) catalog = base_catalog_new (NULL, error);
  g_autoptr (TopoMachine) machine
      = catalog ? topo_machine_load (catalog, "hgx-h100", NULL, error) : NULL;
  g_autoptr (CostCalibration) calibration
      = machine ? cost_calibration_load (catalog, "default", error) : NULL;
  g_auto (CostNumbers) numbers = { 0 };
  TopoGroupShape shape;
  CostGroup group;

  if (calibration == NULL || !cost_numbers_init (&numbers, calibration, machine, "generic", error))
    return FALSE;
  topo_group_shape (machine, 64, 1, 64, &shape);
  cost_group_init (&group, &numbers, &shape);
  for (guint64 i = 0; i < repeats; i++) {
    if (cold) {
      topo_group_shape (machine, 64, 1, 64, &shape);
      cost_group_init (&group, &numbers, &shape);
    }
    *out_sum_s += cost_collective_s (&group, MODEL_COLLECTIVE_ALL_REDUCE, 1048576.0 + (double)i);
  }
  return TRUE;
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  guint64 repeats = 1000;
  double sum_s = 0;

  if (argc < 2 || (strcmp (argv[1], "cold") != 0 && strcmp (argv[1], "memo") != 0)) {
    fputs ("usage: bench-collective cold|memo [REPEATS]\n", stderr);
    return 2;
  }
  if ((argc > 2 && !base_units_parse_count (argv[2], 1, 1000000000, &repeats, &error))
      || !run (strcmp (argv[1], "cold") == 0, repeats, &sum_s, &error)) {
    fprintf (stderr, "bench-collective: %s\n", error->message);
    return 2;
  }
  printf ("%s: %" G_GUINT64_FORMAT " estimates, %.6g s in sum\n", argv[1], repeats, sum_s);
  return 0;
}
