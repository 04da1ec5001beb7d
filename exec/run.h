/* exec/run.h - what one rank of `plait exec` does: verify, warm up, measure, report to rank 0. */
#pragma once
#include "exec/verify.h"
G_BEGIN_DECLS

typedef struct {
  const ModelArch *arch;       /* (borrowed) */
  const ModelJob *job;         /* (borrowed) */
  const ModelLayout *layout;   /* (borrowed) resolved, fp32 */
  const ModelProfile *profile; /* (borrowed) plait */
  const ExecBackend *backend;  /* (borrowed) */
  gboolean verify;
  gboolean slice; /* the fullest rank alone: exec/slice.h */
  ExecInject inject;
  guint warmup, steps;
  guint64 limit_bytes;    /* of the arena, G_MAXUINT64: none */
  ExecProgress *progress; /* (borrowed, nullable) of this rank */
} ExecRequest;

/* When the bytes of rank 0's device are counted, as its driver sees them. */
typedef enum {
  EXEC_USED_CONTEXT,       /* nothing but the device's context; 0: not known */
  EXEC_USED_WORKSPACE,     /* and the math library with what kernels work in; 0: not known */
  EXEC_USED_COMMUNICATORS, /* and those of the program's groups, before their first message */
  EXEC_USED_ARENA,
  EXEC_USED_FIRST_STEP, /* which loads kernels and connects ranks */
  EXEC_USED_END,
  EXEC_USED_N_PHASES
} ExecUsedPhase;
extern const char *const exec_used_names[]; /* NULL-terminated: "context", "workspace", … */

/* What rank 0 knows at the end. Plain value but for the strings. */
typedef struct {
  guint32 ranks;
  ExecVerdict verdict;
  double loss_first, loss_last;
  double step_s, step_s_min, step_s_max; /* median and range over the measured steps */
  guint64 peak_bytes;                    /* fullest rank */
  guint64 predicted_peak_bytes;          /* the same by exec_memory_play */
  guint32 fullest_rank;
  guint64 memory_bytes[EXEC_MEMORY_N_KINDS]; /* of the fullest rank at its peak */
  guint64 moved_bytes;                       /* of rank 0 per step */
  guint64 used_bytes[EXEC_USED_N_PHASES];    /* 0: not known */
  char device[256];                          /* rank 0's, in words; "" without */
  ExecBucket ops[EXEC_N_BUCKETS];            /* the fastest step, mean over ranks; counts of all */
} ExecResult;

/* Every rank calls it after comm->open; @rank of the world. */
gboolean exec_run (const ExecRequest *request, guint32 rank, ExecResult *out, GError **error);
/* Peak of the fullest rank, and which it is; without running anything. */
gboolean exec_predict_peak (const ExecRequest *request, guint64 *out_bytes, guint32 *out_rank,
                            guint64 out_kinds[EXEC_MEMORY_N_KINDS], GError **error);
G_END_DECLS
