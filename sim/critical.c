/* sim/critical.c - the longest chain of a play: from the end back to what each thing waited for. */
#include "sim/play-private.h"

#include <string.h>

/* Steps by what they make: who ran (place, micro-batch, forward or gradient). */
typedef struct {
  const SimPlay *play;
  guint32 lane;
  guint32 *forward, *gradient; /* (owned) step by place and micro-batch */
} Finder;

static void
finder_init (Finder *finder, const SimPlay *play, guint32 lane)
{
  const ModelSchedule *s = play->schedule;
  gsize n = play->n_places * play->passes;

  *finder = (Finder){ play, lane, g_new0 (guint32, 2 * n), NULL };
  finder->gradient = finder->forward + n;
  for (guint32 r = 0; r < s->pp; r++)
    for (guint32 i = 0; i < s->n_used[r]; i++) {
      const ModelStep *step = model_schedule_rank (s, r) + i;
      guint32 place = model_schedule_place (s->kind, s->pp, r, step->chunk);
      gsize at = place * play->passes + step->microbatch;
      if (step->kind == MODEL_STEP_FORWARD)
        finder->forward[at] = i;
      else if (step->kind != MODEL_STEP_BACKWARD_WEIGHT)
        finder->gradient[at] = i;
    }
}

/* Place whose result @step of @pp_rank waits for, or NOBODY. */
static guint32
place_before (const ModelSchedule *s, guint32 pp_rank, const ModelStep *step)
{
  guint32 place = model_schedule_place (s->kind, s->pp, pp_rank, step->chunk);

  if (step->kind == MODEL_STEP_FORWARD)
    return model_schedule_is_first (s->kind, s->pp, place) ? NOBODY : place - 1;
  if (step->kind == MODEL_STEP_BACKWARD_WEIGHT
      || model_schedule_is_last (s->kind, s->pp, s->vpp, place))
    return NOBODY;
  return place + 1;
}

static void
add_step (GArray *chain, const Player *player, const ModelStep *step, guint32 index,
          gboolean was_message)
{
  SimCriticalStep at = { player->rank,
                         step->chunk,
                         step->microbatch,
                         step->kind,
                         (guint8)was_message,
                         player->step_start_s[index],
                         player->step_end_s[index] };
  g_array_append_val (chain, at);
}

/* The parts of a pass, as far as it took longer than alone scaled to what it took. */
static void
add_parts (const SimPlay *play, const Player *player, guint32 index, double *parts_s)
{
  const ModelStep *step = model_schedule_rank (play->schedule, player->pp_rank) + index;
  guint32 stage
      = model_schedule_stage (play->schedule->kind, play->pp, player->pp_rank, step->chunk);
  guint n = index + 1 < play->schedule->n_used[player->pp_rank] && step->paired ? 2 : 1;
  double took_s = player->step_end_s[index] - player->step_start_s[index], alone_s = 0;
  double sum_s[COST_PART_N_KINDS] = { 0 };

  for (guint i = 0; i < n; i++) {
    stage = model_schedule_stage (play->schedule->kind, play->pp, player->pp_rank, step[i].chunk);
    const SimTape *tape = &play->tapes.tapes[play->content_of_stage[stage]][step[i].kind];
    for (guint part = 0; part < COST_PART_N_KINDS; part++)
      sum_s[part] += tape->parts_s[part];
    if (step[i].kind != MODEL_STEP_BACKWARD_WEIGHT && play->pp > 1)
      sum_s[COST_PART_OTHER] += play->messages.host_s;
  }
  sum_s[COST_PART_P2P] += play->messages.receive_s;
  for (guint part = 0; part < COST_PART_N_KINDS; part++)
    alone_s += sum_s[part];
  for (guint part = 0; part < COST_PART_N_KINDS && alone_s > 0; part++)
    parts_s[part] += sum_s[part] * took_s / alone_s;
}

/* What a step waited for: a player and its step. */
typedef struct {
  const Player *player;
  guint32 index;
} Cause;

/* The pass that sent what @step of @player needs; FALSE: nothing comes from elsewhere. */
static gboolean
find_sender (const Finder *finder, const Player *player, const ModelStep *step, Cause *out)
{
  const SimPlay *play = finder->play;
  guint32 from = place_before (play->schedule, player->pp_rank, step);
  const guint32 *by = step->kind == MODEL_STEP_FORWARD ? finder->forward : finder->gradient;

  if (from == NOBODY)
    return FALSE;
  out->player = &play->players[player->lane * play->pp + play->place_rank[from]];
  out->index = by[from * play->passes + step->microbatch];
  return TRUE;
}

/* Of the two halves of a pair, the sender that ended last. */
static gboolean
find_last_sender (const Finder *finder, const Player *player, const ModelStep *step, Cause *out)
{
  Cause other;
  gboolean found = find_sender (finder, player, step, out);

  if (!step->paired || !find_sender (finder, player, step + 1, &other))
    return found;
  if (!found || other.player->step_end_s[other.index] > out->player->step_end_s[out->index])
    *out = other;
  return TRUE;
}

/* From the last step of @player back to the start of the play. */
static void
walk (const SimPlay *play, const Player *player, GArray *chain, double *parts_s)
{
  guint32 index = play->schedule->n_used[player->pp_rank];
  Finder finder;

  if (index == 0)
    return;
  finder_init (&finder, play, player->lane);
  for (index--;;) {
    const ModelStep *step = model_schedule_rank (play->schedule, player->pp_rank) + index;
    if (index > 0 && step[-1].paired) { /* a pair counts once, by its first */
      index--;
      step--;
    }
    double start_s = player->step_start_s[index];
    double own_s = index > 0 ? player->step_end_s[index - 1] : 0;
    Cause cause = { player, index - 1 };
    gboolean waited = start_s > own_s + 1e-12 && find_last_sender (&finder, player, step, &cause);
    add_step (chain, player, step, index, waited);
    add_parts (play, player, index, parts_s);
    if (!waited && index == 0)
      break;
    player = cause.player;
    index = cause.index;
    parts_s[waited ? COST_PART_P2P : COST_PART_OTHER]
        += MAX (start_s - player->step_end_s[index], 0);
  }
  g_free (finder.forward);
}

/* After its last backward the chain goes on with the tail of whoever is last. */
void
play_find_critical (const SimPlay *play, SimResult *out)
{
  const Player *last = &play->players[0];
  g_autoptr (GArray) chain = g_array_new (FALSE, FALSE, sizeof (SimCriticalStep));
  double best_s = -1;

  for (guint32 i = 0; i < play->n_players; i++) {
    const Player *player = &play->players[i];
    const Tail *tail = player->tail;
    double end_s = MAX (player->passes_end_s, player->gradients_end_s);
    for (guint k = 0; k < tail->n_transfers; k++)
      end_s += tail->transfers[k].duration_s;
    if (end_s <= best_s)
      continue;
    best_s = end_s;
    last = player;
  }
  SimCriticalStep tail
      = { last->rank, G_MAXUINT32, G_MAXUINT32, 255, FALSE, last->passes_end_s, out->played_s };
  g_array_append_val (chain, tail);
  double tail_s = out->played_s - last->passes_end_s;
  double optimizer_s = MIN (last->tail->optimizer.duration_s, tail_s);
  out->critical_s[COST_PART_OPTIMIZER] += optimizer_s;
  out->critical_s[COST_PART_DP] += tail_s - optimizer_s;
  walk (play, last, chain, out->critical_s);
  out->n_critical = chain->len;
  out->critical = (SimCriticalStep *)(gpointer)g_array_free (g_steal_pointer (&chain), FALSE);
}
