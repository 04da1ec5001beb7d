/* Orders against written-out lists, and every legal schedule played to its end. */
#include "base/philox.h"
#include "model/schedule.h"
#include "tests/testutil.h"

typedef struct {
  const char *name;
  ModelScheduleKind kind;
  guint32 pp, vpp, microbatches, rank;
  const char *want; /* chunk.micro-batch; chunk 0 is left out with one chunk */
} OrderCase;

/*
 * Lists worked out from the papers' rules by an independent generator, p = 4, m = 8:
 * GPipe (arXiv 1811.06965), 1F1B (2006.09503), interleaved (2104.04473, Megatron-core).
 */
static const OrderCase order_cases[] = {
  { "order/gpipe_any_rank", MODEL_SCHEDULE_GPIPE, 4, 1, 8, 2,
    "F0 F1 F2 F3 F4 F5 F6 F7 B0 B1 B2 B3 B4 B5 B6 B7" },
  { "order/1f1b_rank_0", MODEL_SCHEDULE_1F1B, 4, 1, 8, 0,
    "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7" },
  { "order/1f1b_rank_1", MODEL_SCHEDULE_1F1B, 4, 1, 8, 1,
    "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7" },
  { "order/1f1b_rank_2", MODEL_SCHEDULE_1F1B, 4, 1, 8, 2,
    "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7" },
  { "order/1f1b_rank_3", MODEL_SCHEDULE_1F1B, 4, 1, 8, 3,
    "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7" },
  { "order/1f1b_fewer_microbatches_than_ranks", MODEL_SCHEDULE_1F1B, 4, 1, 2, 0, "F0 F1 B0 B1" },
  { "order/1f1b_one_rank", MODEL_SCHEDULE_1F1B, 1, 1, 2, 0, "F0 B0 F1 B1" },
  { "order/interleaved_rank_0", MODEL_SCHEDULE_INTERLEAVED, 4, 2, 8, 0,
    "F0.0 F0.1 F0.2 F0.3 F1.0 F1.1 F1.2 F1.3 F0.4 F0.5 F0.6 B1.0 F0.7 B1.1 F1.4 B1.2 F1.5 B1.3 "
    "F1.6 B0.0 F1.7 B0.1 B0.2 B0.3 B1.4 B1.5 B1.6 B1.7 B0.4 B0.5 B0.6 B0.7" },
  { "order/interleaved_rank_1", MODEL_SCHEDULE_INTERLEAVED, 4, 2, 8, 1,
    "F0.0 F0.1 F0.2 F0.3 F1.0 F1.1 F1.2 F1.3 F0.4 B1.0 F0.5 B1.1 F0.6 B1.2 F0.7 B1.3 F1.4 B0.0 "
    "F1.5 B0.1 F1.6 B0.2 F1.7 B0.3 B1.4 B1.5 B1.6 B1.7 B0.4 B0.5 B0.6 B0.7" },
  { "order/interleaved_rank_2", MODEL_SCHEDULE_INTERLEAVED, 4, 2, 8, 2,
    "F0.0 F0.1 F0.2 F0.3 F1.0 F1.1 F1.2 B1.0 F1.3 B1.1 F0.4 B1.2 F0.5 B1.3 F0.6 B0.0 F0.7 B0.1 "
    "F1.4 B0.2 F1.5 B0.3 F1.6 B1.4 F1.7 B1.5 B1.6 B1.7 B0.4 B0.5 B0.6 B0.7" },
  { "order/interleaved_rank_3", MODEL_SCHEDULE_INTERLEAVED, 4, 2, 8, 3,
    "F0.0 F0.1 F0.2 F0.3 F1.0 B1.0 F1.1 B1.1 F1.2 B1.2 F1.3 B1.3 F0.4 B0.0 F0.5 B0.1 F0.6 B0.2 "
    "F0.7 B0.3 F1.4 B1.4 F1.5 B1.5 F1.6 B1.6 F1.7 B1.7 B0.4 B0.5 B0.6 B0.7" },
};

static void
test_order (void **state)
{
  const OrderCase *c = *state;
  g_autoptr (GError) error = NULL;
  g_autoptr (ModelSchedule) schedule
      = model_schedule_new (c->kind, c->pp, c->vpp, c->microbatches, &error);
  assert_no_error (error);
  g_autoptr (GString) got = g_string_new (NULL);
  const ModelStep *steps = model_schedule_rank (schedule, c->rank);
  for (guint32 i = 0; i < schedule->n_steps; i++) {
    g_string_append_printf (got, "%s%c", i > 0 ? " " : "",
                            steps[i].kind == MODEL_STEP_FORWARD ? 'F' : 'B');
    if (c->vpp > 1)
      g_string_append_printf (got, "%u.", steps[i].chunk);
    g_string_append_printf (got, "%u", steps[i].microbatch);
  }
  assert_string_equal (got->str, c->want);
}

