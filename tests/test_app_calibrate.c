/* tests/test_app_calibrate.c - what a fit is scored on: rows it did not see, nor any like them. */
#include "app/calibrate.h"
#include "tests/testutil.h"
#include <glib/gstdio.h>

#define HEAD                                                                                       \
  "id,family,group,phase,machine,framework,model,arch,layers,hidden,heads,kv_heads,head_dim,ffn,"  \
  "gated,vocab,tied,seq,gpu,gpus,gpus_per_node,tp,sp,cp,pp,vpp,ep,shard,gbs,mbs,recompute,dtype,"  \
  "attn,step_s\n"
#define RUN                                                                                        \
  "train,dgx-a100-80g,Megatron-LM,GPT,dense,24,4096,32,32,128,16384,0,51200,1,2048,A100-80G-SXM,"  \
  "8,8,8,1,1,1,1,1,none,"

/* 12 groups of two runs of one family, which differ in nothing but their time, and one other run
 * with another batch. @use_column: with one whose cells are empty. */
static char *
write_runs (gboolean use_column)
{
  g_autoptr (GError) error = NULL;
  GString *text = g_string_new (HEAD);
  if (use_column)
    g_string_insert (text, strlen ("id,family,"), "use,");
  const char *empty = use_column ? "," : "";
  for (guint i = 0; i < 24; i++)
    g_string_append_printf (text, "run%u,lab,%sg%u," RUN "%u,1,none,bf16,flash,%u\n", i, empty,
                            i / 2, 8 * (1 + i / 2), 2 * (1 + i / 2));
  g_string_append_printf (text, "other,elsewhere,%sh," RUN "16,1,none,bf16,flash,4\n", empty);
  char *path = NULL;
  gint fd = g_file_open_tmp ("plait-runs-XXXXXX.csv", &path, &error);
  assert_no_error (error);
  g_close (fd, NULL);
  assert_true (g_file_set_contents (path, text->str, (gssize)text->len, NULL));
  g_string_free (text, TRUE);
  return path;
}

static AppCalibration *
calibrate (const char *path, AppCv cv, gboolean few_shot)
{
  g_autoptr (GError) error = NULL;
  const char *files[] = { path, NULL };
  static const char *const by[] = { "family", NULL };
  const AppCalibrateRequest request
      = { .validate = { .files = files, .phase = "train", .by = by, .calibration = "prior" },
          .cv = cv,
          .few_shot = few_shot };
  AppCalibration *calibration = app_calibrate_runs (&request, &error);
  assert_no_error (error);
  return calibration;
}

/* Ten of twelve groups show a row each; what is scored after none, three or ten of them are the
 * four rows of the other two groups, never the twin of a row that was seen. */
static void
test_few_shot_holds_groups_out (void **state)
{
  g_autofree char *path = write_runs (FALSE);
  g_autoptr (AppCalibration) calibration = calibrate (path, APP_CV_NONE, TRUE);
  assert_int_equal (calibration->few_shot->len, 3);
  for (guint i = 0; i < 3; i++)
    assert_int_equal (g_array_index (calibration->few_shot, AppFewShot, i).step_time.n, 4);
  g_unlink (path);
}

/* A missing use counts as 1, as validate reads it: the fit moves as far as without the column. */
static void
test_missing_use_counts (void **state)
{
  g_autofree char *plain_path = write_runs (FALSE), *empty_path = write_runs (TRUE);
  g_autoptr (AppCalibration) plain = calibrate (plain_path, APP_CV_NONE, FALSE);
  g_autoptr (AppCalibration) empty = calibrate (empty_path, APP_CV_NONE, FALSE);
  double furthest = 0;
  for (guint i = 0; i < plain->parameters->len; i++) {
    const AppFitted *a = &g_array_index (plain->parameters, AppFitted, i);
    const AppFitted *b = &g_array_index (empty->parameters, AppFitted, i);
    assert_near (b->value, a->value, 1e-12);
    furthest = MAX (furthest, fabs (log (a->value / a->prior)));
  }
  assert_true (furthest > 0.05);
  g_unlink (plain_path);
  g_unlink (empty_path);
}

/* Runs as somebody writes them down: without family and group. Repeats of one configuration are
 * never split; the file says what was fitted to them, and of what did not move nothing new. */
static void
test_own_runs (void **state)
{
  g_autoptr (GError) error = NULL;
  GString *text = g_string_new ("id,phase,machine,framework,model,arch,layers,hidden,heads,"
                                "kv_heads,head_dim,ffn,gated,vocab,tied,seq,gpu,gpus,"
                                "gpus_per_node,tp,sp,cp,pp,vpp,ep,shard,gbs,mbs,recompute,dtype,"
                                "attn,step_s\n");
  g_autofree char *path = NULL, *dir = g_dir_make_tmp ("plait-own-XXXXXX", &error);
  assert_no_error (error);
  for (guint i = 0; i < 4; i++) /* two and two alike, a third slower than A100s are */
    g_string_append_printf (text, "run%u," RUN "%u,1,none,bf16,flash,%u\n", i, 8 * (1 + i / 2),
                            3 * (1 + i / 2));
  path = g_build_filename (dir, "own.csv", NULL);
  assert_true (g_file_set_contents (path, text->str, (gssize)text->len, NULL));
  g_string_free (text, TRUE);
  const char *files[] = { path, NULL };
  static const char *const by[] = { "family", NULL };
  const AppCalibrateRequest request
      = { .validate = { .files = files, .by = by, .calibration = "default" },
          .cv = APP_CV_GROUP,
          .name = "own",
          .out_dir = dir };
  g_autoptr (AppCalibration) fitted = app_calibrate_runs (&request, &error);
  assert_no_error (error);
  assert_int_equal (fitted->validation->rows->len, 4);
  for (guint i = 0; i < 4; i += 2) {
    const AppValidateRow *a = g_ptr_array_index (fitted->validation->rows, i);
    const AppValidateRow *b = g_ptr_array_index (fitted->validation->rows, i + 1);
    assert_near (a->predicted_s, b->predicted_s, 1e-12); /* of one fold */
  }
  assert_true (fitted->validation->assumed->len > 0); /* dp and inter_gbps at least */
  g_autofree char *written = NULL;
  assert_true (g_file_get_contents (fitted->written, &written, NULL, NULL));
  assert_non_null (strstr (written, "on 4 measured training runs, around 'default'; |error| of "
                                    "rows whose group was left out"));
  g_auto (GStrv) groups = g_strsplit (written, "\n[", -1);
  guint found = 0;
  for (guint i = 0; groups[i] != NULL; i++) {
    gboolean is_fitted = strstr (groups[i], "fitted to 4 measured runs") != NULL;
    if (g_str_has_prefix (groups[i], "gpu ampere]"))
      found += is_fitted;
    if (g_str_has_prefix (groups[i], "gpu volta]")
        || g_str_has_prefix (groups[i], "profile nanotron]"))
      assert_false (is_fitted);
  }
  assert_int_equal (found, 1);
  g_unlink (fitted->written);
  g_unlink (path);
  g_rmdir (dir);
}

int
main (void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_few_shot_holds_groups_out),
    cmocka_unit_test (test_missing_use_counts),
    cmocka_unit_test (test_own_runs),
  };
  return cmocka_run_group_tests_name ("app_calibrate", tests, NULL, NULL);
}
