/* costmodel/pipeline_recurrence.c - plays a schedule operation by operation.
 *
 * Every rank does w forwards, then pairs (forward, backward), then what is left of the backwards.
 * A period is one pair per micro-batch of a group: 1 pair for 1F1B, p·v for the interleaved
 * schedule. "All ranks have done w + n periods" is a cut no message crosses backwards, and an
 * operation looks back less than one period, so the ends of one period decide all that follow:
 * when they equal those of an earlier period up to a constant, the time between the two is what
 * every further stretch of that length takes.
 *
 * The order of operations does not depend on their times: two pipelines of one shape (with and
 * without messages) are played at once, in two lanes.
 */
#include "costmodel/error.h"
#include "costmodel/pipeline-private.h"
#include "model/error.h"
#include <math.h>
#include <string.h>

/* Two periods count as equal if no end differs by more than this share of the time played. */
#define SAME_RATIO 1e-12

CostPipelineScratch *
cost_pipeline_scratch_new (void)
{
  return g_new0 (CostPipelineScratch, 1);
}

void
cost_pipeline_scratch_free (CostPipelineScratch *scratch)
{
  if (scratch == NULL)
    return;
  g_free (scratch->ends);
  g_free (scratch->counts);
  for (guint i = 0; i < COST_N_PLAYED; i++)
    g_free (scratch->played[i].times_s);
  model_schedule_free (scratch->list);
  g_free (scratch);
}

double *
cost_pipeline_scratch_ends (CostPipelineScratch *scratch, gsize n)
{
  if (scratch->n_ends < n) {
    scratch->ends = g_renew (double, scratch->ends, n);
    scratch->n_ends = n;
  }
  return scratch->ends;
}

guint64 *
cost_pipeline_scratch_counts (CostPipelineScratch *scratch, gsize n)
{
  if (scratch->n_counts < n) {
    scratch->counts = g_renew (guint64, scratch->counts, n);
    scratch->n_counts = n;
  }
  return scratch->counts;
}

#define N_LANES 2

typedef double Lanes __attribute__ ((vector_size (N_LANES * sizeof (double))));
typedef gint64 LaneBits __attribute__ ((vector_size (N_LANES * sizeof (gint64))));
typedef union {
  Lanes all;
  double lane[N_LANES];
} Times;

static inline Lanes
later (Lanes a, Lanes b)
{
  LaneBits a_is_later = a > b;
  return (Lanes)((a_is_later & (LaneBits)a) | (~a_is_later & (LaneBits)b));
}

/* One virtual stage in one direction. */
typedef struct {
  Times first, second; /* durations, added one after the other */
  Times *ends;         /* ring of the last micro-batches */
  guint64 done;        /* micro-batches */
} Stage;

/*
 * Where a rank is in one direction: the next operation is that of @microbatch on @stage, chunk
 * @chunk counted from the start of that direction. Chunks come in groups of p micro-batches.
 */
typedef struct {
  guint64 done; /* operations */
  guint64 microbatch;
  guint32 chunk;
  guint32 in_group; /* micro-batches of the group done on this chunk */
  guint32 record;   /* place in the last period */
  Stage *stage;
  const Stage *from; /* where its messages come from; NULL: nowhere */
} Cursor;

typedef struct {
  Cursor forward, backward;
  guint64 warmup;
  Times clock;
} Rank;

typedef struct {
  guint32 pp, vpp, n_stages, period; /* period: pairs */
  guint64 total;                     /* forwards per rank */
  guint64 mask;                      /* of the window of micro-batches that can be on the way */
  Times p2p;
  Stage *forward, *backward; /* in the order of the direction */
  Rank *ranks;
  Times *current, *saved; /* ends of the last period, 2·period by rank */
} Player;

static guint64
warmup_count (const Player *player, guint32 rank)
{
  guint64 hops = player->pp - 1 - rank;
  guint64 wanted = player->vpp == 1 ? hops : 2 * hops + (guint64)(player->vpp - 1) * player->pp;
  return MIN (wanted, player->total);
}

