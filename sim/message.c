/* sim/message.c - activations and gradients between pipeline ranks. */
#include "sim/play-private.h"

static gsize
arrival_index (const SimPlay *play, guint32 lane, guint32 place, guint32 microbatch)
{
  return ((gsize)lane * play->n_places + place) * play->passes + microbatch;
}

void
play_arrive (SimPlay *play, guint32 lane, guint32 place, guint32 microbatch, gboolean is_forward,
             double time_s)
{
  double *at = is_forward ? play->forward_at : play->gradient_at;
  Player *player = &play->players[lane * play->pp + play->place_rank[place]];

  at[arrival_index (play, lane, place, microbatch)] = time_s;
  if (player->wait == WAIT_MESSAGE)
    play_wake (play, player, MAX (time_s, player->clock_s));
}

static guint32
message_new (SimPlay *play)
{
  guint32 number = play->free_message;

  if (number != NOBODY) {
    play->free_message = play->messages_out[number].next;
    return number;
  }
  number = play->n_messages++;
  if (play->n_messages > play->messages_capacity) {
    play->messages_capacity = MAX (64, 2 * play->messages_capacity);
    play->messages_out = g_renew (Message, play->messages_out, play->messages_capacity);
  }
  return number;
}

static void
message_free (SimPlay *play, guint32 number)
{
  play->messages_out[number].next = play->free_message;
  play->free_message = number;
}

static const SimOp *
message_op (const SimPlay *play, guint direction)
{
  return direction == 0 ? &play->next_op : &play->back_op;
}

/* Runs at once to its end: nothing can disturb it. */
static void
send_alone (SimPlay *play, Player *player, const Message *message, guint direction)
{
  const SimOp *op = message_op (play, direction);
  double start_s = message->ready_s;

  if (play->options.contention)
    start_s = MAX (start_s, player->stream_free_s[op->stream]);
  double end_s = start_s + op->duration_s;
  player->stream_free_s[op->stream] = MAX (player->stream_free_s[op->stream], end_s);
  player->beside_until_s = MAX (player->beside_until_s, end_s);
  if (play->options.event != NULL)
    log_message (play, player, op, message, start_s, end_s);
  play_arrive (play, message->lane, message->place, message->microbatch, message->is_forward,
               end_s);
}

void
play_send (SimPlay *play, Player *player, guint32 place, guint32 microbatch, gboolean is_forward)
{
  guint32 to = play->place_rank[place];
  gboolean is_next = to == (player->pp_rank + 1) % play->pp;
  guint direction = play->pp == 2 ? !is_forward : !is_next;
  const SimOp *op = message_op (play, direction);
  const Message message
      = { NOBODY, player->lane, place, microbatch, (guint8)is_forward, player->clock_s };
  const SimLoad *loads;

  play->op_count++;
  if (!(op->duration_s > 0)) {
    play_arrive (play, message.lane, place, microbatch, is_forward, player->clock_s);
    return;
  }
  if (play_loads (play, player, op, &loads) == 0) {
    send_alone (play, player, &message, direction);
    return;
  }
  guint32 number = message_new (play);
  play->messages_out[number] = message;
  if (player->queue_first[direction] != NOBODY) {
    play->messages_out[player->queue_last[direction]].next = number;
    player->queue_last[direction] = number;
    return;
  }
  player->queue_first[direction] = player->queue_last[direction] = number;
  event_queue_push (&play->queue, MAX (player->clock_s, play->now_s), EVENT_SEND,
                    2 * player_id (play, player) + direction, 0);
}

void
play_send_first (SimPlay *play, Player *player, guint direction)
{
  const SimOp *op = message_op (play, direction);
  guint32 flow = flow_new (play, FLOW_MESSAGE, op, player, op->duration_s, -1);

  play->flows[flow].direction = (guint8)direction;
  play->flows[flow].message = player->queue_first[direction];
  player->stream_flow[op->stream] = flow;
  sharing_add (play, flow);
}

void
play_message_end (SimPlay *play, Flow *flow)
{
  Player *player = &play->players[flow->player];
  guint direction = flow->direction;
  guint32 number = flow->message;
  const Message message = play->messages_out[number];

  if (play->options.event != NULL)
    log_message (play, player, flow->op, &message, flow->started_s, play->now_s);
  player->stream_flow[flow->op->stream] = NOBODY;
  player->stream_free_s[flow->op->stream] = play->now_s;
  player->queue_first[direction] = message.next;
  message_free (play, number);
  if (message.next != NOBODY)
    event_queue_push (&play->queue, MAX (play->messages_out[message.next].ready_s, play->now_s),
                      EVENT_SEND, 2 * player_id (play, player) + direction, 0);
  play_arrive (play, message.lane, message.place, message.microbatch, message.is_forward,
               play->now_s);
}
