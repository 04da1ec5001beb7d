/* Tests of topo/link_facts.h: the catalog's own numbers by their published tables, folders that
 * replace a file, and what is refused. */
#include "tests/topo_util.h"
#include "topo/link_facts.h"

#include <glib/gstdio.h>
#include <math.h>

static void
load (TopoLinkFacts *facts)
{
  GError *error = NULL;
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  assert_true (topo_link_facts_init (facts, catalog, &error));
  assert_no_error (error);
}

/* Link table of the ml-engineering network notes: GB/s, one direction. */
static void
test_published_rates (void **state)
{
  static const double pcie[] = { 15.75e9, 31e9, 63e9, 121e9 };
  static const struct {
    guint capability;
    TopoLinkKind kind;
    double gpu_bytes_per_s; /* all links of a card */
  } nvlink[] = {
    { 60, TOPO_LINK_NVLINK1, 80e9 },   { 70, TOPO_LINK_NVLINK2, 150e9 },
    { 80, TOPO_LINK_NVLINK3, 300e9 },  { 90, TOPO_LINK_NVLINK4, 450e9 },
    { 100, TOPO_LINK_NVLINK5, 900e9 }, { 103, TOPO_LINK_NVLINK5, 900e9 },
  };
  TopoLinkFacts facts;
  TopoLinkKind kind = TOPO_LINK_NIC;
  double rate = 1;
  load (&facts);
  for (guint i = 0; i < G_N_ELEMENTS (pcie); i++)
    assert_near (topo_link_facts_pcie (&facts, 3 + i), pcie[i], 1e-12);
  assert_true (isnan (topo_link_facts_pcie (&facts, 0)));
  assert_true (isnan (topo_link_facts_pcie (&facts, 2)));
  assert_true (isnan (topo_link_facts_pcie (&facts, 7)));
  for (guint i = 0; i < G_N_ELEMENTS (nvlink); i++) {
    assert_true (topo_link_facts_nvlink_of (&facts, nvlink[i].capability, &kind, &rate));
    assert_int_equal (kind, nvlink[i].kind);
    guint32 links = facts.nvlink[kind - TOPO_LINK_NVLINK1].links_per_gpu;
    assert_near (rate * links, nvlink[i].gpu_bytes_per_s, 1e-12);
  }
  assert_false (topo_link_facts_nvlink_of (&facts, 89, &kind, &rate));
  assert_int_equal (kind, TOPO_LINK_NVLINK5);
  assert_int_equal (topo_link_facts_most_links (&facts), 18);
}

/* NVLS on H200: 1.00 at 4 GPUs, 1.14 at 5. A100's switches do not reduce. */
static void
test_switches_reduce (void **state)
{
  TopoLinkFacts facts;
  load (&facts);
  for (guint k = 0; k < TOPO_LINK_N_KINDS; k++)
    assert_int_equal (topo_link_facts_nvls_from (&facts, (TopoLinkKind)k),
                      k == TOPO_LINK_NVLINK4 || k == TOPO_LINK_NVLINK5 ? 5 : 0);
}

/* NCCL 2.30.7, topo.cc. Models: Broadwell 0x4F, Skylake 0x55, Ice Lake 0x6A, Sapphire Rapids 0x8F,
 * Emerald Rapids 0xCF. */
