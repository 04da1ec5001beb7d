/* model/schedule_squeeze.c - from a building block to the order of V-Half and V-Min.
 *
 * A grid of unit slots per rank. The block repeats every 6 slots: two forwards (F0 down the ranks,
 * F1 back up) and two input gradients (I1 down, I0 back up); a weight gradient goes into the first
 * free slot after its input gradient. Ramp-up and tail then leave holes, which are squeezed out:
 * passes move to the earliest free slot that what they wait for and the peak of the ranks allow.
 * That happens twice, with the weight gradients and with these put in anew; in between, and in the
 * end, passes run as soon as they can in that order. Source: Qi et al., arXiv 2405.15362, section
 * "squeezing"; details as reference "schedules" §8 found them in sail-sg's implementation.
 */
#include "model/schedule-private.h"
#include <string.h>

#define PERIOD 6

/* What a slot holds. Weight gradients are of one kind until the order is final. */
enum { FREE, F0, F1, I1, I0, W, W1 = W, W0, N_PASSES };

typedef struct {
  guint32 pp, m;
  guint32 length; /* slots per rank */
  guint8 *slots;  /* (owned) pp × length */
  guint32 *at;    /* (owned) slot of each pass: rank, kind, micro-batch; W as they come, 2m */
  guint32 limit;  /* most chunks alive on any rank */
  gboolean has_weights;
  guint32 *alive, *pending; /* (owned) pp × length: after each slot */
} Grid;

static guint8 *
slots_of (const Grid *grid, guint32 rank)
{
  return grid->slots + (gsize)rank * grid->length;
}

static guint32 *
place_of (const Grid *grid, guint32 rank, guint pass, guint32 microbatch)
{
  return grid->at + ((gsize)rank * 6 + (pass - F0)) * grid->m + microbatch;
}

static void
grid_init (Grid *grid, guint32 pp, guint32 m)
{
  *grid = (Grid){ .pp = pp, .m = m, .length = 8 * m + 6 * pp + 8 };
  grid->slots = g_new0 (guint8, (gsize)pp * grid->length);
  grid->at = g_new0 (guint32, (gsize)pp * 6 * m);
  grid->alive = g_new0 (guint32, (gsize)pp * grid->length);
  grid->pending = g_new0 (guint32, (gsize)pp * grid->length);
}

static void
grid_clear (Grid *grid)
{
  g_free (grid->slots);
  g_free (grid->at);
  g_free (grid->alive);
  g_free (grid->pending);
}

static void
put (Grid *grid, guint32 rank, guint pass, guint32 microbatch, guint32 at)
{
  slots_of (grid, rank)[at] = (guint8)pass;
  *place_of (grid, rank, pass, microbatch) = at;
}

static gboolean
is_input (guint pass)
{
  return pass == I1 || pass == I0;
}

/* A weight gradient into the first free slot after its input gradient; @split: that of chunk 1
 * first, and told apart. */
static void
put_weights (Grid *grid, guint32 rank, gboolean split)
{
  guint8 *slots = slots_of (grid, rank);
  guint32 waiting[2] = { 0 }, done[2] = { 0 }, inputs = 0;
  for (guint32 t = 0; t < grid->length; t++) {
    if (is_input (slots[t])) {
      waiting[split && slots[t] == I0]++;
      inputs++;
    }
    guint which = waiting[0] > 0 ? 0 : 1;
    if (slots[t] == FREE && waiting[which] > 0) {
      put (grid, rank, W + which, done[which]++, t);
      waiting[which]--;
    }
    if (inputs == 2 * grid->m && waiting[0] + waiting[1] == 0)
      return;
  }
}

static void
drop_weights (Grid *grid)
{
  for (gsize i = 0; i < (gsize)grid->pp * grid->length; i++)
    if (grid->slots[i] >= W)
      grid->slots[i] = FREE;
  grid->has_weights = FALSE;
}

