/* sim/engine.c - takes one player as far as it gets: passes of its schedule, then the tail.
 *
 * Compute ops need no event: a player runs ahead of the others until it meets something that
 * depends on them (a message, a group, a flow), where it stops to be woken.
 */
#include "sim/play-private.h"

#include "base/philox.h"

#include <math.h>

void
play_wake (SimPlay *play, Player *player, double time_s)
{
  player->wait = WAIT_NOTHING;
  event_queue_push (&play->queue, MAX (time_s, play->now_s), EVENT_PLAYER, player_id (play, player),
                    0);
}

/* ---- ops ---- */

static inline void
note_peak (Player *player, guint64 alive_bytes, const SimOp *op)
{
  if (alive_bytes <= player->peak_bytes)
    return;
  player->peak_bytes = alive_bytes;
  player->peak_kept_bytes = (guint64)MAX (player->kept_bytes, 0);
  player->peak_op = op->name;
  player->peak_phase = op->phase;
  player->peak_step = player->step;
}

static inline guint64
alive_bytes (const Player *player, const SimOp *op)
{
  return player->static_bytes + (guint64)player->kept_bytes + op->work_bytes;
}

/* Longer by the interference while communication runs beside it. */
static inline double
with_interference (const SimPlay *play, Player *player, double start_s, double duration_s)
{
  double beside_s = player->beside_until_s - start_s, ratio = play->interference_ratio;
  if (!(beside_s > 0) || !(ratio > 0))
    return duration_s;
  double slowed_s = MIN (duration_s * ratio, beside_s * ratio / (1 + ratio));
  player->slowed_s += slowed_s;
  return duration_s + slowed_s;
}

static inline void
compute (SimPlay *play, Player *player, const SimOp *op)
{
  double start_s = player->clock_s + op->gap_s;
  double duration_s = with_interference (play, player, start_s, op->duration_s * player->factor);
  player->clock_s = start_s + duration_s;
  player->parts_s[COST_PART_OTHER] += op->gap_s;
  player->parts_s[op->part] += duration_s;
  if (G_UNLIKELY (play->options.event != NULL))
    log_op (play, player, op, start_s, player->clock_s);
}

/* The next op of the pass: of a pair, from the half that is further behind. */
static inline guint
next_tape (const Player *player)
{
  if (player->n_tapes == 1)
    return 0;
  return (guint64)player->op[0] * player->tape[1]->n_ops
         > (guint64)player->op[1] * player->tape[0]->n_ops;
}

static inline gboolean
is_pass_over (const Player *player)
{
  return player->op[0] == player->tape[0]->n_ops
         && (player->n_tapes == 1 || player->op[1] == player->tape[1]->n_ops);
}

/* FALSE: the player waits. */
static gboolean
run_ops (SimPlay *play, Player *player)
{
  while (!is_pass_over (player)) {
    guint which = next_tape (player);
    const SimOp *op = &player->tape[which]->ops[player->op[which]];
    Comm comm = COMM_GOES_ON;
    if (op->stream == SIM_STREAM_COMPUTE) {
      player->kept_bytes += op->kept_before_bytes;
      note_peak (player, alive_bytes (player, op), op);
      compute (play, player, op);
      player->kept_bytes += op->kept_after_bytes;
      player->op[which]++;
      continue;
    }
    /* in a pair the exchange of one half runs under the other's compute */
    gboolean hides = player->n_tapes == 2 && op->stream == SIM_STREAM_EP;
    comm = play_communicate (play, player, op, hides ? 0 : op->exposed_s);
    if (comm == COMM_RETRY)
      return FALSE;
    player->kept_bytes += op->kept_before_bytes;
    note_peak (player, alive_bytes (player, op), op);
    player->kept_bytes += op->kept_after_bytes;
    player->op[which]++;
    if (comm == COMM_WAITS)
      return FALSE;
  }
  return TRUE;
}

/* ---- passes ---- */

static const ModelStep *
step_of (const SimPlay *play, const Player *player)
{
  return model_schedule_rank (play->schedule, player->pp_rank) + player->step;
}

