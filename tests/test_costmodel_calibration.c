/* The calibration file: strictness, resolution, and that the shipped one is whole and sane. */
#include "costmodel/calibration.h"
#include "costmodel/gemm.h"
#include "model/profile.h"
#include "tests/testutil.h"

static char *generation_hopper = (char *)"hopper";

static CostCalibration *
load_prior (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (BaseCatalog) catalog = base_catalog_new (NULL, &error);
  assert_no_error (error);
  CostCalibration *calibration = cost_calibration_load (catalog, "prior", &error);
  assert_no_error (error);
  assert_non_null (calibration);
  return calibration;
}

/* A machine of 8 GPUs on NVLink 4 and InfiniBand; only what resolution looks at. */
static void
fill_machine (TopoMachine *machine, TopoGpu *gpu, char *slug, char *generation)
{
  *gpu = (TopoGpu){ .slug = slug, .generation = generation, .sm_count = 132 };
  gpu->peak_flop_per_s[TOPO_DTYPE_BF16] = 989e12;
  gpu->peak_flop_per_s[TOPO_DTYPE_FP8] = 1979e12;
  *machine = (TopoMachine){ .slug = (char *)"test",
                            .gpu = gpu,
                            .gpus_per_node = 8,
                            .domain_size = 8,
                            .wiring = TOPO_WIRING_SWITCH,
                            .direct = TOPO_LINK_NVLINK4,
                            .nvls = TRUE,
                            .fabric = TOPO_FABRIC_IB,
                            .node_link_class = TOPO_LINK_CLASS_NVLINK4,
                            .power_limit_ratio = 1 };
}

static void
test_every_generation_resolves (void **state)
{
  static const char *const gpus[][2] = {
    { "v100-sxm2-32g", "volta" }, { "t4", "turing" },
    { "a100-sxm-80g", "ampere" }, { "l40s", "ada" },
    { "h100-sxm-80g", "hopper" }, { "b200-sxm", "blackwell" },
    { "gb300", "blackwell" },     { "mi300x", "cdna3" },
    { "tpu-v5p", "tpu" },
  };
  g_autoptr (CostCalibration) calibration = load_prior ();
  for (gsize i = 0; i < G_N_ELEMENTS (gpus); i++) {
    TopoGpu gpu;
    TopoMachine machine;
    g_autoptr (GError) error = NULL;
    fill_machine (&machine, &gpu, (char *)gpus[i][0], (char *)gpus[i][1]);
    g_auto (CostNumbers) numbers = { 0 };
    assert_true (cost_numbers_init (&numbers, calibration, &machine, "megatron", &error));
    assert_no_error (error);
    assert_true (numbers.gpu.gemm.ceiling_ratio[0] > 0.5 && numbers.gpu.hbm_ratio > 0.7);
    assert_true (numbers.gpu.gemm.step_ratio > 0.6 && numbers.gpu.gemm.step_ratio < 1);
    assert_true (numbers.uncertainty.z10 < 0 && numbers.uncertainty.z90 > 0);
    assert_near (numbers.step.p2p_host_s, numbers.profile.p2p_host_s, 0);
  }
}

/* Values of the reference tables, by the path they come. */
static void
test_most_specific_wins (void **state)
{
  g_autoptr (CostCalibration) calibration = load_prior ();
  TopoGpu gpu;
  TopoMachine machine;
  fill_machine (&machine, &gpu, (char *)"h100-sxm-80g", generation_hopper);
  g_auto (CostNumbers) numbers = { 0 };
  assert_true (cost_numbers_init (&numbers, calibration, &machine, "nemo", NULL));
  double share = 0, hop_s = 0, own = 0, generation = 0;
  assert_true (cost_calibration_get (calibration, "gpu h100-sxm-80g", "ceiling_16bit", &own, NULL));
  assert_true (
      cost_calibration_get (calibration, "gpu hopper", "ceiling_16bit", &generation, NULL));
  assert_true (own != generation);
  assert_near (numbers.gpu.gemm.ceiling_ratio[0], own, 1e-12); /* slug */
  assert_near (numbers.gpu.hbm_ratio, 0.79, 1e-12);            /* generation */
  assert_true (cost_calibration_get (calibration, "link nvlink4", "bandwidth", &share, NULL));
  assert_true (cost_calibration_get (calibration, "fabric ib", "hop", &hop_s, NULL));
  assert_near (numbers.links[TOPO_LINK_CLASS_NVLINK4].bandwidth_ratio, share, 1e-12);
  assert_near (numbers.links[TOPO_LINK_CLASS_NVLINK1].bandwidth_ratio, 0.90, 1e-12); /* default */
  assert_near (numbers.fabric.hop_s, hop_s, 1e-12);
  assert_near (numbers.profile.overlap_tp_ratio, 0.773, 1e-12);
  assert_int_equal (numbers.assumed->len, 0);
}

