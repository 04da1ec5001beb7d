/* tests/test_sim_play.c - the player against published schedules, tier 2, closed forms and itself. */
#include "sim/play.h"
#include "base/philox.h"
#include "tests/costmodel_setting.h"

/* ---- schedules alone: reference "schedules" §1 and its closed forms ---- */

typedef struct {
  const char *name;
  ModelScheduleKind kind;
  guint32 pp, vpp, microbatches;
  double f, i, w; /* times of one chunk are these over the chunks of a rank share */
  double makespan_bubble, span_bubble;
  guint32 peak[4]; /* of the first ranks, chunks; 0: not stated */
} ScheduleCase;

/* p = 4, m = 8: the table of §1, both cost sets; p = 8, m = 16 from its closed forms */
#define EQUAL  1, 1, 1
#define UNEVEN 1, 1.2, .8
static const ScheduleCase schedule_cases[] = {
  { "play/gpipe", MODEL_SCHEDULE_GPIPE, 4, 1, 8, EQUAL, 9, 9, { 8, 8, 8, 8 } },
  { "play/1f1b", MODEL_SCHEDULE_1F1B, 4, 1, 8, EQUAL, 9, 9, { 4, 3, 2, 1 } },
  { "play/interleaved", MODEL_SCHEDULE_INTERLEAVED, 4, 2, 8, EQUAL, 4.5, 4.5, { 11, 9, 7, 5 } },
  { "play/zb_h1", MODEL_SCHEDULE_ZB_H1, 4, 1, 8, EQUAL, 3, 3, { 4, 4, 4, 4 } },
  { "play/zb_h2", MODEL_SCHEDULE_ZB_H2, 4, 1, 8, EQUAL, 3, 0, { 7, 7, 7, 7 } },
  { "play/zb_v", MODEL_SCHEDULE_ZB_V, 4, 2, 8, EQUAL, 1.5, 0, { 8, 8, 8, 8 } },
  { "play/v_half", MODEL_SCHEDULE_V_HALF, 4, 2, 8, EQUAL, 2.5, 2.5, { 6, 6, 6, 6 } },
  { "play/v_min", MODEL_SCHEDULE_V_MIN, 4, 2, 8, EQUAL, 5.5, 5.5, { 4, 4, 4, 4 } },
  { "play/dualpipe", MODEL_SCHEDULE_DUALPIPE, 4, 2, 8, EQUAL, 2, 2, { 5, 5, 5, 5 } },
  { "play/dualpipev", MODEL_SCHEDULE_DUALPIPEV, 4, 2, 8, EQUAL, 3, 3, { 9, 9, 9, 9 } },
  { "play/gpipe_uneven", MODEL_SCHEDULE_GPIPE, 4, 1, 8, UNEVEN, 9, 9, { 8, 8, 8, 8 } },
  { "play/1f1b_uneven", MODEL_SCHEDULE_1F1B, 4, 1, 8, UNEVEN, 9, 9, { 4, 3, 2, 1 } },
  { "play/interleaved_uneven", MODEL_SCHEDULE_INTERLEAVED, 4, 2, 8, UNEVEN, 4.5, 4.5, { 0 } },
  { "play/zb_h1_uneven", MODEL_SCHEDULE_ZB_H1, 4, 1, 8, UNEVEN, 4.2, 4.2, { 4, 4, 4, 4 } },
  { "play/zb_h2_uneven", MODEL_SCHEDULE_ZB_H2, 4, 1, 8, UNEVEN, 3, 1.8, { 7, 7, 7, 7 } },
  { "play/zb_v_uneven", MODEL_SCHEDULE_ZB_V, 4, 2, 8, UNEVEN, 1.8, 1.2, { 8, 8, 8, 8 } },
  { "play/v_half_uneven", MODEL_SCHEDULE_V_HALF, 4, 2, 8, UNEVEN, 3.9, 3.9, { 6, 6, 6, 6 } },
  { "play/v_min_uneven", MODEL_SCHEDULE_V_MIN, 4, 2, 8, UNEVEN, 10.4, 10.4, { 4, 4, 4, 4 } },
  { "play/dualpipe_uneven", MODEL_SCHEDULE_DUALPIPE, 4, 2, 8, UNEVEN, 2.4, 2.4, { 5, 5, 5, 5 } },
  { "play/dualpipev_uneven", MODEL_SCHEDULE_DUALPIPEV, 4, 2, 8, UNEVEN, 3.6, 3.6, { 9, 9, 9, 9 } },
  { "play/gpipe_8", MODEL_SCHEDULE_GPIPE, 8, 1, 16, EQUAL, 21, 21, { 16, 16 } },
  { "play/1f1b_8", MODEL_SCHEDULE_1F1B, 8, 1, 16, EQUAL, 21, 21, { 8, 7, 6, 5 } },
  { "play/interleaved_8", MODEL_SCHEDULE_INTERLEAVED, 8, 2, 16, EQUAL, 10.5, 10.5, { 23, 21 } },
  { "play/zb_h1_8", MODEL_SCHEDULE_ZB_H1, 8, 1, 16, EQUAL, 7, 7, { 8, 8, 8, 8 } },
  { "play/zb_h2_8", MODEL_SCHEDULE_ZB_H2, 8, 1, 16, EQUAL, 7, 0, { 15, 15, 15, 15 } },
  { "play/zb_v_8", MODEL_SCHEDULE_ZB_V, 8, 2, 16, EQUAL, 3.5, 0, { 16, 16, 16, 16 } },
  { "play/v_half_8", MODEL_SCHEDULE_V_HALF, 8, 2, 16, EQUAL, 8.5, 8.5, { 10, 10 } },
  { "play/v_min_8", MODEL_SCHEDULE_V_MIN, 8, 2, 16, EQUAL, 13.5, 13.5, { 8, 8 } },
  { "play/dualpipe_8", MODEL_SCHEDULE_DUALPIPE, 8, 2, 16, EQUAL, 6, 6, { 9, 9, 9, 9 } },
  { "play/dualpipe_8_uneven", MODEL_SCHEDULE_DUALPIPE, 8, 2, 16, UNEVEN, 7.2, 7.2, { 9, 9, 9, 9 } },
  { "play/dualpipev_8", MODEL_SCHEDULE_DUALPIPEV, 8, 2, 16, EQUAL, 7, 7, { 17, 17, 17, 17 } },
};

