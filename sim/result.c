/* sim/result.c - what a play has to say when it is over. */
#include "sim/setup-private.h"

#include <stdlib.h>
#include <string.h>

void
sim_result_clear (SimResult *result)
{
  if (result == NULL)
    return;
  g_free (result->ranks);
  g_free (result->links);
  g_free (result->critical);
  memset (result, 0, sizeof *result);
}

static void
fill_rank (const SimPlay *play, const Player *player, double played_s, SimRank *out)
{
  *out = (SimRank){ .rank = player->rank,
                    .pp_rank = player->pp_rank,
                    .stands_for = player->stands_for,
                    .end_s = player->passes_end_s,
                    .peak_bytes = player->peak_bytes,
                    .kept_bytes = player->peak_kept_bytes,
                    .closed_bytes = player->closed_bytes,
                    .peak_op = player->peak_op,
                    .peak_phase = player->peak_phase,
                    .peak_chunk = G_MAXUINT32,
                    .peak_microbatch = G_MAXUINT32 };
  memcpy (out->parts_s, player->parts_s, sizeof out->parts_s);
  out->parts_s[COST_PART_OTHER] += played_s - player->end_s;
  if (player->peak_phase == MODEL_PHASE_TAIL)
    return;
  const ModelStep *step = model_schedule_rank (play->schedule, player->pp_rank) + player->peak_step;
  out->peak_chunk = step->chunk;
  out->peak_microbatch = step->microbatch;
}

static gint
compare_links (gconstpointer a, gconstpointer b)
{
  double x = ((const SimLinkUse *)a)->lost_s, y = ((const SimLinkUse *)b)->lost_s;
  return (x < y) - (x > y);
}

static void
fill_links (const SimPlay *play, SimResult *out)
{
  guint32 n = play->n_shared > 0 ? sim_links_count (play->links) : 0;

  out->links = g_new0 (SimLinkUse, MAX (play->n_shared, 1));
  for (guint32 i = 0; i < play->n_shared; i++) {
    const Shared *link = &play->shared[i];
    if (!(link->lost_s > 1e-9))
      continue;
    out->links[out->n_links++]
        = (SimLinkUse){ sim_links_name (play->links, i % n), link->lost_s, link->traffic };
  }
  qsort (out->links, out->n_links, sizeof *out->links, compare_links);
}

void
sim_fill_result (const SimPlay *play, SimResult *out)
{
  double busy_s = 0, ranks = 0;

  *out = (SimResult){ .n_ranks = play->n_players, .op_count = play->op_count };
  for (guint32 i = 0; i < play->n_players; i++) {
    out->played_s = MAX (out->played_s, play->players[i].end_s);
    out->pipeline_s = MAX (out->pipeline_s, play->players[i].passes_end_s);
  }
  out->ranks = g_new0 (SimRank, out->n_ranks);
  for (guint32 i = 0; i < play->n_players; i++) {
    const Player *player = &play->players[i];
    fill_rank (play, player, out->played_s, &out->ranks[i]);
    out->queued_s += player->queued_s;
    out->slowed_s += player->slowed_s;
    busy_s += player->stands_for
              * (player->parts_s[COST_PART_COMPUTE] + player->parts_s[COST_PART_OPTIMIZER]);
    ranks += player->stands_for;
  }
  out->utilisation = out->played_s > 0 ? busy_s / ranks / out->played_s : 0;
  fill_links (play, out);
  play_find_critical (play, out);
}

double
sim_simulated_s (const CostPlacement *placement, const CostPrediction *prediction, double played_s)
{
  return prediction->step_s
         + (played_s - prediction->schedule_s - prediction->tail_s)
               * (1 + placement->straggler_ratio);
}
