/* exec/runner.h - runs one rank's program with real tensors.
 *
 * Loss: mean over all tokens of the global batch. Every micro-batch's gradient is scaled by its
 * share of the rank's tokens; after the sum over data-parallel ranks gradients are divided by dp.
 */
#pragma once
#include "exec/backend.h"
#include "exec/memory.h"
#include "exec/progress.h"
#include <time.h>
G_BEGIN_DECLS

typedef enum {
  EXEC_INJECT_NONE,
  EXEC_INJECT_SWAP_SHARDS,      /* two tp ranks hold each other's rows of every fc2 */
  EXEC_INJECT_SKIP_ALLREDUCE,   /* one sum over a group does not happen */
  EXEC_INJECT_WRONG_DP_AVERAGE, /* gradients are not divided by dp */
  EXEC_INJECT_ROTARY_OFFSET,    /* queries are rotated one position too far */
  EXEC_INJECT_STALE_GATHER,     /* a gather brings the other ranks' old values */
  EXEC_INJECT_N_KINDS
} ExecInject;
extern const char *const exec_inject_names[]; /* NULL-terminated: "none", "swap_shards", … */

/* Time by kind of op: ModelOpKind, then MODEL_OP_N_KINDS + ModelCollectiveKind. */
#define EXEC_N_BUCKETS (MODEL_OP_N_KINDS + MODEL_COLLECTIVE_N_KINDS)
static inline guint
exec_op_bucket (const ModelOp *op)
{
  return op->kind == MODEL_OP_COLLECTIVE ? MODEL_OP_N_KINDS + op->collective : op->kind;
}
const char *exec_bucket_name (guint bucket);
typedef struct {
  guint64 count;
  double seconds;   /* from begin to end, on the stream where it ran */
  double exposed_s; /* how long compute was at it, or waited for it */
} ExecBucket;

/* A point of the device's clock: exec/run_clock.c. */
typedef enum {
  EXEC_MARK_NOTHING, /* what ended here is no op */
  EXEC_MARK_OP,      /* an op ended */
  EXEC_MARK_POSTED,  /* an op was given to another stream, which runs it beside compute */
  EXEC_MARK_WAIT,    /* compute has waited for such an op */
  EXEC_MARK_BESIDE,  /* such an op, or a piece of it, ended on its own stream */
} ExecMarkKind;
typedef struct {
  ExecMarkKind kind;
  const ModelOp *op; /* (borrowed, nullable) */
  guint from;        /* the mark before */
} ExecMark;

/* One op of the program, on the compute stream. Starts with least_s = INFINITY. */
typedef struct {
  double step_s;  /* all executions of the last step */
  double least_s; /* the fastest execution of all steps */
  guint32 count;  /* executions in the last step */
} ExecOpTime;

/* Where a bucket of gradients and its parameters are in the step: exec/run_grads.c. */
typedef struct {
  guint64 writes_left; /* until the bucket is complete */
  gboolean started;    /* its reduction has begun */
  gboolean gathering;  /* its parameters are gathered beside compute, which has not waited yet */
} ExecReduction;

typedef struct {
  const ExecRank *rank;        /* (borrowed) */
  const ExecBackend *backend;  /* (borrowed) its fp32 table: states, gradients, statistics */
  const ExecBackend *elements; /* (borrowed) its table for weights and activations */
  ExecMemory memory;
  float *base; /* of the arena */
  guint64 base_bytes;
  float hyper[4]; /* Adam: rate, beta1, beta2, epsilon */
  ExecInject inject;
  ExecProgress *progress; /* (borrowed, nullable) */
  gint32 *ids;            /* (owned) host buffer of tokens */
  GArray *marks;          /* (owned) ExecMark of this step, where the device has a clock */
  guint last_mark;        /* of compute */
  gboolean runs_beside;   /* the backend can, and is not at its rehearsal */
  gboolean posted;        /* the op at hand was given to another stream */
  gboolean observes;      /* the device's state is looked at in the middle of the step */
  gboolean rehearsed;     /* every kernel and connection of a step has been used once */
  guint32 step;           /* steps done */
  double loss;            /* this rank's share of the last step's loss */
  gboolean skipped;       /* the injected fault of this step has happened */
  ExecReduction reductions[EXEC_MAX_BUCKETS]; /* by bucket of the gradients */
  guint64 sent[2];                            /* messages sent to the next and the previous stage */
  guint64 moved_bytes;                        /* sent by collectives and messages, last step */
  ExecBucket buckets[EXEC_N_BUCKETS];         /* of the last step */
  ExecOpTime *op_times;                       /* (borrowed, nullable) by op of the program */
  double slowdown; /* test hook: compute takes this many times as long; 0 and 1: as it does */
  void (*before_optimizer) (gpointer user_data);
  gpointer user_data;
} ExecRunner;

