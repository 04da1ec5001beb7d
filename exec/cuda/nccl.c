/* exec/cuda/nccl.c - finds and opens NCCL. */
#include "exec/cuda/nccl-private.h"

#include <gmodule.h>

/* ncclCommSplit and configurations that do not block: NCCL 2.18 (its release notes). */
#define LEAST_VERSION 21800
#define KEEP_OUT_MS   1000

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

static gint inside;

gboolean
cuda_nccl_enter (const char *what, GError **error)
{
  /* First the flag, then the look; the watchdog does both the other way round. */
  g_atomic_int_set (&inside, 1);
  if (cuda_failure () == NULL)
    return TRUE;
  g_atomic_int_set (&inside, 0);
  cuda_set_error (error, EXEC_ERROR_FAILED, "%s: %s", what, cuda_failure ());
  return FALSE;
}

void
cuda_nccl_leave (void)
{
  g_atomic_int_set (&inside, 0);
}

void
cuda_nccl_keep_out (void)
{
  /* A call may stand in a launch whose queue is full of what the abort will end. */
  for (guint i = 0; i < KEEP_OUT_MS && g_atomic_int_get (&inside); i++)
    g_usleep (1000);
}

gboolean
cuda_nccl_settle (ncclComm_t comm, ncclResult_t result, const char *what, GError **error)
{
  char reason[256] = "";
  do {
    if (!cuda_nccl_enter (what, error))
      return FALSE;
    if (result == ncclInProgress && cuda_nccl.ncclCommGetAsyncError (comm, &result) != ncclSuccess)
      result = ncclInternalError;
    if (result != ncclSuccess && result != ncclInProgress)
      g_strlcpy (reason, cuda_nccl.ncclGetLastError (comm), sizeof reason);
    cuda_nccl_leave ();
  } while (result == ncclInProgress);
  if (result == ncclSuccess)
    return TRUE;
  cuda_set_error (error, EXEC_ERROR_FAILED, "%s: %s (%s)", what,
                  cuda_nccl.ncclGetErrorString (result), reason);
  return FALSE;
}
