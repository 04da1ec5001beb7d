/* costmodel/prediction.c - names and life of a prediction, and the way to one from a layout. */
#include "costmodel/evaluate.h"
#include <string.h>

static const char *const part_names[COST_PART_N_KINDS] = {
  [COST_PART_COMPUTE] = "compute",
  [COST_PART_TP] = "tp",
  [COST_PART_CP] = "cp",
  [COST_PART_EP] = "ep",
  [COST_PART_PP_BUBBLE] = "pp_bubble",
  [COST_PART_P2P] = "p2p",
  [COST_PART_DP] = "dp",
  [COST_PART_OPTIMIZER] = "optimizer",
  [COST_PART_OTHER] = "other",
};

const char *
cost_part_name (CostPart part)
{
  g_return_val_if_fail ((guint)part < COST_PART_N_KINDS, "?");
  return part_names[part];
}

void
cost_prediction_clear (CostPrediction *prediction)
{
  if (prediction == NULL)
    return;
  for (guint i = 0; i < prediction->n_groups; i++)
    g_free (prediction->groups[i].bottleneck);
  g_free (prediction->groups);
  g_free (prediction->stages);
  memset (prediction, 0, sizeof *prediction);
}

static gboolean
map_stages (CostStageMap *map, const CostProblem *problem, const CostBlockKinds *kinds,
            const ModelLayout *layout, GError **error)
{
  gsize n_stages = (gsize)model_layout_n_stages (layout);
  if (n_stages > problem->arch->layers) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_ILLEGAL,
                 "pp=%u vpp=%u makes more stages than the %u layers of '%s'", layout->pp,
                 layout->vpp, problem->arch->layers, problem->arch->name);
    return FALSE;
  }
  g_autofree guint32 *layers = g_new0 (guint32, n_stages);
  if (!model_stages_layers (problem->arch, layout, problem->profile, layers)) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_ILLEGAL,
                 "stages do not sum to the %u layers of '%s', or one is empty",
                 problem->arch->layers, problem->arch->name);
    return FALSE;
  }
  cost_stage_map_init_recompute (map, problem->arch, kinds, layout->pp, layout->vpp,
                                 layout->schedule, layers,
                                 cost_stage_map_recompute_layers (layout));
  return TRUE;
}

gboolean
cost_predict (const CostProblem *problem, const ModelLayout *layout, CostPrediction *out,
              GError **error)
{
  CostBlockKinds kinds;
  CostPlacement placement;
  g_auto (CostStageMap) map = { 0 };
  g_autofree CostTemplate *tmpl = g_new (CostTemplate, 1);
  g_autoptr (CostPipelineScratch) scratch = cost_pipeline_scratch_new ();
  if (!cost_block_kinds_init (&kinds, problem->arch, error)
      || !map_stages (&map, problem, &kinds, layout, error)
      || !cost_template_init (tmpl, problem->arch, &kinds, problem->job, layout, problem->profile,
                              problem->machine, problem->numbers, problem->gpus, error))
    return FALSE;
  cost_placement_init (&placement, problem, layout, tmpl);
  return cost_evaluate (problem, layout, tmpl, &map, &placement, scratch, out, error);
}