/* First and last moment of every rank. */
typedef struct {
  double first_s[16], last_s[16], busy_s[16];
} Spans;

static void
note_span (const SimEvent *event, gpointer user_data)
{
  Spans *spans = user_data;
  if (event->stream != SIM_STREAM_COMPUTE)
    return;
  spans->first_s[event->rank] = MIN (spans->first_s[event->rank], event->start_s);
  spans->last_s[event->rank] = MAX (spans->last_s[event->rank], event->end_s);
  spans->busy_s[event->rank] += event->end_s - event->start_s;
}

static void
test_schedule (void **state)
{
  const ScheduleCase *c = *state;
  g_autoptr (GError) error = NULL;
  g_autoptr (ModelSchedule) schedule
      = model_schedule_new (c->kind, c->pp, c->vpp, c->microbatches, &error);
  Spans spans;
  SimPlayOptions options = { .event = note_span, .user_data = &spans };
  g_auto (SimResult) result = { 0 };
  double f[64], i[64], w[64];
  double chunks = c->kind == MODEL_SCHEDULE_DUALPIPE ? 1 : c->vpp;

  assert_no_error (error);
  for (guint s = 0; s < 64; s++) {
    f[s] = c->f / chunks;
    i[s] = c->i / chunks;
    w[s] = c->w / chunks;
  }
  for (guint r = 0; r < 16; r++)
    spans.first_s[r] = 1e9, spans.last_s[r] = spans.busy_s[r] = 0;
  CostPipeline times = { .schedule = c->kind,
                         .pp = c->pp,
                         .vpp = c->vpp,
                         .microbatches = c->microbatches,
                         .forward_s = f,
                         .backward_input_s = i,
                         .backward_weight_s = w };
  g_autoptr (SimPlay) play = sim_play_new_schedule (&times, schedule, &options, &error);
  assert_no_error (error);
  assert_true (sim_play_run (play, 0, &result, &error));
  double ideal = c->microbatches * (c->f + c->i + c->w), span = 0;
  for (guint r = 0; r < c->pp; r++)
    span = MAX (span, spans.last_s[r] - spans.first_s[r] - spans.busy_s[r]);
  assert_near (result.played_s, ideal + c->makespan_bubble, 1e-9);
  assert_true (span > c->span_bubble - 1e-9 && span < c->span_bubble + 1e-9);
  for (guint r = 0; r < 4 && c->peak[r] > 0; r++)
    assert_int_equal (result.ranks[r].peak_bytes, c->peak[r]);
}

