/* sim/flow.c - communication: whoever nothing can disturb ends when it says, others are flows. */
#include "sim/play-private.h"

#include <math.h>

guint
play_loads (const SimPlay *play, const Player *player, const SimOp *op, const SimLoad **out_loads)
{
  guint n = 0;

  *out_loads = NULL;
  if (play->links != NULL)
    *out_loads = sim_links_loads (play->links, player->owner_of[op->traffic], op, &n);
  return n;
}

/* ---- flows ---- */

guint32
flow_new (SimPlay *play, FlowKind kind, const SimOp *op, const Player *player, double duration_s,
          double exposed_s)
{
  guint32 number = play->free_flow;

  if (number != NOBODY)
    play->free_flow = play->flows[number].next_free;
  else {
    number = play->n_flows++;
    if (play->n_flows > play->flows_capacity) {
      play->flows_capacity = MAX (64, 2 * play->flows_capacity);
      play->flows = g_renew (Flow, play->flows, play->flows_capacity);
    }
    play->flows[number].version = 0;
  }
  guint32 version = play->flows[number].version + 1;
  play->flows[number] = (Flow){ .op = op,
                                .link_base = player->link_base,
                                .kind = (guint8)kind,
                                .player = player_id (play, player),
                                .sync_kind = NOBODY,
                                .remaining_s = duration_s,
                                .exposed_left_s = exposed_s,
                                .updated_s = play->now_s,
                                .started_s = play->now_s,
                                .version = version,
                                .bottleneck = NOBODY };
  play->flows[number].n_loads = play_loads (play, player, op, &play->flows[number].loads);
  return number;
}

static void
flow_free (SimPlay *play, guint32 number)
{
  play->flows[number].version++;
  play->flows[number].next_free = play->free_flow;
  play->free_flow = number;
}

/* Players of @flow: calls @visit for each. */
static void
each_member (SimPlay *play, const Flow *flow,
             void (*visit) (SimPlay *play, const Flow *flow, Player *player))
{
  if (flow->sync_kind == NOBODY) {
    visit (play, flow, &play->players[flow->player]);
    return;
  }
  const Sync *sync = &play->syncs[flow->sync_kind][flow->sync];
  const guint32 *members = play->members[flow->sync_kind] + sync->first;
  for (guint32 i = 0; i < sync->size; i++)
    visit (play, flow, &play->players[members[i]]);
}

static void
note_beside (SimPlay *play, const Flow *flow, Player *player)
{
  double until_s = play->now_s + flow->remaining_s / MAX (flow->pace, 1e-9);
  player->beside_until_s = MAX (player->beside_until_s, until_s);
}

void
flow_set_pace (SimPlay *play, guint32 number, double pace, guint32 bottleneck)
{
  Flow *flow = &play->flows[number];
  double elapsed_s = play->now_s - flow->updated_s, done_s = elapsed_s * flow->pace;

  if (flow->bottleneck != NOBODY)
    play->shared[flow->bottleneck].lost_s += elapsed_s - done_s;
  flow->remaining_s = MAX (flow->remaining_s - done_s, 0);
  /* What is waited for ends by its event alone, which wakes who waits: not by rounding to nothing here. */
  if (flow->exposed_left_s > 0)
    flow->exposed_left_s = MAX (flow->exposed_left_s - done_s, G_MINDOUBLE);
  flow->updated_s = play->now_s;
  flow->bottleneck = pace < 1 ? bottleneck : NOBODY;
  if (pace == flow->pace)
    return;
  flow->pace = MAX (pace, 1e-9);
  flow->version++;
  double left_s = flow->exposed_left_s > 0 ? flow->exposed_left_s : flow->remaining_s;
  event_queue_push (&play->queue, play->now_s + left_s / flow->pace, EVENT_FLOW, number,
                    flow->version);
  each_member (play, flow, note_beside);
}

static void
end_waiting (SimPlay *play, const Flow *flow, Player *player)
{
  if (player->wait != WAIT_FLOW
      || player->stream_flow[flow->op->stream] != (guint32)(flow - play->flows))
    return;
  player->parts_s[flow->op->part] += play->now_s - player->waited_from_s;
  player->clock_s = play->now_s;
  play_wake (play, player, play->now_s);
}

static void
free_stream (SimPlay *play, const Flow *flow, Player *player)
{
  guint stream = flow->op->stream;
  double started_s = flow->started_s;

  player->stream_flow[stream] = NOBODY;
  player->stream_free_s[stream] = play->now_s;
  if (play->options.event != NULL && flow->kind != FLOW_MESSAGE)
    log_op (play, player, flow->op, started_s, play->now_s);
  if (flow->kind == FLOW_GRADIENTS) {
    player->gradients_end_s = play->now_s;
    if (player->wait == WAIT_GRADIENTS)
      play_wake (play, player, play->now_s);
  }
  if (player->wait == WAIT_STREAM && player->wait_stream == stream) {
    double waited_s = play->now_s - player->waited_from_s;
    player->queued_s += waited_s;
    player->parts_s[flow->op->part] += waited_s;
    player->clock_s = play->now_s;
    play_wake (play, player, play->now_s);
  }
}

