/* The fit to nccl-tests figures, cross-validated on the published ones: it stays within the bars. */
#include "app/calibrate_collectives.h"
#include "tests/testutil.h"

static AppCollectiveCalibration *
cross_validate (AppCollectiveCv cv, gboolean few_shot)
{
  g_autofree char *tests = test_data_path ("collectives/nccl_tests.csv");
  g_autofree char *sweeps = test_data_path ("collectives/nccl_sweeps.csv");
  const char *files[] = { tests, sweeps, NULL };
  AppCalibrateCollectivesRequest request = { .files = files, .cv = cv, .few_shot = few_shot };
  g_autoptr (GError) error = NULL;
  AppCollectiveCalibration *out = NULL;
  if (tests == NULL || !g_file_test (tests, G_FILE_TEST_EXISTS))
    return NULL;
  out = app_calibrate_collectives (&request, &error);
  assert_no_error (error);
  return out;
}

/* The bars: one node or rack on NVLink 3 to 5 6.5 %, a machine left out 7.5 %; over nodes 18 %, 10 %
 * once three points of a log were seen. At most 57 numbers, for 5,603 rows: ten beyond the
 * prototype's 46 took a whole point off every bar that was left out, and the share of an uplink that
 * an all-to-all reaches halves the error of eight GPUs below two switches (docs/model.md). */
static void
test_published (void **state)
{
  g_autoptr (AppCollectiveCalibration) logs = cross_validate (APP_COLLECTIVE_CV_GROUP, TRUE);
  g_autoptr (AppCollectiveCalibration) machines = cross_validate (APP_COLLECTIVE_CV_MACHINE, FALSE);
  print_message (
      "logs: NVLink %.2f %%, over nodes %.2f %%, three points %.2f %%; machine: %.2f %%\n",
      100 * logs->validation->nvlink.median_abs_err, 100 * logs->validation->network.median_abs_err,
      100 * logs->few_shot.median_abs_err, 100 * machines->validation->nvlink.median_abs_err);
  assert_true (logs->parameters->len <= 57);
  assert_true (logs->validation->nvlink.median_abs_err <= 0.065);
  assert_true (logs->validation->network.median_abs_err <= 0.18);
  assert_true (logs->few_shot.median_abs_err <= 0.10);
  assert_true (machines->validation->nvlink.median_abs_err <= 0.075);
}

int
main (void)
{
  g_autofree char *data = test_data_path ("collectives/nccl_tests.csv");
  const struct CMUnitTest tests[] = { cmocka_unit_test (test_published) };
  if (data == NULL || !g_file_test (data, G_FILE_TEST_EXISTS))
    return TEST_SKIPPED;
  return cmocka_run_group_tests (tests, NULL, NULL);
}
