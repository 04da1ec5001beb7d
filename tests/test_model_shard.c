/* Local shapes and offsets against DTensor's own, and what must hold for any placement. */
#include "base/csv.h"
#include "base/philox.h"
#include "model/shard.h"
#include "tests/testutil.h"

#define MAX_DIMS MODEL_SHARD_MAX_DIMS

/* "4x8192" or "scalar" */
static guint
parse_shape (const char *text, const char *separator, guint64 *out)
{
  if (g_str_equal (text, "scalar") || *text == '\0')
    return 0;
  g_auto (GStrv) parts = g_strsplit (text, separator, -1);
  guint n = g_strv_length (parts);
  for (guint i = 0; i < n; i++)
    out[i] = g_ascii_strtoull (parts[i], NULL, 10);
  return n;
}

static void
check_row (const BaseCsv *csv, guint row)
{
  guint64 shape[MAX_DIMS], mesh64[MAX_DIMS], want_shape[MAX_DIMS], want_offset[MAX_DIMS],
      got_shape[MAX_DIMS], got_offset[MAX_DIMS];
  guint32 mesh[MAX_DIMS];
  ModelPlacement placements[MAX_DIMS];
  guint n_placements;
  gboolean contiguous;
  g_autoptr (GError) error = NULL;
  const char *name = base_csv_get (csv, row, "case");
  guint n = parse_shape (base_csv_get (csv, row, "global_shape"), "x", shape);
  guint n_mesh = parse_shape (base_csv_get (csv, row, "mesh_shape"), "x", mesh64);
  for (guint i = 0; i < n_mesh; i++)
    mesh[i] = (guint32)mesh64[i];
  guint32 rank = (guint32)base_csv_number (csv, row, "rank");
  gboolean ok = model_placements_parse (base_csv_get (csv, row, "placements"), n, placements,
                                        MAX_DIMS, &n_placements, &error);
  assert_no_error (error);
  assert_true (ok && n_placements == n_mesh);
  assert_true (model_shard_local (shape, n, mesh, n_mesh, placements, rank, got_shape, got_offset,
                                  &contiguous, &error));
  assert_int_equal (parse_shape (base_csv_get (csv, row, "local_shape"), "x", want_shape), n);
  assert_int_equal (parse_shape (base_csv_get (csv, row, "global_offset"), ";", want_offset), n);
  for (guint i = 0; i < n; i++)
    if (got_shape[i] != want_shape[i] || got_offset[i] != want_offset[i])
      fail_msg ("%s rank %u dim %u: got size %" G_GUINT64_FORMAT " at %" G_GUINT64_FORMAT, name,
                rank, i, got_shape[i], got_offset[i]);
  if (contiguous != (base_csv_number (csv, row, "contiguous") == 1))
    fail_msg ("%s rank %u: contiguous is %d", name, rank, contiguous);
}

static void
test_published_cases (void **state)
{
  g_autofree char *path = test_data_path ("dtensor/dtensor_cases.csv");
  g_autoptr (GError) error = NULL;
  g_autoptr (BaseCsv) csv = base_csv_new_from_file (path, &error);
  assert_no_error (error);
  assert_true (base_csv_n_rows (csv) > 200);
  for (guint row = 0; row < base_csv_n_rows (csv); row++)
    check_row (csv, row);
}

typedef struct {
  const char *name;
  guint64 size, parts, index, want_offset, want_size;
} ChunkCase;

/* torch.chunk: pieces of ceil(n/k); what is left over is short, then empty. */
static const ChunkCase chunk_cases[] = {
  { "chunk/10_by_4_first", 10, 4, 0, 0, 3 },
  { "chunk/10_by_4_last_is_short", 10, 4, 3, 9, 1 },
  { "chunk/9_by_4_last_is_empty", 9, 4, 3, 9, 0 },
  { "chunk/17_by_8_sixth", 17, 8, 5, 15, 2 },
  { "chunk/17_by_8_seventh_is_empty", 17, 8, 6, 17, 0 },
  { "chunk/nothing", 0, 4, 2, 0, 0 },
  { "chunk/huge_index", 8, G_MAXUINT64, G_MAXUINT64 - 1, 8, 0 },
};

