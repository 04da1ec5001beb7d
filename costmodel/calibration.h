/* costmodel/calibration.h - every number the cost model rests on, with spread and source.
 *
 * A calibration is an INI file of groups:
 *   [calibration]      name=, source=
 *   [gpu NAME]         NAME is a GPU slug, a generation ("hopper"), or "default"
 *   [link CLASS]       TopoLinkClass word ("nvlink4", "pcie5-sys"), or "default"
 *   [fabric WORD]      TopoFabric word ("ib"), or "default"
 *   [profile NAME]     the fitted numbers of a profile, or "default"
 *   [collective]       constants of collectives; [spread REGIME] how far off they are
 *   [step]             constants of the step, [memory] constants of memory and risk,
 *   [uncertainty]      spreads of predictions
 * A value is "0.907 +- 5%": the number and its relative standard deviation (log scale); without
 * "+-" the spread is 0: a choice, not a measurement. Each group says where it comes from in
 * source=, and with assumed=yes that nobody measured it. A [gpu GENERATION] group names in gpus=
 * the slugs its numbers were read on. Values resolve key by key, most specific first: GPU slug,
 * generation, default. What a default answered, an assumed group, or another GPU of the generation
 * is reported as assumed and widens the interval. The keys with their ranges are in
 * calibration_schema.c, their meaning at the fields below.
 */
#pragma once
#include "base/catalog.h"
#include "costmodel/error.h"
#include "model/op.h"
#include "model/profile.h"
#include "topo/cluster.h"
#include <glib.h>
G_BEGIN_DECLS

/* Which ceiling a GEMM has. */
typedef enum {
  COST_PRECISION_16BIT, /* also fp32 */
  COST_PRECISION_FP8,
  COST_PRECISION_FP4,
  COST_PRECISION_N_KINDS
} CostPrecision;

/* Dense GEMM, see gemm.h for the formula. */
typedef struct {
  double launch_s;                              /* fixed time of any kernel */
  double ceiling_ratio[COST_PRECISION_N_KINDS]; /* of the dense peak of the dtype */
  double mxfp8_ratio;      /* rate with block scales over that with tensor scales */
  double memory_ratio;     /* of HBM bandwidth */
  double k0;               /* prologue + epilogue, in units of K; fp8 2 times, fp4 4 times this */
  double wave_ratio;       /* 1: whole waves are paid for, 0: persistent kernels */
  double padding_ratio;    /* 1: what tiles stick out over C costs like the rest, 0: nothing */
  double power;            /* exponent of the soft maximum */
  double feed_ratio;       /* bytes per second one SM takes in, over its 16-bit peak in FLOP/s */
  double split_s;          /* cost of a split-K reduction */
  double long_loss;        /* ceiling lost per doubling of time beyond 10 us */
  double step_ratio;       /* rate inside a training step over the rate alone (power, clocks) */
  double accumulate_ratio; /* of the 6 bytes per element that adding into fp32 moves more than
                              writing 16 bits, the share that shows at DRAM */
  double warm_l2_ratio;    /* of L2 still warm from the last run, where one product is timed over
                              and over; not in a step */
} CostGemm;

typedef struct {
  CostGemm gemm;
  /* Rate over the 16-bit peak, by ModelAttnKernel: flash and fused at head size 128, causal work
   * only; unfused: of its two batched GEMMs over the whole square. */
  double attention_ratio[3];
  double attention_portable_ratio; /* rate of kernels not written for this generation over those
                                      that are; counts as far as the profile uses them */
  double attention_backward_ratio; /* rate of flash backward (2.5 x the FLOPs) over forward */
  double attention_half_dim;       /* head size at which half of the asymptote is reached */
  double attention_tile; /* queries and keys that a causal kernel masks together, computing
                                      all of them; 0: nothing beyond the causal half */
  double hbm_ratio;      /* memory-bound kernels */
  double nvls_share;     /* of link bandwidth with NVLS, 0: the generation has none */
  double power_exponent; /* rates scale as (power limit / TDP)^this */
  double cublas_workspace_bytes;
  /* Time of memory-bound kernels over bytes / (HBM x hbm_ratio), by ModelOpKind; on top of the
   * profile's memory_factor, which says how well a framework fuses. 1 where nobody measured. */
  double kernel_factor[MODEL_OP_N_KINDS];
  double kernel_backward[MODEL_OP_N_KINDS]; /* and of backward passes, times the same factor */
} CostGpuNumbers;