static void
add_weights (Grid *grid, gboolean split)
{
  for (guint32 rank = 0; rank < grid->pp; rank++)
    put_weights (grid, rank, split);
  grid->has_weights = TRUE;
}

/* Chunks alive on @rank from slot @from to before @end; where weight gradients are not laid out
 * they fill free slots. Returns: the most. @keep: remember it by slot. */
static guint32
count_alive (Grid *grid, guint32 rank, guint32 from, guint32 end, gboolean keep)
{
  const guint8 *slots = slots_of (grid, rank);
  gsize row = (gsize)rank * grid->length;
  guint32 alive = from > 0 ? grid->alive[row + from - 1] : 0, most = alive;
  guint32 pending = from > 0 ? grid->pending[row + from - 1] : 0;
  for (guint32 t = from; t < end; t++) {
    guint pass = slots[t];
    alive += pass == F0 || pass == F1;
    pending += is_input (pass);
    if (pass >= W) {
      alive--;
    } else if (pass == FREE && !grid->has_weights && pending > 0) {
      alive--;
      pending--;
    }
    most = MAX (most, alive);
    if (keep) {
      grid->alive[row + t] = alive;
      grid->pending[row + t] = pending;
    }
  }
  return most;
}

static guint32
last_pass (const Grid *grid, guint32 rank)
{
  const guint8 *slots = slots_of (grid, rank);
  guint32 t = grid->length;
  while (t > 0 && slots[t - 1] == FREE)
    t--;
  return t;
}

static void
find_limit (Grid *grid)
{
  grid->limit = 0;
  for (guint32 rank = 0; rank < grid->pp; rank++)
    grid->limit = MAX (grid->limit, count_alive (grid, rank, 0, last_pass (grid, rank), TRUE));
}

/* Slot of the @index-th input gradient of @rank, whichever chunk's. */
static guint32
input_slot (const Grid *grid, guint32 rank, guint32 index)
{
  const guint8 *slots = slots_of (grid, rank);
  for (guint32 t = 0;; t++)
    if (is_input (slots[t]) && index-- == 0)
      return t;
}

/* First slot after everything that @pass waits for. */
static guint32
earliest (const Grid *grid, guint32 rank, guint pass, guint32 microbatch)
{
  guint32 first = 0;
  if ((pass == F0 || pass == I1) && rank > 0)
    first = *place_of (grid, rank - 1, pass, microbatch) + 1;
  if ((pass == F1 || pass == I0) && rank + 1 < grid->pp)
    first = *place_of (grid, rank + 1, pass, microbatch) + 1;
  if (pass > F0 && pass < W)
    first = MAX (first, *place_of (grid, rank, pass - 1, microbatch) + 1);
  if (pass == W)
    first = MAX (first, input_slot (grid, rank, microbatch) + 1);
  if (microbatch > 0)
    first = MAX (first, *place_of (grid, rank, pass, microbatch - 1) + 1);
  return first;
}

/* Moves the pass at slot @t to the earliest free slot from @first on that keeps the peak. */
static void
move_up (Grid *grid, guint32 rank, guint pass, guint32 microbatch, guint32 first, guint32 t)
{
  guint8 *slots = slots_of (grid, rank);
  guint32 end = grid->has_weights ? t + 1 : last_pass (grid, rank);
  for (guint32 to = first; to < t; to++) {
    if (slots[to] != FREE)
      continue;
    slots[t] = FREE;
    slots[to] = (guint8)pass;
    if (count_alive (grid, rank, to, end, FALSE) <= grid->limit) {
      count_alive (grid, rank, to, end, TRUE);
      *place_of (grid, rank, pass, microbatch) = to;
      return;
    }
    slots[to] = FREE;
    slots[t] = (guint8)pass;
  }
}

/* Ramp-up lasts until rank 0 has done its first I0, the tail begins with the last F0; what is
 * between is periodic and stays. Without weight gradients only the tail moves. */
