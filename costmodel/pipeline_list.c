/* costmodel/pipeline_list.c - plays a written-out list, step by step, to its end.
 *
 * For schedules that run weight gradients apart, pair a forward with a backward, fold the pipeline
 * or feed it from both ends (reference "schedules" §5–10), and for a user's own order. A weight
 * gradient waits for nobody but its own input gradient; the next stage waits for the input gradient
 * alone. A pair starts when both halves are ready and ends as one; each half's expert exchange runs
 * under the other half's compute.
 */
#include "costmodel/pipeline-private.h"
#include "model/error.h"
#include "model/schedule.h"
#include <string.h>

typedef struct {
  const CostPipeline *pipeline;
  const ModelSchedule *list;
  guint32 pp, vpp, n_places;
  gsize passes;                          /* micro-batches per chunk */
  double *forward_end, *input_end;       /* by place and micro-batch, negative: not yet */
  double *clock, *busy, *apart, *hidden; /* by rank */
  guint64 *next;                         /* step of each rank */
} Player;

static const ModelSchedule *
list_of (const CostPipeline *pipeline, CostPipelineScratch *scratch, GError **error)
{
  if (pipeline->list != NULL)
    return pipeline->list;
  const ModelSchedule *kept = scratch->list;
  if (kept != NULL && kept->kind == pipeline->schedule && kept->pp == pipeline->pp
      && kept->vpp == pipeline->vpp && kept->microbatches == pipeline->microbatches)
    return kept;
  g_clear_pointer (&scratch->list, model_schedule_free);
  scratch->list = model_schedule_new (pipeline->schedule, pipeline->pp, pipeline->vpp,
                                      (guint32)MIN (pipeline->microbatches, G_MAXUINT32), error);
  return scratch->list;
}

static void
player_init (Player *player, const CostPipeline *pipeline, const ModelSchedule *list,
             CostPipelineScratch *scratch)
{
  guint32 p = list->pp;
  *player = (Player){ .pipeline = pipeline,
                      .list = list,
                      .pp = p,
                      .vpp = list->vpp,
                      .n_places = p * list->vpp,
                      .passes = (gsize)model_schedule_passes (list->kind, list->microbatches) };
  gsize n = player->n_places * player->passes;
  player->forward_end = cost_pipeline_scratch_ends (scratch, 2 * n + 4 * (gsize)p);
  player->input_end = player->forward_end + n;
  player->clock = player->input_end + n;
  player->busy = player->clock + p;
  player->apart = player->busy + p;
  player->hidden = player->apart + p;
  player->next = cost_pipeline_scratch_counts (scratch, p);
  for (gsize i = 0; i < 2 * n; i++)
    player->forward_end[i] = -1;
  memset (player->clock, 0, 4 * (gsize)p * sizeof (double));
  memset (player->next, 0, p * sizeof (guint64));
}

/* A step with all that is asked about it. */
typedef struct {
  const ModelStep *step;
  guint32 stage, place;
} Located;

static Located
locate (const Player *player, guint32 rank, const ModelStep *step)
{
  ModelScheduleKind kind = player->list->kind;
  return (Located){ .step = step,
                    .stage = model_schedule_stage (kind, player->pp, rank, step->chunk),
                    .place = model_schedule_place (kind, player->pp, rank, step->chunk) };
}

static gsize
slot (const Player *player, guint32 place, const ModelStep *step)
{
  return place * player->passes + step->microbatch;
}

/* The two stages at the fold are on one rank. */
static double
message_s (const Player *player, guint32 from_place, guint32 to_place)
{
  gboolean at_fold
      = model_schedule_is_folded (player->list->kind) && MAX (from_place, to_place) == player->pp;
  return at_fold ? 0 : player->pipeline->p2p_s;
}

/* When everything that the step waits for has arrived; negative: some of it has not run. */
static double
arrival_s (const Player *player, const Located *at)
{
  const ModelSchedule *list = player->list;
  guint32 place = at->place;
  if (at->step->kind == MODEL_STEP_BACKWARD_WEIGHT)
    return player->input_end[slot (player, place, at->step)];
  if (at->step->kind == MODEL_STEP_FORWARD) {
    if (model_schedule_is_first (list->kind, player->pp, place))
      return 0;
    double before_s = player->forward_end[slot (player, place - 1, at->step)];
    return before_s < 0 ? -1 : before_s + message_s (player, place - 1, place);
  }
  double own_s = player->forward_end[slot (player, place, at->step)];
  if (own_s < 0 || model_schedule_is_last (list->kind, player->pp, player->vpp, place))
    return own_s;
  double after_s = player->input_end[slot (player, place + 1, at->step)];
  return after_s < 0 ? -1 : MAX (own_s, after_s + message_s (player, place + 1, place));
}

static double
duration_s (Player *player, guint32 rank, const Located *at)
{
  const CostPipeline *pipeline = player->pipeline;
  double apart_s = pipeline->apart_s != NULL ? pipeline->apart_s[at->stage] : 0;
  switch (at->step->kind) {
  case MODEL_STEP_FORWARD:
    return pipeline->forward_s[at->stage];
  case MODEL_STEP_BACKWARD:
    return pipeline->backward_input_s[at->stage] + pipeline->backward_weight_s[at->stage];
  case MODEL_STEP_BACKWARD_INPUT:
    player->apart[rank] += apart_s;
    return pipeline->backward_input_s[at->stage] + apart_s;
  default:
    return pipeline->backward_weight_s[at->stage];
  }
}

