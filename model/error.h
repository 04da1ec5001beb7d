/* model/error.h - what can be wrong with a model, job, layout or profile. */
#pragma once
#include <glib.h>
G_BEGIN_DECLS
#define MODEL_ERROR (model_error_quark ())
GQuark model_error_quark (void);
typedef enum {
  MODEL_ERROR_PARSE,       /* text or file is not what it should be */
  MODEL_ERROR_BAD_VALUE,   /* parsed, but impossible (zero layers, heads that do not divide) */
  MODEL_ERROR_UNSUPPORTED, /* a real thing plait does not model; the message names it */
  MODEL_ERROR_ILLEGAL,     /* a layout that the model, job or GPU count does not allow */
} ModelError;
G_END_DECLS
