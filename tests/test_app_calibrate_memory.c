/* tests/test_app_calibrate_memory.c - the fit of memory finds the ratio that made up readings were made with. */
#include "app/calibrate.h"
#include "tests/testutil.h"
#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

#define GIB 1073741824.0

static const char header[]
    = "id,group,family,use,mem_kind,mem_scope,phase,framework,arch,layers,hidden,"
      "heads,ffn,gated,vocab,tied,seq,machine,gpu,gpus,tp,sp,cp,pp,vpp,ep,dp,"
      "shard,gbs,mbs,recompute,dtype,attn,step_s,mem_gib\n";

/* Twelve GPT layouts on A100 under Megatron-DeepSpeed; @gib: (nullable) readings */
static char *
write_rows (const double *gib)
{
  g_autoptr (GString) text = g_string_new (header);
  g_autoptr (GError) error = NULL;
  char *path = NULL;
  guint n = 0;
  for (guint pp = 2; pp <= 8; pp *= 2)
    for (guint mbs = 1; mbs <= 8; mbs *= 2, n++)
      g_string_append_printf (text,
                              "r%u,g%u,lab,1,reserved,fullest,train,Megatron-DeepSpeed,dense,48,"
                              "8192,64,32768,0,51200,1,"
                              "2048,dgx-a100-80g,A100-80G-SXM,%u,4,0,1,%u,1,1,4,dist-opt,256,%u,"
                              "full,fp16,unfused,20,%.9g\n",
                              n, n, 16 * pp, pp, mbs, gib != NULL ? gib[n] : 10.0);
  int fd = g_file_open_tmp ("plait-peaks-XXXXXX.csv", &path, &error);
  assert_no_error (error);
  g_close (fd, NULL);
  assert_true (g_file_set_contents (path, text->str, -1, NULL));
  return path;
}

static AppCalibration *
calibrate (const char *path)
{
  g_autoptr (GError) error = NULL;
  const char *files[] = { path, NULL };
  static const char *const none[] = { NULL };
  const AppCalibrateRequest request
      = { .validate = { .files = files, .by = none, .calibration = "prior" }, .cv = APP_CV_GROUP };
  AppCalibration *calibration = app_calibrate_runs (&request, &error);
  assert_no_error (error);
  assert_non_null (calibration);
  return calibration;
}

static const AppFitted *
find (const AppCalibration *calibration, const char *name)
{
  for (guint i = 0; i < calibration->parameters->len; i++) {
    const AppFitted *fitted = &g_array_index (calibration->parameters, AppFitted, i);
    if (g_str_equal (fitted->name, name))
      return fitted;
  }
  fail_msg ("no parameter %s", name);
  return NULL;
}

/* What the twelve layouts reserve at a ratio of 1, in GiB. */
static void
allocated_gib (double out[12])
{
  g_autofree char *path = write_rows (NULL);
  g_autoptr (GError) error = NULL;
  const char *files[] = { path, NULL };
  static const char *const none[] = { NULL };
  const AppValidateRequest request = { .files = files, .by = none, .calibration = "prior" };
  g_autoptr (AppValidation) validation = app_validate (&request, &error);
  g_remove (path);
  assert_no_error (error);
  assert_int_equal (validation->rows->len, 12);
  for (guint i = 0; i < 12; i++) {
    const AppValidateRow *row = g_ptr_array_index (validation->rows, i);
    out[i] = (double)row->memory.allocated_bytes / GIB;
  }
}

/*
 * Readings of 1.27 times what is allocated. The prior is 1.231 with a log sd of .03; twelve readings
 * with residuals of .05 pull the ratio by 12/.05² against 1/.03²: 81 % of ln (1.27 / 1.231) on the
 * way. The other frameworks' ratio stays where it was.
 */
static void
test_finds_ratio (void **state)
{
  double gib[12];
  allocated_gib (gib);
  for (guint i = 0; i < 12; i++)
    gib[i] *= 1.27;
  g_autofree char *path = write_rows (gib);
  g_autoptr (AppCalibration) calibration = calibrate (path);
  g_remove (path);
  const AppFitted *ratio = find (calibration, "profile deepspeed: reserved");
  assert_near (ratio->prior, 1.231, 1e-12);
  double share = 12 / 0.0025 / (12 / 0.0025 + 1 / 0.0009);
  assert_near (ratio->value, 1.231 * exp (share * log (1.27 / 1.231)), 0.002);
  assert_true (ratio->sd < ratio->prior_sd);
  const AppFitted *other = find (calibration, "profile default: reserved");
  assert_near (other->value, other->prior, 1e-3);
  /* each reading is predicted by a fit that did not see it, and is closer than before */
  assert_int_equal (calibration->validation->memory.n, 12);
  assert_true (calibration->validation->memory.median_abs_err < 0.012);
}

int
main (void)
{
  const struct CMUnitTest tests[] = { cmocka_unit_test (test_finds_ratio) };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
