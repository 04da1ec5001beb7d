/* exec/error.h - what can go wrong when a plan is run. */
#pragma once
#include <glib.h>
G_BEGIN_DECLS
/* The same for plait and for the modules it loads. */
#define EXEC_ERROR (g_quark_from_static_string ("plait-exec-error-quark"))
typedef enum {
  EXEC_ERROR_UNSUPPORTED, /* the plan asks for something the executor does not run */
  EXEC_ERROR_BAD_VALUE,   /* a request that makes no sense */
  EXEC_ERROR_UNAVAILABLE, /* no backend module, MPI, memory or process */
  EXEC_ERROR_FAILED,      /* a rank died, hung or reported an error */
} ExecError;
G_END_DECLS
