/* A model as INI: what is required, what defaults, what is refused, and that writing it back
 * loses nothing. */
#include "base/philox.h"
#include "model/params.h"
#include "tests/model_arch_equal.h"

#define MODEL                                                                                      \
  "[model]\nhidden = 64\nvocab = 100\nactivation = silu\ngated = yes\nnorm = rms\n"                \
  "position = rotary\ntied = no\n"
#define ATTENTION "[attention]\nheads = 4\n"
#define BLOCKS    "[blocks 1]\ncount = 2\nffn = 96\n"
#define PLAIN     MODEL ATTENTION BLOCKS

static ModelArch *
read_ini (const char *text, GError **error)
{
  g_autoptr (BaseIni) ini = base_ini_new_from_data (text, -1, "m.ini", error);
  return ini != NULL ? model_arch_from_ini (ini, "m", error) : NULL;
}

static void
test_defaults (void **state)
{
  GError *error = NULL;
  g_autoptr (ModelArch) arch = read_ini (PLAIN, &error);
  assert_no_error (error);
  assert_string_equal (arch->name, "m");
  assert_string_equal (arch->family, "custom");
  assert_int_equal (arch->layers, 2);
  assert_int_equal (arch->attention.kv_heads, 4);
  assert_int_equal (arch->attention.head_dim, 16);
  assert_int_equal (arch->attention.v_head_dim, 16);
  assert_true (arch->attention.rotary_ratio == 1);
  assert_int_equal (arch->norms_per_block, 2);
  assert_true (arch->dropout == 0);
  assert_int_equal (arch->seq, 0);
  assert_int_equal (arch->assumed->len, 2);
  assert_string_equal (g_ptr_array_index (arch->assumed, 0),
                       "kv_heads=4: absent, every head has its own");
  /* 2·100·64 + 64 + 2·(3·64·64 + 64·64 + 3·64·96 + 2·64) */
  assert_int_equal (model_params_total (arch), 82752);
  assert_round_trip (arch);
}

/* Equal neighbours are one run, whatever the file says. */
static void
test_runs (void **state)
{
  GError *error = NULL;
  g_autoptr (ModelArch) arch
      = read_ini (MODEL "layers = 7\n" ATTENTION BLOCKS "[blocks 2]\ncount = 3\nffn = 96\n"
                        "[blocks 3]\ncount = 1\nffn = 96\nwindow = 8\n"
                        "[blocks 4]\nkind = moe\ncount = 1\nexperts = 4\ntopk = 2\n"
                        "expert_ffn = 32\n",
                  &error);
  assert_no_error (error);
  assert_int_equal (arch->n_runs, 3);
  assert_int_equal (arch->runs[0].count, 5);
  assert_ptr_equal (model_arch_run_of (arch, 0), &arch->runs[0]);
  assert_ptr_equal (model_arch_run_of (arch, 4), &arch->runs[0]);
  assert_ptr_equal (model_arch_run_of (arch, 5), &arch->runs[1]);
  assert_ptr_equal (model_arch_run_of (arch, 6), &arch->runs[2]);
  assert_round_trip (arch);
}

typedef struct {
  const char *text;
  const char *want;
} RefusalCase;

#define MLA                                                                                        \
  "[attention]\nkind = mla\nheads = 4\nkv_lora_rank = 16\nqk_nope_dim = 8\nqk_rope_dim = 4\n"
#define MOE "[blocks 1]\nkind = moe\ncount = 2\nexperts = 4\ntopk = 2\nexpert_ffn = 32\n"

