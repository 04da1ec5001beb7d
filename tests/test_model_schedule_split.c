/* Schedules that split the backward pass: printed orders, published bubbles and peaks, and every
 * legal size played to its end by a player of the test's own. */
#include "model/error.h"
#include "model/schedule.h"
#include "tests/schedule_player.h"
#include "tests/testutil.h"

/* ---- printed orders, p = 4, m = 8: reference "schedules" §5–10, played there too ---- */

typedef struct {
  const char *name;
  ModelScheduleKind kind;
} OrderCase;

static const OrderCase order_cases[] = {
  { "zb-h1", MODEL_SCHEDULE_ZB_H1 },         { "zb-h2", MODEL_SCHEDULE_ZB_H2 },
  { "zb-v", MODEL_SCHEDULE_ZB_V },           { "v-half", MODEL_SCHEDULE_V_HALF },
  { "v-min", MODEL_SCHEDULE_V_MIN },         { "dualpipe", MODEL_SCHEDULE_DUALPIPE },
  { "dualpipev", MODEL_SCHEDULE_DUALPIPEV },
};

static ModelSchedule *
make (ModelScheduleKind kind, guint32 pp, guint32 m)
{
  g_autoptr (GError) error = NULL;
  ModelSchedule *schedule = model_schedule_new (kind, pp, model_schedule_chunks (kind), m, &error);
  assert_no_error (error);
  return schedule;
}

static void
test_order (void **state)
{
  const OrderCase *c = *state;
  g_autofree char *file = g_strconcat (c->name, ".txt", NULL);
  g_autofree char *path
      = g_build_filename (g_getenv ("PLAIT_TEST_DIR"), "golden", "schedules", file, NULL);
  g_autofree char *want = NULL;
  assert_true (g_file_get_contents (path, &want, NULL, NULL));
  g_autoptr (ModelSchedule) schedule = make (c->kind, 4, 8);
  g_autofree char *got = model_schedule_format (schedule);
  assert_string_equal (got, want);
}

/* ---- §1, first table ---- */

typedef struct {
  const char *name;
  ModelScheduleKind kind;
  double makespan[2], span[2]; /* F = Bi = W = 1; F = 1, Bi = 1.2, W = .8 */
  guint64 peak;                /* chunks, every rank */
} TableCase;

static const TableCase table_cases[] = {
  { "table/zb-h1", MODEL_SCHEDULE_ZB_H1, { 3, 4.2 }, { 3, 4.2 }, 4 },
  { "table/zb-h2", MODEL_SCHEDULE_ZB_H2, { 3, 3 }, { 0, 1.8 }, 7 },
  { "table/zb-v", MODEL_SCHEDULE_ZB_V, { 1.5, 1.8 }, { 0, 1.2 }, 8 },
  { "table/v-half", MODEL_SCHEDULE_V_HALF, { 2.5, 3.9 }, { 2.5, 3.9 }, 6 },
  { "table/v-min", MODEL_SCHEDULE_V_MIN, { 5.5, 10.4 }, { 5.5, 10.4 }, 4 },
  { "table/dualpipe", MODEL_SCHEDULE_DUALPIPE, { 2, 2.4 }, { 2, 2.4 }, 5 },
  { "table/dualpipev", MODEL_SCHEDULE_DUALPIPEV, { 3, 3.6 }, { 3, 3.6 }, 9 },
};

/* Times of a rank's share of the model: with two different chunks a pass takes half of it. */
static void
bubbles (ModelScheduleKind kind, guint32 pp, guint32 m, const double costs[3], double *makespan,
         double *span)
{
  g_autoptr (ModelSchedule) schedule = make (kind, pp, m);
  double part = model_schedule_is_folded (kind) ? 0.5 : 1;
  PlayCosts play = { .forward_s = { costs[0] * part },
                     .input_s = { costs[1] * part },
                     .weight_s = { costs[2] * part } };
  PlayResult result;
  assert_true (play_schedule (schedule, &play, &result));
  assert_near (result.busy_s, m * (costs[0] + costs[1] + costs[2]), 1e-12);
  *makespan = result.makespan_s - result.busy_s;
  *span = result.span_bubble_s;
}

static void
assert_within (double got, double want)
{
  if (!(fabs (got - want) < 1e-9))
    fail_msg ("got %.12g, want %.12g", got, want);
}

