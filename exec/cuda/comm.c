/* exec/cuda/comm.c - communicators of exec/comm.h over NCCL; what goes through them: transfer.c.
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
 *   - no stream stands behind another in a hardware queue (CUDA_DEVICE_MAX_CONNECTIONS, module.c);
 *   - nothing that waits for the whole device happens while work is under way: memory, kernels and
 *     connections are there from the rehearsal on (exec/runner.c).
 */
#include "exec/cuda/bootstrap.h"
#include "exec/cuda/comm-private.h"

#include <string.h>
#include <unistd.h>

#define WATCH_US    100000
#define SPLIT_US    100     /* between looks at a communicator that is on its way */
#define ABORT_US    5000000 /* that aborts may take */
#define MOST_BLOCKS 32      /* channels of a communicator (NCCL_MAX_NCHANNELS) */

/* Communicators of one shape: they hold memory, so a shape that comes again gets them again. All
 * ranks ask for the same shapes in the same order. */
typedef struct {
  guint id;
  guint32 base, size, stride;
  ncclComm_t comm;                                /* of a group */
  CudaEdge edges[CUDA_N_DIRECTIONS][CUDA_N_ENDS]; /* of a pipeline */
} Shape;
#define PIPELINE EXEC_MAX_GROUPS /* as id */

CudaJob cuda_job;

static gint n_aborting;

static gpointer
abort_one (gpointer comm)
{
  cuda_nccl.ncclCommAbort (comm);
  g_atomic_int_add (&n_aborting, -1);
  return NULL;
}

/* Side by side: an abort may wait for the whole device, where kernels of the others still wait. */
static void
abort_all (void)
{
  gint64 end_us = g_get_monotonic_time () + ABORT_US;
  g_atomic_int_set (&n_aborting, (gint)cuda_job.comms->len);
  for (guint i = 0; i < cuda_job.comms->len; i++)
    g_thread_unref (g_thread_new ("nccl abort", abort_one, g_ptr_array_index (cuda_job.comms, i)));
  while (g_atomic_int_get (&n_aborting) > 0 && g_get_monotonic_time () < end_us)
    g_usleep (1000);
}

/* Asynchronous errors of any communicator end them all, so that nothing waits for ever. */
static gpointer
watch (gpointer unused)
{
  for (;;) {
    g_usleep (WATCH_US);
    g_mutex_lock (&cuda_job.lock);
    for (guint i = 0; !cuda_job.ended && i < cuda_job.comms->len; i++) {
      ncclComm_t comm = g_ptr_array_index (cuda_job.comms, i);
      ncclResult_t state = ncclSuccess;
      cuda_nccl.ncclCommGetAsyncError (comm, &state);
      if (state == ncclSuccess || state == ncclInProgress)
        continue;
      cuda_note ("NCCL", cuda_nccl.ncclGetErrorString (state));
      cuda_nccl_keep_out ();
      abort_all ();
      cuda_job.ended = TRUE;
    }
    gboolean ended = cuda_job.ended;
    g_mutex_unlock (&cuda_job.lock);
    if (ended)
      return unused;
  }
}

static void
keep (ncclComm_t comm)
{
  g_mutex_lock (&cuda_job.lock);
  g_ptr_array_add (cuda_job.comms, comm);
  g_mutex_unlock (&cuda_job.lock);
}

/* Blocks of a message's kernel: what a link needs, far below what a device has. */
#define EDGE_BLOCKS 8
/* Collectives that may be under way at once: tensor parallel, data parallel, one more. */
#define N_COLLECTIVES 3

/* A block of NCCL holds a multiprocessor until the other ranks have come. Together those of all
 * streams must leave room for one another, or one that waits for another rank could keep out the
 * very one that this rank waits for. cgaClusterSize stays NCCL's own (clusters of 4 blocks from
 * compute capability 9.0 on), which this sum does not count: docs/exec.md. */
