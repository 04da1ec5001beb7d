/* Profiles of the catalog: they load, say what their sources say, and claim the right rows. */
#include "base/csv.h"
#include "model/profile.h"
#include "tests/testutil.h"
#include <gio/gio.h>
#include <glib/gstdio.h>

static BaseCatalog *catalog;

typedef struct {
  const char *name;
  double plain, zero1,
      zero1_sharded; /* bytes per parameter: unsharded; resident and /d of ZeRO-1 */
  guint8 max_zero_with_pp;
} StateCase;

/*
 * Megatron's theoretical_memory_usage.py: 18, or 6 + 12/d. DeepSpeed fp16: 16, 4 + 12/d. nanotron:
 * 20, 8 + 12/d. FSDP and fp32 Adam: 16. Highest ZeRO with pipelining: the frameworks' own checks.
 */
static const StateCase state_cases[] = {
  { "megatron", 18, 6, 12, 1 },   { "nemo", 18, 6, 12, 1 },     { "generic", 18, 6, 12, 3 },
  { "deepspeed", 16, 4, 12, 1 },  { "nanotron", 20, 8, 12, 1 }, { "fsdp", 16, 4, 12, 3 },
  { "torchtitan", 16, 4, 12, 3 }, { "plait", 16, 8, 8, 1 },
};

static void
test_states (void **state)
{
  const StateCase *c = *state;
  g_autoptr (GError) error = NULL;
  g_autoptr (ModelProfile) p = model_profile_load (catalog, c->name, &error);
  assert_no_error (error);
  double resident = p->param_bytes + p->grad_bytes + p->main_grad_bytes;
  double optimizer = p->master_bytes + p->moment_bytes;
  assert_string_equal (p->name, c->name);
  assert_near (resident + optimizer, c->plain, 1e-12);
  assert_near (resident, c->zero1, 1e-12);
  assert_near (optimizer, c->zero1_sharded, 1e-12);
  assert_int_equal (p->max_zero_with_pp, c->max_zero_with_pp);
  assert_true (p->logits_peak_bytes >= p->logits_kept_bytes && p->loss_chunks >= 1);
  assert_true (strlen (p->source) > 10 && p->dtypes != 0);
}

typedef struct {
  const char *name, *framework, *want;
} FrameworkCase;

static const FrameworkCase framework_cases[] = {
  { "framework/megatron", "Megatron-LM", "megatron" },
  { "framework/megatron_commit", "Megatron-LM 23e00ed0963c (TE 2.11, torch 2.10)", "megatron" },
  { "framework/case_is_ignored", "MEGATRON-lm", "megatron" },
  { "framework/megatron_deepspeed", "Megatron-DeepSpeed", "deepspeed" },
  { "framework/megatron_deepspeed_zero3", "Megatron-DeepSpeed ZeRO-3", "deepspeed-zero3" },
  { "framework/neox", "GPT-NeoX", "deepspeed" },
  { "framework/bridge", "Megatron-Bridge", "nemo-bridge" },
  { "framework/nemo_megatron", "NeMo/Megatron", "nemo" },
  { "framework/nemo_2", "NeMo", "nemo-bridge" },
  { "framework/automodel", "NeMo AutoModel (FSDP2)", "automodel" },
  { "framework/foundry", "llm-foundry FSDP (Composer)", "llm-foundry" },
  { "framework/fsdp_or_deepspeed", "FSDP/DeepSpeed (milabench opt)", "fsdp" },
  { "framework/compiled_fsdp", "LitGPT inductor", "torchtitan" },
  { "framework/own_name", "Megatron", "megatron" },
  { "framework/own_name_of_a_kind", "deepspeed-hf", "deepspeed-hf" },
  { "framework/own_name_below_a_pattern", "nemo-bridge", "nemo-bridge" },
  { "framework/jax", "MaxText (JAX GPU)", "generic" },
  { "framework/unheard_of", "Somebody's own", "generic" },
  { "framework/empty", "", "generic" },
};

static void
test_framework (void **state)
{
  const FrameworkCase *c = *state;
  g_autofree char *slug = model_profile_for_run (catalog, c->framework, NULL, NULL);
  assert_string_equal (slug, c->want);
}

