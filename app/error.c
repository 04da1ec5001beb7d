/* app/error.c - the error domain of the use cases. */
#include "app/error.h"

#include "db/database.h"
#include "exec/error.h"
#include "topo/error.h"

G_DEFINE_QUARK (plait_app_error_quark, app_error)

gboolean
app_error_is_environment (const GError *error)
{
  return db_error_is_environment (error)
         || g_error_matches (error, TOPO_ERROR, TOPO_ERROR_UNAVAILABLE)
         || g_error_matches (error, EXEC_ERROR, EXEC_ERROR_UNAVAILABLE)
         || g_error_matches (error, EXEC_ERROR, EXEC_ERROR_FAILED);
}
