/* exec/cuda/nccl.c - finds and opens NCCL. */
#include "exec/cuda/nccl-private.h"

#include <gmodule.h>

/* ncclCommSplit and configurations that do not block: NCCL 2.18 (its release notes). */
#define LEAST_VERSION 21800

CudaNccl cuda_nccl;

static GModule *
open_library (void)
{
  const char *named = g_getenv ("PLAIT_NCCL");
  return g_module_open (named != NULL && *named != '\0' ? named : "libnccl.so.2",
                        G_MODULE_BIND_LOCAL);
}

gboolean
cuda_nccl_load (GError **error)
{
  static GModule *module;
  int version = 0;
  if (module != NULL)
    return TRUE;
  module = open_library ();
  if (module == NULL) {
    cuda_set_error (
        error, EXEC_ERROR_UNAVAILABLE,
        "NCCL, which more than one rank needs, cannot be opened: %s (install libnccl2 or "
        "name the file in $PLAIT_NCCL)",
        g_module_error ());
    return FALSE;
  }
#define FIND(name)                                                                                 \
  if (!g_module_symbol (module, #name, (gpointer *)&cuda_nccl.name)) {                             \
    cuda_set_error (error, EXEC_ERROR_UNAVAILABLE, "%s has no %s: plait needs NCCL 2.18 or later", \
                    g_module_name (module), #name);                                                \
    return FALSE;                                                                                  \
  }
  CUDA_NCCL_FUNCTIONS (FIND)
#undef FIND
  if (cuda_nccl.ncclGetVersion (&version) == ncclSuccess && version >= LEAST_VERSION)
    return TRUE;
  cuda_set_error (error, EXEC_ERROR_UNAVAILABLE, "%s is NCCL %d.%d.%d: plait needs 2.18 or later",
                  g_module_name (module), version / 10000, version / 100 % 100, version % 100);
  return FALSE;
}

gboolean
cuda_nccl_settle (ncclComm_t comm, ncclResult_t result, const char *what, GError **error)
{
  while (result == ncclInProgress && cuda_failure () == NULL)
    if (cuda_nccl.ncclCommGetAsyncError (comm, &result) != ncclSuccess)
      result = ncclInternalError;
  if (cuda_failure () != NULL) {
    cuda_set_error (error, EXEC_ERROR_FAILED, "%s: %s", what, cuda_failure ());
    return FALSE;
  }
  if (result == ncclSuccess)
    return TRUE;
  cuda_set_error (error, EXEC_ERROR_FAILED, "%s: %s (%s)", what,
                  cuda_nccl.ncclGetErrorString (result), cuda_nccl.ncclGetLastError (comm));
  return FALSE;
}
