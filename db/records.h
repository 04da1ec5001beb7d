/* db/records.h - the plain rows that the database stores and returns.
 *
 * One struct per table. app/ fills them from its own types; db/ knows no others.
 *
 * Strings are borrowed while storing (the caller keeps them alive during the call). Strings and
 * arrays inside a record that db/ returned belong to that record, until its _free function.
 *
 * Absent values: NULL for text, NaN for a double, 0 for the few counts marked "0 = absent". They
 * become SQL NULL where the column allows it and are refused where it does not. Counts and bytes
 * above 2^63 - 1, infinities and negative counts are refused.
 */
#pragma once
#include <glib.h>
G_BEGIN_DECLS

/* What was computed on. Rows with equal name and content share one id. */
typedef struct {
  const char *name;        /* slug or path */
  const char *content;     /* every fact of it, as text (INI); decides its identity */
  const char *gpu;         /* slug of the GPU (nullable) */
  gint64 gpus_per_node;    /* 0 = absent */
  double usd_per_gpu_h;    /* NaN = no price known */
  const char *price_as_of; /* date of the price, YYYY-MM-DD (nullable) */
} DbMachineRecord;

typedef struct {
  const char *name;
  const char *content;       /* every fact of it, as text; decides its identity */
  const char *family;        /* (nullable) */
  guint64 parameters;        /* all weights, > 0 */
  guint64 parameters_active; /* weights one token meets, > 0 */
} DbModelRecord;

typedef struct {
  const char *phase;   /* train, prefill, decode */
  gint64 seq;          /* tokens per sequence, > 0 */
  gint64 global_batch; /* sequences per step, > 0 */
  const char *optimizer;
  double dropout; /* 0..1 */
} DbJobRecord;

typedef struct {
  const char *name;    /* "default" is the catalog's own */
  const char *content; /* every number with spread and provenance, as text; decides its identity */
  const char *source;  /* catalog, or where it was fitted or measured */
} DbCalibrationRecord;

typedef enum {
  DB_RUN_RUNNING,
  DB_RUN_DONE,
  DB_RUN_FAILED,
  DB_RUN_INTERRUPTED,
  DB_RUN_N_STATUSES
} DbRunStatus;

/* "running", "done", "failed", "interrupted" (borrowed). */
const char *db_run_status_name (DbRunStatus status);

/* How much a search did; zero where a command does not search. */
typedef struct {
  guint64 legal_count;        /* layouts that the rules allow */
  guint64 costed_count;       /* of these, costed in closed form (tier 1) */
  guint64 exact_count;        /* of these, costed by the exact schedule recurrence (tier 2) */
  guint64 simulated_count;    /* of these, played event by event (tier 3) */
  guint64 pruned_bound_count; /* dropped because their lower bound could not win */
  guint64 pruned_risk_count;  /* dropped because their risk of running out of memory is too high */
  double elapsed_s;           /* whole command, NaN = not known */
  double search_s;            /* search alone, NaN = not known */
  double simulate_s;          /* event simulation alone, NaN = not known */
  gint64 jobs_count;          /* threads used, 0 = absent */
} DbRunCounts;

/* One invocation that stores plans. */
typedef struct {
  gint64 run_id;             /* given by the database */
  const char *command;       /* "plan", "predict", ... */
  const char *inputs;        /* everything asked for, as canonical text (JSON) */
  const char *inputs_hash;   /* NULL when storing: hash of @inputs */
  const char *plait_version; /* NULL when storing: this build's */
  DbRunStatus status;
  const char *started_at;  /* ISO 8601 UTC "2026-01-31T23:59:59Z"; NULL when storing: now */
  const char *finished_at; /* NULL while running */
  const char *message;     /* why it failed (nullable) */
  DbRunCounts counts;
} DbRunRecord;

/* Layouts refused for one reason. */
typedef struct {
  const char *reason;
  guint64 count;
} DbRejectedRecord;

