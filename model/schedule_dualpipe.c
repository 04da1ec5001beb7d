/* model/schedule_dualpipe.c - forward of one direction together with backward of the other.
 *
 * DeepSeek-V3, arXiv 2412.19437, and the eight steps of deepseek-ai/DualPipe (reference
 * "schedules" §9, §10). DualPipeV is DualPipe cut in half at its middle and folded there: the same
 * steps with p for h = p/2, and m for the m/2 micro-batches of a direction.
 */
#include "model/schedule-private.h"

typedef struct {
  ModelWriter out;
  guint32 half;  /* ranks from an end to the middle */
  guint32 depth; /* of this rank, from its end */
  guint32 per_direction;
  guint32 near;     /* chunk whose micro-batches enter at the nearer end */
  guint32 pending;  /* first of queue[] without its weight gradient */
  ModelStep *queue; /* (owned) input gradients done apart, in order */
  guint32 n_queue;
} Rule;

/* @side 0: the nearer direction. */
static guint32
chunk_of (const Rule *rule, guint32 side)
{
  return rule->near ^ side;
}

static void
forward (Rule *rule, guint32 side)
{
  model_write (&rule->out, MODEL_STEP_FORWARD, chunk_of (rule, side));
}

static void
backward (Rule *rule, guint32 side)
{
  model_write (&rule->out, MODEL_STEP_BACKWARD, chunk_of (rule, side));
}

static void
backward_input (Rule *rule, guint32 side)
{
  model_write (&rule->out, MODEL_STEP_BACKWARD_INPUT, chunk_of (rule, side));
  rule->queue[rule->n_queue++] = rule->out.steps[rule->out.n - 1];
}

/* First in, first out. */
static void
backward_weight (Rule *rule)
{
  ModelStep step = rule->queue[rule->pending++];
  step.kind = MODEL_STEP_BACKWARD_WEIGHT;
  rule->out.steps[rule->out.n++] = step;
}

static void
overlapped (Rule *rule, guint32 forward_side)
{
  forward (rule, forward_side);
  rule->out.steps[rule->out.n - 1].paired = TRUE;
  backward (rule, 1 - forward_side);
}

/* Steps 1 to 3. */
static void
lay_warm_up (Rule *rule)
{
  guint32 above = rule->half - rule->depth - 1;
  for (guint32 i = 0; i < 2 * above; i++)
    forward (rule, 0);
  for (guint32 i = 0; i <= rule->depth; i++) {
    forward (rule, 0);
    forward (rule, 1);
  }
  for (guint32 i = 0; i < above; i++) {
    backward_input (rule, 1);
    backward_weight (rule);
    forward (rule, 1);
  }
}

/* Steps 4 and 5; at the middle the very first pair has nothing to overlap with. */
static void
lay_steady (Rule *rule)
{
  guint32 above = rule->half - rule->depth - 1;
  guint32 n = rule->per_direction + rule->depth + 1 - 2 * rule->half;
  for (guint32 i = 0; i < n; i++) {
    if (i == 0 && above == 0) {
      forward (rule, 0);
      backward (rule, 1);
    } else {
      overlapped (rule, 0);
    }
    overlapped (rule, 1);
  }
  for (guint32 i = 0; i < above; i++) {
    backward (rule, 1);
    overlapped (rule, 1);
  }
}

/* Steps 6 to 8: half-way through step 6 weight gradients begin to be put off. */
static void
lay_drain (Rule *rule)
{
  guint32 above = rule->half - rule->depth - 1, depth = rule->depth;
  guint32 switch_at = 2 * ((depth + 1) / 2) + (depth % 2 == 0);
  for (guint32 i = 0; i < 2 * (depth + 1); i++) {
    guint32 side = i % 2 == 0;
    if (i < switch_at)
      backward (rule, side);
    else
      backward_input (rule, side);
  }
  for (guint32 i = 0; i < above; i++) {
    backward_weight (rule);
    backward_input (rule, 0);
  }
  while (rule->pending < rule->n_queue)
    backward_weight (rule);
}

static guint32
lay_all (Rule *rule)
{
  /* Apart are `above` gradients of step 3, at most 2(depth + 1) of step 6, `above` of step 7. */
  rule->queue = g_new (ModelStep, 4 * (gsize)rule->half + 2);
  lay_warm_up (rule);
  lay_steady (rule);
  lay_drain (rule);
  g_free (rule->queue);
  return rule->out.n;
}

guint32
model_schedule_fill_dualpipe (ModelStep *steps, guint32 pp, guint32 microbatches, guint32 rank)
{
  Rule rule = { .out = { .steps = steps },
                .half = pp / 2,
                .depth = MIN (rank, pp - 1 - rank),
                .per_direction = microbatches / 2,
                .near = rank >= pp / 2 };
  return lay_all (&rule);
}

guint32
model_schedule_fill_dualpipev (ModelStep *steps, guint32 pp, guint32 microbatches, guint32 rank)
{
  Rule rule = {
    .out = { .steps = steps }, .half = pp, .depth = rank, .per_direction = microbatches, .near = 0
  };
  return lay_all (&rule);
}
