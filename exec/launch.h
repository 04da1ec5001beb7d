/* exec/launch.h - starting ranks, watching them, and being one.
 *
 * The process the user starts makes a folder for the job with a board (one ExecProgress per rank,
 * shared memory), starts mpirun with the same command line and watches the board: a rank that is
 * gone, has failed, or whose clock stands still ends the job. A rank finds the folder in its
 * environment. Under mpirun or srun there is no folder: every rank watches itself.
 */
#pragma once
#include "exec/run.h"
G_BEGIN_DECLS

typedef enum {
  EXEC_PLACE_LAUNCHER, /* started by the user: starts the ranks */
  EXEC_PLACE_RANK,     /* started by a launcher of ours */
  EXEC_PLACE_DIRECT,   /* started by mpirun, srun or torchrun */
} ExecPlace;
ExecPlace exec_place (void);

/*
 * As launcher: runs @argv (NULL-terminated, argv[0] replaced by this program) on @ranks ranks and
 * brings back what rank 0 found. @threads: of the math library, per rank. @timeout_s: how long no
 * rank may get on.
 */
gboolean exec_launch (const char *const *argv, guint32 ranks, guint threads, double timeout_s,
                      ExecResult *out, GError **error);

/* As rank: joins, runs, leaves. @out is filled on rank 0 only; *out_rank says which this is. With
 * one rank and no launcher no transport is opened. Does not return on failure among several ranks:
 * the whole job ends, after one line where there is no launcher to say it. */
gboolean exec_be_rank (ExecRequest *request, double timeout_s, guint32 ranks, guint32 *out_rank,
                       ExecResult *out, GError **error);
G_END_DECLS
