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
  atomic_uint next;              /* template to take */
  _Atomic double threshold_s;    /* least of the threads' K-th best: no better bound needs tier 2 */
  atomic_bool stop;
  atomic_ullong done;
  GMutex lock;
  GError *error;                 /* (owned) the first, under lock */
  gint64 last_progress_us;       /* under lock */
} SimShared;

typedef struct {
  guint64 need_bytes;
  CostBound bound;
  ModelLayout layout;
} SimNear;

typedef struct {
  SimShared *shared;
  CostPipelineScratch *scratch;  /* (owned) */
  SimTopK top;
  SimNear near[SIM_MAX_MISSES];
  guint n_near;
  guint64 legal_count, too_risky_count, tier1_count, tier2_count, templates_count;
  guint64 rejected[MODEL_LEGAL_N];
  /* current template */
  const SimTemplateKey *key;
  gboolean priced;
  CostTemplate tmpl;
  double *layer_s;               /* (owned) scratch of the balance */
  guint32 *balanced;             /* (owned) */
  GHashTable *pipelines;         /* (owned) balanced SimPipeline by its lists */
} SimWorker;

void sim_worker_init (SimWorker *worker, SimShared *shared);
void sim_worker_clear (SimWorker *worker);
/* Takes templates until none is left; run by each thread. */
void sim_worker_run (SimWorker *worker);
G_END_DECLS