/* ---- tier 2 and the play agree ---- */

typedef struct {
  const char *name, *model, *machine, *profile;
  guint32 gpus;
  guint64 seq, batch;
} Problem;

static const Problem problems[] = {
  { "play/agrees/gpt3_megatron", "gpt3-175b", "dgx-a100-80g", "megatron", 512, 2048, 512 },
  { "play/agrees/llama_nemo", "llama-3.1-70b", "hgx-h100", "nemo", 64, 8192, 128 },
  { "play/agrees/llama_torchtitan", "llama-3.1-8b", "hgx-h100", "torchtitan", 32, 8192, 64 },
  { "play/agrees/llama_fsdp", "llama-2-13b", "aws-p4d", "fsdp", 32, 4096, 64 },
  { "play/agrees/mixtral_megatron", "mixtral-8x7b", "hgx-h100", "megatron", 64, 4096, 128 },
  { "play/agrees/deepseek_nemo", "deepseek-v2", "hgx-h100", "nemo", 128, 4096, 256 },
  { "play/agrees/gpt2_pcie", "gpt2-xl", "rtx4090-8x-pcie", "nanotron", 16, 1024, 64 },
};

static guint64
pick (guint64 *at, guint64 bound)
{
  return base_philox_below (7, 11, (*at)++, bound);
}

static const char *const schedules[]
    = { "1f1b", "1f1b", "interleaved", "gpipe", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min",
        "dualpipe", "dualpipev" };
static const char *const recomputes[]
    = { "none", "none", "selective", "full", "full:block:1", "full:uniform:2" };

static char *
random_layout (guint64 *at)
{
  guint s = (guint)pick (at, G_N_ELEMENTS (schedules));
  GString *text = g_string_new (NULL);
  guint pp = s == 0 ? 1u << pick (at, 4) : 2u << pick (at, 3);
  g_string_append_printf (text, "schedule=%s,tp=%u,pp=%u,cp=%u,mbs=%u,recompute=%s", schedules[s],
                          1u << pick (at, 4), pp, 1u << pick (at, 2), 1u << pick (at, 2),
                          recomputes[pick (at, G_N_ELEMENTS (recomputes))]);
  if (g_str_equal (schedules[s], "interleaved"))
    g_string_append_printf (text, ",vpp=%u", 2 + (guint)pick (at, 2));
  g_string_append_printf (text, ",zero=%u", (guint)pick (at, 4));
  if (pick (at, 2))
    g_string_append (text, ",sp=1");
  if (pick (at, 3) == 0)
    g_string_append_printf (text, ",ep=%u", 2u << pick (at, 3));
  if (pick (at, 4) == 0)
    g_string_append (text, ",overlap_dp=1");
  return g_string_free (text, FALSE);
}

static void
play_layout (const Setting *s, const ModelLayout *layout, const SimPlayOptions *options,
             SimResult *out)
{
  g_autoptr (GError) error = NULL;
  g_auto (SimCase) c = { 0 };
  assert_true (sim_case_init (&c, &s->problem, layout, &error));
  g_autoptr (SimPlay) play = sim_play_new (&c, options, &error);
  assert_no_error (error);
  gboolean played = sim_play_run (play, 0, out, &error);
  assert_no_error (error);
  assert_true (played);
}

