/* app/node-private.h - the benchmarks of a node, what was measured, and what the cost model says.
 *
 * A benchmark is measured and stored whole; its points are what the fit sees. A point is a sum of
 * ops of one program, a collective or message alone, or a whole step.
 */
#pragma once
#include "costmodel/evaluate.h"
#include "costmodel/fit.h"
#include "costmodel/opcost.h"
#include "db/store.h"
#include "exec/bench.h"
G_BEGIN_DECLS

/* A model, job and layout. Its address must not change: a rank map points into it. */
typedef struct {
  ModelArch *arch; /* (owned) */
  ModelJob job;
  ModelLayout layout;
  ModelRankMap map;
} NodeProgram;
void node_program_free (NodeProgram *program);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (NodeProgram, node_program_free)
/* Takes @arch. @dtype: unless the layout says fp32. NULL if exec does not run it. */
NodeProgram *node_program_new (ModelArch *arch, const ModelProfile *profile,
                               const char *layout_text, guint64 seq, guint64 global_batch,
                               guint32 ranks, ModelDtype dtype, GError **error);

typedef enum { NODE_OPS, NODE_COLLECTIVE, NODE_MESSAGE, NODE_STEP } NodePointKind;

typedef struct {
  ModelOp op;
  double times;
} NodeTerm;

typedef struct {
  NodePointKind kind;
  char *benchmark, *item;     /* (owned) */
  const char *word;           /* static: kind of op or collective, "step", … */
  const NodeProgram *program; /* (borrowed, nullable) STEP; OPS with collectives */
  GArray *terms;              /* (owned, nullable) NodeTerm */
  ModelCollectiveKind collective;
  guint32 size, stride; /* MESSAGE: stride is the distance */
  guint64 bytes;
  double measured_s; /* NaN: not yet */
  double in_step;    /* OPS: executions in one step of its benchmark */
  double weight;
  guint64 repeats;
} NodePoint;
void node_point_free (NodePoint *point);
#define NODE_STEP_WEIGHT 6.0 /* a step counts as so many ops: steps are what is to be predicted */

typedef enum { NODE_BENCH_MISSING, NODE_BENCH_DONE, NODE_BENCH_WITHOUT_RESULT } NodeBenchState;

typedef struct {
  ExecBench bench;
  char *key;            /* (owned) names it for ever */
  NodeProgram *program; /* (owned, nullable) */
  GPtrArray *points;    /* (owned) NodePoint */
  guint *point_of_op;   /* (owned, nullable) per op of the program; G_MAXUINT: none */
  double ops_s;         /* of a step: its ops at their least times; 0: unknown */
  NodeBenchState state;
  guint64 bytes[EXEC_RESIDENT_N_KINDS]; /* RESIDENT */
  double *device_s;                     /* (owned) per rank: GEMMs of a program, or a message */
} NodeBench;

/* What is calibrated. All borrowed. */
typedef struct {
  const TopoMachine *machine;
  const ModelProfile *profile; /* plait */
  guint32 ranks;
  ModelDtype dtype; /* of programs */
  double budget_s;
} NodeSetting;

/* Every benchmark worth measuring, most general first. @numbers: the base's, to leave out what
 * would take too long. (owned) NodeBench */
GPtrArray *node_benches_new (const NodeSetting *setting, const CostNumbers *numbers);
/* Takes what the ranks measured. */
void node_bench_take (NodeBench *bench, const ExecBenchSheet *sheets, guint32 ranks);
/* The rows to store, and back. @strings: holds their text. */
GArray *node_bench_rows (const NodeBench *bench, const ExecBenchSheet *sheets, guint32 ranks,
                         GStringChunk *strings);
/* @rows: DbPointRecord of all benchmarks, oldest first: the newest of each counts. */
void node_benches_restore (GPtrArray *benches, const GArray *rows, guint32 ranks);

/* Points of the runs of exec on this machine; runs whose model cannot be read any more are left
 * out. @programs: (owned by the caller) what the points borrow. */
gboolean node_exec_points (const NodeSetting *setting, const BaseCatalog *catalog, DbDatabase *db,
                           const char *topology_hash, const char *backend, GPtrArray *programs,
                           GPtrArray *points, guint *out_runs, GError **error);

/* What pricing needs, made once for a set of numbers. Plain value; borrows. */
typedef struct {
  const NodeSetting *setting;
  const CostNumbers *numbers;
  CostContext alone; /* of ops that talk to nobody */
} NodePricer;
void node_pricer_init (NodePricer *pricer, const NodeSetting *setting, const CostNumbers *numbers);
/* Seconds of @point. NaN: it cannot be priced. */
double node_point_s (const NodePoint *point, const NodePricer *pricer);
/* The shares of a benchmark's points in its step, as weights. @ops_s: of the step, 0: unknown. A
 * step far above its ops was disturbed, and counts less. */
void node_points_weigh (GPtrArray *points, double ops_s);

/* ---- the fit ---- */

typedef struct {
  char *group;     /* (owned) "gpu cpu" */
  const char *key; /* static */
  double prior, prior_sd;
  double value, sd;  /* after the fit */
  guint n_points;    /* that say something about it */
  gboolean measured; /* read off directly, not fitted */
} NodeValue;

typedef struct {
  const NodeSetting *setting;
  CostCalibration *calibration; /* (owned) the base with the numbers at the fit */
  GArray *values;               /* (owned) NodeValue; fitted first */
  guint n_fitted;
  CostNumbers base;        /* (owned) */
  const GPtrArray *points; /* (borrowed) NodePoint with a measurement */
  CostFitPoint at;         /* (owned) */
  double *base_s, *fit_s;  /* (owned) predictions per point */
  double sigma;            /* the profile's: of steps that the fit has not seen; NaN: too few */
  guint n_steps;
} NodeFit;
/* @base_text: the calibration as INI: priors are its numbers and spreads. */
gboolean node_fit_init (NodeFit *fit, const NodeSetting *setting, const char *base_text,
                        const char *base_name, GError **error);
void node_fit_clear (NodeFit *fit);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (NodeFit, node_fit_clear)
/* Fits to @points. @quick: a few rounds without steps, to choose what to measure next. */
gboolean node_fit_run (NodeFit *fit, const GPtrArray *points, gboolean quick, GError **error);
/* How little is known of each of @benches that is missing: log standard deviation of its time by the
 * fit's spreads and by what the formulas leave of messages; and the time one run of it should take.
 * @out_doubts, @out_times_s: (caller's) benches->len. */
gboolean node_fit_doubts (NodeFit *fit, const GPtrArray *benches, double *out_doubts,
                          double *out_times_s);
/* Leaves steps out in turn, and sets the profile's sigma by how far off they then are. */
gboolean node_fit_judge (NodeFit *fit, GError **error);
/* A number that was measured itself. */
void node_fit_put (NodeFit *fit, const char *group, const char *key, double value, double sd,
                   guint n_points);
G_END_DECLS
