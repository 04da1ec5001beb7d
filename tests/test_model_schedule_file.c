/* A user's own order: read, refused with the reason, written back, and used by a layout. */
#include "model/error.h"
#include "model/schedule.h"
#include "tests/testutil.h"
#include <glib/gstdio.h>

typedef struct {
  const char *name, *text;
  gint code;
  const char *message;
} RefusalCase;

static const RefusalCase refusal_cases[] = {
  { "refuses/empty", "", MODEL_ERROR_PARSE, "f: found no step" },
  { "refuses/comment_only", "# nothing\n\n", MODEL_ERROR_PARSE, "found no step" },
  { "refuses/unknown_name", "r0: F0 X0 B0", MODEL_ERROR_PARSE,
    "f:1: found 'X0', expected F, B, I" },
  { "refuses/lower_case", "r0: f0 B0", MODEL_ERROR_PARSE, "found 'f0'" },
  { "refuses/no_number", "r0: F B0", MODEL_ERROR_PARSE, "found 'F'" },
  { "refuses/negative", "r0: F-1 B0", MODEL_ERROR_PARSE, "found 'F-1'" },
  { "refuses/2_63", "r0: F9223372036854775808 B0", MODEL_ERROR_PARSE,
    "found 'F9223372036854775808'" },
  { "refuses/trailing_text", "r0: F0. B0", MODEL_ERROR_PARSE, "found 'F0.'" },
  { "refuses/many_chunks", "r0: F64.0 B64.0", MODEL_ERROR_PARSE, "found 'F64.0'" },
  { "refuses/huge_microbatch", "r0: F268435455 B268435455", MODEL_ERROR_ILLEGAL,
    "rank 0 has 2 steps, expected at least 536870912" },
  { "refuses/line", "F0 B0", MODEL_ERROR_PARSE, "f:1: found 'F0', expected a rank" },
  { "refuses/rank_without_colon", "r0 F0 B0", MODEL_ERROR_PARSE, "found 'r0'" },
  { "refuses/rank_twice", "r0: F0 B0\nr0: F0 B0", MODEL_ERROR_PARSE,
    "f:2: found 'r0:', expected each" },
  { "refuses/rank_missing", "r1: F0 B0", MODEL_ERROR_PARSE, "rank 0 has no line" },
  { "refuses/many_ranks", "r65535: F0 B0", MODEL_ERROR_PARSE, "found 'r65535:'" },
  { "refuses/placement", "placement u\nr0: F0 B0", MODEL_ERROR_PARSE,
    "straight, v or bidirectional" },
  { "refuses/placement_twice", "placement v\nplacement v\n", MODEL_ERROR_PARSE, "f:2: found 'v'" },
  { "refuses/v_of_one_chunk", "placement v\nr0: F0 B0\nr1: F0 B0", MODEL_ERROR_PARSE,
    "placement v has 2 chunks on each of at least 2 ranks, found 1 on 2" },
  { "refuses/pair_of_forwards", "r0: (F0+F1) B0 B1", MODEL_ERROR_PARSE, "as in (F1.3+B0.1)" },
  { "refuses/open_pair", "r0: F0 (F1+B0", MODEL_ERROR_PARSE, "found '(F1+B0'" },
  { "refuses/missing_backward", "r0: F0 F1 B0 F2 B2 I1", MODEL_ERROR_ILLEGAL, "rank 0 lacks W1" },
  { "refuses/missing_microbatch", "r0: F0 B0 F1 B1\nr1: F0 B0 F0 B0", MODEL_ERROR_ILLEGAL,
    "rank 1 runs twice: F0" },
  { "refuses/both_backwards", "r0: F0 B0 I0 W0", MODEL_ERROR_ILLEGAL, "runs B beside I or W of" },
  { "refuses/weight_alone", "r0: F0 W0", MODEL_ERROR_ILLEGAL, "rank 0 lacks I0" },
  { "refuses/short_rank", "r0: F0 B0 F1 B1\nr1: F0 B0", MODEL_ERROR_ILLEGAL, "rank 1 has 2 steps" },
  { "refuses/backward_first", "r0: B0 F0", MODEL_ERROR_ILLEGAL,
    "never ends: rank 0 at B0 waits for F0 of rank 0" },
  { "refuses/weight_first", "r0: F0 W0 I0", MODEL_ERROR_ILLEGAL,
    "rank 0 at W0 waits for I0 of rank 0" },
  /* rank 0 wants B0 back before it sends F1, rank 1 wants F1 before it gives B0 */
  { "refuses/circle", "r0: F0 B0 F1 B1\nr1: F0 F1 B0 B1", MODEL_ERROR_ILLEGAL,
    "rank 0 at B0 waits for B0 of rank 1, rank 1 at F1 waits for F1 of rank 0" },
};

