/* Sequence, batch and dropout: the user's, the model's, or refused. */
#include "model/job.h"
#include "tests/testutil.h"

typedef struct {
  const char *name;
  guint64 model_seq, model_batch, seq, batch;
  double model_dropout, dropout;
  const char *refused; /* part of the message, or NULL */
  guint64 want_seq, want_batch;
  double want_dropout;
} JobCase;

#define TWO_63 (G_GUINT64_CONSTANT (1) << 63)

static const JobCase cases[] = {
  { "job/user_wins", 128, 8, 4096, 64, 0.1, 0.0, NULL, 4096, 64, 0.0 },
  { "job/model_fills_in", 128, 8, 0, 0, 0.1, -1, NULL, 128, 8, 0.1 },
  { "job/model_batch_only", 0, 8, 2048, 0, 0, -1, NULL, 2048, 8, 0 },
  { "job/refuses_no_seq", 0, 8, 0, 8, 0, -1,
    "model 'm' has no sequence length of its own: give --seq", 0, 0, 0 },
  { "job/refuses_no_batch", 128, 0, 0, 0, 0, -1, "give --global-batch", 0, 0, 0 },
  { "job/refuses_huge_seq", 128, 8, TWO_63, 0, 0, -1, "sequence length: found 9223372036854775808",
    0, 0, 0 },
  { "job/refuses_huge_batch", 128, 8, 0, G_MAXUINT64, 0, -1, "global batch: found", 0, 0, 0 },
  { "job/refuses_dropout_of_1", 128, 8, 0, 0, 0, 1, "dropout: found 1", 0, 0, 0 },
  { "job/refuses_huge_dropout", 128, 8, 0, 0, 0, 1e30, "dropout: found 1e+30", 0, 0, 0 },
  { "job/refuses_nan", 128, 8, 0, 0, 0, NAN, "dropout: found nan", 0, 0, 0 },
};

static void
test_job (void **state)
{
  const JobCase *c = *state;
  const ModelArch arch = { .name = (char *)"m",
                           .seq = c->model_seq,
                           .global_batch = c->model_batch,
                           .dropout = c->model_dropout };
  ModelJob job = { .seq = 77 };
  g_autoptr (GError) error = NULL;
  gboolean ok = model_job_init (&job, &arch, c->seq, c->batch, c->dropout, &error);
  assert_int_equal (ok, c->refused == NULL);
  if (c->refused != NULL) {
    assert_true (g_error_matches (error, MODEL_ERROR, MODEL_ERROR_BAD_VALUE));
    assert_non_null (strstr (error->message, c->refused));
    assert_int_equal (job.seq, 77);
    return;
  }
  assert_int_equal (job.phase, MODEL_PHASE_TRAIN);
  assert_int_equal (job.seq, c->want_seq);
  assert_int_equal (job.global_batch, c->want_batch);
  assert_near (job.dropout, c->want_dropout, 1e-15);
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (cases)];
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    tests[i] = (struct CMUnitTest){ .name = cases[i].name,
                                    .test_func = test_job,
                                    .initial_state = (void *)&cases[i] };
  return cmocka_run_group_tests_name ("job", tests, NULL, NULL);
}