static gboolean
has_assumed (const CostNumbers *numbers, const char *text)
{
  for (guint i = 0; i < numbers->assumed->len; i++)
    if (strstr (g_ptr_array_index (numbers->assumed, i), text) != NULL)
      return TRUE;
  return FALSE;
}

static void
test_assumed_is_listed (void **state)
{
  g_autoptr (CostCalibration) calibration = load_prior ();
  TopoGpu gpu;
  TopoMachine machine;
  fill_machine (&machine, &gpu, (char *)"h20-96g", generation_hopper);
  machine.fabric = TOPO_FABRIC_ICI;
  machine.node_link_class = TOPO_LINK_CLASS_PCIE5_SYS;
  g_auto (CostNumbers) numbers = { 0 };
  assert_true (cost_numbers_init (&numbers, calibration, &machine, "my-framework", NULL));
  assert_true (has_assumed (&numbers, "gpu=h20-96g: numbers of generation hopper"));
  assert_true (has_assumed (&numbers, "fabric=ici"));
  assert_true (has_assumed (&numbers, "link=pcie5-sys"));
  assert_true (has_assumed (&numbers, "profile=my-framework"));
  assert_false (has_assumed (&numbers, "nvlink4"));

  /* four numbers of its own, the rest from a generation that was not fitted to it */
  fill_machine (&machine, &gpu, (char *)"h100-sxm-96g-hbm2e", generation_hopper);
  g_auto (CostNumbers) own = { 0 };
  assert_true (cost_numbers_init (&own, calibration, &machine, "generic", NULL));
  assert_true (has_assumed (&own, "gpu=h100-sxm-96g-hbm2e: numbers of generation hopper"));

  fill_machine (&machine, &gpu, (char *)"tpu-v4", (char *)"tpu");
  g_auto (CostNumbers) tpu = { 0 };
  assert_true (cost_numbers_init (&tpu, calibration, &machine, "generic", NULL));
  assert_true (has_assumed (&tpu, "gpu=tpu-v4: no numbers of generation tpu, default ones"));

  fill_machine (&machine, &gpu, (char *)"v100-sxm2-32g", (char *)"volta");
  g_auto (CostNumbers) volta = { 0 };
  assert_true (cost_numbers_init (&volta, calibration, &machine, "generic", NULL));
  assert_true (has_assumed (&volta, "gpu=v100-sxm2-32g: default"));
  assert_true (has_assumed (&volta, "k0"));
  assert_false (has_assumed (&volta, "ceiling_fp4")); /* the GPU has no fp4 */
}

/* Every machine and profile of the catalog resolves, with sane numbers; every profile has a group. */
static void
test_whole_catalog (void **state)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (CostCalibration) calibration = load_prior ();
  g_autoptr (BaseCatalog) catalog = base_catalog_new (NULL, &error);
  g_autoptr (GPtrArray) machines = topo_machine_load_all (catalog, &error);
  assert_no_error (error);
  g_auto (GStrv) profiles = base_catalog_list (catalog, "profiles");
  assert_true (machines->len > 30 && g_strv_length (profiles) >= 8);
  for (guint i = 0; i < machines->len; i++) {
    for (char **profile = profiles; *profile != NULL; profile++) {
      g_auto (CostNumbers) numbers = { 0 };
      g_autoptr (ModelProfile) whole = model_profile_load (catalog, *profile, &error);
      assert_no_error (error);
      cost_numbers_init (&numbers, calibration, g_ptr_array_index (machines, i), whole->calibration,
                         &error);
      assert_no_error (error);
      assert_true (numbers.fabric.bandwidth_ratio > 0.1 && numbers.gpu.gemm.step_ratio > 0.4);
      assert_int_equal (has_assumed (&numbers, "profile="), strcmp (*profile, "plait") == 0);
    }
  }
}

