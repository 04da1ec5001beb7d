/* costmodel/attention.c - see attention.h. */
#include "costmodel/attention.h"

#include "costmodel/align.h"
#include "model/layout.h"

#include <math.h>

/* Head size that attention_ratio speaks of. */
#define REFERENCE_HEAD_DIM 128.0
/* A kernel that rebuilds the scores has 5 products backward for 2 forward; one that kept them 4. */
#define FLASH_BACKWARD   2.5
#define UNFUSED_BACKWARD 2.0

/* FLOPs with what a kernel computes and then masks: tiles on the diagonal are computed whole. */
static double
tiled_flop (const CostGpuNumbers *gpu, const ModelAttentionShape *shape)
{
  double flop = model_attention_flop (shape);
  double tile = fmin (gpu->attention_tile, (double)shape->seq_kv);
  if (!shape->causal || tile <= 1)
    return flop;
  double masked = (double)shape->seq_q * (tile - 1) / 2;
  return flop + 2.0 * shape->batch * shape->heads * masked * ((double)shape->dim_qk + shape->dim_v);
}

static double
flash_s (const CostAttentionContext *context, const ModelAttentionShape *shape, gboolean backward)
{
  const CostGpuNumbers *gpu = &context->numbers->gpu;
  double dim = ((double)shape->dim_qk + shape->dim_v) / 2;
  double half = gpu->attention_half_dim;
  double by_size = dim / (dim + half) * (REFERENCE_HEAD_DIM + half) / REFERENCE_HEAD_DIM;
  double portable
      = pow (gpu->attention_portable_ratio, context->numbers->profile.attention_portable_ratio);
  double rate = context->peak_flop_per_s * gpu->attention_ratio[shape->kernel] * portable * by_size;
  double flop = tiled_flop (gpu, shape);
  if (!backward)
    return flop / rate;
  /* backward kernels hold tiles of the larger head size for q·k and v alike */
  double padded = MAX (shape->dim_qk, shape->dim_v) / dim;
  return FLASH_BACKWARD * flop * padded / (rate * gpu->attention_backward_ratio);
}

static double
unfused_s (const CostAttentionContext *context, const ModelAttentionShape *shape, gboolean backward)
{
  const CostGpuNumbers *gpu = &context->numbers->gpu;
  const CostStepNumbers *step = &context->numbers->step;
  double scores = (double)shape->batch * shape->heads * shape->seq_q * shape->seq_kv;
  double flop = 2 * scores * ((double)shape->dim_qk + shape->dim_v);
  double rate = context->peak_flop_per_s * gpu->attention_ratio[MODEL_ATTN_UNFUSED];
  double slowdown = cost_align_slowdown (step, MIN (shape->dim_qk, shape->dim_v), shape->seq_kv);
  double bytes = scores * (backward ? step->score_backward_bytes : step->score_forward_bytes);
  return (backward ? UNFUSED_BACKWARD : 1) * flop / rate * slowdown
         + bytes / (context->hbm_bytes_per_s * gpu->hbm_ratio);
}

/*
 * Kernels of the first releases had no sinks of their own: a part of an unfused pass over the whole
 * square is added (fitted in time-model, "oss": .31, on gpt-oss, whose half of the layers also have
 * a sliding window).
 */
static double
sinks_s (const CostAttentionContext *context, const ModelAttentionShape *shape, gboolean backward)
{
  return context->numbers->step.sink_ratio * unfused_s (context, shape, backward);
}

double
cost_attention_s (const CostAttentionContext *context, const ModelAttentionShape *shape,
                  gboolean backward)
{
  if (!(context->peak_flop_per_s > 0))
    return INFINITY;
  double launch_s = context->numbers->gpu.gemm.launch_s;
  if (shape->kernel == MODEL_ATTN_UNFUSED)
    return launch_s + unfused_s (context, shape, backward);
  return launch_s + flash_s (context, shape, backward)
         + (shape->sinks ? sinks_s (context, shape, backward) : 0);
}
