/* sim/topk.h - the K best candidates seen so far, in a total order. */
#pragma once
#include "model/layout.h"
#include <glib.h>
G_BEGIN_DECLS

/* @layout.stage_layers is borrowed from the space or a worker's pipelines. */
typedef struct {
  double step_s;
  double lower_bound_s;
  ModelLayout layout;
} SimCandidate;

/* Order of layouts by key, for ties: a total order over distinct layouts. */
gint sim_layout_compare (const ModelLayout *a, const ModelLayout *b);
/* By step_s, then key. */
gint sim_candidate_compare (const SimCandidate *a, const SimCandidate *b);

typedef struct {
  SimCandidate *items; /* (owned) heap, worst on top */
  guint n, capacity, keep;
} SimTopK;
void sim_topk_init (SimTopK *top, guint keep);
void sim_topk_clear (SimTopK *top);
/* Largest step_s a newcomer may have: infinity until K are there. */
double sim_topk_threshold_s (const SimTopK *top);
void sim_topk_offer (SimTopK *top, const SimCandidate *candidate);
/* Sorts items, best first; the heap is then no heap any more. */
void sim_topk_sort (SimTopK *top);
G_END_DECLS
