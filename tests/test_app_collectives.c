/* Rows of nccl-tests figures: what is read, skipped and refused, and that a fit moves towards them. */
#include "app/calibrate_collectives.h"
#include "tests/testutil.h"

#include <glib/gstdio.h>

#define HEADER                                                                                     \
  "slug,use,machine,fabric,algo,gpu,gpus,nodes,nic_gbps_per_gpu,collective,bytes,time_us,"         \
  "nccl_version,notes\n"

static char *
write_rows (const char *text)
{
  g_autoptr (GError) error = NULL;
  char *path = NULL;
  int fd = g_file_open_tmp ("plait-collectives-XXXXXX.csv", &path, &error);
  assert_no_error (error);
  g_close (fd, NULL);
  assert_true (g_file_set_contents (path, text, -1, NULL));
  return path;
}

static AppCollectiveValidation *
validate (const char *text, GError **error)
{
  g_autofree char *path = write_rows (text);
  const char *files[] = { path, NULL };
  AppCollectiveValidation *out = app_validate_collectives (NULL, NULL, files, error);
  g_unlink (path);
  return out;
}

/* One row is a choice not to score, two are not known, one has ranks that are no group here; the
 * rest: eight A100 at 8 GiB (published: 235 GB/s of bus bandwidth, 63967 us) and two nodes. */
static void
test_counts (void **state)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (AppCollectiveValidation) v
      = validate (HEADER "a,1,dgx-a100-80g,nvlink,auto,,8,1,,all_reduce,8589934592,63967,,\n"
                         "a,0,dgx-a100-80g,nvlink,auto,,8,1,,all_reduce,8589934592,1,,\n"
                         "b,1,aws-p5,efa,auto,,16,2,400,all_reduce,8589934592,33605,,\n"
                         "c,1,,nvlink,auto,GB99,2,1,,all_reduce,1024,10,,\n"
                         "c,1,dgx-a100-80g,nvlink,auto,,8,1,,all_shuffle,1024,10,,\n"
                         "c,1,dgx-a100-80g,nvlink,auto,,12,2,,all_reduce,1024,10,,\n",
                  &error);
  assert_no_error (error);
  assert_int_equal (v->n_rows, 5);
  assert_int_equal (v->rows->len, 2);
  assert_int_equal (v->skipped->len, 3);
  assert_int_equal (v->node.n, 1);
  assert_int_equal (v->nvlink.n, 1);
  assert_int_equal (v->network.n, 1);
  assert_int_equal (v->groups->len, 2);
  assert_true (v->all.median_abs_err < 0.08);
}

/* Stated facts of a row go first: half the NIC rate nearly doubles a large message over two nodes
 * (the wire doubles, the fill grows by the root of 2); a harness's time is on top; a ring is priced as a ring. */
static void
test_what_a_row_states (void **state)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (AppCollectiveValidation) v
      = validate (HEADER "a,1,hgx-h100,ib,auto,,16,2,400,all_gather,17179869184,1,,\n"
                         "a,1,hgx-h100,ib,auto,,16,2,200,all_gather,17179869184,1,,\n"
                         "b,1,hgx-h100,nvlink,auto,,8,1,,all_reduce,8,1,,\n"
                         "b,1,hgx-h100,nvlink,auto,,8,1,,all_reduce,8,1,,single process 8 GPUs\n"
                         "c,1,hgx-h100,nvlink,auto,,8,1,,all_reduce,8589934592,1,,\n"
                         "c,1,hgx-h100,nvlink,ring,,8,1,,all_reduce,8589934592,1,,\n",
                  &error);
  assert_no_error (error);
  assert_int_equal (v->rows->len, 6);
  double s[6];
  for (guint i = 0; i < 6; i++)
    s[i] = ((AppCollectiveRow *)g_ptr_array_index (v->rows, i))->predicted_s;
  assert_true (s[1] > 1.9 * s[0] && s[1] < 2 * s[0]);
  assert_true (s[3] - s[2] > 30e-6 && s[3] - s[2] < 60e-6);
  assert_true (s[5] > 1.2 * s[4]);
}

