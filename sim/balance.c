/* sim/balance.c - threshold search over greedy fills. */
#include "sim/balance.h"

#include <math.h>

/* A balance with what is worked out once. */
typedef struct {
  const SimBalance *b;
  double layer_s;      /* of every layer where they are equal, else 0 */
  guint32 least_count; /* layers of a stage */
} Cutter;

static guint32
cap_of (const Cutter *cutter, guint32 stage)
{
  return cutter->b->most_layers != NULL ? cutter->b->most_layers[stage] : cutter->b->n_layers;
}

static double
extra_of (const Cutter *cutter, guint32 stage, guint32 n_stages)
{
  const SimBalance *b = cutter->b;

  return (stage == 0 ? b->embedding_s : 0)
         + (stage == b->n_stages - 1 && n_stages == b->n_stages ? b->head_s : 0);
}

/* Layers that @stage can take from the end of the first @left within @limit_s. */
static guint32
room (const Cutter *cutter, guint32 stage, guint32 n_stages, guint32 left, double limit_s)
{
  guint32 most = MIN (left, cap_of (cutter, stage));
  double rest_s = limit_s - extra_of (cutter, stage, n_stages);
  guint32 n = 0;

  if (cutter->layer_s > 0)
    return rest_s < cutter->layer_s ? 0 : (guint32)MIN (rest_s / cutter->layer_s, (double)most);
  while (n < most && cutter->b->layer_s[left - n - 1] <= rest_s)
    rest_s -= cutter->b->layer_s[left - ++n];
  return n;
}

/* Do the first @left layers fit the first @n_stages stages? Fills from the last to the first, each
 * as full as it can be, but leaving enough for those before it. */
static gboolean
fits (const Cutter *cutter, guint32 left, guint32 n_stages, double limit_s)
{
  for (guint32 stage = n_stages; stage-- > 0;) {
    guint32 kept = stage * cutter->least_count;
    guint32 n = room (cutter, stage, n_stages, left, limit_s);

    if (n < cutter->least_count || (stage == 0 && n < left))
      return FALSE;
    left -= MIN (n, left - kept);
  }
  return TRUE;
}

/*
 * Cuts at the threshold found. Any cut within it takes as long; the even one is wanted: each stage
 * gets its share of what is left, to the nearest layer, more where the stages before it could not
 * take the rest otherwise.
 */
static void
cut (const Cutter *cutter, double limit_s, double total_s, guint32 *out)
{
  const SimBalance *b = cutter->b;
  guint32 left = b->n_layers;

  for (guint32 stage = b->n_stages; stage-- > 0;) {
    guint32 kept = stage * cutter->least_count;
    guint32 most = MIN (room (cutter, stage, b->n_stages, left, limit_s), left - kept);
    double share_s = total_s / (stage + 1);
    double time_s = stage == b->n_stages - 1 ? b->head_s : 0;
    guint32 n = 0;

    while (n < most
           && (n < cutter->least_count || stage == 0
               || time_s + 0.5 * b->layer_s[left - n - 1] <= share_s
               || !fits (cutter, left - n, stage, limit_s)))
      time_s += b->layer_s[left - ++n];
    out[stage] = n;
    left -= n;
    total_s -= time_s;
  }
}

#define HALVINGS 16 /* of at most two layers: the threshold is exact to 3e-5 of a layer */

static gboolean
have_room (const Cutter *cutter)
{
  const SimBalance *b = cutter->b;
  guint64 sum = 0;

  if (b->n_stages == 0 || (guint64)b->n_stages * cutter->least_count > b->n_layers)
    return FALSE;
  for (guint32 stage = 0; stage < b->n_stages; stage++) {
    if (cap_of (cutter, stage) < cutter->least_count)
      return FALSE;
    sum += MIN (cap_of (cutter, stage), b->n_layers);
  }
  return sum >= b->n_layers;
}

static gboolean
balance (const SimBalance *b, guint32 least_count, guint32 *out)
{
  Cutter cutter = { .b = b, .least_count = least_count };
  double total_s = b->embedding_s + b->head_s;
  double longest_s = 0;
  double shortest_s = INFINITY;
  double low_s = 0;
  double high_s = 0;

  if (!have_room (&cutter))
    return FALSE;
  for (guint32 i = 0; i < b->n_layers; i++) {
    total_s += b->layer_s[i];
    longest_s = fmax (longest_s, b->layer_s[i]);
    shortest_s = fmin (shortest_s, b->layer_s[i]);
  }
  cutter.layer_s = longest_s == shortest_s ? longest_s : 0;
  low_s = fmax (total_s / b->n_stages, fmax (longest_s, b->head_s + b->layer_s[b->n_layers - 1]));
  low_s = fmax (low_s, b->embedding_s + b->layer_s[0]) * (1 - 1e-12);
  /* with one layer more than the bound in each stage everything finds a place, but for caps */
  for (high_s = low_s + longest_s; !fits (&cutter, b->n_layers, b->n_stages, high_s);) {
    low_s = high_s;
    high_s += longest_s;
  }
  for (guint i = 0; i < HALVINGS; i++) {
    double middle_s = 0.5 * (low_s + high_s);

    if (fits (&cutter, b->n_layers, b->n_stages, middle_s))
      high_s = middle_s;
    else
      low_s = middle_s;
  }
  cut (&cutter, high_s, total_s, out);
  return TRUE;
}

gboolean
sim_balance_stages (const SimBalance *b, guint32 *out)
{
  return balance (b, 1, out);
}

gboolean
sim_balance_chunks (const SimBalance *b, guint32 vpp, guint32 *out)
{
  g_autofree double *mean_s = g_new (double, MAX (b->n_layers, 1));
  g_autofree guint32 *counts = g_new (guint32, MAX (b->n_stages, 1));
  SimBalance even = *b;
  double sum_s = 0;

  for (guint32 i = 0; i < b->n_layers; i++)
    sum_s += b->layer_s[i];
  for (guint32 i = 0; i < b->n_layers; i++)
    mean_s[i] = sum_s / b->n_layers;
  even.layer_s = mean_s;
  if (vpp == 0 || !balance (&even, vpp, counts))
    return FALSE;
  for (guint32 rank = 0; rank < b->n_stages; rank++)
    for (guint32 chunk = 0; chunk < vpp; chunk++) {
      /* what does not divide goes to the first chunks of the last rank, else to the last ones */
      guint32 place = rank + 1 == b->n_stages ? chunk : vpp - 1 - chunk;

      out[chunk * b->n_stages + rank]
          = counts[rank] / vpp + (place < counts[rank] % vpp ? 1 : 0);
    }
  return TRUE;
}
