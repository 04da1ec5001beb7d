/* exec/cpu/comm_mpi.c - transport of exec/comm.h over MPI. */
#include "exec/cpu/kernels.h"
#include "exec/error.h"

#include <malloc.h>
#include <mpi.h>
#include <string.h>
#include <unistd.h>

static MPI_Comm groups[EXEC_MAX_GROUPS];
static MPI_Request requests[EXEC_MAX_SLOTS];
static gboolean is_open;

static gboolean
check_mpi (int code, const char *what, GError **error)
{
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (code == MPI_SUCCESS)
    return TRUE;
  MPI_Error_string (code, text, &length);
  g_set_error (error, EXEC_ERROR, EXEC_ERROR_FAILED, "%s: %s", what, text);
  return FALSE;
}

/*
 * MPI takes memory for every large reduction and gives it back. From the kernel it comes page by
 * page, each filled with zeros: a reduce-scatter of 32 MiB took half as long again, and no two took
 * alike. What was taken once stays with the process, as the buffers of NCCL do.
 */
static void
keep_memory (void)
{
  mallopt (M_MMAP_MAX, 0);
  mallopt (M_TRIM_THRESHOLD, G_MAXINT);
}

static gboolean
open_job (guint32 *out_rank, guint32 *out_world, GError **error)
{
  int rank = 0, world = 1;
  keep_memory ();
  if (!check_mpi (MPI_Init (NULL, NULL), "MPI_Init", error))
    return FALSE;
  is_open = TRUE;
  MPI_Comm_set_errhandler (MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (guint i = 0; i < EXEC_MAX_SLOTS; i++)
    requests[i] = MPI_REQUEST_NULL;
  for (guint i = 0; i < EXEC_MAX_GROUPS; i++)
    groups[i] = MPI_COMM_NULL;
  MPI_Comm_rank (MPI_COMM_WORLD, &rank);
  MPI_Comm_size (MPI_COMM_WORLD, &world);
  *out_rank = (guint32)rank;
  *out_world = (guint32)world;
  return TRUE;
}

static gboolean
make_group (guint id, ModelStream stream, guint32 base, guint32 size, guint32 stride,
            GError **error)
{
  (void)stream; /* nothing runs beside compute */
  (void)size;
  (void)stride;
  if (groups[id] != MPI_COMM_NULL
      && !check_mpi (MPI_Comm_free (&groups[id]), "MPI_Comm_free", error))
    return FALSE;
  if (!check_mpi (MPI_Comm_split (MPI_COMM_WORLD, (int)base, 0, &groups[id]), "MPI_Comm_split",
                  error))
    return FALSE;
  MPI_Comm_set_errhandler (groups[id], MPI_ERRORS_RETURN);
  return TRUE;
}

static gboolean
all_reduce (guint group, ExecReduce op, void *buffer, guint64 count, GError **error)
{
  return check_mpi (MPI_Allreduce (MPI_IN_PLACE, buffer, (int)count, MPI_FLOAT,
                                   op == EXEC_REDUCE_MAX ? MPI_MAX : MPI_SUM, groups[group]),
                    "MPI_Allreduce", error);
}

static gboolean
all_gather (guint group, const void *in, void *out, guint64 count_each, GError **error)
{
  int rank = 0;
  MPI_Comm_rank (groups[group], &rank);
  gboolean in_place = in == (float *)out + (guint64)rank * count_each;
  return check_mpi (MPI_Allgather (in_place ? MPI_IN_PLACE : in, (int)count_each, MPI_FLOAT, out,
                                   (int)count_each, MPI_FLOAT, groups[group]),
                    "MPI_Allgather", error);
}

static gboolean
reduce_scatter (guint group, const void *in, void *out, guint64 count_each, GError **error)
{
  int rank = 0;
  MPI_Comm_rank (groups[group], &rank);
  float *whole = (float *)in;
  gboolean in_place = out == whole + (guint64)rank * count_each;
  /* In place MPI leaves the sum in front of the input. */
  if (!check_mpi (MPI_Reduce_scatter_block (in_place ? MPI_IN_PLACE : in, in_place ? whole : out,
                                            (int)count_each, MPI_FLOAT, MPI_SUM, groups[group]),
                  "MPI_Reduce_scatter_block", error))
    return FALSE;
  if (in_place && rank > 0)
    memcpy (out, whole, count_each * sizeof (float));
  return TRUE;
}

static gboolean
wait_slot (guint slot, GError **error)
{
  return check_mpi (MPI_Wait (&requests[slot], MPI_STATUS_IGNORE), "MPI_Wait", error);
}

static gboolean
send_message (guint32 to_rank, guint32 tag, const void *buffer, guint64 count, guint slot,
              guint mark, GError **error)
{
  (void)mark;
  return check_mpi (MPI_Isend (buffer, (int)count, MPI_FLOAT, (int)to_rank, (int)tag,
                               MPI_COMM_WORLD, &requests[slot]),
                    "MPI_Isend", error);
}

static gboolean
receive_message (guint32 from_rank, guint32 tag, void *buffer, guint64 count, GError **error)
{
  return check_mpi (MPI_Recv (buffer, (int)count, MPI_FLOAT, (int)from_rank, (int)tag,
                              MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                    "MPI_Recv", error);
}

static gboolean
barrier (GError **error)
{
  return check_mpi (MPI_Barrier (MPI_COMM_WORLD), "MPI_Barrier", error);
}

static void
abort_job (int exit_code)
{
  if (is_open)
    MPI_Abort (MPI_COMM_WORLD, exit_code);
  _exit (exit_code);
}

static void
close_job (void)
{
  if (is_open)
    MPI_Finalize ();
  is_open = FALSE;
}

static const char *
mpi_version (void)
{
  static char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version (text, &length);
  char *end = strchr (text, ',');
  if (end != NULL)
    *end = '\0';
  return text;
}

const ExecComm cpu_comm_mpi = {
  .open = open_job,
  .make_group = make_group,
  .all_reduce = all_reduce,
  .all_gather = all_gather,
  .reduce_scatter = reduce_scatter,
  .send = send_message,
  .wait = wait_slot,
  .receive = receive_message,
  .barrier = barrier,
  .abort = abort_job,
  .close = close_job,
  .version = mpi_version,
};