static void
test_between_sockets (void **state)
{
  static const struct {
    const char *arch, *vendor;
    gboolean known;
    guint64 family, model;
    double bytes_per_s; /* 0: unknown */
  } cases[] = {
    { "x86_64", "GenuineIntel", TRUE, 6, 0x4F, 6e9 },
    { "x86_64", "GenuineIntel", TRUE, 6, 0x54, 6e9 },
    { "x86_64", "GenuineIntel", TRUE, 6, 0x55, 10e9 },
    { "x86_64", "GenuineIntel", TRUE, 6, 0x6A, 10e9 },
    { "x86_64", "GenuineIntel", TRUE, 6, 0x8F, 22e9 },
    { "x86_64", "GenuineIntel", TRUE, 6, 0xCF, 40e9 },
    { "x86_64", "GenuineIntel", TRUE, 15, 0xCF, 0 },
    { "x86_64", "GenuineIntel", FALSE, 0, 0, 0 },
    { "x86_64", "AuthenticAMD", FALSE, 0, 0, 16e9 },
    { "arm64", NULL, FALSE, 0, 0, 6e9 },
    { "ppc64", NULL, FALSE, 0, 0, 32e9 },
    { NULL, NULL, FALSE, 0, 0, 0 },
  };
  TopoLinkFacts facts;
  load (&facts);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    double found = topo_link_facts_inter_socket (&facts, cases[i].arch, cases[i].vendor,
                                                 cases[i].known, cases[i].family, cases[i].model);
    if (cases[i].bytes_per_s > 0)
      assert_near (found, cases[i].bytes_per_s, 1e-12);
    else
      assert_true (isnan (found));
  }
}

/* ---- a folder of the user's ---- */

typedef struct {
  char *root, *folder;
} Fixture;

static int
setup (void **state)
{
  Fixture *f = g_new0 (Fixture, 1);
  f->root = g_dir_make_tmp ("plait-links-XXXXXX", NULL);
  f->folder = g_build_filename (f->root, "links", NULL);
  g_mkdir (f->folder, 0700);
  *state = f;
  return 0;
}

static int
teardown (void **state)
{
  Fixture *f = *state;
  static const char *const files[] = { "pcie.ini", "nvlink.ini", "inter-socket.ini" };
  for (guint i = 0; i < G_N_ELEMENTS (files); i++) {
    g_autofree char *path = g_build_filename (f->folder, files[i], NULL);
    g_unlink (path);
  }
  g_rmdir (f->folder);
  g_rmdir (f->root);
  g_free (f->folder);
  g_free (f->root);
  g_free (f);
  return 0;
}

static gboolean
load_with (const Fixture *f, const char *file, const char *text, TopoLinkFacts *facts,
           GError **error)
{
  g_autofree char *path = g_build_filename (f->folder, file, NULL);
  assert_true (g_file_set_contents (path, text, -1, NULL));
  g_autoptr (BaseCatalog) catalog = base_catalog_new (f->root, error);
  assert_non_null (catalog);
  gboolean ok = topo_link_facts_init (facts, catalog, error);
  g_unlink (path);
  return ok;
}

#define PCIE_3_TO_5                                                                                \
  "[generation 3]\nx16_rate = 12GB/s\nsource = me\n"                                               \
  "[generation 4]\nx16_rate = 24GB/s\nsource = me\n"                                               \
  "[generation 5]\nx16_rate = 48GB/s\nsource = me\n"
#define PCIE_6 "[generation 6]\nx16_rate = 96GB/s\nsource = me\n"

static void
test_own_folder (void **state)
{
  GError *error = NULL;
  TopoLinkFacts facts;
  assert_true (load_with (*state, "pcie.ini", PCIE_3_TO_5 PCIE_6, &facts, &error));
  assert_no_error (error);
  assert_near (topo_link_facts_pcie (&facts, 4), 24e9, 1e-12);
  assert_int_equal (topo_link_facts_most_links (&facts), 18); /* the other files stay */
}

/* What machines do with it: a GPU's PCIe and the GPUs from which on NVLS is used follow. */
static void
test_machines_follow (void **state)
{
  GError *error = NULL;
  const Fixture *f = *state;
  g_autofree char *path = g_build_filename (f->folder, "pcie.ini", NULL);
  assert_true (g_file_set_contents (path, PCIE_3_TO_5 PCIE_6, -1, NULL));
  g_autoptr (BaseCatalog) catalog = base_catalog_new (f->root, &error);
  g_autoptr (TopoMachine) machine = topo_machine_load (catalog, "hgx-h100", NULL, &error);
  assert_no_error (error);
  assert_near (machine->pcie_bytes_per_s, 48e9, 1e-12);
  assert_int_equal (machine->nvls_from_gpus, 5);
}

typedef struct {
  const char *name, *file, *text, *message;
} BadCase;

