/* exec/cuda/bootstrap.c - see bootstrap.h. */
#include "exec/cuda/bootstrap.h"
#include "exec/cuda/device-private.h"
#include "exec/rendezvous.h"

#include <string.h>

static struct {
  const ExecComm *mpi;
  gboolean uses_mpi, is_open;
  guint32 world; /* over MPI */
  ExecRendezvous place;
} boot;

void
bootstrap_use (const ExecComm *mpi)
{
  boot.mpi = mpi;
}

/* Place on the node, as Open MPI, Slurm or MPICH tells it; else all ranks are on one. */
static guint32
local_rank (guint32 rank)
{
  static const char *const names[]
      = { "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "MPI_LOCALRANKID" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (g_getenv (names[i]) != NULL)
      return (guint32)g_ascii_strtoull (g_getenv (names[i]), NULL, 10);
  return rank;
}

gboolean
bootstrap_open (guint32 *out_rank, guint32 *out_world, guint32 *out_local, GError **error)
{
  if (exec_rendezvous_in_environment ()) {
    if (!exec_rendezvous_read (&boot.place, error))
      return FALSE;
    *out_rank = boot.place.rank;
    *out_world = boot.place.world;
    *out_local = boot.place.local_rank;
    return TRUE;
  }
  if (boot.mpi == NULL) {
    cuda_set_error (
        error, EXEC_ERROR_UNAVAILABLE,
        "ranks of the cuda backend find each other over MPI, which this build lacks, or in "
        "the environment of torchrun (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT)");
    return FALSE;
  }
  boot.uses_mpi = TRUE;
  if (!boot.mpi->open (out_rank, out_world, error))
    return FALSE;
  boot.is_open = TRUE;
  boot.world = *out_world;
  *out_local = local_rank (*out_rank);
  return *out_world < 2
         || boot.mpi->make_group (EXEC_MAX_GROUPS - 1, MODEL_STREAM_COMPUTE, 0, *out_world, 1,
                                  error);
}

gboolean
bootstrap_share (void *bytes, gsize size, GError **error)
{
  if (!boot.uses_mpi)
    return exec_rendezvous_share (&boot.place, bytes, size, error);
  g_autofree float *all = g_malloc (size * boot.world);
  if (!boot.mpi->all_gather (EXEC_MAX_GROUPS - 1, bytes, all, size / sizeof (float), error))
    return FALSE;
  memcpy (bytes, all, size);
  return TRUE;
}

void
bootstrap_abort (int exit_code)
{
  if (boot.is_open)
    boot.mpi->abort (exit_code);
}

void
bootstrap_close (void)
{
  if (boot.is_open)
    boot.mpi->close ();
  boot.is_open = FALSE;
}
