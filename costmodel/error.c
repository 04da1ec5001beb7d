/* costmodel/error.c - see error.h. */
#include "costmodel/error.h"

G_DEFINE_QUARK (cost - error - quark, cost_error)
