/* sim/worker-private.h - one thread of a search. */
#pragma once
#include "sim/search.h"
#include "sim/shape-private.h"
#include "sim/topk.h"
#include <stdatomic.h>
G_BEGIN_DECLS

#define SIM_MAX_MISSES 3

/* A family in the order of the search: the most promising first, so that what follows can be left
 * out. */
typedef struct {
  guint32 index;  /* into the space's families */
  double guess_s; /* what the fastest layout of it may take */
  double least_s; /* no layout of it is faster; INFINITY: none is legal, or none may fit */
} SimRanked;

/* What ranking a family finds and visiting it needs again. */
typedef struct {
  CostTemplate *tmpl; /* (borrowed) one of templates below, unset before */
  guint n_shapes;
  SimShape *shapes; /* (owned) that may fit */
} SimPriced;

/* What threads share. */
typedef struct {
  const CostProblem *problem;
  const SimSpace *space;
  const SimSearchOptions *options;
  SimRanked *ranked; /* (owned) one per family; each is written by one thread, then sorted */
  SimPriced *priced; /* (owned) (nullable) by family: what ranking has found, while it is small */
  CostTemplate *templates; /* (owned) (nullable) by family; large, so not cleared */
  atomic_uint next;        /* family, then pending candidate, to take */
  /* layouts whose memory cannot do are left out unseen: not exhaustive, and not asked what is
   * nearest to fitting */
  gboolean skips_unfit;
  atomic_bool unfit_skipped; /* some were */
  atomic_bool stop;
  atomic_ullong done;
  _Atomic double threshold_s; /* K-th best estimate of the thread that has the best one */
  GMutex lock;
  GError *error;           /* (owned) the first, under lock */
  gint64 last_progress_us; /* under lock */
} SimShared;

typedef struct {
  guint64 need_bytes;
  CostBound bound;
  ModelLayout layout;
} SimNear;

/* Of a placement kept for the templates and families that share its groups. */
typedef struct {
  guint32 tp, cp, ep, etp, pp, hsdp; /* tp 0: empty */
  guint64 template_serial;           /* the template whose sizes it has */
} SimPlaced;

/* The need at which the risk is the most that is accepted, for layouts of one spread. */
typedef struct {
  double sigma;
  double most_need_bytes;
} SimLimit;
#define SIM_N_LIMITS 8

/* What the current template and pp leave for layers, in one way to shard. */
typedef struct {
  SimSlot slot;
  guint kept; /* CostKept, or one more (unfit.c) */
  guint32 pp;
  CostRoom room;
} SimRoom;
#define SIM_N_ROOMS (2 * SIM_MAX_SLOTS)

/* Tier 1 of one thread. */
typedef struct {
  SimShared *shared;
  SimTopK estimates;      /* K best closed forms so far: where tier 2 is worth while */
  GArray *pending;        /* (owned) SimCandidate whose bound is within those */
  guint compact_at;       /* length of pending at which the hopeless ones go */
  double least_dropped_s; /* least lower bound that was not kept in pending */
  double slack_ratio;     /* how far above the K-th estimate bounds are still kept */
  double most_s;          /* bounds above it cannot win: K plans are known to be as fast */
  SimNear near[SIM_MAX_MISSES];
  guint n_near;
  SimCounts counts;
  guint64 too_risky_count, tier1_count, templates_count;
  GArray *shapes; /* (owned) SimShape of the current family */
  /* current template */
  guint recompute; /* index into the space's list */
  guint64 template_serial;
  CostTemplate *tmpl;      /* (borrowed) own_tmpl, or what ranking has priced */
  CostTemplate *own_tmpl;  /* (owned) */
  CostGemmMemo *gemm_memo; /* (owned) */
  /* the family priced last, for others with the same groups */
  const CostTemplate *last_tmpl; /* (borrowed) (nullable) */
  SimFamily last_family;
  ModelLayout layout;
  SimPlaced *placed;         /* (owned) direct-mapped cache */
  CostPlacement *placements; /* (owned) of those; large, so not cleared */
  SimLimit limits[SIM_N_LIMITS];
  guint n_limits; /* ever made: the oldest goes */
  SimRoom rooms[SIM_N_ROOMS];
  guint n_rooms;
  /* uneven stages */
  double *layer_s;                 /* (owned) scratch of the balance */
  guint32 *balanced, *most_layers; /* (owned) */
  GHashTable *pipelines;           /* (owned) balanced SimPipeline by its lists */
} SimWorker;

