/* exec/progress.h - what a rank is doing, in memory that whoever watches it shares. */
#pragma once
#include <glib.h>
G_BEGIN_DECLS
typedef enum {
  EXEC_STATE_STARTING,
  EXEC_STATE_COMPUTING,
  EXEC_STATE_WAITING, /* for another rank */
  EXEC_STATE_DONE,
  EXEC_STATE_FAILED
} ExecState;
typedef struct {
  volatile gint32 pid; /* 0: not started */
  volatile gint32 state;
  volatile guint32 step;
  volatile guint64 ops_done; /* grows with every op */
  volatile gint64 beat_us;   /* monotonic clock, by a thread of its own */
  char what[48];             /* the op */
  char message[256];         /* of a failure */
} ExecProgress;
G_END_DECLS