static void
test_table (void **state)
{
  static const double costs[2][3] = { { 1, 1, 1 }, { 1, 1.2, 0.8 } };
  const TableCase *c = *state;
  for (guint i = 0; i < 2; i++) {
    double makespan, span;
    bubbles (c->kind, 4, 8, costs[i], &makespan, &span);
    assert_within (makespan, c->makespan[i]);
    assert_within (span, c->span[i]);
  }
  g_autoptr (ModelSchedule) schedule = make (c->kind, 4, 8);
  for (guint32 rank = 0; rank < 4; rank++) {
    assert_int_equal (model_schedule_peak (schedule, rank, NULL, NULL), c->peak);
    assert_int_equal (model_schedule_in_flight (c->kind, 4, model_schedule_chunks (c->kind), 8,
                                                rank),
                      c->peak);
  }
}

/* ---- §1, second table: what survived the sweep p = 2, 4, 8, m >= 2p, five sets of costs ---- */

static const double sweep_costs[][3]
    = { { 1, 1, 1 }, { 1, 1.2, 0.8 }, { 1, 0.8, 1.2 }, { 1, 1.5, 0.5 }, { 1.3, 1, 1 } };

static void
check_straight (guint32 pp, guint32 m, const double costs[3])
{
  double f = costs[0], i = costs[1], w = costs[2], hops = pp - 1.0, makespan, span;
  bubbles (MODEL_SCHEDULE_ZB_H1, pp, m, costs, &makespan, &span);
  assert_within (makespan, hops * MAX (f, f + i - w));
  assert_within (span, hops * MAX (i, f + i - w));
  bubbles (MODEL_SCHEDULE_ZB_H2, pp, m, costs, &makespan, &span);
  assert_within (makespan, hops * MAX (f, f + i - 2 * w));
  assert_within (span, hops * MAX (0, f + i - 2 * w));
}

/* F = Bi = W only. */
static void
check_folded (guint32 pp, guint32 m)
{
  static const double ones[3] = { 1, 1, 1 };
  double makespan, span;
  bubbles (MODEL_SCHEDULE_ZB_V, pp, m, ones, &makespan, &span);
  assert_within (makespan, (pp - 1) / 2.0);
  assert_within (span, 0);
  bubbles (MODEL_SCHEDULE_DUALPIPEV, pp, m, ones, &makespan, &span);
  assert_within (makespan, pp - 1.0); /* (p − 1)(F&B + B − 3W)/2 = (p − 1)(3 + 2 − 3)/2 */
  assert_within (span, pp - 1.0);
  if (m % 2 == 0) {
    bubbles (MODEL_SCHEDULE_DUALPIPE, pp, m, ones, &makespan, &span);
    assert_within (makespan, 2 * (pp / 2.0 - 1));
    assert_within (span, 2 * (pp / 2.0 - 1));
  }
}

static void
test_closed_forms (void **state)
{
  for (guint32 pp = 2; pp <= 8; pp *= 2)
    for (guint32 m = 2 * pp; m <= 4 * pp + 1; m++) {
      for (guint i = 0; i < G_N_ELEMENTS (sweep_costs); i++)
        check_straight (pp, m, sweep_costs[i]);
      check_folded (pp, m);
    }
  static const double ones[3] = { 1, 1, 1 };
  double makespan, span;
  bubbles (MODEL_SCHEDULE_DUALPIPE, 16, 32, ones, &makespan, &span);
  assert_within (makespan, 14);
}

typedef struct {
  guint32 pp;
  double half, min;
} VCase;

/* V-Half, V-Min at F = Bi = W: makespan bubbles and, where printed, peaks over 2p. */
static void
test_v_bubbles (void **state)
{
  static const VCase cases[]
      = { { 4, 2.5, 5.5 }, { 8, 8.5, 13.5 }, { 16, 20.5, 29.5 }, { 24, 32.5, 44.5 } };
  static const double ones[3] = { 1, 1, 1 };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    double makespan, span;
    guint32 p = cases[i].pp;
    bubbles (MODEL_SCHEDULE_V_HALF, p, 2 * p, ones, &makespan, &span);
    assert_within (makespan, cases[i].half);
    bubbles (MODEL_SCHEDULE_V_MIN, p, 2 * p, ones, &makespan, &span);
    assert_within (makespan, cases[i].min);
  }
}

