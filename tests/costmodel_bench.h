/* tests/costmodel_bench.h - catalog, calibration, machine, profile and numbers for cost tests. */
#pragma once
#include "costmodel/opcost.h"
#include "tests/testutil.h"

typedef struct {
  BaseCatalog *catalog;
  CostCalibration *calibration;
  TopoMachine *machine;
  ModelProfile *profile;
  CostNumbers numbers;
  CostContext context;
} Bench;

static inline void
bench_init (Bench *bench, const char *machine, const char *profile)
{
  g_autoptr (GError) error = NULL;
  memset (bench, 0, sizeof *bench);
  bench->catalog = base_catalog_new (NULL, &error);
  assert_no_error (error);
  bench->calibration = cost_calibration_load (bench->catalog, "prior", &error);
  assert_no_error (error);
  bench->machine = topo_machine_load (bench->catalog, machine, NULL, &error);
  assert_no_error (error);
  bench->profile = model_profile_load (bench->catalog, profile, &error);
  assert_no_error (error);
  gboolean resolved
      = cost_numbers_init (&bench->numbers, bench->calibration, bench->machine, profile, &error);
  assert_no_error (error);
  assert_true (resolved);
}

/* @layout has its dp set. */
static inline void
bench_place (Bench *bench, const ModelLayout *layout)
{
  ModelRankMap map;
  model_rankmap_init (&map, layout);
  cost_context_init (&bench->context, bench->machine, bench->profile, &bench->numbers, &map);
}

static inline void
bench_clear (Bench *bench)
{
  cost_numbers_clear (&bench->numbers);
  model_profile_free (bench->profile);
  topo_machine_free (bench->machine);
  cost_calibration_free (bench->calibration);
  base_catalog_free (bench->catalog);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Bench, bench_clear)
