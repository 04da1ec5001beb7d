/* costmodel/evaluate.h - from block prices to a prediction: the arithmetic of one candidate.
 *
 * cost_evaluate_bound is tier 1 (closed form, peak memory, risk): it allocates nothing and is what
 * the search runs on every candidate. cost_evaluate is tier 2 and fills a whole Prediction.
 *
 *   step  = (pipe + tail + fixed) · (1 + overhead + straggler · log2 (gpus / 8))
 *   pipe  = work + bubble_ratio · (makespan − busiest) + (makespan with messages − makespan)
 *   work  = mean + imbalance_ratio · (busiest − mean)        of the ranks' work
 *   tail  = exposed data-parallel traffic + gradients of replicated weights + optimizer, of the
 *           rank where they take longest
 *
 * Formulas, sources and where they are known to be wrong: docs/model.md.
 */
#pragma once
#include "costmodel/memory.h"
#include "costmodel/pipeline.h"
#include "costmodel/stagemap.h"
#include "costmodel/template.h"
#include <glib.h>
G_BEGIN_DECLS

/* What cost_evaluate needs beside the layout; everything borrowed. */
typedef struct {
  const ModelArch *arch;
  const ModelJob *job;
  const ModelProfile *profile;
  const TopoMachine *machine;
  const CostNumbers *numbers;
  guint32 gpus;
  double model_flop;          /* model_step_flop (arch, job) */
  gboolean is_layout_assumed; /* recompute or kernel is a guess: the risk's sigma grows */
  guint guessed_count;        /* settings of the layout that are guesses: the time's sigma grows */
} CostProblem;

/* Log standard deviation of the need of a layout: the profile's, wider for mixtures of experts,
 * where flags were assumed, and for each thing that no published peak has tested. */
double cost_need_sigma (const CostProblem *problem, const ModelLayout *layout,
                        const CostTemplate *tmpl);

/*
 * Groups and messages of one (template, pp, dp, hsdp): memoised by the search. Plain value.
 * Whatever the layout's ZeRO stage, the shard groups are those of ZeRO 1 and up.
 */
typedef struct {
  CostGroup dp, edp, shard, replicate, expert_shard, expert_replicate, embedding, tp;
  TopoGroupShape dp_shape, edp_shape, pair_shape;
  CostShards shards;
  double p2p_s;           /* one boundary message, alone */
  double straggler_ratio; /* of the step: the profile's overhead, and stragglers at these gpus */
  /* FSDP without pipeline: what gathering and reducing adds to a pass, by part */
  double fsdp_forward_s[COST_MAX_RUN_KINDS], fsdp_backward_s[COST_MAX_RUN_KINDS];
  double fsdp_plain_forward_s[COST_MAX_RUN_KINDS], fsdp_plain_backward_s[COST_MAX_RUN_KINDS];
  double fsdp_embedding_forward_s, fsdp_embedding_backward_s;
  double fsdp_head_forward_s, fsdp_head_backward_s;
} CostPlacement;
void cost_placement_init (CostPlacement *out, const CostProblem *problem, const ModelLayout *layout,
                          const CostTemplate *tmpl);
/* The shards alone, whatever the ZeRO stage. Of @layout: tp, cp, ep, etp, pp, dp and hsdp. */
void cost_placement_shards (CostShards *out, const ModelLayout *layout);
/* In two steps, for templates of the same degrees: groups (tp cp ep etp pp dp hsdp), then what
 * depends on the template's sizes and times. */
void cost_placement_init_groups (CostPlacement *out, const CostProblem *problem,
                                 const ModelLayout *layout);
void cost_placement_set_template (CostPlacement *placement, const CostProblem *problem,
                                  const ModelLayout *layout, const CostTemplate *tmpl);

/* One micro-batch of a stage. */
typedef struct {
  double forward_s, backward_input_s, backward_weight_s; /* FSDP's traffic included */
  double backward_s;                                     /* both */
  double fsdp_s;                                         /* of them, what FSDP's traffic adds */
} CostStageTime;

typedef struct {
  double lower_bound_s; /* admissible: never above cost_evaluate's step_s */
  double step_s;        /* estimate: the bound, which is exact for equal stages */
  guint64 peak_bytes;   /* fullest stage, driver's view: equal to cost_evaluate's */
  guint64 need_bytes;   /* of the stage with the highest need */
  double oom_risk;      /* off by less than 1e-4 */
} CostBound;
/* @stages: of the layout's pp, vpp, schedule, stages and full:block:N. */
void cost_evaluate_bound (const CostProblem *problem, const ModelLayout *layout,
                          const CostTemplate *tmpl, const CostStageMap *stages,
                          const CostPlacement *placement, CostBound *out);

/*
 * The same in two steps. A step's pipeline does not depend on ZeRO and shard groups, so one
 * CostPipeBound serves all layouts that differ in zero and hsdp only; with pp = 1 ZeRO 3 (FSDP)
 * needs its own. Plain value.
 */
