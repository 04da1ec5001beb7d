/* tests/emu/nccl.h - the part of NCCL that exec/cuda/ uses. */
#pragma once
#include <cuda_runtime.h>
#ifdef __cplusplus
extern "C" {
#endif
typedef struct ncclComm *ncclComm_t;
typedef struct {
  char internal[128];
} ncclUniqueId;
typedef enum {
  ncclSuccess = 0,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclRemoteError = 6,
  ncclInProgress = 7
} ncclResult_t;
typedef enum { ncclSum = 0, ncclMax = 2 } ncclRedOp_t;
typedef enum { ncclFloat = 7, ncclBfloat16 = 9 } ncclDataType_t;
typedef struct {
  int blocking, maxCTAs;
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER                                                                    \
  {                                                                                                \
    1, 0                                                                                           \
  }
#define NCCL_SPLIT_NOCOLOR -1
ncclResult_t ncclGetVersion (int *version);
ncclResult_t ncclGetUniqueId (ncclUniqueId *out);
ncclResult_t ncclCommInitRankConfig (ncclComm_t *out, int ranks, ncclUniqueId id, int rank,
                                     ncclConfig_t *config);
ncclResult_t ncclCommSplit (ncclComm_t comm, int color, int key, ncclComm_t *out,
                            ncclConfig_t *config);
ncclResult_t ncclCommGetAsyncError (ncclComm_t comm, ncclResult_t *out);
ncclResult_t ncclCommAbort (ncclComm_t comm);
ncclResult_t ncclCommDestroy (ncclComm_t comm);
const char *ncclGetErrorString (ncclResult_t result);
const char *ncclGetLastError (ncclComm_t comm);
ncclResult_t ncclAllReduce (const void *in, void *out, size_t count, ncclDataType_t type,
                            ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather (const void *in, void *out, size_t count, ncclDataType_t type,
                            ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter (const void *in, void *out, size_t count, ncclDataType_t type,
                                ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclSend (const void *in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                       cudaStream_t stream);
ncclResult_t ncclRecv (void *out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                       cudaStream_t stream);
#ifdef __cplusplus
}
#endif
