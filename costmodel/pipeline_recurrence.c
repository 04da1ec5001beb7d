/* costmodel/pipeline_recurrence.c - plays a schedule operation by operation.
 *
 * Every rank does w forwards, then pairs (forward, backward), then what is left of the backwards.
 * A period is one pair per micro-batch of a group: 1 pair for 1F1B, p·v for the interleaved
 * schedule. "All ranks have done w + n periods" is a cut no message crosses backwards, and an
 * operation looks back less than one period, so the ends of one period decide all that follow:
 * when they equal those of an earlier period up to a constant, the time between the two is what
 * every further stretch of that length takes.
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

typedef struct {
  const CostPipeline *pipeline;
  guint32 pp, vpp, n_stages, period;  /* period: pairs */
  guint64 total;                      /* forwards per rank */
  guint64 mask;                       /* of the window of micro-batches that can be on the way */
  double *forward_end, *backward_end; /* stage · window */
  guint64 *forward_count, *backward_count; /* micro-batches done by stage */
  guint64 *rank_forwards, *rank_backwards; /* operations done by rank */
  double *clock;                           /* by rank */
  double *current, *saved;                 /* ends of the last period, 2·period by rank */
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

static void
player_init (Player *player, const CostPipeline *pipeline, CostPipelineScratch *scratch)
{
  guint32 p = pipeline->pp, v = pipeline->vpp;
  guint64 window = window_count (p);
  *player = (Player){ .pipeline = pipeline,
                      .pp = p,
                      .vpp = v,
                      .n_stages = p * v,
                      .period = v == 1 ? 1 : p * v,
                      .total = pipeline->microbatches * v,
                      .mask = window - 1 };
  gsize n_window = (gsize)player->n_stages * window, n_period = 2 * (gsize)p * player->period;
  gsize n_ends = 2 * n_window + 2 * n_period + p;
  gsize n_counts = 2 * (gsize)player->n_stages + 2 * (gsize)p;
  player->forward_end = cost_pipeline_scratch_ends (scratch, n_ends);
  player->forward_count = cost_pipeline_scratch_counts (scratch, n_counts);
  memset (player->forward_count, 0, n_counts * sizeof *player->forward_count);
  player->backward_end = player->forward_end + n_window;
  player->current = player->backward_end + n_window;
  player->saved = player->current + n_period;
  player->clock = player->saved + n_period;
  memset (player->clock, 0, p * sizeof *player->clock);
  player->backward_count = player->forward_count + player->n_stages;
  player->rank_forwards = player->backward_count + player->n_stages;
  player->rank_backwards = player->rank_forwards + p;
}

/* The @index-th forward of any rank: chunks in groups of p micro-batches. */
static void
operation_at (const Player *player, guint64 index, guint32 *chunk, guint64 *microbatch)
{
  if (player->vpp == 1) {
    *chunk = 0;
    *microbatch = index;
    return;
  }
  guint64 group = index / player->n_stages, within = index % player->n_stages;
  *chunk = (guint32)(within / player->pp);
  *microbatch = group * player->pp + within % player->pp;
}

/* Next forward of @rank. FALSE: its message is not there yet. */
static gboolean
play_forward (Player *player, guint32 rank)
{
  guint32 chunk;
  guint64 microbatch;
  operation_at (player, player->rank_forwards[rank], &chunk, &microbatch);
  guint32 stage = chunk * player->pp + rank;
  guint64 window = player->mask + 1, slot = microbatch & player->mask;
  double start = player->clock[rank];
  if (stage > 0) {
    if (player->forward_count[stage - 1] <= microbatch)
      return FALSE;
    start = MAX (start, player->forward_end[(stage - 1) * window + slot] + player->pipeline->p2p_s);
  }
  double end = start + player->pipeline->forward_s[stage];
  player->forward_end[stage * window + slot] = end;
  player->forward_count[stage]++;
  player->rank_forwards[rank]++;
  player->clock[rank] = end;
  return TRUE;
}

static gboolean
play_backward (Player *player, guint32 rank)
{
  guint32 chunk;
  guint64 microbatch;
  operation_at (player, player->rank_backwards[rank], &chunk, &microbatch);
  guint32 stage = (player->vpp - 1 - chunk) * player->pp + rank;
  guint64 window = player->mask + 1, slot = microbatch & player->mask;
  double start = player->clock[rank];
  if (stage + 1 < player->n_stages) {
    if (player->backward_count[stage + 1] <= microbatch)
      return FALSE;
    start
        = MAX (start, player->backward_end[(stage + 1) * window + slot] + player->pipeline->p2p_s);
  }
  double end = start + player->pipeline->backward_input_s[stage]
               + player->pipeline->backward_weight_s[stage];
  player->backward_end[stage * window + slot] = end;
  player->backward_count[stage]++;
  player->rank_backwards[rank]++;
  player->clock[rank] = end;
  return TRUE;
}

