/* Parameter lists: counts in closed form, splits, padding, and the published counts. */
#include "base/csv.h"
#include "model/params.h"
#include "tests/testutil.h"

/* Presets, with totals published by the models' authors or in the stored weights' index
 * ("total_parameters" of the checkpoint on Hugging Face). */
typedef struct {
  const char *slug;
  guint64 total, active;
} PresetCase;

static const PresetCase presets[] = {
  /* 2 · 2048·256 (embedding, head) + 256 + 8 · (256·(8 + 2·4)·32 + 256·256 + 3·256·512 + 2·256) */
  { "tiny", 5771520, 5771520 },
  { "gpt2-xl", 1557611200, 1557611200 },
  { "llama-2-7b", 6738415616, 6738415616 },
  { "llama-2-13b", 13015864320, 13015864320 },
  { "llama-2-70b", 68976648192, 68976648192 },
  { "llama-3.1-8b", 8030261248, 8030261248 },
  { "llama-3.1-70b", 70553706496, 70553706496 },
  { "llama-3.1-405b", 405853388800, 405853388800 },
  { "mistral-7b", 7241732096, 7241732096 },
  { "mixtral-8x7b", 46702792704, 12879925248 },
  { "mixtral-8x22b", 140620634112, 39152031744 },
  { "bloom-176b", 176247271424, 176247271424 },
  { "qwen2.5-72b", 72706203648, 72706203648 },
  { "qwen3-30b-a3b", 30532122624, 3353032704 },
  { "qwen3-235b-a22b", 235093634560, 22190763520 },
  { "deepseek-v2", 235741434880, 21375800320 },
  /* 671.0e9 without the prediction module; active: 58 layers leave 248 of 256 experts of
   * 3·7168·2048 out: 671026419200 - 58·248·44040192 */
  { "deepseek-v3", 671026419200, 37552297472 },
  /* h = 12288, l = 96, V = 51200, s = 2048: 12·l·h² + 13·l·h + (V + s)·h + 2·h */
  { "gpt3-175b", 174615846912, 174615846912 },
  /* the same form with h = 6144, l = 48 */
  { "megatron-22b", 22074273792, 22074273792 },
  /* h = 20480, l = 105: the paper says 529.6e9 */
  { "megatron-530b", 529600819200, 529600819200 },
  /* h = 25600, l = 128: the paper says 1008.0e9 */
  { "megatron-1t", 1008038758400, 1008038758400 },
};

static void
test_preset (void **state)
{
  const PresetCase *c = *state;
  GError *error = NULL;
  g_autoptr (BaseCatalog) catalog = base_catalog_new (NULL, &error);
  assert_no_error (error);
  g_autoptr (ModelArch) arch = model_arch_load (catalog, c->slug, &error);
  assert_no_error (error);
  assert_int_equal (model_params_total (arch), c->total);
  assert_int_equal (model_params_active (arch), c->active);
}

/* Every config.json of the data folder that has a count and is not a vision model. */
static void
test_published_counts (void **state)
{
  GError *error = NULL;
  g_autofree char *path = test_data_path ("hf_configs/PARAM_COUNTS.csv");
  g_autoptr (BaseCsv) csv = base_csv_new_from_file (path, &error);
  assert_no_error (error);
  guint n_read = 0;
  for (guint row = 0; row < base_csv_n_rows (csv); row++) {
    const char *type = base_csv_get (csv, row, "model_type");
    if (strcmp (type, "vit") == 0 || strcmp (type, "DiTTransformer2DModel") == 0)
      continue;
    const char *model = base_csv_get (csv, row, "model");
    g_autofree char *relative = g_strdup_printf ("hf_configs/%s.json", model);
    g_autofree char *config = test_data_path (relative);
    g_autoptr (ModelArch) arch = model_arch_load (NULL, config, &error);
    assert_no_error (error);
    assert_string_equal (arch->name, model);
    guint64 total = g_ascii_strtoull (base_csv_get (csv, row, "params_total"), NULL, 10);
    guint64 active
        = g_ascii_strtoull (base_csv_get (csv, row, "params_active_per_token"), NULL, 10);
    if (model_params_total (arch) != total || model_params_active (arch) != active)
      print_error ("%s\n", model);
    assert_int_equal (model_params_total (arch), total);
    assert_int_equal (model_params_active (arch), active);
    n_read++;
  }
  assert_true (n_read >= 23);
}