static ncclConfig_t
limit_blocks (gboolean is_edge)
{
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  int all = cuda_device.n_processors, edge = CLAMP (all / 16, 1, EDGE_BLOCKS);
  int edges = CUDA_N_DIRECTIONS * CUDA_N_ENDS * edge;
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
  if (cuda_job.rank == 0
      && !cuda_nccl_settle (NULL, cuda_nccl.ncclGetUniqueId (&id), "ncclGetUniqueId", error))
    return FALSE;
  if (!bootstrap_share (&id, sizeof id, error))
    return FALSE;
  /* nobody watches yet */
  ncclResult_t result = cuda_nccl.ncclCommInitRankConfig (&cuda_job.whole, (int)cuda_job.world, id,
                                                          (int)cuda_job.rank, &config);
  if (!cuda_nccl_settle (cuda_job.whole, result, "ncclCommInitRankConfig", error))
    return FALSE;
  keep (cuda_job.whole);
  return TRUE;
}

gboolean
cuda_job_open (guint32 *out_rank, guint32 *out_world, GError **error)
{
  guint32 local = 0;
  if (!bootstrap_open (&cuda_job.rank, &cuda_job.world, &local, error)
      || !cuda_probe (cuda_job.world, error) || !cuda_open (local, error))
    return FALSE;
  *out_rank = cuda_job.rank;
  *out_world = cuda_job.world;
  cuda_job.pulse = cuda_memory_new (sizeof (float));
  if (cuda_job.pulse == NULL)
    return cuda_check (cudaErrorMemoryAllocation, "allocate 4 bytes for barriers", error);
  cuda_job.comms = g_ptr_array_new ();
  cuda_job.shapes = g_array_new (FALSE, FALSE, sizeof (Shape));
  if (cuda_job.world > 1 && !join_world (error))
    return FALSE;
  g_thread_unref (g_thread_new ("nccl watchdog", watch, NULL));
  return TRUE;
}

/*
 * A split that does not block may say "success" at once and writes the new communicator from a
 * thread of its own, later: until then the parent is in progress, and the place must last, whatever
 * becomes of this call.
 */
static gboolean
split (int color, int key, gboolean is_edge, ncclComm_t *out, GError **error)
{
  static GPtrArray *places;
  ncclConfig_t config = limit_blocks (is_edge);
  ncclComm_t *place = g_new0 (ncclComm_t, 1);
  *out = NULL;
  if (places == NULL)
    places = g_ptr_array_new ();
  g_ptr_array_add (places, place);
  if (!cuda_nccl_enter ("ncclCommSplit", error))
    return FALSE;
  ncclResult_t result = cuda_nccl.ncclCommSplit (cuda_job.whole, color, key, place, &config);
  cuda_nccl_leave ();
  if (result == ncclSuccess)
    result = ncclInProgress;
  if (!cuda_nccl_settle (cuda_job.whole, result, "ncclCommSplit", error))
    return FALSE;
  if (color == NCCL_SPLIT_NOCOLOR)
    return TRUE;
  while ((*out = g_atomic_pointer_get (place)) == NULL) {
    g_usleep (SPLIT_US);
    if (!cuda_nccl_settle (cuda_job.whole, ncclInProgress, "ncclCommSplit", error))
      return FALSE;
  }
  if (!cuda_nccl_settle (*out, ncclInProgress, "ncclCommSplit", error))
    return FALSE;
  keep (*out);
  return TRUE;
}

static const Shape *
known_shape (guint id, guint32 base, guint32 size, guint32 stride)
{
  for (guint i = 0; i < cuda_job.shapes->len; i++) {
    const Shape *s = &g_array_index (cuda_job.shapes, Shape, i);
    if (s->id == id && s->base == base && s->size == size && s->stride == stride)
      return s;
  }
  return NULL;
}

