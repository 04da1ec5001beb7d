/* costmodel/pipeline_recurrence.c - plays a schedule operation by operation.
 *
 * Every rank does w forwards, then pairs (forward, backward), then what is left of the backwards.
 * Time is cut into slots: rank r does its k-th forward in slot k + r and its i-th backward, after
 * that slot's forward, in slot i + w + r. A message then comes from the slot before (backwards of
 * 1F1B: from the same slot, the rank after), so what every rank ended last is all that must be
 * remembered, and it decides all that follows: slots change with the chunks of the ranks only, which
 * repeat after a period, 1 slot for 1F1B, p·v for the interleaved schedule. When the ends after a
 * period equal those after an earlier one up to a constant, the time between the two is what every
 * further stretch of that length takes.
 *
 * The order of operations does not depend on their times: two pipelines of one shape (with and
 * without messages) are played at once, in two lanes.
 */
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

static const Times nowhere = { .lane = { -INFINITY, -INFINITY } };

typedef struct {
  guint32 pp, vpp;
  guint64 period; /* slots */
  guint64 base;   /* slot of the first rank's first backward */
  guint64 total;  /* forwards per rank */
  Times p2p;
  const Times *forward_s, *backward_s; /* by stage */
  Times *forward_now, *backward_now;   /* by rank: of the chunk it is at */
  Times *clock;                        /* by rank */
  /* Last ends. Of rank r: forward_end[r + 1], and where its messages come from: forward_end[r];
   * backward_end[r], from backward_end[r + 1]. The two follow each other in memory. */
  Times *forward_end, *backward_end;
  Times *saved; /* ends of an earlier period */
} Player;

/* What those ends hold that are compared: all but the outermost. */
static gsize
n_ends (const Player *player)
{
  return 2 * (gsize)player->pp;
}

static void
fill_stages (Times *forward_s, Times *backward_s, const CostPipeline *const *pipelines, gsize n)
{
  for (guint lane = 0; lane < N_LANES; lane++) {
    const CostPipeline *pipeline = pipelines[lane];
    for (gsize i = 0; i < n; i++) {
      forward_s[i].lane[lane] = pipeline->forward_s[i];
      backward_s[i].lane[lane] = pipeline->backward_input_s[i] + pipeline->backward_weight_s[i];
    }
  }
}

static void
player_init (Player *player, const CostPipeline *const *pipelines, CostPipelineScratch *scratch)
{
  gsize p = pipelines[0]->pp, v = pipelines[0]->vpp, n = p * v;
  gsize n_times = 2 * n + 3 * p + 2 * (p + 1) + 2 * p;
  Times *times = (Times *)cost_pipeline_scratch_ends (scratch, n_times * N_LANES);
  *player = (Player){ .pp = pipelines[0]->pp,
                      .vpp = pipelines[0]->vpp,
                      .period = v == 1 ? 1 : n,
                      .base = v == 1 ? p - 1 : 2 * (p - 1) + (v - 1) * p,
                      .total = pipelines[0]->microbatches * v,
                      .forward_s = times,
                      .backward_s = times + n };
  for (guint lane = 0; lane < N_LANES; lane++)
    player->p2p.lane[lane] = pipelines[lane]->p2p_s;
  fill_stages (times, times + n, pipelines, n);
  player->forward_now = times + 2 * n;
  player->backward_now = player->forward_now + p;
  player->clock = player->backward_now + p;
  player->forward_end = player->clock + p;
  player->backward_end = player->forward_end + p + 1;
  player->saved = player->backward_end + p + 1;
  memset (player->clock, 0, p * sizeof (Times));
  player->forward_end[0] = player->backward_end[p] = nowhere;
  memcpy (player->forward_now, player->forward_s, p * sizeof (Times));
  memcpy (player->backward_now, player->backward_s + n - p, p * sizeof (Times));
}

static inline void
play (Player *player, guint32 rank, const Times *from, const Times *duration, Times *end)
{
  Lanes clock = later (player->clock[rank].all, from->all + player->p2p.all) + duration->all;
  player->clock[rank].all = clock;
  end->all = clock;
}

/* Chunks go in groups of p micro-batches, so each slot one rank begins a chunk: of index k = slot −
 * rank, a multiple of p. Rank 0 is at that chunk as well. */
static void
play_forwards (Player *player, guint64 slot)
{
  guint32 p = player->pp;
  guint32 low = slot < player->total ? 0 : (guint32)MIN (slot - player->total + 1, p);
  guint32 high = (guint32)MIN (slot + 1, p);
  if (player->vpp > 1) {
    guint32 begins = (guint32)(slot % p), chunk = (guint32)(slot / p % player->vpp);
    player->forward_now[begins] = player->forward_s[(gsize)chunk * p + begins];
    player->forward_end[0] = chunk > 0 ? player->forward_end[p] : nowhere;
  }
  for (guint32 rank = high; rank-- > low;)
    play (player, rank, &player->forward_end[rank], &player->forward_now[rank],
          &player->forward_end[rank + 1]);
}

