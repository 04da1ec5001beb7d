/* model/schedule_peak.c - what is alive at once on a rank, counted along its list. */
#include "model/schedule-private.h"
#include <string.h>

/* Beyond this nothing fits anywhere: sums stop here. */
#define MOST_BYTES (G_GUINT64_CONSTANT (1) << 60)

/* Peaks of listed schedules are reached within so many micro-batches per rank and do not grow
 * afterwards (a test compares with longer lists). */
#define PEAK_MICROBATCHES_PER_RANK 6

static gboolean
frees (const ModelStep *step)
{
  return step->kind == MODEL_STEP_BACKWARD || step->kind == MODEL_STEP_BACKWARD_WEIGHT;
}

static guint64
bytes_of (const guint64 *by_chunk, guint32 chunk)
{
  return by_chunk != NULL ? MIN (by_chunk[chunk], MOST_BYTES) : 1;
}

guint64
model_schedule_peak (const ModelSchedule *schedule, guint32 rank, const guint64 *kept_bytes,
                     const guint64 *waiting_bytes)
{
  const ModelStep *steps = model_schedule_rank (schedule, rank);
  guint64 alive = 0, peak = 0;
  if (waiting_bytes == NULL)
    waiting_bytes = kept_bytes;
  for (guint32 i = 0; i < schedule->n_used[rank]; i++) {
    guint64 kept = bytes_of (kept_bytes, steps[i].chunk);
    guint64 waiting = bytes_of (waiting_bytes, steps[i].chunk);
    switch (steps[i].kind) {
    case MODEL_STEP_FORWARD:
      alive += kept;
      break;
    case MODEL_STEP_BACKWARD:
      alive -= kept;
      break;
    case MODEL_STEP_BACKWARD_INPUT:
      alive += waiting - kept;
      break;
    default:
      alive -= waiting;
      break;
    }
    if (alive >= MOST_BYTES)
      return MOST_BYTES;
    peak = MAX (peak, alive);
  }
  return peak;
}

guint64
model_schedule_chunk_peak (const ModelSchedule *schedule, guint32 rank, guint32 chunk)
{
  const ModelStep *steps = model_schedule_rank (schedule, rank);
  guint64 alive = 0, peak = 0;
  for (guint32 i = 0; i < schedule->n_used[rank]; i++) {
    if (steps[i].chunk != chunk)
      continue;
    alive += steps[i].kind == MODEL_STEP_FORWARD;
    alive -= frees (&steps[i]);
    peak = MAX (peak, alive);
  }
  return peak;
}

/* ---- peaks by (kind, p, m), for those that have no closed form ---- */

typedef struct {
  ModelScheduleKind kind;
  guint32 pp, microbatches;
} Key;

static guint
key_hash (gconstpointer data)
{
  const Key *key = data;
  return (guint)key->kind * 0x9e3779b1u ^ key->pp * 0x85ebca6bu ^ key->microbatches * 0xc2b2ae35u;
}

static gboolean
key_equal (gconstpointer a, gconstpointer b)
{
  const Key *x = a, *y = b;
  return x->kind == y->kind && x->pp == y->pp && x->microbatches == y->microbatches;
}

static GMutex known_lock;
static GHashTable *known; /* Key → ModelSchedule; a function's values, kept for good */

const ModelSchedule *
model_schedule_peaks (ModelScheduleKind kind, guint32 pp, guint64 microbatches)
{
  guint32 vpp = model_schedule_chunks (kind);
  if (model_schedule_is_file (kind) || !model_schedule_is_listed (kind)
      || !model_schedule_legal (kind, pp, vpp, microbatches, TRUE))
    return NULL;
  Key key = { kind, pp, 0 };
  guint64 enough = (guint64)PEAK_MICROBATCHES_PER_RANK * pp;
  key.microbatches = (guint32)MIN (microbatches, enough); /* even where p is, as DualPipe needs */
  g_mutex_lock (&known_lock);
  if (known == NULL)
    known = g_hash_table_new (key_hash, key_equal);
  const ModelSchedule *schedule = g_hash_table_lookup (known, &key);
  if (schedule == NULL) {
    schedule = model_schedule_new (kind, pp, vpp, key.microbatches, NULL);
    if (schedule != NULL)
      g_hash_table_insert (known, g_memdup2 (&key, sizeof key), (gpointer)schedule);
  }
  g_mutex_unlock (&known_lock);
  return schedule;
}

guint64
model_schedule_in_flight (ModelScheduleKind kind, guint32 pp, guint32 vpp, guint64 microbatches,
                          guint32 rank)
{
  guint64 behind = pp - 1 - rank;
  const ModelSchedule *list;
  switch (kind) {
  case MODEL_SCHEDULE_1F1B:
    return MIN (microbatches, behind + 1);
  case MODEL_SCHEDULE_INTERLEAVED:
    return MIN (microbatches * vpp, 2 * behind + (guint64)(vpp - 1) * pp + 1);
  case MODEL_SCHEDULE_ZB_H1:
    return MIN (microbatches, pp);
  case MODEL_SCHEDULE_ZB_H2:
    return MIN (microbatches, 2 * (guint64)pp - 1);
  default:
    list = model_schedule_peaks (kind, pp, microbatches);
    return list != NULL ? model_schedule_peak (list, rank, NULL, NULL) : microbatches * vpp;
  }
}