/* A folder of figures: a table of something else is left out and said, unless all are. */
static void
test_other_tables (void **state)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path
      = write_rows (HEADER "a,1,dgx-a100-80g,nvlink,auto,,8,1,,all_reduce,8589934592,63967,,\n");
  g_autofree char *other = write_rows ("nodes,gpus,op,median_GBps\n1,8,AllReduce,436\n1,8,x,1\n");
  const char *both[] = { other, path, NULL }, *alone[] = { other, NULL };
  g_autoptr (AppCollectiveValidation) v = app_validate_collectives (NULL, NULL, both, &error);
  assert_no_error (error);
  assert_int_equal (v->n_rows, 1);
  assert_int_equal (v->rows->len, 1);
  assert_int_equal (v->left_out->len, 1);
  assert_non_null (strstr (g_ptr_array_index (v->left_out, 0), "no column 'collective'"));
  assert_null (app_validate_collectives (NULL, NULL, alone, &error));
  assert_non_null (strstr (error->message, "no column 'collective'"));
  g_unlink (path);
  g_unlink (other);
}

typedef struct {
  const char *name, *text, *says;
} Bad;

static const Bad bad[] = {
  { "bad/no_column", "slug,use,machine,gpus,bytes,time_us\n", "collective" },
  { "bad/number", HEADER "a,1,hgx-h100,ib,auto,,16,2,400,all_gather,many,1,,\n", "'many'" },
  { "bad/negative", HEADER "a,1,hgx-h100,ib,auto,,-16,2,400,all_gather,8,1,,\n", "'-16'" },
  { "bad/nan", HEADER "a,1,hgx-h100,ib,auto,,16,2,nan,all_gather,8,1,,\n", "'nan'" },
  { "bad/huge", HEADER "a,1,hgx-h100,ib,auto,,9223372036854775808,2,1,all_gather,8,1,,\n",
    "9223372036854775808" },
  { "bad/zero_ranks", HEADER "a,1,hgx-h100,ib,auto,,0,1,,all_gather,8,1,,\n", "'0'" },
};

static void
test_bad (void **state)
{
  const Bad *c = *state;
  g_autoptr (GError) error = NULL;
  assert_null (validate (c->text, &error));
  assert_non_null (error);
  assert_non_null (strstr (error->message, c->says));
}

/* Three points of a fabric that is three times slower to respond than the catalog says. */
static void
test_few_points_move_their_fabric (void **state)
{
  g_autofree char *path
      = write_rows (HEADER "a,1,aws-p5,efa,auto,,16,2,400,all_reduce,8,400,,\n"
                           "a,1,aws-p5,efa,auto,,16,2,400,all_reduce,1048576,520,,\n"
                           "a,1,aws-p5,efa,auto,,16,2,400,all_reduce,8589934592,33605,,\n");
  const char *files[] = { path, NULL };
  g_autoptr (GError) error = NULL;
  g_autoptr (AppCollectiveValidation) before = app_validate_collectives (NULL, NULL, files, &error);
  AppCalibrateCollectivesRequest request = { .files = files };
  g_autoptr (AppCollectiveCalibration) fitted = app_calibrate_collectives (&request, &error);
  assert_no_error (error);
  g_unlink (path);
  assert_true (before->all.median_abs_err > 0.4);
  assert_true (fitted->validation->all.median_abs_err < 0.15);
  for (guint i = 0; i < fitted->parameters->len; i++) {
    const AppFitted *p = &g_array_index (fitted->parameters, AppFitted, i);
    if (g_str_equal (p->name, "fabric efa: hop"))
      assert_true (p->value > 1.8 * p->prior && p->sd < p->prior_sd);
    if (g_str_equal (p->name, "fabric ib: hop")) /* nothing was said of it */
      assert_near (p->value, p->prior, 1e-3);
  }
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (bad) + 4];
  guint n = 0;
  for (gsize i = 0; i < G_N_ELEMENTS (bad); i++)
    tests[n++] = (struct CMUnitTest){ .name = bad[i].name,
                                      .test_func = test_bad,
                                      .initial_state = (void *)&bad[i] };
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_counts);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_what_a_row_states);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_other_tables);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_few_points_move_their_fabric);
  return _cmocka_run_group_tests ("app_collectives", tests, n, NULL, NULL);
}
