/* Redistribute plans and ring bytes against those of PyTorch's greedy planner. */
#include "base/csv.h"
#include "model/shard.h"
#include "tests/testutil.h"

#define MAX_DIMS MODEL_SHARD_MAX_DIMS

static const char *const collectives[] = {
  [MODEL_REDISTRIBUTE_NONE] = "none",
  [MODEL_REDISTRIBUTE_LOCAL_CHUNK] = "local_chunk",
  [MODEL_REDISTRIBUTE_LOCAL_DIVIDE] = "local_divide",
  [MODEL_REDISTRIBUTE_ALL_GATHER] = "all_gather",
  [MODEL_REDISTRIBUTE_ALL_REDUCE] = "all_reduce",
  [MODEL_REDISTRIBUTE_REDUCE_SCATTER] = "reduce_scatter",
  [MODEL_REDISTRIBUTE_ALL_TO_ALL] = "all_to_all",
};

/* The files give bytes only: a square fp32 matrix, or the 10 rows that the notes speak of. */
static void
shape_of (guint64 bytes, guint64 *shape)
{
  shape[0] = bytes == 40960 ? 10 : (guint64)llround (sqrt ((double)bytes / 4));
  shape[1] = bytes / 4 / shape[0];
  assert_int_equal (shape[0] * shape[1] * 4, bytes);
}

static GArray *
plan_of (const char *from, const char *to, const guint32 *mesh, guint n_mesh, guint64 bytes,
         GError **error)
{
  guint64 shape[2];
  ModelPlacement a[MAX_DIMS], b[MAX_DIMS];
  guint n_a, n_b;
  shape_of (bytes, shape);
  assert_true (model_placements_parse (from, 2, a, MAX_DIMS, &n_a, NULL) && n_a == n_mesh);
  assert_true (model_placements_parse (to, 2, b, MAX_DIMS, &n_b, NULL) && n_b == n_mesh);
  return model_redistribute_plan (shape, 2, 4, mesh, n_mesh, a, b, error);
}

/* local_bytes_in and _out of the file against the shapes of rank 0. */
static void
check_local_bytes (const BaseCsv *csv, guint row, const char *placement, guint32 ranks,
                   guint64 bytes, const char *column)
{
  guint64 shape[2], local[2], offset[2];
  ModelPlacement parsed[MAX_DIMS];
  guint n;
  if (*base_csv_get (csv, row, column) == '\0')
    return;
  shape_of (bytes, shape);
  assert_true (model_placements_parse (placement, 2, parsed, MAX_DIMS, &n, NULL));
  assert_true (model_shard_local (shape, 2, &ranks, 1, parsed, 0, local, offset, NULL, NULL));
  assert_true (local[0] * local[1] * 4 == (guint64)base_csv_number (csv, row, column));
}

static void
check_single (const BaseCsv *csv, guint row)
{
  const char *name = base_csv_get (csv, row, "case");
  const char *from = base_csv_get (csv, row, "from"), *to = base_csv_get (csv, row, "to");
  const char *collective = base_csv_get (csv, row, "collective");
  guint32 ranks = (guint32)base_csv_number (csv, row, "mesh_dim_size");
  guint64 bytes = (guint64)base_csv_number (csv, row, "tensor_bytes");
  g_autoptr (GError) error = NULL;
  g_autoptr (GArray) steps = plan_of (from, to, &ranks, 1, bytes, &error);
  if (g_str_equal (collective, "error")) {
    assert_null (steps);
    assert_true (g_error_matches (error, MODEL_ERROR, MODEL_ERROR_UNSUPPORTED));
    return;
  }
  assert_no_error (error);
  check_local_bytes (csv, row, from, ranks, bytes, "local_bytes_in");
  check_local_bytes (csv, row, to, ranks, bytes, "local_bytes_out");
  if (g_str_equal (collective, "none")) {
    assert_int_equal (steps->len, 0);
    return;
  }
  assert_int_equal (steps->len, 1);
  const ModelRedistributeStep *step = &g_array_index (steps, ModelRedistributeStep, 0);
  assert_string_equal (collectives[step->kind], collective);
  if (step->bytes_sent_per_rank != (guint64)base_csv_number (csv, row, "bytes_sent_per_rank"))
    fail_msg ("%s: got %" G_GUINT64_FORMAT " bytes", name, step->bytes_sent_per_rank);
  assert_int_equal (step->logical_bytes, bytes);
}

static void
test_single_dimension (void **state)
{
  g_autofree char *path = test_data_path ("dtensor/redistribute_cases.csv");
  g_autoptr (GError) error = NULL;
  g_autoptr (BaseCsv) csv = base_csv_new_from_file (path, &error);
  assert_no_error (error);
  assert_true (base_csv_n_rows (csv) >= 20);
  for (guint row = 0; row < base_csv_n_rows (csv); row++)
    check_single (csv, row);
}

