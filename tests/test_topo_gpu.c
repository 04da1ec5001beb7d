/* Tests of topo/gpu.c and topo/gpu_table.c: facts, names, refusals. */
#include "tests/topo_util.h"
#include <glib/gstdio.h>

/* Values of the vendor-neutral fact tables (accelerator notes, captured tool output). */
typedef struct {
  const char *name;
  const char *slug;
  TopoDtype dtype;
  double peak_flop_per_s, hbm_bytes_per_s;
  guint64 usable_bytes;
  double direct_bytes_per_s;
} FactCase;

static const FactCase facts[] = {
  /* 18 links x 25 GB/s = 450 GB/s one way */
  { "facts/h100", "h100-sxm-80g", TOPO_DTYPE_BF16, 989e12, 3350e9, 85045477376, 450e9 },
  { "facts/h100_fp8", "h100-sxm-80g", TOPO_DTYPE_FP8, 1979e12, 3350e9, 85045477376, 450e9 },
  { "facts/h100_no_fp4", "h100-sxm-80g", TOPO_DTYPE_FP4, 0, 3350e9, 85045477376, 450e9 },
  /* no tensor-core bf16 on Volta; 6 x 25 */
  { "facts/v100_no_bf16", "v100-sxm2-32g", TOPO_DTYPE_BF16, 0, 900e9, 34089730048, 150e9 },
  { "facts/v100_fp16", "v100-sxm2-16g", TOPO_DTYPE_FP16, 125e12, 900e9, 16945512448, 150e9 },
  { "facts/a100_80", "a100-sxm-80g", TOPO_DTYPE_TF32, 156e12, 2039e9, 85100068864, 300e9 },
  /* 40536 MiB */
  { "facts/a100_40", "a100-sxm-40g", TOPO_DTYPE_BF16, 312e12, 1555e9, 42505076736, 300e9 },
  /* 8 x 25 */
  { "facts/h800", "h800-sxm-80g", TOPO_DTYPE_BF16, 989e12, 3350e9, 85045805056, 200e9 },
  /* 18 x 50; 182642 MiB */
  { "facts/b200", "b200-sxm", TOPO_DTYPE_FP4, 9000e12, 7700e9, 191514017792, 900e9 },
  /* 7 x 64 */
  { "facts/mi300x", "mi300x", TOPO_DTYPE_BF16, 1307e12, 5300e9, 206141652992, 448e9 },
  /* 6 x 100; 95 GiB */
  { "facts/tpu_v5p", "tpu-v5p", TOPO_DTYPE_BF16, 459e12, 2765e9, 102005473280, 600e9 },
  { "facts/l40s", "l40s", TOPO_DTYPE_FP8, 733e12, 864e9, 47803596800, 0 },
};

static void
test_facts (void **state)
{
  const FactCase *c = *state;
  GError *error = NULL;
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  g_autoptr (TopoGpu) gpu = topo_gpu_load (catalog, c->slug, &error);
  assert_no_error (error);
  assert_string_equal (gpu->slug, c->slug);
  assert_near (topo_gpu_peak (gpu, c->dtype), c->peak_flop_per_s, 1e-12);
  assert_near (gpu->hbm_bytes_per_s, c->hbm_bytes_per_s, 1e-12);
  assert_int_equal (gpu->usable_bytes, c->usable_bytes);
  assert_near (topo_gpu_direct_bytes_per_s (gpu), c->direct_bytes_per_s, 1e-12);
}

