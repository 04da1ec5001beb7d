/* Times of single kernels: what is read, skipped and refused; a fit finds the numbers that made its
 * rows; on the published times the calibration in use stays within the bars. */
#include "app/calibrate_gemm.h"
#include "tests/testutil.h"

#include <glib/gstdio.h>

/* @text as a file @name of a new folder. Returns: (owned) the folder */
static char *
write_folder (const char *name, const char *text)
{
  g_autoptr (GError) error = NULL;
  char *folder = g_dir_make_tmp ("plait-gemm-XXXXXX", &error);
  assert_no_error (error);
  g_autofree char *path = g_build_filename (folder, name, NULL);
  assert_true (g_file_set_contents (path, text, -1, NULL));
  return folder;
}

static void
remove_folder (const char *folder, const char *name)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);
  g_unlink (path);
  g_rmdir (folder);
}

static AppGemmValidation *
validate (const char *name, const char *text, GError **error)
{
  g_autofree char *folder = write_folder (name, text);
  const char *paths[] = { folder, NULL };
  AppGemmValidation *out = app_validate_gemm (NULL, NULL, paths, error);
  remove_folder (folder, name);
  return out;
}

/* The name says GPU and dtype; columns go first. A100 has no fp8, nobody a GB99. */
static void
test_counts (void **state)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (AppGemmValidation) v = validate ("A100-80G-SXM-bf16-mine.csv",
                                              "gpu,dtype,m,n,k,time_s\n"
                                              ",,4096,4096,4096,6e-4\n"
                                              "H100,,4096,4096,4096,2e-4\n"
                                              ",fp8,4096,4096,4096,1e-4\n"
                                              ",int3,4096,4096,4096,1e-4\n"
                                              "GB99,,4096,4096,4096,1e-4\n",
                                              &error);
  assert_no_error (error);
  assert_int_equal (v->n_rows, 5);
  assert_int_equal (v->rows->len, 2);
  assert_int_equal (v->skipped->len, 3);
  const AppGemmResult *first = g_ptr_array_index (v->rows, 0);
  assert_string_equal (first->gpu, "a100-sxm-80g");
  /* 4096^3 = 2^36: a large one; each GPU in its band and in "all" */
  assert_int_equal (v->large.n, 2);
  assert_int_equal (v->groups->len, 4);
}

/* 2 x 4096^3 FLOPs at .6 of 312 TFLOP/s: 734.2 us. Attention, causal counted whole:
 * 2 x 4096^2 x 32 x 256 = 274.9e9 FLOPs forward at 1.1 of 312e12: 800.9 us; backward 2.5 times as many
 * at .9: 2447 us. A weight gradient of the forward product [616 x 5120] · [5120 x 3072] sums over 616. */
static void
test_efficiencies (void **state)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (AppGemmValidation) v = validate (
      "efficiencies.csv",
      "gpu,op,shape,peak_tflops,efficiency\n"
      "A100-80G-PCIe,matmul,\"b=1, m=4096, k=4096, n=4096, accumulate=False\",312,0.6\n"
      "A100-80G-PCIe,sdp_fwd,\"batch=1, seq_len=4096, head_num=32, kv_head_num=8, qk_head_dim=128, "
      "v_head_dim=128\",312,1.1\n"
      "A100-80G-PCIe,sdp_bwd,\"batch=1, seq_len=4096, head_num=32, kv_head_num=8, qk_head_dim=128, "
      "v_head_dim=128\",312,0.9\n"
      "A100-80G-PCIe,group_matmul,\"ng=40, M=616, N=3072, K=5120, stage=bwd_grad_w\",312,0.5\n",
      &error);
  assert_no_error (error);
  static const double want_us[] = { 734.2, 800.9, 2447, 2.0 * 40 * 616 * 3072 * 5120 / 156e6 };
  assert_int_equal (v->rows->len, G_N_ELEMENTS (want_us));
  for (guint i = 0; i < v->rows->len; i++) {
    const AppGemmResult *row = g_ptr_array_index (v->rows, i);
    assert_near (row->measured_s * 1e6, want_us[i], 1e-3);
  }
  const AppGemmResult *grouped = g_ptr_array_index (v->rows, 3);
  assert_int_equal (grouped->m, 3072);
  assert_int_equal (grouped->n, 5120);
  assert_int_equal (grouped->k, 616);
}

typedef struct {
  const char *name;
  const char *file, *text;
  const char *message; /* a part of it */
} BadCase;

static const BadCase bad_cases[] = {
  { "gemm/no_column", "h100-bf16.csv", "m,n,k\n1,1,1\n", "time_s" },
  { "gemm/zero_time", "h100-bf16.csv", "m,n,k,time_s\n1,1,1,0\n", ":2: time_s is '0'" },
  { "gemm/no_dimension", "h100-bf16.csv", "m,n,k,time_s\n,1,1,1\n", ":2: m is ''" },
  { "gemm/no_gpu", "mine.csv", "m,n,k,time_s\n1,1,1,1\n", "call the file GPU-DTYPE.csv" },
  { "gemm/no_dtype", "h100.csv", "m,n,k,time_s\n1,1,1,1\n", "'dtype'" },
  { "gemm/bad_op", "x.csv", "gpu,op,shape,peak_tflops,efficiency\nH100,conv,a=1,1,1\n",
    "op is 'conv'" },
  { "gemm/bad_shape", "x.csv",
    "gpu,op,shape,peak_tflops,efficiency\nH100,matmul,\"b=1, m=x\",1,1\n", "m is 'x'" },
  { "gemm/no_csv", "x.txt", "", "no *.csv" },
};