/* Elements on the fullest rank: worked out by hand. */
static void
test_local_count (void **state)
{
  static const struct {
    ModelParam param;
    guint tp, ep, etp;
    guint64 want;
  } cases[] = {
    { { "column", MODEL_PARAM_SPLIT_COLUMN, 2, { 12, 5 }, 60, FALSE, FALSE }, 4, 1, 1, 15 },
    { { "column uneven", MODEL_PARAM_SPLIT_COLUMN, 2, { 10, 5 }, 50, FALSE, FALSE }, 4, 1, 1, 15 },
    { { "row", MODEL_PARAM_SPLIT_ROW, 2, { 5, 12 }, 60, FALSE, FALSE }, 4, 1, 1, 15 },
    { { "bias of a column", MODEL_PARAM_SPLIT_COLUMN, 1, { 12 }, 12, FALSE, FALSE }, 4, 1, 1, 3 },
    { { "norm", MODEL_PARAM_SPLIT_NONE, 1, { 12 }, 12, FALSE, FALSE }, 4, 8, 2, 12 },
    /* 8 experts over 4 ranks: 2 · (6 / 2) · 5 */
    { { "expert in", MODEL_PARAM_SPLIT_EXPERT_COLUMN, 3, { 8, 6, 5 }, 240, TRUE, FALSE },
      16,
      4,
      2,
      30 },
    { { "expert out", MODEL_PARAM_SPLIT_EXPERT_ROW, 3, { 8, 5, 6 }, 240, TRUE, FALSE },
      16,
      4,
      2,
      30 },
    /* the bias after the expert's second matrix is not split by etp */
    { { "expert bias", MODEL_PARAM_SPLIT_EXPERT_ROW, 2, { 8, 5 }, 40, TRUE, FALSE }, 1, 4, 2, 10 },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    guint64 got = model_param_local_count (&cases[i].param, cases[i].tp, cases[i].ep, cases[i].etp);
    if (got != cases[i].want)
      print_error ("%s\n", cases[i].param.name);
    assert_int_equal (got, cases[i].want);
  }
}

static void
test_padded_vocab (void **state)
{
  assert_int_equal (model_params_padded_vocab (50257, 1, 128), 50304);
  assert_int_equal (model_params_padded_vocab (50257, 8, 128), 51200);
  assert_int_equal (model_params_padded_vocab (51200, 8, 128), 51200);
  assert_int_equal (model_params_padded_vocab (1, 1, 1), 1);
  ModelParam word = { "word", MODEL_PARAM_SPLIT_COLUMN, 2, { 50257, 3 }, 150771, FALSE, TRUE };
  ModelParam padded = model_param_with_vocab (&word, 51200);
  assert_int_equal (padded.shape[0], 51200);
  assert_int_equal (padded.count, 153600);
  assert_int_equal (model_param_local_count (&padded, 8, 1, 1), 19200);
  word.by_vocab = FALSE;
  assert_int_equal (model_param_with_vocab (&word, 51200).count, 150771);
}

static void
check_names (const ModelArch *arch, ModelPart part, guint run, const char *const *want)
{
  ModelParam params[MODEL_PARAMS_MAX];
  guint n = model_params_list (arch, part, run, params);
  for (guint i = 0; i < n; i++) {
    assert_non_null (want[i]);
    assert_string_equal (params[i].name, want[i]);
    guint64 product = 1;
    for (guint d = 0; d < params[i].n_dims; d++)
      product *= params[i].shape[d];
    assert_int_equal (params[i].count, product);
  }
  assert_null (want[n]);
}

static void
test_names (void **state)
{
  GError *error = NULL;
  g_autoptr (BaseCatalog) catalog = base_catalog_new (NULL, &error);
  g_autoptr (ModelArch) gpt = model_arch_load (catalog, "gpt3-175b", &error);
  assert_no_error (error);
  g_autoptr (ModelArch) v3 = model_arch_load (catalog, "deepseek-v3", &error);
  assert_no_error (error);
  check_names (gpt, MODEL_PART_EMBEDDING, 0,
               (const char *[]){ "word_embeddings.weight", "position_embeddings.weight", NULL });
  check_names (gpt, MODEL_PART_BLOCK, 0,
               (const char *[]){ "input_layernorm.weight", "input_layernorm.bias",
                                 "linear_qkv.weight", "linear_qkv.bias", "linear_proj.weight",
                                 "linear_proj.bias", "pre_mlp_layernorm.weight",
                                 "pre_mlp_layernorm.bias", "linear_fc1.weight", "linear_fc1.bias",
                                 "linear_fc2.weight", "linear_fc2.bias", NULL });
  check_names (gpt, MODEL_PART_HEAD, 0,
               (const char *[]){ "final_layernorm.weight", "final_layernorm.bias", NULL });
  check_names (v3, MODEL_PART_BLOCK, 1,
               (const char *[]){
                   "input_layernorm.weight", "linear_q_down_proj.weight", "q_layernorm.weight",
                   "linear_q_up_proj.weight", "linear_kv_down_proj.weight", "kv_layernorm.weight",
                   "linear_kv_up_proj.weight", "linear_proj.weight", "pre_mlp_layernorm.weight",
                   "router.weight", "router.bias", "experts.linear_fc1.weight",
                   "experts.linear_fc2.weight", "shared_experts.linear_fc1.weight",
                   "shared_experts.linear_fc2.weight", NULL });
  check_names (v3, MODEL_PART_HEAD, 0,
               (const char *[]){ "final_layernorm.weight", "output_layer.weight", NULL });
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (presets) + 4] = {
    cmocka_unit_test (test_local_count),
    cmocka_unit_test (test_padded_vocab),
    cmocka_unit_test (test_names),
  };
  gsize n = 3;
  for (gsize i = 0; i < G_N_ELEMENTS (presets); i++)
    tests[n++] = (struct CMUnitTest){ .name = presets[i].slug,
                                      .test_func = test_preset,
                                      .initial_state = (void *)&presets[i] };
  g_autofree char *counts = test_data_path ("hf_configs/PARAM_COUNTS.csv");
  gboolean has_data = counts != NULL && g_file_test (counts, G_FILE_TEST_EXISTS);
  if (has_data)
    tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_published_counts);
  int failed = _cmocka_run_group_tests ("model_params", tests, n, NULL, NULL);
  return failed != 0 ? 1 : has_data ? 0 : TEST_SKIPPED;
}