static void
check_step (const BaseCsv *csv, guint row, const ModelRedistributeStep *step)
{
  const char *name = base_csv_get (csv, row, "case");
  g_autofree char *from = model_placement_format (&step->from);
  g_autofree char *to = model_placement_format (&step->to);
  assert_string_equal (from, base_csv_get (csv, row, "step_from"));
  assert_string_equal (to, base_csv_get (csv, row, "step_to"));
  assert_string_equal (collectives[step->kind], base_csv_get (csv, row, "collective"));
  assert_true (step->mesh_dim == (guint)base_csv_number (csv, row, "mesh_dim"));
  if (step->bytes_sent_per_rank != (guint64)base_csv_number (csv, row, "bytes_sent_per_rank"))
    fail_msg ("%s: got %" G_GUINT64_FORMAT " bytes", name, step->bytes_sent_per_rank);
}

/* Rows of one case follow each other; step counts from 1. Returns: the row after the case. */
static guint
check_case (const BaseCsv *csv, guint row)
{
  guint32 mesh[MAX_DIMS];
  g_auto (GStrv) sizes = g_strsplit (base_csv_get (csv, row, "mesh_shape"), "x", -1);
  guint n_mesh = g_strv_length (sizes);
  for (guint i = 0; i < n_mesh; i++)
    mesh[i] = (guint32)g_ascii_strtoull (sizes[i], NULL, 10);
  g_autoptr (GError) error = NULL;
  g_autoptr (GArray) steps
      = plan_of (base_csv_get (csv, row, "from"), base_csv_get (csv, row, "to"), mesh, n_mesh,
                 (guint64)base_csv_number (csv, row, "tensor_bytes"), &error);
  assert_no_error (error);
  for (guint i = 0; i < steps->len; i++, row++) {
    assert_true (row < base_csv_n_rows (csv) && base_csv_number (csv, row, "step") == i + 1);
    check_step (csv, row, &g_array_index (steps, ModelRedistributeStep, i));
  }
  assert_true (row == base_csv_n_rows (csv) || base_csv_number (csv, row, "step") == 1);
  return row;
}

static void
test_several_dimensions (void **state)
{
  g_autofree char *path = test_data_path ("dtensor/redistribute_multidim_cases.csv");
  g_autoptr (GError) error = NULL;
  g_autoptr (BaseCsv) csv = base_csv_new_from_file (path, &error);
  assert_no_error (error);
  guint row = 0;
  while (row < base_csv_n_rows (csv))
    row = check_case (csv, row);
  assert_true (row >= 10);
}

/* A mesh dimension of one rank changes its name and nothing else, even where no step exists. */
static void
test_one_rank_is_free (void **state)
{
  const guint32 one = 1;
  g_autoptr (GError) error = NULL;
  g_autoptr (GArray) steps = plan_of ("S(0)", "P", &one, 1, 4194304, &error);
  assert_no_error (error);
  assert_int_equal (steps->len, 0);
}

/*
 * 2 × 2 mesh, 64 MiB: all-gather of a strided shard over its dimension, the other one still
 * sharding: 1/2 · 32 MiB sent.
 */
static void
test_strided (void **state)
{
  const guint32 mesh[] = { 2, 2 };
  g_autoptr (GError) error = NULL, refused = NULL;
  g_autoptr (GArray) steps = plan_of ("_S(0, 2);S(0)", "R;S(0)", mesh, 2, 67108864, &error);
  assert_no_error (error);
  assert_int_equal (steps->len, 3);
  assert_int_equal (g_array_index (steps, ModelRedistributeStep, 0).bytes_sent_per_rank, 16777216);
  assert_null (plan_of ("R;S(0)", "R;_S(0, 2)", mesh, 2, 67108864, &refused));
  assert_non_null (strstr (refused->message, "from S(0) to _S(0, 2)"));
}

static void
test_refuses_more_than_2_62_bytes (void **state)
{
  const guint64 shape[] = { G_GUINT64_CONSTANT (1) << 40, G_GUINT64_CONSTANT (1) << 40 };
  const ModelPlacement from = { .kind = MODEL_PLACEMENT_SHARD },
                       to = { .kind = MODEL_PLACEMENT_REPLICATE };
  const guint32 two = 2, many = 1u << 30;
  const guint64 thin[] = { 1, G_GUINT64_CONSTANT (1) << 40 };
  g_autoptr (GError) a = NULL, b = NULL;
  assert_null (model_redistribute_plan (shape, 2, 4, &two, 1, &from, &to, &a));
  assert_non_null (strstr (a->message, "2^62"));
  assert_null (model_redistribute_plan (thin, 2, 4, &many, 1, &from, &to, &b));
  assert_non_null (strstr (b->message, "2^62"));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_one_rank_is_free),
    cmocka_unit_test (test_strided),
    cmocka_unit_test (test_refuses_more_than_2_62_bytes),
  };
  const struct CMUnitTest data[] = {
    cmocka_unit_test (test_single_dimension),
    cmocka_unit_test (test_several_dimensions),
  };
  int failed = cmocka_run_group_tests_name ("redistribute", tests, NULL, NULL);
  g_autofree char *path = test_data_path ("dtensor/redistribute_cases.csv");
  if (failed != 0 || path == NULL)
    return failed != 0 ? failed : TEST_SKIPPED;
  return cmocka_run_group_tests_name ("redistribute_data", data, NULL, NULL);
}
