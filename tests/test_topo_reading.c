/* tests/test_topo_reading.c - every reader on small files written for it.
 *
 * Expected values are read off the fixtures by eye: they state their counts and places.
 */
#include "tests/topo_reading_util.h"
#include <glib/gstdio.h>

/* ---- devices and links of one reading ---- */

typedef struct {
  const char *name; /* of the fixture */
  const char *gpu;  /* given, or NULL */
  const char *found_gpu;
  guint gpus, nics, switches, cpus;
  guint links_01;    /* between GPU 0 and 1 */
  const char *words; /* in an assumption or a note; NULL none asked */
} GraphCase;

static const GraphCase graph_cases[] = {
  { "smi-pairs.txt", NULL, "unknown", 4, 1, 1, 2, 6, "give --gpu" },
  { "smi-pairs.txt", "v100-sxm2-32g", "v100-sxm2-32g", 4, 1, 1, 2, 6, "25 GB/s per link" },
  /* glued header, escape codes, log prefix, SOC, PXB: a switch above two */
  { "smi-prefixed.txt", NULL, "unknown", 3, 1, 3, 2, 4, "could be a switch" },
  { "smi-prefixed.txt", "a100-sxm-40g", "a100-sxm-40g", 3, 1, 3, 2, 4, NULL },
  { "smi-cut.txt", NULL, "unknown", 8, 0, 0, 3, 18, "10 pairs of GPUs are not in the paste" },
  /* one matrix of 4 GPUs and 2 NICs: broken at 35 columns, its tabs lost, as a log in JSON, as
   * Windows redirects it */
  { "smi-wrapped.txt", NULL, "unknown", 4, 2, 2, 2, 18, "line breaks inside rows were taken out" },
  { "smi-glued.txt", NULL, "unknown", 4, 2, 2, 2, 18, NULL },
  { "smi-tabs-lost.txt", NULL, "unknown", 4, 2, 2, 2, 18, NULL },
  { "smi-tabs-lost-no-nics.txt", NULL, "unknown", 4, 0, 0, 2, 18, NULL },
  { "smi-escaped.txt", NULL, "unknown", 4, 2, 2, 2, 18, NULL },
  { "smi-utf16.txt", NULL, "unknown", 4, 2, 2, 2, 18, NULL },
  { "smi-table.txt", NULL, "h100-sxm-80g", 2, 0, 0, 1, 18, "by its name NVIDIA H100 80GB HBM3" },
  { "smi-collect-env.txt", NULL, "h100-sxm-80g", 2, 0, 0, 1, 18, "by its name" },
  { "smi-lost-links.txt", NULL, "unknown", 4, 0, 0, 2, 18, "joined by NVSwitch" },
  { "smi-asymmetric.txt", NULL, "unknown", 2, 0, 0, 2, 0, "not symmetric: GPU0-GPU1" },
  { "nccl-switch.xml", NULL, "h100-sxm-80g", 2, 1, 2, 2, 18, "PCI id 10de:2330" },
  { "nccl-narrow.xml", NULL, "l40s", 3, 0, 0, 1, 0,
    "PCIe links of GPUs differ: GPU1 (generation 4 x8); most have generation 4 x16" },
  { "nccl-partial.xml", NULL, "unknown", 4, 0, 0, 2, 0, "give --machine" },
  { "nccl-xgmi.xml", NULL, "unknown", 2, 0, 0, 1, 1, "'1002:9999' is not in the catalog" },
  /* 600,000 MB/s by hwloc 2.9.0 for 12 links of 25 GB/s */
  { "hwloc-pairs.xml", NULL, "a100-pcie-80g", 2, 1, 1, 2, 12, "halved" },
  { "hwloc-no-io.xml", NULL, "unknown", 0, 0, 0, 1, 0, "holds no PCI device" },
};

static void
test_graph (void **state)
{
  const GraphCase *c = *state;
  GError *error = NULL;
  g_autofree char *path = fixture_path (c->name);
  g_autoptr (TopoReading) reading = read_path (path, c->gpu, NULL, &error);
  assert_no_error (error);
  const TopoGraph *graph = reading->machine->graph;
  assert_string_equal (reading->machine->gpu->slug, c->found_gpu);
  assert_int_equal (topo_graph_count (graph, TOPO_VERTEX_GPU), c->gpus);
  assert_int_equal (topo_graph_count (graph, TOPO_VERTEX_NIC), c->nics);
  assert_int_equal (topo_graph_count (graph, TOPO_VERTEX_PCIE_SWITCH), c->switches);
  assert_int_equal (topo_graph_count (graph, TOPO_VERTEX_CPU), c->cpus);
  assert_int_equal (topo_gpu_links (graph, 0, 1), c->links_01);
  if (c->words != NULL)
    assert_true (says (reading, c->words));
  assert_round_trip (reading);
}

