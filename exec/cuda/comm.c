/* exec/cuda/comm.c - transport of exec/comm.h over NCCL.
 *
 * NCCL matches messages by order alone, and works through one communicator in order. So every
 * directed edge of the pipeline has a communicator and a stream of its own: a stage that waits for
 * its message to be taken still receives, and forward and backward messages do not mix. Collectives
 * have a stream per kind of communication.
 *
 * NCCL warns of several communicators at once: their kernels wait for other ranks while they hold
 * multiprocessors, and whatever waits for the whole device waits for them. Here they can always get
 * on, in whatever order the devices start them, because
 *   - all ranks give work to a group in the same order, that of the program;
 *   - kernels of all streams fit on the device together (limit_blocks), and those of compute end by
 *     themselves, so a started kernel never keeps another from starting for good;
 *   - no stream stands behind another in a hardware queue (CUDA_DEVICE_MAX_CONNECTIONS, device.c);
 *   - nothing that waits for the whole device happens while work is under way: memory, kernels and
 *     connections are there from the rehearsal on (exec/runner.c).
 */
#include "exec/cuda/bootstrap.h"
#include "exec/cuda/nccl-private.h"

#include <string.h>
#include <unistd.h>

#define WATCH_US    100000
#define MOST_BLOCKS 32 /* channels of a communicator (NCCL_MAX_NCHANNELS) */

/* Forward and backward edges out of this rank and into it. */
enum { FORWARD, BACKWARD, N_DIRECTIONS };
enum { OUT, IN, N_ENDS };

typedef struct {
  ncclComm_t comm; /* of two ranks, NULL: no edge */
  guint32 peer;    /* in the world */
  int place;       /* the peer's in comm */
} Edge;

/* Communicators of one shape: they hold memory, so a shape that comes again gets them again. All
 * ranks ask for the same shapes in the same order. */
typedef struct {
  guint id;
  guint32 base, size, stride;
  ncclComm_t comm;                  /* of a group */
  Edge edges[N_DIRECTIONS][N_ENDS]; /* of a pipeline */
} Shape;
#define PIPELINE EXEC_MAX_GROUPS /* as id */

static struct {
  guint32 rank, world;
  ncclComm_t whole;
  ncclComm_t groups[EXEC_MAX_GROUPS];
  guint streams[EXEC_MAX_GROUPS];
  guint32 places[EXEC_MAX_GROUPS]; /* this rank's in them */
  Edge edges[N_DIRECTIONS][N_ENDS];
  GArray *shapes;                   /* (owned) Shape */
  cudaEvent_t sent[EXEC_MAX_SLOTS]; /* NULL: never used */
  gboolean under_way[EXEC_MAX_SLOTS];
  cudaEvent_t done[EXEC_MAX_TICKETS]; /* of collectives beside compute, as sent */
  gboolean beside[EXEC_MAX_TICKETS];
  float *pulse; /* one element for barriers */
  GMutex lock;  /* of the list that the watchdog reads */
  GPtrArray *comms;
  gboolean ended;
} job;

/* Asynchronous errors of any communicator end them all, so that nothing waits for ever. */
static gpointer
watch (gpointer unused)
{
  for (;;) {
    g_usleep (WATCH_US);
    g_mutex_lock (&job.lock);
    for (guint i = 0; !job.ended && i < job.comms->len; i++) {
      ncclComm_t comm = g_ptr_array_index (job.comms, i);
      ncclResult_t state = ncclSuccess;
      cuda_nccl.ncclCommGetAsyncError (comm, &state);
      if (state == ncclSuccess || state == ncclInProgress)
        continue;
      cuda_note ("NCCL", cuda_nccl.ncclGetErrorString (state));
      for (guint j = 0; j < job.comms->len; j++)
        cuda_nccl.ncclCommAbort (g_ptr_array_index (job.comms, j));
      job.ended = TRUE;
    }
    gboolean ended = job.ended;
    g_mutex_unlock (&job.lock);
    if (ended)
      return unused;
  }
}

static void
keep (ncclComm_t comm)
{
  g_mutex_lock (&job.lock);
  g_ptr_array_add (job.comms, comm);
  g_mutex_unlock (&job.lock);
}

/* Blocks of a message's kernel: what a link needs, far below what a device has. */
#define EDGE_BLOCKS 8
/* Collectives that may be under way at once: tensor parallel, data parallel, one more. */
#define N_COLLECTIVES 3

/* A block of NCCL holds a multiprocessor until the other ranks have come. Together those of all
 * streams must leave room for one another, or one that waits for another rank could keep out the
 * very one that this rank waits for. */