/* Exposed seconds of one component on the critical stage; the rows of a plan sum to step_s. */
typedef struct {
  const char *component; /* compute tp cp ep pp_bubble p2p dp optimizer other */
  double exposed_s;      /* >= 0 */
} DbBreakdownRecord;

/* A kind of communication group of the plan. */
typedef struct {
  const char *kind;       /* tp, cp, dp, ... */
  gint64 size;            /* ranks, > 0 */
  const char *bottleneck; /* link that limits it (nullable) */
} DbGroupRecord;

/* A value nobody stated. */
typedef struct {
  const char *key;
  const char *value;
  const char *why; /* (nullable) */
} DbAssumedRecord;

/* Bytes of one pipeline stage, per GPU; the ten components sum to peak_bytes. */
typedef struct {
  gint64 stage; /* from 0 */
  gint64 layers;
  gint64 in_flight_count; /* micro-batches (chunks) whose activations are held at the peak */
  double compute_s;       /* of the stage per step */
  guint64 peak_bytes;     /* the driver's view */
  guint64 allocated_bytes;
  guint64 reserved_bytes;
  double oom_risk; /* 0..1 */
  guint64 weights_bytes;
  guint64 gradients_bytes;
  guint64 optimizer_bytes;
  guint64 activations_bytes;
  guint64 logits_bytes;
  guint64 gathers_bytes;
  guint64 comm_buffers_bytes;
  guint64 workspace_bytes;
  guint64 context_bytes;
  guint64 fragmentation_bytes;
} DbStageMemoryRecord;

/* What a plan was predicted to do. */
typedef struct {
  double step_s; /* > 0 */
  double step_s_p10;
  double step_s_p90;
  double simulated_s; /* NaN = not simulated */
  double tokens_per_s_per_gpu;
  double tflops_per_gpu;
  double mfu;
  double oom_risk; /* 0..1, of the riskiest stage */
  gboolean fits;
  guint64 peak_bytes; /* fullest stage */
  guint64 allocated_bytes;
  guint64 reserved_bytes;
  guint64 usable_bytes;
  double cost_usd_per_1e12_tokens; /* NaN = no price known */
} DbPredictionRecord;

/* A layout on a machine with what it was predicted to do. */
typedef struct {
  gint64 plan_id; /* given by the database */
  gint64 run_id;  /* given by the database */
  gint64 machine_id;
  gint64 model_id;
  gint64 job_id;
  gint64 calibration_id;
  gint64 rank; /* 1 = best of its run, model, machine, GPU count and job */
  gint64 gpus;
  gint64 global_batch;
  gint64 seq;
  const char *profile;
  const char *layout_text;
  gint64 tp;
  gboolean sp;
  gint64 cp;
  gint64 pp;
  gint64 vpp;
  gint64 ep;
  gint64 etp;
  gint64 dp;
  gint64 mbs;
  gint64 zero;
  gint64 hsdp; /* shard-group size, 0 = absent (all) */
  const char *recompute;
  const char *schedule;
  const char *stages;
  const char *attn;
  const char *dtype;
  const char *cp_comm;
  double tp_sync;
  gboolean overlap_tp;
  gboolean overlap_dp;
  gboolean overlap_p2p;
  double usd_per_gpu_h; /* price used, NaN = none */

  DbPredictionRecord prediction;
  const DbStageMemoryRecord *stage_rows; /* one per pipeline stage */
  gsize n_stage_rows;
  const DbBreakdownRecord *breakdown; /* this and the next two keep their order */
  gsize n_breakdown;
  const DbGroupRecord *groups;
  gsize n_groups;
  const DbAssumedRecord *assumed;
  gsize n_assumed;
} DbPlanRecord;

