/* tests/emu/cuda_runtime.h - the part of the CUDA runtime that exec/cuda/ uses, on a CPU.
 *
 * Streams keep their work until somebody waits; then any stream whose next piece may run is picked
 * at random ($PLAIT_EMU_SEED), so that a missing event shows; or ($PLAIT_EMU_ORDER) all streams but
 * the first as late as they may, or as early. $PLAIT_EMU_DROP takes events away on purpose. Device memory cannot be touched from
 * the host's code, starts poisoned (NaN) and lies before a page that cannot be touched at all.
 * $PLAIT_EMU_DEVICES, $PLAIT_EMU_CAPABILITY ("7.0") and $PLAIT_EMU_DRIVER (0: none) say what is there.
 */
#pragma once
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
#define CUDART_VERSION     13000
#define CUDART_IS_EMULATED 1

typedef enum {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorNotReady = 600,
} cudaError_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef enum {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3
} cudaMemcpyKind;
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };
struct cudaDeviceProp {
  char name[256];
  int major, minor, multiProcessorCount;
};
typedef enum { CUDA_R_32F = 0, CUDA_R_16BF = 14 } cudaDataType;

const char *cudaGetErrorString (cudaError_t code);
cudaError_t cudaGetLastError (void);
cudaError_t cudaDriverGetVersion (int *version);
cudaError_t cudaGetDeviceCount (int *count);
cudaError_t cudaGetDeviceProperties (struct cudaDeviceProp *out, int device);
cudaError_t cudaDeviceGetPCIBusId (char *out, int length, int device);
cudaError_t cudaSetDevice (int device);
cudaError_t cudaDeviceSynchronize (void);
cudaError_t cudaMemGetInfo (size_t *out_free, size_t *out_total);
cudaError_t cudaMalloc (void **out, size_t bytes);
cudaError_t cudaFree (void *memory);
cudaError_t cudaMallocHost (void **out, size_t bytes);
cudaError_t cudaFreeHost (void *memory);
cudaError_t cudaMemsetAsync (void *memory, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaMemcpyAsync (void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                             cudaStream_t stream);
cudaError_t cudaDeviceGetStreamPriorityRange (int *least, int *greatest);
cudaError_t cudaStreamCreateWithPriority (cudaStream_t *out, unsigned flags, int priority);
cudaError_t cudaStreamDestroy (cudaStream_t stream);
cudaError_t cudaStreamQuery (cudaStream_t stream);
cudaError_t cudaStreamWaitEvent (cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreate (cudaEvent_t *out);
cudaError_t cudaEventCreateWithFlags (cudaEvent_t *out, unsigned flags);
cudaError_t cudaEventDestroy (cudaEvent_t event);
cudaError_t cudaEventQuery (cudaEvent_t event);
cudaError_t cudaEventRecord (cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventElapsedTime (float *out_ms, cudaEvent_t from, cudaEvent_t to);

/* For tests: memory that starts right after a forbidden page, or ends right before one (aligned to
 * its element only). Freed with cudaFree. */
void *emu_malloc_at_start (size_t bytes);
void *emu_malloc_at_end (size_t bytes);
/* Did anything write behind the end of memory that is allocated? */
int emu_is_intact (void);
#ifdef __cplusplus
}
#endif