/* The labels that published runs carry, and what the card is. NULL: stays out of the catalog. */
static const char *const labels[][2] = {
  { "A100-40G-SXM", "a100-sxm-40g" },
  { "A100-80G-SXM", "a100-sxm-80g" },
  { "A100", "a100-sxm-80g" },
  { "A100-80G-PCIe", "a100-pcie-80g" },
  { "V100-16G", "v100-sxm2-16g" },
  { "V100-32G", "v100-sxm2-32g" },
  { "H100-80G-SXM", "h100-sxm-80g" },
  { "h100-sxm", "h100-sxm-80g" },
  { "H800-80G", "h800-sxm-80g" },
  { "H200", "h200-sxm" },
  { "B200", "b200-sxm" },
  { "B200-powerlimited", "b200-sxm" },
  { "B300", "b300-sxm" },
  { "GB200", "gb200" },
  { "GB300", "gb300" },
  { "L40S", "l40s" },
  { "RTX3090-24G", "rtx-3090" },
  { "RTX4090-24G", "rtx-4090" },
  { "RTX5090-32G", "rtx-5090" },
  { "RTX6000Pro-BSE", "rtx-pro-6000-bse" },
  { "RTXPro6000-MaxQ-96G", "rtx-pro-6000-bse" },
  { "T4-16G", "t4" },
  { "TPUv5p", "tpu-v5p" },
  { "GH200", "gh200-96g" },
  { "A10G", "a10g" },
  { "A40", "a40" },
  { "MI300X", "mi300x" },
  { "H20", "h20-96g" },
  { "NVIDIA H100 80GB HBM3", "h100-sxm-80g" },
  { "nvidia h100 80gb hbm3", "h100-sxm-80g" },
  { "Tesla V100-SXM2-16GB", "v100-sxm2-16g" },
  { "H100-96G-HBM2e-500W", "h100-sxm-96g-hbm2e" },
  { "NVIDIA H100 SXM5 96GB HBM3", NULL },
  { "TPUv4", NULL },
  { "TPUv5e", NULL },
  { "NVIDIA GH200 144G HBM3e", NULL },
  { "", NULL },
};

static void
test_labels (void **state)
{
  GError *error = NULL;
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  g_autoptr (TopoGpuTable) table = topo_gpu_table_new (catalog, &error);
  assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (labels); i++) {
    const TopoGpu *gpu = topo_gpu_table_find (table, labels[i][0], &error);
    if (labels[i][1] == NULL) {
      assert_null (gpu);
      assert_message (error, labels[i][0]);
      g_clear_error (&error);
      continue;
    }
    assert_no_error (error);
    assert_string_equal (gpu->slug, labels[i][1]);
  }
}

/* Every GPU of the catalog is complete; what is stated is plausible. */
static void
test_catalog (void **state)
{
  GError *error = NULL;
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  g_autoptr (TopoGpuTable) table = topo_gpu_table_new (catalog, &error);
  assert_no_error (error);
  assert_int_equal (topo_gpu_table_size (table), 27);
  for (guint i = 0; i < topo_gpu_table_size (table); i++) {
    const TopoGpu *gpu = topo_gpu_table_get (table, i);
    double label_bytes = gpu->label_gb * 1e9;
    assert_true (gpu->hbm_bytes_per_s > 3e11 && gpu->hbm_bytes_per_s < 1e13);
    /* Usable lies within 10 % of the label: a label means GB for some cards, GiB for others. */
    assert_true (gpu->usable_bytes > 0.9 * label_bytes && gpu->usable_bytes < 1.1 * label_bytes);
    assert_true (topo_gpu_peak (gpu, TOPO_DTYPE_BF16) > 0
                 || topo_gpu_peak (gpu, TOPO_DTYPE_FP16) > 0);
    /* Narrower types are never slower. */
    double fp8 = topo_gpu_peak (gpu, TOPO_DTYPE_FP8), bf16 = topo_gpu_peak (gpu, TOPO_DTYPE_BF16);
    assert_true (fp8 == 0 || fp8 >= bf16);
    assert_true (strlen (gpu->source) > 10);
  }
}

static const char good_gpu[] = "[gpu]\n"
                               "product = Test 9000\n"
                               "aliases = T9000, test nine\n"
                               "generation = hopper\n"
                               "tdp = 700W\n"
                               "source = test\n"
                               "[peak]\n"
                               "bf16 = 1000TFLOP/s\n"
                               "[memory]\n"
                               "bandwidth = 3TB/s\n"
                               "label_gb = 80\n"
                               "usable = 79GiB\n"
                               "[links]\n"
                               "direct = nvlink4\n"
                               "direct_links = 18\n"
                               "direct_link_rate = 25GB/s\n"
                               "pcie = 5\n";

