/* sim/play.c - a play from its setup to its result. */
#include "sim/play.h"

#include "model/error.h"
#include "sim/setup-private.h"

#include <math.h>
#include <string.h>

#define MOST_ROOM (G_GUINT64_CONSTANT (1) << 25) /* numbers a play may keep: 256 MiB */

void
sim_play_free (SimPlay *play)
{
  if (play == NULL)
    return;
  sharing_clear (play);
  for (guint kind = 0; kind < N_SYNC_KINDS; kind++) {
    g_free (play->syncs[kind]);
    g_free (play->members[kind]);
    g_free (play->sync_of[kind]);
  }
  model_schedule_free (play->schedule);
  sim_tapes_clear (&play->tapes);
  sim_links_free (play->links);
  g_free (play->content_of_stage);
  g_free (play->tails);
  g_free (play->place_rank);
  g_free (play->players);
  g_free (play->steps);
  g_free (play->forward_at);
  g_free (play->queue.events);
  g_free (play->flows);
  g_free (play->messages_out);
  g_free (play);
}

/* ---- setup ---- */

/* Times of a part, faster or slower. */
static void
scale_op (SimOp *op, const double *scale)
{
  op->duration_s *= scale[op->part];
  op->exposed_s *= scale[op->part];
  op->gap_s *= scale[COST_PART_OTHER];
  if (scale[op->part] > 0) {
    op->link_bytes_per_s /= scale[op->part];
    op->network_bytes_per_s /= scale[op->part];
  }
}

static void
scale_tape (SimTape *tape, const double *scale)
{
  tape->pass_s = 0;
  for (guint i = 0; i < tape->n_ops; i++)
    scale_op (&tape->ops[i], scale);
  for (guint part = 0; part < COST_PART_N_KINDS; part++) {
    tape->parts_s[part] *= scale[part];
    tape->pass_s += tape->parts_s[part];
  }
}

static void
scale_all (SimPlay *play, const double *scale)
{
  for (guint32 i = 0; i < play->tapes.n_contents; i++)
    for (guint kind = 0; kind < 4; kind++)
      scale_tape (&play->tapes.tapes[i][kind], scale);
  for (guint32 r = 0; r < play->pp; r++) {
    Tail *tail = &play->tails[r];
    scale_op (&tail->gradients, scale);
    scale_op (&tail->each, scale);
    scale_op (&tail->optimizer, scale);
    scale_op (&tail->gather, scale);
    for (guint i = 0; i < tail->n_transfers; i++)
      scale_op (&tail->transfers[i], scale);
  }
  scale_op (&play->next_op, scale);
  scale_op (&play->back_op, scale);
  play->messages.delay_s *= scale[COST_PART_P2P];
  play->messages.receive_s *= scale[COST_PART_P2P];
  play->messages.host_s *= scale[COST_PART_OTHER];
}

/* @alone_s: what the message takes on the wire; part of that may hide (step.p2p), the load is the
 * same. */
static void
set_messages (SimPlay *play, double bytes, double alone_s)
{
  double time_s = play->messages.delay_s > 0 ? play->messages.delay_s : play->messages.receive_s;
  SimOp op = { .duration_s = time_s,
               .exposed_s = time_s,
               .name = "message",
               .stream = SIM_STREAM_PP_NEXT,
               .part = COST_PART_P2P,
               .phase = MODEL_PHASE_FORWARD,
               .traffic = SIM_TRAFFIC_NEXT };

  if (time_s > 0 && alone_s > 0)
    op.link_bytes_per_s = op.network_bytes_per_s = bytes / alone_s;
  play->next_op = play->back_op = op;
  play->back_op.stream = SIM_STREAM_PP_BACK;
  play->back_op.traffic = SIM_TRAFFIC_BACK;
}

static void
note_traffic (SimPlay *play)
{
  for (guint32 r = 0; r < play->pp; r++) {
    const Tail *tail = &play->tails[r];
    guint32 least = MIN (r, play->pp - 1 - r);
    for (guint32 chunk = 0; chunk < play->vpp; chunk++) {
      guint32 stage = model_schedule_stage (play->schedule->kind, play->pp, r, chunk);
      for (guint kind = 0; kind < 4; kind++) {
        const SimTape *tape = &play->tapes.tapes[play->content_of_stage[stage]][kind];
        for (guint i = 0; i < tape->n_ops; i++)
          if (tape->ops[i].stream != SIM_STREAM_COMPUTE)
            sim_links_note (play->links, r, &tape->ops[i]);
      }
    }
    sim_links_note (play->links, r, &tail->gradients);
    sim_links_note (play->links, r, &tail->each);
    sim_links_note (play->links, r, &tail->gather);
    for (guint i = 0; i < tail->n_transfers; i++) {
      guint traffic = tail->transfers[i].traffic;
      gboolean is_pair = traffic == MODEL_GROUP_EMBEDDING || traffic == SIM_TRAFFIC_MIRROR;
      sim_links_note (play->links, is_pair ? least : r, &tail->transfers[i]);
    }
    if (play->pp > 1) {
      sim_links_note (play->links, r, &play->next_op);
      sim_links_note (play->links, r, &play->back_op);
    }
  }
}