/* When every (stage, micro-batch) ends, forward and backward; 0: not yet. */
typedef struct {
  const ModelSchedule *schedule;
  guint32 n_stages;
  double *forward_s, *backward_s; /* n_stages × microbatches */
  double forward_time_s, backward_time_s;
} Player;

static double *
slot (const Player *p, double *ends, guint32 stage, guint32 microbatch)
{
  return &ends[(gsize)stage * p->schedule->microbatches + microbatch];
}

/* The latest end of what @step waits for, or a negative number if that has not run. */
static double
ready_at (const Player *p, const ModelStep *step, guint32 stage)
{
  guint32 k = step->microbatch;
  if (step->kind == MODEL_STEP_FORWARD) {
    double before = stage > 0 ? *slot (p, p->forward_s, stage - 1, k) : 1e-9;
    return before > 0 ? before : -1;
  }
  double own = *slot (p, p->forward_s, stage, k);
  double after = stage + 1 < p->n_stages ? *slot (p, p->backward_s, stage + 1, k) : own;
  return own > 0 && after > 0 ? fmax (own, after) : -1;
}

/* Runs @rank's list as far as it goes. Returns: steps run now. */
static guint32
advance (Player *p, guint32 rank, guint32 *at, double *free_s)
{
  guint32 begin = *at;
  const ModelStep *steps = model_schedule_rank (p->schedule, rank);
  for (; *at < p->schedule->n_steps; (*at)++) {
    const ModelStep *step = &steps[*at];
    guint32 stage = model_schedule_stage (p->schedule->kind, p->schedule->pp, rank, step->chunk);
    gboolean forward = step->kind == MODEL_STEP_FORWARD;
    double ready_s = ready_at (p, step, stage);
    double *end_s = slot (p, forward ? p->forward_s : p->backward_s, stage, step->microbatch);
    if (ready_s < 0)
      break;
    assert_true (*end_s == 0); /* each (chunk, micro-batch) once */
    *free_s = fmax (*free_s, ready_s) + (forward ? p->forward_time_s : p->backward_time_s);
    *end_s = *free_s;
  }
  return *at - begin;
}

/* Plays to the end; fails on a deadlock. Returns: makespan, F = 1 and B = 2 per rank share. */
static double
play (const ModelSchedule *schedule)
{
  guint32 n_stages = schedule->pp * schedule->vpp, moved;
  g_autofree double *forward_s = g_new0 (double, (gsize)n_stages * schedule->microbatches);
  g_autofree double *backward_s = g_new0 (double, (gsize)n_stages * schedule->microbatches);
  g_autofree guint32 *at = g_new0 (guint32, schedule->pp);
  g_autofree double *free_s = g_new0 (double, schedule->pp);
  Player player
      = { schedule, n_stages, forward_s, backward_s, 1.0 / schedule->vpp, 2.0 / schedule->vpp };
  double makespan_s = 0;
  do {
    moved = 0;
    for (guint32 rank = 0; rank < schedule->pp; rank++)
      moved += advance (&player, rank, &at[rank], &free_s[rank]);
  } while (moved > 0);
  for (guint32 rank = 0; rank < schedule->pp; rank++) {
    assert_int_equal (at[rank], schedule->n_steps);
    makespan_s = fmax (makespan_s, free_s[rank]);
  }
  return makespan_s;
}

/* Most chunks alive at once on @rank, counted along its list. */
static guint64
peak_of (const ModelSchedule *schedule, guint32 rank)
{
  const ModelStep *steps = model_schedule_rank (schedule, rank);
  guint64 alive = 0, peak = 0;
  for (guint32 i = 0; i < schedule->n_steps; i++) {
    if (steps[i].kind == MODEL_STEP_FORWARD)
      alive++;
    else
      alive--;
    peak = MAX (peak, alive);
  }
  assert_int_equal (alive, 0);
  return peak;
}

/* Bubble (p − 1)(F + B)/v of makespan: GPipe, 1F1B for any m; interleaved for m a multiple of p. */
static void
check_schedule (ModelScheduleKind kind, guint32 pp, guint32 vpp, guint32 m)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ModelSchedule) schedule = model_schedule_new (kind, pp, vpp, m, &error);
  if (!model_schedule_legal (kind, pp, vpp, m, TRUE)) {
    assert_null (schedule);
    assert_true (g_error_matches (error, MODEL_ERROR, MODEL_ERROR_ILLEGAL));
    return;
  }
  assert_no_error (error);
  assert_int_equal (schedule->n_steps, 2 * vpp * m);
  assert_near (play (schedule), 3.0 * m + 3.0 * (pp - 1) / vpp, 1e-6);
  for (guint32 rank = 0; rank < pp; rank++)
    if (peak_of (schedule, rank) != model_schedule_in_flight (kind, pp, vpp, m, rank))
      fail_msg ("kind %d p=%u v=%u m=%u rank %u: peak %" G_GUINT64_FORMAT, kind, pp, vpp, m, rank,
                peak_of (schedule, rank));
}