#define COST_BOUND_CLASSES 32
typedef struct {
  /* Never above the step of any layout this serves. growing_s is the weaker one: it does not
   * shrink when stages take longer, so it also bounds layouts that recompute more. */
  double least_s, growing_s;
  guint64 microbatches;
  double pipe_s;    /* share of the pipeline in the step */
  guint32 heaviest; /* class with the most parameters */
  CostStageTime heaviest_time;
  /* of the first classes; kept once the first layout has been finished */
  CostWeights weights[COST_BOUND_CLASSES];
  CostStageKept kept[COST_BOUND_CLASSES];
  gboolean has_kept;
} CostPipeBound;
void cost_pipe_bound_init (CostPipeBound *out, const CostProblem *problem,
                           const ModelLayout *layout, const CostTemplate *tmpl,
                           const CostStageMap *stages, const CostPlacement *placement);
void cost_pipe_bound_finish (CostPipeBound *pipe, const CostProblem *problem,
                             const ModelLayout *layout, const CostTemplate *tmpl,
                             const CostStageMap *stages, const CostPlacement *placement,
                             CostBound *out);
/* The memory and risk of that alone; times are not set. */
void cost_pipe_bound_memory (CostPipeBound *pipe, const CostProblem *problem,
                             const ModelLayout *layout, const CostTemplate *tmpl,
                             const CostStageMap *stages, const CostPlacement *placement,
                             CostBound *out);
/* The times, after it. */
void cost_pipe_bound_time (const CostPipeBound *pipe, const CostProblem *problem,
                           const ModelLayout *layout, const CostTemplate *tmpl,
                           const CostStageMap *stages, const CostPlacement *placement,
                           CostBound *out);
/*
 * Never above the step of any layout on this template, whatever its pipeline and ZeRO stage: the
 * mean rank's work, with embedding and head once. Of @layout: tp, cp, mbs and schedule.
 * @is_plain: with no block recomputed, which is the least of all recompute settings.
 */
double cost_template_least_s (const CostProblem *problem, const CostTemplate *tmpl,
                              const CostBlockKinds *kinds, const ModelLayout *layout,
                              gboolean is_plain);
/*
 * The same for one pipeline, however its layers are cut into stages: 1F1B's makespan is at least
 * what chains of the schedule add up to on average, weighted so that it does not matter which rank
 * has the work (evaluate_bound.c). Of @layout also: pp, vpp, dp and schedule. @more_s: what all
 * layers together take longer, of one micro-batch, than blocks do (cost_room_least_recompute_s).
 */
double cost_template_least_cut_s (const CostProblem *problem, const CostTemplate *tmpl,
                                  const CostBlockKinds *kinds, const ModelLayout *layout,
                                  gboolean is_plain, double more_s);
/* What recomputing a block of each kind adds to a micro-batch; @out: COST_MAX_RUN_KINDS entries. */
void cost_template_recompute_s (const CostTemplate *tmpl, ModelScheduleKind schedule, double *out);

typedef enum {
  COST_PART_COMPUTE,
  COST_PART_TP,
  COST_PART_CP,
  COST_PART_EP,
  COST_PART_PP_BUBBLE,
  COST_PART_P2P,
  COST_PART_DP,
  COST_PART_OPTIMIZER,
  COST_PART_OTHER,
  COST_PART_N_KINDS
} CostPart;
const char *cost_part_name (CostPart part); /* "compute", … the JSON keys */

typedef struct {
  guint32 stage; /* pipeline rank */
  guint32 layers;
  double compute_s; /* all micro-batches, forward and backward, exposed communication apart */
  double oom_risk;
  CostStageMemory memory;
} CostStagePrediction;

typedef struct {
  ModelGroupKind kind;
  guint32 size;
  char *bottleneck; /* (owned) */
} CostGroupPrediction;

typedef struct {
  gboolean fits; /* need of every stage <= usable bytes */
  double step_s, step_s_p10, step_s_p90;
  double breakdown_s[COST_PART_N_KINDS]; /* none negative; sums to step_s */
  /* what the fitted corrections start from, for who plays the step: the recurrence with messages,
   * and the longest tail */
  double schedule_s, tail_s;
  double tokens_per_s_per_gpu, tflops_per_gpu, mfu;
  double oom_risk;   /* of the worst stage */
  double need_sigma; /* log sd of need */
  guint64 usable_bytes;
  guint32 fullest_stage; /* index into stages: peak, allocated, reserved, memory_bytes are its */
  guint32 n_stages;
  CostStagePrediction *stages; /* (owned) one per pipeline rank */
  guint n_groups;
  CostGroupPrediction *groups; /* (owned) groups of more than one rank */
} CostPrediction;
void cost_prediction_clear (CostPrediction *prediction);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (CostPrediction, cost_prediction_clear)

gboolean cost_evaluate (const CostProblem *problem, const ModelLayout *layout,
                        const CostTemplate *tmpl, const CostStageMap *stages,
                        const CostPlacement *placement, CostPipelineScratch *scratch,
                        CostPrediction *out, GError **error);

/* The whole way for one resolved layout: template, stage map, placement, tier 2. */
gboolean cost_predict (const CostProblem *problem, const ModelLayout *layout, CostPrediction *out,
                       GError **error);
G_END_DECLS