typedef struct {
  const char *name, *framework, *generation, *notes, *want;
} RunCase;

static const RunCase run_cases[] = {
  { "run/old_loss_on_hopper", "torchtitan", "hopper", "with torch.compile", "torchtitan-2024" },
  { "run/not_compiled", "torchtitan", "hopper", "eager; FSDP 8", "torchtitan-2024-eager" },
  { "run/says_nothing", "torchtitan", "ampere", "", "torchtitan-2024-eager" },
  { "run/new_loss_on_blackwell", "torchtitan", "blackwell", "", "torchtitan" },
  { "run/plain_hugging_face", "DeepSpeed", "hopper", "plain HF kernels", "deepspeed-hf" },
  { "run/liger", "DeepSpeed", "hopper", "with LIGER kernels", "deepspeed-hf-liger" },
  { "run/liger_and_offload", "DeepSpeed", "hopper", "optimizer states on CPU, Liger fused loss",
    "deepspeed-hf-liger-offload" },
  { "run/notes_of_another_framework", "Megatron-LM", "hopper", "Liger", "megatron" },
};

static void
test_run (void **state)
{
  const RunCase *c = *state;
  g_autofree char *slug = model_profile_for_run (catalog, c->framework, c->generation, c->notes);
  assert_string_equal (slug, c->want);
}

/* A profile on a profile on a profile has what the nearest says; states differ by dtype. */
static void
test_built_on (void **state)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ModelProfile) top = model_profile_load (catalog, "deepspeed-hf-liger-offload", &error);
  g_autoptr (ModelProfile) bottom = model_profile_load (catalog, "deepspeed", &error);
  assert_no_error (error);
  assert_true (top->offloads_optimizer && !bottom->offloads_optimizer); /* its own */
  assert_int_equal (top->loss_chunks, 32);                              /* -liger */
  assert_string_equal (top->calibration, "fsdp");                       /* -hf */
  assert_int_equal (top->live_elements, 1000000000);                    /* deepspeed */
  assert_near (model_profile_states (bottom, MODEL_DTYPE_BF16).main_grad_bytes, 4, 0);
  assert_near (model_profile_states (bottom, MODEL_DTYPE_FP16).main_grad_bytes, 0, 0);
  assert_near (model_profile_states (bottom, MODEL_DTYPE_FP16).step_copy_bytes, 4, 0);
  /* Adam reads the gradient twice, 8 B of moments and 4 B of weight, and writes 12 and 2 */
  assert_near (model_profile_gradient_bytes (bottom, MODEL_DTYPE_BF16), 4, 0);
  assert_near (model_profile_gradient_bytes (bottom, MODEL_DTYPE_FP16), 2, 0);
  assert_near (model_profile_adam_read_bytes (bottom, MODEL_DTYPE_BF16), 20, 0);
  assert_near (model_profile_adam_read_bytes (bottom, MODEL_DTYPE_FP16), 16, 0);
  assert_near (model_profile_adam_write_bytes (bottom, MODEL_DTYPE_FP16), 14, 0);
}

static void
test_base_in_a_circle (void **state)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *dir = g_dir_make_tmp ("plait-profiles-XXXXXX", &error);
  g_autofree char *folder = g_build_filename (dir, "profiles", NULL);
  g_autofree char *file = g_build_filename (folder, "around.ini", NULL);
  assert_int_equal (g_mkdir (folder, 0700), 0);
  assert_true (g_file_set_contents (
      file, "[profile]\nbase = around\nframeworks = x\nsource = made for a test\n", -1, &error));
  g_autoptr (BaseCatalog) own = base_catalog_new (dir, &error);
  assert_no_error (error);
  assert_null (model_profile_load (own, "around", &error));
  assert_non_null (strstr (error->message, "base"));
  assert_int_equal (g_remove (file), 0);
  assert_int_equal (g_rmdir (folder), 0);
  assert_int_equal (g_rmdir (dir), 0);
}

