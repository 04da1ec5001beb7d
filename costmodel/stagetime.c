/* costmodel/stagetime.c - time of one micro-batch on one stage, and of its messages. */
#include "costmodel/evaluate-private.h"

static void
add_block (CostStageTime *sum, const CostBlock *block, double count)
{
  sum->forward_s += count * block->pass_s[COST_PASS_FORWARD];
  sum->backward_input_s += count * block->pass_s[COST_PASS_BACKWARD_INPUT];
  sum->backward_weight_s += count * block->pass_s[COST_PASS_BACKWARD_WEIGHT];
}

static void
add_traffic (CostStageTime *sum, double count, double forward_s, double backward_s)
{
  sum->forward_s += count * forward_s;
  sum->backward_input_s += count * backward_s;
  sum->fsdp_s += count * (forward_s + backward_s);
}

static void
add_fsdp (CostStageTime *sum, const CostTemplate *tmpl, const CostPlacement *at,
          const CostStageContent *content)
{
  for (guint kind = 0; kind < tmpl->n_kinds; kind++) {
    double recomputed = content->recomputed[kind], all = content->blocks[kind];
    add_traffic (sum, recomputed, at->fsdp_forward_s[kind], at->fsdp_backward_s[kind]);
    add_traffic (sum, all - recomputed, at->fsdp_plain_forward_s[kind],
                 at->fsdp_plain_backward_s[kind]);
  }
  if (content->has_embedding)
    add_traffic (sum, 1, at->fsdp_embedding_forward_s, at->fsdp_embedding_backward_s);
  if (content->has_head)
    add_traffic (sum, 1, at->fsdp_head_forward_s, at->fsdp_head_backward_s);
}

void
cost_stage_time (CostStageTime *out, const CostTemplate *tmpl, const CostPlacement *placement,
                 const ModelLayout *layout, const CostStageContent *content)
{
  CostStageTime sum = { 0 };
  for (guint kind = 0; kind < tmpl->n_kinds; kind++) {
    gint recomputed = content->recomputed[kind], plain = content->blocks[kind] - recomputed;
    if (recomputed > 0)
      add_block (&sum, &tmpl->blocks[kind], recomputed);
    if (plain > 0)
      add_block (&sum, &tmpl->plain_blocks[kind], plain);
  }
  if (content->has_embedding)
    add_block (&sum, &tmpl->embedding, 1);
  if (content->has_head)
    add_block (&sum, &tmpl->head, 1);
  if (model_zero_moves_per_microbatch (layout, 3))
    add_fsdp (&sum, tmpl, placement, content);
  sum.backward_s = sum.backward_input_s + sum.backward_weight_s;
  *out = sum;
}

static void
add_extra (CostStageExtra *sum, const CostBlock *block, double count)
{
  sum->apart_s += count * block->wgrad_hidden_s;
  sum->forward_ep_s += count * block->exposed_ep_s[COST_PASS_FORWARD];
  sum->backward_ep_s += count
                        * (block->exposed_ep_s[COST_PASS_BACKWARD_INPUT]
                           + block->exposed_ep_s[COST_PASS_BACKWARD_WEIGHT]);
}

void
cost_stage_extra (CostStageExtra *out, const CostTemplate *tmpl, const CostStageContent *content)
{
  *out = (CostStageExtra){ 0 };
  for (guint kind = 0; kind < tmpl->n_kinds; kind++) {
    double recomputed = content->recomputed[kind];
    add_extra (out, &tmpl->blocks[kind], recomputed);
    add_extra (out, &tmpl->plain_blocks[kind], content->blocks[kind] - recomputed);
  }
  if (content->has_head)
    add_extra (out, &tmpl->head, 1);
}

/*
 * The fitted host time is per micro-batch and chunk, forward and backward together: half of it
 * for each. Messages that overlap, and all of 1F1B (whose ranks wait in turn anyway), delay the
 * receiver; interleaved without overlap every chunk begins with a blocking receive. Listed
 * schedules post their receives ahead, or they would wait for themselves (reference "schedules"
 * §1): their messages only delay.
 */
void
cost_messages_init (CostMessages *out, const CostProblem *problem, const ModelLayout *layout,
                    const CostPlacement *placement)
{
  const CostStepNumbers *step = &problem->numbers->step;
  *out = (CostMessages){ 0 };
  if (layout->pp == 1)
    return;
  double message_s = placement->p2p_s * step->p2p_ratio;
  out->host_s = step->p2p_host_s / 2;
  gboolean is_interleaved = layout->schedule == MODEL_SCHEDULE_INTERLEAVED;
  if (is_interleaved && !layout->overlap_p2p)
    out->receive_s = message_s;
  else
    out->delay_s = message_s * (is_interleaved ? step->p2p_interleaved_ratio : 1);
}
