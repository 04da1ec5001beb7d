/* tests/emu/runtime.cc - streams, events and device memory of cuda_runtime.h. */
#include "tests/emu/stream.hh"

#include <cuda_bf16.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <vector>

#define POISON         0xff              /* as fp32 and as bf16 this is not a number */
#define POISONED_BYTES ((size_t)1 << 20) /* pages that nobody touches cost nothing */
#define TOTAL_BYTES    ((size_t)4 << 30)
#define TURN_S         0.02
#define ALIGNMENT      256 /* of cudaMalloc */

uint64_t emu_block, emu_n_blocks;

struct CUstream_st {
  std::deque<std::function<bool ()> > work;
  int number; /* in the order of creation */
};

struct CUevent_st {
  uint64_t recorded = 0, passed = 0; /* which record */
  double seconds = 0;                /* of the last one passed */
  int stream = -1;                   /* where it was last recorded */
};

struct Region {
  char *mapped;
  size_t mapped_bytes, bytes;
  char *pages; /* between the two forbidden ones */
  size_t page_bytes;
};

static std::vector<CUstream_st *> streams;
static std::map<void *, Region> regions;
static size_t used_bytes;
static long long context_bytes; /* 0: there is none yet */
static uint32_t dice = 1;

void
emu_take (long long bytes)
{
  used_bytes += (size_t)bytes;
}

static const char *
setting (const char *name, const char *fallback)
{
  const char *text = getenv (name);
  return text != NULL ? text : fallback;
}