static void
test_chunk (void **state)
{
  const ChunkCase *c = *state;
  guint64 offset, size;
  model_shard_chunk (c->size, c->parts, c->index, &offset, &size);
  assert_int_equal (offset, c->want_offset);
  assert_int_equal (size, c->want_size);
}

/* A random one-dimensional tensor on a random mesh. */
static void
random_case (guint64 index, guint64 *out_size, guint32 *mesh, guint *out_n_mesh,
             ModelPlacement *placements)
{
  guint64 at = index * 16;
  *out_size = base_philox_below (7, 0, at++, 60);
  *out_n_mesh = 1 + (guint)base_philox_below (7, 0, at++, 3);
  for (guint i = 0; i < *out_n_mesh; i++) {
    mesh[i] = 1 + (guint32)base_philox_below (7, 0, at++, 5);
    gboolean strided = base_philox_below (7, 0, at++, 2) == 1;
    placements[i]
        = (ModelPlacement){ .kind = strided ? MODEL_PLACEMENT_STRIDED_SHARD : MODEL_PLACEMENT_SHARD,
                            .split_factor = 1 + (guint32)base_philox_below (7, 0, at++, 4) };
  }
}

/* Counts a contiguous shard's elements as held; no other shard may have them. */
static void
hold (guint8 *held, guint64 first, guint64 count)
{
  for (guint64 i = first; i < first + count; i++) {
    assert_int_equal (held[i], 0);
    held[i] = 1;
  }
}

/* Shards of all ranks, every mesh dimension sharding, hold every element once. */
static void
test_shards_tile (void **state)
{
  for (guint64 index = 0; index < 2000; index++) {
    guint64 size, sum = 0, first, shape, smallest = G_MAXUINT64;
    guint32 mesh[MAX_DIMS], ranks = 1;
    guint n_mesh;
    ModelPlacement placements[MAX_DIMS];
    guint8 held[60] = { 0 };
    gboolean contiguous;
    random_case (index, &size, mesh, &n_mesh, placements);
    for (guint i = 0; i < n_mesh; i++)
      ranks *= mesh[i];
    for (guint32 rank = 0; rank < ranks; rank++) {
      assert_true (model_shard_local (&size, 1, mesh, n_mesh, placements, rank, &shape, &first,
                                      &contiguous, NULL));
      sum += shape;
      assert_true (shape > 0 ? first < size : first == size);
      if (contiguous)
        hold (held, first, shape);
      if (shape > 0)
        smallest = MIN (smallest, first);
      assert_true (rank > 0 || shape >= size / ranks); /* the first rank has the largest shard */
    }
    assert_int_equal (sum, size);
    assert_true (size == 0 || smallest == 0);
  }
}

typedef struct {
  const char *name, *text;
  guint n_dims, max, want_n; /* want_n 0: refused */
  const char *want;          /* first placement, formatted; or part of the message */
} TextCase;

static const TextCase text_cases[] = {
  { "text/bracketed", "[S(0);R]", 2, 8, 2, "S(0)" },
  { "text/commas", "S(0),R", 2, 8, 2, "S(0)" },
  { "text/blanks", " [ S( 0 ) ; R ] ", 2, 8, 2, "S(0)" },
  { "text/negative_dim", "S(-1)", 3, 8, 1, "S(2)" },
  { "text/strided", "_S(0, 2)", 2, 8, 1, "_S(0, 2)" },
  { "text/strided_and_more", "[_S(0,4);_S(0,2);S(0)]", 2, 8, 3, "_S(0, 4)" },
  { "text/partial", "P", 2, 8, 1, "P" },
  { "text/partial_sum", "P(sum)", 2, 8, 1, "P" },
  { "text/partial_max", "P(max)", 2, 8, 1, "P(max)" },
  { "text/refuses_dim_out_of_range", "S(2)", 2, 8, 0, "with 2 dimensions" },
  { "text/refuses_negative_out_of_range", "S(-3)", 2, 8, 0, "with 2 dimensions" },
  { "text/refuses_scalar_shard", "S(0)", 0, 8, 0, "with 0 dimensions" },
  { "text/refuses_empty", "", 2, 8, 0, "found ''" },
  { "text/refuses_empty_item", "S(0),,R", 2, 8, 0, "found ''" },
  { "text/refuses_word", "Shard", 2, 8, 0, "found 'Shard'" },
  { "text/refuses_unclosed", "S(0", 2, 8, 0, "found 'S(0'" },
  { "text/refuses_junk_number", "S(0x)", 2, 8, 0, "found 'S(0x)'" },
  { "text/refuses_huge", "S(99999999999999999999)", 2, 8, 0, "expected S(dim)" },
  { "text/refuses_zero_factor", "_S(0,0)", 2, 8, 0, "split factor 0" },
  { "text/refuses_missing_factor", "_S(0)", 2, 8, 0, "found '_S(0)'" },
  { "text/refuses_unknown_reduction", "P(xor)", 2, 8, 0, "found 'P(xor)'" },
  { "text/refuses_too_many", "R,R,R", 2, 2, 0, "more than 2" },
};

