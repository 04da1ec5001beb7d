/* costmodel/blockcost.h - the price of one segment template: what the search adds up.
 *
 * Equal to the sum of cost_op_s over the segment's ops, pass by pass (a test holds it to 1e-9),
 * with communication split into what is exposed and what hides under compute:
 *   tp  t · (1 - overlap), overlap = profile.overlap_tp_ratio with overlap_tp, else
 *       step.unoverlapped_tp_ratio. A gather that backward makes again (sequence parallelism) runs
 *       beside the input-gradient GEMM that follows it and shows only beyond it. What is left of a
 *       reduction that is followed by a weight gradient hides under that one's time by
 *       profile.overlap_wgrad_ratio; schedules that run weight gradients apart lose this.
 *   cp  ring exchanges hide under the attention of their pass and show only beyond it; all-gathers
 *       and all-to-alls show in full.
 *   ep  t · (1 - profile.overlap_ep_ratio); with overlap_ep only what is longer than the compute of
 *       the block's forward or backward.
 * A pass of a block lasts at least as long as the host takes to launch it: host_forward_share of
 * host_layer_s forward, the rest backward, and as much again for recomputed ops as forward took for
 * them; MoE blocks moe_host_factor times that and expert_host_s per local expert on top. All of it
 * grows by host_wait_ratio for every rank of the TP group beyond the first.
 * Source: reference "time-model" §3.4, §3.8, §3.9, §3.12.
 */
#pragma once
#include "costmodel/opcost.h"
#include "model/segment.h"
#include <glib.h>
G_BEGIN_DECLS

typedef enum {
  COST_PASS_FORWARD,
  COST_PASS_BACKWARD_INPUT, /* recompute included */
  COST_PASS_BACKWARD_WEIGHT,
  COST_PASS_N_KINDS
} CostPass;

typedef struct {
  double
      compute_s[COST_PASS_N_KINDS]; /* sum of compute ops, of which recompute_s is rebuilt work */
  double tp_s[COST_PASS_N_KINDS];   /* sum of the collectives alone, overlap not yet taken off */
  double cp_s[COST_PASS_N_KINDS];
  double ep_s[COST_PASS_N_KINDS];
  double recompute_s;
  /* what of them shows, given the layout's flags and the calibrated overlap */
  double exposed_tp_s[COST_PASS_N_KINDS];
  double exposed_cp_s[COST_PASS_N_KINDS];
  double exposed_ep_s[COST_PASS_N_KINDS];
  double wgrad_hidden_s; /* tp reductions that hide under weight gradients: shows where these run
                            apart */
  double host_s[COST_PASS_N_KINDS]; /* waiting for the host: what pass_s has beyond the rest */
  double pass_s[COST_PASS_N_KINDS]; /* compute + exposed + host */
  ModelSegmentMemory memory;
  guint64 weight_count, expert_weight_count, replicated_weight_count;
  guint64 largest_mlp_weight_count; /* fc1 + fc2 of the block on this rank, one expert where they
                                       are grouped (dummy wgrad buffers, kept per shape) */
} CostBlock;

/* The host bound applies to blocks, not to embedding and head. */
void cost_block_init (CostBlock *block, const CostContext *context, const ModelLayout *layout,
                      const ModelSegment *segment);
G_END_DECLS
