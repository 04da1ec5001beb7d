/* tests/emu/nccl.cc - collectives and messages of nccl.h over MPI.
 *
 * As with NCCL, work of one communicator is done in the order in which it was given, whatever its
 * stream, and a send ends when it is received; its buffer is read when the other side is there, and
 * what is received into has no value until then. $PLAIT_EMU_NCCL_FAIL=N: the N-th piece of work fails
 * as if another rank had gone.
 */
#include "tests/emu/stream.hh"

#include <cuda_bf16.h>
#include <math.h>
#include <mpi.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#include <atomic>
#include <memory>
#include <vector>

struct ncclComm {
  MPI_Comm mpi;
  std::atomic<int> state, polls; /* polls that still say "in progress" */
  std::atomic<bool> aborted;
  ncclComm_t *place = NULL, part = NULL; /* what a split of it is to fill in, and with what */
  int blocks;
  uint64_t given = 0, done = 0;
};

static std::atomic<int> n_pieces;
static int resident_blocks; /* of kernels that wait for other ranks: they stay where they are */

ncclResult_t
ncclGetVersion (int *version)
{
  *version = 22809;
  return ncclSuccess;
}

ncclResult_t
ncclGetUniqueId (ncclUniqueId *out)
{
  memset (out, 0x5a, sizeof *out);
  return ncclSuccess;
}

/* Aborting frees a communicator: who uses it then reads what is somebody else's. */
static void
gone ()
{
  fprintf (stderr, "emulation: a communicator was used after its abort\n");
  abort ();
}

static ncclResult_t
make (MPI_Comm mpi, const ncclConfig_t *config, ncclComm_t *out)
{
  *out = NULL;
  if (mpi == MPI_COMM_NULL)
    return ncclSuccess;
  ncclComm_t comm = new ncclComm;
  comm->mpi = mpi;
  comm->state = ncclSuccess;
  comm->aborted = false;
  comm->blocks = config->maxCTAs;
  comm->polls = config->blocking ? 0 : 2;
  *out = comm;
  emu_take (EMU_COMMUNICATOR_BYTES);
  return config->blocking ? ncclSuccess : ncclInProgress;
}

/* The id must have come from rank 0. */
static bool
is_known (const ncclUniqueId *id)
{
  ncclUniqueId want;
  ncclGetUniqueId (&want);
  return memcmp (id, &want, sizeof want) == 0;
}

static void
end_mpi ()
{
  MPI_Finalize ();
}

static void
begin_mpi ()
{
  MPI_Init (NULL, NULL);
  atexit (end_mpi);
}

ncclResult_t
ncclCommInitRankConfig (ncclComm_t *out, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
  int on = 0, size = 0;
  MPI_Comm whole;
  MPI_Initialized (&on);
  if (!on)
    begin_mpi ();
  MPI_Comm_size (MPI_COMM_WORLD, &size);
  if (!is_known (&id) || size != ranks)
    return ncclInternalError;
  MPI_Comm_split (MPI_COMM_WORLD, 0, rank, &whole);
  return make (whole, config, out);
}

/* One that does not block says "success" at once; the parent is in progress until the part is
 * there. */
ncclResult_t
ncclCommSplit (ncclComm_t comm, int color, int key, ncclComm_t *out, ncclConfig_t *config)
{
  MPI_Comm part;
  if (comm->polls > 0)
    return ncclInvalidArgument;
  MPI_Comm_split (comm->mpi, color == NCCL_SPLIT_NOCOLOR ? MPI_UNDEFINED : color, key, &part);
  if (config->blocking)
    return make (part, config, out);
  make (part, config, &comm->part);
  comm->place = out;
  comm->polls = 3;
  return ncclSuccess;
}

ncclResult_t
ncclCommGetAsyncError (ncclComm_t comm, ncclResult_t *out)
{
  if (comm->aborted)
    gone ();
  *out = comm->polls > 0 ? ncclInProgress : (ncclResult_t)comm->state.load ();
  if (comm->polls > 0 && --comm->polls == 0 && comm->place != NULL) {
    *comm->place = comm->part;
    comm->place = NULL;
  }
  return ncclSuccess;
}

ncclResult_t
ncclCommAbort (ncclComm_t comm)
{
  comm->aborted = true;
  return ncclSuccess;
}

ncclResult_t
ncclCommDestroy (ncclComm_t comm)
{
  MPI_Comm_free (&comm->mpi);
  emu_take (-EMU_COMMUNICATOR_BYTES);
  delete comm;
  return ncclSuccess;
}

const char *
ncclGetErrorString (ncclResult_t result)
{
  return result == ncclRemoteError ? "remote process exited or there was a network error"
                                   : "internal error";
}

const char *
ncclGetLastError (ncclComm_t)
{
  return "emulated";
}

static std::vector<float>
read_floats (const void *from, size_t count, ncclDataType_t type)
{
  std::vector<float> out (count);
  for (size_t i = 0; i < count; i++)
    out[i] = type == ncclFloat ? ((const float *)from)[i]
                               : __bfloat162float (((const __nv_bfloat16 *)from)[i]);
  return out;
}

static void
write_floats (void *to, const std::vector<float> &from, ncclDataType_t type)
{
  for (size_t i = 0; i < from.size (); i++)
    if (type == ncclFloat)
      ((float *)to)[i] = from[i];
    else
      ((__nv_bfloat16 *)to)[i] = __float2bfloat16 (from[i]);
}

/* Host copies: what MPI reads and writes is not device memory. */
struct Piece {
  std::vector<float> in, out;
  MPI_Request request, ready;
  bool started = false, met = false;
  char token;
};