#define COST_N_SIZE_ANCHORS 4

typedef struct {
  double base_s;           /* launch and first step */
  double hop_s;            /* one dependent step inside the domain */
  double bandwidth_ratio;  /* of the peak of one direction, large messages */
  double bulk_shard_bytes; /* bytes per rank from which NCCL runs rings in its bulk protocol;
                              0: one protocol speaks for all sizes */
  double alltoall_copy;    /* an all-to-all's copy to oneself, in wire steps; not on PCIe */
  /* Time of an all-reduce, all-gather, reduce-scatter inside a domain over the formulas', at
   * cost_size_anchors: 1 unless calibrated. Transports other than NCCL's change their algorithms
   * elsewhere, and add slowly. */
  double size_ratio[3][COST_N_SIZE_ANCHORS];
} CostLinkNumbers;

/* See collective.h for the formulas. */
typedef struct {
  double bulk_base_s;              /* added by the bulk protocol (Simple), */
  double bulk_hop_ratio;           /* whose ring step takes this many low-latency ones */
  double low_bandwidth_ratio;      /* of the bulk rate in the low-latency protocols, rings */
  double low_alltoall_ratio;       /* the same of an all-to-all, which knows LL only */
  double alltoall_low_bytes;       /* most bytes per peer in that protocol */
  double alltoall_uplink_ratio;    /* of the peak of a PCIe link that many pairs share; 0: rings'
                                      numbers speak for an all-to-all */
  double alltoall_bandwidth_ratio; /* of a ring's bandwidth in an all-to-all, bulk */
  double low_rise_ratio;  /* a low-latency hop that carries data over one that hardly does, */
  double low_rise_bytes;  /* half of the rise at this shard */
  double low_fill_ratio;  /* pipeline fill, in sqrt (L T), of NVLink in low latency */
  double bulk_fill_ratio; /* and in bulk */
  double fill_ratio;      /* of PCIe, and of trees over the network */
  double network_ring_fill_ratio; /* of rings over the network */
  double network_rise_ratio;      /* as low_rise, of steps over the network */
  double network_rise_bytes;
  double broadcast_hops;        /* network steps per domain that a broadcast waits for, */
  double broadcast_eager_bytes; /* beyond what fits the channels' buffers */
  double old_fill_ratio;        /* fill of NCCL 2.8 over later ones */
  double pat_hop_ratio;         /* collective_forced.c: a step of PAT over a network hop, */
  double pat_rank_s;            /* what each rank adds, */
  double pat_bandwidth_ratio;   /* and its share of the NIC */
  double sharp_latency_s;       /* up and down the switches of the network */
  double torch_loop_s;          /* what timing in a torch loop adds to a figure, */
  double one_process_s;         /* or one process that drives all GPUs of a node */
} CostCollectiveNumbers;

/* p10 and p90 of measured over predicted time, by band of bytes: collective.h. */
#define COST_SPREAD_BANDS 4
typedef struct {
  double low_ratio[COST_SPREAD_BANDS], high_ratio[COST_SPREAD_BANDS];
} CostSpread;
typedef enum {
  COST_SPREAD_NODE,    /* one domain, link class measured */
  COST_SPREAD_NETWORK, /* over domains, fabric measured */
  COST_SPREAD_UNSEEN,  /* link class or fabric never measured */
  COST_SPREAD_CURVE,   /* between points measured on the machine itself */
  COST_SPREAD_N_KINDS
} CostSpreadKind;

typedef struct {
  double hop_s;           /* one dependent step between domains, inside a training step */
  double step_hop_ratio;  /* already in hop_s: that over the same step of a collective alone on a
                             quiet network (other groups' traffic, ranks that arrive late) */
  double bandwidth_ratio; /* of the NIC rate, large messages */
  double straggler_ratio; /* step time lost per doubling of GPUs beyond 8 */
} CostFabricNumbers;

