/* model/error.c - the error domain of models, jobs, layouts and profiles. */
#include "model/error.h"

GQuark
model_error_quark (void)
{
  return g_quark_from_static_string ("plait-model-error-quark");
}