void
flow_event (SimPlay *play, guint32 number, guint32 version)
{
  Flow *flow = &play->flows[number];
  double done_s = (play->now_s - flow->updated_s) * flow->pace;

  if (flow->version != version)
    return;
  if (flow->exposed_left_s > 0) {
    /* what was waited for is there; the rest goes on */
    gboolean is_whole = flow->exposed_left_s >= flow->remaining_s;
    if (flow->bottleneck != NOBODY)
      play->shared[flow->bottleneck].lost_s += play->now_s - flow->updated_s - done_s;
    flow->remaining_s = MAX (flow->remaining_s - done_s, 0);
    flow->exposed_left_s = 0;
    flow->updated_s = play->now_s;
    each_member (play, flow, end_waiting);
    if (!is_whole) {
      flow->version++;
      event_queue_push (&play->queue, play->now_s + flow->remaining_s / flow->pace, EVENT_FLOW,
                        number, flow->version);
      return;
    }
  } else if (flow->bottleneck != NOBODY)
    play->shared[flow->bottleneck].lost_s += play->now_s - flow->updated_s - done_s;
  sharing_remove (play, number);
  flow = &play->flows[number];
  if (flow->kind == FLOW_MESSAGE)
    play_message_end (play, flow);
  else
    each_member (play, flow, free_stream);
  flow_free (play, number);
}

/* ---- collectives ---- */

static Sync *
sync_of (const SimPlay *play, const Player *player, guint kind, guint32 *out_index)
{
  if (play->sync_of[kind] == NULL)
    return NULL;
  *out_index = play->sync_of[kind][player_id (play, player)];
  if (*out_index == NOBODY || play->syncs[kind][*out_index].size < 2)
    return NULL;
  return &play->syncs[kind][*out_index];
}

/* Nothing can disturb @op: it takes its time from @start_s on. */
static void
run_alone (SimPlay *play, Player *player, const SimOp *op, double start_s, double duration_s,
           double exposed_s)
{
  double end_s = start_s + duration_s;

  player->stream_free_s[op->stream] = MAX (player->stream_free_s[op->stream], end_s);
  player->beside_until_s = MAX (player->beside_until_s, end_s);
  player->parts_s[op->part] += start_s - player->clock_s + exposed_s;
  player->clock_s = start_s + exposed_s;
  if (G_UNLIKELY (play->options.event != NULL))
    log_op (play, player, op, start_s, end_s);
}

static void
begin_flow (SimPlay *play, Player *player, const SimOp *op, double exposed_s, guint kind,
            guint32 sync)
{
  guint32 number = flow_new (play, FLOW_COLLECTIVE, op, player, op->duration_s,
                             exposed_s > 0 ? exposed_s : -1);
  Flow *flow = &play->flows[number];

  if (sync != NOBODY) {
    flow->sync_kind = kind;
    flow->sync = sync;
    const Sync *group = &play->syncs[kind][sync];
    for (guint32 i = 0; i < group->size; i++) {
      Player *member = &play->players[play->members[kind][group->first + i]];
      member->stream_flow[op->stream] = number;
      member->parts_s[op->part] += play->now_s - member->clock_s;
      member->clock_s = member->waited_from_s = play->now_s;
      if (member == player)
        continue;
      if (exposed_s > 0)
        member->wait = WAIT_FLOW;
      else
        play_wake (play, member, play->now_s);
    }
  }
  player->stream_flow[op->stream] = number;
  player->waited_from_s = play->now_s;
  sharing_add (play, number);
}

/* The last of a group starts for all. */
static void
start_group (SimPlay *play, Player *last, const SimOp *op, double exposed_s, guint kind,
             guint32 index)
{
  Sync *sync = &play->syncs[kind][index];
  double start_s = sync->start_s;

  for (guint32 i = 0; i < sync->size; i++) {
    Player *member = &play->players[play->members[kind][sync->first + i]];
    run_alone (play, member, op, start_s, op->duration_s, exposed_s);
    if (member != last)
      play_wake (play, member, member->clock_s);
  }
}

static Comm
join_group (SimPlay *play, Player *player, const SimOp *op, double exposed_s, guint32 index,
            gboolean is_flow)
{
  guint kind = op->traffic;
  Sync *sync = &play->syncs[kind][index];

  sync->start_s = sync->arrived == 0 ? player->clock_s : MAX (sync->start_s, player->clock_s);
  if (++sync->arrived < sync->size) {
    player->wait = WAIT_GROUP;
    return COMM_WAITS;
  }
  sync->arrived = 0;
  if (!is_flow) {
    start_group (play, player, op, exposed_s, kind, index);
    return COMM_GOES_ON;
  }
  begin_flow (play, player, op, exposed_s, kind, index);
  if (!(exposed_s > 0))
    return COMM_GOES_ON;
  player->wait = WAIT_FLOW;
  return COMM_WAITS;
}

