/* tests/test_costmodel_pipeline.c - closed form and recurrence against a player that follows the
 * dependencies of reference "schedules" §0 with nothing left out. */
#include "costmodel/pipeline.h"
#include "model/error.h"
#include "tests/testutil.h"

typedef struct {
  gboolean is_forward;
  guint32 stage;
  guint64 microbatch;
} Step;

/* The order of one rank by the words of reference "schedules" §2-4. Returns steps written. */
static gsize
list_steps (const CostPipeline *pl, guint32 rank, Step *out)
{
  guint64 p = pl->pp, v = pl->vpp, m = pl->microbatches, total = m * v, w;
  gsize n = 0;
  g_autofree Step *forward = g_new (Step, total), *backward = g_new (Step, total);
  for (guint64 first = 0; first < m; first += p)
    for (guint64 chunk = 0; chunk < v; chunk++)
      for (guint64 k = first; k < MIN (m, first + p); k++, n++) {
        forward[n] = (Step){ TRUE, (guint32)(chunk * p + rank), k };
        backward[n] = (Step){ FALSE, (guint32)((v - 1 - chunk) * p + rank), k };
      }
  if (pl->schedule == MODEL_SCHEDULE_GPIPE)
    w = total;
  else if (v == 1)
    w = MIN (m, p - 1 - rank);
  else
    w = MIN (total, 2 * (p - rank - 1) + (v - 1) * p);
  n = 0;
  for (guint64 i = 0; i < w; i++)
    out[n++] = forward[i];
  for (guint64 i = 0; i < total - w; i++) {
    out[n++] = forward[w + i];
    out[n++] = backward[i];
  }
  for (guint64 i = total - w; i < total; i++)
    out[n++] = backward[i];
  return n;
}

/* Ends of all operations, one rank after the other, again and again until nothing is left. */
static double
brute_force (const CostPipeline *pl)
{
  guint64 p = pl->pp, stages = p * pl->vpp, m = pl->microbatches, n = 2 * m * pl->vpp;
  g_autofree Step *steps = g_new (Step, p * n);
  g_autofree gsize *at = g_new0 (gsize, p);
  g_autofree double *clock = g_new0 (double, p);
  g_autofree double *end = g_new (double, 2 * stages * m);
  double makespan = 0;
  for (guint64 i = 0; i < 2 * stages * m; i++)
    end[i] = -1;
  for (guint32 r = 0; r < p; r++)
    assert_int_equal (list_steps (pl, r, steps + r * n), n);
  for (guint64 left = p * n, before = left + 1; left > 0;) {
    assert_true (left < before);
    before = left;
    for (guint32 r = 0; r < p; r++)
      for (; at[r] < n; at[r]++, left--) {
        const Step *step = &steps[r * n + at[r]];
        double *mine
            = &end[(step->is_forward ? 0 : stages * m) + step->stage * m + step->microbatch];
        double ready = 0, needs;
        if (step->is_forward && step->stage > 0) {
          needs = mine[-(gssize)m];
          ready = needs + pl->p2p_s;
        } else if (step->is_forward) {
          needs = 0;
        } else {
          needs = end[step->stage * m + step->microbatch]; /* own forward */
          if (needs >= 0 && step->stage + 1 < stages) {
            needs = mine[m];
            ready = needs + pl->p2p_s;
          }
        }
        if (needs < 0)
          break;
        clock[r] = MAX (clock[r], ready)
                   + (step->is_forward
                          ? pl->forward_s[step->stage]
                          : pl->backward_input_s[step->stage] + pl->backward_weight_s[step->stage]);
        *mine = clock[r];
        makespan = MAX (makespan, clock[r]);
      }
  }
  return makespan;
}

#define MAX_STAGES 64
typedef struct {
  double forward[MAX_STAGES], input[MAX_STAGES], weight[MAX_STAGES];
  CostPipeline pipeline;
} Case;