static double
arrival_s (const SimPlay *play, const Player *player, const ModelStep *step)
{
  const ModelSchedule *s = play->schedule;
  guint32 place = model_schedule_place (s->kind, s->pp, player->pp_rank, step->chunk);
  gsize at = ((gsize)player->lane * play->n_places + place) * play->passes + step->microbatch;

  if (step->kind == MODEL_STEP_FORWARD)
    return model_schedule_is_first (s->kind, s->pp, place) ? 0 : play->forward_at[at];
  if (step->kind == MODEL_STEP_BACKWARD_WEIGHT
      || model_schedule_is_last (s->kind, s->pp, s->vpp, place))
    return 0;
  return play->gradient_at[at];
}

static const SimTape *
tape_of (const SimPlay *play, const Player *player, const ModelStep *step)
{
  guint32 stage
      = model_schedule_stage (play->schedule->kind, play->pp, player->pp_rank, step->chunk);
  return &play->tapes.tapes[play->content_of_stage[stage]][step->kind];
}

static double
jitter (const SimPlay *play, const Player *player)
{
  double sigma = play->options.jitter_ratio;
  if (!(sigma > 0))
    return 1;
  guint64 index = (guint64)player_id (play, player) * play->schedule->n_steps + player->step;
  double z = base_philox_normal (play->options.seed, play->run, index);
  double log_sigma = sqrt (log1p (sigma * sigma)); /* mean 1, standard deviation sigma */
  return exp (log_sigma * z - log_sigma * log_sigma / 2);
}

/* The gradients may be reduced so long before the end of the last pass. */
static void
set_hook (SimPlay *play, Player *player)
{
  double pass_s = player->clock_s, hidden_s = player->tail->hidden_s;

  if (!(player->tail->gradients.duration_s > 0) || player->tail->is_before_send)
    return;
  for (guint i = 0; i < player->n_tapes; i++)
    pass_s += player->tape[i]->pass_s;
  pass_s -= player->clock_s;
  /* what is to hide beyond this pass did so under the backward passes before it */
  player->gradients_s = MAX (player->tail->gradients.duration_s - MAX (hidden_s - pass_s, 0), 1e-9);
  event_queue_push (&play->queue, MAX (player->clock_s + MAX (pass_s - hidden_s, 0), play->now_s),
                    EVENT_HOOK, player_id (play, player), 0);
}

/* The next step or pair. FALSE: something it waits for has not come. */
static gboolean
begin_step (SimPlay *play, Player *player)
{
  const ModelStep *step = step_of (play, player);
  guint n = step->paired ? 2 : 1;
  double ready_s = 0;
  gboolean is_weight = step->kind == MODEL_STEP_BACKWARD_WEIGHT;

  for (guint i = 0; i < n; i++) {
    double at_s = arrival_s (play, player, &step[i]);
    if (at_s < 0)
      return FALSE;
    ready_s = MAX (ready_s, at_s);
  }
  double waited_s = ready_s - player->clock_s;
  if (waited_s > 0) {
    double flight_s = MIN (waited_s, play->messages.delay_s);
    player->parts_s[COST_PART_P2P] += flight_s;
    player->parts_s[COST_PART_PP_BUBBLE] += waited_s - flight_s;
    player->clock_s = ready_s;
  }
  player->step_start_s[player->step] = player->clock_s;
  player->n_tapes = n;
  player->factor = player->slow * jitter (play, player);
  for (guint i = 0; i < n; i++) {
    player->tape[i] = tape_of (play, player, &step[i]);
    player->op[i] = 0;
    play->op_count += player->tape[i]->n_ops;
  }
  if (play->pp > 1 && !is_weight) {
    double host_s = n * play->messages.host_s;
    player->parts_s[COST_PART_OTHER] += host_s;
    player->clock_s += host_s;
  }
  if (player->step + n == play->schedule->n_used[player->pp_rank])
    set_hook (play, player);
  if (G_UNLIKELY (play->options.event != NULL))
    log_wait (play, player, step);
  player->position = AT_RECEIVE;
  return TRUE;
}

