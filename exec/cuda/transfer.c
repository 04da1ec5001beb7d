/* exec/cuda/transfer.c - collectives and messages of exec/comm.h through NCCL's communicators, and how
 * the compute stream meets the others: it hands over by an event, and by an event it waits. */
#include "exec/cuda/comm-private.h"

/* A collective on the stream of its group, once compute has come here. */
static gboolean
submit (ncclDataType_t type, const ExecCollective *c, ncclRedOp_t how, guint mark, GError **error)
{
  ncclComm_t comm = cuda_job.groups[c->group];
  guint number = cuda_job.streams[c->group];
  cudaStream_t stream = cuda_device.streams[number];
  const char *what = "ncclReduceScatter";
  ncclResult_t result;
  cuda_wait_for (number, CUDA_STREAM_COMPUTE);
  cuda_mark_on (number, mark);
  if (!cuda_nccl_enter ("a collective", error))
    return FALSE;
  switch (c->kind) {
  case MODEL_COLLECTIVE_ALL_REDUCE:
    what = "ncclAllReduce";
    result = cuda_nccl.ncclAllReduce (c->in, c->out, c->count, type, how, comm, stream);
    break;
  case MODEL_COLLECTIVE_ALL_GATHER:
    what = "ncclAllGather";
    result = cuda_nccl.ncclAllGather (c->in, c->out, c->count, type, comm, stream);
    break;
  default:
    result = cuda_nccl.ncclReduceScatter (c->in, c->out, c->count, type, how, comm, stream);
  }
  cuda_nccl_leave ();
  if (!cuda_nccl_settle (comm, result, what, error))
    return FALSE;
  cuda_mark_on (number, mark != EXEC_NO_MARK ? mark + 1 : mark);
  return TRUE;
}

/* Compute goes on when it is done. */
static gboolean
run (ncclDataType_t type, const ExecCollective *c, ncclRedOp_t how, GError **error)
{
  if (!submit (type, c, how, EXEC_NO_MARK, error))
    return FALSE;
  cuda_wait_for (CUDA_STREAM_COMPUTE, cuda_job.streams[c->group]);
  return TRUE;
}

static gboolean
all_reduce (ncclDataType_t type, guint group, ExecReduce op, void *buffer, guint64 count,
            GError **error)
{
  const ExecCollective c = { MODEL_COLLECTIVE_ALL_REDUCE, group, buffer, buffer, count };
  return run (type, &c, op == EXEC_REDUCE_MAX ? ncclMax : ncclSum, error);
}

static gboolean
all_gather (ncclDataType_t type, guint group, const void *in, void *out, guint64 count_each,
            GError **error)
{
  const ExecCollective c = { MODEL_COLLECTIVE_ALL_GATHER, group, in, out, count_each };
  return run (type, &c, ncclSum, error);
}

static gboolean
reduce_scatter (ncclDataType_t type, guint group, const void *in, void *out, guint64 count_each,
                GError **error)
{
  const ExecCollective c = { MODEL_COLLECTIVE_REDUCE_SCATTER, group, in, out, count_each };
  return run (type, &c, ncclSum, error);
}

/* An event that says when the work of a stream is done that was given to it before. */
static gboolean
note_end (cudaEvent_t *event, gboolean *is_under_way, guint stream, GError **error)
{
  if (*event == NULL
      && !cuda_check (cudaEventCreateWithFlags (event, cudaEventDisableTiming),
                      "cudaEventCreateWithFlags", error))
    return FALSE;
  *is_under_way = TRUE;
  return cuda_check (cudaEventRecord (*event, cuda_device.streams[stream]), "cudaEventRecord",
                     error);
}

/* The host goes on; compute waits. */
static gboolean
await_end (cudaEvent_t event, gboolean *is_under_way, GError **error)
{
  if (!*is_under_way)
    return TRUE;
  *is_under_way = FALSE;
  return cuda_check (cudaStreamWaitEvent (cuda_kernels.stream, event, 0), "cudaStreamWaitEvent",
                     error);
}

static gboolean
start_collective (ncclDataType_t type, const ExecCollective *c, guint ticket, guint mark,
                  GError **error)
{
  return submit (type, c, ncclSum, mark, error)
         && note_end (&cuda_job.done[ticket], &cuda_job.beside[ticket], cuda_job.streams[c->group],
                      error);
}

static gboolean
join_collective (guint ticket, GError **error)
{
  return await_end (cuda_job.done[ticket], &cuda_job.beside[ticket], error);
}

/* Messages outside of the pipeline go through the world's communicator. */
static CudaEdge
edge_of (guint32 peer, guint32 tag, guint end_of_edge)
{
  CudaEdge edge = cuda_job.edges[tag % 2 == 0 ? CUDA_FORWARD : CUDA_BACKWARD][end_of_edge];
  if (tag >= EXEC_TAG_LOOSE || edge.comm == NULL || edge.peer != peer)
    edge = (CudaEdge){ cuda_job.whole, peer, (int)peer };
  return edge;
}

static guint
stream_of (const CudaEdge *edge, guint32 tag, guint end_of_edge)
{
  static const guint streams[CUDA_N_DIRECTIONS][CUDA_N_ENDS]
      = { { CUDA_STREAM_SEND_FORWARD, CUDA_STREAM_RECEIVE_FORWARD },
          { CUDA_STREAM_SEND_BACKWARD, CUDA_STREAM_RECEIVE_BACKWARD } };
  return edge->comm == cuda_job.whole
             ? CUDA_STREAM_COMPUTE
             : streams[tag % 2 == 0 ? CUDA_FORWARD : CUDA_BACKWARD][end_of_edge];
}