static ncclConfig_t
limit_blocks (gboolean is_edge)
{
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  int all = cuda_device.n_processors, edge = CLAMP (all / 16, 1, EDGE_BLOCKS);
  int edges = N_DIRECTIONS * N_ENDS * edge;
  config.blocking = 0;
  config.maxCTAs = is_edge ? edge : CLAMP ((all - edges) / N_COLLECTIVES, 1, MOST_BLOCKS);
  return config;
}

static gboolean
join_world (GError **error)
{
  ncclConfig_t config = limit_blocks (FALSE);
  ncclUniqueId id;
  memset (&id, 0, sizeof id);
  if (job.rank == 0
      && !cuda_nccl_settle (NULL, cuda_nccl.ncclGetUniqueId (&id), "ncclGetUniqueId", error))
    return FALSE;
  if (!bootstrap_share (&id, sizeof id, error))
    return FALSE;
  ncclResult_t result
      = cuda_nccl.ncclCommInitRankConfig (&job.whole, (int)job.world, id, (int)job.rank, &config);
  if (!cuda_nccl_settle (job.whole, result, "ncclCommInitRankConfig", error))
    return FALSE;
  keep (job.whole);
  return TRUE;
}

static gboolean
open_job (guint32 *out_rank, guint32 *out_world, GError **error)
{
  guint32 local = 0;
  if (!bootstrap_open (&job.rank, &job.world, &local, error) || !cuda_probe (job.world, error)
      || !cuda_open (local, error))
    return FALSE;
  *out_rank = job.rank;
  *out_world = job.world;
  job.pulse = cuda_memory_new (sizeof (float));
  if (job.pulse == NULL)
    return cuda_check (cudaErrorMemoryAllocation, "allocate 4 bytes for barriers", error);
  job.comms = g_ptr_array_new ();
  job.shapes = g_array_new (FALSE, FALSE, sizeof (Shape));
  if (job.world > 1 && !join_world (error))
    return FALSE;
  g_thread_unref (g_thread_new ("nccl watchdog", watch, NULL));
  return TRUE;
}

static gboolean
split (int color, int key, gboolean is_edge, ncclComm_t *out, GError **error)
{
  ncclConfig_t config = limit_blocks (is_edge);
  *out = NULL;
  if (!cuda_nccl_settle (job.whole, cuda_nccl.ncclCommSplit (job.whole, color, key, out, &config),
                         "ncclCommSplit", error))
    return FALSE;
  if (*out == NULL)
    return TRUE;
  if (!cuda_nccl_settle (*out, ncclInProgress, "ncclCommSplit", error))
    return FALSE;
  keep (*out);
  return TRUE;
}

static const Shape *
known_shape (guint id, guint32 base, guint32 size, guint32 stride)
{
  for (guint i = 0; i < job.shapes->len; i++) {
    const Shape *s = &g_array_index (job.shapes, Shape, i);
    if (s->id == id && s->base == base && s->size == size && s->stride == stride)
      return s;
  }
  return NULL;
}

static gboolean
make_group (guint id, ModelStream stream, guint32 base, guint32 size, guint32 stride,
            GError **error)
{
  job.places[id] = (job.rank - base) / stride;
  job.streams[id] = stream;
  /* Gathers of parameters go on over the end of a step, where the world has its own to say. */
  if (size == job.world && stream != MODEL_STREAM_DP) {
    job.groups[id] = job.whole;
    return TRUE;
  }
  const Shape *known = known_shape (id, base, size, stride);
  if (known == NULL && !split ((int)base, (int)job.places[id], FALSE, &job.groups[id], error))
    return FALSE;
  const Shape made
      = { .id = id, .base = base, .size = size, .stride = stride, .comm = job.groups[id] };
  if (known == NULL)
    g_array_append_val (job.shapes, made);
  else
    job.groups[id] = known->comm;
  return TRUE;
}

/* NCCL connects two ranks at their first message, and each waits for the other: here, where both are
 * at the same point, rather than in mid-schedule. */
static gboolean
connect_edge (const Edge *edge, gboolean sends, GError **error)
{
  cudaStream_t stream = cuda_kernels.stream;
  ncclResult_t result
      = sends ? cuda_nccl.ncclSend (job.pulse, 1, ncclFloat, edge->place, edge->comm, stream)
              : cuda_nccl.ncclRecv (job.pulse, 1, ncclFloat, edge->place, edge->comm, stream);
  return cuda_nccl_settle (edge->comm, result, "connect the pipeline", error);
}

/* Edges from place p to p + 1 of the pipelines, those with p mod @of == @remainder; of a ring of odd
 * length the last edge touches two even ones and comes alone. */
