/* exec/cuda/device-private.h - the one device of this process and what is open on it. */
#pragma once
#include "exec/cuda/kernels.h"
#include "exec/error.h"
#include <cublas_v2.h>
G_BEGIN_DECLS

/* Work of one stream is done in order; streams meet by events. Collectives have one stream per kind
 * of communication, messages of a pipeline one per direction and end. */
enum {
  CUDA_STREAM_COMPUTE = MODEL_STREAM_COMPUTE,
  CUDA_STREAM_SEND_FORWARD = MODEL_STREAM_N_KINDS,
  CUDA_STREAM_SEND_BACKWARD,
  CUDA_STREAM_RECEIVE_FORWARD,
  CUDA_STREAM_RECEIVE_BACKWARD,
  CUDA_N_STREAMS
};

/* Bytes that the driver says are used, after each stage of opening. */
enum { CUDA_USED_CONTEXT, CUDA_USED_CUBLAS, CUDA_USED_SCRATCH, CUDA_N_USED };

/* Page-locked slots through which the host hands small arrays over without waiting. */
#define CUDA_N_UPLOADS    16u
#define CUDA_UPLOAD_BYTES ((guint64)256 << 10)

typedef struct {
  gboolean is_open;
  int number, n_processors;
  char name[256];
  cudaStream_t streams[CUDA_N_STREAMS];
  cudaEvent_t done[CUDA_N_STREAMS];
  cublasHandle_t cublas;
  void *cublas_workspace;
  char *upload_slots; /* (owned) */
  cudaEvent_t uploaded[CUDA_N_UPLOADS];
  guint n_uploads;    /* so far */
  cudaEvent_t *marks; /* (owned) */
  guint n_marks;
  guint64 used_bytes[CUDA_N_USED];
  gint failed; /* 0, 1 while it is written, 2 */
  char failure[256];
} CudaDevice;
extern CudaDevice cuda_device;

void cuda_set_error (GError **error, ExecError code, const char *format, ...) G_GNUC_PRINTF (3, 4);
gboolean cuda_check (cudaError_t code, const char *what, GError **error);
/* For calls that have no way to fail: keeps the first failure for cuda_failure (). Any thread. */
void cuda_must (cudaError_t code, const char *what);
void cuda_note (const char *what, const char *reason);
const char *cuda_failure (void);

guint32 cuda_device_count (void);
gboolean cuda_probe (guint32 ranks, GError **error);
gboolean cuda_open (guint32 local_rank, GError **error);
void cuda_close (void);
guint64 cuda_used_bytes (void);
void cuda_opened_bytes (guint64 *out_context, guint64 *out_workspace, guint64 *out_all);
/* exec/cuda/nvml.c: clocks, power and throttle reasons. */
void cuda_observe (void);
char *cuda_describe (void);

float *cuda_memory_new (guint64 bytes);
void cuda_memory_free (float *memory, guint64 bytes);
void cuda_copy_bytes (void *to, const void *from, guint64 bytes);
void cuda_upload (float *to, const float *host, guint64 count);
void cuda_download (float *host, const float *from, guint64 count);
void cuda_synchronize (void);
void cuda_mark (guint index);
void cuda_mark_on (guint stream, guint index); /* EXEC_NO_MARK: nothing */
double cuda_elapsed_s (guint from, guint to);
gboolean cuda_passed (guint index);
/* Work given to stream @waiting from now on starts after what stream @done has now. */
void cuda_wait_for (guint waiting, guint done);

/* exec/cuda/nccl.c: finds and opens NCCL. exec/cuda/comm.c: transport. */
gboolean cuda_nccl_load (GError **error);
extern const ExecComm cuda_comm_f32, cuda_comm_bf16;
G_END_DECLS
