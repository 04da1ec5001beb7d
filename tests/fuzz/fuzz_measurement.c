/* tests/fuzz/fuzz_measurement.c - any bytes as output of nccl-tests and nvbandwidth. */
#include "tests/fuzz/fuzz_topo.h"
#include "topo/reading-private.h"

/* What was measured can be written into a machine file, each curve once. */
static void
write_curves (const uint8_t *data, size_t size)
{
  GError *error = NULL;
  TopoReadOptions options = { fuzz_catalog (), NULL, NULL };
  if (topo_format_detect ((const char *)data, size) == TOPO_FORMAT_MACHINE)
    return;
  g_autoptr (TopoReading) reading
      = topo_reading_new_from_data ((const char *)data, size, "fuzz.txt", &options, NULL);
  if (reading == NULL)
    return;
  static TopoReading *machine;
  options.machine = "hgx-h100";
  if (machine == NULL)
    machine = topo_reading_new_from_machine (options.machine, &options, NULL);
  g_autofree char *source = NULL;
  gboolean is_its_own
      = measured_check_devices (reading, machine->machine, &options, &source, &error);
  fuzz_require_outcome (is_its_own, &error);
  g_clear_error (&error);
  g_autoptr (GString) text = g_string_new ("[machine]\nname = x\n");
  guint n = measured_append (text, reading, is_its_own ? source : "another machine");
  g_autoptr (BaseIni) ini = base_ini_new_from_data (text->str, -1, "again.ini", &error);
  fuzz_require_outcome (ini != NULL, &error);
  fuzz_require (ini != NULL && base_ini_n_groups (ini) == n + 1);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  fuzz_read_topology (data, size, "fuzz.txt");
  write_curves (data, size);
  return 0;
}