/* 500 of 700 W: (5/7)^.3 = exp (.3 x -.33647) = .90396 of the rate: time-model's .5936/.656 = .905 */
static void
test_power_limit (void **state)
{
  g_autoptr (CostCalibration) calibration = load_prior ();
  TopoGpu gpu;
  TopoMachine machine;
  fill_machine (&machine, &gpu, (char *)"h100-sxm-80g", generation_hopper);
  machine.power_limit_ratio = 500.0 / 700;
  g_auto (CostNumbers) numbers = { 0 };
  assert_true (cost_numbers_init (&numbers, calibration, &machine, "nemo", NULL));
  double step = 0;
  assert_true (cost_calibration_get (calibration, "gpu h100-sxm-80g", "step", &step, NULL));
  assert_near (numbers.gpu.gemm.step_ratio, step * 0.90396, 1e-4);
  assert_near (numbers.gpu.attention_ratio[0], 0.521 * 0.90396, 1e-4);
  assert_near (numbers.gpu.hbm_ratio, 0.79, 1e-12);
}

/* What the step ratio is for: the rate of a large GEMM inside a training step as time-model fitted
 * it, e / (1 + k0/K) at m = n = k = 8192 with .6337-th power of the tiles' use and DRAM:
 * A100 .751, H100 .616, B200 .460, GB200 .511; fp8 with 2 k0: H100 .592, B200 .513, GB200 .482. */
typedef struct {
  const char *name;
  const char *gpu, *generation;
  double peak_flop_per_s, peak_16bit_flop_per_s, hbm_bytes_per_s;
  guint32 sm_count;
  CostPrecision precision;
  double want_ratio;
} StepCase;

static const StepCase step_cases[] = {
  { "step/a100", "a100-sxm-80g", "ampere", 312e12, 312e12, 2039e9, 108, 0, 0.751 },
  { "step/h100", "h100-sxm-80g", "hopper", 989e12, 989e12, 3350e9, 132, 0, 0.616 },
  { "step/b200", "b200-sxm", "blackwell", 2250e12, 2250e12, 8000e9, 148, 0, 0.460 },
  { "step/gb200", "gb200", "blackwell", 2500e12, 2500e12, 8000e9, 152, 0, 0.511 },
  { "step/h100_fp8", "h100-sxm-80g", "hopper", 1979e12, 989e12, 3350e9, 132, 1, 0.592 },
  { "step/b200_fp8", "b200-sxm", "blackwell", 4500e12, 2250e12, 8000e9, 148, 1, 0.513 },
  { "step/gb200_fp8", "gb200", "blackwell", 5000e12, 2500e12, 8000e9, 152, 1, 0.482 },
};

static void
test_rate_in_step (void **state)
{
  const StepCase *c = *state;
  g_autoptr (CostCalibration) calibration = load_prior ();
  TopoGpu gpu;
  TopoMachine machine;
  fill_machine (&machine, &gpu, (char *)c->gpu, (char *)c->generation);
  g_auto (CostNumbers) numbers = { 0 };
  assert_true (cost_numbers_init (&numbers, calibration, &machine, "nemo", NULL));
  CostGemmContext context = {
    .peak_flop_per_s = c->peak_flop_per_s,
    .hbm_bytes_per_s = c->hbm_bytes_per_s,
    .feed_bytes_per_s = numbers.gpu.gemm.feed_ratio * c->peak_16bit_flop_per_s / c->sm_count,
    .sm_count = c->sm_count,
    .numbers = &numbers.gpu.gemm,
    .precision = c->precision,
    .in_bytes = c->precision == COST_PRECISION_FP8 ? 1 : 2,
    .out_bytes = 2,
    .slowdown = 1,
  };
  double time_s = cost_gemm_s (&context, 8192, 8192, 8192, 1);
  double ratio = 2.0 * 8192 * 8192 * 8192 / time_s / c->peak_flop_per_s;
  assert_near (ratio, c->want_ratio, 0.06);
}

