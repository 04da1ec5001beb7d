/* model/schedule_check.c - is an order whole, and does it come to an end?
 *
 * Played without times: a step runs once what it waits for has run, sends never block. Ranks that
 * stand still for good wait for each other in a circle, which the message spells out.
 */
#include "model/schedule-private.h"
#include <string.h>

/* What has run, one bit per ModelStepKind, for every place and micro-batch. */
typedef struct {
  const ModelSchedule *schedule;
  const char *name;
  guint32 n_places, passes;
  guint8 *done; /* (owned) n_places × passes */
  guint32 *at;  /* (owned) next step of each rank */
} Check;

static guint8 *
done_at (const Check *check, guint32 place, guint32 microbatch)
{
  return check->done + (gsize)place * check->passes + microbatch;
}

static guint
bit (guint kind)
{
  return 1u << kind;
}

#define ANY_BACKWARD ((1u << MODEL_STEP_BACKWARD) | (1u << MODEL_STEP_BACKWARD_INPUT))
#define ALL_KINDS    (ANY_BACKWARD | (1u << MODEL_STEP_FORWARD) | (1u << MODEL_STEP_BACKWARD_WEIGHT))

static guint32
place_of (const Check *check, guint32 rank, const ModelStep *step)
{
  return model_schedule_place (check->schedule->kind, check->schedule->pp, rank, step->chunk);
}

static char *
step_text (const ModelSchedule *schedule, guint kind, guint32 chunk, guint32 microbatch)
{
  if (schedule->vpp == 1)
    return g_strdup_printf ("%c%u", "FBIW"[kind], microbatch);
  return g_strdup_printf ("%c%u.%u", "FBIW"[kind], chunk, microbatch);
}

/* What a step waits for: some bit of @kinds at (place, micro-batch). */
typedef struct {
  guint32 place, microbatch;
  guint kinds;
} Need;

static guint
needs_of (const Check *check, guint32 rank, const ModelStep *step, Need *needs)
{
  const ModelSchedule *s = check->schedule;
  guint32 place = place_of (check, rank, step), k = step->microbatch;
  guint n = 0;
  if (step->kind == MODEL_STEP_FORWARD) {
    if (!model_schedule_is_first (s->kind, s->pp, place))
      needs[n++] = (Need){ place - 1, k, bit (MODEL_STEP_FORWARD) };
  } else if (step->kind == MODEL_STEP_BACKWARD_WEIGHT) {
    needs[n++] = (Need){ place, k, bit (MODEL_STEP_BACKWARD_INPUT) };
  } else {
    needs[n++] = (Need){ place, k, bit (MODEL_STEP_FORWARD) };
    if (!model_schedule_is_last (s->kind, s->pp, s->vpp, place))
      needs[n++] = (Need){ place + 1, k, ANY_BACKWARD };
  }
  return n;
}

/* The first thing that @step lacks. FALSE: nothing. */
static gboolean
lacks (const Check *check, guint32 rank, const ModelStep *step, Need *out)
{
  Need needs[2];
  guint n = needs_of (check, rank, step, needs);
  for (guint i = 0; i < n; i++)
    if (!(*done_at (check, needs[i].place, needs[i].microbatch) & needs[i].kinds)) {
      *out = needs[i];
      return TRUE;
    }
  return FALSE;
}

/* Runs what can run on @rank; the two of a pair start together. Returns: steps run. */
static guint32
advance (Check *check, guint32 rank)
{
  const ModelStep *steps = model_schedule_rank (check->schedule, rank);
  guint32 begin = check->at[rank], end = check->schedule->n_used[rank];
  Need need;
  while (check->at[rank] < end) {
    const ModelStep *step = &steps[check->at[rank]];
    guint n = step->paired ? 2 : 1;
    for (guint i = 0; i < n; i++)
      if (lacks (check, rank, &step[i], &need))
        return check->at[rank] - begin;
    for (guint i = 0; i < n; i++)
      *done_at (check, place_of (check, rank, &step[i]), step[i].microbatch) |= bit (step[i].kind);
    check->at[rank] += n;
  }
  return check->at[rank] - begin;
}

/* Who holds @place. */
static void
find_place (const Check *check, guint32 place, guint32 *out_rank, guint32 *out_chunk)
{
  const ModelSchedule *s = check->schedule;
  for (guint32 rank = 0; rank < s->pp; rank++)
    for (guint32 chunk = 0; chunk < s->vpp; chunk++)
      if (model_schedule_place (s->kind, s->pp, rank, chunk) == place) {
        *out_rank = rank;
        *out_chunk = chunk;
        return;
      }
}

/* "rank 0 at F3 waits for B0 of rank 1": @out_rank is the rank waited for. */
static char *
wait_text (const Check *check, guint32 rank, guint32 *out_rank)
{
  const ModelSchedule *s = check->schedule;
  const ModelStep *step = model_schedule_rank (s, rank) + check->at[rank];
  Need need = { 0 };
  if (!lacks (check, rank, step, &need))
    lacks (check, rank, ++step, &need); /* the second of a pair */
  guint32 chunk = 0;
  find_place (check, need.place, out_rank, &chunk);
  guint kind = need.kinds == bit (MODEL_STEP_FORWARD)          ? MODEL_STEP_FORWARD
               : need.kinds == bit (MODEL_STEP_BACKWARD_INPUT) ? MODEL_STEP_BACKWARD_INPUT
                                                               : MODEL_STEP_BACKWARD;
  g_autofree char *mine = step_text (s, step->kind, step->chunk, step->microbatch);
  g_autofree char *wanted = step_text (s, kind, chunk, need.microbatch);
  return g_strdup_printf ("rank %u at %s waits for %s of rank %u", rank, mine, wanted, *out_rank);
}

