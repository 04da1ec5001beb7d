/* The presets of the catalog: all there, sourced, and equal to the models' own config.json. */
#include "model/params.h"
#include "tests/model_arch_equal.h"

/* Slugs, training facts, and the config.json of the data folder that describes the same model. */
typedef struct {
  const char *slug;
  guint64 seq, global_batch;
  double dropout;
  const char *config; /* NULL: none there */
} Preset;

static const Preset presets[] = {
  { "gpt2-xl", 1024, 512, 0.1, NULL },
  { "gpt3-175b", 2048, 64, 0.1, "gpt3-175b" },
  { "megatron-22b", 2048, 4, 0.1, NULL },
  { "megatron-530b", 2048, 280, 0.1, NULL },
  { "megatron-1t", 2048, 512, 0.1, NULL },
  { "bloom-176b", 2048, 2048, 0, "bloom-176b" },
  { "llama-2-7b", 4096, 0, 0, NULL },
  { "llama-2-13b", 4096, 0, 0, "llama-2-13b" },
  { "llama-2-70b", 4096, 0, 0, "llama-2-70b" },
  { "llama-3.1-8b", 8192, 0, 0, "llama-3.1-8b" },
  { "llama-3.1-70b", 8192, 0, 0, "llama-3.1-70b" },
  { "llama-3.1-405b", 8192, 2048, 0, NULL },
  { "mistral-7b", 8192, 0, 0, "mistral-7b-v0.1" },
  { "mixtral-8x7b", 32768, 0, 0, "mixtral-8x7b" },
  { "mixtral-8x22b", 0, 0, 0, "mixtral-8x22b" },
  { "qwen2.5-72b", 4096, 0, 0, "qwen2.5-72b" },
  { "qwen3-30b-a3b", 4096, 0, 0, "qwen3-30b-a3b" },
  { "qwen3-235b-a22b", 4096, 0, 0, "qwen3-235b-a22b" },
  { "deepseek-v2", 4096, 9216, 0, "deepseek-v2" },
  { "deepseek-v3", 4096, 15360, 0, NULL },
  { "deepseek-v2-lite", 0, 0, 0, "deepseek-v2-lite" },
  { "kimi-k2", 0, 0, 0, "kimi-k2-instruct" },
  { "gpt-oss-120b", 0, 0, 0, "gpt-oss-120b" },
  { "tiny", 128, 8, 0, NULL },
};

static BaseCatalog *
open_catalog (void)
{
  GError *error = NULL;
  BaseCatalog *catalog = base_catalog_new (NULL, &error);
  assert_no_error (error);
  return catalog;
}

static void
test_preset (void **state)
{
  const Preset *preset = *state;
  GError *error = NULL;
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  g_autoptr (ModelArch) arch = model_arch_load (catalog, preset->slug, &error);
  assert_no_error (error);
  assert_string_equal (arch->name, preset->slug);
  assert_int_equal (arch->seq, preset->seq);
  assert_int_equal (arch->global_batch, preset->global_batch);
  assert_true (arch->dropout == preset->dropout);
  assert_int_equal (arch->assumed->len, 0);
  assert_round_trip (arch);
}

/* Every group of every preset says where its facts come from. */
static void
test_sources (void **state)
{
  GError *error = NULL;
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  g_auto (GStrv) slugs = base_catalog_list (catalog, "models");
  for (guint i = 0; slugs[i] != NULL; i++) {
    g_autoptr (BaseIni) ini = base_catalog_open (catalog, "models", slugs[i], &error);
    assert_no_error (error);
    for (guint g = 0; g < base_ini_n_groups (ini); g++) {
      const char *source
          = base_ini_get_string (ini, base_ini_group_name (ini, g), "source", &error);
      assert_no_error (error);
      assert_true (strlen (source) > 10);
    }
  }
}

static void
test_every_slug (void **state)
{
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  g_auto (GStrv) slugs = base_catalog_list (catalog, "models");
  for (gsize i = 0; i < G_N_ELEMENTS (presets); i++)
    assert_true (g_strv_contains ((const char *const *)slugs, presets[i].slug));
}

/* The numbers of a preset come from papers, those of a config.json from the checkpoint. */
static void
test_config (void **state)
{
  const Preset *preset = *state;
  GError *error = NULL;
  g_autofree char *relative = g_strdup_printf ("hf_configs/%s.json", preset->config);
  g_autofree char *path = test_data_path (relative);
  g_autoptr (BaseCatalog) catalog = open_catalog ();
  g_autoptr (ModelArch) arch = model_arch_load (catalog, preset->slug, &error);
  assert_no_error (error);
  g_autoptr (ModelArch) config = model_arch_load (catalog, path, &error);
  assert_no_error (error);
  assert_same_structure (arch, config);
  assert_string_equal (arch->family, config->family);
}

/* Every config.json there: read and written back, or refused with one clear line. */
static void
test_configs_round_trip (void **state)
{
  GError *error = NULL;
  g_autofree char *folder = test_data_path ("hf_configs");
  g_autoptr (GDir) dir = g_dir_open (folder, 0, &error);
  assert_no_error (error);
  guint n_read = 0, n_refused = 0;
  for (const char *file = g_dir_read_name (dir); file != NULL; file = g_dir_read_name (dir)) {
    if (!g_str_has_suffix (file, ".json"))
      continue;
    g_autofree char *path = g_build_filename (folder, file, NULL);
    g_autoptr (ModelArch) arch = model_arch_load (NULL, path, &error);
    if (arch != NULL) {
      assert_no_error (error);
      assert_round_trip (arch);
      n_read++;
      continue;
    }
    assert_true (g_error_matches (error, MODEL_ERROR, MODEL_ERROR_UNSUPPORTED));
    assert_null (strchr (error->message, '\n'));
    g_clear_error (&error);
    n_refused++;
  }
  assert_true (n_read >= 23);
  assert_true (n_refused <= 5);
}

int
main (void)
{
  struct CMUnitTest tests[2 * G_N_ELEMENTS (presets) + 4] = {
    cmocka_unit_test (test_every_slug),
    cmocka_unit_test (test_sources),
  };
  gsize n = 2;
  g_autofree char *folder = test_data_path ("hf_configs");
  gboolean has_data = folder != NULL && g_file_test (folder, G_FILE_TEST_IS_DIR);
  for (gsize i = 0; i < G_N_ELEMENTS (presets); i++) {
    void *preset = (void *)&presets[i];
    tests[n++] = (struct CMUnitTest){ .name = presets[i].slug,
                                      .test_func = test_preset,
                                      .initial_state = preset };
    if (has_data && presets[i].config != NULL)
      tests[n++] = (struct CMUnitTest){ .name = presets[i].config,
                                        .test_func = test_config,
                                        .initial_state = preset };
  }
  if (has_data)
    tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_configs_round_trip);
  int failed = _cmocka_run_group_tests ("model_presets", tests, n, NULL, NULL);
  return failed != 0 ? 1 : has_data ? 0 : TEST_SKIPPED;
}
