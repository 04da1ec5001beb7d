/* costmodel/calibration_schema.c - the keys of every group of a calibration, with their ranges.
 *
 * Ranges are physical, not tuning: a ratio of a peak that no kernel can exceed by much, a latency
 * below a second. They are there to catch a value in the wrong unit.
 */
#include "costmodel/calibration-private.h"

#include <math.h>
#include <stddef.h>

#define RATIO(name, type, field, min, max)                                                         \
  {                                                                                                \
    name, BASE_DIM_RATIO, offsetof (type, field), min, max, NAN                                    \
  }
/* What nobody has to give: @neutral changes nothing. */
#define OPTIONAL(name, type, field, min, max, neutral)                                             \
  {                                                                                                \
    name, BASE_DIM_RATIO, offsetof (type, field), min, max, neutral                                \
  }
#define FACTOR(name, type, field, min, max) OPTIONAL (name, type, field, min, max, 1)
#define COUNT(name, type, field, min, max)                                                         \
  {                                                                                                \
    name, BASE_DIM_COUNT, offsetof (type, field), min, max, NAN                                    \
  }
#define TIME(name, type, field, max)                                                               \
  {                                                                                                \
    name, BASE_DIM_SECONDS, offsetof (type, field), 0, max, NAN                                    \
  }
#define BYTES(name, type, field, max)                                                              \
  {                                                                                                \
    name, BASE_DIM_BYTES, offsetof (type, field), 0, max, NAN                                      \
  }

static const CostKey gpu_keys[] = {
  TIME ("launch", CostGpuNumbers, gemm.launch_s, 1e-3),
  RATIO ("ceiling_16bit", CostGpuNumbers, gemm.ceiling_ratio[COST_PRECISION_16BIT], 0.01, 1.2),
  RATIO ("ceiling_fp8", CostGpuNumbers, gemm.ceiling_ratio[COST_PRECISION_FP8], 0.01, 1.2),
  RATIO ("ceiling_fp4", CostGpuNumbers, gemm.ceiling_ratio[COST_PRECISION_FP4], 0.01, 1.2),
  RATIO ("mxfp8", CostGpuNumbers, gemm.mxfp8_ratio, 0.1, 1.5),
  RATIO ("gemm_memory", CostGpuNumbers, gemm.memory_ratio, 0.01, 1.2),
  COUNT ("k0", CostGpuNumbers, gemm.k0, 0, 1e5),
  RATIO ("wave", CostGpuNumbers, gemm.wave_ratio, 0, 1),
  RATIO ("padding", CostGpuNumbers, gemm.padding_ratio, 0, 1),
  COUNT ("power", CostGpuNumbers, gemm.power, 1, 100),
  RATIO ("feed", CostGpuNumbers, gemm.feed_ratio, 1e-4, 10),
  TIME ("split", CostGpuNumbers, gemm.split_s, 1e-3),
  RATIO ("long_loss", CostGpuNumbers, gemm.long_loss, 0, 0.5),
  RATIO ("step", CostGpuNumbers, gemm.step_ratio, 0.05, 1.5),
  RATIO ("accumulate", CostGpuNumbers, gemm.accumulate_ratio, 0, 1.5),
  RATIO ("warm_l2", CostGpuNumbers, gemm.warm_l2_ratio, 0, 2),
  RATIO ("attention_flash", CostGpuNumbers, attention_ratio[0], 0.001, 1.2),
  RATIO ("attention_fused", CostGpuNumbers, attention_ratio[1], 0.001, 1.2),
  RATIO ("attention_unfused", CostGpuNumbers, attention_ratio[2], 0.001, 1.2),
  RATIO ("attention_portable", CostGpuNumbers, attention_portable_ratio, 0.01, 2),
  RATIO ("attention_backward", CostGpuNumbers, attention_backward_ratio, 0.05, 5),
  COUNT ("attention_half_dim", CostGpuNumbers, attention_half_dim, 0, 1024),
  { "attention_tile", BASE_DIM_COUNT, offsetof (CostGpuNumbers, attention_tile), 0, 4096, 0 },
  RATIO ("hbm", CostGpuNumbers, hbm_ratio, 0.01, 1.2),
  RATIO ("nvls_share", CostGpuNumbers, nvls_share, 0, 2),
  RATIO ("power_exponent", CostGpuNumbers, power_exponent, 0, 3),
  BYTES ("cublas_workspace", CostGpuNumbers, cublas_workspace_bytes, 1e11),
  FACTOR ("embed", CostGpuNumbers, kernel_factor[MODEL_OP_EMBED], 1e-3, 1e3),
  FACTOR ("norm", CostGpuNumbers, kernel_factor[MODEL_OP_NORM], 1e-3, 1e3),
  FACTOR ("rope", CostGpuNumbers, kernel_factor[MODEL_OP_ROPE], 1e-3, 1e3),
  FACTOR ("act_mul", CostGpuNumbers, kernel_factor[MODEL_OP_ACT_MUL], 1e-3, 1e3),
  FACTOR ("add", CostGpuNumbers, kernel_factor[MODEL_OP_ADD], 1e-3, 1e3),
  FACTOR ("cross_entropy", CostGpuNumbers, kernel_factor[MODEL_OP_CROSS_ENTROPY], 1e-3, 1e3),
  FACTOR ("adam", CostGpuNumbers, kernel_factor[MODEL_OP_ADAM], 1e-3, 1e3),
  FACTOR ("embed_backward", CostGpuNumbers, kernel_backward[MODEL_OP_EMBED], 1e-3, 1e3),
  FACTOR ("norm_backward", CostGpuNumbers, kernel_backward[MODEL_OP_NORM], 1e-3, 1e3),
  FACTOR ("rope_backward", CostGpuNumbers, kernel_backward[MODEL_OP_ROPE], 1e-3, 1e3),
  FACTOR ("act_mul_backward", CostGpuNumbers, kernel_backward[MODEL_OP_ACT_MUL], 1e-3, 1e3),
  FACTOR ("cross_entropy_backward", CostGpuNumbers, kernel_backward[MODEL_OP_CROSS_ENTROPY], 1e-3,
          1e3),
};