static void
case_sizes (Case *c, ModelScheduleKind schedule, guint32 pp, guint32 vpp, guint64 m)
{
  c->pipeline = (CostPipeline){ .schedule = schedule,
                                .pp = pp,
                                .vpp = vpp,
                                .microbatches = m,
                                .forward_s = c->forward,
                                .backward_input_s = c->input,
                                .backward_weight_s = c->weight };
}

static void
random_case (Case *c, GRand *rand, gboolean equal, gboolean messages)
{
  static const ModelScheduleKind kinds[]
      = { MODEL_SCHEDULE_1F1B, MODEL_SCHEDULE_INTERLEAVED, MODEL_SCHEDULE_GPIPE };
  ModelScheduleKind kind = kinds[g_rand_int_range (rand, 0, 3)];
  guint32 pp = g_rand_int_range (rand, kind == MODEL_SCHEDULE_INTERLEAVED ? 2 : 1, 9);
  guint32 vpp = kind == MODEL_SCHEDULE_INTERLEAVED ? g_rand_int_range (rand, 2, 5) : 1;
  guint64 m = g_rand_int_range (rand, 1, 30);
  if (vpp > 1)
    m = pp * (guint64)g_rand_int_range (rand, 1, 5);
  case_sizes (c, kind, pp, vpp, m);
  double f = g_rand_double_range (rand, 0.1, 2), i = g_rand_double_range (rand, 0.1, 2),
         w = g_rand_double_range (rand, 0.1, 2);
  /* From nearly equal stages to one that is ten times the others. */
  double spread = equal ? 0 : exp (g_rand_double_range (rand, -4, 1.5));
  for (guint s = 0; s < pp * vpp; s++) {
    c->forward[s] = f * (1 + spread * g_rand_double (rand));
    c->input[s] = i * (1 + spread * g_rand_double (rand));
    c->weight[s] = w * (1 + spread * g_rand_double (rand));
  }
  if (messages)
    c->pipeline.p2p_s = exp (g_rand_double_range (rand, -5, 1));
}

static double
recurrence (const CostPipeline *pl, CostPipelineResult *out)
{
  g_autoptr (CostPipelineScratch) scratch = cost_pipeline_scratch_new ();
  g_autoptr (GError) error = NULL;
  CostPipelineResult result;
  gboolean ok = cost_pipeline_recurrence (pl, scratch, &result, &error);
  assert_no_error (error);
  assert_true (ok);
  if (out != NULL)
    *out = result;
  return result.makespan_s;
}

/* Reference "schedules" §1, p = 4, m = 8, F = Bi = W = 1 and F = 1, Bi = 1.2, W = .8: bubble over
 * an ideal of 24; with v = 2 a chunk is half as long. */
static void
test_published (void **state)
{
  static const struct {
    ModelScheduleKind kind;
    guint32 vpp;
    double bubble;
  } rows[] = { { MODEL_SCHEDULE_GPIPE, 1, 9 },
               { MODEL_SCHEDULE_1F1B, 1, 9 },
               { MODEL_SCHEDULE_INTERLEAVED, 2, 4.5 } };
  static const double costs[2][3] = { { 1, 1, 1 }, { 1, 1.2, 0.8 } };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    for (guint j = 0; j < 2; j++) {
      Case c;
      case_sizes (&c, rows[i].kind, 4, rows[i].vpp, 8);
      for (guint s = 0; s < 8; s++) {
        c.forward[s] = costs[j][0] / rows[i].vpp;
        c.input[s] = costs[j][1] / rows[i].vpp;
        c.weight[s] = costs[j][2] / rows[i].vpp;
      }
      CostPipelineResult result;
      assert_near (recurrence (&c.pipeline, &result), 24 + rows[i].bubble, 1e-12);
      assert_near (result.busy_s, 24, 1e-12);
      assert_near (cost_pipeline_lower_bound (&c.pipeline), 24 + rows[i].bubble, 1e-12);
      assert_near (brute_force (&c.pipeline), 24 + rows[i].bubble, 1e-12);
    }
}

static void
test_recurrence_is_brute_force (void **state)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (1);
  for (guint i = 0; i < 4000; i++) {
    Case c;
    random_case (&c, rand, i % 5 == 0, i % 2 == 0);
    assert_near (recurrence (&c.pipeline, NULL), brute_force (&c.pipeline), 1e-10);
  }
}