/* Allocates the arena (its size is known from exec_memory_play) and fills the weights.
 * @limit_bytes: G_MAXUINT64 for none. */
gboolean exec_runner_init (ExecRunner *runner, const ExecRank *rank, const ExecBackend *backend,
                           ExecInject inject, guint64 limit_bytes, GError **error);
void exec_runner_clear (ExecRunner *runner);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ExecRunner, exec_runner_clear)
/* Makes the groups the program uses; every rank of the world calls it once. */
gboolean exec_groups_make (const ExecRank *rank, const ExecBackend *backend, GError **error);
#define EXEC_GROUP_WORLD MODEL_GROUP_N_KINDS
/* One training step. */
gboolean exec_runner_step (ExecRunner *runner, GError **error);

/* For differences only. */
static inline double
exec_clock_s (void)
{
  struct timespec now;
  clock_gettime (CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline float *
exec_at (const ExecRunner *r, guint64 offset)
{
  return r->base + offset / sizeof (float);
}
/* Element @at of the weights. */
static inline void *
exec_weight (const ExecRunner *r, guint64 at)
{
  return (char *)exec_at (r, r->memory.weights) + at * r->rank->element_bytes;
}
/* The same in fp32 runs. */
static inline float *
exec_weights (const ExecRunner *r)
{
  return exec_at (r, r->memory.weights);
}
static inline float *
exec_gradients (const ExecRunner *r)
{
  return exec_at (r, r->memory.gradients);
}

/* exec/run_fill.c: start values. */
void exec_run_fill (ExecRunner *runner);

/* exec/run_op.c: computes. */
void exec_run_compute (ExecRunner *runner, const ModelOp *op, guint32 microbatch);
gboolean exec_run_loss_exchange (ExecRunner *runner, const ModelOp *op, guint32 microbatch,
                                 GError **error);
void *exec_run_tensor (const ExecRunner *runner, guint32 id, guint32 microbatch);

/* exec/run_comm.c: collectives within a pass, and messages between stages. */
gboolean exec_run_collective (ExecRunner *runner, const ModelOp *op, guint32 microbatch,
                              GError **error);
gboolean exec_run_message (ExecRunner *runner, const ModelOp *op, const ModelChunk *chunk,
                           guint32 microbatch, GError **error);
/* Compute waits for what @op needs of that; NULL: for all of it. */
gboolean exec_run_join (ExecRunner *runner, const ModelOp *op, guint32 microbatch, GError **error);
/* The injected fault strikes once per step. */
gboolean exec_run_strikes (ExecRunner *runner, ExecInject inject);

/* exec/run_grads.c: the tail, and what of it runs under the passes. */
void exec_grads_begin_step (ExecRunner *runner);
/* @op of a pass is about to run: its weights must have been gathered. */
gboolean exec_grads_before_op (ExecRunner *runner, const ModelOp *op, GError **error);
/* @op of a pass has run: a bucket that it completed is reduced. */
gboolean exec_grads_after_op (ExecRunner *runner, const ModelOp *op, GError **error);
gboolean exec_run_tail (ExecRunner *runner, const ModelOp *op, GError **error);
/* Compute waits for gathers that the next step would wait for: before anybody reads the weights. */
gboolean exec_grads_settle (ExecRunner *runner, GError **error);

/* exec/run_clock.c: what the device's clock says of the ops. */
void exec_run_clock_start (ExecRunner *runner);
void exec_run_clock_mark (ExecRunner *runner, ExecMarkKind kind, const ModelOp *op);
/* Two marks for @op on another stream, or EXEC_NO_MARK; @bucket: of a gather that goes on into the
 * next step, -1. */
guint exec_run_clock_beside (ExecRunner *runner, const ModelOp *op, gint bucket);
void exec_run_clock_account (ExecRunner *runner, const ModelOp *op, double seconds);
/* After synchronize. */
void exec_run_clock_read (ExecRunner *runner);
G_END_DECLS
