/* model/schedule.c - what every schedule shares: legality, life, placement. */
#include "model/layout-private.h"
#include "model/schedule-private.h"

/* A list of 2 GiB is a mistake in m, not a plan. */
#define MAX_STEPS (G_GUINT64_CONSTANT (1) << 28)

typedef guint32 (*FillFunc) (ModelStep *steps, guint32 pp, guint32 microbatches, guint32 rank);
typedef void (*BlockFunc) (ModelVBlock *ranks, guint32 pp);

static const struct {
  FillFunc fill;   /* one rank's list, for schedules that split the backward pass */
  BlockFunc block; /* or the block that is repeated */
  guint32 chunks;  /* per rank; 0: any */
  const char *needs;
} kinds[MODEL_SCHEDULE_N_KINDS] = {
  [MODEL_SCHEDULE_1F1B] = { .chunks = 1, .needs = "pp >= 1, vpp=1, at least one micro-batch" },
  [MODEL_SCHEDULE_INTERLEAVED]
  = { .needs = "pp >= 2, vpp from 2 to 65535, micro-batches a multiple of pp" },
  [MODEL_SCHEDULE_GPIPE] = { .chunks = 1, .needs = "pp >= 1, vpp=1, at least one micro-batch" },
  [MODEL_SCHEDULE_ZB_H1] = { .fill = model_schedule_fill_zb_h1,
                             .chunks = 1,
                             .needs = "pp >= 1, vpp=1, at least one micro-batch" },
  [MODEL_SCHEDULE_ZB_H2] = { .fill = model_schedule_fill_zb_h2,
                             .chunks = 1,
                             .needs = "pp >= 1, vpp=1, at least one micro-batch" },
  [MODEL_SCHEDULE_ZB_V] = { .fill = model_schedule_fill_zb_v,
                            .chunks = 2,
                            .needs = "pp >= 2, vpp=2, at least one micro-batch" },
  [MODEL_SCHEDULE_V_HALF] = { .block = model_schedule_block_v_half,
                              .chunks = 2,
                              .needs = "pp >= 2, vpp=2, at least one micro-batch" },
  [MODEL_SCHEDULE_V_MIN] = { .block = model_schedule_block_v_min,
                             .chunks = 2,
                             .needs = "pp >= 2, vpp=2, at least one micro-batch" },
  [MODEL_SCHEDULE_DUALPIPE]
  = { .fill = model_schedule_fill_dualpipe,
      .chunks = 2,
      .needs = "pp even, vpp=2, an even number of micro-batches, at least 2·pp" },
  [MODEL_SCHEDULE_DUALPIPEV] = { .fill = model_schedule_fill_dualpipev,
                                 .chunks = 2,
                                 .needs = "pp >= 2, vpp=2, at least 2·pp micro-batches" },
  [MODEL_SCHEDULE_FILE] = { .needs = "the pp, vpp and micro-batches that the file is written for" },
  [MODEL_SCHEDULE_FILE_V]
  = { .chunks = 2, .needs = "the pp, vpp and micro-batches that the file is written for" },
  [MODEL_SCHEDULE_FILE_BIDIRECTIONAL]
  = { .chunks = 2, .needs = "the pp, vpp and micro-batches that the file is written for" },
};

const char *
model_schedule_needs (ModelScheduleKind kind)
{
  g_return_val_if_fail ((guint)kind < MODEL_SCHEDULE_N_KINDS, "?");
  return kinds[kind].needs;
}

guint32
model_schedule_chunks (ModelScheduleKind kind)
{
  g_return_val_if_fail ((guint)kind < MODEL_SCHEDULE_N_KINDS, 0);
  return kinds[kind].chunks;
}

gboolean
model_schedule_legal (ModelScheduleKind kind, guint32 pp, guint32 vpp, guint64 microbatches,
                      gboolean overlap_p2p)
{
  if (pp == 0 || vpp == 0 || microbatches == 0)
    return FALSE;
  if (kind == MODEL_SCHEDULE_INTERLEAVED)
    return vpp > 1 && vpp <= G_MAXUINT16 && pp > (overlap_p2p ? 1u : 2u) && microbatches % pp == 0;
  if (kinds[kind].chunks != 0 && vpp != kinds[kind].chunks)
    return FALSE;
  if (vpp == 2 && kinds[kind].chunks == 2 && pp < 2)
    return FALSE;
  if (kind == MODEL_SCHEDULE_DUALPIPE && (pp % 2 != 0 || microbatches % 2 != 0))
    return FALSE;
  if (kind == MODEL_SCHEDULE_DUALPIPE || kind == MODEL_SCHEDULE_DUALPIPEV)
    return microbatches >= 2 * (guint64)pp;
  return TRUE;
}

