/* The program run by one rank: gradients against finite differences of the loss, a loss that goes
 * down, memory that is what was predicted, and recomputation that changes nothing. */
#include "exec/run.h"
#include "exec/slice.h"
#include "tests/exec_fixture.h"

static const ExecBackend *backend;

typedef struct {
  const char *name;
  void (*fixture) (ExecFixture *);
  ModelAttnKernel attn;
  ModelRecompute recompute;
} Case;

static const Case cases[] = {
  { "llama/flash", exec_fixture_llama, MODEL_ATTN_FLASH, { .kind = MODEL_RECOMPUTE_NONE } },
  { "llama/unfused", exec_fixture_llama, MODEL_ATTN_UNFUSED, { .kind = MODEL_RECOMPUTE_NONE } },
  { "llama/full", exec_fixture_llama, MODEL_ATTN_FLASH, { .kind = MODEL_RECOMPUTE_FULL, .n = 1 } },
  { "llama/full_by_two",
    exec_fixture_llama,
    MODEL_ATTN_FLASH,
    { .kind = MODEL_RECOMPUTE_FULL, .n = 2 } },
  { "llama/selective",
    exec_fixture_llama,
    MODEL_ATTN_UNFUSED,
    { .kind = MODEL_RECOMPUTE_SELECTIVE, .modules = MODEL_RECOMPUTE_CORE_ATTN } },
  { "llama/selective_mlp_norm",
    exec_fixture_llama,
    MODEL_ATTN_FLASH,
    { .kind = MODEL_RECOMPUTE_SELECTIVE,
      .modules = MODEL_RECOMPUTE_MLP | MODEL_RECOMPUTE_LAYERNORM } },
  { "gpt/flash", exec_fixture_gpt, MODEL_ATTN_FLASH, { .kind = MODEL_RECOMPUTE_NONE } },
  { "gpt/full", exec_fixture_gpt, MODEL_ATTN_FLASH, { .kind = MODEL_RECOMPUTE_FULL, .n = 1 } },
};

static void
start (const Case *test, ExecFixture *f, ExecRank **out_rank, ExecRunner *runner)
{
  g_autoptr (GError) error = NULL;
  test->fixture (f);
  f->layout.attn = test->attn;
  f->layout.recompute = test->recompute;
  *out_rank = exec_rank_new (&f->arch, &f->job, &f->layout, &f->profile, 0, &error);
  assert_no_error (error);
  assert_true (
      exec_runner_init (runner, *out_rank, backend, EXEC_INJECT_NONE, G_MAXUINT64, &error));
  assert_no_error (error);
}

static double
loss_of (ExecRunner *runner)
{
  g_autoptr (GError) error = NULL;
  runner->hyper[0] = 0; /* weights stay */
  assert_true (exec_runner_step (runner, &error));
  assert_no_error (error);
  return runner->loss;
}

/* The loss with @more added to one element of the weights. */
static double
loss_with (ExecRunner *runner, guint64 at, float more)
{
  float before = 0, changed;
  backend->download (&before, exec_weights (runner) + at, 1);
  changed = before + more;
  backend->upload (exec_weights (runner) + at, &changed, 1);
  double loss = loss_of (runner);
  backend->upload (exec_weights (runner) + at, &before, 1);
  return loss;
}

/* Central differences along a direction of ones on each parameter: fp32 sums of a smooth function
 * with steps of 2e-3 leave about 1e-3 of the gradient's size. */
static void
test_gradients (void **state)
{
  const Case *test = *state;
  ExecFixture f;
  g_autoptr (ExecRank) rank = NULL;
  g_auto (ExecRunner) runner = { 0 };
  start (test, &f, &rank, &runner);
  loss_of (&runner);
  g_autofree float *gradient = g_new (float, rank->padded_count);
  backend->download (gradient, exec_gradients (&runner), rank->padded_count);
  for (guint i = 0; i < rank->n_params; i++) {
    const ExecParam *p = &rank->params[i];
    guint64 most = p->offset;
    for (guint64 j = p->offset; j < p->offset + p->count; j++)
      if (fabsf (gradient[j]) > fabsf (gradient[most]))
        most = j;
    const float step = 5e-3f;
    double above = loss_with (&runner, most, step), below = loss_with (&runner, most, -step);
    double want = (above - below) / (2 * step);
    if (!(fabs (gradient[most] - want) <= 2e-2 * fabs (want) + 2e-4)) {
      print_error ("%s, layer %u: gradient %g, differences give %g\n", p->name, p->layer,
                   gradient[most], want);
      fail ();
    }
  }
}