/* Training frameworks of the published rows that no pattern claims: none. */
static void
test_published_frameworks_are_claimed (void **state)
{
  g_autofree char *path = test_data_path ("measured/runs.csv");
  g_autoptr (GError) error = NULL;
  g_autoptr (BaseCsv) csv = base_csv_new_from_file (path, &error);
  g_autoptr (ModelProfile) generic = model_profile_load (catalog, "generic", NULL);
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  assert_no_error (error);
  for (guint row = 0; row < base_csv_n_rows (csv); row++) {
    const char *framework = base_csv_get (csv, row, "framework");
    if (!g_hash_table_add (seen, (gpointer)framework))
      continue;
    g_autofree char *slug = model_profile_for_run (catalog, framework, NULL, NULL);
    g_autofree char *lower = g_utf8_strdown (framework, -1);
    gboolean claimed = !g_str_equal (slug, "generic");
    for (guint i = 0; generic->frameworks[i] != NULL; i++)
      claimed |= g_pattern_match_simple (generic->frameworks[i], lower);
    if (!claimed)
      fail_msg ("framework '%s' falls to generic without a pattern", framework);
  }
}

/* 'generic' answers for what nobody claims, and claims what its patterns name only. */
static void
test_claims (void **state)
{
  g_autoptr (ModelProfile) generic = model_profile_load (catalog, "generic", NULL);
  assert_true (model_profile_claims (generic, "MaxText (JAX GPU)"));
  assert_true (model_profile_claims (generic, "Generic"));
  assert_false (model_profile_claims (generic, "Somebody's own"));
  assert_false (model_profile_claims (generic, ""));
}

static void
test_row_defaults (void **state)
{
  g_autoptr (ModelProfile) nemo = model_profile_load (catalog, "nemo", NULL);
  assert_string_equal (g_hash_table_lookup (nemo->row_defaults, "shard"), "dist-opt");
  assert_null (g_hash_table_lookup (nemo->row_defaults, "colour"));
}

/* megatron.ini with one line replaced; a NULL new line takes the old one out. */
typedef struct {
  const char *name, *old_line, *new_line, *message;
} BadCase;

static const BadCase bad_cases[] = {
  { "bad/missing_switch", "fused_norm = yes", NULL,
    "[kernels] fused_norm: missing, every profile states it: expected yes or no, or 'base = " },
  { "bad/missing_number", "moment_bytes = 8B", NULL, "[states] moment_bytes: missing" },
  { "bad/missing_count", "qkv_copies = 0", NULL, "expected a whole number from 0 to 4" },
  { "bad/missing_source", "source = NVIDIA", "# source = NVIDIA", "source" },
  { "bad/word_for_switch", "compiled = no", "compiled = maybe", "compiled" },
  { "bad/bytes_without_unit", "param_bytes = 2B", "param_bytes = 2", "param_bytes" },
  { "bad/negative_bytes", "param_bytes = 2B", "param_bytes = -2B", "param_bytes" },
  { "bad/nan", "param_bytes = 2B", "param_bytes = nanB", "param_bytes" },
  { "bad/huge_bytes", "param_bytes = 2B", "param_bytes = 1e30B", "param_bytes" },
  { "bad/zero_vocab_multiple", "vocab_multiple = 128", "vocab_multiple = 0", "vocab_multiple" },
  { "bad/zero_units", "fsdp_units_in_flight = 2", "fsdp_units_in_flight = 0", "units_in_flight" },
  { "bad/2_63_elements", "bucket_elements = 40000000", "bucket_elements = 9223372036854775808",
    "bucket_elements" },
  { "bad/zero_stage", "max_zero_with_pp = 1", "max_zero_with_pp = 4", "max_zero_with_pp" },
  { "bad/context_in_gb_of_rate", "context = 1.07GiB", "context = 1.07GB/s", "context" },
  { "bad/dtype", "dtypes = bf16", "dtypes = int8, bf16", "found 'int8'" },
  { "bad/no_dtypes", "dtypes = bf16, fp16, fp8, mxfp8, nvfp4, fp32", "dtypes =", "dtypes" },
  { "bad/typo", "compiled = no", "compiled = no\ncompield = no", "compield" },
  { "bad/duplicate", "compiled = no", "compiled = no\ncompiled = no", "compiled" },
  { "bad/unknown_group", "[allocator]", "[colours]\nred = yes\n[allocator]", "colours" },
};

