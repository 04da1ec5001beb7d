/* costmodel/context.c - makes ready what pricing an op needs: peaks, GEMM contexts, groups. */
#include "costmodel/opcost.h"

#include <string.h>

#define BLOCK_SCALE_COMPUTE_CAPABILITY 10.0 /* Blackwell: mxfp8 and nvfp4 in hardware */

static double
first_positive (double a, double b, double c)
{
  return a > 0 ? a : b > 0 ? b : c;
}

static gboolean
has_block_scales (const TopoGpu *gpu)
{
  return gpu->compute_capability != NULL
         && g_ascii_strtod (gpu->compute_capability, NULL) >= BLOCK_SCALE_COMPUTE_CAPABILITY;
}

static void
set_peaks (CostContext *context, const TopoGpu *gpu)
{
  const double *peak = gpu->peak_flop_per_s;
  double half = MAX (peak[TOPO_DTYPE_BF16], peak[TOPO_DTYPE_FP16]);
  double *out = context->peak_flop_per_s;
  out[MODEL_DTYPE_BF16] = peak[TOPO_DTYPE_BF16];
  out[MODEL_DTYPE_FP16] = peak[TOPO_DTYPE_FP16];
  out[MODEL_DTYPE_FP8] = peak[TOPO_DTYPE_FP8];
  out[MODEL_DTYPE_MXFP8] = has_block_scales (gpu) ? peak[TOPO_DTYPE_FP8] : 0;
  out[MODEL_DTYPE_NVFP4] = peak[TOPO_DTYPE_FP4];
  out[MODEL_DTYPE_FP32] = first_positive (peak[TOPO_DTYPE_FP32], peak[TOPO_DTYPE_TF32], half);
}

static CostPrecision
precision_of (ModelDtype dtype)
{
  switch (dtype) {
  case MODEL_DTYPE_FP8:
  case MODEL_DTYPE_MXFP8:
    return COST_PRECISION_FP8;
  case MODEL_DTYPE_NVFP4:
    return COST_PRECISION_FP4;
  default:
    return COST_PRECISION_16BIT;
  }
}

static void
set_gemm (CostContext *context, const TopoGpu *gpu)
{
  const CostGemm *numbers = &context->numbers->gpu.gemm;
  double half = MAX (gpu->peak_flop_per_s[TOPO_DTYPE_BF16], gpu->peak_flop_per_s[TOPO_DTYPE_FP16]);
  if (!(half > 0)) /* a CPU: its vector units are fed for fp32 */
    half = gpu->peak_flop_per_s[TOPO_DTYPE_FP32];
  guint32 sm_count = MAX (gpu->sm_count, 1);
  for (guint i = 0; i < MODEL_DTYPE_N_KINDS; i++) {
    double scale = i == MODEL_DTYPE_MXFP8 ? numbers->mxfp8_ratio : 1;
    context->gemm[i] = (CostGemmContext){
      .peak_flop_per_s = context->peak_flop_per_s[i] * scale,
      .hbm_bytes_per_s = gpu->hbm_bytes_per_s,
      .feed_bytes_per_s = numbers->feed_ratio * half / sm_count,
      .sm_count = sm_count,
      .numbers = numbers,
      .precision = precision_of (i),
      .in_bytes = model_dtype_bits (i) / 8.0,
      .out_bytes = model_dtype_bits (model_dtype_storage (i)) / 8.0,
      .slowdown = 1,
    };
  }
}

/* The embedding's pair is first and last stage: the two ranks are a pair, not a group. */
static void
set_group (CostContext *context, const ModelRankMap *map, ModelGroupKind kind)
{
  const ModelGroup *group = &map->groups[kind];
  TopoGroupShape *shape = &context->shapes[kind];
  if (kind == MODEL_GROUP_EMBEDDING && group->size == 2)
    topo_pair_shape (context->machine, map->world, group->stride, shape);
  else
    topo_group_shape (context->machine, map->world, group->stride, group->size, shape);
  cost_group_init (&context->groups[kind], context->numbers, shape);
}

void
cost_context_init_groups (CostContext *context, const TopoMachine *machine,
                          const ModelProfile *profile, const CostNumbers *numbers,
                          const ModelRankMap *map, guint32 group_bits)
{
  /* groups are large, and of those of one rank nothing else is ever looked at */
  memset (context, 0, offsetof (CostContext, groups));
  context->machine = machine;
  context->profile = profile;
  context->numbers = numbers;
  context->hbm_bytes_per_s = machine->gpu->hbm_bytes_per_s;
  set_peaks (context, machine->gpu);
  set_gemm (context, machine->gpu);
  for (guint kind = 0; kind < MODEL_GROUP_N_KINDS; kind++) {
    context->groups[kind].ranks = 1;
    context->shapes[kind] = (TopoGroupShape){ .ranks = 1 };
    if (group_bits & (1u << kind) && map->groups[kind].size > 1)
      set_group (context, map, kind);
  }
}

void
cost_context_init (CostContext *context, const TopoMachine *machine, const ModelProfile *profile,
                   const CostNumbers *numbers, const ModelRankMap *map)
{
  cost_context_init_groups (context, machine, profile, numbers, map, COST_ALL_GROUPS);
}

void
cost_context_copy (CostContext *context, const CostContext *from)
{
  memcpy (context, from, offsetof (CostContext, groups));
  memcpy (context->shapes, from->shapes, sizeof from->shapes);
  for (guint kind = 0; kind < MODEL_GROUP_N_KINDS; kind++)
    if (from->groups[kind].ranks > 1)
      context->groups[kind] = from->groups[kind];
    else
      context->groups[kind].ranks = from->groups[kind].ranks;
}

gboolean
cost_context_check_dtype (const CostContext *context, ModelDtype dtype, GError **error)
{
  const TopoGpu *gpu = context->machine->gpu;
  gboolean known = dtype == MODEL_DTYPE_FP32 ? gpu->peak_flop_per_s[TOPO_DTYPE_FP32] > 0
                                             : context->peak_flop_per_s[dtype] > 0;
  if (known)
    return TRUE;
  g_autoptr (GString) has = g_string_new (NULL);
  for (guint i = 0; i < MODEL_DTYPE_UINT8; i++)
    if (i == MODEL_DTYPE_FP32 ? gpu->peak_flop_per_s[TOPO_DTYPE_FP32] > 0
                              : context->peak_flop_per_s[i] > 0)
      g_string_append_printf (has, "%s%s", has->len > 0 ? ", " : "", model_dtype_name (i));
  g_set_error (error, COST_ERROR, COST_ERROR_NO_DATA,
               "GPU '%s' has no known peak for dtype=%s: use one of %s", gpu->slug,
               model_dtype_name (dtype), has->str);
  return FALSE;
}