/* ---- what is refused, and why ---- */

typedef struct {
  const char *name;
  const char *gpu, *machine;
  const char *message;
} RefusedCase;

static const RefusedCase refused_cases[] = {
  { "rocm-smi.txt", NULL, NULL, "give RCCL's XML" },
  { "nvbandwidth.txt", NULL, NULL, "nvbandwidth -j" },
  { "nccl-graph.xml", NULL, NULL, "NCCL_GRAPH_DUMP_FILE" },
  { "smi-p2p.txt", NULL, NULL, "P2P capability matrix" },
  { "smi-header-only.txt", NULL, NULL, "a header but no rows" },
  { "smi-two-x.txt", NULL, NULL, "line 3: row 'GPU1' has its X where row 'GPU0' has its own" },
  { "smi-cut.txt", "a100-sxm-80g", NULL,
    "found 18 NVLink links at one GPU, but 'a100-sxm-80g' has 12" },
  { "smi-pairs.txt", "l40s", NULL, "'l40s' has 0" },
  { "smi-pairs.txt", "h100-sxm-800g", NULL, "h100-sxm" },
  { "nccl-cut.xml", NULL, NULL, "not well-formed XML" },
  { "nccl-partial.xml", NULL, "hgx-h100", "found 4 GPUs, but a node of 'hgx-h100' has 8" },
  { "hwloc-1.xml", NULL, NULL, "XML of hwloc 1" },
};

static void
test_refused (void **state)
{
  const RefusedCase *c = *state;
  GError *error = NULL;
  g_autofree char *path = fixture_path (c->name);
  g_autoptr (TopoReading) reading = read_path (path, c->gpu, c->machine, &error);
  assert_null (reading);
  assert_message (error, c->message);
  g_clear_error (&error);
}

/* ---- format detection ---- */

typedef struct {
  const char *name, *text;
  TopoFormat format;
} FormatCase;

static const FormatCase format_cases[] = {
  { "format/empty", "", TOPO_FORMAT_UNKNOWN },
  { "format/prose", "nothing to see\n", TOPO_FORMAT_UNKNOWN },
  { "format/matrix", "GPU0 X\n", TOPO_FORMAT_SMI_TOPO },
  { "format/xml_comment", "<!-- <topology> -->\n<system version=\"1\">", TOPO_FORMAT_NCCL_XML },
  { "format/hwloc", "<?xml version=\"1.0\"?>\n<topology version=\"2.0\">", TOPO_FORMAT_HWLOC_XML },
  { "format/other_xml", "<html>GPU</html>", TOPO_FORMAT_UNKNOWN },
  { "format/machine", "# mine\n[machine]\nname = x\n", TOPO_FORMAT_MACHINE },
  { "format/nvbandwidth", "{\"nvbandwidth\": {}}", TOPO_FORMAT_NVBANDWIDTH_JSON },
  { "format/nccl_tests", "#  size  time  algbw  busbw\n", TOPO_FORMAT_NCCL_TESTS_TEXT },
};

static void
test_format (void **state)
{
  const FormatCase *c = *state;
  assert_int_equal (topo_format_detect (c->text, strlen (c->text)), c->format);
}

/* ---- places, matrix, checks ---- */

static void
test_places (void **state)
{
  GError *error = NULL;
  g_autofree char *path = fixture_path ("smi-prefixed.txt");
  g_autoptr (TopoReading) reading = read_path (path, NULL, NULL, &error);
  assert_no_error (error);
  const TopoGraph *graph = reading->machine->graph;
  gint64 gpu = topo_graph_find (graph, TOPO_VERTEX_GPU, 2);
  gint64 nic = topo_graph_find (graph, TOPO_VERTEX_NIC, 0);
  assert_int_equal (topo_graph_vertex (graph, (guint32)gpu)->numa, 1);
  assert_string_equal (topo_graph_vertex (graph, (guint32)nic)->name, "mlx5_0");
  /* the graph alone, without the words of the file: two switches on the way, no CPU */
  for (guint i = 0; i < reading->n_cells * reading->n_cells; i++)
    *reading->cells[i] = '\0';
  g_autofree char *matrix = topo_write_matrix (reading);
  g_auto (GStrv) lines = g_strsplit (matrix, "\n", -1);
  assert_true (g_str_has_prefix (lines[3], "GPU2") && strstr (lines[3], "PXB") != NULL);
}