/* A collective's ratio at the sizes of collective.c. */
#define SIZES(word, i)                                                                             \
  FACTOR (word "_16k", CostLinkNumbers, size_ratio[i][0], 0.01, 100),                              \
      FACTOR (word "_512k", CostLinkNumbers, size_ratio[i][1], 0.01, 100),                         \
      FACTOR (word "_16m", CostLinkNumbers, size_ratio[i][2], 0.01, 100),                          \
      FACTOR (word "_256m", CostLinkNumbers, size_ratio[i][3], 0.01, 100)

static const CostKey link_keys[] = {
  TIME ("base", CostLinkNumbers, base_s, 1),
  TIME ("hop", CostLinkNumbers, hop_s, 1),
  RATIO ("bandwidth", CostLinkNumbers, bandwidth_ratio, 0.001, 1.2),
  BYTES ("bulk_shard", CostLinkNumbers, bulk_shard_bytes, 1e12),
  RATIO ("alltoall_copy", CostLinkNumbers, alltoall_copy, 0, 10),
  SIZES ("all_reduce", 0),
  SIZES ("all_gather", 1),
  SIZES ("reduce_scatter", 2),
};

static const CostKey fabric_keys[] = {
  TIME ("hop", CostFabricNumbers, hop_s, 1),
  COUNT ("step_hop", CostFabricNumbers, step_hop_ratio, 0.1, 100),
  RATIO ("bandwidth", CostFabricNumbers, bandwidth_ratio, 0.001, 1.2),
  RATIO ("straggler", CostFabricNumbers, straggler_ratio, 0, 1),
};

static const CostKey profile_keys[] = {
  RATIO ("memory_factor", CostProfileNumbers, memory_factor, 0.1, 20),
  TIME ("host_layer", CostProfileNumbers, host_layer_s, 10),
  TIME ("p2p_host", CostProfileNumbers, p2p_host_s, 1),
  RATIO ("overlap_tp", CostProfileNumbers, overlap_tp_ratio, 0, 1),
  RATIO ("overlap_wgrad", CostProfileNumbers, overlap_wgrad_ratio, 0, 1),
  RATIO ("overlap_dp", CostProfileNumbers, overlap_dp_ratio, 0, 1),
  RATIO ("overlap_ep", CostProfileNumbers, overlap_ep_ratio, 0, 1),
  RATIO ("attention_portable", CostProfileNumbers, attention_portable_ratio, 0, 4),
  RATIO ("reserved", CostProfileNumbers, reserved_ratio, 1, 10),
  RATIO ("need", CostProfileNumbers, need_ratio, 0.5, 10),
  RATIO ("need_changing", CostProfileNumbers, need_changing_ratio, 0.5, 10),
  RATIO ("sigma_need", CostProfileNumbers, sigma_need, 1e-4, 3),
  RATIO ("sigma", CostProfileNumbers, sigma, 1e-4, 3),
  FACTOR ("step_corrections", CostProfileNumbers, step_corrections, 0, 1),
  OPTIONAL ("overhead", CostProfileNumbers, overhead_ratio, 0, 1, 0),
};

