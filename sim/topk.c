/* sim/topk.c - a bounded heap of candidates. */
#include "sim/topk.h"

#include <math.h>
#include <stdlib.h>

#define COMPARE(a, b)                                                                              \
  do {                                                                                             \
    if ((a) != (b))                                                                                \
      return (a) < (b) ? -1 : 1;                                                                   \
  } while (0)

static gint
compare_stages (const ModelLayout *a, const ModelLayout *b)
{
  guint64 n = model_layout_n_stages (a);

  if ((a->stage_layers == NULL) != (b->stage_layers == NULL))
    return a->stage_layers == NULL ? -1 : 1;
  for (guint64 i = 0; a->stage_layers != NULL && i < n; i++)
    COMPARE (a->stage_layers[i], b->stage_layers[i]);
  return 0;
}

gint
sim_layout_compare (const ModelLayout *a, const ModelLayout *b)
{
  COMPARE (a->tp, b->tp);
  COMPARE (a->sp, b->sp);
  COMPARE (a->cp, b->cp);
  COMPARE (a->pp, b->pp);
  COMPARE (a->vpp, b->vpp);
  COMPARE (a->ep, b->ep);
  COMPARE (a->etp, b->etp);
  COMPARE (a->mbs, b->mbs);
  COMPARE (a->zero, b->zero);
  COMPARE (a->hsdp, b->hsdp);
  COMPARE (a->recompute.kind, b->recompute.kind);
  COMPARE (a->recompute.modules, b->recompute.modules);
  COMPARE (a->recompute.method, b->recompute.method);
  COMPARE (a->recompute.n, b->recompute.n);
  COMPARE (a->schedule, b->schedule);
  return compare_stages (a, b);
}

gint
sim_candidate_compare (const SimCandidate *a, const SimCandidate *b)
{
  COMPARE (a->step_s, b->step_s);
  return sim_layout_compare (&a->layout, &b->layout);
}

void
sim_topk_init (SimTopK *top, guint keep)
{
  *top = (SimTopK){ .keep = keep };
}

void
sim_topk_clear (SimTopK *top)
{
  g_clear_pointer (&top->items, g_free);
  top->n = 0;
}

double
sim_topk_threshold_s (const SimTopK *top)
{
  return top->n < top->keep ? INFINITY : top->items[0].step_s;
}

static void
swap (SimCandidate *a, SimCandidate *b)
{
  SimCandidate t = *a;

  *a = *b;
  *b = t;
}

static void
sift_up (SimTopK *top, guint i)
{
  while (i > 0 && sim_candidate_compare (&top->items[i], &top->items[(i - 1) / 2]) > 0) {
    swap (&top->items[i], &top->items[(i - 1) / 2]);
    i = (i - 1) / 2;
  }
}

static void
sift_down (SimTopK *top)
{
  guint i = 0;

  for (;;) {
    guint worst = i;

    for (guint child = 2 * i + 1; child <= 2 * i + 2 && child < top->n; child++)
      if (sim_candidate_compare (&top->items[child], &top->items[worst]) > 0)
        worst = child;
    if (worst == i)
      return;
    swap (&top->items[i], &top->items[worst]);
    i = worst;
  }
}

void
sim_topk_offer (SimTopK *top, const SimCandidate *candidate)
{
  if (top->n == top->keep) {
    if (sim_candidate_compare (candidate, &top->items[0]) >= 0)
      return;
    top->items[0] = *candidate;
    sift_down (top);
    return;
  }
  if (top->n == top->capacity) {
    top->capacity = MIN (MAX (64, 2 * top->capacity), top->keep);
    top->items = g_renew (SimCandidate, top->items, top->capacity);
  }
  top->items[top->n++] = *candidate;
  sift_up (top, top->n - 1);
}

static int
compare_items (const void *a, const void *b)
{
  return sim_candidate_compare (a, b);
}

void
sim_topk_sort (SimTopK *top)
{
  if (top->n > 1)
    qsort (top->items, top->n, sizeof *top->items, compare_items);
}
