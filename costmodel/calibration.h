/* costmodel/calibration.h - every number the cost model rests on, with spread and source.
 *
 * A calibration is an INI file of groups:
 *   [calibration]      name=, source=
 *   [gpu NAME]         NAME is a generation ("hopper") or a GPU slug; the slug wins key by key
 *   [link CLASS]       TopoLinkClass word ("nvlink4", "pcie5-sys"), or "default"
 *   [fabric WORD]      TopoFabric word ("ib"), or "default"
 *   [profile NAME]     the fitted numbers of a profile, or "default"
 *   [step]             constants of the step, [memory] constants of memory and risk,
 *   [uncertainty]      spreads of predictions
 * A value is "0.907 +- 5%": the number and its relative standard deviation (log scale). Each group
 * says where it comes from in source=. Values resolve most specific first; what is resolved by a
 * "default" or a foreign generation is reported as assumed and widens the interval.
 */
#pragma once
#include "base/catalog.h"
#include "costmodel/error.h"
#include "model/profile.h"
#include "topo/cluster.h"
#include <glib.h>
G_BEGIN_DECLS

/* Dense GEMM, see gemm.h for the formula. */
typedef struct {
  double launch_s;
  double ceiling_ratio[3]; /* of the dense peak: 16-bit, fp8, fp4 */
  double memory_ratio;     /* of HBM bandwidth */
  double k0;               /* prologue + epilogue, in units of K */
  double wave_ratio;       /* 1: whole waves are paid for, 0: persistent kernels */
  double power;            /* exponent of the soft maximum */
  double feed_ratio;       /* bytes one SM takes in per FLOP of its peak */
  double split_s;          /* cost of a split-K reduction */
  double long_loss;        /* ceiling lost per doubling of time beyond 10 us */
  double step_ratio;       /* rate inside a training step over the rate alone (power, clocks) */
} CostGemm;

typedef struct {
  CostGemm gemm;
  double attention_ratio[3]; /* of the 16-bit peak at head size 128, forward: flash, fused, unfused softmax's HBM share */
  double attention_backward_ratio; /* rate of flash backward over forward */
  double attention_half_dim; /* head size at which half of the asymptote is reached */
  double hbm_ratio;          /* memory-bound kernels */
} CostGpuNumbers;

typedef struct {
  double base_s, hop_s, bandwidth_ratio;
} CostLinkNumbers;

typedef struct {
  double hop_s, bandwidth_ratio;
  double straggler_ratio; /* step time lost per doubling of GPUs beyond 8 */
} CostFabricNumbers;

typedef struct {
  double memory_factor;     /* of memory-bound ops */
  double host_layer_s;      /* CPU time to launch one layer's forward and backward */
  double overlap_tp_ratio, overlap_dp_ratio; /* share hidden where the layout's flag is set */
  double reserved_ratio;    /* reserved over allocated */
  double need_ratio;        /* need over allocated, in the OOM risk */
} CostProfileNumbers;

typedef struct {
  double fixed_s;               /* per step: data, logging, clipping */
  double p2p_host_s;            /* per pipeline message */
  double bubble_ratio, head_ratio, imbalance_ratio; /* fitted corrections, 1: none */
  double collective_delta, alltoall_steps, nvls_latency_s;
  double unoverlapped_tp_ratio; /* share of tp communication hidden even without overlap_tp */
} CostStepNumbers;

typedef struct {
  double context_bytes_default;
  double allocated_extra_bytes;  /* libraries' own allocations through the pool */
  double communicator_bytes;
  double cublas_workspace_bytes; /* by generation in [gpu …] where known */
  double imbalance_ratio;        /* hottest expert rank over the mean, real routing */
  double sigma_dense, sigma_moe, sigma_assumed; /* log sd of need */
} CostMemoryNumbers;

typedef struct {
  double sigma_dense, sigma_moe, sigma_untuned, sigma_assumed, sigma_scale;
  double z10, z90;
} CostUncertaintyNumbers;

typedef struct _CostCalibration CostCalibration;

/* "default" or another slug of the catalog, or a file. */
CostCalibration *cost_calibration_load (const BaseCatalog *catalog, const char *name, GError **error);
CostCalibration *cost_calibration_from_ini (BaseIni *ini, const char *name, GError **error);
void cost_calibration_free (CostCalibration *calibration);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (CostCalibration, cost_calibration_free)
const char *cost_calibration_name (const CostCalibration *calibration);
char *cost_calibration_hash (const CostCalibration *calibration); /* (owned) of all values */

/* All of a calibration that one machine and profile need, resolved. Plain value but @assumed. */
typedef struct {
  CostGpuNumbers gpu;
  CostLinkNumbers links[TOPO_LINK_CLASS_N_KINDS];
  CostFabricNumbers fabric; /* the machine's */
  CostProfileNumbers profile;
  CostStepNumbers step;
  CostMemoryNumbers memory;
  CostUncertaintyNumbers uncertainty;
  double nvls_share;        /* of link bandwidth with NVLS, 0: the generation has none */
  GPtrArray *assumed;       /* (owned) char *: "gpu=b300: numbers of generation blackwell", … */
} CostNumbers;

/* Fails only if the calibration lacks what it cannot do without. */
gboolean cost_numbers_init (CostNumbers *numbers, const CostCalibration *calibration,
                            const TopoMachine *machine, const char *profile, GError **error);
void cost_numbers_clear (CostNumbers *numbers);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (CostNumbers, cost_numbers_clear)
G_END_DECLS