static void
test_format_reads_back (void **state)
{
  g_autoptr (CostCalibration) calibration = load_prior ();
  g_autofree char *text = cost_calibration_format (calibration);
  g_autoptr (GError) error = NULL;
  g_autoptr (BaseIni) ini = base_ini_new_from_data (text, -1, "formatted", &error);
  assert_no_error (error);
  g_autoptr (CostCalibration) again = cost_calibration_from_ini (ini, "other", &error);
  assert_no_error (error);
  g_autofree char *text_again = cost_calibration_format (again);
  assert_string_equal (text_again, text);
  g_autofree char *hash = cost_calibration_hash (calibration);
  g_autofree char *hash_again = cost_calibration_hash (again);
  assert_string_equal (hash, hash_again);
  assert_int_equal (strlen (hash), 16);

  double value = 0, spread = 0, before = 0;
  assert_true (
      cost_calibration_get (calibration, "gpu h100-sxm-80g", "ceiling_16bit", &before, NULL));
  assert_true (cost_calibration_get (again, "gpu h100-sxm-80g", "ceiling_16bit", &value, &spread));
  assert_near (value, before, 1e-12);
  assert_near (spread, 0.03, 1e-12);
  assert_true (cost_calibration_get (again, "step", "fixed", &value, NULL));
  assert_near (value, 0.0289, 1e-12);
  assert_false (cost_calibration_get (again, "gpu h100-sxm-80g", "hbm", &value, NULL));
  assert_false (cost_calibration_get (again, "gpu nothing", "hbm", &value, NULL));
  assert_false (cost_calibration_get (again, "nothing", "hbm", &value, NULL));
}

/* A number that the file has, one that it has not, a GPU that it has not; none out of range. */
static void
test_put (void **state)
{
  g_autoptr (CostCalibration) calibration = load_prior ();
  double value = 0, spread = 0;
  assert_true (cost_calibration_put (calibration, "gpu hopper", "k0", 99, 0.1, "test"));
  assert_true (cost_calibration_get (calibration, "gpu hopper", "k0", &value, &spread));
  assert_near (value, 99, 0);
  assert_near (spread, 0.1, 0);
  assert_false (cost_calibration_get (calibration, "gpu h100-sxm-80g", "hbm", NULL, NULL));
  assert_true (cost_calibration_put (calibration, "gpu h100-sxm-80g", "hbm", 0.7, 0, "test"));
  assert_true (cost_calibration_put (calibration, "gpu mine", "k0", 7, 0, "measured here"));
  g_autofree char *text = cost_calibration_format (calibration);
  assert_non_null (strstr (text, "[gpu mine]\nsource = measured here\nk0 = 7\n"));
  assert_false (cost_calibration_put (calibration, "gpu mine", "wave", 2, 0, "test"));
  assert_false (cost_calibration_put (calibration, "gpu mine", "nothing", 1, 0, "test"));
  assert_false (cost_calibration_put (calibration, "gpu ", "k0", 1, 0, "test"));
  assert_true (cost_calibration_put (calibration, "link mine", "base", 1e-6, 0, "test"));
  assert_false (cost_calibration_put (calibration, "nothing mine", "base", 1e-6, 0, "test"));
}

typedef struct {
  const char *name;
  const char *text;
  const char *message; /* a part of it */
} BadCase;

#define HEAD "[calibration]\nsource = test\n"

