/* exec/cuda/comm.c - transport of exec/comm.h over NCCL.
 *
 * NCCL matches messages by order alone, and works through one communicator in order. So every
 * directed edge of the pipeline has a communicator and a stream of its own: a stage that waits for
 * its message to be taken still receives, and forward and backward messages do not mix. Collectives
 * follow the order of the program on one stream.
 */
#include "exec/cuda/bootstrap.h"
#include "exec/cuda/nccl-private.h"

#include <string.h>
#include <unistd.h>

#define WATCH_US 100000

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
  guint32 places[EXEC_MAX_GROUPS]; /* this rank's in them */
  Edge edges[N_DIRECTIONS][N_ENDS];
  GArray *shapes;                   /* (owned) Shape */
  cudaEvent_t sent[EXEC_MAX_SLOTS]; /* NULL: never used */
  gboolean under_way[EXEC_MAX_SLOTS];
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

static gboolean
join_world (GError **error)
{
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId id;
  config.blocking = 0;
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
split (int color, int key, ncclComm_t *out, GError **error)
{
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
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
make_group (guint id, guint32 base, guint32 size, guint32 stride, GError **error)
{
  job.places[id] = (job.rank - base) / stride;
  if (size == job.world) {
    job.groups[id] = job.whole;
    return TRUE;
  }
  const Shape *known = known_shape (id, base, size, stride);
  if (known == NULL && !split ((int)base, (int)job.places[id], &job.groups[id], error))
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
  cudaStream_t stream = cuda_device.streams[CUDA_STREAM_COLLECTIVE];
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
  if (!split (color, starts ? 0 : 1, &comm, error))
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

/* Collectives start when compute has come here, and compute waits for them. */
static cudaStream_t
begin (void)
{
  guint64 *used = &cuda_device.used_bytes[CUDA_USED_NCCL];
  if (*used == 0) /* all communicators are made before the first collective */
    *used = cuda_used_bytes ();
  cuda_wait_for (CUDA_STREAM_COLLECTIVE, CUDA_STREAM_COMPUTE);
  return cuda_device.streams[CUDA_STREAM_COLLECTIVE];
}

static gboolean
end (ncclComm_t comm, ncclResult_t result, const char *what, GError **error)
{
  if (!cuda_nccl_settle (comm, result, what, error))
    return FALSE;
  cuda_wait_for (CUDA_STREAM_COMPUTE, CUDA_STREAM_COLLECTIVE);
  return TRUE;
}

static gboolean
all_reduce (ncclDataType_t type, guint group, ExecReduce op, void *buffer, guint64 count,
            GError **error)
{
  ncclComm_t comm = job.groups[group];
  return end (comm,
              cuda_nccl.ncclAllReduce (buffer, buffer, count, type,
                                       op == EXEC_REDUCE_MAX ? ncclMax : ncclSum, comm, begin ()),
              "ncclAllReduce", error);
}

static gboolean
all_gather (ncclDataType_t type, guint group, const void *in, void *out, guint64 count_each,
            GError **error)
{
  ncclComm_t comm = job.groups[group];
  return end (comm, cuda_nccl.ncclAllGather (in, out, count_each, type, comm, begin ()),
              "ncclAllGather", error);
}

/* In place NCCL leaves the sum at this rank's part of the input; the caller wants it in front. */
static gboolean
reduce_scatter (ncclDataType_t type, guint group, const void *in, void *out, guint64 count_each,
                GError **error)
{
  ncclComm_t comm = job.groups[group];
  guint64 bytes = count_each * (type == ncclFloat ? 4 : 2);
  void *to = in == out ? (char *)out + job.places[group] * bytes : out;
  if (!end (comm, cuda_nccl.ncclReduceScatter (in, to, count_each, type, ncclSum, comm, begin ()),
            "ncclReduceScatter", error))
    return FALSE;
  if (to != out)
    cuda_copy_bytes (out, to, bytes);
  return TRUE;
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
  return edge->comm == job.whole ? CUDA_STREAM_COLLECTIVE
                                 : streams[tag % 2 == 0 ? FORWARD : BACKWARD][end_of_edge];
}

static gboolean
send_message (ncclDataType_t type, guint32 to_rank, guint32 tag, const void *buffer, guint64 count,
              guint slot, GError **error)
{
  Edge edge = edge_of (to_rank, tag, OUT);
  guint stream = stream_of (&edge, tag, OUT);
  if (job.sent[slot] == NULL
      && !cuda_check (cudaEventCreateWithFlags (&job.sent[slot], cudaEventDisableTiming),
                      "cudaEventCreateWithFlags", error))
    return FALSE;
  cuda_wait_for (stream, CUDA_STREAM_COMPUTE);
  if (!cuda_nccl_settle (edge.comm,
                         cuda_nccl.ncclSend (buffer, count, type, edge.place, edge.comm,
                                             cuda_device.streams[stream]),
                         "ncclSend", error))
    return FALSE;
  cuda_must (cudaEventRecord (job.sent[slot], cuda_device.streams[stream]), "cudaEventRecord");
  job.under_way[slot] = TRUE;
  return TRUE;
}

/* Compute may overwrite the buffer when the message has gone; the host goes on. */
static gboolean
wait_slot (guint slot, GError **error)
{
  if (!job.under_way[slot])
    return TRUE;
  job.under_way[slot] = FALSE;
  return cuda_check (cudaStreamWaitEvent (cuda_kernels.stream, job.sent[slot], 0),
                     "cudaStreamWaitEvent", error);
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
  if (!end (job.whole,
            cuda_nccl.ncclAllReduce (job.pulse, job.pulse, 1, ncclFloat, ncclSum, job.whole,
                                     begin ()),
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
                            guint slot, GError **error)                                            \
  {                                                                                                \
    return send_message (TYPE, to_rank, tag, buffer, count, slot, error);                          \
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
