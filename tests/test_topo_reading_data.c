/* tests/test_topo_reading_data.c - every published topology: read, or refused with the reason.
 *
 * INDEX.csv of each folder says how many GPUs a file shows and which files are no topology.
 */
#include "base/csv.h"
#include "tests/topo_reading_util.h"

/* What is refused, and why; all else is read. */
static const struct {
  const char *slug, *message;
} refused[] = {
  { "p2p-read-cns-2x", "P2P capability matrix" },
  { "dgx1-v100-4gpu-truncated", "not well-formed XML" },
};

static const char *
refusal_of (const char *slug)
{
  for (guint i = 0; i < G_N_ELEMENTS (refused); i++)
    if (strcmp (refused[i].slug, slug) == 0)
      return refused[i].message;
  return NULL;
}

/* GPUs that the file shows. XML meant to be merged (INDEX: 0) places them by PCI class alone; the
 * hwloc file of a GB10 lists its CPU only. */
static void
check_gpus (const char *slug, const char *indexed, const TopoReading *reading)
{
  guint64 gpus = g_ascii_strtoull (indexed, NULL, 10);
  if (gpus == 0 || strcmp (slug, "hwloc-nvidia-dgx-gb10") == 0)
    return;
  if (reading->machine->gpus_per_node != gpus)
    print_error ("%s: %u GPUs\n", slug, reading->machine->gpus_per_node);
  assert_int_equal (reading->machine->gpus_per_node, gpus);
}

static void
check_file (const char *folder, const char *slug, const char *ending, const char *gpus)
{
  GError *error = NULL;
  g_autofree char *name = g_strdup_printf ("%s/%s%s", folder, slug, ending);
  g_autofree char *path = test_data_path (name);
  g_autoptr (TopoReading) reading = read_path (path, NULL, NULL, &error);
  if (refusal_of (slug) != NULL) {
    assert_message (error, refusal_of (slug));
    g_clear_error (&error);
    return;
  }
  assert_no_error (error);
  check_gpus (slug, gpus, reading);
  assert_round_trip (reading);
  g_autofree char *matrix = topo_write_matrix (reading);
  assert_true (*matrix != '\0');
}

static void
check_folder (const char *folder, const char *ending, guint least)
{
  GError *error = NULL;
  g_autofree char *name = g_strdup_printf ("%s/INDEX.csv", folder);
  g_autofree char *path = test_data_path (name);
  g_autoptr (BaseCsv) index = base_csv_new_from_file (path, &error);
  assert_no_error (error);
  assert_true (base_csv_n_rows (index) >= least);
  for (guint row = 0; row < base_csv_n_rows (index); row++)
    check_file (folder, base_csv_get (index, row, "slug"), ending,
                base_csv_get (index, row, "gpus"));
}

static void
test_matrices (void **state)
{
  check_folder ("topo", ".txt", 43);
}

static void
test_xml (void **state)
{
  check_folder ("nccl_xml", ".xml", 19);
}

/* The rows of a file as printed equal its own rows, word for word. */
static void
test_matrix_words (void **state)
{
  GError *error = NULL;
  g_autofree char *path = test_data_path ("topo/dgx1-v100-4ib.txt");
  g_autoptr (TopoReading) reading = read_path (path, "v100-sxm2-16g", NULL, &error);
  assert_no_error (error);
  /* the published cube mesh: 24 links, 6 per GPU */
  guint links = 0;
  for (guint i = 0; i < 8; i++)
    for (guint j = i + 1; j < 8; j++)
      links += topo_gpu_links (reading->machine->graph, i, j);
  assert_int_equal (links, 24);
  g_autoptr (TopoMachine) expected = load_machine ("dgx-1v-16g");
  g_autoptr (GPtrArray) differences = topo_machine_differences (reading->machine, expected);
  assert_int_equal (differences->len, 0);
}

/* GPU 2 of the faulty board has lost its links to the seven others. */
static void
test_broken_board (void **state)
{
  GError *error = NULL;
  g_autofree char *path = test_data_path ("topo/b200-8x-brokenlink.txt");
  g_autoptr (TopoReading) reading = read_path (path, "b200-sxm", NULL, &error);
  g_autoptr (TopoMachine) expected = load_machine ("hgx-b200");
  assert_no_error (error);
  g_autoptr (GPtrArray) lines = topo_machine_differences (reading->machine, expected);
  assert_int_equal (lines->len, 7);
  assert_string_equal (g_ptr_array_index (lines, 0), "GPU0–GPU2: no NVLink, expected NV18");
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_matrices),
    cmocka_unit_test (test_xml),
    cmocka_unit_test (test_matrix_words),
    cmocka_unit_test (test_broken_board),
  };
  g_autofree char *path = test_data_path ("topo/INDEX.csv");
  if (path == NULL || !g_file_test (path, G_FILE_TEST_EXISTS))
    return TEST_SKIPPED;
  return cmocka_run_group_tests (tests, NULL, NULL);
}