static void
test_bound_is_admissible (void **state)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (2);
  double loss_sum = 0;
  guint n = 6000;
  for (guint i = 0; i < n; i++) {
    Case c;
    random_case (&c, rand, i % 6 == 0, i % 2 == 0);
    double bound = cost_pipeline_lower_bound (&c.pipeline), exact = brute_force (&c.pipeline);
    if (bound > exact * (1 + 1e-12))
      print_error ("schedule %d p %u v %u m %u c %g: bound %.15g, exact %.15g\n",
                   c.pipeline.schedule, c.pipeline.pp, c.pipeline.vpp,
                   (guint)c.pipeline.microbatches, c.pipeline.p2p_s, bound, exact);
    assert_true (bound <= exact * (1 + 1e-12));
    loss_sum += 1 - bound / exact;
  }
  print_message ("bound is %.2f %% low on average\n", 100 * loss_sum / n);
  assert_true (loss_sum / n < 0.05);
}

/* Without messages always, with messages for 1F1B and GPipe. */
static void
test_bound_is_tight_for_equal_stages (void **state)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (3);
  for (guint i = 0; i < 4000; i++) {
    Case c;
    random_case (&c, rand, TRUE, i % 2 == 0);
    if (c.pipeline.vpp > 1)
      c.pipeline.p2p_s = 0;
    assert_near (cost_pipeline_lower_bound (&c.pipeline), brute_force (&c.pipeline), 1e-11);
    /* (m·v + p − 1)·(F + B) without messages */
    if (c.pipeline.p2p_s == 0)
      assert_near (cost_pipeline_lower_bound (&c.pipeline),
                   ((double)c.pipeline.microbatches * c.pipeline.vpp + c.pipeline.pp - 1)
                       * (c.forward[0] + c.input[0] + c.weight[0]),
                   1e-11);
  }
}

/* First, equal inner and last stage: runs give what the list of ranks gives, or less. */
static void
test_runs_match_ranks (void **state)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (4);
  for (guint i = 0; i < 3000; i++) {
    Case c;
    random_case (&c, rand, TRUE, i % 2 == 0);
    guint32 p = c.pipeline.pp, v = c.pipeline.vpp, last = p * v - 1;
    c.forward[0] += i % 3 ? g_rand_double (rand) : 0;
    c.weight[last] += i % 4 ? g_rand_double (rand) * 2 : 0;
    CostPipelineRun runs[3];
    guint n_runs = 0;
    for (guint32 r = 0; r < p; r++) {
      CostPipelineRun run = { .n_ranks = 1 };
      for (guint32 chunk = 0; chunk < v; chunk++) {
        guint32 s = chunk * p + r;
        run.last_forward_s = c.forward[s];
        run.last_backward_s = c.input[s] + c.weight[s];
        run.forward_s += run.last_forward_s;
        run.backward_s += run.last_backward_s;
        if (chunk == 0) {
          run.first_forward_s = run.last_forward_s;
          run.first_backward_s = run.last_backward_s;
        }
      }
      if (r > 1 && r < p - 1)
        runs[n_runs - 1].n_ranks++;
      else
        runs[n_runs++] = run;
    }
    double by_runs
        = cost_pipeline_lower_bound_runs (c.pipeline.schedule, p, v, c.pipeline.microbatches,
                                          c.pipeline.p2p_s, runs, n_runs);
    double by_ranks = cost_pipeline_lower_bound (&c.pipeline);
    assert_true (by_runs <= by_ranks * (1 + 1e-12));
    if (v == 1)
      assert_near (by_runs, by_ranks, 1e-11);
    else
      assert_true (by_runs >= by_ranks * 0.98);
  }
}

