/* The fit of a node: numbers come back from times that they made, a bad point ruins nothing, and
 * what nothing was measured of keeps its value and its spread. */
#include "app/node-private.h"
#include "tests/testutil.h"
#include "topo/live.h"

#include <math.h>

typedef struct {
  BaseCatalog *catalog;
  TopoMachine *machine;
  ModelProfile *profile;
  CostCalibration *base;
  CostNumbers numbers;
  NodeSetting setting;
  GPtrArray *benches;
} Fixture;

static int
setup (void **state)
{
  Fixture *f = g_new0 (Fixture, 1);
  g_autoptr (GError) error = NULL;
  f->catalog = base_catalog_new (NULL, &error);
  const TopoReadOptions options = { .catalog = f->catalog };
  f->machine = topo_machine_new_live (&options, 2, &error);
  f->profile = model_profile_load (f->catalog, "plait", &error);
  f->base = cost_calibration_load (f->catalog, "default", &error);
  assert_true (cost_numbers_init (&f->numbers, f->base, f->machine, f->profile->name, &error));
  f->setting = (NodeSetting){ .machine = f->machine,
                              .profile = f->profile,
                              .ranks = 2,
                              .dtype = MODEL_DTYPE_FP32,
                              .budget_s = 60 };
  f->benches = node_benches_new (&f->setting, &f->numbers);
  *state = f;
  return 0;
}

static int
teardown (void **state)
{
  Fixture *f = *state;
  if (f == NULL)
    return 0;
  g_ptr_array_unref (f->benches);
  cost_numbers_clear (&f->numbers);
  cost_calibration_free (f->base);
  model_profile_free (f->profile);
  topo_machine_free (f->machine);
  base_catalog_free (f->catalog);
  g_free (f);
  return 0;
}

/* Every op of every program, as if measured on a device with @numbers. */
static GPtrArray *
pretend (Fixture *f, const CostNumbers *numbers)
{
  GPtrArray *points = g_ptr_array_new ();
  NodePricer pricer;
  node_pricer_init (&pricer, &f->setting, numbers);
  for (guint i = 0; i < f->benches->len; i++) {
    NodeBench *bench = g_ptr_array_index (f->benches, i);
    for (guint j = 0; j < bench->points->len; j++) {
      NodePoint *point = g_ptr_array_index (bench->points, j);
      point->measured_s = node_point_s (point, &pricer);
      point->weight = 1;
      if (point->kind == NODE_OPS || point->kind == NODE_COLLECTIVE)
        g_ptr_array_add (points, point);
    }
  }
  return points;
}

static const NodeValue *
value_called (const NodeFit *fit, const char *group, const char *key)
{
  for (guint i = 0; i < fit->values->len; i++) {
    const NodeValue *value = &g_array_index (fit->values, NodeValue, i);
    if (g_str_equal (value->group, group) && g_str_equal (value->key, key))
      return value;
  }
  return NULL;
}

/* A node whose memory is half as fast, whose rotary kernel takes 4 times, whose link carries 30 %:
 * rates that only products show are judged by what they predict. */
static void
test_numbers_come_back (void **state)
{
  Fixture *f = *state;
  g_auto (NodeFit) fit = { 0 };
  g_auto (CostNumbers) truth = { 0 };
  g_autoptr (GError) error = NULL;
  g_autofree char *text = cost_calibration_format (f->base);
  assert_true (cost_numbers_init (&truth, f->base, f->machine, f->profile->name, &error));
  truth.gpu.hbm_ratio *= 0.5;
  truth.gpu.kernel_factor[MODEL_OP_ROPE] = 4;
  truth.links[TOPO_LINK_CLASS_SHM].bandwidth_ratio = 0.3;
  g_autoptr (GPtrArray) points = pretend (f, &truth);
  assert_true (points->len > 100);
  NodePoint *bad = g_ptr_array_index (points, points->len / 2);
  bad->measured_s *= 50; /* a point that something disturbed */
  assert_true (node_fit_init (&fit, &f->setting, text, "default", &error));
  assert_true (node_fit_run (&fit, points, FALSE, &error));
  for (guint i = 0; i < points->len; i++)
    if (g_ptr_array_index (points, i) != bad)
      assert_near (fit.fit_s[i], ((NodePoint *)g_ptr_array_index (points, i))->measured_s, 0.1);
  assert_near (value_called (&fit, "link shm", "bandwidth")->value, 0.3, 0.05);
  /* hbm and the factors move together; the kernels' ratio to each other is what times tell */
  assert_near (value_called (&fit, "gpu cpu", "rope")->value
                   / value_called (&fit, "gpu cpu", "norm")->value,
               4, 0.1);
}

/* Three points of GEMMs, 1.5 times slower than predicted: rates follow; attention's stays. */
static void
test_three_points_help (void **state)
{
  Fixture *f = *state;
  g_auto (NodeFit) fit = { 0 };
  g_autoptr (GError) error = NULL;
  g_autofree char *text = cost_calibration_format (f->base);
  g_autoptr (GPtrArray) all = pretend (f, &f->numbers);
  g_autoptr (GPtrArray) three = g_ptr_array_new ();
  for (guint i = 0; i < all->len && three->len < 3; i++) {
    NodePoint *point = g_ptr_array_index (all, i);
    if (g_str_equal (point->word, "gemm") && point->measured_s > 1e-4) {
      point->measured_s *= 1.5;
      g_ptr_array_add (three, point);
    }
  }
  assert_int_equal (three->len, 3);
  assert_true (node_fit_init (&fit, &f->setting, text, "default", &error));
  assert_true (node_fit_run (&fit, three, FALSE, &error));
  for (guint i = 0; i < 3; i++)
    assert_near (fit.fit_s[i], ((NodePoint *)g_ptr_array_index (three, i))->measured_s, 0.1);
  const NodeValue *attention = value_called (&fit, "gpu cpu", "attention_flash");
  assert_near (attention->value, attention->prior, 1e-3);
  assert_near (attention->sd, attention->prior_sd, 1e-3);
  assert_int_equal (attention->n_points, 0);
}

