/* costmodel/blockcost.h - the price of one segment template: what the search adds up.
 *
 * Equal to the sum of cost_op_s over the segment's ops, phase by phase (a test holds it to 1e-9),
 * with communication split into what is exposed and what hides under compute.
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
  double compute_s[COST_PASS_N_KINDS]; /* sum of compute ops, of which recompute_s is rebuilt work */
  double tp_s[COST_PASS_N_KINDS];      /* sum of the collectives alone, overlap not yet taken off */
  double cp_s[COST_PASS_N_KINDS];
  double ep_s[COST_PASS_N_KINDS];
  double recompute_s;
  /* what of them shows, given the layout's flags and the calibrated overlap */
  double exposed_tp_s[COST_PASS_N_KINDS];
  double exposed_cp_s[COST_PASS_N_KINDS];
  double exposed_ep_s[COST_PASS_N_KINDS];
  double pass_s[COST_PASS_N_KINDS]; /* compute + exposed, at least the host's time to launch */
  ModelSegmentMemory memory;
  guint64 weight_count, expert_weight_count, replicated_weight_count;
  guint64 largest_mlp_weight_count; /* fc1 + fc2 of the block on this rank (dummy wgrad buffers) */
} CostBlock;

/* @launch: whether the host bound applies (blocks), not for embedding and head. */
void cost_block_init (CostBlock *block, const CostContext *context, const ModelLayout *layout,
                      const ModelSegment *segment);
G_END_DECLS