static double
clock_s ()
{
  struct timespec now;
  clock_gettime (CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static uint32_t
roll (uint32_t below)
{
  dice ^= dice << 13;
  dice ^= dice >> 17;
  dice ^= dice << 5;
  return dice % below;
}

static void
protect (int how)
{
  for (auto &entry : regions)
    mprotect (entry.second.pages, entry.second.page_bytes, how);
}

/* Which of @able to try: any, or the first made (compute) as far as it comes, or the last ones. */
static size_t
choose (size_t n_able)
{
  static const std::string order = setting ("PLAIT_EMU_ORDER", "random");
  return order == "late" ? 0 : order == "early" ? n_able - 1 : roll ((uint32_t)n_able);
}

/* Runs pieces of work of streams until none can go on, or until @asked has none: others wait as long
 * as they may where $PLAIT_EMU_ORDER is late; not for long, as who asks a device is answered at once.
 * FALSE: nothing went on. */
static bool
progress (const CUstream_st *asked = NULL)
{
  static const bool is_late = std::string (setting ("PLAIT_EMU_ORDER", "")) == "late";
  bool moved = false;
  std::vector<CUstream_st *> able (streams);
  if (std::all_of (streams.begin (), streams.end (),
                   [] (const CUstream_st *s) { return s->work.empty (); }))
    return false;
  protect (PROT_READ | PROT_WRITE);
  const double until_s = clock_s () + TURN_S;
  while (!able.empty () && clock_s () < until_s
         && !(is_late && asked != NULL && asked->work.empty ())) {
    size_t pick = choose (able.size ());
    CUstream_st *stream = able[pick];
    if (!stream->work.empty () && stream->work.front () ()) {
      stream->work.pop_front ();
      moved = true;
      able = streams; /* whoever waited may go on now */
    } else {
      able.erase (able.begin () + (long)pick);
    }
  }
  protect (PROT_NONE);
  return moved;
}

void
emu_enqueue_until (cudaStream_t stream, std::function<bool ()> work)
{
  stream->work.push_back (work);
}

/* $PLAIT_TEST_SLOW_RANK=RANK:FACTOR: that rank's device takes FACTOR times as long for kernels. */
static double
slowdown ()
{
  unsigned rank = 0;
  double factor = 1;
  const char *own = setting ("OMPI_COMM_WORLD_RANK", setting ("RANK", "0"));
  return sscanf (setting ("PLAIT_TEST_SLOW_RANK", ""), "%u:%lf", &rank, &factor) == 2
                 && rank == (unsigned)atoi (own)
             ? factor
             : 1;
}

void
emu_enqueue (cudaStream_t stream, std::function<void ()> work)
{
  static const double factor = slowdown ();
  stream->work.push_back ([=] {
    double start_s = clock_s ();
    work ();
    double end_s = start_s + factor * (clock_s () - start_s);
    while (factor > 1 && clock_s () < end_s)
      ;
    return true;
  });
}

static void *
allocate (size_t bytes, size_t alignment, bool at_start)
{
  size_t page = (size_t)sysconf (_SC_PAGESIZE);
  size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  size_t page_bytes = std::max ((rounded + page - 1) / page * page, page);
  char *mapped
      = (char *)mmap (NULL, page_bytes + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    return NULL;
  char *pages = mapped + page;
  mprotect (pages, page_bytes, PROT_READ | PROT_WRITE);
  char *memory = at_start ? pages : pages + page_bytes - rounded;
  memset (pages, POISON, page_bytes <= POISONED_BYTES ? page_bytes : POISONED_BYTES);
  mprotect (pages, page_bytes, PROT_NONE);
  regions[memory] = Region{ mapped, page_bytes + 2 * page, bytes, pages, page_bytes };
  used_bytes += bytes;
  return memory;
}

void *
emu_malloc_at_start (size_t bytes)
{
  return allocate (bytes, 1, true);
}

void *
emu_malloc_at_end (size_t bytes)
{
  return allocate (bytes, 1, false);
}

int
emu_is_intact (void)
{
  bool intact = true;
  cudaDeviceSynchronize ();
  protect (PROT_READ);
  for (auto &entry : regions) {
    const Region &r = entry.second;
    const unsigned char *end = (unsigned char *)entry.first + r.bytes;
    for (const unsigned char *p = (unsigned char *)r.pages;
         r.page_bytes <= POISONED_BYTES && p < (unsigned char *)r.pages + r.page_bytes; p++)
      if ((p < (unsigned char *)entry.first || p >= end) && *p != POISON)
        intact = false;
  }
  protect (PROT_NONE);
  return intact;
}

const char *
cudaGetErrorString (cudaError_t code)
{
  return code == cudaErrorMemoryAllocation ? "out of memory" : "emulated error";
}

cudaError_t
cudaGetLastError (void)
{
  return cudaSuccess;
}

cudaError_t
cudaDriverGetVersion (int *version)
{
  *version = atoi (setting ("PLAIT_EMU_DRIVER", "13000"));
  return cudaSuccess;
}

cudaError_t
cudaGetDeviceCount (int *count)
{
  int driver = 0;
  cudaDriverGetVersion (&driver);
  *count = atoi (setting ("PLAIT_EMU_DEVICES", "8"));
  return driver < CUDART_VERSION ? cudaErrorInsufficientDriver
         : *count == 0           ? cudaErrorNoDevice
                                 : cudaSuccess;
}

cudaError_t
cudaGetDeviceProperties (struct cudaDeviceProp *out, int device)
{
  int n = 0;
  cudaGetDeviceCount (&n);
  if (device >= n)
    return cudaErrorInvalidValue;
  snprintf (out->name, sizeof out->name, "emulated GPU");
  sscanf (setting ("PLAIT_EMU_CAPABILITY", "9.0"), "%d.%d", &out->major, &out->minor);
  out->multiProcessorCount = EMU_PROCESSORS;
  return cudaSuccess;
}

cudaError_t
cudaDeviceGetPCIBusId (char *out, int length, int device)
{
  snprintf (out, (size_t)length, "emu:%d", device);
  return cudaErrorInvalidValue; /* NVML does not know it */
}

cudaError_t
cudaSetDevice (int)
{
  dice = (uint32_t)atoi (setting ("PLAIT_EMU_SEED", "1")) * 2654435761u + (uint32_t)getpid ();
  dice |= 1;
  emu_take (EMU_CONTEXT_BYTES - context_bytes);
  context_bytes = EMU_CONTEXT_BYTES;
  return cudaSuccess;
}

cudaError_t
cudaDeviceSynchronize (void)
{
  for (CUstream_st *stream : streams)
    while (!stream->work.empty ())
      progress ();
  return cudaSuccess;
}

cudaError_t
cudaMemGetInfo (size_t *out_free, size_t *out_total)
{
  *out_total = TOTAL_BYTES;
  *out_free = TOTAL_BYTES - used_bytes;
  return cudaSuccess;
}

cudaError_t
cudaMalloc (void **out, size_t bytes)
{
  if (used_bytes + bytes > TOTAL_BYTES)
    return cudaErrorMemoryAllocation;
  *out = allocate (bytes, ALIGNMENT, false);
  return *out != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t
cudaFree (void *memory)
{
  auto found = regions.find (memory);
  if (memory == NULL)
    return cudaSuccess;
  cudaDeviceSynchronize ();
  if (found == regions.end ())
    return cudaErrorInvalidValue;
  used_bytes -= found->second.bytes;
  munmap (found->second.mapped, found->second.mapped_bytes);
  regions.erase (found);
  return cudaSuccess;
}

cudaError_t
cudaMemsetAsync (void *memory, int value, size_t bytes, cudaStream_t stream)
{
  emu_enqueue_until (stream, [=] {
    memset (memory, value, bytes);
    return true;
  });
  return cudaSuccess;
}

static std::map<const char *, size_t> locked; /* page-locked host memory */

cudaError_t
cudaMallocHost (void **out, size_t bytes)
{
  *out = malloc (bytes);
  locked[(char *)*out] = bytes;
  return *out != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t
cudaFreeHost (void *memory)
{
  cudaDeviceSynchronize ();
  locked.erase ((char *)memory);
  free (memory);
  return cudaSuccess;
}

static bool
is_locked (const char *from, size_t bytes)
{
  for (auto &entry : locked)
    if (from >= entry.first && from + bytes <= entry.first + entry.second)
      return true;
  return false;
}

/* What is copied from pageable host memory is what is there now, as the driver stages it; from
 * page-locked memory what is there when the copy's turn has come. */
cudaError_t
cudaMemcpyAsync (void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
  std::vector<char> staged;
  if (kind == cudaMemcpyHostToDevice && !is_locked ((const char *)from, bytes))
    staged.assign ((const char *)from, (const char *)from + bytes);
  emu_enqueue_until (stream, [=] {
    memmove (to, staged.empty () ? from : staged.data (), bytes);
    return true;
  });
  return cudaSuccess;
}

cudaError_t
cudaDeviceGetStreamPriorityRange (int *least, int *greatest)
{
  *least = 0;
  *greatest = -5; /* as on real ones: lower numbers go first */
  return cudaSuccess;
}

cudaError_t
cudaStreamCreateWithPriority (cudaStream_t *out, unsigned, int)
{
  /* those that share a hardware queue wait for each other: collectives may lock up */
  if (streams.size () >= (size_t)atoi (setting ("CUDA_DEVICE_MAX_CONNECTIONS", "8")))
    return cudaErrorInvalidValue;
  *out = new CUstream_st;
  (*out)->number = (int)streams.size ();
  streams.push_back (*out);
  return cudaSuccess;
}

cudaError_t
cudaStreamDestroy (cudaStream_t stream)
{
  streams.erase (std::find (streams.begin (), streams.end (), stream));
  delete stream;
  return cudaSuccess;
}

/* Somebody asks whether something is done: what can go on does. */
static void
wait_a_while (const CUstream_st *stream)
{
  static unsigned idle; /* times in a row that nothing went on */
  idle = progress (stream) ? 0 : std::min (idle + 1, 5u);
  if (idle > 0)
    usleep (10u << idle); /* other ranks want the core */
}

cudaError_t
cudaStreamQuery (cudaStream_t stream)
{
  if (!stream->work.empty ())
    wait_a_while (stream);
  return stream->work.empty () ? cudaSuccess : cudaErrorNotReady;
}

/* $PLAIT_EMU_DROP="A>B": stream B does not wait for what was recorded on stream A. */
static const std::string &
dropped ()
{
  static const std::string what = setting ("PLAIT_EMU_DROP", "");
  return what;
}

static bool
is_dropped (const CUstream_st *stream, const CUevent_st *event)
{
  return dropped () == std::to_string (event->stream) + ">" + std::to_string (stream->number);
}

cudaError_t
cudaStreamWaitEvent (cudaStream_t stream, cudaEvent_t event, unsigned)
{
  uint64_t record = event->recorded;
  if (is_dropped (stream, event))
    return cudaSuccess;
  emu_enqueue_until (stream, [=] { return event->passed >= record; });
  return cudaSuccess;
}

cudaError_t
cudaEventCreate (cudaEvent_t *out)
{
  *out = new CUevent_st;
  return cudaSuccess;
}

cudaError_t
cudaEventCreateWithFlags (cudaEvent_t *out, unsigned)
{
  return cudaEventCreate (out);
}

cudaError_t
cudaEventDestroy (cudaEvent_t event)
{
  delete event;
  return cudaSuccess;
}

cudaError_t
cudaEventQuery (cudaEvent_t event)
{
  if (event->passed < event->recorded)
    wait_a_while (streams[(size_t)event->stream]);
  return event->passed >= event->recorded ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t
cudaEventRecord (cudaEvent_t event, cudaStream_t stream)
{
  uint64_t record = ++event->recorded;
  event->stream = stream->number;
  emu_enqueue_until (stream, [=] {
    if (record < event->passed)
      return true; /* recorded again since, and passed there */
    event->seconds = clock_s ();
    event->passed = record;
    return true;
  });
  return cudaSuccess;
}

cudaError_t
cudaEventElapsedTime (float *out_ms, cudaEvent_t from, cudaEvent_t to)
{
  bool ready = from->passed == from->recorded && to->passed == to->recorded;
  *out_ms = (float)((to->seconds - from->seconds) * 1e3);
  return ready || !dropped ().empty () ? cudaSuccess : cudaErrorNotReady; /* results are to tell */
}
