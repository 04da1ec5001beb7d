/* sim/balance.c - threshold search over greedy fills. */
#include "sim/balance.h"

#include <math.h>

/* A balance with what is worked out once. */
typedef struct {
  const SimBalance *b;
  guint32 least_count; /* layers of a stage */
} Cutter;

static guint32
cap_of (const Cutter *cutter, guint32 stage)
{
  return cutter->b->most_layers != NULL ? cutter->b->most_layers[stage] : cutter->b->n_layers;
}

static double
layer_s (const SimBalance *b, guint32 layer)
{
  return b->layer_s != NULL ? b->layer_s[layer] : b->equal_layer_s;
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

  if (cutter->b->layer_s == NULL)
    return rest_s < cutter->b->equal_layer_s
               ? 0
               : (guint32)MIN (rest_s / cutter->b->equal_layer_s, (double)most);
  while (n < most && cutter->b->layer_s[left - n - 1] <= rest_s)
    rest_s -= cutter->b->layer_s[left - ++n];
  return n;
}

/* The same where every layer takes as long and no stage is capped: stages have the room of the
 * first, of the last, or of those between. */
static gboolean
equal_layers_fit (const Cutter *cutter, guint32 left, guint32 n_stages, double limit_s)
{
  guint64 first = 0;
  guint64 between = 0;
  guint64 last = 0;

  if (n_stages == 0)
    return left == 0;
  first = room (cutter, 0, n_stages, left, limit_s);
  if (n_stages > 1)
    last = room (cutter, n_stages - 1, n_stages, left, limit_s);
  if (n_stages > 2)
    between = room (cutter, 1, n_stages, left, limit_s);
  return first >= cutter->least_count && (n_stages < 2 || last >= cutter->least_count)
         && (n_stages < 3 || between >= cutter->least_count)
         && first + last + between * (n_stages - MIN (n_stages, 2)) >= left;
}

/* Do the first @left layers fit the first @n_stages stages? Fills from the last to the first, each
 * as full as it can be, but leaving enough for those before it. */
static gboolean
fits (const Cutter *cutter, guint32 left, guint32 n_stages, double limit_s)
{
  if (cutter->b->layer_s == NULL && cutter->b->most_layers == NULL)
    return equal_layers_fit (cutter, left, n_stages, limit_s);
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
               || time_s + 0.5 * layer_s (b, left - n - 1) <= share_s
               || !fits (cutter, left - n, stage, limit_s)))
      time_s += layer_s (b, left - ++n);
    out[stage] = n;
    left -= n;
    total_s -= time_s;
  }
}

#define MAX_RANKS 1024 /* of interleaved pipelines; longer ones are left as they are */
#define HALVINGS  16   /* of at most two layers: the threshold is exact to 3e-5 of a layer */

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

/* Smallest time above @least_s that a stage with @extra_s and whole layers can have. */
static double
next_s (const SimBalance *b, double extra_s, double least_s)
{
  double layers = ceil ((least_s - extra_s) / b->equal_layer_s * (1 - 1e-12));

  return extra_s + MAX (layers, 1) * b->equal_layer_s;
}

/* Equal layers: stages take one of three series of times, so that few thresholds need a try. */
static double
least_of_equal_s (const Cutter *cutter, double low_s)
{
  const SimBalance *b = cutter->b;

  for (;;) {
    double limit_s = MIN (next_s (b, 0, low_s), next_s (b, b->head_s, low_s));

    limit_s = MIN (limit_s, next_s (b, b->embedding_s, low_s)) * (1 + 1e-9);
    if (fits (cutter, b->n_layers, b->n_stages, limit_s))
      return limit_s;
    low_s = limit_s;
  }
}

static gboolean
balance (const SimBalance *b, guint32 least_count, guint32 *out)
{
  Cutter cutter = { .b = b, .least_count = least_count };
  double total_s = b->embedding_s + b->head_s;
  double longest_s = 0;
  double low_s = 0;
  double high_s = 0;

  if (!have_room (&cutter))
    return FALSE;
  if (b->layer_s == NULL) {
    total_s += b->n_layers * b->equal_layer_s;
    longest_s = b->equal_layer_s;
  }
  for (guint32 i = 0; b->layer_s != NULL && i < b->n_layers; i++) {
    total_s += b->layer_s[i];
    longest_s = MAX (longest_s, b->layer_s[i]);
  }
  low_s = fmax (total_s / b->n_stages, fmax (longest_s, b->head_s + layer_s (b, b->n_layers - 1)));
  low_s = fmax (low_s, b->embedding_s + layer_s (b, 0)) * (1 - 1e-12);
  /* with one layer more than the bound in each stage everything finds a place, but for caps */
  for (high_s = low_s + longest_s; !fits (&cutter, b->n_layers, b->n_stages, high_s);) {
    low_s = high_s;
    high_s += longest_s;
  }
  if (b->layer_s == NULL)
    high_s = least_of_equal_s (&cutter, low_s);
  for (guint i = 0; b->layer_s != NULL && i < HALVINGS; i++) {
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
  guint32 counts[MAX_RANKS];
  SimBalance even = *b;
  double sum_s = 0;

  if (vpp == 0 || b->n_stages > MAX_RANKS)
    return FALSE;
  for (guint32 i = 0; b->layer_s != NULL && i < b->n_layers; i++)
    sum_s += b->layer_s[i];
  if (b->layer_s != NULL)
    even.equal_layer_s = sum_s / b->n_layers;
  even.layer_s = NULL;
  if (!balance (&even, vpp, counts))
    return FALSE;
  for (guint32 rank = 0; rank < b->n_stages; rank++)
    for (guint32 chunk = 0; chunk < vpp; chunk++) {
      /* what does not divide goes to the first chunks of the last rank, else to the last ones */
      guint32 place = rank + 1 == b->n_stages ? chunk : vpp - 1 - chunk;

      out[chunk * b->n_stages + rank] = counts[rank] / vpp + (place < counts[rank] % vpp ? 1 : 0);
    }
  return TRUE;
}