static const CostKey collective_keys[] = {
  TIME ("bulk_base", CostCollectiveNumbers, bulk_base_s, 1),
  RATIO ("bulk_hop", CostCollectiveNumbers, bulk_hop_ratio, 0.1, 100),
  RATIO ("low_bandwidth", CostCollectiveNumbers, low_bandwidth_ratio, 0.01, 2),
  RATIO ("low_alltoall", CostCollectiveNumbers, low_alltoall_ratio, 0.01, 2),
  BYTES ("alltoall_low", CostCollectiveNumbers, alltoall_low_bytes, 1e12),
  OPTIONAL ("alltoall_uplink", CostCollectiveNumbers, alltoall_uplink_ratio, 0, 1.2, 0),
  RATIO ("alltoall_bandwidth", CostCollectiveNumbers, alltoall_bandwidth_ratio, 0.01, 2),
  RATIO ("low_rise", CostCollectiveNumbers, low_rise_ratio, 0, 20),
  BYTES ("low_rise_shard", CostCollectiveNumbers, low_rise_bytes, 1e12),
  RATIO ("low_fill", CostCollectiveNumbers, low_fill_ratio, 0, 20),
  RATIO ("bulk_fill", CostCollectiveNumbers, bulk_fill_ratio, 0, 20),
  RATIO ("fill", CostCollectiveNumbers, fill_ratio, 0, 20),
  RATIO ("network_ring_fill", CostCollectiveNumbers, network_ring_fill_ratio, 0, 20),
  RATIO ("network_rise", CostCollectiveNumbers, network_rise_ratio, 0, 20),
  BYTES ("network_rise_shard", CostCollectiveNumbers, network_rise_bytes, 1e12),
  RATIO ("broadcast_hops", CostCollectiveNumbers, broadcast_hops, 0, 10),
  BYTES ("broadcast_eager", CostCollectiveNumbers, broadcast_eager_bytes, 1e12),
  RATIO ("old_fill", CostCollectiveNumbers, old_fill_ratio, 0.1, 20),
  RATIO ("pat_hop", CostCollectiveNumbers, pat_hop_ratio, 0, 10),
  TIME ("pat_rank", CostCollectiveNumbers, pat_rank_s, 1),
  RATIO ("pat_bandwidth", CostCollectiveNumbers, pat_bandwidth_ratio, 0.01, 2),
  TIME ("sharp_latency", CostCollectiveNumbers, sharp_latency_s, 1),
  TIME ("torch_loop", CostCollectiveNumbers, torch_loop_s, 1),
  TIME ("one_process", CostCollectiveNumbers, one_process_s, 1),
};

/* Bands of bytes: below 64 KiB, 1 MiB, 64 MiB, and above. */
static const CostKey spread_keys[] = {
  RATIO ("low_64k", CostSpread, low_ratio[0], 0.01, 100),
  RATIO ("high_64k", CostSpread, high_ratio[0], 0.01, 100),
  RATIO ("low_1m", CostSpread, low_ratio[1], 0.01, 100),
  RATIO ("high_1m", CostSpread, high_ratio[1], 0.01, 100),
  RATIO ("low_64m", CostSpread, low_ratio[2], 0.01, 100),
  RATIO ("high_64m", CostSpread, high_ratio[2], 0.01, 100),
  RATIO ("low_large", CostSpread, low_ratio[3], 0.01, 100),
  RATIO ("high_large", CostSpread, high_ratio[3], 0.01, 100),
};