static void
test_good_file (void **state)
{
  GError *error = NULL;
  g_autoptr (BaseIni) ini = base_ini_new_from_data (good_gpu, -1, "t.ini", &error);
  g_autoptr (TopoGpu) gpu = topo_gpu_new_from_ini (ini, "t", &error);
  assert_no_error (error);
  assert_int_equal (gpu->usable_bytes, 79ull << 30);
  assert_int_equal (g_strv_length (gpu->aliases), 2);
  assert_true (isnan (gpu->clock_hertz) && gpu->l2_bytes == 0 && !gpu->has_c2c);
}

/* nvidia-smi's total less what the driver keeps: 79 GiB - 1 GiB. */
static void
test_reserved (void **state)
{
  GError *error = NULL;
  g_autofree char *text
      = edit_ini (good_gpu, "usable", "usable = 79GiB\nusable_reading = smi\nreserved = 1GiB");
  g_autoptr (BaseIni) ini = base_ini_new_from_data (text, -1, "t.ini", &error);
  g_autoptr (TopoGpu) gpu = topo_gpu_new_from_ini (ini, "t", &error);
  assert_no_error (error);
  assert_int_equal (gpu->usable_bytes, 78ull << 30);
}

typedef struct {
  const char *name;
  const char *key, *line; /* edit of the good file */
  const char *message;
} BadCase;

static const BadCase bad[] = {
  { "bad/no_peak", "bf16", "", "no peak" },
  { "bad/peak_without_unit", "bf16", "bf16 = 1000", "bf16" },
  { "bad/peak_zero", "bf16", "bf16 = 0TFLOP/s", "bf16" },
  { "bad/peak_negative", "bf16", "bf16 = -3TFLOP/s", "bf16" },
  { "bad/peak_nan", "bf16", "bf16 = nanTFLOP/s", "bf16" },
  { "bad/peak_huge", "bf16", "bf16 = 1e30TFLOP/s", "bf16" },
  { "bad/no_bandwidth", "bandwidth", "", "bandwidth" },
  { "bad/bandwidth_of_bytes", "bandwidth", "bandwidth = 3TB", "bandwidth" },
  { "bad/no_usable", "usable", "", "usable" },
  { "bad/usable_zero", "usable", "usable = 0B", "usable" },
  { "bad/usable_bare", "usable", "usable = 9223372036854775808", "usable" },
  { "bad/usable_2_63", "usable", "usable = 9223372036854775808B", "usable" },
  /* 80e9 / 2^30 = 74.51 GiB; 80 * 2^30 = 85.90 GB */
  { "bad/usable_is_label", "usable", "usable = 80GB", "74.51 GiB" },
  { "bad/usable_is_label_spaced", "usable", "usable = 80 GB", "85.90 GB" },
  { "bad/usable_is_label_point", "usable", "usable = 80.0gb", "usable" },
  { "bad/reading", "usable", "usable = 79GiB\nusable_reading = guess", "cuda" },
  { "bad/smi_alone", "usable", "usable = 79GiB\nusable_reading = smi", "reserved" },
  { "bad/reserved_of_cuda", "usable", "usable = 79GiB\nusable_reading = cuda\nreserved = 1GiB",
    "reserved" },
  { "bad/all_reserved", "usable", "usable = 1GiB\nusable_reading = smi\nreserved = 1GiB",
    "more than is reserved" },
  { "bad/no_product", "product", "", "product" },
  { "bad/no_source", "source", "", "source" },
  { "bad/unknown_key", "tdp", "tpd = 700W", "tdp" },
  { "bad/unknown_group", NULL, "[memroy]\nx = 1", "memroy" },
  { "bad/duplicate", "tdp", "tdp = 1W\ntdp = 2W", "tdp" },
  { "bad/link_kind", "direct = ", "direct = nvlink9", "nvlink9" },
  { "bad/link_kind_pcie", "direct = ", "direct = pcie5", "pcie5" },
  { "bad/link_no_rate", "direct_link_rate", "", "direct_link_rate" },
  { "bad/link_zero", "direct_links", "direct_links = 0", "direct_links" },
  { "bad/pcie", "pcie", "pcie = 9", "pcie" },
};