static void
test_agrees (void **state)
{
  const Problem *p = *state;
  Setting s;
  guint n = 0;
  guint64 at = (guint64)(p - problems) << 32;
  const guint wanted = 1000 / G_N_ELEMENTS (problems) + 1;
  double worst = 0, worst_pipe = 0, worst_memory = 0;

  setting_init (&s, p->model, p->machine, p->profile, p->gpus, p->seq, p->batch);
  for (guint tries = 0; n < wanted && tries < 200000; tries++) {
    g_autofree char *text = random_layout (&at);
    g_auto (ModelLayout) layout = { 0 };
    g_auto (CostPrediction) prediction = { 0 };
    g_auto (SimResult) result = { 0 };
    SimPlayOptions options = { 0 };
    if (!model_layout_parse (&layout, text, s.profile, NULL)
        || !model_layout_resolve (&layout, s.arch, &s.job, s.profile, p->gpus, NULL)
        || !cost_predict (&s.problem, &layout, &prediction, NULL))
      continue;
    play_layout (&s, &layout, &options, &result);
    if (!isfinite (prediction.step_s)) /* a network of unknown rate */
      continue;
    n++;
    double tier2_s = prediction.schedule_s + prediction.tail_s;
    double off = fabs (result.played_s / tier2_s - 1), pipe = fabs (result.pipeline_s / prediction.schedule_s - 1);
    if (off > 0.01 || pipe > 0.001)
      print_message ("%s: played %.9g tier 2 %.9g (%.4f), pipe %.9g %.9g\n", text, result.played_s, tier2_s, off, result.pipeline_s, prediction.schedule_s);
    for (guint r = 0; r < result.n_ranks; r++) {
      double m = fabs ((double)result.ranks[r].peak_bytes / (double)result.ranks[r].closed_bytes - 1);
      gboolean listed = model_schedule_is_listed (layout.schedule), full = layout.recompute.kind == MODEL_RECOMPUTE_FULL;
      if (cost_has_pairs (layout.schedule) || (full && (listed || layout.recompute.n > 1)))
        continue;
      gboolean even = TRUE;
      g_autofree guint32 *layers = g_new (guint32, model_layout_n_stages (&layout));
      model_stages_layers (s.arch, &layout, layers);
      for (guint k = 1; k < model_layout_n_stages (&layout); k++) even = even && layers[k] == layers[0];
      if (layout.schedule == MODEL_SCHEDULE_INTERLEAVED && !even) continue;
      if (m > 0.01)
        print_message ("%s: rank %u memory %" G_GUINT64_FORMAT " closed %" G_GUINT64_FORMAT " (%.4f) at %s\n", text, r, result.ranks[r].peak_bytes, result.ranks[r].closed_bytes, m, result.ranks[r].peak_op);
      worst_memory = MAX (worst_memory, m);
    }
    worst = MAX (worst, off);
    worst_pipe = MAX (worst_pipe, pipe);
  }
  print_message ("%s: %u layouts, worst %.5f, pipeline %.2g, memory %.4f\n", p->name, n, worst, worst_pipe, worst_memory);
  assert_int_equal (n, wanted);
  setting_clear (&s);
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (schedule_cases) + G_N_ELEMENTS (problems)];
  guint n = 0;
  for (gsize i = 0; i < G_N_ELEMENTS (schedule_cases); i++)
    tests[n++] = (struct CMUnitTest){ .name = schedule_cases[i].name,
                                      .test_func = test_schedule,
                                      .initial_state = (void *)&schedule_cases[i] };
  for (gsize i = 0; i < G_N_ELEMENTS (problems); i++)
    tests[n++] = (struct CMUnitTest){ .name = problems[i].name,
                                      .test_func = test_agrees,
                                      .initial_state = (void *)&problems[i] };
  return _cmocka_run_group_tests ("sim_play", tests, n, NULL, NULL);
}
