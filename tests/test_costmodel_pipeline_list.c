/* Split, folded and two-way schedules: the recurrence against a player that shares nothing with
 * it, and the closed form below both. */
#include "costmodel/pipeline.h"
#include "model/error.h"
#include "tests/schedule_player.h"
#include "tests/testutil.h"

typedef struct {
  PlayCosts costs;
  CostPipeline pipeline;
} Case;

/* A random legal schedule with uneven stages. */
static void
random_case (Case *c, GRand *rand, gboolean equal)
{
  guint32 kind, pp, v, m;
  do {
    kind = (guint32)g_rand_int_range (rand, MODEL_SCHEDULE_ZB_H1, MODEL_SCHEDULE_FILE);
    v = model_schedule_chunks (kind);
    pp = (guint32)g_rand_int_range (rand, 1, 10);
    m = (guint32)g_rand_int_range (rand, 1, 40);
  } while (!model_schedule_legal (kind, pp, v, m, TRUE));
  double f = g_rand_double_range (rand, 0.1, 2), i = g_rand_double_range (rand, 0.1, 2),
         w = g_rand_double_range (rand, 0.1, 2), spread = equal ? 0 : g_rand_double (rand) * 3;
  guint32 n = (guint32)model_schedule_n_stages (kind, pp, v);
  c->costs = (PlayCosts){ .n_stages = n };
  for (guint32 s = 0; s < n; s++) {
    c->costs.forward_s[s] = f * (1 + spread * g_rand_double (rand));
    c->costs.input_s[s] = i * (1 + spread * g_rand_double (rand));
    c->costs.weight_s[s] = w * (1 + spread * g_rand_double (rand));
    c->costs.apart_s[s] = g_rand_boolean (rand) ? 0.2 * g_rand_double (rand) : 0;
  }
  c->costs.message_s = g_rand_boolean (rand) ? g_rand_double (rand) : 0;
  c->pipeline = (CostPipeline){ .schedule = kind,
                                .pp = pp,
                                .vpp = v,
                                .microbatches = m,
                                .forward_s = c->costs.forward_s,
                                .backward_input_s = c->costs.input_s,
                                .backward_weight_s = c->costs.weight_s,
                                .apart_s = c->costs.apart_s,
                                .p2p_s = c->costs.message_s };
}

static void
play (const Case *c, CostPipelineScratch *scratch, CostPipelineResult *out)
{
  g_autoptr (GError) error = NULL;
  gboolean ok = cost_pipeline_recurrence (&c->pipeline, scratch, out, &error);
  assert_no_error (error);
  assert_true (ok);
}

static void
test_recurrence_is_brute_force (void **state)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (11);
  g_autoptr (CostPipelineScratch) scratch = cost_pipeline_scratch_new ();
  double loss_sum = 0;
  for (guint i = 0; i < 3000; i++) {
    Case c;
    CostPipelineResult got;
    PlayResult want;
    random_case (&c, rand, i % 4 == 0);
    const CostPipeline *pl = &c.pipeline;
    g_autoptr (ModelSchedule) schedule
        = model_schedule_new (pl->schedule, pl->pp, pl->vpp, (guint32)pl->microbatches, NULL);
    assert_true (play_schedule (schedule, &c.costs, &want));
    play (&c, scratch, &got);
    assert_near (got.makespan_s, want.makespan_s, 1e-12);
    assert_near (got.busy_s, want.busy_s, 1e-12);
    double bound = cost_pipeline_lower_bound (pl);
    assert_true (bound <= want.makespan_s * (1 + 1e-12));
    loss_sum += 1 - bound / want.makespan_s;
  }
  print_message ("bound is %.1f %% low on average\n", 100 * loss_sum / 3000);
  assert_true (loss_sum / 3000 < 0.25);
}

/* Reference "schedules" §1: with F = Bi = W the last rank is busy from its first forward to the
 * end, so the way there and its work is all: ZB-H1 and ZB-H2 (p − 1)F over 3m, ZB-V (p − 1)F/2. */
