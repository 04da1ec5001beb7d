/* exec/cuda/nccl-private.h - NCCL's functions, opened at run time: one GPU needs none of it. */
#pragma once
#include "exec/cuda/device-private.h"
#include <nccl.h>
G_BEGIN_DECLS
#define CUDA_NCCL_FUNCTIONS(X)                                                                     \
  X (ncclGetVersion)                                                                               \
  X (ncclGetUniqueId)                                                                              \
  X (ncclCommInitRankConfig)                                                                       \
  X (ncclCommSplit)                                                                                \
  X (ncclCommGetAsyncError)                                                                        \
  X (ncclCommAbort)                                                                                \
  X (ncclCommDestroy)                                                                              \
  X (ncclGetErrorString)                                                                           \
  X (ncclGetLastError)                                                                             \
  X (ncclAllReduce)                                                                                \
  X (ncclAllGather)                                                                                \
  X (ncclReduceScatter)                                                                            \
  X (ncclSend)                                                                                     \
  X (ncclRecv)

typedef struct {
#define CUDA_NCCL_MEMBER(name) __typeof__ (&name) name;
  CUDA_NCCL_FUNCTIONS (CUDA_NCCL_MEMBER)
#undef CUDA_NCCL_MEMBER
} CudaNccl;
extern CudaNccl cuda_nccl;
/* Around every use of a communicator but those of the watchdog, which frees them all after a failure:
 * FALSE then, and there is none to use. */
gboolean cuda_nccl_enter (const char *what, GError **error);
void cuda_nccl_leave (void);
/* The watchdog, after cuda_note: waits until nobody is inside, but not for ever. */
void cuda_nccl_keep_out (void);
/* Not blocking calls say "in progress": waits, then TRUE, or FALSE with what failed. */
gboolean cuda_nccl_settle (ncclComm_t comm, ncclResult_t result, const char *what, GError **error);
G_END_DECLS
