/* exec/error.c - see error.h. */
#include "exec/error.h"

G_DEFINE_QUARK (plait_exec_error_quark, exec_error)
