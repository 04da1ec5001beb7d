/* tests/fuzz/fuzz_what_if.c - any text as changes to a machine. */
#include "tests/fuzz/fuzz.h"
#include "topo/change.h"
#include <math.h>

/* A machine is worth reading only for changes that were understood. */
static void
load_changed (const TopoChanges *changes)
{
  static BaseCatalog *catalog;
  GError *error = NULL;
  if (catalog == NULL)
    catalog = base_catalog_new (NULL, NULL);
  if (catalog == NULL)
    return;
  g_autoptr (TopoMachine) machine
      = topo_machine_load_changed (catalog, "hgx-h100", NULL, changes, &error);
  fuzz_require_outcome (machine != NULL, &error);
  for (char **note = machine != NULL ? machine->assumed : NULL; note != NULL && *note != NULL;
       note++)
    fuzz_require (g_utf8_validate (*note, -1, NULL) && strchr (*note, '\n') == NULL);
  fuzz_require (machine == NULL || machine->gpu->usable_bytes > 0);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autofree char *text = g_strndup ((const char *)data, size);
  GError *error = NULL;
  TopoChanges changes;
  gboolean parsed = topo_changes_parse (&changes, text, &error);
  gboolean any = FALSE;
  fuzz_require_outcome (parsed, &error);
  for (guint i = 0; parsed && i < TOPO_RESOURCE_N_KINDS; i++) {
    const TopoChange *change = &changes.of[i];
    fuzz_require (isfinite (change->factor) && change->factor >= 0);
    fuzz_require (isfinite (change->value) && change->value >= 0);
    fuzz_require (!(change->factor > 0 && change->value > 0));
    any = any || change->factor > 0 || change->value > 0;
  }
  fuzz_require (parsed == any);
  if (parsed)
    load_changed (&changes);
  return 0;
}