static void
test_matrix_is_the_file (void **state)
{
  GError *error = NULL;
  g_autofree char *path = fixture_path ("smi-pairs.txt");
  g_autoptr (TopoReading) reading = read_path (path, NULL, NULL, &error);
  assert_no_error (error);
  g_autofree char *matrix = topo_write_matrix (reading);
  g_auto (GStrv) lines = g_strsplit (matrix, "\n", -1);
  assert_non_null (strstr (lines[0], "bnxt_re0"));
  assert_non_null (strstr (lines[1], "GPU0       X        NV6      SYS      SYS      PIX      0"));
  /* without the words of the file the graph gives the same */
  for (guint i = 0; i < reading->n_cells * reading->n_cells; i++)
    *reading->cells[i] = '\0';
  g_autofree char *derived = topo_write_matrix (reading);
  assert_string_equal (derived, matrix);
}

static const char *
assumption (const TopoReading *reading, const char *key)
{
  for (guint i = 0; i < reading->assumed->len; i++) {
    const TopoAssumption *one = g_ptr_array_index (reading->assumed, i);
    if (strcmp (one->key, key) == 0)
      return one->text;
  }
  return NULL;
}

static void
test_merge_with_machine (void **state)
{
  GError *error = NULL;
  g_autofree char *path = fixture_path ("nccl-partial.xml");
  g_autoptr (TopoReading) reading = read_path (path, NULL, "a100-pcie-nvlink", &error);
  assert_no_error (error);
  assert_string_equal (reading->machine->gpu->slug, "a100-pcie-80g");
  assert_int_equal (topo_gpu_links (reading->machine->graph, 0, 1), 12);
  assert_int_equal (topo_gpu_links (reading->machine->graph, 1, 2), 0);
  assert_int_equal (reading->machine->fabric, TOPO_FABRIC_IB);
  /* what NCCL takes between AMD's sockets, as the file names the CPU */
  assert_near (reading->machine->inter_socket_bytes_per_s, 16e9, 1e-12);
  assert_round_trip (reading);
  /* all that comes from the machine is said */
  assert_string_equal (assumption (reading, "network"), "of a100-pcie-nvlink");
  assert_null (strstr (assumption (reading, "inter_socket"), "a100-pcie-nvlink"));
  g_autoptr (TopoMachine) machine = topo_reading_steal_machine (reading, &error);
  assert_no_error (error);
  assert_non_null (machine);
}

/* What a node's matrix cannot show of a rack: its domain, the power limit, a link rate that was
 * measured, curves. All of it is kept and said; a domain not where a GPU is off the switch. */
static void
test_merge_keeps_the_rack (void **state)
{
  GError *error = NULL;
  g_autofree char *matrix = fixture_path ("smi-wrapped.txt");
  g_autofree char *lost = fixture_path ("smi-lost-links.txt");
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  const char *text
      = "[machine]\nname = rack\ngpu = gb200\ngpus_per_node = 4\ndomain = 72\nsource = test\n"
        "power_limit_ratio = 0.8\nassumed = the rack is new\n"
        "[links]\nwiring = switch\nnvls = yes\nlink_rate = 45GB/s\n"
        "[measured all_reduce 8]\nsource = test\npoints = 8B:10us, 1MiB:20us\n";
  g_autofree char *folder = g_dir_make_tmp ("plait-XXXXXX", &error);
  g_autofree char *machine = g_build_filename (folder, "rack.ini", NULL);
  assert_true (g_file_set_contents (machine, text, -1, &error));
  TopoReadOptions options = { catalog, NULL, machine };
  g_autoptr (TopoReading) reading = topo_reading_new_from_file (matrix, &options, &error);
  assert_no_error (error);
  g_autoptr (TopoReading) broken = topo_reading_new_from_file (lost, &options, &error);
  assert_no_error (error);
  g_unlink (machine);
  g_rmdir (folder);
  assert_int_equal (reading->machine->domain_size, 72);
  assert_near (reading->machine->power_limit_ratio, 0.8, 1e-12);
  assert_near (reading->machine->direct_link_bytes_per_s, 45e9, 1e-12);
  assert_int_equal (reading->machine->curves->len, 1);
  assert_string_equal (reading->machine->assumed[0], "the rack is new");
  assert_non_null (strstr (assumption (reading, "domain"), "72 GPUs, of "));
  assert_non_null (strstr (assumption (reading, "power_limit_ratio"), "0.8, of "));
  assert_non_null (strstr (assumption (reading, "link_rate"), "45GB/s, of "));
  assert_non_null (strstr (assumption (reading, "measured"), "1 curve of "));
  assert_round_trip (reading);
  assert_int_equal (broken->machine->domain_size, 4);
  assert_non_null (strstr (assumption (broken, "domain"), "this node alone"));
  assert_int_equal (broken->machine->curves->len, 0);
  assert_true (says (broken, "1 measured curve of "));
}

