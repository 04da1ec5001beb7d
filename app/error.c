/* app/error.c - the error domain of the use cases. */
#include "app/error.h"

#include "db/database.h"

G_DEFINE_QUARK (plait - app - error - quark, app_error)

gboolean
app_error_is_environment (const GError *error)
{
  return db_error_is_environment (error);
}