static char *
replace_line (const char *text, const char *old_line, const char *new_line)
{
  const char *at = strstr (text, old_line);
  assert_non_null (at);
  g_autofree char *before = g_strndup (text, (gsize)(at - text));
  return g_strconcat (before, new_line != NULL ? new_line : "", at + strlen (old_line), NULL);
}

static char *
megatron_text (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes
      = g_resources_lookup_data ("/plait/catalog/profiles/megatron.ini", 0, &error);
  assert_no_error (error);
  return g_strndup (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
}

static void
test_bad (void **state)
{
  const BadCase *c = *state;
  g_autofree char *good = megatron_text ();
  g_autofree char *text = replace_line (good, c->old_line, c->new_line);
  g_autoptr (GError) error = NULL;
  g_autoptr (BaseIni) ini = base_ini_new_from_data (text, -1, "my.ini", &error);
  g_autoptr (ModelProfile) profile
      = ini != NULL ? model_profile_from_ini (ini, "my", &error) : NULL;
  assert_null (profile);
  assert_non_null (error);
  assert_null (strchr (error->message, '\n'));
  if (strstr (error->message, c->message) == NULL || strstr (error->message, "my.ini") == NULL)
    fail_msg ("'%s' of my.ini is not in: %s", c->message, error->message);
}

static void
test_unknown_profile (void **state)
{
  g_autoptr (GError) error = NULL;
  assert_null (model_profile_load (catalog, "megatorn", &error));
  assert_non_null (strstr (error->message, "megatron"));
}

/* Read twice a profile is the same, and no other: a line for each key, and the states of each dtype. */
static void
test_is_known_again (void **state)
{
  static const char *const groups[] = { "kernels", "states", "states_bf16", "allocator" };
  static const char *const lines[]
      = { "core_copies = 2", "offloads_optimizer = yes", "grad_bytes = 4B", "context = 2GiB" };
  g_autoptr (ModelProfile) base = model_profile_load (catalog, "megatron", NULL);
  g_autofree char *first = model_profile_format (base);
  (void)state;
  assert_non_null (strstr (first, "\nfused_bias_grad=1\n"));
  assert_non_null (strstr (first, "\nfp32.master_bytes=4\n"));
  for (guint i = 0; i <= G_N_ELEMENTS (lines); i++) {
    gboolean changed = i < G_N_ELEMENTS (lines);
    g_autoptr (GError) error = NULL;
    g_autofree char *text = g_strdup_printf (
        "[profile]\nbase = megatron\ncalibration = megatron\nsource = a test\n%s%s%s%s",
        changed ? "[" : "", changed ? groups[i] : "", changed ? "]\n" : "",
        changed ? lines[i] : "");
    g_autofree char *path = g_build_filename (g_get_tmp_dir (), "plait-profile-XXXXXX", NULL);
    g_close (g_mkstemp (path), NULL);
    assert_true (g_file_set_contents (path, text, -1, NULL));
    g_autoptr (ModelProfile) other = model_profile_load (catalog, path, &error);
    g_unlink (path);
    assert_no_error (error);
    g_autofree char *second = model_profile_format (other);
    assert_true (g_str_equal (first, second) == !changed);
  }
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (state_cases) + G_N_ELEMENTS (framework_cases)
                          + G_N_ELEMENTS (run_cases) + G_N_ELEMENTS (bad_cases) + 6];
  const struct CMUnitTest data[] = { cmocka_unit_test (test_published_frameworks_are_claimed) };
  guint n = 0;
  g_autoptr (GError) error = NULL;
  g_autoptr (BaseCatalog) embedded = base_catalog_new (NULL, &error);
  catalog = embedded;
  ADD_ROWS (state_cases, test_states);
  ADD_ROWS (framework_cases, test_framework);
  ADD_ROWS (run_cases, test_run);
  ADD_ROWS (bad_cases, test_bad);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_built_on);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_base_in_a_circle);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_row_defaults);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_is_known_again);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_claims);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_unknown_profile);
  int failed = cmocka_run_group_tests_name ("profile", tests, NULL, NULL);
  g_autofree char *path = test_data_path ("measured/runs.csv");
  if (failed != 0 || path == NULL)
    return failed != 0 ? failed : TEST_SKIPPED;
  return cmocka_run_group_tests_name ("profile_data", data, NULL, NULL);
}