/* Long steps: the linear extension against playing all of it. */
static void
test_extension (void **state)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (5);
  guint extended = 0;
  for (guint i = 0; i < 120; i++) {
    Case c;
    random_case (&c, rand, i % 3 == 0, i % 2 == 0);
    if (c.pipeline.schedule == MODEL_SCHEDULE_GPIPE)
      c.pipeline.schedule = MODEL_SCHEDULE_1F1B;
    c.pipeline.microbatches = c.pipeline.pp * (guint64)g_rand_int_range (rand, 40, 2000 / 8);
    CostPipelineResult result;
    double got = recurrence (&c.pipeline, &result);
    assert_near (got, brute_force (&c.pipeline), 1e-9);
    extended += result.played_count < c.pipeline.microbatches;
  }
  print_message ("%u of 120 extended\n", extended);
  assert_true (extended > 100);
}

/* A heavy last stage (the head): it never waits, so the step is the way to it and back, (p−1)·3,
 * plus its own m·5: p = 4, m = 16 gives 9 + 80. */
static void
test_heavy_head (void **state)
{
  Case c;
  case_sizes (&c, MODEL_SCHEDULE_1F1B, 4, 1, 16);
  for (guint s = 0; s < 4; s++)
    c.forward[s] = c.input[s] = c.weight[s] = 1;
  c.forward[3] = c.input[3] = 2;
  CostPipelineResult result;
  assert_near (recurrence (&c.pipeline, &result), 89, 1e-12);
  assert_near (cost_pipeline_lower_bound (&c.pipeline), 89, 1e-12);
  assert_int_equal (result.critical_rank, 3);
  assert_near (result.busy_s, 80, 1e-12);
}

static void
test_refusals (void **state)
{
  static const struct {
    CostPipeline pipeline;
    int code;
  } rows[] = {
    { { .schedule = MODEL_SCHEDULE_FILE, .pp = 4, .vpp = 1, .microbatches = 8 },
      MODEL_ERROR_UNSUPPORTED },
    { { .schedule = MODEL_SCHEDULE_ZB_V, .pp = 4, .vpp = 1, .microbatches = 8 },
      MODEL_ERROR_ILLEGAL },
    { { .schedule = MODEL_SCHEDULE_DUALPIPE, .pp = 4, .vpp = 2, .microbatches = 7 },
      MODEL_ERROR_ILLEGAL },
    { { .schedule = MODEL_SCHEDULE_1F1B, .pp = 0, .vpp = 1, .microbatches = 8 },
      MODEL_ERROR_ILLEGAL },
    { { .schedule = MODEL_SCHEDULE_1F1B, .pp = 4, .vpp = 1, .microbatches = 0 },
      MODEL_ERROR_ILLEGAL },
    { { .schedule = MODEL_SCHEDULE_1F1B, .pp = 4, .vpp = 2, .microbatches = 8 },
      MODEL_ERROR_ILLEGAL },
    { { .schedule = MODEL_SCHEDULE_INTERLEAVED, .pp = 4, .vpp = 2, .microbatches = 9 },
      MODEL_ERROR_ILLEGAL },
    { { .schedule = MODEL_SCHEDULE_INTERLEAVED, .pp = 60000, .vpp = 60000, .microbatches = 60000 },
      MODEL_ERROR_ILLEGAL },
    { { .schedule = MODEL_SCHEDULE_1F1B, .pp = 4, .vpp = 1, .microbatches = G_MAXUINT64 },
      MODEL_ERROR_ILLEGAL },
  };
  g_autoptr (CostPipelineScratch) scratch = cost_pipeline_scratch_new ();
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (GError) error = NULL;
    CostPipelineResult out = { .makespan_s = -1 };
    assert_false (cost_pipeline_recurrence (&rows[i].pipeline, scratch, &out, &error));
    assert_true (g_error_matches (error, MODEL_ERROR, rows[i].code));
    assert_true (out.makespan_s == -1);
  }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_published),
    cmocka_unit_test (test_recurrence_is_brute_force),
    cmocka_unit_test (test_bound_is_admissible),
    cmocka_unit_test (test_bound_is_tight_for_equal_stages),
    cmocka_unit_test (test_runs_match_ranks),
    cmocka_unit_test (test_extension),
    cmocka_unit_test (test_heavy_head),
    cmocka_unit_test (test_refusals),
  };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