/* Follows the waiting ranks until one comes again, and tells the circle. */
static void
report_deadlock (const Check *check, GError **error)
{
  g_autofree gboolean *seen = g_new0 (gboolean, check->schedule->pp);
  g_autoptr (GString) circle = g_string_new (NULL);
  guint32 rank = 0, told = 0;
  while (check->at[rank] == check->schedule->n_used[rank])
    rank++;
  while (!seen[rank]) { /* into the circle */
    seen[rank] = TRUE;
    g_free (wait_text (check, rank, &rank));
  }
  guint32 first = rank;
  do {
    g_autofree char *text = wait_text (check, rank, &rank);
    g_string_append_printf (circle, "%s%s", told > 0 ? ", " : "", told < 8 ? text : "...");
  } while (rank != first && ++told <= 8);
  g_set_error (error, MODEL_ERROR, MODEL_ERROR_ILLEGAL,
               "schedule '%s' never ends: %s; change the order so that no rank waits for itself",
               check->name, circle->str);
}

static gboolean
play (Check *check, GError **error)
{
  guint32 moved;
  do {
    moved = 0;
    for (guint32 rank = 0; rank < check->schedule->pp; rank++)
      moved += advance (check, rank);
    for (guint32 rank = check->schedule->pp; rank-- > 0;)
      moved += advance (check, rank);
  } while (moved > 0);
  for (guint32 rank = 0; rank < check->schedule->pp; rank++)
    if (check->at[rank] < check->schedule->n_used[rank]) {
      report_deadlock (check, error);
      return FALSE;
    }
  return TRUE;
}

static gboolean
refuse_step (const Check *check, guint32 rank, const char *problem, guint kind, guint32 chunk,
             guint32 microbatch, GError **error)
{
  g_autofree char *text = step_text (check->schedule, kind, chunk, microbatch);
  g_set_error (error, MODEL_ERROR, MODEL_ERROR_ILLEGAL, "schedule '%s': rank %u %s %s", check->name,
               rank, problem, text);
  return FALSE;
}

static gboolean
count_rank (const Check *check, guint32 rank, GError **error)
{
  const ModelSchedule *s = check->schedule;
  const ModelStep *steps = model_schedule_rank (s, rank);
  for (guint32 i = 0; i < s->n_used[rank]; i++) {
    const ModelStep *step = &steps[i];
    if (step->chunk >= s->vpp || step->microbatch >= check->passes)
      return refuse_step (check, rank, "has no", step->kind, step->chunk, step->microbatch, error);
    guint8 *done = done_at (check, place_of (check, rank, step), step->microbatch);
    guint whole = bit (MODEL_STEP_BACKWARD), parts = ALL_KINDS & ~whole & ~1u;
    if (*done & bit (step->kind))
      return refuse_step (check, rank, "runs twice:", step->kind, step->chunk, step->microbatch,
                          error);
    *done |= bit (step->kind);
    if ((*done & whole) && (*done & parts))
      return refuse_step (check, rank, "runs B beside I or W of", step->kind, step->chunk,
                          step->microbatch, error);
  }
  return TRUE;
}

static gboolean
is_whole (const Check *check, guint32 rank, GError **error)
{
  const ModelSchedule *s = check->schedule;
  for (guint32 chunk = 0; chunk < s->vpp; chunk++)
    for (guint32 k = 0; k < check->passes; k++) {
      guint32 place = model_schedule_place (s->kind, s->pp, rank, chunk);
      guint done = *done_at (check, place, k);
      gboolean is_split
          = (done & bit (MODEL_STEP_BACKWARD_INPUT)) || (done & bit (MODEL_STEP_BACKWARD_WEIGHT));
      guint wanted = is_split ? ALL_KINDS & ~bit (MODEL_STEP_BACKWARD)
                              : bit (MODEL_STEP_FORWARD) | bit (MODEL_STEP_BACKWARD);
      for (guint kind = MODEL_STEP_FORWARD; kind <= MODEL_STEP_BACKWARD_WEIGHT; kind++)
        if ((wanted & ~done) & bit (kind))
          return refuse_step (check, rank, "lacks", kind, chunk, k, error);
    }
  return TRUE;
}

gboolean
model_schedule_check (const ModelSchedule *schedule, const char *name, GError **error)
{
  Check check
      = { .schedule = schedule,
          .name = name,
          .n_places = schedule->pp * schedule->vpp,
          .passes = (guint32)model_schedule_passes (schedule->kind, schedule->microbatches) };
  gsize n_done = (gsize)check.n_places * check.passes;
  g_autofree guint8 *done = check.done = g_new0 (guint8, n_done);
  g_autofree guint32 *at = check.at = g_new0 (guint32, schedule->pp);
  for (guint32 rank = 0; rank < schedule->pp; rank++)
    if (!count_rank (&check, rank, error) || !is_whole (&check, rank, error))
      return FALSE;
  memset (done, 0, n_done);
  return play (&check, error);
}