static const BadCase bad_cases[] = {
  { "bad/no_calibration_group", "[gpu default]\nsource = x\n", "calibration" },
  { "bad/no_source", "[calibration]\nname = x\n", "source" },
  { "bad/group_without_source", HEAD "[gpu x]\nk0 = 1\n", "[gpu x] source" },
  { "bad/unknown_key", HEAD "[gpu x]\nsource = t\nceiling_16bits = 0.9\n", "ceiling_16bit" },
  { "bad/unknown_group", HEAD "[gpus x]\nsource = t\n", "gpus x" },
  { "bad/name_on_step", HEAD "[step x]\nsource = t\n", "step x" },
  { "bad/gpu_without_name", HEAD "[gpu]\nsource = t\n", "[gpu]" },
  { "bad/unknown_link", HEAD "[link nvlink44]\nsource = t\n", "did you mean 'nvlink4'" },
  { "bad/unknown_fabric", HEAD "[fabric ibb]\nsource = t\n", "did you mean 'ib'" },
  { "bad/negative", HEAD "[gpu x]\nsource = t\nk0 = -3\n", "k0" },
  { "bad/nan", HEAD "[gpu x]\nsource = t\nhbm = nan\n", "hbm" },
  { "bad/huge", HEAD "[gpu x]\nsource = t\nhbm = 1e30\n", "from 0.01 to 1.2" },
  { "bad/zero", HEAD "[gpu x]\nsource = t\nhbm = 0\n", "from 0.01 to 1.2" },
  { "bad/two_to_the_63", HEAD "[gpu x]\nsource = t\nk0 = 9223372036854775808\n", "to 100000" },
  { "bad/no_unit", HEAD "[gpu x]\nsource = t\nlaunch = 2.5\n", "launch" },
  { "bad/foreign_unit", HEAD "[gpu x]\nsource = t\nlaunch = 2.5GB\n", "launch" },
  { "bad/empty", HEAD "[gpu x]\nsource = t\nhbm =\n", "hbm" },
  { "bad/empty_spread", HEAD "[gpu x]\nsource = t\nhbm = 0.8 +-\n", "hbm" },
  { "bad/no_value", HEAD "[gpu x]\nsource = t\nhbm = +- 5%\n", "hbm" },
  { "bad/two_spreads", HEAD "[gpu x]\nsource = t\nhbm = 0.8 +- 5% +- 5%\n", "hbm" },
  { "bad/huge_spread", HEAD "[gpu x]\nsource = t\nhbm = 0.8 +- 1e9\n", "from 0 to 10" },
  { "bad/duplicate_key", HEAD "[gpu x]\nsource = t\nhbm = 0.8\nhbm = 0.8\n", "hbm" },
  { "bad/duplicate_group", HEAD "[gpu x]\nsource = t\n[gpu x]\nsource = t\n", "gpu x" },
  { "bad/comment_as_text", HEAD "name =#x\n", "begins with '#'" },
  { "bad/comment_as_gpu", HEAD "[gpu x]\nsource = t\ngpus = a,#b\n", "begins with '#'" },
  { "bad/no_largest_run", HEAD "[gpu x]\nsource = t\nlargest_run = 0\n", "largest_run" },
  { "bad/largest_run_of_a_link", HEAD "[link nvlink4]\nsource = t\nlargest_run = 8\n",
    "largest_run" },
  { "bad/assumed", HEAD "[gpu x]\nsource = t\nassumed = perhaps\n", "assumed" },
};

static void
test_refused (void **state)
{
  const BadCase *c = *state;
  g_autoptr (GError) error = NULL;
  g_autoptr (BaseIni) ini = base_ini_new_from_data (c->text, -1, "bad.ini", &error);
  g_autoptr (CostCalibration) calibration
      = ini != NULL ? cost_calibration_from_ini (ini, "bad", &error) : NULL;
  assert_null (calibration);
  assert_non_null (error);
  if (strstr (error->message, c->message) == NULL || strstr (error->message, "bad.ini") == NULL)
    fail_msg ("message lacks '%s' or the file: %s", c->message, error->message);
  assert_null (strchr (error->message, '\n'));
}

static void
test_lacking_default (void **state)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (BaseIni) ini
      = base_ini_new_from_data (HEAD "[gpu hopper]\nsource = t\nhbm = 0.8\n", -1, "part.ini", NULL);
  g_autoptr (CostCalibration) calibration = cost_calibration_from_ini (ini, "part", &error);
  assert_no_error (error);
  TopoGpu gpu;
  TopoMachine machine;
  fill_machine (&machine, &gpu, (char *)"h100-sxm-80g", generation_hopper);
  CostNumbers numbers;
  assert_false (cost_numbers_init (&numbers, calibration, &machine, "nemo", &error));
  assert_true (g_error_matches (error, COST_ERROR, COST_ERROR_NO_DATA));
  assert_string_equal (
      error->message, "calibration 'part.ini': [gpu default] lacks 'launch', which it has to have");
  cost_numbers_clear (&numbers);
  cost_numbers_clear (NULL);
}

static guint
add_cases (struct CMUnitTest *tests, guint n)
{
  for (gsize i = 0; i < G_N_ELEMENTS (bad_cases); i++)
    tests[n++] = (struct CMUnitTest){ .name = bad_cases[i].name,
                                      .test_func = test_refused,
                                      .initial_state = (void *)&bad_cases[i] };
  for (gsize i = 0; i < G_N_ELEMENTS (step_cases); i++)
    tests[n++] = (struct CMUnitTest){ .name = step_cases[i].name,
                                      .test_func = test_rate_in_step,
                                      .initial_state = (void *)&step_cases[i] };
  return n;
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (bad_cases) + G_N_ELEMENTS (step_cases) + 8];
  guint n = add_cases (tests, 0);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_every_generation_resolves);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_most_specific_wins);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_assumed_is_listed);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_whole_catalog);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_power_limit);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_format_reads_back);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_put);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_lacking_default);
  return _cmocka_run_group_tests ("costmodel_calibration", tests, n, NULL, NULL);
}