/* A plan that was run for real. */
typedef struct {
  const char *host;
  gint64 pid; /* of the process that started the ranks */
  const char *backend;
  gint64 rank_count;
  const char *model, *layout_text;
  const char *machine, *topology_hash;     /* what it was predicted for */
  const char *math_version, *comm_version; /* (nullable) libraries that ran it */
  gint64 verified;                         /* 1: the same function as one rank alone; 0 is absent */
  double predicted_s;                      /* NaN = no prediction */
  double measured_s, measured_s_min, measured_s_max; /* NaN until it is done */
  gint64 moved_bytes;                                /* sent by rank 0 per step, 0 = absent */
  gint64 seq, global_batch;                          /* what a step was, 0 = absent */
  const char *calibration;                           /* (nullable) behind predicted_s */
} DbExecRecord;

/* A run as a calibration reads it back. */
typedef struct {
  gint64 run_id;
  const char *model, *layout_text;
  gint64 rank_count, seq, global_batch;
  double measured_s_min;
} DbExecLoaded;

/* Ops of one kind in one step. */
typedef struct {
  const char *kind;
  guint64 count;                  /* over all ranks */
  double predicted_s, measured_s; /* mean over ranks */
} DbExecOpRecord;

/* Bytes of the fullest rank at its peak. */
typedef struct {
  const char *component; /* weights … workspace, peak */
  guint64 predicted_bytes, measured_bytes;
} DbExecMemoryRecord;

/* One invocation that makes a calibration: on this node, or from files (backend absent). */
typedef struct {
  const char *host;
  gint64 pid;
  const char *backend;                     /* (nullable) */
  gint64 rank_count;                       /* 0 = absent */
  const char *topology_hash;               /* (nullable) of the machine it speaks of */
  const char *math_version, *comm_version; /* (nullable) libraries that ran it */
  const char *base;                        /* calibration whose numbers were the priors */
  double budget_s;                         /* NaN = absent */
} DbCalibrationRunRecord;

/* One number that was fitted or measured. */
typedef struct {
  const char *group_name, *key; /* as in the file: "gpu cpu", "hbm" */
  double value;                 /* in @unit */
  const char *unit;             /* "s", "B", "" */
  double spread;                /* relative standard deviation (of the logarithm) */
  double base_value, base_spread;
  const char *provenance; /* fitted, measured */
  guint64 point_count;    /* measurements behind it */
  const char *source;
} DbCalibrationValueRecord;

/* One measurement. */
typedef struct {
  const char *benchmark; /* what was run: the rows of one benchmark are stored together */
  const char *item;      /* the op with its shape, "step", … */
  const char *kind;      /* kind of op or collective, "step", "message", … */
  const char *device;    /* (nullable) the rank, where each has its own row */
  const char *status;    /* measured, does_not_fit, failed */
  double measured_s;     /* NaN where it is not a time */
  gint64 measured_bytes; /* 0 = absent */
  guint64 repeat_count;
  const char *note; /* (nullable) why not */
} DbPointRecord;

/* A measurement beside what the calibration, and its base, make of it. */
typedef struct {
  const char *benchmark, *item, *kind;
  double measured_s, predicted_s, base_predicted_s;
} DbCalibrationResidualRecord;

/* A measured run beside its prediction. */
typedef struct {
  gint64 calibration_id;
  const char *row_id; /* id of the row in its file */
  const char *family; /* who measured (nullable) */
  double use;         /* 1: scored, 0.25: doubtful, 0: not */
  const char *machine;
  const char *profile;
  const char *layout_text;
  double predicted_s;
  double predicted_s_p10;
  double predicted_s_p90;
  double measured_s;      /* NaN = no time was measured */
  const char *mem_kind;   /* allocated, reserved, driver, unstated; NULL = no memory was measured */
  gint64 predicted_bytes; /* in that view, 0 = absent */
  gint64 measured_bytes;  /* 0 = absent */
  double oom_risk;        /* 0..1 */
  gboolean ran;           /* FALSE: ran out of memory */
} DbValidationRecord;

G_END_DECLS
