/* app/error.h - what a use case can fail with, beside what the layers below report. */
#pragma once
#include <glib.h>
G_BEGIN_DECLS
#define APP_ERROR (app_error_quark ())
GQuark app_error_quark (void);
typedef enum {
  APP_ERROR_USAGE,     /* a wrong or missing input: exit 2 */
  APP_ERROR_CANCELLED, /* stopped on request */
} AppError;
/* TRUE when @error is the environment's fault (exit 3): a database that cannot be used. */
gboolean app_error_is_environment (const GError *error);
G_END_DECLS
