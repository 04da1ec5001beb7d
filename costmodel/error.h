/* costmodel/error.h - what can be wrong with a calibration or a request for a cost. */
#pragma once
#include <glib.h>
G_BEGIN_DECLS
#define COST_ERROR (cost_error_quark ())
GQuark cost_error_quark (void);
typedef enum {
  COST_ERROR_PARSE,     /* a calibration file is not one */
  COST_ERROR_BAD_VALUE, /* a value out of its physical range */
  COST_ERROR_NO_DATA,   /* the GPU lacks a peak for the dtype asked for, … */
} CostError;
G_END_DECLS
