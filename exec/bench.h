/* exec/bench.h - micro-benchmarks: short programs timed op by op, collectives, messages, copies.
 *
 * Everything goes through exec/backend.h and exec/comm.h, so a backend that runs programs can be
 * calibrated. Compute is not timed in loops of one kernel but inside steps of small programs, where
 * caches, clocks and the other ranks are as they are in a step.
 *
 * All ranks of the job measure the same benchmark together. Plain values: they travel through
 * shared memory.
 */
#pragma once
#include "exec/backend.h"
#include "exec/progress.h"
#include "model/op.h"
#include "model/profile.h"
#include <glib.h>
G_BEGIN_DECLS

typedef enum {
  EXEC_BENCH_PROGRAM,    /* steps of a layout of a model; seconds by op of the rank's program */
  EXEC_BENCH_COLLECTIVE, /* one collective on all groups of one kind at once */
  EXEC_BENCH_MESSAGE,    /* one message from a rank to another, half of a round trip */
  EXEC_BENCH_COPY,       /* a copy inside the device's memory */
  EXEC_BENCH_LAUNCH,   /* a kernel of no work: waited for (seconds[0]), one of many (seconds[1]) */
  EXEC_BENCH_RESIDENT, /* bytes beside the arena: bytes[ExecResident] */
  EXEC_BENCH_N_KINDS
} ExecBenchKind;
const char *exec_bench_kind_name (ExecBenchKind kind); /* "program", … */

typedef enum {
  EXEC_RESIDENT_CONTEXT,      /* the process, or its device's context, before transport or kernel */
  EXEC_RESIDENT_COMMUNICATOR, /* what joining the job and one collective added */
  EXEC_RESIDENT_WORKSPACE,    /* the math library's: set aside for it, and with a first GEMM */
  EXEC_RESIDENT_N_KINDS
} ExecResident;

#define EXEC_BENCH_MAX_OPS 2048

typedef struct {
  ExecBenchKind kind;
  /* PROGRAM */
  char arch[2048];  /* the model as INI */
  char layout[128]; /* layout text */
  ModelDtype dtype; /* fp32 or bf16, whatever the layout says */
  guint64 seq, global_batch;
  /* COLLECTIVE: groups of @size ranks, @stride apart; MESSAGE: @from and @to */
  ModelCollectiveKind collective; /* all_reduce, all_gather or reduce_scatter */
  guint32 size, stride, from, to;
  guint64 bytes; /* as ModelOp.message_bytes; COPY: bytes copied */
  /* How long to repeat it: at least EXEC_BENCH_LEAST times, then while @limit_s lasts. */
  double limit_s;
} ExecBench;
#define EXEC_BENCH_LEAST 3
#define EXEC_BENCH_MOST  1000

typedef enum {
  EXEC_BENCH_MEASURED,
  EXEC_BENCH_DOES_NOT_FIT, /* in the memory of a rank */
  EXEC_BENCH_FAILED,       /* @message says why */
} ExecBenchStatus;

/* What one rank measured. */
typedef struct {
  ExecBenchStatus status;
  char message[200];
  guint repeats;
  guint n; /* numbers in @seconds */
  double
      seconds[EXEC_BENCH_MAX_OPS]; /* the least of all repeats; PROGRAM: of each op, the mean over
                                         the micro-batches of the fastest step */
  double step_s, step_s_max;       /* PROGRAM: fastest and slowest step */
  /* PROGRAM: one step with each op at its least time of all micro-batches and steps, and of that the
   * GEMMs: what the device does when nothing disturbs it */
  double least_s, gemm_s;
  guint64 bytes[EXEC_RESIDENT_N_KINDS];
} ExecBenchSheet;

/* Where a rank stands between benchmarks. */
typedef struct {
  const ExecBackend *backend;  /* (borrowed) */
  const ModelProfile *profile; /* (borrowed) plait */
  guint32 rank, world;
  ExecProgress *progress; /* (borrowed, nullable) */
  double slowdown;        /* test hook, see ExecRunner */
  guint64 resident[EXEC_RESIDENT_N_KINDS];
  float *cell; /* (owned) of the device: what ranks agree over, also when memory has run out */
} ExecBencher;

/* Before comm->open, or open: notes what the process holds. $PLAIT_TEST_SLOW_RANK=RANK:FACTOR plants a slow
 * device, for tests. */
void exec_bencher_init (ExecBencher *bencher, const ExecBackend *backend,
                        const ModelProfile *profile);
/* After comm->open (@world > 1) or open, on all ranks: makes the group of all ranks, notes again. */
gboolean exec_bencher_join (ExecBencher *bencher, guint32 rank, guint32 world, GError **error);
/* Before comm->close. */
void exec_bencher_leave (ExecBencher *bencher);
/* All ranks call it with the same @bench. What one rank cannot hold no rank measures. FALSE: the
 * transport failed; the job is over. */
gboolean exec_bench_measure (ExecBencher *bencher, const ExecBench *bench, ExecBenchSheet *out,
                             GError **error);
G_END_DECLS
