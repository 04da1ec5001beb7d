/* app/simulate.h - use case: one plan played event by event. */
#pragma once
#include "app/record.h"
#include "sim/play.h"
#include <glib.h>
G_BEGIN_DECLS

typedef struct {
  AppInputs inputs;
  guint64 gpus, global_batch, seq; /* 0: the model's, as in predict; gpus > 0 without @plan */
  const char *layout;              /* (nullable) */
  const char *plan;                /* (nullable) a stored plan: id or "best"; inputs override it */
  const char *db_path;             /* where it is stored */
  gboolean full, ideal;            /* every rank; no contention */
  double jitter_ratio;
  guint64 seed;
  guint runs;             /* >= 1 */
  const char *stragglers; /* (nullable) "rank=7,slow=1.3", several with ';' */
  const char *trace_path; /* (nullable) of the first run */
  gboolean (*cancelled) (gpointer user_data);
  void (*progress) (guint64 done, guint64 total, gpointer user_data);
  gpointer user_data;
} AppSimulateRequest;

/* Several runs; of one, all are equal. */
typedef struct {
  double mean, min, p10, p50, p90, max;
} AppSpread;

typedef struct {
  DbPlan *plan;         /* (owned) the prediction, simulated_s filled in */
  SimPlay *play;        /* (owned) */
  SimCase *c;           /* (owned) */
  gpointer keep;        /* (owned) what they borrow */
  GArray *stragglers;   /* (owned) SimStraggler */
  SimResult first;      /* run 0 */
  double simulated_s;   /* calibrated; median of the runs */
  double undisturbed_s; /* played without contention, jitter and stragglers */
  double recurrence_s;  /* tier 2 before its fitted corrections */
  AppSpread step;       /* simulated_s over the runs */
  guint runs;
  double saving_ratio[COST_PART_N_KINDS]; /* of the step, if the part were 10 % faster; NAN: not
                                             there */
  guint64 trace_count;                    /* slices written */
  gboolean interrupted;
} AppSimulateResult;

AppSimulateResult *app_simulate (const AppSimulateRequest *request, GError **error);
void app_simulate_result_free (AppSimulateResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AppSimulateResult, app_simulate_result_free)

/* simulated_s of @layout, with contention; for the top of a search. NaN where the play would be longer
 * than a search should wait: 262,144 passes of a micro-batch through a chunk, or 65,536 GPUs. */
gboolean app_simulated_s (const AppProblem *problem, const ModelLayout *layout,
                          const CostPrediction *prediction, double *out_simulated_s,
                          GError **error);
G_END_DECLS
