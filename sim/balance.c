/* sim/balance.c - threshold search over greedy fills. */
#include "sim/balance.h"

#include <math.h>

/* Fills stages from the last to the first, each up to @limit_s but leaving a layer for each stage
 * before it. TRUE if every layer found a place within the limit. */
static gboolean
fill (const double *layer_s, guint32 n_layers, double embedding_s, double head_s, guint32 n_stages,
      double limit_s, guint32 *out)
{
  guint32 left = n_layers;

  for (guint32 stage = n_stages; stage-- > 0;) {
    double time_s = stage == n_stages - 1 ? head_s : 0;

    if (stage == 0)
      time_s += embedding_s;
    out[stage] = 0;
    while (left > stage && (time_s + layer_s[left - 1] <= limit_s || out[stage] == 0)) {
      time_s += layer_s[--left];
      out[stage]++;
    }
    if (time_s > limit_s)
      return FALSE;
  }
  return left == 0;
}

gboolean
sim_balance_stages (const double *layer_s, guint32 n_layers, double embedding_s, double head_s,
                    guint32 n_stages, guint32 *out)
{
  double low_s = 0;
  double high_s = embedding_s + head_s;

  if (n_stages == 0 || n_stages > n_layers)
    return FALSE;
  for (guint32 i = 0; i < n_layers; i++)
    high_s += layer_s[i];
  high_s *= 1 + 1e-12; /* sums taken in another order still fit */
  /* 40 halvings: the threshold is exact to 1e-12 of the whole, far below a layer */
  for (guint i = 0; i < 40; i++) {
    double middle_s = 0.5 * (low_s + high_s);

    if (fill (layer_s, n_layers, embedding_s, head_s, n_stages, middle_s, out))
      high_s = middle_s;
    else
      low_s = middle_s;
  }
  return fill (layer_s, n_layers, embedding_s, head_s, n_stages, high_s, out);
}