static gboolean
check (ModelScheduleKind kind, guint32 pp, guint32 vpp, guint32 microbatches, GError **error)
{
  const char *name = model_schedule_name (kind);
  if (model_schedule_is_file (kind)) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_UNSUPPORTED,
                 "schedule '%s' has no order of its own: it is read from a file", name);
    return FALSE;
  }
  if (!model_schedule_legal (kind, pp, vpp, microbatches, TRUE)) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_ILLEGAL,
                 "schedule '%s': found pp=%u vpp=%u and %u micro-batches, expected %s", name, pp,
                 vpp, microbatches, model_schedule_needs (kind));
    return FALSE;
  }
  if (3 * (guint64)vpp * microbatches > MAX_STEPS / pp) {
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
fill_unsplit (ModelSchedule *schedule, guint32 rank, ModelStep *steps)
{
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
  schedule->n_used[rank] = schedule->n_steps;
}

static void
fill_from_block (ModelSchedule *schedule, BlockFunc block)
{
  g_autofree ModelVBlock *ranks = g_new0 (ModelVBlock, schedule->pp);
  block (ranks, schedule->pp);
  model_schedule_squeeze (schedule, ranks);
}

ModelSchedule *
model_schedule_alloc (ModelScheduleKind kind, guint32 pp, guint32 vpp, guint32 microbatches,
                      guint32 n_steps)
{
  ModelSchedule *schedule = g_new0 (ModelSchedule, 1);
  schedule->kind = kind;
  schedule->pp = pp;
  schedule->vpp = vpp;
  schedule->microbatches = microbatches;
  schedule->n_steps = n_steps;
  schedule->n_used = g_new0 (guint32, pp);
  schedule->steps = g_new0 (ModelStep, (gsize)pp * n_steps);
  schedule->ref_count = 1;
  return schedule;
}

ModelSchedule *
model_schedule_new (ModelScheduleKind kind, guint32 pp, guint32 vpp, guint32 microbatches,
                    GError **error)
{
  if (!check (kind, pp, vpp, microbatches, error))
    return NULL;
  gboolean is_split = kinds[kind].fill != NULL || kinds[kind].block != NULL;
  guint32 passes = (guint32)model_schedule_passes (kind, microbatches);
  ModelSchedule *schedule
      = model_schedule_alloc (kind, pp, vpp, microbatches, (is_split ? 3 : 2) * vpp * passes);
  if (kinds[kind].block != NULL) {
    fill_from_block (schedule, kinds[kind].block);
    return schedule;
  }
  for (guint32 rank = 0; rank < pp; rank++) {
    ModelStep *steps = schedule->steps + (gsize)rank * schedule->n_steps;
    if (kinds[kind].fill != NULL)
      schedule->n_used[rank] = kinds[kind].fill (steps, pp, microbatches, rank);
    else
      fill_unsplit (schedule, rank, steps);
  }
  return schedule;
}

ModelSchedule *
model_schedule_for_layout (const ModelLayout *layout, guint64 microbatches, GError **error)
{
  const ModelSchedule *list = layout->schedule_list;
  if (model_schedule_is_file (layout->schedule) && list != NULL) {
    if (list->pp == layout->pp && list->vpp == layout->vpp && list->microbatches == microbatches)
      return model_schedule_ref (layout->schedule_list);
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_ILLEGAL,
                 "schedule file '%s' is for pp=%u vpp=%u and %u micro-batches, found pp=%u vpp=%u "
                 "and %" G_GUINT64_FORMAT,
                 layout->schedule_file, list->pp, list->vpp, list->microbatches, layout->pp,
                 layout->vpp, microbatches);
    return NULL;
  }
  return model_schedule_new (layout->schedule, layout->pp, layout->vpp,
                             (guint32)MIN (microbatches, G_MAXUINT32), error);
}

ModelSchedule *
model_schedule_ref (ModelSchedule *schedule)
{
  if (schedule != NULL)
    g_atomic_int_inc (&schedule->ref_count);
  return schedule;
}

void
model_schedule_free (ModelSchedule *schedule)
{
  if (schedule == NULL || !g_atomic_int_dec_and_test (&schedule->ref_count))
    return;
  g_free (schedule->n_used);
  g_free (schedule->steps);
  g_free (schedule);
}

guint32
model_schedule_stage (ModelScheduleKind kind, guint32 pp, guint32 rank, guint32 chunk)
{
  if (model_schedule_is_folded (kind))
    return chunk == 0 ? rank : 2 * pp - 1 - rank;
  if (model_schedule_is_bidirectional (kind))
    return chunk == 0 ? rank : pp - 1 - rank;
  return chunk * pp + rank;
}

guint32
model_schedule_place (ModelScheduleKind kind, guint32 pp, guint32 rank, guint32 chunk)
{
  guint32 stage = model_schedule_stage (kind, pp, rank, chunk);
  return model_schedule_is_bidirectional (kind) ? chunk * pp + stage : stage;
}
