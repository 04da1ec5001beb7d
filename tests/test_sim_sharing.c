/* tests/test_sim_sharing.c - paces of flows that come and go on links, worked out by hand. */
#include "sim/play-private.h"
#include "tests/testutil.h"

#define LINKS 3
#define FLOWS 4

typedef struct {
  SimPlay *play;
  SimOp ops[FLOWS];
  SimLoad loads[FLOWS][LINKS];
} Fixture;

/* Flow @i asks for @gb_per_s on each link of @links (bits), at full pace. */
static void
add_flow (Fixture *f, guint i, double gb_per_s, guint links)
{
  Flow *flow = &f->play->flows[i];
  f->ops[i] = (SimOp){ .network_bytes_per_s = gb_per_s * 1e9, .traffic = (guint8)i };
  *flow = (Flow){ .op = &f->ops[i],
                  .loads = f->loads[i],
                  .sync_kind = NOBODY,
                  .remaining_s = 1,
                  .exposed_left_s = -1,
                  .bottleneck = NOBODY,
                  .updated_s = f->play->now_s };
  for (guint link = 0; link < LINKS; link++)
    if (links >> link & 1)
      f->loads[i][flow->n_loads++] = (SimLoad){ link, 0, 1 };
  sharing_add (f->play, i);
}

static void
fixture_init (Fixture *f, const double *capacities_gb)
{
  memset (f, 0, sizeof *f);
  f->play = g_new0 (SimPlay, 1);
  f->play->flows = g_new0 (Flow, FLOWS);
  f->play->players = g_new0 (Player, 1);
  sharing_init (f->play, LINKS);
  for (guint i = 0; i < LINKS; i++)
    f->play->shared[i].capacity_bytes_per_s = capacities_gb[i] * 1e9;
}

#define assert_pace(f, i, want) assert_near ((f)->play->flows[i].pace, want, 1e-9)

static void
test_one_link (void **state)
{
  Fixture f;
  (void)state;
  fixture_init (&f, (double[]){ 50, 100, 100 });
  add_flow (&f, 0, 30, 1);
  assert_pace (&f, 0, 1);
  /* 30 + 40 > 50: 25 each */
  add_flow (&f, 1, 40, 1);
  assert_pace (&f, 0, 25.0 / 30);
  assert_pace (&f, 1, 25.0 / 40);
  /* one that asks for 10 gets it, the others share 40 */
  add_flow (&f, 2, 10, 1);
  assert_pace (&f, 2, 1);
  assert_pace (&f, 0, 20.0 / 30);
  assert_pace (&f, 1, 20.0 / 40);
  assert_int_equal (f.play->flows[0].bottleneck, 0);
  assert_int_equal (f.play->shared[0].traffic, 7);
  sharing_remove (f.play, 0);
  assert_pace (&f, 1, 1); /* 40 + 10 fit */
  assert_int_equal (f.play->flows[1].bottleneck, NOBODY);
  sim_play_free (f.play);
}

/* What is done at the slower pace stays done, and what was lost is the link's. */
static void
test_progress (void **state)
{
  Fixture f;
  (void)state;
  fixture_init (&f, (double[]){ 50, 100, 100 });
  add_flow (&f, 0, 50, 1);
  add_flow (&f, 1, 50, 1); /* half pace each, from 0 on */
  f.play->now_s = 0.6;
  sharing_remove (f.play, 1);
  assert_pace (&f, 0, 1);
  assert_near (f.play->flows[0].remaining_s, 1 - 0.3, 1e-12);
  assert_near (f.play->shared[0].lost_s, 0.3, 1e-12);
  sim_play_free (f.play);
}

/* Two flows that fill a link, both waited for, end at the same moment: both wake, after twice their
 * time, however the times round. Of the second kind half is waited for: after all of the time. */
static void
test_waiting_ends (void **state)
{
  (void)state;
  for (guint trial = 0; trial < 400; trial++) {
    const double seconds = 1e-3 * (1 + (trial / 2) * 0.0137), start_s = (trial / 2) * 0.0731;
    const double exposed_s = trial % 2 == 0 ? seconds : seconds / 2;
    Fixture f;
    Event event;
    fixture_init (&f, (double[]){ 50, 100, 100 });
    g_free (f.play->players);
    f.play->players = g_new0 (Player, 2);
    f.play->n_players = 2;
    f.play->now_s = start_s;
    for (guint i = 0; i < 2; i++) {
      Player *player = &f.play->players[i];
      for (guint stream = 0; stream < SIM_STREAM_N_KINDS; stream++)
        player->stream_flow[stream] = NOBODY;
      player->wait = WAIT_FLOW;
      player->waited_from_s = player->clock_s = start_s;
      add_flow (&f, i, 50, 1);
      f.play->flows[i].player = i;
      f.play->flows[i].started_s = start_s;
      player->stream_flow[f.ops[i].stream] = i;
    }
    for (guint i = 0; i < 2; i++) { /* as if made with these times */
      f.play->flows[i].remaining_s = seconds;
      f.play->flows[i].exposed_left_s = exposed_s;
      f.play->flows[i].version++;
      event_queue_push (&f.play->queue, start_s + 2 * exposed_s, EVENT_FLOW, i,
                        f.play->flows[i].version);
    }
    while (event_queue_pop (&f.play->queue, &event)) {
      f.play->now_s = event.time_s;
      if (event.kind == EVENT_FLOW)
        flow_event (f.play, event.id, event.version);
    }
    for (guint i = 0; i < 2; i++) {
      assert_int_not_equal (f.play->players[i].wait, WAIT_FLOW);
      assert_near (f.play->players[i].clock_s, start_s + 2 * exposed_s, 1e-9);
    }
    sim_play_free (f.play);
  }
}

/*
 * Links of 50 and 30. Flow 0 over both, 1 over the first, 2 over the second, asking for 30, 40, 30.
 * Second: 15 each; what is left of the first, 35, is flow 1's.
 */
static void
test_two_links (void **state)
{
  Fixture f;
  (void)state;
  fixture_init (&f, (double[]){ 50, 30, 100 });
  add_flow (&f, 0, 30, 3);
  add_flow (&f, 1, 40, 1);
  /* 30 over the first at most; a flow alone never exceeds a link: 30 of it is its own pace */
  assert_pace (&f, 0, 25.0 / 30);
  assert_pace (&f, 1, 25.0 / 40);
  add_flow (&f, 2, 30, 2);
  assert_pace (&f, 0, 15.0 / 30);
  assert_pace (&f, 2, 15.0 / 30);
  assert_pace (&f, 1, 35.0 / 40);
  /* elsewhere nobody notices */
  add_flow (&f, 3, 100, 4);
  assert_pace (&f, 3, 1);
  sim_play_free (f.play);
}

int
main (void)
{
  const struct CMUnitTest tests[]
      = { cmocka_unit_test (test_one_link), cmocka_unit_test (test_progress),
          cmocka_unit_test (test_waiting_ends), cmocka_unit_test (test_two_links) };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
