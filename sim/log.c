/* sim/log.c - what ran when, told to the play's listener. */
#include "sim/play-private.h"

/* A stream shows one thing at a time: what is still on when the next begins ends there (only
 * without contention, where hidden parts take no place). */
static void
close_before (SimPlay *play, Player *player, guint stream, double start_s)
{
  SimEvent *open = &player->open[stream];

  if (!player->is_open[stream])
    return;
  player->is_open[stream] = FALSE;
  open->end_s = MIN (open->end_s, start_s);
  play->options.event (open, play->options.user_data);
}

static SimEvent
event_of (const SimPlay *play, const Player *player, const SimOp *op, double start_s, double end_s)
{
  gboolean in_pass = player->position == AT_PASS || player->position == AT_RECEIVE;
  SimEvent event = { .rank = player->rank,
                     .stream = op->stream,
                     .part = op->part,
                     .phase = op->phase,
                     .name = op->name,
                     .chunk = G_MAXUINT32,
                     .microbatch = G_MAXUINT32,
                     .start_s = start_s,
                     .end_s = end_s };

  if (!in_pass || op->phase == MODEL_PHASE_TAIL)
    return event;
  const ModelStep *step = model_schedule_rank (play->schedule, player->pp_rank) + player->step;
  if (player->n_tapes == 2 && op->phase != MODEL_PHASE_FORWARD)
    step++;
  event.chunk = step->chunk;
  event.microbatch = step->microbatch;
  return event;
}

/* Names the message for good: by where it arrives. */
static guint64
message_number (const SimPlay *play, const Player *player, guint32 place, guint32 microbatch,
                gboolean is_forward)
{
  guint64 at = ((guint64)player->lane * play->n_places + place) * play->passes + microbatch;
  return 2 * at + is_forward + 1;
}

void
log_op (SimPlay *play, Player *player, const SimOp *op, double start_s, double end_s)
{
  SimEvent event = event_of (play, player, op, start_s, end_s);

  if (op->stream != SIM_STREAM_COMPUTE) {
    close_before (play, player, op->stream, start_s);
    player->open[op->stream] = event;
    player->is_open[op->stream] = TRUE;
    return;
  }
  if (op->part == COST_PART_COMPUTE)
    event.alive_bytes = player->static_bytes + (guint64)player->kept_bytes + op->work_bytes;
  event.message = player->message;
  player->message = 0;
  play->options.event (&event, play->options.user_data);
}

void
log_message (SimPlay *play, Player *player, const SimOp *op, const Message *message, double start_s,
             double end_s)
{
  SimEvent event = event_of (play, player, op, start_s, end_s);

  event.phase = message->is_forward ? MODEL_PHASE_FORWARD : MODEL_PHASE_BACKWARD_INPUT;
  event.chunk = G_MAXUINT32;
  event.microbatch = message->microbatch;
  event.is_send = TRUE;
  event.message
      = message_number (play, player, message->place, message->microbatch, message->is_forward);
  close_before (play, player, op->stream, start_s);
  player->open[op->stream] = event;
  player->is_open[op->stream] = TRUE;
}

void
log_wait (SimPlay *play, Player *player, const ModelStep *step)
{
  const ModelSchedule *s = play->schedule;
  guint32 place = model_schedule_place (s->kind, s->pp, player->pp_rank, step->chunk);
  gboolean is_forward = step->kind == MODEL_STEP_FORWARD;
  guint32 from = is_forward ? place - 1 : place + 1;

  if (step->kind == MODEL_STEP_BACKWARD_WEIGHT || !(play->messages.delay_s > 0)
      || (is_forward ? model_schedule_is_first (s->kind, s->pp, place)
                     : model_schedule_is_last (s->kind, s->pp, s->vpp, place))
      || play->place_rank[from] == player->pp_rank)
    return;
  player->message = message_number (play, player, place, step->microbatch, is_forward);
}

void
log_flush (SimPlay *play)
{
  for (guint32 i = 0; i < play->n_players; i++)
    for (guint s = 0; s < SIM_STREAM_N_KINDS; s++)
      close_before (play, &play->players[i], s, G_MAXDOUBLE);
}