/* What a pair saves: each half's exchange under the compute of the other. */
static double
hidden_s (const CostPipeline *pipeline, const Located *forward, const Located *backward)
{
  if (pipeline->forward_ep_s == NULL)
    return 0;
  double f_s = pipeline->forward_s[forward->stage];
  double b_s
      = pipeline->backward_input_s[backward->stage] + pipeline->backward_weight_s[backward->stage];
  double f_ep_s = pipeline->forward_ep_s[forward->stage];
  double b_ep_s = pipeline->backward_ep_s[backward->stage];
  return MIN (f_ep_s, MAX (b_s - b_ep_s, 0)) + MIN (b_ep_s, MAX (f_s - f_ep_s, 0));
}

static void
note_end (Player *player, const Located *at, double end_s)
{
  gsize i = slot (player, at->place, at->step);
  if (at->step->kind == MODEL_STEP_FORWARD)
    player->forward_end[i] = end_s;
  else if (at->step->kind != MODEL_STEP_BACKWARD_WEIGHT)
    player->input_end[i] = end_s;
}

/* The next step or pair of @rank. FALSE: something it waits for has not run. */
static gboolean
play_next (Player *player, guint32 rank)
{
  const ModelStep *step = model_schedule_rank (player->list, rank) + player->next[rank];
  guint n = step->paired ? 2 : 1;
  Located at[2];
  double start_s = player->clock[rank], work_s = 0;
  for (guint i = 0; i < n; i++) {
    at[i] = locate (player, rank, &step[i]);
    double ready_s = arrival_s (player, &at[i]);
    if (ready_s < 0)
      return FALSE;
    start_s = MAX (start_s, ready_s);
  }
  for (guint i = 0; i < n; i++)
    work_s += duration_s (player, rank, &at[i]);
  if (n == 2) {
    double saved_s = hidden_s (player->pipeline, &at[0], &at[1]);
    player->hidden[rank] += saved_s;
    work_s -= saved_s;
  }
  player->busy[rank] += work_s;
  player->clock[rank] = start_s + work_s;
  for (guint i = 0; i < n; i++)
    note_end (player, &at[i], player->clock[rank]);
  player->next[rank] += n;
  return TRUE;
}

static gboolean
play_rank (Player *player, guint32 rank)
{
  guint64 begin = player->next[rank];
  while (player->next[rank] < player->list->n_used[rank])
    if (!play_next (player, rank))
      break;
  return player->next[rank] > begin;
}

/* Up and down the ranks until nothing moves. FALSE: some list did not come to its end. */
static gboolean
play_all (Player *player)
{
  gboolean moved = TRUE;
  while (moved) {
    moved = FALSE;
    for (guint32 rank = 0; rank < player->pp; rank++)
      moved |= play_rank (player, rank);
    for (guint32 rank = player->pp; rank-- > 0;)
      moved |= play_rank (player, rank);
  }
  for (guint32 rank = 0; rank < player->pp; rank++)
    if (player->next[rank] < player->list->n_used[rank])
      return FALSE;
  return TRUE;
}

static void
fill_result (const Player *player, CostPipelineResult *out)
{
  CostPipelineResult result = { .played_count = player->list->microbatches };
  for (guint32 rank = 0; rank < player->pp; rank++) {
    result.makespan_s = MAX (result.makespan_s, player->clock[rank]);
    result.mean_busy_s += player->busy[rank] / player->pp;
    if (rank > 0 && player->busy[rank] <= result.busy_s)
      continue;
    result.busy_s = player->busy[rank];
    result.apart_s = player->apart[rank];
    result.hidden_ep_s = player->hidden[rank];
    result.critical_rank = rank;
  }
  *out = result;
}

gboolean
cost_pipeline_play_list (const CostPipeline *pipeline, CostPipelineScratch *scratch,
                         CostPipelineResult *out, GError **error)
{
  Player player;
  const ModelSchedule *list = list_of (pipeline, scratch, error);
  if (list == NULL)
    return FALSE;
  if (list->pp != pipeline->pp || list->vpp != pipeline->vpp
      || list->microbatches != pipeline->microbatches || list->kind != pipeline->schedule) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_ILLEGAL,
                 "a list for pp=%u vpp=%u and %u micro-batches does not fit pp=%u vpp=%u and "
                 "%" G_GUINT64_FORMAT,
                 list->pp, list->vpp, list->microbatches, pipeline->pp, pipeline->vpp,
                 pipeline->microbatches);
    return FALSE;
  }
  player_init (&player, pipeline, list, scratch);
  if (!play_all (&player)) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_ILLEGAL,
                 "the schedule of pp=%u vpp=%u with %" G_GUINT64_FORMAT " micro-batches waits for "
                 "itself",
                 pipeline->pp, pipeline->vpp, pipeline->microbatches);
    return FALSE;
  }
  fill_result (&player, out);
  return TRUE;
}
