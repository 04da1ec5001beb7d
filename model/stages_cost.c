/* model/stages_cost.c - stages cut by the cost of their blocks, as nanotron does. */
#include "model/stages.h"

/* nanotron's cost of a block: 4h² for attention (grouped heads are not counted) and three MLP
 * matrices of the width a token meets. */
static double
block_cost (const ModelArch *arch, const ModelBlockRun *run)
{
  double h = (double)arch->hidden;
  double f = run->ffn;
  if (run->kind == MODEL_BLOCK_MOE)
    f = (double)run->moe.topk * run->moe.expert_ffn + run->moe.shared_ffn;
  return 4 * h * h + 3 * f * h;
}

/* Gives every empty stage one layer of the fullest: the rule alone may leave some. The last has the
 * head and may do without. */
static void
fill_empty (guint32 *layers, guint32 n_stages)
{
  for (guint32 stage = 0; stage + 1 < n_stages; stage++)
    while (layers[stage] == 0) {
      guint32 fullest = 0;
      for (guint32 i = 1; i < n_stages; i++)
        fullest = layers[i] > layers[fullest] ? i : fullest;
      layers[fullest]--;
      layers[stage]++;
    }
}

gboolean
model_stages_by_cost (const ModelArch *arch, guint32 n_stages, guint32 *out)
{
  double total = (double)arch->vocab * (double)arch->hidden; /* the head */
  double sum = 0;
  guint32 stage = 0;
  if (n_stages == 0 || n_stages > arch->layers)
    return FALSE;
  for (guint i = 0; i < arch->n_runs; i++)
    total += arch->runs[i].count * block_cost (arch, &arch->runs[i]);
  for (guint32 i = 0; i < n_stages; i++)
    out[i] = 0;
  for (guint i = 0; i < arch->n_runs; i++)
    for (guint32 layer = 0; layer < arch->runs[i].count; layer++) {
      sum += block_cost (arch, &arch->runs[i]);
      out[stage]++;
      if (sum > total * (stage + 1) / n_stages && stage + 1 < n_stages)
        stage++;
    }
  fill_empty (out, n_stages);
  return TRUE;
}