/* Window of micro-batches between a producer and its consumer: at most 2p are alive in a chunk. */
static guint64
window_count (guint32 pp)
{
  guint64 window = 4;
  while (window < 2 * (guint64)pp + 2)
    window *= 2;
  return window;
}

/* Stage and source of @cursor's chunk; @index: the rank's place in a chunk in this direction. */
static void
cursor_aim (const Player *player, Stage *stages, Cursor *cursor, guint32 index)
{
  gsize at = (gsize)cursor->chunk * player->pp + index;
  cursor->stage = &stages[at];
  cursor->from = at > 0 ? &stages[at - 1] : NULL;
}

static void
fill_stages (Player *player, const CostPipeline *const *pipelines, Times *ends)
{
  gsize n = player->n_stages, window = (gsize)player->mask + 1;
  for (gsize i = 0; i < n; i++) {
    Stage *forward = &player->forward[i], *backward = &player->backward[n - 1 - i];
    forward->ends = ends + i * window;
    backward->ends = ends + (n + i) * window;
    for (guint lane = 0; lane < N_LANES; lane++) {
      forward->first.lane[lane] = pipelines[lane]->forward_s[i];
      backward->first.lane[lane] = pipelines[lane]->backward_input_s[i];
      backward->second.lane[lane] = pipelines[lane]->backward_weight_s[i];
    }
  }
  for (guint lane = 0; lane < N_LANES; lane++)
    player->p2p.lane[lane] = pipelines[lane]->p2p_s;
}

static void
player_init (Player *player, const CostPipeline *const *pipelines, CostPipelineScratch *scratch)
{
  guint32 p = pipelines[0]->pp, v = pipelines[0]->vpp;
  guint64 window = window_count (p);
  *player = (Player){ .pp = p,
                      .vpp = v,
                      .n_stages = p * v,
                      .period = v == 1 ? 1 : p * v,
                      .total = pipelines[0]->microbatches * v,
                      .mask = window - 1 };
  gsize n_window = (gsize)player->n_stages * window, n_period = 2 * (gsize)p * player->period;
  Times *times
      = (Times *)cost_pipeline_scratch_ends (scratch, (2 * n_window + 2 * n_period)
                                                          * (sizeof (Times) / sizeof (double)));
  gsize n_bytes = 2 * player->n_stages * sizeof (Stage) + p * sizeof (Rank);
  player->forward = (Stage *)cost_pipeline_scratch_counts (scratch, n_bytes / sizeof (guint64) + 1);
  memset (player->forward, 0, n_bytes);
  player->backward = player->forward + player->n_stages;
  player->ranks = (Rank *)(player->backward + player->n_stages);
  player->current = times + 2 * n_window;
  player->saved = player->current + n_period;
  fill_stages (player, pipelines, times);
  for (guint32 rank = 0; rank < p; rank++) {
    player->ranks[rank].warmup = warmup_count (player, rank);
    cursor_aim (player, player->forward, &player->ranks[rank].forward, rank);
    cursor_aim (player, player->backward, &player->ranks[rank].backward, p - 1 - rank);
  }
}

/* Next operation of a rank in one direction, after which @cursor is at the one after it. FALSE: its
 * message is not there yet. */
static inline gboolean
play (const Player *player, Stage *stages, Cursor *cursor, guint32 index, Times *clock)
{
  Stage *stage = cursor->stage;
  guint64 slot = cursor->microbatch & player->mask;
  if (cursor->from != NULL) {
    if (cursor->from->done <= cursor->microbatch)
      return FALSE;
    clock->all = later (clock->all, cursor->from->ends[slot].all + player->p2p.all);
  }
  clock->all += stage->first.all;
  clock->all += stage->second.all;
  stage->ends[slot] = *clock;
  stage->done++;
  cursor->done++;
  cursor->microbatch++;
  if (player->vpp == 1 || ++cursor->in_group < player->pp)
    return TRUE;
  cursor->in_group = 0;
  if (++cursor->chunk < player->vpp)
    cursor->microbatch -= player->pp;
  else
    cursor->chunk = 0;
  cursor_aim (player, stages, cursor, index);
  return TRUE;
}

