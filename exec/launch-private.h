/* exec/launch-private.h - a job of ranks under mpirun, for those who start one and watch it. */
#pragma once
#include "exec/board-private.h"
#include "exec/launch.h"
G_BEGIN_DECLS

typedef struct {
  char *folder;        /* (owned) of the job */
  ExecProgress *board; /* (borrowed) */
  guint32 ranks;
  double timeout_s;
  GPid mpirun;
  gboolean started, ended;
  int status;
  guint64 ops_seen;
  gint64 moved_us;
} ExecWatch;

/* Ranks that mpirun or srun started find each other over MPI, whatever they talk over later: names
 * that transport to @backend, before its comm->open. */
gboolean exec_find_bootstrap (const ExecBackend *backend, GError **error);

/* Makes the folder with its board. */
gboolean exec_watch_prepare (ExecWatch *watch, guint32 ranks, double timeout_s, GError **error);
/* Starts @argv (see exec_launch) on the ranks. */
gboolean exec_watch_start (ExecWatch *watch, const char *const *argv, guint threads,
                           GError **error);
/* FALSE: a rank failed, died or hangs. *out_ended: the job ended well. */
gboolean exec_watch_look (ExecWatch *watch, gboolean *out_ended, GError **error);
/* From now on standing still counts again. */
void exec_watch_restart (ExecWatch *watch);
/* Ends what is left of the job and removes its folder. */
void exec_watch_clear (ExecWatch *watch);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ExecWatch, exec_watch_clear)
G_END_DECLS
