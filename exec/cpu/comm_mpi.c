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

/* ---- more elements than MPI counts ----
 *
 * MPI counts in int, and Open MPI multiplies a rank's count by the size of the group in int too
 * (MPI_Reduce_scatter_block, MPI_Allgather). What is more than MOST_ELEMENTS is summed piece by
 * piece, and sent as one element of a type that holds it all.
 */

#ifndef MOST_ELEMENTS /* a test sets it low */
#define MOST_ELEMENTS G_GUINT64_CONSTANT (0x40000000)
#endif

/* A type of @count floats in a row. (out) to be freed with MPI_Type_free */
static gboolean
make_block (guint64 count, MPI_Datatype *out, GError **error)
{
  MPI_Datatype unit = MPI_DATATYPE_NULL, units = MPI_DATATYPE_NULL;
  guint64 n_units = count / MOST_ELEMENTS;
  MPI_Aint places[] = { 0, (MPI_Aint)(n_units * MOST_ELEMENTS * sizeof (float)) };
  int counts[] = { 1, (int)(count % MOST_ELEMENTS) };
  int code = MPI_Type_contiguous ((int)MOST_ELEMENTS, MPI_FLOAT, &unit);
  if (code == MPI_SUCCESS)
    code = MPI_Type_contiguous ((int)n_units, unit, &units);
  MPI_Datatype types[] = { units, MPI_FLOAT };
  if (code == MPI_SUCCESS)
    code = MPI_Type_create_struct (2, counts, places, types, out);
  if (code == MPI_SUCCESS)
    code = MPI_Type_commit (out);
  if (unit != MPI_DATATYPE_NULL)
    MPI_Type_free (&unit);
  if (units != MPI_DATATYPE_NULL)
    MPI_Type_free (&units);
  return check_mpi (code, "MPI_Type_create_struct", error);
}

static gboolean
all_reduce (guint group, ExecReduce op, void *buffer, guint64 count, GError **error)
{
  for (guint64 at = 0; at < count; at += MOST_ELEMENTS)
    if (!check_mpi (MPI_Allreduce (MPI_IN_PLACE, (float *)buffer + at,
                                   (int)MIN (count - at, MOST_ELEMENTS), MPI_FLOAT,
                                   op == EXEC_REDUCE_MAX ? MPI_MAX : MPI_SUM, groups[group]),
                    "MPI_Allreduce", error))
      return FALSE;
  return TRUE;
}

static gboolean
all_gather (guint group, const void *in, void *out, guint64 count_each, GError **error)
{
  int rank = 0, size = 1, count = (int)count_each;
  MPI_Datatype type = MPI_FLOAT;
  MPI_Comm_rank (groups[group], &rank);
  MPI_Comm_size (groups[group], &size);
  gboolean in_place = in == (float *)out + (guint64)rank * count_each;
  gboolean is_block = count_each * (guint64)size > MOST_ELEMENTS;
  if (is_block && !make_block (count_each, &type, error))
    return FALSE;
  if (is_block)
    count = 1;
  gboolean ok = check_mpi (MPI_Allgather (in_place ? MPI_IN_PLACE : in, count, type, out, count,
                                          type, groups[group]),
                           "MPI_Allgather", error);
  if (is_block)
    MPI_Type_free (&type);
  return ok;
}

/* Piece by piece, each to the rank that keeps it. @out: this rank's place inside @in, or apart. */
static gboolean
reduce_scatter_pieces (guint group, const float *in, float *out, guint64 count_each, int rank,
                       int size, GError **error)
{
  for (int to = 0; to < size; to++)
    for (guint64 at = 0; at < count_each; at += MOST_ELEMENTS) {
      const float *own = in + (guint64)to * count_each + at;
      gboolean in_place = to == rank && own == out + at;
      if (!check_mpi (MPI_Reduce (in_place ? MPI_IN_PLACE : own, to == rank ? out + at : NULL,
                                  (int)MIN (count_each - at, MOST_ELEMENTS), MPI_FLOAT, MPI_SUM, to,
                                  groups[group]),
                      "MPI_Reduce", error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
reduce_scatter (guint group, const void *in, void *out, guint64 count_each, GError **error)
{
  int rank = 0, size = 1;
  MPI_Comm_rank (groups[group], &rank);
  MPI_Comm_size (groups[group], &size);
  if (count_each * (guint64)size > MOST_ELEMENTS)
    return reduce_scatter_pieces (group, in, out, count_each, rank, size, error);
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
  MPI_Datatype type = MPI_FLOAT;
  gboolean is_block = count > MOST_ELEMENTS;
  if (is_block && !make_block (count, &type, error))
    return FALSE;
  gboolean ok = check_mpi (MPI_Isend (buffer, is_block ? 1 : (int)count, type, (int)to_rank,
                                      (int)tag, MPI_COMM_WORLD, &requests[slot]),
                           "MPI_Isend", error);
  if (is_block)
    MPI_Type_free (&type); /* once the message is gone */
  return ok;
}

static gboolean
receive_message (guint32 from_rank, guint32 tag, void *buffer, guint64 count, GError **error)
{
  MPI_Datatype type = MPI_FLOAT;
  gboolean is_block = count > MOST_ELEMENTS;
  if (is_block && !make_block (count, &type, error))
    return FALSE;
  gboolean ok = check_mpi (MPI_Recv (buffer, is_block ? 1 : (int)count, type, (int)from_rank,
                                     (int)tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                           "MPI_Recv", error);
  if (is_block)
    MPI_Type_free (&type);
  return ok;
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
