/* app/plan.h - use case: search the layouts of every (machine, GPU count, batch, sequence) asked
 * for, and store the best. */
#pragma once
#include "app/record.h"
#include "sim/search.h"
#include <glib.h>
G_BEGIN_DECLS

#define APP_MAX_OOM_RISK 0.10 /* plans above are not listed where nobody says */
#define APP_FITS_RISK    0.50 /* above, a layout does not fit; up to APP_MAX_OOM_RISK it fits */
/* Risks below are not told apart ("<0.1 %"): they are none, and a limit of 0 lets them pass. */
#define APP_NO_OOM_RISK 0.0005

typedef struct {
  AppInputs inputs;            /* machine ignored: see machines */
  const char *const *machines; /* NULL-terminated */
  const GArray *gpus;          /* guint64 */
  const GArray *batches;       /* guint64, (nullable): the model's */
  const GArray *seqs;          /* guint64, (nullable): the model's */
  const char *pins;            /* layout text of fixed keys, may be "" */
  double max_oom_risk;
  guint keep; /* per search point */
  guint jobs;
  gboolean exhaustive;
  guint64 limit;           /* refuse sweeps with more points or layouts; 0: plan_sweep.c's own */
  guint simulate;          /* of the best, so many are also played event by event */
  gboolean rank_simulated; /* and those are ordered by that */
  const char *db_path;     /* (nullable): nothing is stored */
  gboolean take_over;      /* go on with a run of another host, too, that may still be at work */
  void (*note) (const char *text, gpointer user_data); /* (nullable) said before the search */
  void (*progress) (const char *point, guint64 done, guint64 total, gpointer user_data);
  gboolean (*cancelled) (gpointer user_data);
  gpointer user_data;
} AppPlanRequest;

/* Plans to play of each search point where nobody says: 10 of one, fewer of each in a long sweep, at
 * least its best. Reads the lists of @request. */
guint app_plan_default_plays (const AppPlanRequest *request);

/* A layout that comes nearest where nothing fits. */
typedef struct {
  char *layout_text;  /* (owned) */
  guint64 need_bytes; /* without the allocator's cache, which it gives back: decides the risk */
  guint64 peak_bytes, usable_bytes; /* driver's view, as predict has it */
  double oom_risk;
  double step_s;
} AppMiss;

/* One search point. */
typedef struct {
  char *machine;        /* (owned) */
  double usd_per_gpu_h; /* NaN: no price known */
  guint64 gpus, global_batch, seq;
  GPtrArray *plans; /* (owned) DbPlan *, best first */
  GArray *misses;   /* (owned) AppMiss, only when no plan */
  GPtrArray *
      advice; /* (owned) char *: what would make it fit, why plain data parallelism is the answer */
  guint64 legal_count;
  guint64 too_risky_count;
  guint64 rejected[MODEL_LEGAL_N];
  DbRunCounts counts;
} AppPlanPoint;

typedef struct {
  char *inputs_json;  /* (owned) canonical text of what was asked */
  char *hash;         /* (owned) of it and of the contents of model, machine, calibration */
  GPtrArray *points;  /* (owned) AppPlanPoint * */
  gint64 run_id;      /* 0: not stored */
  gboolean resumed;   /* a stopped run of the same inputs went on */
  guint asked_count;  /* search points asked for */
  guint reused_count; /* of points: found in the database */
  char *warning;      /* (owned, nullable) from the database */
  gboolean interrupted;
} AppPlanResult;

AppPlanResult *app_plan (const AppPlanRequest *request, GError **error);
void app_plan_result_free (AppPlanResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AppPlanResult, app_plan_result_free)
G_END_DECLS