void sim_worker_init (SimWorker *worker, SimShared *shared, double slack_ratio, double most_s);
void sim_worker_clear (SimWorker *worker);
/* Counts what is legal and bounds each family from below; run by each thread. */
void sim_worker_rank (SimWorker *worker);
/* Takes families until none is left that may win; run by each thread. */
void sim_worker_run (SimWorker *worker);
/* Stops every thread; takes @error, keeps the first. */
void sim_shared_fail (SimShared *shared, GError *error);

/* ---- worker.c: candidates ---- */

/* May no layout with a step of at least @least_s be among the K best? Notes that it was left out.
 * FALSE always in exhaustive searches. */
gboolean sim_worker_prunes (SimWorker *worker, double least_s);
/* A costed layout that may be used: worker->layout. */
void sim_worker_offer (SimWorker *worker, const CostBound *bound);
/* One whose risk is too high. */
void sim_worker_refuse (SimWorker *worker, const CostBound *bound);
const CostPlacement *sim_worker_placement (SimWorker *worker);

/* ---- unfit.c: what need not be looked at, since it cannot fit ---- */

/* The need at which the risk is just acceptable: the risk grows with the need. INFINITY: any. */
double sim_worker_most_need_bytes (SimWorker *worker, double sigma);
/* Whenever the template's prices or recompute setting change. */
void sim_worker_forget_rooms (SimWorker *worker);
/* Slots of @shape, a bit each, that may fit with worker->layout's recompute and some cut. All of
 * them where nothing is skipped. */
guint32 sim_worker_fitting_slots (SimWorker *worker, const SimShape *shape, CostKept kept);
/* Seconds of a micro-batch that the layers recompute at least where @slot fits, each layer as
 * worker->tmpl's blocks do or not at all. */
double sim_worker_least_recompute_s (SimWorker *worker, const SimShape *shape, const SimSlot *slot);
/* Drops worker->shapes of which no slot can fit, whatever is recomputed, and such slots. */
void sim_worker_drop_unfit (SimWorker *worker);

/* ---- visit.c: all layouts of a family ---- */

/* Prices what the templates of @family share, its shapes in worker->shapes, into worker->tmpl, and
 * drops shapes that cannot fit. *out_least_s: no layout of it is faster; INFINITY: none may fit. */
gboolean sim_worker_price_family (SimWorker *worker, const SimFamily *family, double *out_least_s);
/* Of the family just priced: a guess at its fastest layout, for the order of the search alone. */
double sim_worker_guess_s (SimWorker *worker);
/* @priced: (nullable) what ranking has found; its template is priced on. */
gboolean sim_worker_visit (SimWorker *worker, const SimFamily *family, SimPriced *priced);

/* ---- uneven.c: stage lists of the current template; NULL where "auto" gives the same ---- */

/* Owns its SimPipelines. */
GHashTable *sim_uneven_table_new (void);
gboolean sim_uneven_is_tried (const SimWorker *worker, const SimPipeline *pipeline);
const SimPipeline *sim_uneven_by_time (SimWorker *worker, const SimPipeline *pipeline);
/* The fastest split of which every stage stays within the memory limit, sharded as
 * worker->layout says; NULL if there is none. */
const SimPipeline *sim_uneven_by_memory (SimWorker *worker, const SimPipeline *pipeline,
                                         const CostPlacement *placement);

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
