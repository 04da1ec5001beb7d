/* sim/worker-private.h - one thread of a search. */
#pragma once
#include "sim/search.h"
#include "sim/topk.h"
#include <stdatomic.h>
G_BEGIN_DECLS

#define SIM_MAX_MISSES 3

/* What threads share. */
typedef struct {
  const CostProblem *problem;
  const SimSpace *space;
  const SimSearchOptions *options;
  atomic_uint next; /* template, then pending candidate, to take */
  atomic_bool stop;
  atomic_ullong done;
  GMutex lock;
  GError *error;           /* (owned) the first, under lock */
  gint64 last_progress_us; /* under lock */
} SimShared;

typedef struct {
  guint64 need_bytes;
  CostBound bound;
  ModelLayout layout;
} SimNear;

/* Tier 1 of one thread. */
typedef struct {
  SimShared *shared;
  SimTopK estimates;      /* K best closed forms so far: where tier 2 is worth while */
  GArray *pending;        /* (owned) SimCandidate whose bound is within those */
  double least_dropped_s; /* least lower bound that was not kept in pending */
  double slack_ratio;     /* how far above the K-th estimate bounds are still kept */
  SimNear near[SIM_MAX_MISSES];
  guint n_near;
  guint64 legal_count, too_risky_count, tier1_count, templates_count;
  guint64 rejected[MODEL_LEGAL_N];
  /* current template */
  const SimTemplateKey *key;
  gboolean priced;
  CostTemplate tmpl;
  double *layer_s;       /* (owned) scratch of the balance */
  guint32 *balanced;     /* (owned) */
  GHashTable *pipelines; /* (owned) balanced SimPipeline by its lists */
} SimWorker;

void sim_worker_init (SimWorker *worker, SimShared *shared, double slack_ratio);
void sim_worker_clear (SimWorker *worker);
/* Takes templates until none is left; run by each thread. */
void sim_worker_run (SimWorker *worker);
/* Stops every thread; takes @error, keeps the first. */
void sim_shared_fail (SimShared *shared, GError *error);

/* Tier 2: exact predictions of @pending, in ascending lower bound, until no bound can win. */
typedef struct {
  SimShared *shared;
  const GArray *pending; /* (borrowed) SimCandidate, sorted */
  GMutex lock;
  GArray *plans;       /* (owned) SimPlan, heap-free: kept sorted, at most K, under lock */
  guint64 tier2_count; /* under lock */
} SimExact;
void sim_exact_init (SimExact *exact, SimShared *shared, const GArray *pending);
void sim_exact_clear (SimExact *exact);
void sim_exact_run (SimExact *exact); /* by each thread */
/* K-th best step so far; infinity until there are K. */
double sim_exact_threshold_s (const SimExact *exact);
G_END_DECLS
