/* exec/launch.c - starting the ranks and watching them. */
#include "exec/launch-private.h"
#include "exec/rendezvous.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define POLL_US     20000
#define GRACE_POLLS 100 /* 2 s for mpirun to end by itself and say why */

ExecPlace
exec_place (void)
{
  static const char *const launched[] = { "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK" };
  if (g_getenv (EXEC_JOB_VARIABLE) != NULL)
    return EXEC_PLACE_RANK;
  for (guint i = 0; i < G_N_ELEMENTS (launched); i++)
    if (g_getenv (launched[i]) != NULL)
      return EXEC_PLACE_DIRECT;
  return exec_rendezvous_in_environment () ? EXEC_PLACE_DIRECT : EXEC_PLACE_LAUNCHER;
}

/* More ranks than cores: waiting ranks have to give their core away. Else each spins on its own:
 * a core given away on a busy host comes back late. */
static gboolean
is_crowded (guint32 ranks)
{
  return (long)ranks > sysconf (_SC_NPROCESSORS_ONLN);
}

static char **
make_environment (const char *folder, guint32 ranks, guint threads)
{
  g_autofree char *count = g_strdup_printf ("%u", threads);
  char **env = g_get_environ ();
  env = g_environ_setenv (env, EXEC_JOB_VARIABLE, folder, TRUE);
  env = g_environ_setenv (env, "OMPI_ALLOW_RUN_AS_ROOT", "1", TRUE);
  env = g_environ_setenv (env, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", TRUE);
  env = g_environ_setenv (env, "OMPI_MCA_mpi_yield_when_idle", is_crowded (ranks) ? "1" : "0",
                          TRUE);
  env = g_environ_setenv (env, "OPENBLAS_NUM_THREADS", count, TRUE);
  return env;
}

static char **
make_command (const char *const *argv, guint32 ranks)
{
  g_autofree char *self = g_file_read_link ("/proc/self/exe", NULL);
  GPtrArray *words = g_ptr_array_new ();
  g_ptr_array_add (words, g_strdup ("mpirun"));
  /* Open MPI counts cores, not hardware threads */
  g_ptr_array_add (words, g_strdup ("--oversubscribe"));
  g_ptr_array_add (words, g_strdup ("--bind-to"));
  g_ptr_array_add (words, g_strdup ("none"));
  g_ptr_array_add (words, g_strdup ("-np"));
  g_ptr_array_add (words, g_strdup_printf ("%u", ranks));
  g_ptr_array_add (words, g_strdup (self != NULL ? self : argv[0]));
  for (guint i = 1; argv[i] != NULL; i++)
    g_ptr_array_add (words, g_strdup (argv[i]));
  g_ptr_array_add (words, NULL);
  return (char **)g_ptr_array_free (words, FALSE);
}

/* In mpirun before it starts: a group of its own, its words into the job's log, an end when the
 * launcher ends. */
static void
prepare_child (gpointer user_data)
{
  const char *log = user_data;
  int file = open (log, O_WRONLY | O_CREAT | O_APPEND, 0600);
  setpgid (0, 0);
  prctl (PR_SET_PDEATHSIG, SIGKILL);
  if (file >= 0) {
    dup2 (file, STDERR_FILENO);
    dup2 (file, STDOUT_FILENO);
  }
}

static gboolean
reap (ExecWatch *w)
{
  if (!w->ended && waitpid (w->mpirun, &w->status, WNOHANG) == w->mpirun)
    w->ended = TRUE;
  return w->ended;
}

/* Ends whatever of the job is left. */
static void
kill_all (ExecWatch *w)
{
  for (guint32 i = 0; i < w->ranks; i++)
    if (w->board[i].pid > 0)
      kill (w->board[i].pid, SIGKILL);
  if (!reap (w)) {
    kill (-w->mpirun, SIGKILL);
    waitpid (w->mpirun, &w->status, 0);
    w->ended = TRUE;
  }
}

static void
blame (const ExecWatch *w, guint32 rank, const char *what, GError **error)
{
  const ExecProgress *p = &w->board[rank];
  g_set_error (error, EXEC_ERROR, EXEC_ERROR_FAILED,
               "rank %u (process %d) %s in step %u, op '%s'; all ranks were stopped", rank, p->pid,
               what, p->step, p->what[0] != '\0' ? p->what : "start");
}

/* What mpirun said: which rank a signal ended, or its first line. */
static void
explain_end (const ExecWatch *w, GError **error)
{
  g_autofree char *path = g_build_filename (w->folder, "log", NULL);
  g_autofree char *log = NULL;
  guint rank = 0;
  int pid = 0, number = 0;
  if (!g_file_get_contents (path, &log, NULL, NULL))
    log = g_strdup ("");
  const char *noticed = strstr (log, "process rank ");
  const char *on = noticed != NULL ? strstr (noticed, "exited on signal ") : NULL;
  if (on != NULL && sscanf (noticed, "process rank %u with PID %d", &rank, &pid) == 2
      && sscanf (on, "exited on signal %d", &number) == 1 && rank < w->ranks) {
    g_autofree char *what = g_strdup_printf ("was killed by signal %d", number);
    blame (w, rank, what, error);
    return;
  }
  for (guint32 i = 0; i < w->ranks; i++)
    if (w->board[i].pid > 0 && w->board[i].state != EXEC_STATE_DONE) {
      blame (w, i, "ended", error);
      return;
    }
  g_strdelimit (log, "\n\t-", ' ');
  g_set_error (error, EXEC_ERROR, EXEC_ERROR_UNAVAILABLE,
               "mpirun could not start the ranks: %.300s", g_strstrip (log));
}

/* A rank that said that it failed. */
static gboolean
find_failed (const ExecWatch *w, GError **error)
{
  for (guint32 i = 0; i < w->ranks; i++)
    if (w->board[i].state == EXEC_STATE_FAILED) {
      g_set_error (error, EXEC_ERROR, EXEC_ERROR_FAILED, "rank %u: %s; all ranks were stopped", i,
                   w->board[i].message);
      return TRUE;
    }
  return FALSE;
}

/* Nothing moves: the rank whose clock stands, else one that waits for nobody. */
static gboolean
find_hung (ExecWatch *w, GError **error)
{
  gint64 now_us = g_get_monotonic_time ();
  guint64 ops = 0;
  guint32 culprit = 0;
  for (guint32 i = 0; i < w->ranks; i++)
    ops += w->board[i].ops_done + (w->board[i].state == EXEC_STATE_DONE);
  if (ops != w->ops_seen) {
    w->ops_seen = ops;
    w->moved_us = now_us;
  }
  if ((double)(now_us - w->moved_us) * 1e-6 < w->timeout_s)
    return FALSE;
  for (guint32 i = w->ranks; i-- > 0;)
    if (w->board[i].state != EXEC_STATE_WAITING && w->board[i].state != EXEC_STATE_DONE)
      culprit = i;
  for (guint32 i = 0; i < w->ranks; i++)
    if (w->board[i].beat_us > 0 && now_us - w->board[i].beat_us > 1000000)
      culprit = i;
  g_autofree char *what = g_strdup_printf ("does not get on (nothing for %g s)", w->timeout_s);
  blame (w, culprit, what, error);
  return TRUE;
}

static gboolean
has_dead (const ExecWatch *w)
{
  for (guint32 i = 0; i < w->ranks; i++)
    if (w->board[i].pid > 0 && w->board[i].state != EXEC_STATE_DONE
        && kill (w->board[i].pid, 0) != 0)
      return TRUE;
  return FALSE;
}

gboolean
exec_watch_look (ExecWatch *w, gboolean *out_ended, GError **error)
{
  *out_ended = FALSE;
  if (find_failed (w, error) || find_hung (w, error))
    return FALSE;
  if (!reap (w) && !has_dead (w))
    return TRUE;
  for (guint i = 0; i < GRACE_POLLS && !reap (w); i++)
    g_usleep (POLL_US);
  *out_ended = w->ended && WIFEXITED (w->status) && WEXITSTATUS (w->status) == 0;
  if (!*out_ended && !find_failed (w, error))
    explain_end (w, error);
  return *out_ended;
}

void
exec_watch_restart (ExecWatch *w)
{
  w->moved_us = g_get_monotonic_time ();
}

gboolean
exec_watch_prepare (ExecWatch *w, guint32 ranks, double timeout_s, GError **error)
{
  *w = (ExecWatch){ .ranks = ranks, .timeout_s = timeout_s };
  w->folder = g_dir_make_tmp ("plait-exec-XXXXXX", error);
  w->board = w->folder != NULL ? board_map (w->folder, ranks, TRUE, error) : NULL;
  return w->board != NULL;
}

gboolean
exec_watch_start (ExecWatch *w, const char *const *argv, guint threads, GError **error)
{
  g_auto (GStrv) env = make_environment (w->folder, w->ranks, threads);
  g_auto (GStrv) command = make_command (argv, w->ranks);
  g_autofree char *log = g_build_filename (w->folder, "log", NULL);
  g_autoptr (GError) reason = NULL;
  w->started = g_spawn_async (NULL, command, env, G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD,
                              prepare_child, log, &w->mpirun, &reason);
  if (!w->started)
    g_set_error (error, EXEC_ERROR, EXEC_ERROR_UNAVAILABLE,
                 "cannot start mpirun, which starts the ranks: %s (install openmpi-bin)",
                 reason->message);
  exec_watch_restart (w);
  return w->started;
}

void
exec_watch_clear (ExecWatch *w)
{
  if (w == NULL || w->folder == NULL)
    return;
  if (w->started)
    kill_all (w);
  board_remove (w->folder);
  g_clear_pointer (&w->folder, g_free);
}

gboolean
exec_launch (const char *const *argv, guint32 ranks, guint threads, double timeout_s,
             ExecResult *out, GError **error)
{
  g_auto (ExecWatch) w = { 0 };
  gboolean ended = FALSE;
  if (!exec_watch_prepare (&w, ranks, timeout_s, error)
      || !exec_watch_start (&w, argv, threads, error))
    return FALSE;
  while (!ended) {
    if (!exec_watch_look (&w, &ended, error))
      return FALSE;
    if (!ended)
      g_usleep (POLL_US);
  }
  return board_read_result (w.folder, out, error);
}
