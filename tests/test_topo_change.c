/* tests/test_topo_change.c - machines that are changed while they are read. */
#include "tests/testutil.h"

#include "topo/change.h"
#include "topo/placement.h"

static TopoMachine *
load (const char *text, const char *machine, GError **error)
{
  g_autoptr (BaseCatalog) catalog = base_catalog_new (NULL, error);
  TopoChanges changes;

  if (!topo_changes_parse (&changes, text, error))
    return NULL;
  return topo_machine_load_changed (catalog, machine, NULL, &changes, error);
}

static gboolean
is_noted (const TopoMachine *machine, const char *start)
{
  for (char **note = machine->assumed; *note != NULL; note++)
    if (g_str_has_prefix (*note, start))
      return TRUE;
  return FALSE;
}

/* hgx-h100: 18 NVLinks of 25 GB/s, a NIC of 400 Gb/s per GPU, 3350 GB/s, 989 TFLOP/s. */
static void
test_changes_reach_groups (void **state)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TopoMachine) machine
      = load ("nvlink=+50%, nic=800Gb/s,hbm=100GiB,hbm_bw=+10%,flops=-50%", "hgx-h100", &error);
  TopoGroupShape inside;

  (void)state;
  assert_no_error (error);
  topo_group_shape (machine, 16, 1, 8, &inside);
  assert_near (inside.intra_bytes_per_s, 1.5 * 18 * 25e9, 1e-12);
  /* the ports; a group over nodes then waits for PCIe 5, which is slower */
  assert_near (machine->nics[7].bytes_per_s, 100e9, 1e-12);
  assert_int_equal (machine->gpu->usable_bytes, 100 * G_GUINT64_CONSTANT (1073741824));
  assert_near (machine->gpu->hbm_bytes_per_s, 1.1 * 3350e9, 1e-12);
  assert_near (machine->gpu->peak_flop_per_s[TOPO_DTYPE_BF16], 0.5 * 989e12, 1e-12);
  assert_near (machine->gpu->peak_flop_per_s[TOPO_DTYPE_FP8], 0.5 * 1979e12, 1e-12);
  assert_true (is_noted (machine, "what_if.flops=-50%: "));
  /* in the units of data sheets; 800 Gb/s are 100 GB/s */
  assert_true (is_noted (machine, "what_if.nic=100 GB/s: "));
  assert_true (is_noted (machine, "what_if.hbm=100 GiB: "));
}

/* Bytes are bytes, whatever card is called so; and 100 GB is no card's name. */
static void
test_bytes_are_meant (void **state)
{
  static const struct {
    const char *text;
    guint64 bytes;
  } cases[] = { { "hbm=141e9B", 141 * G_GUINT64_CONSTANT (1000000000) },
                { "hbm=80000000000B", 80 * G_GUINT64_CONSTANT (1000000000) },
                { "hbm=100GB", 100 * G_GUINT64_CONSTANT (1000000000) },
                { "hbm=141GiB", 141 * G_GUINT64_CONSTANT (1073741824) } };

  (void)state;
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (TopoMachine) machine = load (cases[i].text, "hgx-h100", &error);

    assert_no_error (error);
    assert_int_equal (machine->gpu->usable_bytes, cases[i].bytes);
  }
}

typedef struct {
  const char *name, *text, *machine, *message;
} BadCase;

static const BadCase bad[] = {
  { "change/unknown", "nvlonk=+5%", "hgx-h100", "expected one of" },
  { "change/no_value", "nvlink", "hgx-h100", "such as" },
  { "change/twice", "nic=+5%,nic=+6%", "hgx-h100", "twice" },
  { "change/nothing_left", "nic=-100%", "hgx-h100", "expected" },
  { "change/no_unit", "nic=800", "hgx-h100", "no unit" },
  { "change/other_dimension", "hbm=800Gb/s", "hgx-h100", "expected" },
  { "change/nan", "nic=+nan%", "hgx-h100", "expected" },
  { "change/label", "hbm=80GB", "hgx-h100", "74.5GiB" },
  /* 141e9 bytes are 131.3 GiB, 141 GiB are 151.4 GB; an H200 gives 139.8 GiB */
  { "change/label_of_another", "hbm=141GB", "hgx-h100", "131.3GiB, read as GiB it is 151.4GB" },
  { "change/label_says_what_to_write", "hbm=141GB", "hgx-h100", "hbm=141e9B if the decimal" },
  { "change/label_in_terabytes", "hbm=0.141TB", "hgx-h100", "'h200-sxm'" },
  { "change/no_nvlink", "nvlink=+5%", "l40s-8x-pcie", "no direct links" },
  { "change/empty", "", "hgx-h100", "expected" },
};

static void
test_refuses (void **state)
{
  const BadCase *c = *state;
  g_autoptr (GError) error = NULL;

  assert_null (load (c->text, c->machine, &error));
  assert_non_null (error);
  if (strstr (error->message, c->message) == NULL)
    fail_msg ("%s", error->message);
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (bad) + 2];
  gsize n = 0;

  for (; n < G_N_ELEMENTS (bad); n++)
    tests[n] = (struct CMUnitTest){ .name = bad[n].name,
                                    .test_func = test_refuses,
                                    .initial_state = (void *)&bad[n] };
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_changes_reach_groups);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_bytes_are_meant);
  return _cmocka_run_group_tests ("topo_change", tests, n, NULL, NULL);
}