/* topo -mp shows no NVLink: the machine's is taken, and a check does not claim that it is lost. */
static void
test_links_that_are_hidden (void **state)
{
  GError *error = NULL;
  static const char matrix[] = "GPU0\tX\tPIX\tSYS\tSYS\nGPU1\tPIX\tX\tSYS\tSYS\n"
                               "GPU2\tSYS\tSYS\tX\tPIX\nGPU3\tSYS\tSYS\tPIX\tX\n";
  g_autofree char *prompted = g_strconcat ("$ nvidia-smi topo -mp\n", matrix, NULL);
  g_autofree char *spelled = g_strconcat ("$ nvidia-smi topo --matrix_pci\n", matrix, NULL);
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  TopoReadOptions alone = { catalog, NULL, NULL }, merged = { catalog, NULL, "a100-pcie-nvlink" };
  g_autoptr (TopoMachine) expected = load_machine ("a100-pcie-nvlink");
  g_autoptr (TopoReading) filled
      = topo_reading_new_from_data (matrix, strlen (matrix), "m.txt", &merged, &error);
  assert_no_error (error);
  assert_int_equal (topo_gpu_links (filled->machine->graph, 0, 1), 12);
  assert_non_null (strstr (assumption (filled, "links"), "as topo -mp does"));
  g_autoptr (TopoReading) hidden
      = topo_reading_new_from_data (prompted, strlen (prompted), "mp.txt", &alone, &error);
  assert_no_error (error);
  g_autoptr (GPtrArray) lines = topo_reading_differences (hidden, expected);
  assert_int_equal (lines->len, 1);
  assert_string_equal (g_ptr_array_index (lines, 0),
                       "links between GPUs: not told by nvidia-smi topo, expected NV12");
  g_autoptr (TopoReading) too
      = topo_reading_new_from_data (spelled, strlen (spelled), "mp.txt", &alone, &error);
  assert_no_error (error);
  assert_true (too->hides_links);
}

/* A dump that lists other NICs than the machine has keeps its own, without a fabric. */
static void
test_merge_other_nics (void **state)
{
  GError *error = NULL;
  g_autofree char *path = fixture_path ("smi-pairs.txt");
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  g_autofree char *text = g_strdup (
      "[machine]\nname = two NICs\ngpu = v100-sxm2-32g\ngpus_per_node = 4\nsource = test\n"
      "[links]\nwiring = none\n[pcie]\ngeneration = 3\ninter_socket = 22GB/s\n"
      "[network]\nfabric = ib\nnics = 2\nnic_rate = 100Gb/s\nserves = all\n");
  g_autofree char *folder = g_dir_make_tmp ("plait-XXXXXX", &error);
  g_autofree char *machine = g_build_filename (folder, "two.ini", NULL);
  assert_true (g_file_set_contents (machine, text, -1, &error));
  TopoReadOptions options = { catalog, NULL, machine };
  g_autoptr (TopoReading) reading = topo_reading_new_from_file (path, &options, &error);
  g_unlink (machine);
  g_rmdir (folder);
  assert_no_error (error);
  assert_int_equal (reading->machine->fabric, TOPO_FABRIC_NONE);
  assert_non_null (strstr (assumption (reading, "network"), "it has 2 NICs and this file 1"));
  assert_non_null (strstr (assumption (reading, "inter_socket"), "22GB/s, of "));
}

static void
test_nvls_is_said (void **state)
{
  GError *error = NULL;
  g_autofree char *path = fixture_path ("smi-lost-links.txt");
  g_autoptr (TopoReading) reading = read_path (path, "h100-sxm-80g", NULL, &error);
  assert_no_error (error);
  assert_true (reading->machine->nvls);
  assert_non_null (strstr (assumption (reading, "nvls"), "nvlink4"));
}