static const RefusalCase refusals[] = {
  { "", "m.ini: [model]" },
  { ATTENTION BLOCKS, "[model]" },
  { MODEL BLOCKS, "[attention]" },
  { MODEL ATTENTION, "[blocks 1]" },
  { MODEL "hiden = 3\n" ATTENTION BLOCKS, "[model] hiden" },
  { PLAIN "[block 2]\ncount = 1\n", "[block 2]" },
  { PLAIN "[blocks 3]\ncount = 1\nffn = 96\n", "[blocks 3]" },
  { MODEL "hidden = 64\n" ATTENTION BLOCKS, "m.ini:9: [model] hidden: is there twice" },
  { "[model]\nhidden = -64\nvocab = 100\n", "m.ini:2: [model] hidden: found '-64'" },
  { "[model]\nhidden = 0\nvocab = 100\n", "[model] hidden: found '0'" },
  { "[model]\nhidden = 1e30\nvocab = 100\n", "[model] hidden: found '1e30'" },
  { "[model]\nhidden = 9223372036854775808\nvocab = 100\n", "[model] hidden: found '922" },
  { "[model]\nhidden = 18446744073709551680\nvocab = 100\n", "[model] hidden: found '184" },
  { "[model]\nhidden = nan\nvocab = 100\n", "[model] hidden: found 'nan'" },
  { "[model]\nhidden =\nvocab = 100\n", "[model] hidden: found ''" },
  { "[model]\nhidden = 64\nvocab = 16777217\n", "[model] vocab: found '16777217'" },
  { MODEL "dropout = nan\n" ATTENTION BLOCKS, "[model] dropout: 'nan' is not finite" },
  { MODEL "dropout = -0.1\n" ATTENTION BLOCKS, "[model] dropout: '-0.1' is negative" },
  { MODEL "dropout = 1.5\n" ATTENTION BLOCKS, "[model] dropout: found '1.5'" },
  { MODEL "dropout = 1\n" ATTENTION BLOCKS, "dropout: found 1, expected" },
  { MODEL "seq = 4294967297\n" ATTENTION BLOCKS, "[model] seq: found '4294967297'" },
  { MODEL "layers = 3\n" ATTENTION BLOCKS, "[model] layers: found 3, expected 2" },
  { MODEL "mlp_bias = maybe\n" ATTENTION BLOCKS, "[model] mlp_bias: found 'maybe'" },
  { MODEL "norms_per_block = 3\n" ATTENTION BLOCKS, "norms_per_block: found 3" },
  { MODEL "norms_per_block = 1\n" ATTENTION BLOCKS, "norms_per_block: found 1" },
  { MODEL "position_rows = 8\n" ATTENTION BLOCKS, "position_rows: found 8" },
  { MODEL "[attention]\nheads = 3\n" BLOCKS, "[attention] heads: found 3, expected a divisor" },
  { MODEL "[attention]\nheads = 4\nkv_heads = 3\n" BLOCKS, "kv_heads: found 3" },
  { MODEL "[attention]\nheads = 4\nv_head_dim = 3\n" BLOCKS, "v_head_dim: found 3" },
  { MODEL "[attention]\nheads = 4\nkv_lora_rank = 8\n" BLOCKS, "belong to MLA" },
  { MODEL "[attention]\nkind = mha\nheads = 4\n" BLOCKS, "[attention] kind: found 'mha'" },
  { MODEL MLA BLOCKS, "v_head_dim: found 0" },
  { MODEL MLA "v_head_dim = 8\nhead_dim = 8\n" BLOCKS, "qk_nope_dim + qk_rope_dim = 12" },
  { MODEL MLA "v_head_dim = 8\nkv_heads = 2\n" BLOCKS, "kv_heads: found 2, expected 4" },
  { MODEL ATTENTION "[blocks 1]\ncount = 0\nffn = 96\n", "[blocks 1] count: found '0'" },
  { MODEL ATTENTION "[blocks 1]\ncount = 4097\nffn = 96\n", "[blocks 1] count: found '4097'" },
  { MODEL ATTENTION "[blocks 1]\ncount = 4096\nffn = 96\n[blocks 2]\ncount = 1\nffn = 9\n",
    "[blocks 2] count: found 1" },
  { MODEL ATTENTION "[blocks 1]\ncount = 2\n", "ffn: found 0" },
  { MODEL ATTENTION BLOCKS "experts = 4\n", "expected kind = moe" },
  { MODEL ATTENTION MOE "ffn = 96\n", "ffn: found 96 in a moe block" },
  { MODEL ATTENTION MOE "shared_gate = yes\n", "shared_gate: found yes" },
  { MODEL ATTENTION "[blocks 1]\nkind = moe\ncount = 2\nexperts = 1\ntopk = 2\nexpert_ffn = 3\n",
    "topk: found 2, expected 1 to 1" },
};

static void
test_refusal (void **state)
{
  const RefusalCase *c = *state;
  GError *error = NULL;
  g_autoptr (ModelArch) arch = read_ini (c->text, &error);
  assert_null (arch);
  assert_non_null (error);
  if (strstr (error->message, c->want) == NULL)
    print_error ("got  %s\nwant %s\n", error->message, c->want);
  assert_non_null (strstr (error->message, c->want));
  assert_true (g_str_has_prefix (error->message, "m.ini"));
  assert_null (strchr (error->message, '\n'));
  g_error_free (error);
}

/* Draws numbers for one random model. */
typedef struct {
  guint64 seed, next;
} Dice;

static guint32
roll (Dice *dice, guint32 low, guint32 high)
{
  return low + (guint32)base_philox_below (dice->seed, 0, dice->next++, high - low + 1);
}