/* Keeps the end of an operation of the period; @side: 0 forward, 1 backward. */
static inline void
record_end (const Player *player, Times *record, Cursor *cursor, guint side, const Times *end)
{
  record[2 * cursor->record + side] = *end;
  if (++cursor->record == player->period)
    cursor->record = 0;
}

/* Plays @rank until @n_periods are done or a message is missing. TRUE: at the cut. */
static gboolean
advance (Player *player, guint32 rank, guint64 n_periods)
{
  Rank *own = &player->ranks[rank];
  Cursor *forward = &own->forward, *backward = &own->backward;
  guint64 warmup = own->warmup, total = player->total;
  guint64 last_backward = MIN (n_periods * player->period, total);
  guint64 last_forward = MIN (warmup + last_backward, total);
  guint32 index_back = player->pp - 1 - rank;
  Times clock = own->clock, *record = player->current + 2 * (gsize)rank * player->period;
  gboolean is_at_cut = FALSE;
  for (;;) {
    guint64 forwards = forward->done, backwards = backward->done;
    is_at_cut = forwards == last_forward && backwards == last_backward;
    if (is_at_cut)
      break;
    if (forwards < total && forwards - backwards <= warmup) {
      if (!play (player, player->forward, forward, rank, &clock))
        break;
      if (forwards >= warmup)
        record_end (player, record, forward, 0, &clock);
    } else {
      if (!play (player, player->backward, backward, index_back, &clock))
        break;
      record_end (player, record, backward, 1, &clock);
    }
  }
  own->clock = clock;
  return is_at_cut;
}

/* Sweeps up (forwards travel that way) and down (backwards) until all ranks are at the cut.
 * FALSE: a sweep moved nothing, which no legal order does. */
static gboolean
play_to (Player *player, guint64 n_periods)
{
  guint64 done = 0, done_before = G_MAXUINT64;
  for (;;) {
    guint32 at_cut = 0;
    for (guint32 i = 0; i < player->pp; i++)
      advance (player, i, n_periods);
    done = 0;
    for (guint32 i = player->pp; i-- > 0;) {
      at_cut += advance (player, i, n_periods);
      done += player->ranks[i].forward.done + player->ranks[i].backward.done;
    }
    if (at_cut == player->pp)
      return TRUE;
    if (done == done_before)
      return FALSE;
    done_before = done;
  }
}

static gboolean
same_shape (const Player *player, Times *out_shift)
{
  gsize n = 2 * (gsize)player->pp * player->period;
  Times shift;
  for (guint lane = 0; lane < N_LANES; lane++)
    shift.lane[lane] = player->current[0].lane[lane] - player->saved[0].lane[lane];
  for (gsize i = 0; i < n; i++)
    for (guint lane = 0; lane < N_LANES; lane++) {
      double end = player->current[i].lane[lane];
      double off = end - player->saved[i].lane[lane] - shift.lane[lane];
      if (!(fabs (off) <= SAME_RATIO * end))
        return FALSE;
    }
  *out_shift = shift;
  return TRUE;
}

/* Plays period by period; at a repeat takes whole stretches out of the total and returns their
 * time. The saved period is moved on at powers of two, so that any length of repeat is found. */
static gboolean
play_periods (Player *player, Times *out_skipped)
{
  guint64 longest = warmup_count (player, 0), saved_at = 1;
  guint64 n_periods = (player->total - longest) / player->period;
  gsize n_bytes = 2 * (gsize)player->pp * player->period * sizeof (Times);
  *out_skipped = (Times){ 0 };
  for (guint64 n = 1; n <= n_periods; n++) {
    Times shift;
    if (!play_to (player, n))
      return FALSE;
    if (n > saved_at && same_shape (player, &shift)) {
      guint64 repeat = n - saved_at, stretches = (n_periods - n) / repeat;
      for (guint lane = 0; lane < N_LANES; lane++)
        out_skipped->lane[lane] = (double)stretches * shift.lane[lane];
      player->total -= stretches * repeat * player->period;
      return TRUE;
    }
    if (n == 1 || n == 2 * saved_at) {
      memcpy (player->saved, player->current, n_bytes);
      saved_at = n;
    }
  }
  return TRUE;
}

