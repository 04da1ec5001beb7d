/* exec/cuda/device.c - the device of this rank: finding it, its memory, streams and clocks. */
#include "exec/cuda/device-private.h"

#include <stdio.h>
#include <string.h>

/* CUDA 13 compiles for nothing older (toolkit release notes: Maxwell, Pascal and Volta removed). */
#define LEAST_MAJOR 8
/* NVIDIA's recommendation for cuBLAS on Hopper and later, 4 MiB before (cublasSetWorkspace). */
#define CUBLAS_WORKSPACE_BYTES (32u << 20)
#define SCRATCH_BYTES          (32u << 20)
#define BLOCKS_PER_PROCESSOR   8 /* of 256 threads: all that fit on a multiprocessor since sm_80 */

CudaKernels cuda_kernels;
CudaDevice cuda_device;

void
cuda_set_error (GError **error, ExecError code, const char *format, ...)
{
  va_list arguments;
  va_start (arguments, format);
  g_autofree char *text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_set_error_literal (error, EXEC_ERROR, (int)code, text);
}

gboolean
cuda_check (cudaError_t code, const char *what, GError **error)
{
  if (code == cudaSuccess)
    return TRUE;
  cuda_set_error (error, EXEC_ERROR_UNAVAILABLE, "%s: %s", what, cudaGetErrorString (code));
  return FALSE;
}

void
cuda_note (const char *what, const char *reason)
{
  if (!g_atomic_int_compare_and_exchange (&cuda_device.failed, 0, 1))
    return;
  g_snprintf (cuda_device.failure, sizeof cuda_device.failure, "%s: %s", what, reason);
  g_atomic_int_set (&cuda_device.failed, 2);
}

void
cuda_must (cudaError_t code, const char *what)
{
  if (code != cudaSuccess)
    cuda_note (what, cudaGetErrorString (code));
}

const char *
cuda_failure (void)
{
  return g_atomic_int_get (&cuda_device.failed) == 2 ? cuda_device.failure : NULL;
}

/* Refuses what the modules' code does not run on. */
static gboolean
check_device (int device, GError **error)
{
  struct cudaDeviceProp p;
  if (!cuda_check (cudaGetDeviceProperties (&p, device), "cudaGetDeviceProperties", error))
    return FALSE;
  if (p.major >= LEAST_MAJOR)
    return TRUE;
  cuda_set_error (
      error, EXEC_ERROR_UNAVAILABLE,
      "GPU %d (%s) is of compute capability %d.%d; the cuda backend needs 8.0 (A100) or "
      "later: CUDA 13 builds no code for older ones",
      device, p.name, p.major, p.minor);
  return FALSE;
}

guint32
cuda_device_count (void)
{
  int n = 0;
  return cudaGetDeviceCount (&n) == cudaSuccess ? (guint32)n : 0;
}

