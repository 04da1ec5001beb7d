/* exec/messages.c - how many messages must be able to be under way at once.
 *
 * Plays the ranks' lists with a given number of send buffers per neighbour: a step waits for its
 * message, then hands its own on, for which it waits until the message that many before has been
 * received. Tries 1, 2, … until all lists end.
 */
#include "exec/rank.h"

enum { FORWARD, BACKWARD };

typedef struct {
  const ModelSchedule *s;
  guint slots;
  guint32 *at;             /* per rank: its next step */
  gboolean *started;       /* per rank: that step has its message */
  guint8 *sent, *received; /* [direction][receiving stage][micro-batch] */
  GArray **queue;          /* [rank][direction] of indices into received, in order of sending */
} Play;

static gsize
message (const Play *p, guint direction, guint32 stage, guint32 microbatch)
{
  gsize stages = (gsize)p->s->pp * p->s->vpp;
  return (direction * stages + stage) * p->s->microbatches + microbatch;
}

/* Message that a step needs first and the one it sends last, or FALSE. */
static gboolean
edges (const Play *p, guint32 rank, const ModelStep *step, gsize *out_in, gsize *out_out,
       gboolean *out_has_in, gboolean *out_has_out)
{
  guint32 stage = 0;
  gboolean more = exec_stage_of (p->s, rank, step->chunk, &stage);
  gboolean forward = step->kind == MODEL_STEP_FORWARD;
  *out_has_in = forward ? stage > 0 : more;
  *out_has_out = forward ? more : stage > 0;
  *out_in = message (p, forward ? FORWARD : BACKWARD, stage, step->microbatch);
  *out_out = *out_has_out ? message (p, forward ? FORWARD : BACKWARD,
                                     forward ? stage + 1 : stage - 1, step->microbatch)
                          : 0;
  return step->kind != MODEL_STEP_BACKWARD_WEIGHT;
}

/* TRUE if the rank got on. */
static gboolean
advance (Play *p, guint32 rank)
{
  const ModelStep *step = model_schedule_rank (p->s, rank) + p->at[rank];
  gsize in = 0, out = 0;
  gboolean has_in, has_out;
  if (p->at[rank] == p->s->n_steps)
    return FALSE;
  if (!edges (p, rank, step, &in, &out, &has_in, &has_out)) {
    p->at[rank]++;
    return TRUE;
  }
  if (!p->started[rank]) {
    if (has_in && !p->sent[in])
      return FALSE;
    if (has_in)
      p->received[in] = TRUE;
    p->started[rank] = TRUE;
    return TRUE;
  }
  GArray *queue = p->queue[2 * rank + (step->kind == MODEL_STEP_FORWARD ? FORWARD : BACKWARD)];
  if (has_out && queue->len >= p->slots
      && !p->received[g_array_index (queue, gsize, queue->len - p->slots)])
    return FALSE;
  if (has_out) {
    g_array_append_val (queue, out);
    p->sent[out] = TRUE;
  }
  p->started[rank] = FALSE;
  p->at[rank]++;
  return TRUE;
}

static gboolean
ends (const ModelSchedule *schedule, guint slots)
{
  gsize n = 2 * (gsize)schedule->pp * schedule->vpp * schedule->microbatches;
  g_autofree guint32 *at = g_new0 (guint32, schedule->pp);
  g_autofree gboolean *started = g_new0 (gboolean, schedule->pp);
  g_autofree guint8 *sent = g_malloc0 (n), *received = g_malloc0 (n);
  g_autoptr (GPtrArray) queues = g_ptr_array_new_with_free_func ((GDestroyNotify)g_array_unref);
  for (guint i = 0; i < 2 * schedule->pp; i++)
    g_ptr_array_add (queues, g_array_new (FALSE, FALSE, sizeof (gsize)));
  Play play = { schedule, slots, at, started, sent, received, (GArray **)queues->pdata };
  gboolean moved = TRUE, done = TRUE;
  while (moved) {
    moved = FALSE;
    for (guint32 r = 0; r < schedule->pp; r++)
      while (advance (&play, r))
        moved = TRUE;
  }
  for (guint32 r = 0; r < schedule->pp; r++)
    done = done && at[r] == schedule->n_steps;
  return done;
}

guint
exec_messages_slots (const ModelSchedule *schedule)
{
  guint slots = 1;
  while (schedule->pp > 1 && slots < schedule->microbatches && !ends (schedule, slots))
    slots++;
  return slots;
}