/* A catalog that cannot be read is no catalog without the card. */
static void
test_broken_catalog (void **state)
{
  GError *error = NULL;
  g_autofree char *path = fixture_path ("nccl-switch.xml");
  g_autofree char *folder = g_dir_make_tmp ("plait-XXXXXX", &error);
  g_autofree char *gpus = g_build_filename (folder, "gpus", NULL);
  g_autofree char *bad = g_build_filename (gpus, "x.ini", NULL);
  assert_int_equal (g_mkdir (gpus, 0700), 0);
  assert_true (g_file_set_contents (bad, "[gpu]\nproduct = X\n", -1, &error));
  g_autoptr (BaseCatalog) catalog = base_catalog_new (folder, &error);
  assert_no_error (error);
  TopoReadOptions options = { catalog, NULL, NULL };
  assert_null (topo_reading_new_from_file (path, &options, &error));
  g_unlink (bad);
  g_rmdir (gpus);
  g_rmdir (folder);
  assert_message (error, "x.ini");
  g_clear_error (&error);
}

static void
test_check (void **state)
{
  GError *error = NULL;
  g_autofree char *path = fixture_path ("smi-lost-links.txt");
  g_autoptr (TopoReading) reading = read_path (path, "h100-sxm-80g", NULL, &error);
  g_autoptr (TopoMachine) expected = load_machine ("hgx-h100");
  assert_no_error (error);
  g_autoptr (GPtrArray) lines = topo_machine_differences (reading->machine, expected);
  /* 4 GPUs of 8, and GPU 3 without links to 0, 1 and 2 */
  assert_int_equal (lines->len, 4);
  assert_string_equal (g_ptr_array_index (lines, 0), "4 GPUs, expected 8");
  assert_string_equal (g_ptr_array_index (lines, 1), "GPU0–GPU3: no NVLink, expected NV18");
  g_autoptr (GPtrArray) none = topo_machine_differences (expected, expected);
  assert_int_equal (none->len, 0);
  /* The three that are joined talk at 18 x 25 GB/s; with the fourth it is PCIe. */
  TopoSubset three, four;
  topo_machine_subset (reading->machine, 7, &three);
  topo_machine_subset (reading->machine, 15, &four);
  assert_int_equal (three.link_class, TOPO_LINK_CLASS_NVLINK4);
  assert_near (three.bytes_per_s, 450e9, 1e-12);
  assert_true (topo_link_class_is_pcie (four.link_class));
}

static void
test_unknown_gpu_is_no_machine (void **state)
{
  GError *error = NULL;
  g_autofree char *path = fixture_path ("smi-pairs.txt");
  g_autoptr (TopoReading) reading = read_path (path, NULL, NULL, &error);
  assert_no_error (error);
  assert_null (topo_reading_steal_machine (reading, &error));
  assert_message (error, "give --gpu");
  g_clear_error (&error);
}

/* ---- measurements ---- */

static const TopoMeasurement *
measurement (const TopoReading *reading, guint i)
{
  assert_true (i < reading->measurements->len);
  return &g_array_index (reading->measurements, TopoMeasurement, i);
}

static void
test_nccl_tests_text (void **state)
{
  GError *error = NULL;
  g_autofree char *path = fixture_path ("nccl-tests.txt");
  g_autoptr (TopoReading) reading = read_path (path, NULL, NULL, &error);
  assert_no_error (error);
  assert_null (reading->machine);
  assert_int_equal (reading->measurements->len, 4);
  const TopoMeasurement *m = measurement (reading, 1);
  assert_string_equal (m->what, "all_gather");
  assert_int_equal (m->ranks, 2);
  assert_int_equal (m->size_bytes, 1048576);
  assert_near (m->time_s, 25e-6, 1e-12);
  assert_near (m->busbw_bytes_per_s, 20.97e9, 1e-12);
  assert_true (m->in_place);
}

/* Three runs in one log: each has its own ranks and its own collective, the last does not tell it. */
static void
test_nccl_tests_runs (void **state)
{
  static const struct {
    const char *what;
    guint ranks;
    double time_s;
  } expected[] = {
    { "all_reduce", 2, 20e-6 }, { "all_reduce", 2, 25e-6 }, { "all_reduce", 2, 30e-6 },
    { "all_reduce", 2, 32e-6 }, { "all_gather", 4, 40e-6 }, { "all_gather", 4, 50e-6 },
    { "unknown", 2, 60e-6 },
  };
  GError *error = NULL;
  g_autofree char *path = fixture_path ("nccl-tests-runs.txt");
  g_autoptr (TopoReading) reading = read_path (path, NULL, NULL, &error);
  assert_no_error (error);
  assert_int_equal (reading->measurements->len, G_N_ELEMENTS (expected));
  for (guint i = 0; i < G_N_ELEMENTS (expected); i++) {
    assert_string_equal (measurement (reading, i)->what, expected[i].what);
    assert_int_equal (measurement (reading, i)->ranks, expected[i].ranks);
    assert_near (measurement (reading, i)->time_s, expected[i].time_s, 1e-12);
  }
  assert_true (says (reading, "1 of 7 times do not tell their collective"));
}