static gboolean
make_edges (guint direction, guint32 base, guint32 size, guint32 stride, guint remainder,
            GError **error)
{
  guint32 at = (job.rank - base) / stride, next = (at + 1) % size, before = (at + size - 1) % size;
  guint32 odd_last = size % 2 == 1 ? size - 1 : size;
  gboolean starts = (at == odd_last ? 2 : at % 2) == remainder;
  gboolean ends = (before == odd_last ? 2 : before % 2) == remainder;
  guint32 first = starts ? at : before, peer = starts ? next : before;
  int color = starts || ends ? (int)(base + first * stride) : NCCL_SPLIT_NOCOLOR;
  ncclComm_t comm = NULL;
  if (!split (color, starts ? 0 : 1, TRUE, &comm, error))
    return FALSE;
  if (comm == NULL)
    return TRUE;
  /* A backward edge carries messages from its end to its start. */
  guint end = starts == (direction == FORWARD) ? OUT : IN;
  Edge edge = { comm, base + peer * stride, starts ? 1 : 0 };
  job.edges[direction][end] = edge;
  return connect_edge (&edge, end == OUT, error);
}

static gboolean
make_pipeline (guint32 base, guint32 size, guint32 stride, GError **error)
{
  const Shape *known = known_shape (PIPELINE, base, size, stride);
  if (known != NULL) {
    memcpy (job.edges, known->edges, sizeof job.edges);
    return TRUE;
  }
  memset (job.edges, 0, sizeof job.edges);
  for (guint direction = 0; direction < N_DIRECTIONS; direction++)
    for (guint remainder = 0; remainder < 2 + size % 2; remainder++)
      if (!make_edges (direction, base, size, stride, remainder, error))
        return FALSE;
  Shape made = { .id = PIPELINE, .base = base, .size = size, .stride = stride };
  memcpy (made.edges, job.edges, sizeof made.edges);
  g_array_append_val (job.shapes, made);
  return TRUE;
}

/* The stream of @group; it starts when compute has come here. */
static cudaStream_t
begin (guint group)
{
  cuda_wait_for (job.streams[group], CUDA_STREAM_COMPUTE);
  return cuda_device.streams[job.streams[group]];
}

/* Compute goes on when it is done. */
static gboolean
end (guint group, ncclResult_t result, const char *what, GError **error)
{
  if (!cuda_nccl_settle (job.groups[group], result, what, error))
    return FALSE;
  cuda_wait_for (CUDA_STREAM_COMPUTE, job.streams[group]);
  return TRUE;
}

static gboolean
all_reduce (ncclDataType_t type, guint group, ExecReduce op, void *buffer, guint64 count,
            GError **error)
{
  ncclRedOp_t how = op == EXEC_REDUCE_MAX ? ncclMax : ncclSum;
  return end (group,
              cuda_nccl.ncclAllReduce (buffer, buffer, count, type, how, job.groups[group],
                                       begin (group)),
              "ncclAllReduce", error);
}

static gboolean
all_gather (ncclDataType_t type, guint group, const void *in, void *out, guint64 count_each,
            GError **error)
{
  return end (group,
              cuda_nccl.ncclAllGather (in, out, count_each, type, job.groups[group], begin (group)),
              "ncclAllGather", error);
}

static gboolean
reduce_scatter (ncclDataType_t type, guint group, const void *in, void *out, guint64 count_each,
                GError **error)
{
  return end (group,
              cuda_nccl.ncclReduceScatter (in, out, count_each, type, ncclSum, job.groups[group],
                                           begin (group)),
              "ncclReduceScatter", error);
}

static ncclResult_t
give (ncclDataType_t type, const ExecCollective *c, cudaStream_t stream)
{
  ncclComm_t comm = job.groups[c->group];
  switch (c->kind) {
  case MODEL_COLLECTIVE_ALL_REDUCE:
    return cuda_nccl.ncclAllReduce (c->in, c->out, c->count, type, ncclSum, comm, stream);
  case MODEL_COLLECTIVE_ALL_GATHER:
    return cuda_nccl.ncclAllGather (c->in, c->out, c->count, type, comm, stream);
  default:
    return cuda_nccl.ncclReduceScatter (c->in, c->out, c->count, type, ncclSum, comm, stream);
  }
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
  guint stream = job.streams[c->group];
  cudaStream_t on = begin (c->group);
  cuda_mark_on (stream, mark);
  if (!cuda_nccl_settle (job.groups[c->group], give (type, c, on), "a collective beside compute",
                         error))
    return FALSE;
  cuda_mark_on (stream, mark != EXEC_NO_MARK ? mark + 1 : mark);
  return note_end (&job.done[ticket], &job.beside[ticket], stream, error);
}

static gboolean
join_collective (guint ticket, GError **error)
{
  return await_end (job.done[ticket], &job.beside[ticket], error);
}

/* Messages outside of the pipeline go through the world's communicator. */
static Edge
edge_of (guint32 peer, guint32 tag, guint end_of_edge)
{
  Edge edge = job.edges[tag % 2 == 0 ? FORWARD : BACKWARD][end_of_edge];
  if (tag >= EXEC_TAG_LOOSE || edge.comm == NULL || edge.peer != peer)
    edge = (Edge){ job.whole, peer, (int)peer };
  return edge;
}

