/* sim/case.c - the way from a layout to what a play rests on, as cost_predict goes it. */
#include "sim/tape.h"

#include "model/error.h"
#include "model/stages.h"

#include <string.h>

static gboolean
init_map (SimCase *c, GError **error)
{
  const ModelArch *arch = c->problem->arch;
  gsize n_stages = (gsize)model_layout_n_stages (&c->layout);
  g_autofree guint32 *layers = g_new0 (guint32, MAX (n_stages, 1));

  if (n_stages > arch->layers
      || !model_stages_layers (arch, &c->layout, c->problem->profile, layers)) {
    g_set_error (error, MODEL_ERROR, MODEL_ERROR_ILLEGAL,
                 "stages of pp=%u vpp=%u do not sum to the %u layers of '%s', or one is empty",
                 c->layout.pp, c->layout.vpp, arch->layers, arch->name);
    return FALSE;
  }
  cost_stage_map_init_recompute (&c->map, arch, &c->kinds, c->layout.pp, c->layout.vpp,
                                 c->layout.schedule, layers,
                                 cost_stage_map_recompute_layers (&c->layout));
  return TRUE;
}

gboolean
sim_case_init (SimCase *out, const CostProblem *problem, const ModelLayout *layout, GError **error)
{
  g_auto (SimCase) c = { .problem = problem, .tmpl = g_new0 (CostTemplate, 1) };

  model_layout_copy (&c.layout, layout);
  c.microbatches = model_layout_microbatches (layout, problem->job);
  if (!cost_block_kinds_init (&c.kinds, problem->arch, error) || !init_map (&c, error)
      || !cost_template_init (c.tmpl, problem->arch, &c.kinds, problem->job, layout,
                              problem->profile, problem->machine, problem->numbers, problem->gpus,
                              error))
    return FALSE;
  cost_placement_init (&c.placement, problem, layout, c.tmpl);
  cost_messages_init (&c.messages, problem, layout, &c.placement);
  *out = c;
  memset (&c, 0, sizeof c);
  return TRUE;
}

void
sim_case_clear (SimCase *c)
{
  if (c == NULL)
    return;
  model_layout_clear (&c->layout);
  cost_stage_map_clear (&c->map);
  g_free (c->tmpl);
  memset (c, 0, sizeof *c);
}

const CostGroup *
sim_case_group (const SimCase *c, ModelGroupKind traffic, const TopoGroupShape **out_shape)
{
  const CostPlacement *at = &c->placement;

  switch (traffic) {
  case MODEL_GROUP_DP:
  case MODEL_GROUP_DPCP:
  case MODEL_GROUP_HSDP_SHARD:
  case MODEL_GROUP_HSDP_REPLICATE:
    *out_shape = &at->dp_shape;
    return &at->dp;
  case MODEL_GROUP_EDP:
  case MODEL_GROUP_EDP_SHARD:
  case MODEL_GROUP_EDP_REPLICATE:
    *out_shape = &at->edp_shape;
    return &at->edp;
  case MODEL_GROUP_EMBEDDING:
    *out_shape = &at->pair_shape;
    return &at->embedding;
  default:
    *out_shape = &c->tmpl->context.shapes[traffic];
    return &c->tmpl->context.groups[traffic];
  }
}
