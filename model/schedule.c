/* model/schedule.c - what every schedule shares: legality, peaks, placement. */
#include "model/layout-private.h"
#include "model/schedule-private.h"

/* A list of 2 GiB is a mistake in m, not a plan. */
#define MAX_STEPS (G_GUINT64_CONSTANT (1) << 28)

static gboolean
is_built (ModelScheduleKind kind)
{
  return kind == MODEL_SCHEDULE_1F1B || kind == MODEL_SCHEDULE_INTERLEAVED
         || kind == MODEL_SCHEDULE_GPIPE;
}

gboolean
model_schedule_legal (ModelScheduleKind kind, guint32 pp, guint32 vpp, guint64 microbatches,
                      gboolean overlap_p2p)
{
  if (pp == 0 || vpp == 0 || microbatches == 0 || !is_built (kind))
    return FALSE;
  if (kind != MODEL_SCHEDULE_INTERLEAVED)
    return vpp == 1;
  return vpp > 1 && vpp <= G_MAXUINT16 && pp > (overlap_p2p ? 1u : 2u) && microbatches % pp == 0;
}

static gboolean
check (ModelScheduleKind kind, guint32 pp, guint32 vpp, guint32 microbatches, GError **error)
{
  const char *name = model_schedule_name (kind);
  if (!is_built (kind)) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_UNSUPPORTED,
                 "schedule '%s' is not modelled: use 1f1b, interleaved or gpipe", name);
    return FALSE;
  }
  if (!model_schedule_legal (kind, pp, vpp, microbatches, TRUE)) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_ILLEGAL,
                 "schedule '%s': found pp=%u vpp=%u and %u micro-batches, expected %s", name, pp,
                 vpp, microbatches,
                 kind == MODEL_SCHEDULE_INTERLEAVED
                     ? "pp >= 2, vpp from 2 to 65535, micro-batches a multiple of pp"
                     : "pp >= 1, vpp=1, at least one micro-batch");
    return FALSE;
  }
  if (2 * (guint64)vpp * microbatches > MAX_STEPS / pp) {
    g_set_error (
        error, MODEL_ERROR, MODEL_ERROR_BAD_VALUE,
        "schedule '%s': pp=%u, vpp=%u and %u micro-batches make more than %" G_GUINT64_FORMAT
        " steps",
        name, pp, vpp, microbatches, MAX_STEPS);
    return FALSE;
  }
  return TRUE;
}

static void
fill (ModelSchedule *schedule, guint32 rank)
{
  ModelStep *steps = schedule->steps + (gsize)rank * schedule->n_steps;
  switch (schedule->kind) {
  case MODEL_SCHEDULE_INTERLEAVED:
    model_schedule_fill_interleaved (steps, schedule->pp, schedule->vpp, schedule->microbatches,
                                     rank);
    break;
  case MODEL_SCHEDULE_GPIPE:
    model_schedule_fill_gpipe (steps, schedule->microbatches);
    break;
  default:
    model_schedule_fill_1f1b (steps, schedule->pp, schedule->microbatches, rank);
    break;
  }
}

ModelSchedule *
model_schedule_new (ModelScheduleKind kind, guint32 pp, guint32 vpp, guint32 microbatches,
                    GError **error)
{
  if (!check (kind, pp, vpp, microbatches, error))
    return NULL;
  ModelSchedule *schedule = g_new0 (ModelSchedule, 1);
  schedule->kind = kind;
  schedule->pp = pp;
  schedule->vpp = vpp;
  schedule->microbatches = microbatches;
  schedule->n_steps = 2 * vpp * microbatches;
  schedule->steps = g_new0 (ModelStep, (gsize)pp * schedule->n_steps);
  for (guint32 rank = 0; rank < pp; rank++)
    fill (schedule, rank);
  return schedule;
}

void
model_schedule_free (ModelSchedule *schedule)
{
  if (schedule == NULL)
    return;
  g_free (schedule->steps);
  g_free (schedule);
}

guint64
model_schedule_in_flight (ModelScheduleKind kind, guint32 pp, guint32 vpp, guint64 microbatches,
                          guint32 rank)
{
  guint64 behind = pp - 1 - rank;
  switch (kind) {
  case MODEL_SCHEDULE_INTERLEAVED:
    return MIN (microbatches * vpp, 2 * behind + (guint64)(vpp - 1) * pp + 1);
  case MODEL_SCHEDULE_GPIPE:
    return microbatches * vpp;
  default:
    return MIN (microbatches, behind + 1);
  }
}

guint32
model_schedule_stage (ModelScheduleKind kind, guint32 pp, guint32 rank, guint32 chunk)
{
  switch (kind) {
  case MODEL_SCHEDULE_ZB_V:
  case MODEL_SCHEDULE_V_HALF:
  case MODEL_SCHEDULE_V_MIN:
  case MODEL_SCHEDULE_DUALPIPEV: /* V: down with chunk 0, back up with chunk 1 */
    return chunk == 0 ? rank : 2 * pp - 1 - rank;
  case MODEL_SCHEDULE_DUALPIPE: /* chunk 1 is the other direction's copy of a stage */
    return chunk == 0 ? rank : pp - 1 - rank;
  default:
    return chunk * pp + rank;
  }
}