/* Plays @rank until @n_periods are done or a message is missing. TRUE: at the cut. */
static gboolean
advance (Player *player, guint32 rank, guint64 n_periods)
{
  guint64 warmup = warmup_count (player, rank);
  guint64 last_backward = MIN (n_periods * player->period, player->total);
  guint64 last_forward = MIN (warmup + last_backward, player->total);
  double *record = player->current + 2 * (gsize)rank * player->period;
  for (;;) {
    guint64 forwards = player->rank_forwards[rank], backwards = player->rank_backwards[rank];
    if (forwards == last_forward && backwards == last_backward)
      return TRUE;
    gboolean is_forward = forwards < player->total && forwards - backwards <= warmup;
    if (!(is_forward ? play_forward (player, rank) : play_backward (player, rank)))
      return FALSE;
    if (is_forward && forwards >= warmup)
      record[2 * ((forwards - warmup) % player->period)] = player->clock[rank];
    else if (!is_forward)
      record[2 * (backwards % player->period) + 1] = player->clock[rank];
  }
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
      done += player->rank_forwards[i] + player->rank_backwards[i];
    }
    if (at_cut == player->pp)
      return TRUE;
    if (done == done_before)
      return FALSE;
    done_before = done;
  }
}

static gboolean
same_shape (const Player *player, double *out_shift_s)
{
  gsize n = 2 * (gsize)player->pp * player->period;
  double shift = player->current[0] - player->saved[0];
  for (gsize i = 0; i < n; i++) {
    double off = player->current[i] - player->saved[i] - shift;
    if (!(fabs (off) <= SAME_RATIO * player->current[i]))
      return FALSE;
  }
  *out_shift_s = shift;
  return TRUE;
}

/* Plays period by period; at a repeat takes whole stretches out of the total and returns their
 * time. The saved period is moved on at powers of two, so that any length of repeat is found. */
static gboolean
play_periods (Player *player, double *out_skipped_s)
{
  guint64 longest = warmup_count (player, 0), saved_at = 1;
  guint64 n_periods = (player->total - longest) / player->period;
  gsize n_bytes = 2 * (gsize)player->pp * player->period * sizeof (double);
  *out_skipped_s = 0;
  for (guint64 n = 1; n <= n_periods; n++) {
    double shift_s;
    if (!play_to (player, n))
      return FALSE;
    if (n > saved_at && same_shape (player, &shift_s)) {
      guint64 repeat = n - saved_at, stretches = (n_periods - n) / repeat;
      *out_skipped_s = (double)stretches * shift_s;
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

gboolean
cost_pipeline_recurrence (const CostPipeline *pipeline, CostPipelineScratch *scratch,
                          CostPipelineResult *out, GError **error)
{
  if (!check_sizes (pipeline, error))
    return FALSE;
  if (model_schedule_is_listed (pipeline->schedule))
    return cost_pipeline_play_list (pipeline, scratch, out, error);
  CostPipelineResult result = { .played_count = pipeline->microbatches };
  find_busiest (pipeline, &result);
  if (pipeline->schedule == MODEL_SCHEDULE_GPIPE) {
    /* A flow shop of equal jobs: the closed form is exact. */
    result.makespan_s = cost_pipeline_lower_bound (pipeline);
    result.played_count = 0;
    *out = result;
    return TRUE;
  }
  Player player;
  double skipped_s;
  player_init (&player, pipeline, scratch);
  if (!play_periods (&player, &skipped_s) || !play_to (&player, G_MAXUINT32)) {
    g_set_error (error, COST_ERROR, COST_ERROR_BAD_VALUE,
                 "the schedule of pp=%u vpp=%u with %" G_GUINT64_FORMAT " micro-batches waits for "
                 "itself",
                 pipeline->pp, pipeline->vpp, pipeline->microbatches);
    return FALSE;
  }
  for (guint32 rank = 0; rank < pipeline->pp; rank++)
    result.makespan_s = MAX (result.makespan_s, player.clock[rank]);
  result.makespan_s += skipped_s;
  result.played_count = player.total / pipeline->vpp;
  *out = result;
  return TRUE;
}