/* Attached to a machine, the out-of-place times become part of its file, and of its next reading. */
static void
test_attach (void **state)
{
  GError *error = NULL;
  g_autofree char *path = fixture_path ("nccl-tests.txt");
  g_autoptr (TopoReading) reading = read_path (path, NULL, "a100-pcie-nvlink", &error);
  assert_no_error (error);
  assert_int_equal (reading->machine->curves->len, 1);
  const TopoCurve *curve = &g_array_index (reading->machine->curves, TopoCurve, 0);
  const TopoCurvePoint *points = (const TopoCurvePoint *)(void *)curve->points->data;
  assert_string_equal (curve->what, "all_gather");
  assert_int_equal (curve->ranks, 2);
  assert_int_equal (curve->points->len, 2);
  assert_near (points[0].bytes, 1048576, 0);
  assert_near (points[0].time_s, 20e-6, 1e-12);
  assert_near (points[1].time_s, 30e-6, 1e-12);
  assert_round_trip (reading);
  assert_non_null (strstr (reading->ini, "points = 1048576B:20us, 2097152B:30us"));
  g_autofree char *other = fixture_path ("nccl-tests.json");
  assert_null (read_path (other, NULL, "no-such-machine", &error));
  assert_message (error, "no-such-machine");
  g_clear_error (&error);
}

/* A log of nccl-tests whose ranks have a device of this name, attached to a machine. */
typedef struct {
  const char *name;
  const char *device; /* NULL: the line is not there */
  const char *machine;
  const char *refused; /* (nullable) words of the error */
  const char *note;    /* (nullable) what is noted */
  const char *source;  /* of the curve */
} DeviceCase;

static const DeviceCase device_cases[] = {
  { "device/its_own", "NVIDIA H100 80GB HBM3", "hgx-h100", NULL, NULL,
    "nccl-tests text, measured on NVIDIA H100 80GB HBM3" },
  { "device/any_case_and_alias", "nvidia h100-sxm5-80gb", "hgx-h100", NULL, NULL,
    "nccl-tests text, measured on nvidia h100-sxm5-80gb" },
  /* NVLink 3 in place of 4: 300 GB/s one way, not 450 */
  { "device/other_links", "NVIDIA A100-SXM4-80GB", "hgx-h100",
    "a100-sxm-80g: 12 x nvlink3, 300 GB/s one way), but hgx-h100 has h100-sxm-80g (18 x nvlink4, "
    "450",
    NULL, NULL },
  { "device/less_links_of_a_kind", "NVIDIA H800", "hgx-h100", "h800-sxm-80g: 8 x nvlink4, 200 GB/s",
    NULL, NULL },
  { "device/none_in_place_of_nvlink", "NVIDIA L40S", "hgx-h100", "l40s: pcie gen 4", NULL, NULL },
  { "device/same_links", "NVIDIA H200", "hgx-h100", NULL,
    "measured on 'NVIDIA H200' (h200-sxm), hgx-h100 has h100-sxm-80g",
    "nccl-tests text, measured on NVIDIA H200" },
  { "device/not_in_the_catalog", "Graphics Device #3;", "hgx-h100", NULL,
    "measured on 'Graphics Device ?3?': whether that is the GPU of hgx-h100",
    "nccl-tests text, measured on Graphics Device ?3?" },
  { "device/not_told", NULL, "hgx-h100", NULL, "does not name its GPUs", "nccl-tests text" },
};