static void
make_links (SimPlay *play)
{
  guint32 n;

  if (!play->options.contention || play->c == NULL) {
    sharing_init (play, 0);
    return;
  }
  play->links = sim_links_new (play->c, play->options.full);
  note_traffic (play);
  sim_links_build (play->links);
  n = sim_links_count (play->links);
  sharing_init (play, play->options.full ? n : n * play->n_lanes);
  for (guint32 i = 0; i < play->n_shared; i++)
    play->shared[i].capacity_bytes_per_s = sim_links_capacity (play->links, i % n);
  for (guint32 i = 0; i < play->n_players && !play->options.full; i++)
    play->players[i].link_base = play->players[i].lane * n;
}

static void
find_places (SimPlay *play)
{
  const ModelSchedule *s = play->schedule;

  play->place_rank = g_new0 (guint32, play->n_places);
  for (guint32 r = 0; r < play->pp; r++)
    for (guint32 chunk = 0; chunk < play->vpp; chunk++)
      play->place_rank[model_schedule_place (s->kind, s->pp, r, chunk)] = r;
}

static gboolean
make_room (SimPlay *play, GError **error)
{
  guint64 arrivals = 2 * (guint64)play->n_lanes * play->n_places * play->passes;
  guint64 steps = 2 * (guint64)play->n_players * play->schedule->n_steps;

  if (arrivals + steps > MOST_ROOM) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_BAD_VALUE,
                 "%u ranks with %u steps each are too many to play: play one rank for all that "
                 "behave alike, or fewer micro-batches",
                 play->n_players, play->schedule->n_steps);
    return FALSE;
  }
  play->forward_at = g_new (double, MAX (arrivals, 1));
  play->gradient_at = play->forward_at + arrivals / 2;
  play->steps = g_new (double, MAX (steps, 1));
  for (guint32 i = 0; i < play->n_players; i++) {
    play->players[i].step_start_s = play->steps + 2 * (gsize)i * play->schedule->n_steps;
    play->players[i].step_end_s = play->players[i].step_start_s + play->schedule->n_steps;
  }
  return TRUE;
}

/* Everything once schedule, tapes and tails are there. */
static gboolean
finish_setup (SimPlay *play, GError **error)
{
  play->n_places = play->pp * play->vpp;
  play->passes = (gsize)model_schedule_passes (play->schedule->kind, play->schedule->microbatches);
  if (play->options.scale != NULL)
    scale_all (play, play->options.scale);
  find_places (play);
  if (!sim_players_init (play, error) || !make_room (play, error))
    return FALSE;
  make_links (play);
  return TRUE;
}

SimPlay *
sim_play_new (const SimCase *c, const SimPlayOptions *options, GError **error)
{
  g_autoptr (SimPlay) play = g_new0 (SimPlay, 1);
  guint32 n_stages = (guint32)model_layout_n_stages (&c->layout);

  play->c = c;
  play->options = *options;
  play->pp = c->layout.pp;
  play->vpp = c->layout.vpp;
  play->messages = c->messages;
  play->interference_ratio = options->contention ? c->problem->numbers->step.interference_ratio : 0;
  play->schedule = model_schedule_for_layout (&c->layout, c->microbatches, error);
  if (play->schedule == NULL || !sim_tapes_init (&play->tapes, c, play->interference_ratio, error))
    return NULL;
  play->content_of_stage
      = g_memdup2 (c->map.content_of_stage, n_stages * sizeof *play->content_of_stage);
  play->tails = g_new0 (Tail, play->pp);
  for (guint32 r = 0; r < play->pp; r++)
    sim_tail_init (&play->tails[r], c, r);
  set_messages (play, (double)c->tmpl->boundary_bytes, c->placement.p2p_s);
  return finish_setup (play, error) ? g_steal_pointer (&play) : NULL;
}

/* ---- a schedule alone ---- */

static void
set_single_op (SimTape *tape, double time_s, ModelOpPhase phase, gint64 before, gint64 after)
{
  tape->n_ops = 1;
  tape->ops = g_new0 (SimOp, 1);
  tape->ops[0] = (SimOp){ .duration_s = time_s,
                          .name = "pass",
                          .part = COST_PART_COMPUTE,
                          .phase = (guint8)phase,
                          .kept_before_bytes = before,
                          .kept_after_bytes = after };
  tape->pass_s = tape->parts_s[COST_PART_COMPUTE] = time_s;
}