/* A blocking receive takes the receiver's time. */
static gboolean
receive (SimPlay *play, Player *player)
{
  const ModelSchedule *s = play->schedule;
  const ModelStep *step = step_of (play, player);
  guint32 place = model_schedule_place (s->kind, s->pp, player->pp_rank, step->chunk);
  gboolean is_forward = step->kind == MODEL_STEP_FORWARD;
  gboolean comes = is_forward ? !model_schedule_is_first (s->kind, s->pp, place)
                              : !model_schedule_is_last (s->kind, s->pp, s->vpp, place);

  player->position = AT_PASS;
  if (!(play->messages.receive_s > 0) || !comes)
    return TRUE;
  const SimOp *op = is_forward ? &play->next_op : &play->back_op;
  play->op_count++;
  Comm comm = play_communicate (play, player, op, op->exposed_s);
  if (comm == COMM_RETRY)
    player->position = AT_RECEIVE;
  return comm == COMM_GOES_ON;
}

static void
deliver (SimPlay *play, Player *player, const ModelStep *step)
{
  const ModelSchedule *s = play->schedule;
  guint32 place = model_schedule_place (s->kind, s->pp, player->pp_rank, step->chunk);
  gboolean is_forward = step->kind == MODEL_STEP_FORWARD;

  if (step->kind == MODEL_STEP_BACKWARD_WEIGHT
      || (is_forward ? model_schedule_is_last (s->kind, s->pp, s->vpp, place)
                     : model_schedule_is_first (s->kind, s->pp, place)))
    return;
  guint32 to = is_forward ? place + 1 : place - 1;
  if (play->place_rank[to] == player->pp_rank || play->messages.receive_s > 0)
    play_arrive (play, player->lane, to, step->microbatch, is_forward, player->clock_s);
  else
    play_send (play, player, to, step->microbatch, is_forward);
}

/* What of a pair's exchanges does not fit under the other half. */
static double
unhidden_s (const Player *player)
{
  const SimTape *f = player->tape[0], *b = player->tape[1];
  double f_ep_s = f->parts_s[COST_PART_EP], b_ep_s = b->parts_s[COST_PART_EP];
  double f_s = f->pass_s - f_ep_s, b_s = b->pass_s - b_ep_s;
  return MAX (f_ep_s - MAX (b_s, 0), 0) + MAX (b_ep_s - MAX (f_s, 0), 0);
}

/* ZeRO 2 reduces after every micro-batch; the last one's are the tail's, unless the message to the
 * stage before waits for them. */
static const SimOp *
reduce_after (const SimPlay *play, const Player *player, const ModelStep *step)
{
  const Tail *tail = player->tail;
  gboolean ends = step->kind == MODEL_STEP_BACKWARD || step->kind == MODEL_STEP_BACKWARD_WEIGHT;
  gboolean is_last = player->step + 1 >= play->schedule->n_used[player->pp_rank];
  if (tail->is_before_send)
    return is_last ? &tail->gradients : NULL;
  return tail->is_per_microbatch && ends && !is_last && step->chunk == 0 ? &tail->each : NULL;
}

static void
finish_pass (SimPlay *play, Player *player)
{
  const ModelStep *step = step_of (play, player);
  guint n = player->n_tapes;

  player->step_end_s[player->step] = player->clock_s;
  for (guint i = 0; i < n; i++)
    deliver (play, player, &step[i]);
  for (guint i = 1; i < n; i++) {
    player->step_start_s[player->step + i] = player->step_start_s[player->step];
    player->step_end_s[player->step + i] = player->clock_s;
  }
  player->step += n;
  player->position = AT_STEP;
}

static gboolean
end_pass (SimPlay *play, Player *player)
{
  const ModelStep *step = step_of (play, player);
  const SimOp *reduce = reduce_after (play, player, step);

  if (player->n_tapes == 2) {
    double left_s = unhidden_s (player);
    player->parts_s[COST_PART_EP] += left_s;
    player->clock_s += left_s;
  }
  Comm comm = COMM_GOES_ON;
  if (reduce != NULL && reduce->duration_s > 0)
    comm = play_communicate (play, player, reduce,
                             MAX (reduce->duration_s - player->tail->hidden_s, 0));
  if (comm == COMM_RETRY)
    return FALSE;
  if (comm == COMM_WAITS && player->tail->is_before_send) {
    player->position = AT_DELIVERY;
    return FALSE;
  }
  finish_pass (play, player);
  return comm == COMM_GOES_ON;
}