static void
test_bad (void **state)
{
  const BadCase *c = *state;
  g_autoptr (GError) error = NULL;
  assert_null (validate (c->file, c->text, &error));
  assert_non_null (error);
  if (strstr (error->message, c->message) == NULL)
    fail_msg ("'%s' lacks '%s'", error->message, c->message);
}

/* Times of the formula with 30 % less of ceiling and twice the launch: the fit finds both, writes
 * them into the GPU's group, and predicts shapes that it did not see. */
static void
test_fit_recovers (void **state)
{
  g_autoptr (GError) error = NULL;
  const char *none[] = { NULL };
  g_auto (GemmRows) rows = { 0 };
  g_autoptr (GString) text = g_string_new ("m,n,k,time_s\n");
  guint index = 0;
  assert_true (gemm_rows_init (&rows, NULL, NULL, none, &error));
  assert_true (gemm_rows_setting (&rows, "h100-sxm-80g", &index, &error));
  GemmSetting *setting = g_ptr_array_index (rows.settings, index);
  CostGemm *gemm = &setting->numbers.gpu.gemm;
  double ceiling = gemm->ceiling_ratio[0] *= 0.7, launch_s = gemm->launch_s *= 2;
  gemm_setting_refresh (setting);
  for (guint64 m = 16; m <= 16384; m *= 4)
    for (guint64 n = 128; n <= 16384; n *= 2)
      for (guint64 k = 128; k <= 16384; k *= 4)
        g_string_append_printf (text,
                                "%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT
                                ",%.6g\n",
                                m, n, k,
                                cost_gemm_s (&setting->context.gemm[MODEL_DTYPE_BF16], m, n, k, 1));
  g_autofree char *folder = write_folder ("H100-bf16.csv", text->str);
  const char *paths[] = { folder, NULL };
  AppCalibrateGemmRequest request = { .paths = paths, .cv = APP_GEMM_CV_SHAPE, .out_dir = folder };
  g_autoptr (AppGemmCalibration) fitted = app_calibrate_gemm (&request, &error);
  assert_no_error (error);
  assert_true (fitted->validation->all.median_abs_err < 0.01);
  g_autoptr (BaseCatalog) catalog = base_catalog_new (NULL, NULL);
  g_autoptr (CostCalibration) written = cost_calibration_load (catalog, fitted->written, &error);
  assert_no_error (error);
  double value = 0;
  assert_true (cost_calibration_get (written, "gpu h100-sxm-80g", "ceiling_16bit", &value, NULL));
  assert_near (value, ceiling, 0.05);
  assert_true (cost_calibration_get (written, "gpu h100-sxm-80g", "launch", &value, NULL));
  assert_near (value, launch_s, 0.02);
  g_unlink (fitted->written);
  remove_folder (folder, "H100-bf16.csv");
}

/* The bars, in %: all shapes, and those of m·n·k >= 2^36. */
static void
test_published (void **state)
{
  g_autofree char *folder = g_build_filename (g_getenv ("PLAIT_TEST_DATA"), "gemm", NULL);
  const char *paths[] = { folder, NULL };
  g_autoptr (GError) error = NULL;
  g_autoptr (AppGemmValidation) v = app_validate_gemm (NULL, NULL, paths, &error);
  assert_no_error (error);
  assert_true (v->rows->len > 40000);
  for (guint i = 0; i < v->groups->len; i++) {
    const AppGemmGroup *group = &g_array_index (v->groups, AppGemmGroup, i);
    gboolean l40s = g_str_equal (group->gpu, "l40s");
    double bar = group->band == APP_GEMM_ALL     ? l40s ? 0.095 : 0.06
                 : group->band == APP_GEMM_LARGE ? l40s ? 0.065 : 0.05
                                                 : 1;
    if (group->stats.median_abs_err > bar)
      fail_msg ("%s %s: median %.4f", group->gpu, app_gemm_band_names[group->band],
                group->stats.median_abs_err);
  }
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (bad_cases) + 4];
  const char *data = g_getenv ("PLAIT_TEST_DATA");
  g_autofree char *folder = g_build_filename (data != NULL ? data : "", "gemm", NULL);
  guint n = 0;
  for (gsize i = 0; i < G_N_ELEMENTS (bad_cases); i++)
    tests[n++] = (struct CMUnitTest){ .name = bad_cases[i].name,
                                      .test_func = test_bad,
                                      .initial_state = (void *)&bad_cases[i] };
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_counts);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_efficiencies);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_fit_recovers);
  if (g_file_test (folder, G_FILE_TEST_IS_DIR))
    tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_published);
  return _cmocka_run_group_tests ("app_gemm", tests, n, NULL, NULL);
}