static void
test_learns (void **state)
{
  ExecFixture f;
  g_autoptr (ExecRank) rank = NULL;
  g_auto (ExecRunner) runner = { 0 };
  g_autoptr (GError) error = NULL;
  start (*state, &f, &rank, &runner);
  double first = 0;
  for (guint i = 0; i < 30; i++) {
    assert_true (exec_runner_step (&runner, &error));
    if (i == 0)
      first = runner.loss;
    assert_true (isfinite (runner.loss));
  }
  /* small weights: the first guess is all tokens alike, ln 31 = 3.434 */
  assert_near (first, log (31), 0.02);
  assert_true (runner.loss < 0.9 * first);
  assert_int_equal (runner.memory.arena.peak_bytes, runner.base_bytes);
}

/* Every element of the gradient with and without recomputation: the same operations, so the same
 * bits. */
static void
test_recompute (void **state)
{
  const Case *test = *state;
  Case plain = *test;
  ExecFixture f, g;
  g_autoptr (ExecRank) rank = NULL, plain_rank = NULL;
  g_auto (ExecRunner) runner = { 0 }, plain_runner = { 0 };
  plain.recompute = (ModelRecompute){ .kind = MODEL_RECOMPUTE_NONE };
  start (test, &f, &rank, &runner);
  start (&plain, &g, &plain_rank, &plain_runner);
  assert_true (loss_of (&runner) == loss_of (&plain_runner));
  gsize n = rank->padded_count;
  g_autofree float *with = g_new (float, n), *without = g_new (float, n);
  backend->download (with, exec_gradients (&runner), n);
  backend->download (without, exec_gradients (&plain_runner), n);
  assert_memory_equal (with, without, n * sizeof (float));
  if (test->recompute.kind == MODEL_RECOMPUTE_FULL)
    assert_true (runner.base_bytes <= plain_runner.base_bytes);
}

static double
gradient_of (const Case *test, ModelDtype dtype, float **out, guint64 *out_count)
{
  ExecFixture f;
  g_autoptr (GError) error = NULL;
  g_auto (ExecRunner) runner = { 0 };
  test->fixture (&f);
  f.layout.attn = test->attn;
  f.layout.dtype = dtype;
  g_autoptr (ExecRank) rank = exec_rank_new (&f.arch, &f.job, &f.layout, &f.profile, 0, &error);
  assert_no_error (error);
  assert_true (exec_runner_init (&runner, rank, backend, EXEC_INJECT_NONE, G_MAXUINT64, &error));
  double loss = loss_of (&runner);
  *out_count = rank->padded_count;
  *out = g_new (float, rank->padded_count);
  backend->download (*out, exec_gradients (&runner), rank->padded_count);
  return loss;
}

/* bf16 keeps 8 bits: each of some 40 roundings on the way is off by 2^-9 at most, at random: about
 * 1 % of a gradient's norm; a wrong index is off by all of it. */
static void
test_half (void **state)
{
  g_autofree float *wide = NULL, *half = NULL;
  guint64 n = 0;
  if (backend->bf16 == NULL)
    return;
  double loss = gradient_of (*state, MODEL_DTYPE_FP32, &wide, &n);
  assert_near (gradient_of (*state, MODEL_DTYPE_BF16, &half, &n), loss, 5e-3);
  double error = 0, norm = 0;
  for (guint64 i = 0; i < n; i++) {
    error += (half[i] - wide[i]) * (half[i] - wide[i]);
    norm += wide[i] * wide[i];
  }
  if (!(sqrt (error) <= 3e-2 * sqrt (norm))) {
    print_error ("gradients in bf16 are off by %g of their norm\n", sqrt (error / norm));
    fail ();
  }
}

/* In bf16 too the loss goes down: the fp32 weights collect what is too small for 8 bits. */
static void
test_half_learns (void **state)
{
  ExecFixture f;
  g_autoptr (GError) error = NULL;
  g_auto (ExecRunner) runner = { 0 };
  double first = 0;
  if (backend->bf16 == NULL)
    return;
  ((const Case *)*state)->fixture (&f);
  f.layout.dtype = MODEL_DTYPE_BF16;
  g_autoptr (ExecRank) rank = exec_rank_new (&f.arch, &f.job, &f.layout, &f.profile, 0, &error);
  assert_true (exec_runner_init (&runner, rank, backend, EXEC_INJECT_NONE, G_MAXUINT64, &error));
  for (guint i = 0; i < 30; i++) {
    assert_true (exec_runner_step (&runner, &error));
    first = i == 0 ? runner.loss : first;
  }
  assert_true (runner.loss < 0.9 * first);
}