static void
test_refusal (void **state)
{
  const RefusalCase *c = *state;
  g_autoptr (GError) error = NULL;
  assert_null (model_schedule_read_text (c->text, "f", &error));
  assert_true (g_error_matches (error, MODEL_ERROR, c->code));
  if (strstr (error->message, c->message) == NULL || strchr (error->message, '\n') != NULL)
    fail_msg ("got: %s", error->message);
}

/* Every schedule's text is read back to the same lists, with its placement. */
static void
test_round_trip (void **state)
{
  for (ModelScheduleKind kind = 0; kind < MODEL_SCHEDULE_FILE; kind++) {
    guint32 v = kind == MODEL_SCHEDULE_INTERLEAVED ? 3 : model_schedule_chunks (kind);
    g_autoptr (GError) error = NULL;
    g_autoptr (ModelSchedule) made = model_schedule_new (kind, 4, v, 8, &error);
    assert_no_error (error);
    g_autofree char *text = model_schedule_format (made);
    g_autoptr (ModelSchedule) read = model_schedule_read_text (text, "f", &error);
    assert_no_error (error);
    g_autofree char *again = model_schedule_format (read);
    assert_string_equal (again, text);
    assert_int_equal (read->pp, 4);
    assert_int_equal (read->vpp, v);
    assert_int_equal (read->microbatches, 8);
    for (guint32 rank = 0; rank < 4; rank++)
      for (guint32 chunk = 0; chunk < v; chunk++)
        assert_int_equal (model_schedule_stage (read->kind, 4, rank, chunk),
                          model_schedule_stage (kind, 4, rank, chunk));
  }
}

static void
test_layout (void **state)
{
  static const char text[] = "# one F more than 1F1B\n\nr1: F0 B0 F1\tB1 \r\nr0: F0 F1 B0 B1 # end";
  ModelProfile profile = { 0 };
  g_autoptr (GError) error = NULL;
  g_autofree char *dir = g_dir_make_tmp ("plait-schedule-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (dir, "own.txt", NULL);
  g_autofree char *words = g_strconcat ("dp=2,schedule=file:", path, NULL);
  g_autofree char *want = g_strconcat ("pp=2,dp=2,schedule=file:", path, NULL);
  assert_true (g_file_set_contents (path, text, -1, NULL));
  g_auto (ModelLayout) layout = { 0 }, copy = { 0 };
  assert_true (model_layout_parse (&layout, words, &profile, &error));
  model_layout_copy (&copy, &layout);
  g_autofree char *got = model_layout_format (&copy, &profile);
  assert_string_equal (got, want);
  g_autoptr (ModelSchedule) list = model_schedule_for_layout (&copy, 2, &error);
  assert_true (list == layout.schedule_list);
  assert_null (model_schedule_for_layout (&copy, 3, &error));
  assert_true (g_error_matches (error, MODEL_ERROR, MODEL_ERROR_ILLEGAL));
  assert_non_null (strstr (error->message, "is for pp=2 vpp=1 and 2 micro-batches"));
  g_unlink (path);
  g_rmdir (dir);
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (refusal_cases) + 2];
  guint n = 0;
  for (guint i = 0; i < G_N_ELEMENTS (refusal_cases); i++)
    tests[n++] = (struct CMUnitTest){ .name = refusal_cases[i].name,
                                      .test_func = test_refusal,
                                      .initial_state = (void *)&refusal_cases[i] };
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_round_trip);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_layout);
  return cmocka_run_group_tests_name ("schedule_file", tests, NULL, NULL);
}
