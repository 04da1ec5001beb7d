/* tests/test_app_shard.c - DTensor arithmetic as the command line asks for it. */
#include "app/shard.h"
#include "tests/testutil.h"

typedef struct {
  const char *dtype;
  guint64 sent_bytes; /* 0: refused */
} DtypeCase;

/* 1024 elements over 4 ranks, gathered: a ring sends each rank's quarter three times. */
static const DtypeCase cases[] = {
  { NULL, 3 * 256 * 2 }, { "fp32", 3 * 256 * 4 }, { "bf16", 3 * 256 * 2 },
  { "fp8", 3 * 256 },    { "mxfp8", 3 * 256 },    { "nvfp4", 0 }, /* not addressed one by one */
  { "int64", 0 },        { "fp64", 0 },
};

static void
test_dtype (void **state)
{
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;
    AppShard *shard = app_shard_new (NULL, "1024", "4", "S(0)", "R", cases[i].dtype, NULL, &error);
    if (cases[i].sent_bytes == 0) {
      assert_null (shard);
      assert_non_null (strstr (error->message, "one of bf16, fp16, fp8, mxfp8, fp32"));
      continue;
    }
    assert_no_error (error);
    assert_int_equal (shard->steps->len, 1);
    assert_int_equal (g_array_index (shard->steps, ModelRedistributeStep, 0).bytes_sent_per_rank,
                      cases[i].sent_bytes);
    app_shard_free (shard);
  }
}

int
main (void)
{
  static const struct CMUnitTest tests[] = { cmocka_unit_test (test_dtype) };
  return cmocka_run_group_tests_name ("app_shard", tests, NULL, NULL);
}