static void
test_all_play_to_the_end (void **state)
{
  for (guint32 pp = 1; pp <= 9; pp++)
    for (guint32 m = 1; m <= 20; m++) {
      check_schedule (MODEL_SCHEDULE_1F1B, pp, 1, m);
      check_schedule (MODEL_SCHEDULE_GPIPE, pp, 1, m);
      for (guint32 vpp = 1; vpp <= 5; vpp++)
        check_schedule (MODEL_SCHEDULE_INTERLEAVED, pp, vpp, m);
    }
}

typedef struct {
  const char *name;
  ModelScheduleKind kind;
  guint32 pp, vpp;
  guint64 microbatches;
  guint32 rank;
  guint64 want;
} PeakCase;

/* p = 4, m = 8: 4 3 2 1 plain; 11 9 7 5 interleaved with two chunks; 8 8 8 8 GPipe. */
static const PeakCase peak_cases[] = {
  { "peak/1f1b_first", MODEL_SCHEDULE_1F1B, 4, 1, 8, 0, 4 },
  { "peak/1f1b_last", MODEL_SCHEDULE_1F1B, 4, 1, 8, 3, 1 },
  { "peak/1f1b_few_microbatches", MODEL_SCHEDULE_1F1B, 64, 1, 4, 0, 4 },
  { "peak/interleaved_first", MODEL_SCHEDULE_INTERLEAVED, 4, 2, 8, 0, 11 },
  { "peak/interleaved_second", MODEL_SCHEDULE_INTERLEAVED, 4, 2, 8, 1, 9 },
  { "peak/interleaved_last", MODEL_SCHEDULE_INTERLEAVED, 4, 2, 8, 3, 5 },
  { "peak/interleaved_175b", MODEL_SCHEDULE_INTERLEAVED, 8, 3, 64, 0, 31 }, /* 2·7 + 2·8 + 1 */
  { "peak/interleaved_m_is_p", MODEL_SCHEDULE_INTERLEAVED, 4, 2, 4, 0, 8 },
  { "peak/gpipe", MODEL_SCHEDULE_GPIPE, 4, 1, 8, 3, 8 },
  { "peak/huge_m", MODEL_SCHEDULE_1F1B, 2, 1, G_GUINT64_CONSTANT (1) << 40, 0, 2 },
};

static void
test_peak (void **state)
{
  const PeakCase *c = *state;
  assert_int_equal (model_schedule_in_flight (c->kind, c->pp, c->vpp, c->microbatches, c->rank),
                    c->want);
}

typedef struct {
  const char *name;
  ModelScheduleKind kind;
  guint32 pp, vpp, microbatches;
  ModelError want;
  const char *message;
} RefusalCase;

static const RefusalCase refusal_cases[] = {
  { "refuses/one_chunk_of_zb_v", MODEL_SCHEDULE_ZB_V, 4, 1, 8, MODEL_ERROR_ILLEGAL, "vpp=2" },
  { "refuses/one_rank_of_zb_v", MODEL_SCHEDULE_ZB_V, 1, 2, 8, MODEL_ERROR_ILLEGAL, "pp >= 2" },
  { "refuses/chunks_of_zb_h1", MODEL_SCHEDULE_ZB_H1, 4, 2, 8, MODEL_ERROR_ILLEGAL, "vpp=1" },
  { "refuses/odd_dualpipe", MODEL_SCHEDULE_DUALPIPE, 3, 2, 8, MODEL_ERROR_ILLEGAL, "pp even" },
  { "refuses/odd_microbatches", MODEL_SCHEDULE_DUALPIPE, 4, 2, 9, MODEL_ERROR_ILLEGAL, "even" },
  { "refuses/short_dualpipe", MODEL_SCHEDULE_DUALPIPE, 4, 2, 6, MODEL_ERROR_ILLEGAL, "2·pp" },
  { "refuses/short_dualpipev", MODEL_SCHEDULE_DUALPIPEV, 4, 2, 7, MODEL_ERROR_ILLEGAL, "2·pp" },
  { "refuses/file", MODEL_SCHEDULE_FILE, 4, 1, 8, MODEL_ERROR_UNSUPPORTED, "'file'" },
  { "refuses/no_microbatch", MODEL_SCHEDULE_1F1B, 4, 1, 0, MODEL_ERROR_ILLEGAL, "0 micro-batches" },
  { "refuses/chunks_of_1f1b", MODEL_SCHEDULE_1F1B, 4, 2, 8, MODEL_ERROR_ILLEGAL, "vpp=1" },
  { "refuses/chunks_of_gpipe", MODEL_SCHEDULE_GPIPE, 4, 2, 8, MODEL_ERROR_ILLEGAL, "vpp=1" },
  { "refuses/remainder", MODEL_SCHEDULE_INTERLEAVED, 4, 2, 10, MODEL_ERROR_ILLEGAL,
    "multiple of pp" },
  { "refuses/one_rank", MODEL_SCHEDULE_INTERLEAVED, 1, 2, 8, MODEL_ERROR_ILLEGAL, "pp >= 2" },
  { "refuses/no_rank", MODEL_SCHEDULE_1F1B, 0, 1, 8, MODEL_ERROR_ILLEGAL, "pp=0" },
  { "refuses/absurd_size", MODEL_SCHEDULE_1F1B, 1024, 1, G_MAXUINT32, MODEL_ERROR_BAD_VALUE,
    "make more than" },
};