static const CostKey step_keys[] = {
  TIME ("fixed", CostStepNumbers, fixed_s, 60),
  RATIO ("p2p", CostStepNumbers, p2p_ratio, 0, 10),
  RATIO ("p2p_interleaved", CostStepNumbers, p2p_interleaved_ratio, 0, 10),
  RATIO ("bubble", CostStepNumbers, bubble_ratio, 0, 10),
  RATIO ("head", CostStepNumbers, head_ratio, 0.1, 10),
  RATIO ("stage_imbalance", CostStepNumbers, imbalance_ratio, 0, 10),
  RATIO ("collective_delta", CostStepNumbers, collective_delta, 0, 10),
  RATIO ("alltoall_steps", CostStepNumbers, alltoall_steps, 0, 100),
  TIME ("nvls_latency", CostStepNumbers, nvls_latency_s, 1),
  RATIO ("unoverlapped_tp", CostStepNumbers, unoverlapped_tp_ratio, 0, 1),
  RATIO ("grouped", CostStepNumbers, grouped_ratio, 0.1, 10),
  RATIO ("grouped_low", CostStepNumbers, grouped_low_ratio, 0.1, 10),
  RATIO ("align_loss", CostStepNumbers, align_loss, 0, 10),
  RATIO ("misalign_loss", CostStepNumbers, misalign_loss, 0, 1000),
  RATIO ("sinks", CostStepNumbers, sink_ratio, 0, 10),
  BYTES ("score_forward", CostStepNumbers, score_forward_bytes, 1000),
  BYTES ("score_backward", CostStepNumbers, score_backward_bytes, 1000),
  RATIO ("moe_host", CostStepNumbers, moe_host_factor, 0, 100),
  TIME ("expert_host", CostStepNumbers, expert_host_s, 1),
  OPTIONAL ("host_forward", CostStepNumbers, host_forward_share, 0, 1, 1.0 / 3),
  OPTIONAL ("host_wait", CostStepNumbers, host_wait_ratio, 0, 1, 0),
  RATIO ("interference", CostStepNumbers, interference_ratio, 0, 2),
  RATIO ("graph_layer", CostStepNumbers, graph_layer_ratio, 0, 1),
  RATIO ("graph_full", CostStepNumbers, graph_full_ratio, 0, 1),
  TIME ("host_adam", CostStepNumbers, host_adam_s, 1),
};

static const CostKey memory_keys[] = {
  BYTES ("allocated_extra", CostMemoryNumbers, allocated_extra_bytes, 1e11),
  BYTES ("communicator", CostMemoryNumbers, communicator_bytes, 1e11),
  RATIO ("expert_imbalance", CostMemoryNumbers, imbalance_ratio, 1, 100),
  RATIO ("sigma_moe", CostMemoryNumbers, sigma_moe, 0, 3),
  RATIO ("sigma_assumed", CostMemoryNumbers, sigma_assumed, 0, 3),
  RATIO ("sigma_unseen", CostMemoryNumbers, sigma_unseen, 0, 3),
};

static const CostKey uncertainty_keys[] = {
  RATIO ("sigma_moe", CostUncertaintyNumbers, sigma_moe, 1e-4, 3),
  RATIO ("sigma_assumed", CostUncertaintyNumbers, sigma_assumed, 0, 3),
  RATIO ("sigma_scale", CostUncertaintyNumbers, sigma_scale, 0, 3),
  { "sigma_guessed", BASE_DIM_RATIO, offsetof (CostUncertaintyNumbers, sigma_guessed), 0, 3, 0 },
  RATIO ("z10", CostUncertaintyNumbers, z10, 0.1, 10), /* below: becomes negative when resolved */
  RATIO ("z90", CostUncertaintyNumbers, z90, 0.1, 10),
};

#define SECTION(word, named, keys)                                                                 \
  {                                                                                                \
    word, named, keys, G_N_ELEMENTS (keys)                                                         \
  }

const CostSectionSchema cost_sections[COST_SECTION_N_KINDS] = {
  [COST_SECTION_GPU] = SECTION ("gpu", TRUE, gpu_keys),
  [COST_SECTION_LINK] = SECTION ("link", TRUE, link_keys),
  [COST_SECTION_FABRIC] = SECTION ("fabric", TRUE, fabric_keys),
  [COST_SECTION_PROFILE] = SECTION ("profile", TRUE, profile_keys),
  [COST_SECTION_COLLECTIVE] = SECTION ("collective", FALSE, collective_keys),
  [COST_SECTION_SPREAD] = SECTION ("spread", TRUE, spread_keys),
  [COST_SECTION_STEP] = SECTION ("step", FALSE, step_keys),
  [COST_SECTION_MEMORY] = SECTION ("memory", FALSE, memory_keys),
  [COST_SECTION_UNCERTAINTY] = SECTION ("uncertainty", FALSE, uncertainty_keys),
};

G_STATIC_ASSERT (G_N_ELEMENTS (gpu_keys) <= COST_MAX_KEYS);
G_STATIC_ASSERT (G_N_ELEMENTS (step_keys) <= COST_MAX_KEYS);