/* Two ranks: every op takes 1 s on one, 3 on the other, steps 5 and 7. An op counts with the mean, a
 * collective as who came last had it, the step as the slower saw it. */
static void
test_ranks_are_joined (void **state)
{
  Fixture *f = *state;
  g_autofree ExecBenchSheet *sheets = g_new0 (ExecBenchSheet, 2);
  guint joint = 0, alone = 0, steps = 0;
  for (guint r = 0; r < 2; r++) {
    sheets[r] = (ExecBenchSheet){ .repeats = 4, .step_s = 5 + 2 * r, .least_s = 4 - r };
    for (guint i = 0; i < EXEC_BENCH_MAX_OPS; i++)
      sheets[r].seconds[i] = 1 + 2 * r;
  }
  for (guint i = 0; i < f->benches->len; i++) {
    NodeBench *bench = g_ptr_array_index (f->benches, i);
    if (bench->bench.kind != EXEC_BENCH_PROGRAM || bench->program->layout.pp > 1)
      continue;
    g_autoptr (ModelProgram) program
        = model_program_new (bench->program->arch, &bench->program->job, &bench->program->layout,
                             f->profile, 0, NULL);
    sheets[0].n = sheets[1].n = program->n_ops;
    node_bench_take (bench, sheets, 2);
    assert_int_equal (bench->state, NODE_BENCH_DONE);
    assert_near (bench->ops_s, 4, 1e-12);
    for (guint j = 0; j < bench->points->len; j++) {
      const NodePoint *point = g_ptr_array_index (bench->points, j);
      gboolean is_step = point->kind == NODE_STEP, is_joint = !is_step && point->program != NULL;
      assert_near (point->measured_s, is_step ? 7 : is_joint ? 1 : 2, 1e-12);
      steps += is_step;
      joint += is_joint;
      alone += !is_step && !is_joint;
    }
  }
  assert_true (steps > 10 && joint > steps && alone > joint);
}

/* The doubt about an all-reduce of @bytes, when those of 1 and 4 KiB took @small_s and @large_s. */
static double
doubt_of (Fixture *f, double small_s, double large_s, guint64 bytes)
{
  g_auto (NodeFit) fit = { 0 };
  g_autoptr (GError) error = NULL;
  g_autofree char *text = cost_calibration_format (f->base);
  g_autoptr (GPtrArray) known = g_ptr_array_new ();
  g_autofree double *doubts = g_new0 (double, f->benches->len);
  g_autofree double *times_s = g_new0 (double, f->benches->len);
  guint asked = G_MAXUINT;
  for (guint i = 0; i < f->benches->len; i++) {
    NodeBench *bench = g_ptr_array_index (f->benches, i);
    if (bench->bench.kind != EXEC_BENCH_COLLECTIVE
        || bench->bench.collective != MODEL_COLLECTIVE_ALL_REDUCE)
      continue;
    NodePoint *point = g_ptr_array_index (bench->points, 0);
    if (point->bytes == bytes)
      asked = i;
    if (point->bytes > 4096)
      continue;
    point->measured_s = point->bytes == 1024 ? small_s : large_s;
    point->weight = 1;
    bench->state = NODE_BENCH_DONE;
    g_ptr_array_add (known, point);
  }
  assert_int_equal (known->len, 2);
  assert_true (node_fit_init (&fit, &f->setting, text, "default", &error));
  assert_true (node_fit_run (&fit, known, TRUE, &error));
  assert_true (node_fit_doubts (&fit, f->benches, doubts, times_s));
  return doubts[asked];
}

/* What is measured next: where formulas go through what is known, little is to be learnt nearby;
 * where they cannot (1000 times as long for 4 times the bytes), more, and most far away. */
static void
test_doubts (void **state)
{
  double fits = doubt_of (*state, 20e-6, 21e-6, 16384);
  double near_by = doubt_of (*state, 1e-6, 1e-3, 16384);
  double far = doubt_of (*state, 1e-6, 1e-3, 1 << 20);
  assert_true (near_by > fits);
  assert_true (far > 1.5 * near_by);
}

/* A host with GPUs is another machine than the numbers here speak of. */
static gboolean
is_cpu (void)
{
  g_autoptr (BaseCatalog) catalog = base_catalog_new (NULL, NULL);
  const TopoReadOptions options = { .catalog = catalog };
  g_autoptr (TopoMachine) machine = topo_machine_new_live (&options, 2, NULL);
  return machine != NULL && g_str_equal (machine->gpu->slug, "cpu");
}

int
main (void)
{
  if (!is_cpu ())
    return 77;
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown (test_numbers_come_back, setup, teardown),
    cmocka_unit_test_setup_teardown (test_three_points_help, setup, teardown),
    cmocka_unit_test_setup_teardown (test_ranks_are_joined, setup, teardown),
    cmocka_unit_test_setup_teardown (test_doubts, setup, teardown),
  };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
