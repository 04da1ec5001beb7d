/* app/exec.h - use case: run one layout for real, and compare with its prediction. */
#pragma once
#include "app/problem.h"
#include "db/store.h"
#include "exec/launch.h"
G_BEGIN_DECLS

typedef struct {
  AppInputs inputs; /* profile is plait whatever it says */
  guint64 ranks;
  guint64 global_batch, seq; /* 0: the model's */
  const char *layout;        /* layout text, may be "" */
  const char *backend;       /* "cpu" */
  const char *inject;        /* (nullable) */
  gboolean verify, dry_run;
  gboolean slice; /* one rank alone, on one device */
  guint warmup, steps;
  const char *db_path;     /* (nullable): nothing is stored */
  double timeout_s;        /* how long no rank may get on */
  guint64 limit_bytes;     /* of a rank's arena, G_MAXUINT64: none */
  const char *const *argv; /* the command line, for the ranks */
} AppExecRequest;

typedef struct {
  gboolean is_silent;  /* a rank that is not the first: nothing to say */
  char *layout_text;   /* (owned) */
  char *topology_hash; /* (owned) of the machine's description, "" in a rank */
  char *note;          /* (owned, nullable) what was changed or is missing */
  ModelRankMap map;
  guint64 seq, global_batch; /* of a step, resolved */
  char *calibration;         /* (owned, nullable) name of that behind the prediction */
  guint threads;
  double predicted_step_s; /* NaN without a prediction */
  double predicted_wait_s; /* its bubble and messages */
  guint64 predicted_peak_bytes;
  guint32 predicted_fullest_rank;
  guint64 predicted_memory_bytes[EXEC_MEMORY_N_KINDS];
  ExecBucket predicted_ops[EXEC_N_BUCKETS]; /* as ExecResult.ops; NaN seconds without */
  double op_flop[EXEC_N_BUCKETS], op_bytes[EXEC_N_BUCKETS]; /* one step, mean over ranks */
  double peak_flop_per_s, memory_bytes_per_s;               /* of the machine's GPU, NaN unknown */
  double priced_s;     /* slice: communication and bubble, which are not measured */
  gboolean has_result; /* FALSE after a dry run */
  ExecResult result;
} AppExecResult;
void app_exec_result_free (AppExecResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AppExecResult, app_exec_result_free)

AppExecResult *app_exec (const AppExecRequest *request, GError **error);

/* A stored plan as exec runs it: strings are its own. */
typedef struct {
  DbPlan *plan; /* (owned) */
  guint64 ranks, global_batch, seq;
  const char *model, *model_content, *layout; /* (borrowed) of the plan */
} AppExecPlan;
/* @which: a plan id or "best"; in a rank what its launcher resolved. */
gboolean app_exec_plan (AppExecPlan *out, const char *db_path, const char *which, GError **error);
void app_exec_plan_clear (AppExecPlan *plan);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (AppExecPlan, app_exec_plan_clear)
G_END_DECLS