typedef struct {
  double memory_factor;            /* time of memory-bound ops over bytes / (HBM x hbm_ratio) */
  double host_layer_s;             /* CPU time to launch one layer's forward and backward */
  double p2p_host_s;               /* CPU time per pipeline message; also at step.p2p_host_s */
  double overlap_tp_ratio;         /* share of tp communication hidden with overlap_tp set */
  double overlap_wgrad_ratio;      /* share of the collective after an input gradient that hides
                                      under the weight gradient launched beside it */
  double overlap_dp_ratio;         /* share of a stage's time under which dp traffic can hide,
                                      with overlap_dp set */
  double overlap_ep_ratio;         /* share of expert all-to-all hidden */
  double attention_portable_ratio; /* 1: portable kernels (FA2, SDPA), 0: the vendor's newest */
  double reserved_ratio;           /* reserved over allocated */
  double need_ratio;               /* need over allocated, in the OOM risk, where segments cannot
                                      grow */
  double need_changing_ratio;      /* further, of what comes and goes within a step */
  double sigma_need;               /* log sd of need where the framework's runs were measured */
  double sigma;                    /* log sd of step times of this framework, predicted unseen */
  double step_corrections; /* share of [step]'s corrections that applies: they were fitted to
                              training frameworks, and tell what those do beside the ops. 0: the
                              step is its ops, one after the other */
  double overhead_ratio;   /* step over the sum of its ops each alone, less 1: what lies between
                              ops, ranks that wait for one another; 0 where nobody measured */
} CostProfileNumbers;

typedef struct {
  double fixed_s;               /* per step: data, logging, clipping */
  double p2p_host_s;            /* per pipeline message; the profile's */
  double p2p_ratio;             /* of a boundary message's time that shows (evaluate applies) */
  double p2p_interleaved_ratio; /* the same, further, where chunks are interleaved */
  double bubble_ratio;          /* fitted corrections, 1: none. Of the bubble (evaluate applies) */
  double head_ratio;            /* of the head's GEMMs: ALREADY in cost_op_s, never apply again */
  double imbalance_ratio;       /* of max - mean over stages (evaluate applies) */
  double collective_delta;      /* local copy or reduction, in wire steps; not on PCIe */
  double alltoall_steps;        /* steps of an all-to-all = this x (1 + log2 g) */
  double nvls_latency_s;
  double unoverlapped_tp_ratio; /* share of tp communication hidden even without overlap_tp */
  double grouped_ratio;         /* time of a grouped GEMM over the formula's */
  double grouped_low_ratio;     /* the same once more in 8 and 4 bits */
  double align_loss;            /* time added when a GEMM's dimension divides by 1 only */
  double misalign_loss;       /* align_loss grows by this many times where it doesn't divide by 8 */
  double sink_ratio;          /* of an unfused pass, added to kernels with attention sinks */
  double score_forward_bytes; /* unfused attention: HBM bytes per score */
  double score_backward_bytes;
  double moe_host_factor;    /* host time of a MoE layer over a dense one */
  double expert_host_s;      /* and per local expert */
  double host_forward_share; /* of a block's host time; backward has the rest, and this once more
                                for rebuilt operations */
  double host_wait_ratio;    /* of a block's host time, added for every rank of its TP group but the
                             first: each collective waits for the host that is late */
  double graph_layer_ratio,
      graph_full_ratio;      /* host time left with CUDA graphs of layers or parts of
                                                 them, and of the whole iteration */
  double host_adam_s;        /* optimizer on the host: per parameter of a node */
  double interference_ratio; /* how much longer a kernel takes while a collective runs beside it
                                (SMs and HBM that NCCL takes); simulation only: the fitted overlaps
                                of tier 2 were measured with it */
} CostStepNumbers;

typedef struct {
  double allocated_extra_bytes; /* libraries' own allocations through the pool */
  double communicator_bytes;
  double cublas_workspace_bytes; /* the GPU's */
  double imbalance_ratio;        /* hottest expert rank over the mean, real routing */
  /* log sd of need, in quadrature to the profile's: */
  double sigma_moe;     /* mixtures of experts */
  double sigma_assumed; /* recompute or kernel assumed */
  double sigma_unseen;  /* once for each thing that no published peak has tested */
} CostMemoryNumbers;

/* Log standard deviations of step time; the additions are in quadrature. */
typedef struct {
  double sigma_moe;     /* of mixtures of experts, beside the profile's sigma */
  double sigma_assumed; /* added once per number resolved by a default */
  double sigma_scale;   /* added: this x log2 (nodes) */
  double sigma_guessed; /* added once per setting of the layout that is a guess (measured runs that
                           do not state it) */
  double z10, z90;      /* the step's p10, p90 = step x exp (z x sigma); z10 < 0 */
} CostUncertaintyNumbers;

typedef struct _CostCalibration CostCalibration;

