/* sim/pipeline.c - the stage maps of one pipeline shape. */
#include "sim/space.h"

static guint32
n_stages_of (const SimPipeline *pipeline)
{
  return (guint32)model_schedule_n_stages (pipeline->schedule, pipeline->pp, pipeline->vpp);
}

void
sim_pipeline_map (SimPipeline *pipeline, const ModelArch *arch, const CostBlockKinds *kinds)
{
  cost_stage_map_init (&pipeline->map, arch, kinds, pipeline->pp, pipeline->vpp, pipeline->schedule,
                       pipeline->stage_layers);
}

void
sim_pipeline_map_partial (SimPipeline *pipeline, const ModelArch *arch, const CostBlockKinds *kinds,
                          guint32 layers)
{
  guint32 longest = 0;

  if (pipeline->partial != NULL)
    return;
  for (guint32 i = 0; i < n_stages_of (pipeline); i++)
    longest = MAX (longest, pipeline->stage_layers[i]);
  pipeline->first_partial = MAX (layers, 1);
  pipeline->n_partial = layers > 0 ? 1 : longest - 1;
  pipeline->partial = g_new0 (CostStageMap, MAX (pipeline->n_partial, 1));
  for (guint32 i = 0; i < pipeline->n_partial; i++)
    cost_stage_map_init_recompute (&pipeline->partial[i], arch, kinds, pipeline->pp, pipeline->vpp,
                                   pipeline->schedule, pipeline->stage_layers,
                                   pipeline->first_partial + i);
}

void
sim_pipeline_clear (SimPipeline *pipeline)
{
  cost_stage_map_clear (&pipeline->map);
  for (guint32 i = 0; pipeline->partial != NULL && i < pipeline->n_partial; i++)
    cost_stage_map_clear (&pipeline->partial[i]);
  g_clear_pointer (&pipeline->partial, g_free);
  g_clear_pointer (&pipeline->stage_layers, g_free);
}