static void
random_attention (Dice *dice, ModelArch *arch)
{
  ModelAttention *a = &arch->attention;
  a->kv_heads = roll (dice, 1, 8);
  a->heads = a->kv_heads * roll (dice, 1, 4);
  a->head_dim = a->v_head_dim = roll (dice, 1, 256);
  a->qkv_bias = roll (dice, 0, 1);
  a->out_bias = roll (dice, 0, 1);
  if (roll (dice, 0, 1)) {
    a->qk_norm = roll (dice, 0, 1);
    a->sinks = roll (dice, 0, 1);
    a->rotary_ratio = arch->position == MODEL_POSITION_ROTARY
                          ? base_philox_uniform (dice->seed, 1, dice->next)
                          : 0;
    return;
  }
  a->kind = MODEL_ATTENTION_MLA;
  a->kv_heads = a->heads;
  a->q_lora_rank = roll (dice, 0, 3);
  a->kv_lora_rank = roll (dice, 1, 64);
  a->qk_nope_dim = roll (dice, 1, 64);
  a->qk_rope_dim = arch->position == MODEL_POSITION_ROTARY ? roll (dice, 0, 64) : 0;
  a->head_dim = a->qk_nope_dim + a->qk_rope_dim;
  a->rotary_ratio = (double)a->qk_rope_dim / a->head_dim;
}

static void
random_blocks (Dice *dice, GString *text, const char *group)
{
  g_string_append_printf (text, "[%s]\ncount = %u\nwindow = %u\n", group, roll (dice, 1, 9),
                          roll (dice, 0, 2));
  if (roll (dice, 0, 1)) {
    g_string_append_printf (text, "ffn = %u\n", roll (dice, 1, 99));
    return;
  }
  guint32 experts = roll (dice, 1, 9);
  guint32 shared = roll (dice, 0, 2);
  g_string_append_printf (text,
                          "kind = moe\nexperts = %u\ntopk = %u\nexpert_ffn = %u\n"
                          "shared_ffn = %u\nshared_gate = %s\nrouter_bias = %s\n",
                          experts, roll (dice, 1, experts), roll (dice, 1, 99), shared,
                          shared && roll (dice, 0, 1) ? "yes" : "no",
                          roll (dice, 0, 1) ? "yes" : "no");
}

/* A random legal model: fields set by hand, runs read from text. */
static ModelArch *
random_arch (guint64 seed)
{
  Dice dice = { seed, 0 };
  GError *error = NULL;
  GString *text = g_string_new (MODEL ATTENTION);
  guint n_groups = roll (&dice, 1, 5);
  for (guint i = 1; i <= n_groups; i++) {
    g_autofree char *group = g_strdup_printf ("blocks %u", i);
    random_blocks (&dice, text, group);
  }
  ModelArch *arch = read_ini (text->str, &error);
  g_string_free (text, TRUE);
  assert_no_error (error);
  arch->activation = roll (&dice, 0, 2);
  arch->norm = roll (&dice, 0, 1);
  arch->position = roll (&dice, 0, 3);
  arch->position_rows = arch->position == MODEL_POSITION_LEARNED ? roll (&dice, 100, 9999) : 0;
  arch->seq = roll (&dice, 0, 100);
  arch->global_batch = roll (&dice, 0, 100);
  arch->gated = roll (&dice, 0, 1);
  arch->mlp_bias = roll (&dice, 0, 1);
  arch->parallel_residual = roll (&dice, 0, 1);
  arch->norms_per_block = arch->parallel_residual ? roll (&dice, 1, 2) : 2 * roll (&dice, 1, 2);
  arch->embedding_norm = roll (&dice, 0, 1);
  arch->tied = roll (&dice, 0, 1);
  arch->head_bias = roll (&dice, 0, 1);
  arch->dropout = base_philox_uniform (seed, 2, 0);
  memset (&arch->attention, 0, sizeof arch->attention);
  random_attention (&dice, arch);
  return arch;
}

static void
test_random_round_trips (void **state)
{
  for (guint64 seed = 1; seed <= 500; seed++) {
    GError *error = NULL;
    g_autoptr (ModelArch) arch = random_arch (seed);
    model_arch_validate (arch, &error);
    assert_no_error (error);
    assert_round_trip (arch);
  }
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (refusals) + 3] = {
    cmocka_unit_test (test_defaults),
    cmocka_unit_test (test_runs),
    cmocka_unit_test (test_random_round_trips),
  };
  gsize n = 3;
  for (gsize i = 0; i < G_N_ELEMENTS (refusals); i++)
    tests[n++] = (struct CMUnitTest){ .name = refusals[i].want,
                                      .test_func = test_refusal,
                                      .initial_state = (void *)&refusals[i] };
  return _cmocka_run_group_tests ("model_arch_ini", tests, n, NULL, NULL) != 0;
}