/* §8: V-Min loses with every micro-batch where costs are unequal, V-Half does not. */
static void
test_v_unequal_costs (void **state)
{
  static const double costs[3] = { 1, 1.2, 0.8 };
  double makespan, span;
  bubbles (MODEL_SCHEDULE_V_MIN, 8, 16, costs, &makespan, &span);
  assert_within (makespan, 23.7);
  bubbles (MODEL_SCHEDULE_V_MIN, 8, 32, costs, &makespan, &span);
  assert_within (makespan, 33.3);
  bubbles (MODEL_SCHEDULE_V_HALF, 8, 16, costs, &makespan, &span);
  assert_within (makespan, 11.5);
  bubbles (MODEL_SCHEDULE_V_HALF, 8, 32, costs, &makespan, &span);
  assert_within (makespan, 11.5);
}

/* §1, caution: DualPipe where costs differ, measured, not DeepSeek's formula. */
static void
test_dualpipe_caution (void **state)
{
  static const double costs[5][3]
      = { { 1, 1.2, 0.8 }, { 1, 0.8, 1.2 }, { 1, 1.5, 0.5 }, { 1.2, 1, 1 }, { 0.8, 1, 1 } };
  static const struct {
    guint32 pp, m;
    double want[5];
  } rows[] = { { 4, 8, { 2.4, 2.0, 3.0, 2.4, 1.6 } },  { 4, 12, { 2.4, 2.0, 3.0, 2.4, 1.6 } },
               { 8, 16, { 7.2, 6.0, 9.5, 7.2, 4.8 } }, { 8, 20, { 7.2, 6.0, 9.5, 7.2, 4.8 } },
               { 8, 32, { 7.2, 6.0, 9.5, 7.2, 4.8 } }, { 16, 32, { 17.2, 14, 23.5, 16.8, 11.8 } } };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    for (guint j = 0; j < 5; j++) {
      double makespan, span;
      bubbles (MODEL_SCHEDULE_DUALPIPE, rows[i].pp, rows[i].m, costs[j], &makespan, &span);
      assert_within (makespan, rows[i].want[j]);
    }
}

/* §1: ZB-H1 p, ZB-H2 2p − 1, ZB-V 2p, V-Half 2⌊p/2⌋ + 2, V-Min 2⌊(p + 1)/3⌋ + 2, DualPipe p + 1,
 * DualPipeV 2p + 1 chunks, on the fullest rank. */
static void
test_peaks (void **state)
{
  for (guint32 p = 2; p <= 24; p++) {
    const struct {
      ModelScheduleKind kind;
      guint32 want;
    } rows[] = { { MODEL_SCHEDULE_ZB_H1, p },
                 { MODEL_SCHEDULE_ZB_H2, 2 * p - 1 },
                 { MODEL_SCHEDULE_ZB_V, 2 * p },
                 { MODEL_SCHEDULE_V_HALF, 2 * (p / 2) + 2 },
                 { MODEL_SCHEDULE_V_MIN, 2 * ((p + 1) / 3) + 2 },
                 { MODEL_SCHEDULE_DUALPIPE, p + 1 },
                 { MODEL_SCHEDULE_DUALPIPEV, 2 * p + 1 } };
    for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
      guint32 v = model_schedule_chunks (rows[i].kind), m = 4 * p;
      guint64 most = 0;
      if (!model_schedule_legal (rows[i].kind, p, v, m, TRUE))
        continue;
      for (guint32 rank = 0; rank < p; rank++)
        most = MAX (most, model_schedule_in_flight (rows[i].kind, p, v, m, rank));
      if (most != rows[i].want)
        fail_msg ("%s p=%u: %" G_GUINT64_FORMAT ", want %u", model_schedule_name (rows[i].kind), p,
                  most, rows[i].want);
    }
  }
}