static void
test_text (void **state)
{
  const TextCase *c = *state;
  ModelPlacement placements[MAX_DIMS];
  guint n = 99;
  g_autoptr (GError) error = NULL;
  gboolean ok = model_placements_parse (c->text, c->n_dims, placements, c->max, &n, &error);
  assert_int_equal (ok, c->want_n > 0);
  if (!ok) {
    assert_non_null (strstr (error->message, c->want));
    assert_int_equal (n, 99);
    return;
  }
  assert_int_equal (n, c->want_n);
  g_autofree char *text = model_placement_format (&placements[0]);
  assert_string_equal (text, c->want);
}

static void
test_refuses_bad_input (void **state)
{
  const ModelPlacement shard = { .kind = MODEL_PLACEMENT_SHARD, .dim = 1 };
  const ModelPlacement strided = { .kind = MODEL_PLACEMENT_STRIDED_SHARD, .dim = 0 };
  const ModelPlacement replicate = { .kind = MODEL_PLACEMENT_REPLICATE };
  guint64 size = 10, shape = 77, offset = 78;
  guint32 two = 2, none = 0;
  g_autoptr (GError) a = NULL, b = NULL, c = NULL, d = NULL;
  assert_false (model_shard_local (&size, 1, &two, 1, &shard, 0, &shape, &offset, NULL, &a));
  assert_false (model_shard_local (&size, 1, &two, 1, &strided, 0, &shape, &offset, NULL, &b));
  assert_false (model_shard_local (&size, 1, &none, 1, &replicate, 0, &shape, &offset, NULL, &c));
  assert_false (model_shard_local (&size, 1, &two, 1, &replicate, 2, &shape, &offset, NULL, &d));
  assert_non_null (strstr (d->message, "outside the mesh"));
  assert_int_equal (shape, 77);
  assert_int_equal (offset, 78);
}

int
main (void)
{
  enum { N_CHUNK = G_N_ELEMENTS (chunk_cases), N_TEXT = G_N_ELEMENTS (text_cases) };
  struct CMUnitTest tests[N_CHUNK + N_TEXT + 2];
  guint n = 0;
  for (guint i = 0; i < N_CHUNK; i++)
    tests[n++] = (struct CMUnitTest){ .name = chunk_cases[i].name,
                                      .test_func = test_chunk,
                                      .initial_state = (void *)&chunk_cases[i] };
  for (guint i = 0; i < N_TEXT; i++)
    tests[n++] = (struct CMUnitTest){ .name = text_cases[i].name,
                                      .test_func = test_text,
                                      .initial_state = (void *)&text_cases[i] };
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_shards_tile);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_refuses_bad_input);
  int failed = cmocka_run_group_tests_name ("shard", tests, NULL, NULL);
  g_autofree char *path = test_data_path ("dtensor/dtensor_cases.csv");
  if (failed != 0 || path == NULL)
    return failed != 0 ? failed : TEST_SKIPPED;
  const struct CMUnitTest data[] = { cmocka_unit_test (test_published_cases) };
  return cmocka_run_group_tests_name ("shard_data", data, NULL, NULL);
}