static const BadCase bad[] = {
  { "bad/no_generation_6", "pcie.ini", PCIE_3_TO_5, "pcie.ini: [generation 6]: group is missing" },
  { "bad/unknown_group", "pcie.ini", PCIE_3_TO_5 PCIE_6 "[generation 7]\nx16_rate = 1GB/s\n",
    "[generation 7]" },
  { "bad/no_unit", "pcie.ini", "[generation 3]\nx16_rate = 12\nsource = me\n",
    "x16_rate: '12' has no unit" },
  { "bad/no_source", "inter-socket.ini", "[arm64]\nrate = 6GB/s\n", "[arm64] source: " },
  { "bad/models_not_ascending", "inter-socket.ini",
    "[intel 0x8F]\nrate = 22GB/s\nsource = me\n[intel 0x55]\nrate = 10GB/s\nsource = me\n",
    "[intel 0x55]: expected ascending model numbers: the group before has 0x8F" },
  { "bad/model_is_no_number", "inter-socket.ini", "[intel Skylake]\nrate = 10GB/s\nsource = me\n",
    "[intel Skylake]: expected" },
  { "bad/capability", "nvlink.ini",
    "[nvlink1]\ncompute_capabilities = 6.0\nlink_rate = 20GB/s\nlinks_per_gpu = 4\nsource = me\n",
    "found '6.0', expected at most 8 numbers such as \"90\" for 9.0" },
  { "bad/no_capability", "nvlink.ini",
    "[nvlink1]\ncompute_capabilities =\nlink_rate = 20GB/s\nlinks_per_gpu = 4\nsource = me\n",
    "[nvlink1] compute_capabilities: found none" },
  { "bad/capability_twice", "nvlink.ini",
    "[nvlink1]\ncompute_capabilities = 60\nlink_rate = 20GB/s\nlinks_per_gpu = 4\nsource = me\n"
    "[nvlink2]\ncompute_capabilities = 70, 60\nlink_rate = 25GB/s\nlinks_per_gpu = 6\n"
    "source = me\n",
    "[nvlink2] compute_capabilities: 60 is there twice, first in [nvlink1]" },
  { "bad/unknown_key", "pcie.ini", PCIE_3_TO_5 PCIE_6 "x16_rates = 1GB/s\n",
    "[generation 6] x16_rates: unknown key, did you mean 'x16_rate'?" },
  { "bad/key_twice", "pcie.ini", PCIE_3_TO_5 PCIE_6 "x16_rate = 1GB/s\n",
    "[generation 6] x16_rate: is there twice, first on line 11" },
  { "bad/group_twice", "pcie.ini", PCIE_3_TO_5 PCIE_6 PCIE_6,
    "group [generation 6] is there twice" },
  { "bad/other_dimension", "pcie.ini", "[generation 3]\nx16_rate = 12us\nsource = me\n",
    "x16_rate: '12us' has the unit 'us'" },
  { "bad/no_value", "pcie.ini", "[generation 3]\nx16_rate =\nsource = me\n",
    "[generation 3] x16_rate: '' is not a number" },
  { "bad/nvls_from_one", "nvlink.ini",
    "[nvlink1]\nlink_rate = 20GB/s\nlinks_per_gpu = 4\nnvls_from_gpus = 1\nsource = me\n",
    "[nvlink1] nvls_from_gpus: found '1'" },
};

static void
test_bad (void **state)
{
  TopoLinkFacts facts;
  for (const BadCase *bad_case = bad; bad_case < bad + G_N_ELEMENTS (bad); bad_case++) {
    g_autoptr (GError) error = NULL;
    print_message ("%s\n", bad_case->name);
    assert_false (load_with (*state, bad_case->file, bad_case->text, &facts, &error));
    assert_message (error, bad_case->message);
    assert_message (error, bad_case->file);
  }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_published_rates),
    cmocka_unit_test (test_switches_reduce),
    cmocka_unit_test (test_between_sockets),
    cmocka_unit_test_setup_teardown (test_own_folder, setup, teardown),
    cmocka_unit_test_setup_teardown (test_machines_follow, setup, teardown),
    cmocka_unit_test_setup_teardown (test_bad, setup, teardown),
  };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