static gboolean
check_sizes (const CostPipeline *pipeline, GError **error)
{
  guint32 p = pipeline->pp, v = pipeline->vpp;
  guint64 m = pipeline->microbatches;
  gboolean is_interleaved = pipeline->schedule == MODEL_SCHEDULE_INTERLEAVED;
  if (p == 0 || v == 0 || m == 0 || (guint64)p * v > G_MAXUINT16 || m > G_MAXUINT32) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_ILLEGAL,
                 "a pipeline needs 1 to 65535 stages and 1 to 4294967295 micro-batches, got %u×%u "
                 "stages and %" G_GUINT64_FORMAT " micro-batches",
                 p, v, m);
    return FALSE;
  }
  if (model_schedule_is_listed (pipeline->schedule))
    return TRUE; /* the list says the rest */
  if (v > 1 && (!is_interleaved || m % p != 0)) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_ILLEGAL,
                 "vpp=%u needs the interleaved schedule and micro-batches in multiples of pp=%u, "
                 "got %" G_GUINT64_FORMAT,
                 v, p, m);
    return FALSE;
  }
  return TRUE;
}

static void
find_busiest (const CostPipeline *pipeline, CostPipelineResult *out)
{
  for (guint32 rank = 0; rank < pipeline->pp; rank++) {
    double work_s = 0;
    for (guint32 stage = rank; stage < pipeline->pp * pipeline->vpp; stage += pipeline->pp)
      work_s += pipeline->forward_s[stage] + pipeline->backward_input_s[stage]
                + pipeline->backward_weight_s[stage];
    work_s *= (double)pipeline->microbatches;
    out->mean_busy_s += work_s / pipeline->pp;
    if (rank == 0 || work_s > out->busy_s) {
      out->busy_s = work_s;
      out->critical_rank = rank;
    }
  }
}

static gboolean
play_both (const CostPipeline *const *pipelines, CostPipelineScratch *scratch,
           CostPipelineResult *results, GError **error)
{
  const CostPipeline *pipeline = pipelines[0];
  Player player;
  Times skipped;
  player_init (&player, pipelines, scratch);
  if (!play_periods (&player, &skipped) || !play_to (&player, G_MAXUINT32)) {
    g_set_error (error, COST_ERROR, COST_ERROR_BAD_VALUE,
                 "the schedule of pp=%u vpp=%u with %" G_GUINT64_FORMAT " micro-batches waits for "
                 "itself",
                 pipeline->pp, pipeline->vpp, pipeline->microbatches);
    return FALSE;
  }
  for (guint lane = 0; lane < N_LANES; lane++) {
    for (guint32 rank = 0; rank < pipeline->pp; rank++)
      results[lane].makespan_s
          = MAX (results[lane].makespan_s, player.ranks[rank].clock.lane[lane]);
    results[lane].makespan_s += skipped.lane[lane];
    results[lane].played_count = player.total / pipeline->vpp;
  }
  return TRUE;
}

/* ---- what has been played ---- */

static gboolean
same_times (const double *known, const CostPipeline *pipeline, gsize n)
{
  return memcmp (known, pipeline->forward_s, n * sizeof *known) == 0
         && memcmp (known + n, pipeline->backward_input_s, n * sizeof *known) == 0
         && memcmp (known + 2 * n, pipeline->backward_weight_s, n * sizeof *known) == 0;
}

