/* exec/be_rank.c - one process of a job. */
#include "exec/launch-private.h"
#include "exec/pin.h"
#include "exec/rendezvous.h"
#include "exec/slice.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

/* This rank cannot go on: says so where it is heard, and ends the job. */
static void
give_up (const ExecRequest *request, gboolean watched, guint32 rank, const char *message)
{
  if (watched) {
    g_strlcpy (request->progress->message, message, sizeof request->progress->message);
    request->progress->state = EXEC_STATE_FAILED;
    for (;;)
      pause (); /* the launcher reads the message and ends all ranks */
  }
  fprintf (stderr, "plait: rank %u: %s\n", rank, message);
  request->backend->comm->abort (3);
}

static gboolean
run_joined (ExecRequest *request, const char *folder, guint32 rank, ExecResult *out, GError **error)
{
  if (!exec_run (request, rank, out, error))
    return FALSE;
  if (rank == 0 && folder != NULL && !board_write_result (folder, out, error))
    return FALSE;
  return TRUE;
}

gboolean
exec_find_bootstrap (const ExecBackend *backend, GError **error)
{
  if (backend->bootstrap == NULL || exec_rendezvous_in_environment ())
    return TRUE;
  const ExecBackend *mpi = exec_backend_load ("cpu", error);
  if (mpi == NULL) {
    g_prefix_error (error, "ranks find each other over MPI (torchrun needs none): ");
    return FALSE;
  }
  backend->bootstrap (mpi->comm);
  return TRUE;
}

static gboolean
run_alone (const ExecRequest *request, ExecResult *out, GError **error)
{
  const ExecBackend *backend = request->backend;
  if (backend->open != NULL && !backend->open (0, error))
    return FALSE;
  ExecRequest alone = *request;
  guint32 rank = 0;
  if (request->slice) {
    guint64 bytes = 0, kinds[EXEC_MEMORY_N_KINDS];
    if (!exec_predict_peak (request, &bytes, &rank, kinds, error))
      return FALSE;
    alone.backend = exec_slice_of (backend, rank);
  }
  gboolean ok = exec_run (&alone, rank, out, error);
  if (backend->close != NULL)
    backend->close ();
  return ok;
}

gboolean
exec_be_rank (ExecRequest *request, double timeout_s, guint32 ranks, guint32 *out_rank,
              ExecResult *out, GError **error)
{
  static ExecProgress own;
  const char *folder = g_getenv (EXEC_JOB_VARIABLE);
  const ExecComm *comm = request->backend->comm;
  guint32 world = 1;
  g_autoptr (GError) failure = NULL;
  *out_rank = 0;
  if (exec_place () == EXEC_PLACE_LAUNCHER)
    return run_alone (request, out, error);
  if (folder != NULL)
    prctl (PR_SET_PDEATHSIG, SIGKILL);
  if (!exec_find_bootstrap (request->backend, error) || !comm->open (out_rank, &world, error))
    return FALSE;
  request->progress = &own;
  if (folder != NULL) {
    ExecProgress *board = board_map (folder, ranks, FALSE, error);
    if (board == NULL)
      comm->abort (3);
    request->progress = &board[*out_rank];
  }
  request->progress->pid = getpid ();
  if (folder != NULL) /* mpirun and srun bind as they were told */
    exec_pin_rank (*out_rank, ranks);
  heart_start (request->progress, comm, folder == NULL, timeout_s, *out_rank);
  if (world != ranks) {
    g_autofree char *message
        = g_strdup_printf ("was started with %u ranks, --ranks says %u", world, ranks);
    give_up (request, folder != NULL, *out_rank, message);
  }
  if (!run_joined (request, folder, *out_rank, out, &failure))
    give_up (request, folder != NULL, *out_rank, failure->message);
  request->progress->state = EXEC_STATE_DONE;
  comm->close ();
  return TRUE;
}