gboolean
cuda_probe (guint32 ranks, GError **error)
{
  int n = 0, driver = 0;
  cudaError_t code = cudaGetDeviceCount (&n);
  cudaDriverGetVersion (&driver); /* 0 where there is none */
  if (code == cudaErrorInsufficientDriver || driver == 0) {
    cuda_set_error (
        error, EXEC_ERROR_UNAVAILABLE,
        driver == 0 ? "no NVIDIA driver on this machine (libcuda.so.1 cannot be loaded): the cuda "
                      "backend needs one"
                    : "the NVIDIA driver supports CUDA %d.%d, the cuda backend needs %d.%d: "
                      "install a newer driver",
        driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    return FALSE;
  }
  if (code == cudaErrorNoDevice || (code == cudaSuccess && n == 0)) {
    cuda_set_error (error, EXEC_ERROR_UNAVAILABLE,
                    "no GPU that the driver shows to this process (nvidia-smi -L, "
                    "CUDA_VISIBLE_DEVICES)");
    return FALSE;
  }
  if (!cuda_check (code, "cudaGetDeviceCount", error))
    return FALSE;
  for (int i = 0; i < n && i < (int)ranks; i++)
    if (!check_device (i, error))
      return FALSE;
  return ranks < 2 || cuda_nccl_load (error);
}

/* Blocks of what runs beside compute start before those of compute that have not: else a collective
 * would wait for the end of the product it should run beside. */
static gboolean
make_streams (GError **error)
{
  int least = 0, most = 0;
  if (!cuda_check (cudaDeviceGetStreamPriorityRange (&least, &most),
                   "cudaDeviceGetStreamPriorityRange", error))
    return FALSE;
  for (guint i = 0; i < CUDA_N_STREAMS; i++)
    if (!cuda_check (cudaStreamCreateWithPriority (&cuda_device.streams[i], cudaStreamNonBlocking,
                                                   i == CUDA_STREAM_COMPUTE ? least : most),
                     "cudaStreamCreateWithPriority", error)
        || !cuda_check (cudaEventCreateWithFlags (&cuda_device.done[i], cudaEventDisableTiming),
                        "cudaEventCreateWithFlags", error))
      return FALSE;
  return TRUE;
}

static gboolean
open_cublas (GError **error)
{
  CudaDevice *d = &cuda_device;
  if (!cuda_check (cudaMalloc (&d->cublas_workspace, CUBLAS_WORKSPACE_BYTES),
                   "allocate the workspace of cuBLAS", error))
    return FALSE;
  if (cublasCreate (&d->cublas) == CUBLAS_STATUS_SUCCESS
      && cublasSetStream (d->cublas, cuda_kernels.stream) == CUBLAS_STATUS_SUCCESS
      && cublasSetWorkspace (d->cublas, d->cublas_workspace, CUBLAS_WORKSPACE_BYTES)
             == CUBLAS_STATUS_SUCCESS)
    return TRUE;
  cuda_set_error (error, EXEC_ERROR_UNAVAILABLE, "cublasCreate failed on GPU %d", d->number);
  return FALSE;
}

static gboolean
open_scratch (GError **error)
{
  void *scratch = NULL;
  if (!cuda_check (cudaMalloc (&scratch, SCRATCH_BYTES), "allocate 32 MiB of scratch", error))
    return FALSE;
  cuda_kernels.workspace = scratch;
  cuda_kernels.workspace_count = SCRATCH_BYTES / sizeof (float);
  return TRUE;
}

static gboolean
open_uploads (GError **error)
{
  CudaDevice *d = &cuda_device;
  void *slots = NULL;
  if (!cuda_check (cudaMallocHost (&slots, CUDA_N_UPLOADS * CUDA_UPLOAD_BYTES),
                   "allocate page-locked memory", error))
    return FALSE;
  d->upload_slots = slots;
  for (guint i = 0; i < CUDA_N_UPLOADS; i++)
    if (!cuda_check (cudaEventCreateWithFlags (&d->uploaded[i], cudaEventDisableTiming),
                     "cudaEventCreateWithFlags", error))
      return FALSE;
  return TRUE;
}

gboolean
cuda_open (guint32 local_rank, GError **error)
{
  CudaDevice *d = &cuda_device;
  struct cudaDeviceProp p;
  int n = 0;
  if (d->is_open)
    return TRUE;
  if (!cuda_check (cudaGetDeviceCount (&n), "cudaGetDeviceCount", error))
    return FALSE;
  d->number = (int)(local_rank % (guint32)MAX (n, 1));
  if (!check_device (d->number, error)
      || !cuda_check (cudaSetDevice (d->number), "cudaSetDevice", error)
      || !cuda_check (cudaGetDeviceProperties (&p, d->number), "cudaGetDeviceProperties", error))
    return FALSE;
  g_strlcpy (d->name, p.name, sizeof d->name);
  d->n_processors = p.multiProcessorCount;
  cuda_kernels.n_blocks_max = (guint32)p.multiProcessorCount * BLOCKS_PER_PROCESSOR;
  if (!make_streams (error))
    return FALSE;
  cuda_kernels.stream = d->streams[CUDA_STREAM_COMPUTE];
  d->used_bytes[CUDA_USED_CONTEXT] = cuda_used_bytes ();
  if (!open_cublas (error))
    return FALSE;
  d->used_bytes[CUDA_USED_CUBLAS] = cuda_used_bytes ();
  if (!open_scratch (error) || !open_uploads (error))
    return FALSE;
  d->used_bytes[CUDA_USED_SCRATCH] = cuda_used_bytes ();
  d->is_open = TRUE;
  return TRUE;
}

void
cuda_close (void)
{
  CudaDevice *d = &cuda_device;
  if (!d->is_open)
    return;
  cudaDeviceSynchronize ();
  for (guint i = 0; i < d->n_marks; i++)
    cudaEventDestroy (d->marks[i]);
  g_clear_pointer (&d->marks, g_free);
  d->n_marks = 0;
  cublasDestroy (d->cublas);
  cudaFree (d->cublas_workspace);
  cudaFree (cuda_kernels.workspace);
  for (guint i = 0; i < CUDA_N_UPLOADS; i++)
    cudaEventDestroy (d->uploaded[i]);
  cudaFreeHost (d->upload_slots);
  for (guint i = 0; i < CUDA_N_STREAMS; i++) {
    cudaEventDestroy (d->done[i]);
    cudaStreamDestroy (d->streams[i]);
  }
  d->is_open = FALSE;
}

guint64
cuda_used_bytes (void)
{
  size_t free_bytes = 0, total_bytes = 0;
  cuda_must (cudaMemGetInfo (&free_bytes, &total_bytes), "cudaMemGetInfo");
  return total_bytes - free_bytes;
}

void
cuda_opened_bytes (guint64 *out_context, guint64 *out_workspace, guint64 *out_all)
{
  const guint64 *used = cuda_device.used_bytes;
  *out_context = used[CUDA_USED_CONTEXT];
  *out_workspace = used[CUDA_USED_CUBLAS] - used[CUDA_USED_CONTEXT];
  *out_all = used[CUDA_USED_SCRATCH];
}

float *
cuda_memory_new (guint64 bytes)
{
  void *memory = NULL;
  if (cudaMalloc (&memory, bytes) != cudaSuccess) {
    cudaGetLastError (); /* said by the caller */
    return NULL;
  }
  cuda_must (cudaMemsetAsync (memory, 0, bytes, cuda_kernels.stream), "cudaMemsetAsync");
  return memory;
}

void
cuda_memory_free (float *memory, guint64 bytes)
{
  (void)bytes;
  if (memory == NULL)
    return;
  cuda_synchronize ();
  /* After a failure kernels may still wait for ranks that are gone, and cudaFree for them. */
  if (cuda_failure () == NULL)
    cuda_must (cudaFree (memory), "cudaFree");
}

void
cuda_copy_bytes (void *to, const void *from, guint64 bytes)
{
  cuda_must (cudaMemcpyAsync (to, from, bytes, cudaMemcpyDeviceToDevice, cuda_kernels.stream),
             "copy on the device");
}

/* Waits for an event as cuda_synchronize waits. FALSE: there was a failure. */
static gboolean
await (cudaEvent_t event)
{
  cudaError_t code;
  while ((code = cudaEventQuery (event)) == cudaErrorNotReady)
    if (cuda_failure () != NULL)
      return FALSE;
  cuda_must (code, "the device");
  return code == cudaSuccess;
}

/*
 * Small ones, tokens and targets, go through page-locked memory, whose copy the host need not wait
 * for; a slot is used again when its copy is done. From pageable memory the driver may keep the host
 * until the stream has come to the copy. Large ones are start values.
 */
void
cuda_upload (float *to, const float *host, guint64 count)
{
  CudaDevice *d = &cuda_device;
  guint64 bytes = count * sizeof (float);
  guint slot = d->n_uploads++ % CUDA_N_UPLOADS;
  gboolean small = bytes <= CUDA_UPLOAD_BYTES;
  const void *from = host;
  if (small) {
    if (!await (d->uploaded[slot]))
      return;
    from = memcpy (d->upload_slots + slot * CUDA_UPLOAD_BYTES, host, bytes);
  }
  cuda_must (cudaMemcpyAsync (to, from, bytes, cudaMemcpyHostToDevice, cuda_kernels.stream),
             "copy to the device");
  if (small)
    cuda_must (cudaEventRecord (d->uploaded[slot], cuda_kernels.stream), "cudaEventRecord");
}

/* Only once all before it is done: a copy that waited behind a collective whose partner is gone would
 * keep the driver from returning, or reach @host when its owner has left. */
void
cuda_download (float *host, const float *from, guint64 count)
{
  cudaError_t code;
  cuda_synchronize ();
  if (cuda_failure () != NULL) {
    memset (host, 0, count * sizeof *host);
    return;
  }
  cuda_must (cudaMemcpyAsync (host, from, count * sizeof (float), cudaMemcpyDeviceToHost,
                              cuda_kernels.stream),
             "copy from the device");
  while ((code = cudaStreamQuery (cuda_kernels.stream)) == cudaErrorNotReady)
    ;
  cuda_must (code, "copy from the device");
}

/* Waits without blocking in the driver: a collective whose partner is gone never ends, and the
 * watchdog must be heard. */
void
cuda_synchronize (void)
{
  cudaError_t code;
  while ((code = cudaStreamQuery (cuda_kernels.stream)) == cudaErrorNotReady)
    if (cuda_failure () != NULL)
      return;
  cuda_must (code, "the device");
  cuda_must (cudaGetLastError (), "the device");
}

void
cuda_mark (guint index)
{
  cuda_mark_on (CUDA_STREAM_COMPUTE, index);
}

void
cuda_mark_on (guint stream, guint index)
{
  CudaDevice *d = &cuda_device;
  if (index == EXEC_NO_MARK)
    return;
  if (index >= d->n_marks) {
    guint n = MAX (2 * d->n_marks, MAX (index + 1, 256));
    d->marks = g_renew (cudaEvent_t, d->marks, n);
    for (guint i = d->n_marks; i < n; i++)
      cuda_must (cudaEventCreate (&d->marks[i]), "cudaEventCreate");
    d->n_marks = n;
  }
  cuda_must (cudaEventRecord (d->marks[index], d->streams[stream]), "cudaEventRecord");
}

gboolean
cuda_passed (guint index)
{
  cudaError_t code = cudaEventQuery (cuda_device.marks[index]);
  if (code != cudaErrorNotReady)
    cuda_must (code, "the device");
  return code != cudaErrorNotReady || cuda_failure () != NULL;
}

double
cuda_elapsed_s (guint from, guint to)
{
  float milliseconds = 0;
  cuda_must (cudaEventElapsedTime (&milliseconds, cuda_device.marks[from], cuda_device.marks[to]),
             "cudaEventElapsedTime");
  return milliseconds * 1e-3;
}

void
cuda_wait_for (guint waiting, guint done)
{
  CudaDevice *d = &cuda_device;
  if (waiting == done)
    return;
  cuda_must (cudaEventRecord (d->done[done], d->streams[done]), "cudaEventRecord");
  cuda_must (cudaStreamWaitEvent (d->streams[waiting], d->done[done], 0), "cudaStreamWaitEvent");
}
