/* tests/schedule_player.h - plays any order by the words of reference "schedules" §0.
 *
 * Written apart from the library's players: stages and micro-batches are looked up by name, ranks
 * are tried again and again until nothing moves. Sends never block, messages take no time unless
 * told.
 */
#pragma once
#include "model/schedule.h"
#include "tests/testutil.h"

typedef struct {
  /* times of a stage (copy), or of every one when n_stages is 0 */
  guint32 n_stages;
  double forward_s[64], input_s[64], weight_s[64];
  double apart_s[64]; /* what an input gradient run apart costs beyond */
  double message_s;
} PlayCosts;

typedef struct {
  double makespan_s;    /* last end − first start, any rank */
  double busy_s;        /* most of any rank */
  double span_bubble_s; /* max over ranks of own last end − own first start − busy */
} PlayResult;

typedef struct {
  const ModelSchedule *s;
  const PlayCosts *costs;
  guint32 stages, passes;
  double *forward, *input; /* end of (direction, stage, micro-batch), < 0: not yet */
} Play;

static inline guint32
play_stage (const ModelSchedule *s, guint32 rank, guint32 chunk)
{
  switch (s->kind) {
  case MODEL_SCHEDULE_ZB_V:
  case MODEL_SCHEDULE_V_HALF:
  case MODEL_SCHEDULE_V_MIN:
  case MODEL_SCHEDULE_DUALPIPEV:
  case MODEL_SCHEDULE_FILE_V:
    return chunk == 0 ? rank : 2 * s->pp - 1 - rank;
  case MODEL_SCHEDULE_DUALPIPE:
  case MODEL_SCHEDULE_FILE_BIDIRECTIONAL:
    return chunk == 0 ? rank : s->pp - 1 - rank;
  default:
    return chunk * s->pp + rank;
  }
}

static inline gboolean
play_is_both_ways (const ModelSchedule *s)
{
  return s->kind == MODEL_SCHEDULE_DUALPIPE || s->kind == MODEL_SCHEDULE_FILE_BIDIRECTIONAL;
}

static inline gsize
play_at (const Play *p, guint32 chunk, guint32 stage, guint32 microbatch)
{
  guint32 direction = play_is_both_ways (p->s) ? chunk : 0;
  return ((gsize)direction * p->stages + stage) * p->passes + microbatch;
}

/* When the step may start, or a negative number. */
static inline double
play_ready (const Play *p, guint32 rank, const ModelStep *step)
{
  guint32 stage = play_stage (p->s, rank, step->chunk), k = step->microbatch;
  double own, other, c = p->costs->message_s;
  if (step->kind == MODEL_STEP_FORWARD) {
    if (stage == 0)
      return 0;
    other = p->forward[play_at (p, step->chunk, stage - 1, k)];
    gboolean same_rank = !play_is_both_ways (p->s) && p->s->vpp == 2 && stage == p->s->pp
                         && play_stage (p->s, rank, 0) + 1 == stage;
    return other < 0 ? -1 : other + (same_rank ? 0 : c);
  }
  if (step->kind == MODEL_STEP_BACKWARD_WEIGHT)
    return p->input[play_at (p, step->chunk, stage, k)];
  own = p->forward[play_at (p, step->chunk, stage, k)];
  if (stage + 1 == p->stages || own < 0)
    return own;
  other = p->input[play_at (p, step->chunk, stage + 1, k)];
  gboolean same_rank = !play_is_both_ways (p->s) && p->s->vpp == 2 && stage + 1 == p->s->pp
                       && play_stage (p->s, rank, 1) == stage + 1;
  return other < 0 ? -1 : MAX (own, other + (same_rank ? 0 : c));
}

static inline double
play_cost (const Play *p, guint32 rank, const ModelStep *step)
{
  const PlayCosts *costs = p->costs;
  guint32 at = costs->n_stages == 0 ? 0 : play_stage (p->s, rank, step->chunk);
  switch (step->kind) {
  case MODEL_STEP_FORWARD:
    return costs->forward_s[at];
  case MODEL_STEP_BACKWARD:
    return costs->input_s[at] + costs->weight_s[at];
  case MODEL_STEP_BACKWARD_INPUT:
    return costs->input_s[at] + costs->apart_s[at];
  default:
    return costs->weight_s[at];
  }
}

static inline void
play_set (Play *p, guint32 rank, const ModelStep *step, double end)
{
  gsize at = play_at (p, step->chunk, play_stage (p->s, rank, step->chunk), step->microbatch);
  if (step->kind == MODEL_STEP_FORWARD)
    p->forward[at] = end;
  else if (step->kind != MODEL_STEP_BACKWARD_WEIGHT)
    p->input[at] = end;
}

/* FALSE: the order never ends. */
static inline gboolean
play_schedule (const ModelSchedule *s, const PlayCosts *costs, PlayResult *out)
{
  guint32 stages = play_is_both_ways (s) ? s->pp : s->pp * s->vpp;
  Play p = { s, costs, stages, s->microbatches, NULL, NULL };
  gsize n = 2 * (gsize)stages * p.passes;
  g_autofree double *forward = p.forward = g_new (double, n);
  g_autofree double *input = p.input = g_new (double, n);
  g_autofree guint32 *at = g_new0 (guint32, s->pp);
  g_autofree double *clock = g_new0 (double, s->pp), *busy = g_new0 (double, s->pp);
  g_autofree double *start = g_new0 (double, s->pp);
  gboolean moved = TRUE;
  for (gsize i = 0; i < n; i++)
    forward[i] = input[i] = -1;
  while (moved) {
    moved = FALSE;
    for (guint32 r = 0; r < s->pp; r++)
      while (at[r] < s->n_used[r]) {
        const ModelStep *step = model_schedule_rank (s, r) + at[r];
        guint count = step->paired ? 2 : 1;
        double ready = 0, cost = 0;
        for (guint i = 0; i < count && ready >= 0; i++) {
          double one = play_ready (&p, r, &step[i]);
          ready = one < 0 ? -1 : MAX (ready, one);
          cost += play_cost (&p, r, &step[i]);
        }
        if (ready < 0)
          break;
        ready = MAX (ready, clock[r]);
        if (at[r] == 0)
          start[r] = ready;
        clock[r] = ready + cost;
        busy[r] += cost;
        for (guint i = 0; i < count; i++)
          play_set (&p, r, &step[i], clock[r]);
        at[r] += count;
        moved = TRUE;
      }
  }
  *out = (PlayResult){ 0 };
  double first = G_MAXDOUBLE;
  for (guint32 r = 0; r < s->pp; r++) {
    if (at[r] < s->n_used[r])
      return FALSE;
    first = MIN (first, start[r]);
    out->makespan_s = MAX (out->makespan_s, clock[r]);
    out->busy_s = MAX (out->busy_s, busy[r]);
    out->span_bubble_s = MAX (out->span_bubble_s, clock[r] - start[r] - busy[r]);
  }
  out->makespan_s -= first;
  return TRUE;
}