/* A stream runs one thing at a time. FALSE: the player waits for a flow to end. */
static gboolean
take_stream (SimPlay *play, Player *player, const SimOp *op)
{
  double late_s = player->stream_free_s[op->stream] - player->clock_s;

  if (!play->options.contention)
    return TRUE;
  if (player->stream_flow[op->stream] != NOBODY && player->clock_s > play->now_s) {
    play_wake (play, player, player->clock_s); /* it may be over by then */
    return FALSE;
  }
  if (player->stream_flow[op->stream] != NOBODY) {
    player->wait = WAIT_STREAM;
    player->wait_stream = op->stream;
    player->waited_from_s = player->clock_s;
    return FALSE;
  }
  if (late_s > 0) {
    player->queued_s += late_s;
    player->parts_s[op->part] += late_s;
    player->clock_s += late_s;
  }
  return TRUE;
}

Comm
play_communicate (SimPlay *play, Player *player, const SimOp *op, double exposed_s)
{
  const SimLoad *loads;
  guint32 index = NOBODY;

  if (!take_stream (play, player, op))
    return COMM_RETRY;
  gboolean is_flow = play_loads (play, player, op, &loads) > 0;
  if (is_flow && player->clock_s > play->now_s) {
    play_wake (play, player, player->clock_s);
    return COMM_RETRY;
  }
  if (sync_of (play, player, op->traffic, &index) != NULL)
    return join_group (play, player, op, exposed_s, index, is_flow);
  if (!is_flow) {
    run_alone (play, player, op, player->clock_s, op->duration_s, exposed_s);
    return COMM_GOES_ON;
  }
  begin_flow (play, player, op, exposed_s, NOBODY, NOBODY);
  if (!(exposed_s > 0))
    return COMM_GOES_ON;
  player->wait = WAIT_FLOW;
  return COMM_WAITS;
}

/* ---- gradients: begun while compute goes on ---- */

static void
end_gradients_at (SimPlay *play, Player *player, double start_s)
{
  double end_s = start_s + player->gradients_s;

  player->gradients_end_s = end_s;
  player->stream_free_s[SIM_STREAM_DP] = MAX (player->stream_free_s[SIM_STREAM_DP], end_s);
  player->beside_until_s = MAX (player->beside_until_s, end_s);
  if (play->options.event != NULL)
    log_op (play, player, &player->tail->gradients, start_s, end_s);
  if (player->wait == WAIT_GRADIENTS)
    play_wake (play, player, MAX (end_s, play->now_s));
}

static void
flow_gradients (SimPlay *play, Player *player, guint kind, guint32 index)
{
  const SimOp *op = &player->tail->gradients;
  guint32 number = flow_new (play, FLOW_GRADIENTS, op, player, player->gradients_s, -1);

  player->stream_flow[SIM_STREAM_DP] = number;
  if (index != NOBODY) {
    const Sync *sync = &play->syncs[kind][index];
    play->flows[number].sync_kind = kind;
    play->flows[number].sync = index;
    for (guint32 i = 0; i < sync->size; i++)
      play->players[play->members[kind][sync->first + i]].stream_flow[SIM_STREAM_DP] = number;
  }
  sharing_add (play, number);
}

void
play_hook (SimPlay *play, Player *player)
{
  const SimOp *op = &player->tail->gradients;
  const SimLoad *loads;
  guint32 index = NOBODY;
  double free_s = player->stream_free_s[SIM_STREAM_DP];

  if (play->options.contention && player->stream_flow[SIM_STREAM_DP] != NOBODY)
    free_s = play->now_s + play->flows[player->stream_flow[SIM_STREAM_DP]].remaining_s + 1e-6;
  if (play->options.contention && free_s > play->now_s) {
    event_queue_push (&play->queue, free_s, EVENT_HOOK, player_id (play, player), 0);
    return;
  }
  gboolean is_flow = play_loads (play, player, op, &loads) > 0;
  Sync *sync = sync_of (play, player, op->traffic, &index);
  if (sync != NULL && ++sync->arrived < sync->size)
    return;
  if (sync != NULL)
    sync->arrived = 0;
  if (is_flow)
    flow_gradients (play, player, op->traffic, index);
  else if (sync == NULL)
    end_gradients_at (play, player, play->now_s);
  else
    for (guint32 i = 0; i < sync->size; i++)
      end_gradients_at (play, &play->players[play->members[op->traffic][sync->first + i]],
                        play->now_s);
}