/* "default" or another slug of the catalog, or a file. */
CostCalibration *cost_calibration_load (const BaseCatalog *catalog, const char *name,
                                        GError **error);
CostCalibration *cost_calibration_from_ini (BaseIni *ini, const char *name, GError **error);
void cost_calibration_free (CostCalibration *calibration);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (CostCalibration, cost_calibration_free)
const char *cost_calibration_name (const CostCalibration *calibration);
/* Every value and spread as an INI text in a fixed order; reads back to the same calibration.
 * Returns: (owned) */
char *cost_calibration_format (const CostCalibration *calibration);
char *cost_calibration_hash (const CostCalibration *calibration); /* (owned) of that text */
/*
 * One number as the file gives it: @group "gpu hopper", @key "ceiling_16bit".
 * @out_value, @out_spread: (out) (nullable). Returns: FALSE if the file does not say.
 */
gboolean cost_calibration_get (const CostCalibration *calibration, const char *group,
                               const char *key, double *out_value, double *out_spread);

/* Where one number of @group lives, for fits that try other values: write it, then resolve again.
 * @out_min, @out_max: (out) its legal range. (borrowed), NULL if the file does not say it. */
double *cost_calibration_slot (CostCalibration *calibration, const char *group, const char *key,
                               double *out_min, double *out_max);
/* The number and its relative spread; FALSE if the file does not say it. */
gboolean cost_calibration_set (CostCalibration *calibration, const char *group, const char *key,
                               double value, double spread);
/* The same, adding the key, and the group with @source, where the file lacks them. A group that was
 * assumed no longer is. FALSE if there is no such group or key, or @value is out of its range. */
gboolean cost_calibration_put (CostCalibration *calibration, const char *group, const char *key,
                               double value, double spread, const char *source);
/* A run on @gpus GPUs of @generation was measured: raises what its group says of the largest. */
void cost_calibration_add_run (CostCalibration *calibration, const char *generation, guint64 gpus);
/* Calls @visit for every number with a spread, in the file's fixed order. */
void cost_calibration_each_uncertain (const CostCalibration *calibration,
                                      void (*visit) (const char *group, const char *key,
                                                     gpointer user_data),
                                      gpointer user_data);
/* "s", "B" or "": the unit that @key of @group is written in; NULL if there is no such key. */
const char *cost_calibration_unit (const char *group, const char *key);
/* Adds "; @note" to the source of @group. FALSE if there is no such group. */
gboolean cost_calibration_note_source (CostCalibration *calibration, const char *group,
                                       const char *note);
void cost_calibration_rename (CostCalibration *calibration, const char *name, const char *source);

/* All of a calibration that one machine and profile need, resolved. Plain value but @assumed. */
typedef struct {
  CostGpuNumbers gpu;
  CostLinkNumbers links[TOPO_LINK_CLASS_N_KINDS];
  CostFabricNumbers fabric; /* the machine's */
  CostProfileNumbers profile;
  CostStepNumbers step;
  CostCollectiveNumbers collective;
  CostSpread spread[COST_SPREAD_N_KINDS];
  gboolean link_measured[TOPO_LINK_CLASS_N_KINDS];
  gboolean fabric_measured;
  gboolean profile_measured; /* the profile's numbers are its own */
  gboolean old_nccl;         /* cost_numbers_old_nccl() */
  CostMemoryNumbers memory;
  CostUncertaintyNumbers uncertainty;
  double nvls_share;   /* gpu.nvls_share */
  GPtrArray *assumed;  /* (owned) char *: "gpu=b300-sxm: numbers of generation blackwell", … */
  guint64 largest_run; /* GPUs of the largest measured run on the GPU's generation; 0: not known */
  GArray *curves;      /* (owned, nullable) of CostCurve: what was measured on the machine */
} CostNumbers;

/* Back to collectives on their own, as nccl-tests times them: takes step_hop_ratio out of hop_s. */
void cost_numbers_alone (CostNumbers *numbers);

/* To NCCL 2.8, whose pipelines fill more slowly and whose trees have no hierarchical floor. */
void cost_numbers_old_nccl (CostNumbers *numbers);

/* Fails only if the calibration lacks what it cannot do without. */
gboolean cost_numbers_init (CostNumbers *numbers, const CostCalibration *calibration,
                            const TopoMachine *machine, const char *profile, GError **error);
void cost_numbers_clear (CostNumbers *numbers);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (CostNumbers, cost_numbers_clear)
G_END_DECLS
