/* db/process-private.h - the process that works on a run, and whether it still does.
 *
 * A process id alone says little: it is used again after a process has ended, it is kept by a dead
 * process until its parent asks for it, and it means another process in another container or on
 * another machine. Stored beside it are the host's name, the id space (which boot of which kernel,
 * which PID namespace: proc(5), pid_namespaces(7)) and the start time in clock ticks after boot
 * (field 22 of /proc/PID/stat), which together mean one process for ever.
 */
#pragma once
#include "db/sql-private.h"
G_BEGIN_DECLS

typedef enum {
  DB_PROCESS_AT_WORK,
  DB_PROCESS_GONE,    /* ended, a zombie, or of an earlier boot of this host */
  DB_PROCESS_UNKNOWN, /* of another host or container: cannot be asked from here */
} DbProcessState;

typedef struct {
  const char *host;
  gint64 pid;
  const char *pid_space; /* (nullable) not known */
  gint64 start_ticks;    /* 0: not known */
} DbProcess;

/* Looks for @process where this one runs. Without an id space the host's name stands for it. */
DbProcessState db_process_state (const DbProcess *process);

/* Writes down that this process works on a run (again). */
gboolean db_process_claim (DbDatabase *db, gint64 run_id, GError **error);

/* Reads host, pid, pid_space, start_ticks from @first_column on. Text lives as long as the row. */
DbProcess db_process_of_row (DbStmt *row, int first_column);
G_END_DECLS
