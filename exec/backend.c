/* exec/backend.c - finding a backend's module. */
#include "exec/backend.h"
#include "exec/error.h"

#include <gmodule.h>

/* The build tree lies beside the program: build/cli/plait, build/exec/plait-cpu.so. */
static char *
build_tree (const char *file)
{
  g_autofree char *self = g_file_read_link ("/proc/self/exe", NULL);
  g_autofree char *folder = self != NULL ? g_path_get_dirname (self) : NULL;
  return folder != NULL ? g_build_filename (folder, "..", "exec", file, NULL) : NULL;
}

static char *
find (const char *file)
{
  const char *dir = g_getenv ("PLAIT_MODULE_DIR");
  char *places[3] = { dir != NULL && *dir != '\0' ? g_build_filename (dir, file, NULL) : NULL,
                      build_tree (file), g_build_filename (PLAIT_LIBDIR, file, NULL) };
  char *found = NULL;
  for (guint i = 0; i < G_N_ELEMENTS (places); i++) {
    if (found == NULL && places[i] != NULL && g_file_test (places[i], G_FILE_TEST_EXISTS))
      found = g_steal_pointer (&places[i]);
    g_free (places[i]);
  }
  return found;
}

const ExecBackend *
exec_backend_load (const char *name, GError **error)
{
  g_autofree char *file = g_strdup_printf ("plait-%s.so", name);
  g_autofree char *path = find (file);
  gpointer symbol = NULL;
  if (path == NULL) {
    g_set_error (
        error, EXEC_ERROR, EXEC_ERROR_UNAVAILABLE,
        "backend '%s' is not here: found no %s in $PLAIT_MODULE_DIR, the build tree or %s; "
        "a build makes it where its libraries are installed (dev/packages)",
        name, file, PLAIT_LIBDIR);
    return NULL;
  }
  GModule *module = g_module_open (path, G_MODULE_BIND_LOCAL);
  if (module == NULL || !g_module_symbol (module, EXEC_BACKEND_SYMBOL, &symbol)) {
    g_set_error (error, EXEC_ERROR, EXEC_ERROR_UNAVAILABLE, "backend '%s' cannot be loaded: %s",
                 name, g_module_error ());
    return NULL;
  }
  g_module_make_resident (module);
  return ((ExecBackendFunc)symbol) ();
}