static void
test_attach_device (void **state)
{
  const DeviceCase *row = *state;
  GError *error = NULL;
  g_autoptr (GString) log = g_string_new ("# Collective test starting: all_reduce_perf\n");
  for (guint rank = 0; rank < 2; rank++)
    g_string_append_printf (log, "#  Rank  %u Group  0 Pid  7 on box device  %u %s%s\r\n", rank,
                            rank, row->device != NULL ? "[0000:01:00] " : "",
                            row->device != NULL ? row->device : "");
  g_string_append (log, "#  size  count  type  redop  root  time  algbw  busbw  #wrong\n"
                        "  1048576  262144  float  sum  -1  90.0  11.65  11.65  0\n"
                        "  2097152  524288  float  sum  -1  95.0  22.08  22.08  0\n");
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  TopoReadOptions options = { catalog, NULL, row->machine };
  g_autoptr (TopoReading) reading
      = topo_reading_new_from_data (log->str, log->len, "log.txt", &options, &error);
  if (row->refused != NULL) {
    assert_null (reading);
    assert_message (error, row->refused);
    g_clear_error (&error);
    return;
  }
  assert_no_error (error);
  assert_string_equal (g_array_index (reading->machine->curves, TopoCurve, 0).source, row->source);
  if (row->note != NULL)
    assert_true (says (reading, row->note));
  assert_int_equal (reading->notes->len, row->note != NULL ? 2 : 1); /* and what was attached */
  assert_round_trip (reading);
}

/* nccl-tests -J says the same of each rank; two kinds of GPU, and one more than a node has. */
static void
test_attach_devices_json (void **state)
{
  static const char log[]
      = "{\"version\": 3, \"args\": [\"all_reduce_perf\"], \"config\": {\"devices\": ["
        "{\"rank\": 0, \"device\": 0, \"device_info\": \"NVIDIA H100 80GB HBM3\"},"
        "{\"rank\": 1, \"device\": 8, \"device_info\": \"NVIDIA H200\"}, 3, {\"device\": \"x\"}]},"
        "\"results\": [{\"size\": 1024, \"out_of_place\": {\"time\": 20, \"alg_bw\": 1, "
        "\"bus_bw\": 1}},"
        "{\"size\": 2048, \"out_of_place\": {\"time\": 21, \"alg_bw\": 1, \"bus_bw\": 1}}]}";
  GError *error = NULL;
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  TopoReadOptions options = { catalog, NULL, "hgx-h100" };
  (void)state;
  g_autoptr (TopoReading) reading
      = topo_reading_new_from_data (log, strlen (log), "log.json", &options, &error);
  assert_no_error (error);
  assert_string_equal (g_array_index (reading->machine->curves, TopoCurve, 0).source,
                       "nccl-tests JSON, measured on NVIDIA H100 80GB HBM3 and NVIDIA H200");
  assert_true (says (reading, "the links between GPUs are the same"));
  assert_true (says (reading, "a device 8 on one host, hgx-h100 has 8 GPUs per node"));
}

/* Copies of 276 of 300 GB/s are usual for an A100 (.91): nothing changes. At 136.5, half of the usual
 * 273, the links count half: 12.5 of 25 GB/s each. */
static void
test_attach_copies (void **state)
{
  GError *error = NULL;
  g_autofree char *path = fixture_path ("nvbandwidth.json");
  g_autoptr (TopoReading) usual = read_path (path, NULL, "a100-pcie-nvlink", &error);
  assert_no_error (error);
  assert_near (usual->machine->direct_link_bytes_per_s, 25e9, 1e-12);
  assert_true (says (usual, "link_rate stays"));
  assert_true (says (usual, "4 measurements with the host are not used"));
  g_autofree char *text = NULL;
  assert_true (g_file_get_contents (path, &text, NULL, &error));
  g_auto (GStrv) parts = g_strsplit (text, "275.50", 2);
  g_autofree char *slow = g_strconcat (parts[0], "136.5", parts[1], NULL);
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  TopoReadOptions options = { catalog, NULL, "a100-pcie-nvlink" };
  g_autoptr (TopoReading) reading
      = topo_reading_new_from_data (slow, strlen (slow), "slow.json", &options, &error);
  assert_no_error (error);
  assert_near (reading->machine->direct_link_bytes_per_s, 12.5e9, 1e-12);
  assert_non_null (strstr (assumption (reading, "link_rate"), "GPU1 to GPU0"));
  assert_round_trip (reading);
  /* no copies over NVLink are known of an L40S */
  options.machine = "l40s-8x-pcie";
  assert_null (topo_reading_new_from_data (slow, strlen (slow), "slow.json", &options, &error));
  assert_message (error, "copy_ratio");
  g_clear_error (&error);
}

static void
test_nccl_tests_json (void **state)
{
  GError *error = NULL;
  g_autofree char *path = fixture_path ("nccl-tests.json");
  g_autoptr (TopoReading) reading = read_path (path, NULL, NULL, &error);
  assert_no_error (error);
  assert_int_equal (reading->measurements->len, 2);
  const TopoMeasurement *m = measurement (reading, 0);
  assert_string_equal (m->what, "all_reduce");
  assert_int_equal (m->ranks, 4);
  assert_near (m->busbw_bytes_per_s, 39.3216e9, 1e-12);
  assert_near (measurement (reading, 1)->time_s, 50e-6, 1e-12);
  /* of the environment nothing is kept */
  for (guint i = 0; i < reading->notes->len; i++)
    assert_null (strstr (g_ptr_array_index (reading->notes, i), "do-not-store"));
}