SimPlay *
sim_play_new_schedule (const CostPipeline *times, const ModelSchedule *schedule,
                       const SimPlayOptions *options, GError **error)
{
  g_autoptr (SimPlay) play = g_new0 (SimPlay, 1);
  guint32 n = (guint32)model_schedule_n_stages (schedule->kind, schedule->pp, schedule->vpp);

  play->options = *options;
  play->pp = schedule->pp;
  play->vpp = schedule->vpp;
  play->messages.delay_s = times->p2p_s;
  play->schedule = model_schedule_ref ((ModelSchedule *)schedule);
  play->tapes.n_contents = n;
  play->tapes.tapes = g_malloc0_n (n, sizeof *play->tapes.tapes);
  play->content_of_stage = g_new (guint16, n);
  play->tails = g_new0 (Tail, play->pp);
  for (guint32 stage = 0; stage < n; stage++) {
    SimTape *tapes = play->tapes.tapes[stage];
    double input_s = times->backward_input_s[stage], weight_s = times->backward_weight_s[stage];
    double apart_s = times->apart_s != NULL ? times->apart_s[stage] : 0;
    play->content_of_stage[stage] = (guint16)stage;
    set_single_op (&tapes[MODEL_STEP_FORWARD], times->forward_s[stage], MODEL_PHASE_FORWARD, 1, 0);
    set_single_op (&tapes[MODEL_STEP_BACKWARD], input_s + weight_s, MODEL_PHASE_BACKWARD_INPUT, 0,
                   -1);
    set_single_op (&tapes[MODEL_STEP_BACKWARD_INPUT], input_s + apart_s, MODEL_PHASE_BACKWARD_INPUT,
                   0, 0);
    set_single_op (&tapes[MODEL_STEP_BACKWARD_WEIGHT], weight_s, MODEL_PHASE_BACKWARD_WEIGHT, 0,
                   -1);
  }
  set_messages (play, 0, 0);
  return finish_setup (play, error) ? g_steal_pointer (&play) : NULL;
}

/* ---- a run ---- */

static void
reset_player (Player *player)
{
  for (guint s = 0; s < SIM_STREAM_N_KINDS; s++) {
    player->stream_free_s[s] = 0;
    player->stream_flow[s] = NOBODY;
    player->is_open[s] = FALSE;
  }
  for (guint d = 0; d < 2; d++)
    player->queue_first[d] = player->queue_last[d] = NOBODY;
  player->position = AT_STEP;
  player->wait = WAIT_NOTHING;
  player->step = player->tail_at = player->n_tapes = 0;
  player->clock_s = player->beside_until_s = player->end_s = player->passes_end_s = 0;
  player->gradients_end_s = NOT_YET;
  player->kept_bytes = 0;
  player->peak_bytes = player->peak_kept_bytes = 0;
  player->peak_op = "";
  player->queued_s = player->slowed_s = 0;
  memset (player->parts_s, 0, sizeof player->parts_s);
}

static void
reset (SimPlay *play, guint64 run)
{
  gsize n = 2 * (gsize)play->n_lanes * play->n_places * play->passes;

  play->run = run;
  play->op_count = 0;
  play->now_s = 0;
  play->queue.n = play->queue.sequence = 0;
  play->n_flows = play->n_messages = 0;
  play->free_flow = play->free_message = NOBODY;
  for (gsize i = 0; i < n; i++)
    play->forward_at[i] = NOT_YET;
  for (guint kind = 0; kind < N_SYNC_KINDS; kind++)
    for (guint32 k = 0; k < play->n_syncs[kind]; k++)
      play->syncs[kind][k].arrived = 0;
  play->syncs[SYNC_ALL][0].arrived = 0;
  for (guint32 i = 0; i < play->n_shared; i++) {
    play->shared[i].asked_bytes_per_s = play->shared[i].lost_s = 0;
    play->shared[i].n_flows = play->shared[i].traffic = 0;
  }
  for (guint32 i = 0; i < play->n_players; i++) {
    reset_player (&play->players[i]);
    event_queue_push (&play->queue, 0, EVENT_PLAYER, i, 0);
  }
}

static void
handle (SimPlay *play, const Event *event)
{
  switch ((EventKind)event->kind) {
  case EVENT_PLAYER:
    play_advance (play, event->id);
    break;
  case EVENT_HOOK:
    play_hook (play, &play->players[event->id]);
    break;
  case EVENT_SEND:
    play_send_first (play, &play->players[event->id / 2], event->id % 2);
    break;
  case EVENT_FLOW:
    flow_event (play, event->id, event->version);
    break;
  }
}

static gboolean
check_over (const SimPlay *play, GError **error)
{
  for (guint32 i = 0; i < play->n_players; i++) {
    const Player *player = &play->players[i];
    if (player->position > AT_END)
      continue;
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_ILLEGAL,
                 "the schedule of pp=%u vpp=%u with %u micro-batches waits for itself: rank %u "
                 "stops at step %u of %u",
                 play->pp, play->vpp, play->schedule->microbatches, player->pp_rank, player->step,
                 play->schedule->n_used[player->pp_rank]);
    return FALSE;
  }
  return TRUE;
}

gboolean
sim_play_run (SimPlay *play, guint64 run, SimResult *out, GError **error)
{
  Event event;

  reset (play, run);
  while (event_queue_pop (&play->queue, &event)) {
    play->now_s = event.time_s;
    handle (play, &event);
  }
  if (!check_over (play, error))
    return FALSE;
  if (play->options.event != NULL)
    log_flush (play);
  sim_fill_result (play, out);
  return TRUE;
}