static void
test_bad (void **state)
{
  const BadCase *c = *state;
  GError *error = NULL;
  g_autofree char *text = edit_ini (good_gpu, c->key, c->line);
  g_autoptr (BaseIni) ini = base_ini_new_from_data (text, -1, "t.ini", &error);
  TopoGpu *gpu = ini == NULL ? NULL : topo_gpu_new_from_ini (ini, "t", &error);
  assert_null (gpu);
  assert_message (error, c->message);
  assert_message (error, "t.ini");
  g_clear_error (&error);
}

static void
write_file (const char *dir, const char *name, const char *text)
{
  g_autofree char *path = g_build_filename (dir, name, NULL);
  assert_true (g_file_set_contents (path, text, -1, NULL));
}

static void
remove_tree (const char *dir, const char *const *names)
{
  for (; *names != NULL; names++) {
    g_autofree char *path = g_build_filename (dir, *names, NULL);
    g_remove (path);
  }
  g_remove (dir);
}

/* A user's file without label_gb is held against the labels of all known cards. */
static void
test_user_file (void **state)
{
  static const char *const names[] = { "mine.ini", "bad.ini", NULL };
  GError *error = NULL;
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  g_autofree char *dir = g_dir_make_tmp ("plait-gpu-XXXXXX", NULL);
  g_autofree char *label = edit_ini (good_gpu, "label_gb", "");
  g_autofree char *bad_text = edit_ini (label, "usable", "usable = 141GB");
  write_file (dir, "mine.ini", label);
  write_file (dir, "bad.ini", bad_text);
  g_autofree char *mine = g_build_filename (dir, "mine.ini", NULL);
  g_autofree char *wrong = g_build_filename (dir, "bad.ini", NULL);
  g_autoptr (TopoGpu) gpu = topo_gpu_load (catalog, mine, &error);
  assert_no_error (error);
  assert_string_equal (gpu->slug, "mine");
  assert_null (topo_gpu_load (catalog, wrong, &error));
  assert_message (error, "131.32 GiB"); /* 141e9 / 2^30 */
  g_clear_error (&error);
  remove_tree (dir, names);
}

static void
test_two_claim_one_alias (void **state)
{
  static const char *const names[] = { "one.ini", "two.ini", NULL };
  GError *error = NULL;
  g_autofree char *dir = g_dir_make_tmp ("plait-gpu-XXXXXX", NULL);
  g_autofree char *gpus = g_build_filename (dir, "gpus", NULL);
  g_autofree char *other = edit_ini (good_gpu, "product", "product = Test 9001");
  assert_int_equal (g_mkdir (gpus, 0700), 0);
  write_file (gpus, "one.ini", good_gpu);
  write_file (gpus, "two.ini", other);
  g_autoptr (BaseCatalog) catalog = base_catalog_new (dir, &error);
  assert_no_error (error);
  assert_null (topo_gpu_table_new (catalog, &error));
  assert_message (error, "'T9000' is claimed by both 'one' and 'two'");
  g_clear_error (&error);
  remove_tree (gpus, names);
  g_remove (dir);
}

int
main (void)
{
  enum { N_FACTS = G_N_ELEMENTS (facts), N_BAD = G_N_ELEMENTS (bad) };
  const struct CMUnitTest fixed[] = {
    cmocka_unit_test (test_labels),    cmocka_unit_test (test_reserved),
    cmocka_unit_test (test_catalog),   cmocka_unit_test (test_good_file),
    cmocka_unit_test (test_user_file), cmocka_unit_test (test_two_claim_one_alias),
  };
  struct CMUnitTest tests[N_FACTS + N_BAD + G_N_ELEMENTS (fixed)] = { 0 };
  guint n = 0;
  for (guint i = 0; i < N_FACTS; i++)
    tests[n++] = (struct CMUnitTest){ .name = facts[i].name,
                                      .test_func = test_facts,
                                      .initial_state = (void *)&facts[i] };
  for (guint i = 0; i < N_BAD; i++)
    tests[n++] = (struct CMUnitTest){ .name = bad[i].name,
                                      .test_func = test_bad,
                                      .initial_state = (void *)&bad[i] };
  for (guint i = 0; i < G_N_ELEMENTS (fixed); i++)
    tests[n++] = fixed[i];
  return cmocka_run_group_tests (tests, NULL, NULL);
}