/* Times by op, whether read around each op or from the device after the step: those of the last
 * step, every execution once, together no more than the step, and the same in both sums. */
static void
test_op_times (void **state)
{
  ExecFixture f;
  g_autoptr (GError) error = NULL;
  g_autoptr (ExecRank) rank = NULL;
  g_auto (ExecRunner) runner = { 0 };
  start (*state, &f, &rank, &runner);
  const ModelProgram *program = rank->program;
  g_autofree ExecOpTime *times = g_new0 (ExecOpTime, program->n_ops);
  for (guint32 i = 0; i < program->n_ops; i++)
    times[i].least_s = INFINITY;
  runner.op_times = times;
  for (guint step = 0; step < 3; step++) {
    double buckets_s[EXEC_N_BUCKETS] = { 0 }, sum_s = 0, start_s = exec_clock_s ();
    assert_true (exec_runner_step (&runner, &error));
    double step_s = exec_clock_s () - start_s;
    for (guint32 i = 0; i < program->n_ops; i++) {
      const ModelOp *op = &program->ops[i];
      assert_int_equal (times[i].count, op->phase == MODEL_PHASE_TAIL ? 1 : program->microbatches);
      assert_true (times[i].least_s >= 0
                   && times[i].least_s * times[i].count <= times[i].step_s * (1 + 1e-9));
      buckets_s[exec_op_bucket (op)] += times[i].step_s;
      sum_s += times[i].step_s;
    }
    assert_true (sum_s > 0 && sum_s <= step_s);
    for (guint b = 0; b < EXEC_N_BUCKETS; b++)
      assert_true (fabs (buckets_s[b] - runner.buckets[b].seconds) <= 1e-9 * step_s);
  }
}

/* ---- a device whose memory is full when the ranks' numbers are gathered ---- */

static guint news_left;

static float *
new_until_full (guint64 bytes)
{
  return news_left-- > 0 ? backend->memory_new (bytes) : NULL;
}

/* The other data-parallel rank is not there: a slice's transport answers for it. */
static void
test_no_memory_to_report (void **state)
{
  ExecFixture f;
  g_autoptr (GError) error = NULL;
  ExecResult result;
  ExecBackend poor = *exec_slice_of (backend, 0);
  (void)state;
  exec_fixture_llama (&f);
  f.layout.dp = 2;
  poor.memory_new = new_until_full;
  ExecRequest request = { .arch = &f.arch,
                          .job = &f.job,
                          .layout = &f.layout,
                          .profile = &f.profile,
                          .backend = &poor,
                          .steps = 1,
                          .limit_bytes = G_MAXUINT64 };
  news_left = 2; /* the arena and what is gathered */
  assert_true (exec_run (&request, 0, &result, &error));
  assert_no_error (error);
  news_left = 1;
  assert_false (exec_run (&request, 0, &result, &error));
  assert_true (g_error_matches (error, EXEC_ERROR, EXEC_ERROR_UNAVAILABLE));
  assert_non_null (strstr (error->message, "to gather what the ranks measured"));
}

/* Argument: the backend, cpu without. */
int
main (int argc, char **argv)
{
  struct CMUnitTest tests[6 * G_N_ELEMENTS (cases) + 1];
  g_autoptr (GError) error = NULL;
  guint n = 0;
  backend = exec_backend_load (argc > 1 ? argv[1] : "cpu", &error);
  if (backend == NULL)
    return TEST_SKIPPED;
  if (backend->open != NULL && !backend->open (0, &error)) {
    print_error ("%s\n", error->message);
    return 1;
  }
  backend->set_threads (1);
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    void (*functions[]) (void **) = { test_gradients, test_learns,      test_recompute,
                                      test_half,      test_half_learns, test_op_times };
    for (guint j = 0; j < G_N_ELEMENTS (functions); j++)
      tests[n++] = (struct CMUnitTest){ .name = cases[i].name,
                                        .test_func = functions[j],
                                        .initial_state = (void *)&cases[i] };
  }
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_no_memory_to_report);
  return cmocka_run_group_tests (tests, NULL, NULL);
}