gboolean
cuda_exchange (const CudaEdge *edge, gboolean sends, ncclDataType_t type, const void *buffer,
               guint64 count, guint stream, guint mark, GError **error)
{
  const char *what = sends ? "ncclSend" : "ncclRecv";
  cudaStream_t on = cuda_device.streams[stream];
  cuda_wait_for (stream, CUDA_STREAM_COMPUTE); /* the buffer may still be written, or read */
  cuda_mark_on (stream, mark);
  if (!cuda_nccl_enter (what, error))
    return FALSE;
  ncclResult_t result
      = sends ? cuda_nccl.ncclSend (buffer, count, type, edge->place, edge->comm, on)
              : cuda_nccl.ncclRecv ((void *)buffer, count, type, edge->place, edge->comm, on);
  cuda_nccl_leave ();
  if (!cuda_nccl_settle (edge->comm, result, what, error))
    return FALSE;
  cuda_mark_on (stream, mark != EXEC_NO_MARK ? mark + 1 : mark);
  return TRUE;
}

static gboolean
send_message (ncclDataType_t type, guint32 to_rank, guint32 tag, const void *buffer, guint64 count,
              guint slot, guint mark, GError **error)
{
  CudaEdge edge = edge_of (to_rank, tag, CUDA_OUT);
  guint stream = stream_of (&edge, tag, CUDA_OUT);
  return cuda_exchange (&edge, TRUE, type, buffer, count, stream, mark, error)
         && note_end (&cuda_job.sent[slot], &cuda_job.under_way[slot], stream, error);
}

/* Compute may overwrite the buffer when the message has gone. */
static gboolean
wait_slot (guint slot, GError **error)
{
  return await_end (cuda_job.sent[slot], &cuda_job.under_way[slot], error);
}

static gboolean
receive_message (ncclDataType_t type, guint32 from_rank, guint32 tag, void *buffer, guint64 count,
                 GError **error)
{
  CudaEdge edge = edge_of (from_rank, tag, CUDA_IN);
  guint stream = stream_of (&edge, tag, CUDA_IN);
  if (!cuda_exchange (&edge, FALSE, type, buffer, count, stream, EXEC_NO_MARK, error))
    return FALSE;
  cuda_wait_for (CUDA_STREAM_COMPUTE, stream);
  return TRUE;
}

static gboolean
barrier (GError **error)
{
  ncclResult_t result;
  if (cuda_job.world < 2)
    return TRUE;
  if (!cuda_nccl_enter ("barrier", error))
    return FALSE;
  result = cuda_nccl.ncclAllReduce (cuda_job.pulse, cuda_job.pulse, 1, ncclFloat, ncclSum,
                                    cuda_job.whole, cuda_kernels.stream);
  cuda_nccl_leave ();
  if (!cuda_nccl_settle (cuda_job.whole, result, "ncclAllReduce (barrier)", error))
    return FALSE;
  cuda_synchronize ();
  if (cuda_failure () == NULL)
    return TRUE;
  cuda_set_error (error, EXEC_ERROR_FAILED, "%s", cuda_failure ());
  return FALSE;
}

#define EXPORT(P, TYPE)                                                                            \
  static gboolean P##_all_reduce (guint group, ExecReduce op, void *buffer, guint64 count,         \
                                  GError **error)                                                  \
  {                                                                                                \
    return all_reduce (TYPE, group, op, buffer, count, error);                                     \
  }                                                                                                \
  static gboolean P##_all_gather (guint group, const void *in, void *out, guint64 count_each,      \
                                  GError **error)                                                  \
  {                                                                                                \
    return all_gather (TYPE, group, in, out, count_each, error);                                   \
  }                                                                                                \
  static gboolean P##_reduce_scatter (guint group, const void *in, void *out, guint64 count_each,  \
                                      GError **error)                                              \
  {                                                                                                \
    return reduce_scatter (TYPE, group, in, out, count_each, error);                               \
  }                                                                                                \
  static gboolean P##_send (guint32 to_rank, guint32 tag, const void *buffer, guint64 count,       \
                            guint slot, guint mark, GError **error)                                \
  {                                                                                                \
    return send_message (TYPE, to_rank, tag, buffer, count, slot, mark, error);                    \
  }                                                                                                \
  static gboolean P##_start (const ExecCollective *collective, guint ticket, guint mark,           \
                             GError **error)                                                       \
  {                                                                                                \
    return start_collective (TYPE, collective, ticket, mark, error);                               \
  }                                                                                                \
  static gboolean P##_receive (guint32 from_rank, guint32 tag, void *buffer, guint64 count,        \
                               GError **error)                                                     \
  {                                                                                                \
    return receive_message (TYPE, from_rank, tag, buffer, count, error);                           \
  }                                                                                                \
  const ExecComm cuda_comm_##P = {                                                                 \
    .open = cuda_job_open,                                                                         \
    .make_group = cuda_job_make_group,                                                             \
    .make_pipeline = cuda_job_make_pipeline,                                                       \
    .all_reduce = P##_all_reduce,                                                                  \
    .all_gather = P##_all_gather,                                                                  \
    .reduce_scatter = P##_reduce_scatter,                                                          \
    .start = P##_start,                                                                            \
    .join = join_collective,                                                                       \
    .send = P##_send,                                                                              \
    .wait = wait_slot,                                                                             \
    .receive = P##_receive,                                                                        \
    .barrier = barrier,                                                                            \
    .abort = cuda_job_abort,                                                                       \
    .close = cuda_job_close,                                                                       \
    .version = cuda_job_version,                                                                   \
  };
EXPORT (f32, ncclFloat)
EXPORT (bf16, ncclBfloat16)
