/* costmodel/needsigma.c - how far a predicted need may be off. */
#include "costmodel/evaluate-private.h"
#include <math.h>

/* Things that none of the published peaks has: schedules beyond 1F1B and interleaved, HSDP, FSDP
 * under a pipeline, 8 and 4 bits, a framework without numbers. */
static guint
count_unseen (const CostProblem *problem, const ModelLayout *layout)
{
  gboolean low = layout->dtype == MODEL_DTYPE_FP8 || layout->dtype == MODEL_DTYPE_MXFP8
                 || layout->dtype == MODEL_DTYPE_NVFP4;
  return model_schedule_is_listed (layout->schedule) + (layout->hsdp > 0)
         + (layout->zero >= 2 && layout->pp > 1) + low + !problem->numbers->profile_measured;
}

double
cost_need_sigma (const CostProblem *problem, const ModelLayout *layout, const CostTemplate *tmpl)
{
  const CostMemoryNumbers *memory = &problem->numbers->memory;
  double base = problem->numbers->profile.sigma_need;
  double moe = tmpl->is_moe ? memory->sigma_moe : 0;
  double assumed = problem->is_layout_assumed ? memory->sigma_assumed : 0;
  double unseen = count_unseen (problem, layout) * memory->sigma_unseen * memory->sigma_unseen;
  return sqrt (base * base + moe * moe + assumed * assumed + unseen);
}