static void
squeeze (Grid *grid)
{
  enum { RAMP_UP, STEADY, TAIL } phase = RAMP_UP;
  g_autofree guint32 *done = g_new0 (guint32, (gsize)grid->pp * N_PASSES);
  find_limit (grid);
  for (guint32 t = 0; t < grid->length; t++)
    for (guint32 rank = 0; rank < grid->pp; rank++) {
      guint pass = slots_of (grid, rank)[t];
      if (pass == FREE)
        continue;
      guint32 microbatch = done[rank * N_PASSES + pass]++;
      gboolean stays = phase == STEADY || (phase == RAMP_UP && !grid->has_weights);
      if (phase == RAMP_UP && pass == I0 && rank == 0) {
        phase = STEADY;
        stays = TRUE;
      } else if (phase == STEADY && pass == F0 && microbatch == grid->m - 1) {
        phase = TAIL;
      }
      if (!stays)
        move_up (grid, rank, pass, microbatch, earliest (grid, rank, pass, microbatch), t);
    }
}

/* Every pass as soon as it can, each rank in its order. */
static void
run_early (Grid *grid)
{
  g_autofree guint8 *before = g_memdup2 (grid->slots, (gsize)grid->pp * grid->length);
  g_autofree guint32 *done = g_new0 (guint32, (gsize)grid->pp * N_PASSES);
  g_autofree guint32 *next = g_new0 (guint32, grid->pp); /* free slot of each rank */
  memset (grid->slots, FREE, (gsize)grid->pp * grid->length);
  for (guint32 t = 0; t < grid->length; t++)
    for (guint32 rank = 0; rank < grid->pp; rank++) {
      guint pass = before[(gsize)rank * grid->length + t];
      if (pass == FREE)
        continue;
      guint32 microbatch = done[rank * N_PASSES + pass]++, at = next[rank];
      /* A weight gradient only has to keep its place in the rank's order. */
      if (pass < W)
        at = MAX (at, earliest (grid, rank, pass, microbatch));
      put (grid, rank, pass, microbatch, at);
      next[rank] = at + 1;
    }
}

static guint32
write_rank (const Grid *grid, guint32 rank, ModelStep *steps)
{
  static const struct {
    guint8 kind, chunk;
  } meaning[N_PASSES]
      = { [F0] = { MODEL_STEP_FORWARD, 0 },         [F1] = { MODEL_STEP_FORWARD, 1 },
          [I1] = { MODEL_STEP_BACKWARD_INPUT, 1 },  [I0] = { MODEL_STEP_BACKWARD_INPUT, 0 },
          [W1] = { MODEL_STEP_BACKWARD_WEIGHT, 1 }, [W0] = { MODEL_STEP_BACKWARD_WEIGHT, 0 } };
  const guint8 *slots = slots_of (grid, rank);
  guint32 done[N_PASSES] = { 0 }, n = 0;
  for (guint32 t = 0; t < grid->length; t++)
    if (slots[t] != FREE)
      steps[n++] = model_step (meaning[slots[t]].kind, meaning[slots[t]].chunk, done[slots[t]]++);
  return n;
}

void
model_schedule_squeeze (ModelSchedule *schedule, const ModelVBlock *ranks)
{
  Grid grid;
  grid_init (&grid, schedule->pp, schedule->microbatches);
  for (guint32 rank = 0; rank < grid.pp; rank++)
    for (guint pass = F0; pass <= I0; pass++)
      for (guint32 k = 0; k < grid.m; k++)
        put (&grid, rank, pass, k, ranks[rank][pass - F0] + PERIOD * k);
  add_weights (&grid, FALSE);
  squeeze (&grid);
  run_early (&grid);
  drop_weights (&grid);
  squeeze (&grid);
  add_weights (&grid, FALSE);
  run_early (&grid);
  drop_weights (&grid);
  add_weights (&grid, TRUE);
  for (guint32 rank = 0; rank < grid.pp; rank++)
    schedule->n_used[rank]
        = write_rank (&grid, rank, schedule->steps + (gsize)rank * schedule->n_steps);
  grid_clear (&grid);
}