static void
test_refusal (void **state)
{
  const RefusalCase *c = *state;
  g_autoptr (GError) error = NULL;
  g_autoptr (ModelSchedule) schedule
      = model_schedule_new (c->kind, c->pp, c->vpp, c->microbatches, &error);
  assert_null (schedule);
  assert_true (g_error_matches (error, MODEL_ERROR, (gint)c->want));
  assert_non_null (strstr (error->message, c->message));
}

/* Megatron-LM: interleaving needs pp > 1 with overlapped p2p, pp > 2 without. */
static void
test_overlap_decides_two_ranks (void **state)
{
  assert_true (model_schedule_legal (MODEL_SCHEDULE_INTERLEAVED, 2, 2, 8, TRUE));
  assert_false (model_schedule_legal (MODEL_SCHEDULE_INTERLEAVED, 2, 2, 8, FALSE));
  assert_true (model_schedule_legal (MODEL_SCHEDULE_INTERLEAVED, 3, 2, 9, FALSE));
}

/* Straight: chunk c of rank r is stage c·p + r. V: down and back up. DualPipe: mirrored copies. */
static void
test_placement (void **state)
{
  assert_int_equal (model_schedule_stage (MODEL_SCHEDULE_INTERLEAVED, 4, 3, 2), 11);
  assert_int_equal (model_schedule_stage (MODEL_SCHEDULE_ZB_V, 4, 0, 1), 7);
  assert_int_equal (model_schedule_stage (MODEL_SCHEDULE_ZB_V, 4, 3, 1), 4);
  assert_int_equal (model_schedule_stage (MODEL_SCHEDULE_DUALPIPE, 4, 0, 1), 3);
}

/* The closed form against the list, for chunks of any size; some of them keep nothing. */
static void
test_unequal_chunks (void **state)
{
  guint64 at = 0, n_later = 0;
  for (guint32 i = 0; i < 2000; i++) {
    guint32 pp = 1 + (guint32)base_philox_below (5, 3, at++, 8);
    guint32 vpp = 2 + (guint32)base_philox_below (5, 3, at++, 6);
    guint32 m = pp * (1 + (guint32)base_philox_below (5, 3, at++, 4));
    guint64 kept[8];
    for (guint32 chunk = 0; chunk < vpp; chunk++) {
      kept[chunk] = base_philox_below (5, 3, at++, 5) * 1000;
      kept[chunk] += base_philox_below (5, 3, at++, 3);
    }
    g_autoptr (ModelSchedule) list
        = model_schedule_new (MODEL_SCHEDULE_INTERLEAVED, pp, vpp, m, NULL);
    if (list == NULL)
      continue;
    for (guint32 rank = 0; rank < pp; rank++) {
      guint64 want = model_schedule_peak (list, rank, kept, NULL), warm = 0;
      guint64 got = model_schedule_interleaved_peak (pp, vpp, m, rank, kept);
      if (got != want)
        fail_msg ("p=%u v=%u m=%u rank %u: %" G_GUINT64_FORMAT " for %" G_GUINT64_FORMAT, pp, vpp,
                  m, rank, got, want);
      guint64 first = model_schedule_in_flight (MODEL_SCHEDULE_INTERLEAVED, pp, vpp, m, rank);
      for (guint64 pass = 0; pass < first; pass++)
        warm += kept[pass / pp % vpp];
      n_later += want > warm;
    }
  }
  assert_true (n_later > 1000); /* peaks after the warm-up are what the test is for */
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (order_cases) + G_N_ELEMENTS (peak_cases)
                          + G_N_ELEMENTS (refusal_cases) + 4];
  guint n = 0;
  ADD_ROWS (order_cases, test_order);
  ADD_ROWS (peak_cases, test_peak);
  ADD_ROWS (refusal_cases, test_refusal);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_all_play_to_the_end);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_overlap_decides_two_ranks);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_placement);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_unequal_chunks);
  return cmocka_run_group_tests_name ("schedule", tests, NULL, NULL);
}
