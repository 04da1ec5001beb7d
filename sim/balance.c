/* sim/balance.c - threshold search over greedy fills. */
#include "sim/balance.h"

#include <math.h>

/* Fills stages from the last to the first, each as full as @limit_s allows but leaving a layer for
 * each stage before it. TRUE if stage 0 can take what is left over. */
static gboolean
fits (const double *layer_s, guint32 n_layers, double embedding_s, double head_s, guint32 n_stages,
      double limit_s)
{
  guint32 left = n_layers;

  for (guint32 stage = n_stages; stage-- > 0;) {
    double time_s = (stage == n_stages - 1 ? head_s : 0) + (stage == 0 ? embedding_s : 0);

    time_s += layer_s[--left];
    while (left > stage && (stage == 0 || time_s + layer_s[left - 1] <= limit_s))
      time_s += layer_s[--left];
    if (time_s > limit_s)
      return FALSE;
  }
  return TRUE;
}

/*
 * Cuts at the threshold found. Any cut within it takes as long; the even one is wanted: each stage
 * gets its share of what is left, to the nearest layer, more where the stages before it could not
 * take the rest otherwise.
 */
static void
cut (const double *layer_s, guint32 n_layers, double embedding_s, double head_s, guint32 n_stages,
     double limit_s, double total_s, guint32 *out)
{
  guint32 left = n_layers;

  for (guint32 stage = n_stages; stage-- > 0;) {
    double share_s = total_s / (stage + 1);
    double time_s = (stage == n_stages - 1 ? head_s : 0) + layer_s[--left];

    out[stage] = 1;
    while (left > stage
           && (stage == 0
               || (time_s + layer_s[left - 1] <= limit_s
                   && (time_s + 0.5 * layer_s[left - 1] <= share_s
                       || !fits (layer_s, left, embedding_s, 0, stage, limit_s))))) {
      time_s += layer_s[--left];
      out[stage]++;
    }
    total_s -= time_s;
  }
}

#define HALVINGS 16 /* of at most two layers: the threshold is exact to 3e-5 of a layer */

gboolean
sim_balance_stages (const double *layer_s, guint32 n_layers, double embedding_s, double head_s,
                    guint32 n_stages, guint32 *out)
{
  double total_s = embedding_s + head_s;
  double longest_s = 0;
  double low_s = 0;
  double high_s = 0;

  if (n_stages == 0 || n_stages > n_layers)
    return FALSE;
  for (guint32 i = 0; i < n_layers; i++) {
    total_s += layer_s[i];
    longest_s = fmax (longest_s, layer_s[i]);
  }
  low_s = fmax (total_s / n_stages, fmax (longest_s, head_s + layer_s[n_layers - 1]));
  low_s = fmax (low_s, embedding_s + layer_s[0]) * (1 - 1e-12);
  /* with one layer more than the bound in each stage everything finds a place */
  high_s = low_s + longest_s;
  while (!fits (layer_s, n_layers, embedding_s, head_s, n_stages, high_s))
    high_s += longest_s;
  for (guint i = 0; i < HALVINGS; i++) {
    double middle_s = 0.5 * (low_s + high_s);

    if (fits (layer_s, n_layers, embedding_s, head_s, n_stages, middle_s))
      high_s = middle_s;
    else
      low_s = middle_s;
  }
  cut (layer_s, n_layers, embedding_s, head_s, n_stages, high_s, total_s, out);
  return TRUE;
}