gboolean
cuda_job_make_group (guint id, ModelStream stream, guint32 base, guint32 size, guint32 stride,
                     GError **error)
{
  cuda_job.places[id] = (cuda_job.rank - base) / stride;
  cuda_job.streams[id] = stream;
  /* Gathers of parameters go on over the end of a step, where the world has its own to say. */
  if (size == cuda_job.world && stream != MODEL_STREAM_DP) {
    cuda_job.groups[id] = cuda_job.whole;
    return TRUE;
  }
  const Shape *known = known_shape (id, base, size, stride);
  if (known == NULL
      && !split ((int)base, (int)cuda_job.places[id], FALSE, &cuda_job.groups[id], error))
    return FALSE;
  const Shape made
      = { .id = id, .base = base, .size = size, .stride = stride, .comm = cuda_job.groups[id] };
  if (known == NULL)
    g_array_append_val (cuda_job.shapes, made);
  else
    cuda_job.groups[id] = known->comm;
  return TRUE;
}

/* NCCL connects two ranks at their first message, and each waits for the other: here, where both are
 * at the same point, rather than in mid-schedule. */
static gboolean
connect_edge (const CudaEdge *edge, gboolean sends, GError **error)
{
  return cuda_exchange (edge, sends, ncclFloat, cuda_job.pulse, 1, CUDA_STREAM_COMPUTE,
                        EXEC_NO_MARK, error);
}

/* Edges from place p to p + 1 of the pipelines, those with p mod @of == @remainder; of a ring of odd
 * length the last edge touches two even ones and comes alone. */
static gboolean
make_edges (guint direction, guint32 base, guint32 size, guint32 stride, guint remainder,
            GError **error)
{
  guint32 at = (cuda_job.rank - base) / stride, next = (at + 1) % size,
          before = (at + size - 1) % size;
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
  guint end = starts == (direction == CUDA_FORWARD) ? CUDA_OUT : CUDA_IN;
  CudaEdge edge = { comm, base + peer * stride, starts ? 1 : 0 };
  cuda_job.edges[direction][end] = edge;
  return connect_edge (&edge, end == CUDA_OUT, error);
}

gboolean
cuda_job_make_pipeline (guint32 base, guint32 size, guint32 stride, GError **error)
{
  const Shape *known = known_shape (PIPELINE, base, size, stride);
  if (known != NULL) {
    memcpy (cuda_job.edges, known->edges, sizeof cuda_job.edges);
    return TRUE;
  }
  memset (cuda_job.edges, 0, sizeof cuda_job.edges);
  for (guint direction = 0; direction < CUDA_N_DIRECTIONS; direction++)
    for (guint remainder = 0; remainder < 2 + size % 2; remainder++)
      if (!make_edges (direction, base, size, stride, remainder, error))
        return FALSE;
  Shape made = { .id = PIPELINE, .base = base, .size = size, .stride = stride };
  memcpy (made.edges, cuda_job.edges, sizeof made.edges);
  g_array_append_val (cuda_job.shapes, made);
  return TRUE;
}

void
cuda_job_abort (int exit_code)
{
  bootstrap_abort (exit_code);
  _exit (exit_code);
}

void
cuda_job_close (void)
{
  if (cuda_job.comms != NULL) {
    cuda_synchronize ();
    g_mutex_lock (&cuda_job.lock);
    for (guint i = cuda_job.comms->len; !cuda_job.ended && i-- > 0;)
      cuda_nccl.ncclCommDestroy (g_ptr_array_index (cuda_job.comms, i));
    cuda_job.ended = TRUE;
    g_mutex_unlock (&cuda_job.lock);
  }
  cuda_close ();
  bootstrap_close ();
}

const char *
cuda_job_version (void)
{
  static char text[32];
  int v = 0;
  if (cuda_nccl.ncclGetVersion == NULL || cuda_nccl.ncclGetVersion (&v) != ncclSuccess)
    return "no NCCL";
  g_snprintf (text, sizeof text, "NCCL %d.%d.%d", v / 10000, v / 100 % 100, v % 100);
  return text;
}