static void
test_bound_is_tight (void **state)
{
  static const struct {
    ModelScheduleKind kind;
    double part;
  } rows[]
      = { { MODEL_SCHEDULE_ZB_H1, 1 }, { MODEL_SCHEDULE_ZB_H2, 1 }, { MODEL_SCHEDULE_ZB_V, 0.5 } };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    for (guint32 pp = 2; pp <= 8; pp++) {
      guint32 v = model_schedule_chunks (rows[i].kind), m = 2 * pp + 1;
      double times[16];
      for (guint32 s = 0; s < pp * v; s++)
        times[s] = rows[i].part;
      CostPipeline pl = { .schedule = rows[i].kind,
                          .pp = pp,
                          .vpp = v,
                          .microbatches = m,
                          .forward_s = times,
                          .backward_input_s = times,
                          .backward_weight_s = times };
      Case c = { .pipeline = pl };
      CostPipelineResult got;
      g_autoptr (CostPipelineScratch) scratch = cost_pipeline_scratch_new ();
      play (&c, scratch, &got);
      assert_near (got.makespan_s, 3.0 * m + (pp - 1) * rows[i].part, 1e-12);
      assert_near (cost_pipeline_lower_bound (&pl), got.makespan_s, 1e-12);
    }
}

/*
 * DualPipe, p = 4, m = 8, F = 2, Bi = W = 1 of which .5 of F and .25 of B are exchanges. Rank 0
 * has 3 pairs of its 4 + 4 passes in each direction (reference "schedules" §9): each saves
 * min (.5, 2 − .25) + min (.25, 2 − .5) = .75. Rank 1 has 3 pairs too: busy 8·4 − 3·.75 = 29.75.
 */
static void
test_pairs_hide_exchanges (void **state)
{
  double two[4] = { 2, 2, 2, 2 }, one[4] = { 1, 1, 1, 1 };
  double f_ep[4] = { 0.5, 0.5, 0.5, 0.5 }, b_ep[4] = { 0.25, 0.25, 0.25, 0.25 };
  Case c = { .pipeline = { .schedule = MODEL_SCHEDULE_DUALPIPE,
                           .pp = 4,
                           .vpp = 2,
                           .microbatches = 8,
                           .forward_s = two,
                           .backward_input_s = one,
                           .backward_weight_s = one,
                           .forward_ep_s = f_ep,
                           .backward_ep_s = b_ep } };
  g_autoptr (CostPipelineScratch) scratch = cost_pipeline_scratch_new ();
  CostPipelineResult got;
  play (&c, scratch, &got);
  assert_near (got.busy_s, 29.75, 1e-12);
  assert_near (got.hidden_ep_s, 3 * 0.75, 1e-12);
  assert_near (got.mean_busy_s, 29.75, 1e-12);
  /* every exchange hidden: 8 · (4 − .75) and the way to a middle rank, 1.5 */
  assert_near (cost_pipeline_lower_bound (&c.pipeline), 8 * 3.25 + 1.5, 1e-12);
}

static void
test_list_must_fit (void **state)
{
  double one[4] = { 1, 1, 1, 1 };
  g_autoptr (ModelSchedule) list = model_schedule_new (MODEL_SCHEDULE_ZB_H1, 4, 1, 8, NULL);
  CostPipeline pl = { .schedule = MODEL_SCHEDULE_ZB_H1,
                      .pp = 4,
                      .vpp = 1,
                      .microbatches = 9,
                      .forward_s = one,
                      .backward_input_s = one,
                      .backward_weight_s = one,
                      .list = list };
  g_autoptr (CostPipelineScratch) scratch = cost_pipeline_scratch_new ();
  g_autoptr (GError) error = NULL;
  CostPipelineResult out = { .makespan_s = -1 };
  assert_false (cost_pipeline_recurrence (&pl, scratch, &out, &error));
  assert_true (g_error_matches (error, MODEL_ERROR, MODEL_ERROR_ILLEGAL));
  assert_true (out.makespan_s == -1);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_recurrence_is_brute_force),
    cmocka_unit_test (test_bound_is_tight),
    cmocka_unit_test (test_pairs_hide_exchanges),
    cmocka_unit_test (test_list_must_fit),
  };
  return cmocka_run_group_tests_name ("pipeline_list", tests, NULL, NULL);
}
