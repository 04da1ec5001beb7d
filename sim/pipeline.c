/* sim/pipeline.c - the stage maps of one pipeline shape. */
#include "sim/space.h"

static void
add_partial (SimPipeline *pipeline, const ModelArch *arch, const CostBlockKinds *kinds,
             guint32 layers)
{
  guint i = pipeline->n_partial++;

  pipeline->partial_layers[i] = layers;
  cost_stage_map_init_recompute (&pipeline->partial[i], arch, kinds, pipeline->pp, pipeline->vpp,
                                 pipeline->schedule, pipeline->stage_layers, layers);
}

void
sim_pipeline_map (SimPipeline *pipeline, const ModelArch *arch, const CostBlockKinds *kinds,
                  gboolean partial, guint32 layers)
{
  guint32 deepest = 0;
  guint32 last = 0;

  cost_stage_map_init (&pipeline->map, arch, kinds, pipeline->pp, pipeline->vpp, pipeline->schedule,
                       pipeline->stage_layers);
  if (layers > 0)
    add_partial (pipeline, arch, kinds, layers);
  if (!partial || layers > 0)
    return;
  for (guint64 i = 0; i < model_schedule_n_stages (pipeline->schedule, pipeline->pp, pipeline->vpp);
       i++)
    deepest = MAX (deepest, pipeline->stage_layers[i]);
  for (guint32 quarter = 1; quarter <= SIM_MAX_PARTIAL; quarter++) {
    guint32 n = deepest * quarter / 4;

    if (n > last)
      add_partial (pipeline, arch, kinds, n);
    last = n;
  }
}

void
sim_pipeline_clear (SimPipeline *pipeline)
{
  cost_stage_map_clear (&pipeline->map);
  for (guint i = 0; i < pipeline->n_partial; i++)
    cost_stage_map_clear (&pipeline->partial[i]);
  g_clear_pointer (&pipeline->stage_layers, g_free);
}
