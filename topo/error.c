/* topo/error.c - the error domain of topo/. */
#include "topo/error.h"

G_DEFINE_QUARK (topo_error_quark, topo_error)