static void
test_nvbandwidth (void **state)
{
  GError *error = NULL;
  g_autofree char *path = fixture_path ("nvbandwidth.json");
  g_autoptr (TopoReading) reading = read_path (path, NULL, NULL, &error);
  assert_no_error (error);
  assert_int_equal (reading->measurements->len, 6);
  const TopoMeasurement *copy = measurement (reading, 0), *host = measurement (reading, 3);
  assert_true (copy->from == 0 && copy->to == 1);
  assert_near (copy->busbw_bytes_per_s, 276.07e9, 1e-12);
  assert_true (host->from == 1 && host->to == TOPO_MEASUREMENT_HOST);
  assert_near (measurement (reading, 4)->time_s, 750.5e-9, 1e-12);
  assert_true (says (reading, "multinode_x: Waived"));
}

/* ---- the catalog's own machines ---- */

static void
test_catalog_round_trip (void **state)
{
  GError *error = NULL;
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  TopoReadOptions options = { catalog, NULL, NULL };
  g_auto (GStrv) slugs = base_catalog_list (catalog, "machines");
  assert_true (g_strv_length (slugs) > 20);
  for (char **slug = slugs; *slug != NULL; slug++) {
    g_autoptr (TopoReading) reading = topo_reading_new_from_machine (*slug, &options, &error);
    assert_no_error (error);
    assert_round_trip (reading);
    g_autofree char *matrix = topo_write_matrix (reading);
    g_autofree char *dot = topo_write_dot (reading->machine);
    assert_true (strlen (matrix) > 20 && g_str_has_prefix (dot, "graph topology {"));
  }
}

int
main (void)
{
  const struct CMUnitTest fixed[] = {
    cmocka_unit_test (test_places),
    cmocka_unit_test (test_matrix_is_the_file),
    cmocka_unit_test (test_merge_with_machine),
    cmocka_unit_test (test_merge_keeps_the_rack),
    cmocka_unit_test (test_links_that_are_hidden),
    cmocka_unit_test (test_merge_other_nics),
    cmocka_unit_test (test_nvls_is_said),
    cmocka_unit_test (test_broken_catalog),
    cmocka_unit_test (test_check),
    cmocka_unit_test (test_unknown_gpu_is_no_machine),
    cmocka_unit_test (test_nccl_tests_text),
    cmocka_unit_test (test_nccl_tests_runs),
    cmocka_unit_test (test_attach),
    cmocka_unit_test (test_attach_copies),
    cmocka_unit_test (test_attach_devices_json),
    cmocka_unit_test (test_nccl_tests_json),
    cmocka_unit_test (test_nvbandwidth),
    cmocka_unit_test (test_catalog_round_trip),
  };
  struct CMUnitTest tests[G_N_ELEMENTS (fixed) + G_N_ELEMENTS (graph_cases)
                          + G_N_ELEMENTS (refused_cases) + G_N_ELEMENTS (format_cases)
                          + G_N_ELEMENTS (device_cases)];
  guint n = 0;
  for (guint i = 0; i < G_N_ELEMENTS (fixed); i++)
    tests[n++] = fixed[i];
  for (guint i = 0; i < G_N_ELEMENTS (graph_cases); i++)
    tests[n++] = (struct CMUnitTest){ .name = graph_cases[i].name,
                                      .test_func = test_graph,
                                      .initial_state = (void *)&graph_cases[i] };
  for (guint i = 0; i < G_N_ELEMENTS (refused_cases); i++)
    tests[n++] = (struct CMUnitTest){ .name = refused_cases[i].name,
                                      .test_func = test_refused,
                                      .initial_state = (void *)&refused_cases[i] };
  for (guint i = 0; i < G_N_ELEMENTS (format_cases); i++)
    tests[n++] = (struct CMUnitTest){ .name = format_cases[i].name,
                                      .test_func = test_format,
                                      .initial_state = (void *)&format_cases[i] };
  for (guint i = 0; i < G_N_ELEMENTS (device_cases); i++)
    tests[n++] = (struct CMUnitTest){ .name = device_cases[i].name,
                                      .test_func = test_attach_device,
                                      .initial_state = (void *)&device_cases[i] };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
