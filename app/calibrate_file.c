/* app/calibrate_file.c - see the header. */
#include "app/calibrate_file-private.h"
#include "app/error.h"

static void
fitted_clear (gpointer data)
{
  AppFitted *fitted = data;

  g_free (fitted->name);
  g_free (fitted->source);
}

GArray *
calibrate_fitted_new (void)
{
  GArray *fitted = g_array_new (FALSE, FALSE, sizeof (AppFitted));

  g_array_set_clear_func (fitted, fitted_clear);
  return fitted;
}

double
calibrate_rounded (double value)
{
  g_autofree char *text = g_strdup_printf ("%.4g", value);

  return g_ascii_strtod (text, NULL);
}

gboolean
calibrate_write (CostCalibration *calibration, const char *name, const char *source,
                 const char *out_dir, char **out_written, GError **error)
{
  const char *own_name = name != NULL ? name : "fitted";
  g_autofree char *file = g_strconcat (own_name, ".ini", NULL);
  g_autofree char *text = NULL;

  cost_calibration_rename (calibration, own_name, source);
  text = cost_calibration_format (calibration);
  if (g_mkdir_with_parents (out_dir, 0777) != 0) {
    g_set_error (error, APP_ERROR, APP_ERROR_USAGE, "--out: cannot make folder '%s'", out_dir);
    return FALSE;
  }
  *out_written = g_build_filename (out_dir, file, NULL);
  return g_file_set_contents (*out_written, text, -1, error);
}