/* Every legal size: whole, ends, and the cheap peaks are those counted along the list. */
static void
check_size (ModelScheduleKind kind, guint32 pp, guint32 m)
{
  guint32 v = model_schedule_chunks (kind);
  static const double ones[3] = { 1, 1, 1 };
  g_autoptr (GError) error = NULL;
  double makespan, span;
  if (!model_schedule_legal (kind, pp, v, m, TRUE)) {
    assert_null (model_schedule_new (kind, pp, v, m, &error));
    assert_true (g_error_matches (error, MODEL_ERROR, MODEL_ERROR_ILLEGAL));
    return;
  }
  g_autoptr (ModelSchedule) schedule = make (kind, pp, m);
  if (!model_schedule_check (schedule, model_schedule_name (kind), &error))
    fail_msg ("p=%u m=%u: %s", pp, m, error->message);
  bubbles (kind, pp, m, ones, &makespan, &span);
  for (guint32 rank = 0; rank < pp; rank++) {
    guint64 want = model_schedule_peak (schedule, rank, NULL, NULL);
    if (model_schedule_in_flight (kind, pp, v, m, rank) != want)
      fail_msg ("%s p=%u m=%u rank %u: peak %" G_GUINT64_FORMAT, model_schedule_name (kind), pp, m,
                rank, want);
  }
}

static void
test_every_size (void **state)
{
  for (ModelScheduleKind kind = MODEL_SCHEDULE_ZB_H1; kind <= MODEL_SCHEDULE_DUALPIPEV; kind++)
    for (guint32 pp = 1; pp <= 9; pp++)
      for (guint32 m = 1; m <= 30; m++)
        check_size (kind, pp, m);
  static const guint32 large[][2]
      = { { 12, 100 }, { 16, 131 }, { 16, 400 }, { 7, 300 }, { 24, 160 } };
  for (ModelScheduleKind kind = MODEL_SCHEDULE_ZB_H1; kind <= MODEL_SCHEDULE_DUALPIPEV; kind++)
    for (guint i = 0; i < G_N_ELEMENTS (large); i++)
      check_size (kind, large[i][0], large[i][1]);
}

/* Peaks by chunk do not grow with m either: any weights, not only one each. */
static void
test_weighted_peaks (void **state)
{
  for (ModelScheduleKind kind = MODEL_SCHEDULE_ZB_H1; kind <= MODEL_SCHEDULE_DUALPIPEV; kind++)
    for (guint32 pp = 2; pp <= 8; pp += 2) {
      g_autoptr (ModelSchedule) longer = make (kind, pp, 20 * pp);
      const ModelSchedule *list = model_schedule_peaks (kind, pp, 20 * pp);
      for (guint32 rank = 0; rank < pp; rank++)
        for (guint64 share = 0; share <= 4; share++) {
          guint64 bytes[2] = { share, 4 - share }, waiting[2] = { 4, 3 * share };
          assert_int_equal (model_schedule_peak (list, rank, bytes, waiting),
                            model_schedule_peak (longer, rank, bytes, waiting));
        }
    }
}

/* ZB-H1, p = m = 2, rank 1: F0 I0 F1 I1 W0 W1. Kept 1, waiting 10: 1 10 11 20 10 0; all kept 1:
 * 1 1 2 2 1 0. Rank 0, F0 F1 I0 W0 I1 W1: 1 2 11 1 10 0. */
static void
test_waiting_peak (void **state)
{
  guint64 kept = 1, waiting = 10, huge = G_MAXUINT64;
  g_autoptr (ModelSchedule) schedule = make (MODEL_SCHEDULE_ZB_H1, 2, 2);
  assert_int_equal (model_schedule_peak (schedule, 1, &kept, &waiting), 20);
  assert_int_equal (model_schedule_peak (schedule, 1, &kept, NULL), 2);
  assert_int_equal (model_schedule_peak (schedule, 0, &kept, &waiting), 11);
  assert_int_equal (model_schedule_peak (schedule, 1, &kept, &huge), G_GUINT64_CONSTANT (1) << 60);
  assert_int_equal (model_schedule_peak (schedule, 0, &huge, NULL), G_GUINT64_CONSTANT (1) << 60);
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (order_cases) + G_N_ELEMENTS (table_cases) + 8];
  guint n = 0;
  ADD_ROWS (order_cases, test_order);
  ADD_ROWS (table_cases, test_table);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_closed_forms);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_v_bubbles);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_v_unequal_costs);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_dualpipe_caution);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_peaks);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_every_size);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_weighted_peaks);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_waiting_peak);
  return cmocka_run_group_tests_name ("schedule_split", tests, NULL, NULL);
}
