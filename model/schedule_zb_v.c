/* model/schedule_zb_v.c - zero bubble on a folded pipeline, at 1F1B's peak memory.
 *
 * Qi et al., arXiv 2401.10241; the fixed rule of PyTorch's ScheduleZBVZeroBubble (reference
 * "schedules" §7). The rule is laid out for n = max(m, 2p − 1) micro-batches, and what belongs to
 * a micro-batch >= m is left out.
 */
#include "model/schedule-private.h"

typedef struct {
  ModelWriter out;
  guint32 microbatches;
  guint32 done[4][2]; /* laid out, left out or not */
} Rule;

static void
lay (Rule *rule, ModelStepKind kind, guint32 chunk)
{
  if (rule->done[kind][chunk]++ < rule->microbatches)
    model_write (&rule->out, kind, chunk);
}

static void
lay_backward (Rule *rule, guint32 chunk)
{
  lay (rule, MODEL_STEP_BACKWARD_INPUT, chunk);
  lay (rule, MODEL_STEP_BACKWARD_WEIGHT, chunk);
}

/* Forwards down to the fold and up again until the first backward arrives. */
static void
lay_warm_up (Rule *rule, guint32 pp, guint32 rank)
{
  for (guint32 i = 0; i < 2 * (pp - rank) - 1; i++)
    lay (rule, MODEL_STEP_FORWARD, 0);
  for (guint32 i = 0; i < rank; i++) {
    lay (rule, MODEL_STEP_FORWARD, 1);
    lay (rule, MODEL_STEP_FORWARD, 0);
  }
  for (guint32 i = 0; i < pp - rank; i++) {
    lay (rule, MODEL_STEP_FORWARD, 1);
    lay_backward (rule, 1);
  }
}

static void
lay_steady (Rule *rule, guint32 n)
{
  guint32 *forwards = rule->done[MODEL_STEP_FORWARD];
  while (forwards[1] < forwards[0] || forwards[0] < n) {
    if (forwards[0] < n)
      lay (rule, MODEL_STEP_FORWARD, 0);
    lay_backward (rule, 0);
    lay (rule, MODEL_STEP_FORWARD, 1);
    lay_backward (rule, 1);
  }
}

static void
lay_drain (Rule *rule, guint32 pp, guint32 rank, guint32 n)
{
  for (guint32 i = 0; i < rank; i++) {
    lay (rule, MODEL_STEP_BACKWARD_INPUT, 0);
    lay (rule, MODEL_STEP_BACKWARD_INPUT, 1);
  }
  for (guint32 i = 0; i < pp - rank; i++)
    lay_backward (rule, 0);
  for (guint32 chunk = 2; chunk-- > 0;)
    while (rule->done[MODEL_STEP_BACKWARD_WEIGHT][chunk] < n)
      lay (rule, MODEL_STEP_BACKWARD_WEIGHT, chunk);
}

guint32
model_schedule_fill_zb_v (ModelStep *steps, guint32 pp, guint32 microbatches, guint32 rank)
{
  Rule rule = { .out = { .steps = steps }, .microbatches = microbatches };
  guint32 n = MAX (microbatches, 2 * pp - 1);
  lay_warm_up (&rule, pp, rank);
  lay_steady (&rule, n);
  lay_drain (&rule, pp, rank, n);
  return rule.out.n;
}
