/* topo/error.h - the error domain of topo/. */
#pragma once
#include <glib.h>
G_BEGIN_DECLS

#define TOPO_ERROR (topo_error_quark ())
GQuark topo_error_quark (void);

typedef enum {
  TOPO_ERROR_PARSE,       /* input text is not a topology */
  TOPO_ERROR_BAD_VALUE,   /* parsed, but physically impossible or contradicting itself */
  TOPO_ERROR_NO_PATH,     /* endpoints exist, nothing joins them */
  TOPO_ERROR_NOT_FOUND,   /* no GPU or machine of that name, or several */
  TOPO_ERROR_SIZE,        /* a number of GPUs this machine cannot have */
  TOPO_ERROR_UNAVAILABLE, /* this host or build lacks what is needed: hwloc, a driver */
} TopoError;

G_END_DECLS