/* @start fills the piece and starts MPI; @finish takes the result. @meet, of messages, starts MPI
 * when the other side is there. */
static ncclResult_t
give (ncclComm_t comm, cudaStream_t stream, std::function<void (Piece &)> start,
      std::function<void (Piece &)> finish, std::function<void (Piece &)> meet = nullptr)
{
  if (comm->aborted)
    gone ();
  auto piece = std::make_shared<Piece> ();
  uint64_t number = comm->given++;
  const char *fails = getenv ("PLAIT_EMU_NCCL_FAIL");
  if (fails != NULL && ++n_pieces == atoi (fails)) {
    comm->state = ncclRemoteError;
    /* waits for the abort, as the real one */
    emu_enqueue_until (stream, [=] { return comm->aborted.load (); });
    return ncclSuccess;
  }
  emu_enqueue_until (stream, [=] {
    int done = 0;
    if (comm->aborted)
      return true;
    if (comm->done != number)
      return false;
    if (!piece->started) {
      start (*piece);
      resident_blocks += comm->blocks;
      if (resident_blocks > EMU_PROCESSORS) {
        fprintf (stderr, "emulation: kernels of NCCL do not fit on the device together\n");
        abort ();
      }
    }
    piece->started = true;
    if (meet && !piece->met) {
      MPI_Test (&piece->ready, &done, MPI_STATUS_IGNORE);
      if (!done)
        return false;
      piece->met = true;
      meet (*piece);
    }
    MPI_Test (&piece->request, &done, MPI_STATUS_IGNORE);
    if (!done)
      return false;
    finish (*piece);
    resident_blocks -= comm->blocks;
    comm->done++;
    return true;
  });
  return ncclSuccess;
}

static MPI_Op
operation (ncclRedOp_t op)
{
  return op == ncclMax ? MPI_MAX : MPI_SUM;
}

/* NCCL works in place only where @part is this rank's part of @whole; else they may not overlap. */
static bool
may_overlap (const void *part, const void *whole, size_t count, ncclDataType_t type,
             ncclComm_t comm)
{
  int ranks = 0, rank = 0;
  MPI_Comm_size (comm->mpi, &ranks);
  MPI_Comm_rank (comm->mpi, &rank);
  const size_t bytes = count * (type == ncclFloat ? 4 : 2);
  const char *p = (const char *)part, *w = (const char *)whole;
  return p == w + (size_t)rank * bytes || p + bytes <= w || w + (size_t)ranks * bytes <= p;
}

ncclResult_t
ncclAllReduce (const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,
               ncclComm_t comm, cudaStream_t stream)
{
  return give (
      comm, stream,
      [=] (Piece &p) {
        p.in = read_floats (in, count, type);
        p.out.resize (count);
        MPI_Iallreduce (p.in.data (), p.out.data (), (int)count, MPI_FLOAT, operation (op),
                        comm->mpi, &p.request);
      },
      [=] (Piece &p) { write_floats (out, p.out, type); });
}

ncclResult_t
ncclAllGather (const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm,
               cudaStream_t stream)
{
  int ranks = 0;
  MPI_Comm_size (comm->mpi, &ranks);
  if (!may_overlap (in, out, count, type, comm))
    return ncclInternalError;
  return give (
      comm, stream,
      [=] (Piece &p) {
        p.in = read_floats (in, count, type);
        p.out.resize (count * (size_t)ranks);
        MPI_Iallgather (p.in.data (), (int)count, MPI_FLOAT, p.out.data (), (int)count, MPI_FLOAT,
                        comm->mpi, &p.request);
      },
      [=] (Piece &p) { write_floats (out, p.out, type); });
}

ncclResult_t
ncclReduceScatter (const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                   ncclComm_t comm, cudaStream_t stream)
{
  int ranks = 0;
  MPI_Comm_size (comm->mpi, &ranks);
  if (!may_overlap (out, in, count, type, comm))
    return ncclInternalError;
  return give (
      comm, stream,
      [=] (Piece &p) {
        p.in = read_floats (in, count * (size_t)ranks, type);
        p.out.resize (count);
        MPI_Ireduce_scatter_block (p.in.data (), p.out.data (), (int)count, MPI_FLOAT,
                                   operation (op), comm->mpi, &p.request);
      },
      [=] (Piece &p) { write_floats (out, p.out, type); });
}

ncclResult_t
ncclSend (const void *in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
          cudaStream_t stream)
{
  return give (
      comm, stream,
      [=] (Piece &p) { MPI_Irecv (&p.token, 1, MPI_CHAR, peer, 1, comm->mpi, &p.ready); },
      [] (Piece &) {},
      [=] (Piece &p) {
        p.in = read_floats (in, count, type);
        MPI_Issend (p.in.data (), (int)count, MPI_FLOAT, peer, 0, comm->mpi, &p.request);
      });
}

ncclResult_t
ncclRecv (void *out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
          cudaStream_t stream)
{
  return give (
      comm, stream,
      [=] (Piece &p) {
        write_floats (out, std::vector<float> (count, NAN), type);
        p.token = 0;
        MPI_Isend (&p.token, 1, MPI_CHAR, peer, 1, comm->mpi, &p.ready);
        p.out.resize (count);
        MPI_Irecv (p.out.data (), (int)count, MPI_FLOAT, peer, 0, comm->mpi, &p.request);
      },
      [=] (Piece &p) { write_floats (out, p.out, type); }, [] (Piece &) {});
}
