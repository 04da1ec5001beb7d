/* topo --live: hwloc's discovery, played from a file (HWLOC_XMLFILE), and NVML, emulated (emu/nvml.c). */
#include "tests/topo_reading_util.h"
#include "topo/live.h"

static TopoReading *
read_live (const char *mode, const char *gpu)
{
  GError *error = NULL;
  g_autofree char *path = fixture_path ("hwloc-live.xml");
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  TopoReadOptions options = { catalog, gpu, NULL };
  g_setenv ("HWLOC_XMLFILE", path, TRUE);
  g_setenv ("PLAIT_EMU_NVML", mode, TRUE);
  TopoReading *reading = topo_reading_new_live (&options, &error);
  assert_no_error (error);
  return reading;
}

/* Bridged: the driver's 12 links, not the doubled rate that hwloc 2.9.0 wrote into the file. */
static void
test_pair (void **state)
{
  g_autoptr (TopoReading) reading = read_live ("pair", NULL);
  assert_string_equal (reading->machine->gpu->slug, "a100-pcie-80g");
  assert_int_equal (reading->machine->gpus_per_node, 2);
  assert_int_equal (topo_gpu_links (reading->machine->graph, 0, 1), 12);
  assert_int_equal (topo_graph_count (reading->machine->graph, TOPO_VERTEX_NIC), 1);
  assert_false (says (reading, "hwloc")); /* what hwloc says of links is not used */
  assert_round_trip (reading);
}

static void
test_switch (void **state)
{
  g_autoptr (TopoReading) reading = read_live ("switch", "h100-sxm-80g");
  assert_int_equal (topo_gpu_links (reading->machine->graph, 0, 1), 18);
  assert_int_equal (reading->machine->wiring, TOPO_WIRING_SWITCH);
}

/* GPU 0 counts 12 links, GPU 1 four that are up. */
static void
test_lost_links (void **state)
{
  g_autoptr (TopoReading) reading = read_live ("lost", NULL);
  assert_int_equal (topo_gpu_links (reading->machine->graph, 0, 1), 4);
  assert_true (says (reading, "GPU0 and GPU1 count 12 and 4 NVLinks to each other"));
}

static void
test_gpu_that_is_no_pci_device (void **state)
{
  g_autoptr (TopoReading) reading = read_live ("third", NULL);
  assert_int_equal (reading->machine->gpus_per_node, 2);
  assert_true (says (reading, "1 GPU of the driver is no PCI device that hwloc sees"));
}

/* hwloc alone, and 2.9.0 (which wrote the file) states twice the rate: 12 links, not 24. */
static void
test_dead_driver (void **state)
{
  g_autoptr (TopoReading) reading = read_live ("dead", NULL);
  assert_int_equal (reading->machine->gpus_per_node, 2);
  assert_int_equal (topo_gpu_links (reading->machine->graph, 0, 1), 12);
  assert_true (says (reading, "by the rates that hwloc states: NVIDIA's driver does not answer"));
  assert_true (says (reading, "halved"));
}

int
main (void)
{
  GError *error = NULL;
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_pair),        cmocka_unit_test (test_switch),
    cmocka_unit_test (test_lost_links),  cmocka_unit_test (test_gpu_that_is_no_pci_device),
    cmocka_unit_test (test_dead_driver),
  };
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  TopoReadOptions options = { catalog, NULL, NULL };
  g_autoptr (TopoReading) here = topo_reading_new_live (&options, &error);
  if (here == NULL && g_error_matches (error, TOPO_ERROR, TOPO_ERROR_UNAVAILABLE))
    return TEST_SKIPPED; /* built without hwloc */
  g_clear_error (&error);
  return cmocka_run_group_tests (tests, NULL, NULL);
}