/* ---- the tail ---- */

static void
begin_tail (SimPlay *play, Player *player)
{
  player->passes_end_s = player->clock_s;
  player->tail_at = 0;
  player->position = AT_GRADIENTS;
}

/* FALSE: they are not reduced yet. */
static gboolean
await_gradients (Player *player)
{
  double late_s = player->gradients_end_s - player->clock_s;

  if (player->tail->is_before_send) {
    player->position = AT_TAIL;
    return TRUE;
  }
  if (player->tail->gradients.duration_s > 0 && player->gradients_end_s < 0) {
    player->wait = WAIT_GRADIENTS;
    return FALSE;
  }
  if (player->tail->gradients.duration_s > 0 && late_s > 0) {
    player->parts_s[COST_PART_DP] += late_s;
    player->clock_s += late_s;
  }
  player->position = AT_TAIL;
  return TRUE;
}

static gboolean
run_transfers (SimPlay *play, Player *player)
{
  while (player->tail_at < player->tail->n_transfers) {
    const SimOp *op = &player->tail->transfers[player->tail_at];
    Comm comm = play_communicate (play, player, op, op->exposed_s);
    if (comm == COMM_RETRY)
      return FALSE;
    play->op_count++;
    player->tail_at++;
    if (comm == COMM_WAITS)
      return FALSE;
  }
  return TRUE;
}

static void
step_optimizer (SimPlay *play, Player *player)
{
  const SimOp *op = &player->tail->optimizer;
  double start_s = player->clock_s;

  note_peak (player, player->step_bytes, op);
  player->clock_s += op->duration_s;
  player->parts_s[COST_PART_OPTIMIZER] += op->duration_s;
  play->op_count++;
  if (play->options.event != NULL && op->duration_s > 0)
    log_op (play, player, op, start_s, player->clock_s);
  player->position = AT_END;
}

/* The norm of all gradients is known when the last rank has summed its own. */
static gboolean
meet (SimPlay *play, Player *player)
{
  Sync *all = &play->syncs[SYNC_ALL][0];

  all->start_s = all->arrived == 0 ? player->clock_s : MAX (all->start_s, player->clock_s);
  if (++all->arrived < all->size) {
    player->wait = WAIT_GROUP;
    return FALSE;
  }
  for (guint32 i = 0; i < play->n_players; i++) {
    Player *member = &play->players[i];
    member->parts_s[COST_PART_PP_BUBBLE] += all->start_s - member->clock_s;
    member->clock_s = all->start_s;
    step_optimizer (play, member);
    if (member != player)
      play_wake (play, member, member->clock_s);
  }
  return TRUE;
}

static gboolean
finish (SimPlay *play, Player *player)
{
  const SimOp *op = &player->tail->gather;
  Comm comm = COMM_GOES_ON;

  if (op->duration_s > 0)
    comm = play_communicate (play, player, op, op->exposed_s);
  if (comm == COMM_RETRY)
    return FALSE;
  play->op_count++;
  player->position = AT_END + 1;
  return comm == COMM_GOES_ON;
}

void
play_advance (SimPlay *play, guint32 id)
{
  Player *player = &play->players[id];
  gboolean goes_on = TRUE;

  while (goes_on) {
    switch ((Position)player->position) {
    case AT_STEP:
      if (player->step == play->schedule->n_used[player->pp_rank])
        begin_tail (play, player);
      else if (!begin_step (play, player)) {
        player->wait = WAIT_MESSAGE;
        return;
      }
      break;
    case AT_RECEIVE:
      goes_on = receive (play, player);
      break;
    case AT_PASS:
      goes_on = run_ops (play, player) && end_pass (play, player);
      break;
    case AT_DELIVERY:
      finish_pass (play, player);
      break;
    case AT_GRADIENTS:
      goes_on = await_gradients (player);
      break;
    case AT_TAIL:
      goes_on = run_transfers (play, player);
      if (goes_on)
        player->position = AT_BARRIER;
      break;
    case AT_BARRIER:
      goes_on = meet (play, player);
      break;
    case AT_END:
      goes_on = finish (play, player);
      break;
    default:
      player->end_s = player->clock_s;
      return;
    }
  }
}
