/* model/schedule.h - the order in which one pipeline rank does its work.
 *
 * A list of (phase, chunk, micro-batch) per rank; cost model, simulation and executor read the
 * same lists. Orders, bubbles and peaks: reference "schedules"; text form: docs/schedules.md.
 *
 * Placement of chunk c of rank r, of p ranks:
 *   straight       stage c·p + r
 *   folded (V)     chunk 0 is stage r, chunk 1 is stage 2p − 1 − r
 *   bidirectional  p stages; chunk 0 is stage r for micro-batches that enter at rank 0, chunk 1 is
 *                  stage p − 1 − r for those that enter at rank p − 1: every stage is held twice,
 *                  and micro-batches are numbered 0 … m/2 − 1 in each direction
 */
#pragma once
#include "model/layout.h"
#include <glib.h>
G_BEGIN_DECLS
typedef enum {
  MODEL_STEP_FORWARD,
  MODEL_STEP_BACKWARD, /* input and weight gradients in one go */
  MODEL_STEP_BACKWARD_INPUT,
  MODEL_STEP_BACKWARD_WEIGHT,
} ModelStepKind;

typedef struct {
  guint8 kind;   /* ModelStepKind */
  guint8 paired; /* runs together with the next entry (DualPipe) */
  guint16 chunk; /* of this rank */
  guint32 microbatch;
} ModelStep;

struct _ModelSchedule {
  ModelScheduleKind kind;
  guint32 pp, vpp, microbatches;
  guint32 n_steps;  /* room per rank */
  guint32 *n_used;  /* (owned) pp: entries of each rank's list */
  ModelStep *steps; /* (owned) pp × n_steps, rank-major */
  gint ref_count;   /* atomic */
};

/* NULL with MODEL_ERROR_ILLEGAL when p, m, v do not suit the schedule (the message says what
 * would), MODEL_ERROR_UNSUPPORTED for a user's own order, which model_schedule_read makes. */
ModelSchedule *model_schedule_new (ModelScheduleKind kind, guint32 pp, guint32 vpp,
                                   guint32 microbatches, GError **error);
/*
 * A user's order. MODEL_ERROR_PARSE names file, line and word; MODEL_ERROR_ILLEGAL says which
 * micro-batch is missing or doubled, or which rank waits for what where the order never ends.
 */
ModelSchedule *model_schedule_read (const char *path, GError **error);
ModelSchedule *model_schedule_read_text (const char *text, const char *name, GError **error);
/* The schedule of @layout, from its file where it has one. */
ModelSchedule *model_schedule_for_layout (const ModelLayout *layout, guint64 microbatches,
                                          GError **error);
ModelSchedule *model_schedule_ref (ModelSchedule *schedule); /* (nullable) */
void model_schedule_free (ModelSchedule *schedule);          /* drops one reference */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ModelSchedule, model_schedule_free)

static inline const ModelStep *
model_schedule_rank (const ModelSchedule *schedule, guint32 rank)
{
  return schedule->steps + (gsize)rank * schedule->n_steps;
}
/* The lists as text that model_schedule_read_text reads. Returns: (owned) */
char *model_schedule_format (const ModelSchedule *schedule);

/* Every (chunk, micro-batch) forward and backward once, and the order comes to an end.
 * @name: how the message calls the schedule. */
gboolean model_schedule_check (const ModelSchedule *schedule, const char *name, GError **error);

/* Cheap legality of (kind, p, v, m), as model_layout_check needs it. */
gboolean model_schedule_legal (ModelScheduleKind kind, guint32 pp, guint32 vpp,
                               guint64 microbatches, gboolean overlap_p2p);
/* What the schedule asks of p, v and m, for messages: "pp >= 2, vpp=2, …". */
const char *model_schedule_needs (ModelScheduleKind kind);
/* Chunks per rank where the schedule fixes them, else 0. */
guint32 model_schedule_chunks (ModelScheduleKind kind);

/*
 * Chunks whose activations are alive at the peak on @rank, in units of one chunk and micro-batch:
 * 1F1B min(m, p − r); interleaved min(m·v, 2(p−r−1) + (v−1)p + 1); GPipe m; ZB-H1 min(m, p);
 * ZB-H2 min(m, 2p − 1); others counted along the rank's list. Freed when B, or W, ends.
 * Not for a user's own order (model_schedule_peak).
 */
guint64 model_schedule_in_flight (ModelScheduleKind kind, guint32 pp, guint32 vpp,
                                  guint64 microbatches, guint32 rank);
/*
 * The largest sum of what micro-batches keep along @rank's list. Stops at 2⁶⁰.
 * @kept_bytes: (nullable) by chunk, from forward to the end of backward; NULL: one each.
 * @waiting_bytes: (nullable) by chunk, instead of it while a weight gradient waits after its input
 * gradient (what recompute rebuilt stays until then); NULL: the same.
 */
guint64 model_schedule_peak (const ModelSchedule *schedule, guint32 rank, const guint64 *kept_bytes,
                             const guint64 *waiting_bytes);
/* The same of the interleaved schedule in closed form, for chunks that keep unequal @kept_bytes
 * (what is alive at once: below 2⁶⁴). @microbatches: a multiple of pp. */
guint64 model_schedule_interleaved_peak (guint32 pp, guint32 vpp, guint64 microbatches,
                                         guint32 rank, const guint64 *kept_bytes);
/* Most micro-batches of @chunk that are between forward and the end of backward. */
guint64 model_schedule_chunk_peak (const ModelSchedule *schedule, guint32 rank, guint32 chunk);
/*
 * A list with the peaks of (kind, p, m), for listed kinds: short, since peaks do not
 * grow with m beyond a few p. Made once in the life of the process, any thread may ask.
 * (borrowed), or NULL for other kinds, a user's own order and sizes that are not legal.
 */
const ModelSchedule *model_schedule_peaks (ModelScheduleKind kind, guint32 pp,
                                           guint64 microbatches);

/* Virtual stage of (rank, chunk). */
guint32 model_schedule_stage (ModelScheduleKind kind, guint32 pp, guint32 rank, guint32 chunk);
/*
 * Place of (rank, chunk) on the way of a micro-batch: the stage, or chunk·p + stage where two
 * directions hold the same stages. From place i a micro-batch goes on to i + 1, until
 * model_schedule_is_last.
 */
guint32 model_schedule_place (ModelScheduleKind kind, guint32 pp, guint32 rank, guint32 chunk);

static inline gboolean
model_schedule_is_last (ModelScheduleKind kind, guint32 pp, guint32 vpp, guint32 place)
{
  return place + 1 == pp * vpp || (model_schedule_is_bidirectional (kind) && (place + 1) % pp == 0);
}

static inline gboolean
model_schedule_is_first (ModelScheduleKind kind, guint32 pp, guint32 place)
{
  return place == 0 || (model_schedule_is_bidirectional (kind) && place % pp == 0);
}

/* Micro-batches that pass one chunk. */
static inline guint64
model_schedule_passes (ModelScheduleKind kind, guint64 microbatches)
{
  return model_schedule_is_bidirectional (kind) ? microbatches / 2 : microbatches;
}

/* Runs input and weight gradients apart, at least for some micro-batches. */
static inline gboolean
model_schedule_is_listed (ModelScheduleKind kind)
{
  return kind >= MODEL_SCHEDULE_ZB_H1;
}
G_END_DECLS
