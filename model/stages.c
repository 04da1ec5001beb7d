/* model/stages.c - layers of each virtual stage. */
#include "model/stages.h"

/*
 * How many stages get an extra layer before stage @at does: stages are served by distance from
 * the middle, the earlier of two equally far ones first. Distances are doubled to stay whole.
 */
static guint32
order_from_middle (guint32 n_stages, guint32 at)
{
  guint64 twice = 2 * (guint64)at, middle = (guint64)n_stages - 1;
  return twice < middle ? (guint32)(middle - twice - 1) : (guint32)(twice - middle);
}

guint32
model_stages_balanced_at (guint32 layers, guint32 n_stages, guint32 stage)
{
  if (layers % n_stages == 0)
    return layers / n_stages;
  gboolean at_end = stage == 0 || stage == n_stages - 1;
  guint64 items = (guint64)layers + 2; /* embedding and head count as a layer each */
  if (items < 2 * (guint64)n_stages) {
    /* An even share would leave the ends without a layer: they get one each. */
    guint32 inner = n_stages - 2;
    if (at_end)
      return 1;
    return (layers - 2) / inner + (order_from_middle (inner, stage - 1) < (layers - 2) % inner);
  }
  guint32 extra = order_from_middle (n_stages, stage) < items % n_stages;
  return (guint32)(items / n_stages) + extra - at_end;
}

gboolean
model_stages_balance (guint32 layers, guint32 n_stages, guint32 *out)
{
  if (n_stages == 0 || layers < n_stages)
    return FALSE;
  for (guint32 i = 0; i < n_stages; i++)
    out[i] = model_stages_balanced_at (layers, n_stages, i);
  return TRUE;
}

gboolean
model_stages_layers (const ModelArch *arch, const ModelLayout *layout, const ModelProfile *profile,
                     guint32 *out)
{
  guint64 n_stages = model_layout_n_stages (layout), sum = 0;
  if (n_stages > arch->layers)
    return FALSE;
  if (layout->stage_layers == NULL)
    return model_stages_balance (arch->layers, (guint32)n_stages, out);
  for (guint64 i = 0; i < n_stages; i++) {
    if (layout->stage_layers[i] == 0 && !model_stages_is_bare_head (profile, layout, i))
      return FALSE;
    sum += layout->stage_layers[i];
  }
  if (sum != arch->layers)
    return FALSE;
  for (guint64 i = 0; i < n_stages; i++)
    out[i] = layout->stage_layers[i];
  return TRUE;
}