/* 1F1B: rank r's i-th in slot i + p − 1, after the rank that follows it. */
static void
play_backwards (Player *player, guint64 slot)
{
  if (slot < player->base || slot - player->base >= player->total)
    return;
  for (guint32 rank = player->pp; rank-- > 0;)
    play (player, rank, &player->backward_end[rank + 1], &player->backward_now[rank],
          &player->backward_end[rank]);
}

/* Interleaved: rank r's i-th in slot i + base − r, chunks from the last to the first. */
static void
play_chunks_back (Player *player, guint64 slot)
{
  guint32 p = player->pp;
  guint64 base = player->base, total = player->total, at = slot + p - 1; /* i + base of the last */
  guint32 low = slot < base ? (guint32)MIN (base - slot, p) : 0;
  guint32 high = slot < base + total ? (guint32)MIN (base + total - slot, p) : 0;
  if (at < base)
    return;
  guint64 last = at - base;
  guint32 begins = p - 1 - (guint32)(last % p), chunk = (guint32)(last / p % player->vpp);
  player->backward_now[begins] = player->backward_s[(gsize)(player->vpp - 1 - chunk) * p + begins];
  player->backward_end[p] = chunk > 0 ? player->backward_end[0] : nowhere;
  for (guint32 rank = low; rank < high; rank++)
    play (player, rank, &player->backward_end[rank + 1], &player->backward_now[rank],
          &player->backward_end[rank]);
}

/* From slot @first to the one before @end. */
static void
play_slots (Player *player, guint64 first, guint64 end)
{
  for (guint64 slot = first; slot < end; slot++) {
    play_forwards (player, slot);
    if (player->vpp == 1)
      play_backwards (player, slot);
    else
      play_chunks_back (player, slot);
  }
}

static gboolean
same_ends (const Player *player, Times *out_shift)
{
  const Times *current = player->forward_end + 1;
  for (guint lane = 0; lane < N_LANES; lane++)
    out_shift->lane[lane] = current[0].lane[lane] - player->saved[0].lane[lane];
  for (gsize i = 0; i < n_ends (player); i++)
    for (guint lane = 0; lane < N_LANES; lane++) {
      double end = current[i].lane[lane];
      double off = end - player->saved[i].lane[lane] - out_shift->lane[lane];
      if (!(fabs (off) <= SAME_RATIO * end))
        return FALSE;
    }
  return TRUE;
}

/* Plays period by period; at a repeat takes whole stretches out of the total and returns their
 * time. The saved period is moved on at powers of two, so that any length of repeat is found.
 * *out_slot: the next one to play. */
static Times
play_periods (Player *player, guint64 *out_slot)
{
  guint64 slot = player->base, saved_at = 0;
  guint64 n_periods = player->total > slot ? (player->total - slot) / player->period : 0;
  Times skipped = { 0 };
  play_slots (player, 0, slot);
  for (guint64 n = 1; n <= n_periods; n++, slot += player->period) {
    Times shift;
    play_slots (player, slot, slot + player->period);
    if (n > 1 && same_ends (player, &shift)) {
      guint64 repeat = n - saved_at, stretches = (n_periods - n) / repeat;
      for (guint lane = 0; lane < N_LANES; lane++)
        skipped.lane[lane] = (double)stretches * shift.lane[lane];
      player->total -= stretches * repeat * player->period;
      n_periods = n;
    } else if (n == 1 || n == 2 * saved_at) {
      memcpy (player->saved, player->forward_end + 1, n_ends (player) * sizeof (Times));
      saved_at = n;
    }
  }
  *out_slot = slot;
  return skipped;
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

static void
play_both (const CostPipeline *const *pipelines, CostPipelineScratch *scratch,
           CostPipelineResult *results)
{
  Player player;
  guint64 slot = 0;
  player_init (&player, pipelines, scratch);
  Times skipped = play_periods (&player, &slot);
  play_slots (&player, slot, player.total + player.base);
  for (guint lane = 0; lane < N_LANES; lane++) {
    for (guint32 rank = 0; rank < player.pp; rank++)
      results[lane].makespan_s = MAX (results[lane].makespan_s, player.clock[rank].lane[lane]);
    results[lane].makespan_s += skipped.lane[lane];
    results[lane].played_count = player.total / player.vpp;
  }
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
  if (!is_listed && one->schedule != MODEL_SCHEDULE_GPIPE)
    play_both (pipelines, scratch, results);
  if (!is_listed)
    keep_played (scratch, pipelines, results);
  memcpy (out, results, sizeof results);
  return TRUE;
}