static gboolean
is_known (const CostPlayed *known, const CostPipeline *const *pipelines)
{
  const CostPipeline *one = pipelines[0];
  gsize n = (gsize)one->pp * one->vpp;
  return known->pp == one->pp && known->vpp == one->vpp && known->schedule == one->schedule
         && known->microbatches == one->microbatches && known->p2p_s[0] == one->p2p_s
         && known->p2p_s[1] == pipelines[1]->p2p_s && same_times (known->times_s, one, n)
         && same_times (known->times_s + 3 * n, pipelines[1], n);
}

static const CostPlayed *
find_played (const CostPipelineScratch *scratch, const CostPipeline *const *pipelines)
{
  for (guint i = 0; i < COST_N_PLAYED; i++)
    if (is_known (&scratch->played[i], pipelines))
      return &scratch->played[i];
  return NULL;
}

static void
keep_played (CostPipelineScratch *scratch, const CostPipeline *const *pipelines,
             const CostPipelineResult *results)
{
  CostPlayed *played = &scratch->played[scratch->n_played++ % COST_N_PLAYED];
  const CostPipeline *one = pipelines[0];
  gsize n = (gsize)one->pp * one->vpp;
  played->schedule = one->schedule;
  played->pp = one->pp;
  played->vpp = one->vpp;
  played->microbatches = one->microbatches;
  played->times_s = g_renew (double, played->times_s, 6 * n);
  for (guint lane = 0; lane < N_LANES; lane++) {
    double *times_s = played->times_s + lane * 3 * n;
    played->p2p_s[lane] = pipelines[lane]->p2p_s;
    played->results[lane] = results[lane];
    memcpy (times_s, pipelines[lane]->forward_s, n * sizeof *times_s);
    memcpy (times_s + n, pipelines[lane]->backward_input_s, n * sizeof *times_s);
    memcpy (times_s + 2 * n, pipelines[lane]->backward_weight_s, n * sizeof *times_s);
  }
}

gboolean
cost_pipeline_recurrence (const CostPipeline *pipeline, CostPipelineScratch *scratch,
                          CostPipelineResult *out, GError **error)
{
  CostPipelineResult both[N_LANES];
  if (!cost_pipeline_recurrence_both (pipeline, pipeline, scratch, both, error))
    return FALSE;
  *out = both[0];
  return TRUE;
}

gboolean
cost_pipeline_recurrence_both (const CostPipeline *one, const CostPipeline *other,
                               CostPipelineScratch *scratch, CostPipelineResult *out,
                               GError **error)
{
  const CostPipeline *pipelines[N_LANES] = { one, other };
  CostPipelineResult results[N_LANES] = { { 0 } };
  g_return_val_if_fail (one->schedule == other->schedule && one->pp == other->pp
                            && one->vpp == other->vpp && one->microbatches == other->microbatches,
                        FALSE);
  if (!check_sizes (one, error))
    return FALSE;
  gboolean is_listed = model_schedule_is_listed (one->schedule);
  const CostPlayed *known = is_listed ? NULL : find_played (scratch, pipelines);
  if (known != NULL) {
    memcpy (out, known->results, sizeof known->results);
    return TRUE;
  }
  for (guint lane = 0; lane < N_LANES; lane++) {
    CostPipelineResult *result = &results[lane];
    if (is_listed && lane > 0 && one == other)
      *result = results[0];
    else if (is_listed && !cost_pipeline_play_list (pipelines[lane], scratch, result, error))
      return FALSE;
    if (is_listed)
      continue;
    find_busiest (pipelines[lane], result);
    /* GPipe is a flow shop of equal jobs: the closed form is exact. */
    if (one->schedule == MODEL_SCHEDULE_GPIPE)
      result->makespan_s = cost_pipeline_lower_bound (pipelines[lane]);
  }
  if (!is_listed && one->schedule != MODEL_SCHEDULE_GPIPE
      && !play_both (pipelines, scratch, results, error))
    return FALSE;
  if (!is_listed)
    keep_played (scratch, pipelines, results);
  memcpy (out, results, sizeof results);
  return TRUE;
}