static guint
stream_of (const Edge *edge, guint32 tag, guint end_of_edge)
{
  static const guint streams[N_DIRECTIONS][N_ENDS]
      = { { CUDA_STREAM_SEND_FORWARD, CUDA_STREAM_RECEIVE_FORWARD },
          { CUDA_STREAM_SEND_BACKWARD, CUDA_STREAM_RECEIVE_BACKWARD } };
  return edge->comm == job.whole ? CUDA_STREAM_COMPUTE
                                 : streams[tag % 2 == 0 ? FORWARD : BACKWARD][end_of_edge];
}

static gboolean
send_message (ncclDataType_t type, guint32 to_rank, guint32 tag, const void *buffer, guint64 count,
              guint slot, guint mark, GError **error)
{
  Edge edge = edge_of (to_rank, tag, OUT);
  guint stream = stream_of (&edge, tag, OUT);
  cuda_wait_for (stream, CUDA_STREAM_COMPUTE);
  cuda_mark_on (stream, mark);
  if (!cuda_nccl_settle (edge.comm,
                         cuda_nccl.ncclSend (buffer, count, type, edge.place, edge.comm,
                                             cuda_device.streams[stream]),
                         "ncclSend", error))
    return FALSE;
  cuda_mark_on (stream, mark != EXEC_NO_MARK ? mark + 1 : mark);
  return note_end (&job.sent[slot], &job.under_way[slot], stream, error);
}

/* Compute may overwrite the buffer when the message has gone. */
static gboolean
wait_slot (guint slot, GError **error)
{
  return await_end (job.sent[slot], &job.under_way[slot], error);
}

static gboolean
receive_message (ncclDataType_t type, guint32 from_rank, guint32 tag, void *buffer, guint64 count,
                 GError **error)
{
  Edge edge = edge_of (from_rank, tag, IN);
  guint stream = stream_of (&edge, tag, IN);
  cuda_wait_for (stream, CUDA_STREAM_COMPUTE); /* the buffer may still be read */
  if (!cuda_nccl_settle (edge.comm,
                         cuda_nccl.ncclRecv (buffer, count, type, edge.place, edge.comm,
                                             cuda_device.streams[stream]),
                         "ncclRecv", error))
    return FALSE;
  cuda_wait_for (CUDA_STREAM_COMPUTE, stream);
  return TRUE;
}

static gboolean
barrier (GError **error)
{
  if (job.world < 2)
    return TRUE;
  if (!cuda_nccl_settle (job.whole,
                         cuda_nccl.ncclAllReduce (job.pulse, job.pulse, 1, ncclFloat, ncclSum,
                                                  job.whole, cuda_kernels.stream),
                         "ncclAllReduce (barrier)", error))
    return FALSE;
  cuda_synchronize ();
  if (cuda_failure () == NULL)
    return TRUE;
  cuda_set_error (error, EXEC_ERROR_FAILED, "%s", cuda_failure ());
  return FALSE;
}

static void
abort_job (int exit_code)
{
  bootstrap_abort (exit_code);
  _exit (exit_code);
}

static void
close_job (void)
{
  if (job.comms != NULL) {
    cuda_synchronize ();
    g_mutex_lock (&job.lock);
    for (guint i = job.comms->len; !job.ended && i-- > 0;)
      cuda_nccl.ncclCommDestroy (g_ptr_array_index (job.comms, i));
    job.ended = TRUE;
    g_mutex_unlock (&job.lock);
  }
  cuda_close ();
  bootstrap_close ();
}

static const char *
nccl_version (void)
{
  static char text[32];
  int v = 0;
  if (cuda_nccl.ncclGetVersion == NULL || cuda_nccl.ncclGetVersion (&v) != ncclSuccess)
    return "no NCCL";
  g_snprintf (text, sizeof text, "NCCL %d.%d.%d", v / 10000, v / 100 % 100, v % 100);
  return text;
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
    .open = open_job,                                                                              \
    .make_group = make_group,                                                                      \
    .make_pipeline = make_pipeline,                                                                \
    .all_reduce = P##_all_reduce,                                                                  \
    .all_gather = P##_all_gather,                                                                  \
    .reduce_scatter = P##_reduce_scatter,                                                          \
    .start = P##_start,                                                                            \
    .join = join_collective,                                                                       \
    .send = P##_send,                                                                              \
    .wait = wait_slot,                                                                             \
    .receive = P##_receive,                                                                        \
    .barrier = barrier,                                                                            \
    .abort = abort_job,                                                                            \
    .close = close_job,                                                                            \
    .version = nccl_version,                                                                       \
  };
EXPORT (f32, ncclFloat)
EXPORT (bf16, ncclBfloat16)
