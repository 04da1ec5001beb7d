/* costmodel/error.c - see error.h. */
#include "costmodel/error.h"

G_DEFINE_QUARK (cost_error_quark, cost_error)
