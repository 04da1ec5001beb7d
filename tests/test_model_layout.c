/* Text of layouts: what is read, how it is written back, and every way it is refused. */
#include "base/philox.h"
#include "model/layout.h"
#include "tests/testutil.h"

static const ModelProfile profile = { .name = (char *)"test", .overlap_p2p = TRUE };

typedef struct {
  const char *name, *text;
  const char *want; /* canonical text */
} TextCase;

static const TextCase text_cases[] = {
  { "text/degrees_in_order", "dp=2,mbs=4,vpp=3,pp=8,tp=8", "tp=8,pp=8,vpp=3,mbs=4,dp=2" },
  { "text/ones_are_left_out", "tp=1,pp=1,ep=1", "tp=1" },
  { "text/dp_is_kept", "tp=8,dp=1", "tp=8,dp=1" },
  { "text/blanks", " tp = 8 , sp = 1 ", "tp=8,sp=1" },
  { "text/experts", "ep=8,etp=2", "ep=8,etp=2" },
  { "text/fsdp_is_zero_3", "fsdp=1", "tp=1,zero=3" },
  { "text/fsdp_agrees_with_zero", "zero=3,fsdp=1", "tp=1,zero=3" },
  { "text/fsdp_0_agrees_with_zero_1", "zero=1,fsdp=0", "tp=1,zero=1" },
  { "text/hsdp", "zero=3,hsdp=8", "tp=1,zero=3,hsdp=8" },
  { "text/recompute_none", "recompute=none", "tp=1" },
  { "text/recompute_selective", "recompute=selective", "tp=1,recompute=selective:core_attn" },
  { "text/recompute_modules", "recompute=selective:mlp+core_attn",
    "tp=1,recompute=selective:core_attn+mlp" },
  { "text/recompute_full", "recompute=full", "tp=1,recompute=full:uniform:1" },
  { "text/recompute_uniform", "recompute=full:uniform:4", "tp=1,recompute=full:uniform:4" },
  { "text/recompute_block", "recompute=full:block:3", "tp=1,recompute=full:block:3" },
  { "text/interleaved_is_the_default_of_chunks", "pp=4,vpp=2,schedule=interleaved", "pp=4,vpp=2" },
  { "text/1f1b_is_the_default", "pp=4,schedule=1f1b", "pp=4" },
  { "text/schedule_after_its_vpp", "schedule=1f1b,vpp=2", "vpp=2,schedule=1f1b" },
  { "text/zero_bubble", "pp=4,schedule=zb-h1", "pp=4,schedule=zb-h1" },
  { "text/schedule_of_two_chunks", "pp=4,schedule=zb-v", "pp=4,vpp=2,schedule=zb-v" },
  { "text/schedule_one_chunk_said", "pp=4,vpp=1,schedule=zb-v", "pp=4,vpp=1,schedule=zb-v" },
  { "text/stages_both_ways", "pp=2,schedule=dualpipe,stages=3+4",
    "pp=2,vpp=2,schedule=dualpipe,stages=3+4" },
  { "text/stages_auto", "pp=2,stages=auto", "pp=2" },
  { "text/stages", "stages=15+16+16+15,pp=4", "pp=4,stages=15+16+16+15" },
  { "text/stages_in_runs", "pp=8,stages=5x2+6+4x5", "pp=8,stages=5+5+6+4+4+4+4+4" },
  { "text/kernels", "attn=unfused,dtype=fp8,cp_comm=a2a",
    "tp=1,attn=unfused,dtype=fp8,cp_comm=a2a" },
  { "text/tp_sync", "tp=8,tp_sync=0.5", "tp=8,tp_sync=0.5" },
  { "text/cuda_graph", "cuda_graph=full_iteration,tp=8", "tp=8,cuda_graph=full_iteration" },
  { "text/cuda_graph_none", "cuda_graph=none", "tp=1" },
  { "text/overlap_of_the_profile", "overlap_p2p=1,overlap_dp=0", "tp=1" },
  { "text/overlap_against_the_profile", "overlap_p2p=0,overlap_dp=1",
    "tp=1,overlap_dp=1,overlap_p2p=0" },
};

/* Equal in every field, lists and names included. */
static void
assert_same (const ModelLayout *a, const ModelLayout *b)
{
  ModelLayout x = *a, y = *b;
  assert_int_equal (a->stage_layers == NULL, b->stage_layers == NULL);
  if (a->stage_layers != NULL)
    assert_memory_equal (a->stage_layers, b->stage_layers,
                         sizeof (guint32) * model_layout_n_stages (a));
  assert_int_equal (g_strcmp0 (a->schedule_file, b->schedule_file), 0);
  x.stage_layers = y.stage_layers = NULL;
  x.schedule_file = y.schedule_file = NULL;
  assert_true (x.tp == y.tp && x.cp == y.cp && x.pp == y.pp && x.vpp == y.vpp && x.ep == y.ep);
  assert_true (x.etp == y.etp && x.dp == y.dp && x.mbs == y.mbs && x.sp == y.sp);
  assert_true (x.zero == y.zero && x.hsdp == y.hsdp && x.schedule == y.schedule);
  assert_true (x.recompute.kind == y.recompute.kind && x.recompute.method == y.recompute.method);
  assert_true (x.recompute.modules == y.recompute.modules && x.recompute.n == y.recompute.n);
  assert_true (x.attn == y.attn && x.dtype == y.dtype && x.cp_comm == y.cp_comm);
  assert_true (x.cuda_graph == y.cuda_graph);
  assert_true (x.tp_sync == y.tp_sync && x.overlap_tp == y.overlap_tp);
  assert_true (x.overlap_ep == y.overlap_ep);
  assert_true (x.overlap_dp == y.overlap_dp && x.overlap_p2p == y.overlap_p2p);
}

/* Writes, reads back, compares. */
static void
check_round_trip (const ModelLayout *layout)
{
  g_auto (ModelLayout) again = { 0 };
  g_autoptr (GError) error = NULL;
  g_autofree char *text = model_layout_format (layout, &profile);
  gboolean ok = model_layout_parse (&again, text, &profile, &error);
  assert_no_error (error);
  assert_true (ok);
  assert_same (layout, &again);
}

static void
test_text (void **state)
{
  const TextCase *c = *state;
  g_auto (ModelLayout) layout = { 0 }, copy = { 0 };
  g_autoptr (GError) error = NULL;
  gboolean ok = model_layout_parse (&layout, c->text, &profile, &error);
  assert_no_error (error);
  assert_true (ok);
  g_autofree char *text = model_layout_format (&layout, &profile);
  assert_string_equal (text, c->want);
  check_round_trip (&layout);
  model_layout_copy (&copy, &layout);
  assert_same (&copy, &layout);
  assert_true (copy.stage_layers == NULL || copy.stage_layers != layout.stage_layers);
}

typedef struct {
  const char *name, *text, *message;
} RefusalCase;

static const RefusalCase refusal_cases[] = {
  { "refuses/empty", "", "found empty text ''" },
  { "refuses/newline", "tp=8\npp=2", "control characters" },
  { "refuses/invalid_utf8", "tp=\xff", "invalid UTF-8" },
  { "refuses/blank", " ", "found ' '" },
  { "refuses/empty_pair", "tp=8,,pp=2", "found ''" },
  { "refuses/trailing_comma", "tp=8,", "found ''" },
  { "refuses/no_equals", "tp8", "found 'tp8'" },
  { "refuses/no_value", "tp=", "tp: found ''" },
  { "refuses/no_key", "=8", "unknown key ''" },
  { "refuses/unknown_key", "tpp=8", "unknown key 'tpp': did you mean 'tp'" },
  { "refuses/far_key", "quantum=8", "expected one of tp cp pp" },
  { "refuses/upper_case", "TP=8", "unknown key 'TP'" },
  { "refuses/twice", "tp=8,tp=8", "'tp' is given twice" },
  { "refuses/zero", "tp=0", "from 1 to 1048576" },
  { "refuses/negative", "pp=-1", "pp: found '-1'" },
  { "refuses/fraction", "tp=1.5", "tp: found '1.5'" },
  { "refuses/unit", "mbs=4B", "mbs: found '4B'" },
  { "refuses/exponent", "dp=1e3", "dp: found '1e3'" },
  { "refuses/2_63", "dp=9223372036854775808", "from 1 to 1048576" },
  { "refuses/2_64_and_more", "vpp=99999999999999999999", "from 1 to 1048576" },
  { "refuses/nan", "tp=nan", "tp: found 'nan'" },
  { "refuses/equals_in_value", "tp=8=8", "tp: found '8=8'" },
  { "refuses/zero_4", "zero=4", "from 0 to 3" },
  { "refuses/hsdp_0", "zero=3,hsdp=0", "hsdp: found '0'" },
  { "refuses/sp_2", "sp=2", "0 or 1" },
  { "refuses/sp_yes", "sp=yes", "0 or 1" },
  { "refuses/fsdp_against_zero", "fsdp=1,zero=2", "fsdp=1 contradicts zero=2" },
  { "refuses/no_fsdp_against_zero", "zero=3,fsdp=0", "fsdp=0 contradicts zero=3" },
  { "refuses/schedule_far", "pp=4,schedule=quantum", "v-min, dualpipe, dualpipev, file:PATH" },
  { "refuses/recompute_word", "recompute=some", "none, selective" },
  { "refuses/recompute_module", "recompute=selective:core_att", "did you mean 'core_attn'" },
  { "refuses/recompute_module_twice", "recompute=selective:mlp+mlp", "each module once" },
  { "refuses/recompute_no_module", "recompute=selective:", "modules after 'selective:'" },
  { "refuses/recompute_empty_module", "recompute=selective:mlp+", "found ''" },
  { "refuses/recompute_full_word", "recompute=full:every:2", "full:uniform:N" },
  { "refuses/recompute_full_zero", "recompute=full:block:0", "found '0'" },
  { "refuses/schedule", "schedule=1f1bb", "did you mean '1f1b'" },
  { "refuses/schedule_file_without_path", "schedule=file:", "a path after 'file:'" },
  { "refuses/schedule_file_missing", "schedule=file:no/such/file", "no/such/file: cannot open" },
  { "refuses/schedule_file_without_colon", "schedule=file", "dualpipev, file:PATH" },
  { "refuses/stages_count", "pp=2,stages=1+1+1", "found 3 stages, expected pp·vpp = 2" },
  { "refuses/stages_both_ways", "pp=2,schedule=dualpipe,stages=1+1+1+1", "expected pp = 2" },
  { "refuses/stages_zero", "pp=2,stages=0+2", "at least one layer per stage" },
  { "refuses/stages_empty_entry", "pp=2,stages=1+", "at least one layer per stage" },
  { "refuses/stages_run_of_none", "pp=2,stages=1x0", "at least one layer per stage" },
  { "refuses/stages_run_of_what", "pp=2,stages=1x", "at least one layer per stage" },
  { "refuses/stages_run_of_runs", "pp=2,stages=1x1x2", "at least one layer per stage" },
  { "refuses/stages_run_too_long", "pp=2,stages=1x1048576+1", "at least one layer per stage" },
  { "refuses/stages_run_count", "pp=2,stages=1x3", "found 3 stages, expected pp·vpp = 2" },
  { "refuses/stages_word", "pp=2,stages=even", "'auto'" },
  { "refuses/attn", "attn=flush", "did you mean 'flash'" },
  { "refuses/dtype", "dtype=int8", "one of bf16" },
  { "refuses/mask_dtype", "dtype=uint8", "one of bf16" },
  { "refuses/cp_comm", "cp_comm=ring", "one of p2p, a2a, allgather" },
  { "refuses/tp_sync_0", "tp_sync=0", "above 0 and at most 1" },
  { "refuses/tp_sync_2", "tp_sync=2", "above 0 and at most 1" },
  { "refuses/cuda_graph", "cuda_graph=layers", "did you mean 'layer'" },
  { "refuses/tp_sync_nan", "tp_sync=nan", "above 0 and at most 1" },
};

static void
test_refusal (void **state)
{
  const RefusalCase *c = *state;
  g_auto (ModelLayout) layout = { 0 };
  g_autoptr (GError) error = NULL;
  assert_false (model_layout_parse (&layout, c->text, &profile, &error));
  assert_true (g_error_matches (error, MODEL_ERROR, MODEL_ERROR_PARSE));
  assert_null (strchr (error->message, '\n'));
  if (strstr (error->message, c->message) == NULL)
    fail_msg ("'%s' is not in: %s", c->message, error->message);
}

static guint32
draw (guint64 *at, guint32 bound)
{
  return (guint32)base_philox_below (5, 0, (*at)++, bound);
}

static void
random_recompute (ModelRecompute *recompute, guint64 *at)
{
  recompute->kind = (guint8)draw (at, 3);
  if (recompute->kind == MODEL_RECOMPUTE_SELECTIVE)
    recompute->modules = (guint16)(1 + draw (at, 127));
  if (recompute->kind == MODEL_RECOMPUTE_FULL) {
    recompute->method = (guint8)draw (at, 2);
    recompute->n = 1 + draw (at, 10);
  }
}

/* Runs of three and more, wherever the stages stand; what is short stays. */
static void
test_shorten (void **state)
{
  static const struct {
    const char *text, *want;
  } cases[] = { { "tp=8,pp=4,stages=15+16+16+15", "tp=8,pp=4,stages=15+16+16+15" },
                { "pp=8,stages=5+5+5+5+6+5+5+4,attn=fused", "pp=8,stages=5x4+6+5+5+4,attn=fused" },
                { "pp=3,stages=2+2+2", "pp=3,stages=2x3" },
                { "stages=1+22+22+22+2", "stages=1+22x3+2" },
                { "tp=8,pp=2", "tp=8,pp=2" },
                { "", "" } };
  (void)state;
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *text = model_layout_shorten (cases[i].text);
    assert_string_equal (text, cases[i].want);
  }
}

/* Any layout that can be made comes back from its text. */
static void
test_random_round_trips (void **state)
{
  for (guint64 index = 0; index < 3000; index++) {
    guint64 at = index * 64;
    g_auto (ModelLayout) layout;
    model_layout_init (&layout, &profile);
    guint32 *degrees[] = { &layout.tp, &layout.cp,  &layout.pp, &layout.vpp,
                           &layout.ep, &layout.etp, &layout.dp, &layout.mbs };
    for (guint i = 0; i < G_N_ELEMENTS (degrees); i++)
      *degrees[i] = 1 + draw (&at, 3);
    layout.dp -= draw (&at, 2) && layout.dp == 1; /* sometimes not given */
    layout.sp = (gboolean)draw (&at, 2);
    layout.zero = (guint8)draw (&at, 4);
    layout.hsdp = draw (&at, 3);
    random_recompute (&layout.recompute, &at);
    layout.schedule = draw (&at, MODEL_SCHEDULE_FILE);
    layout.attn = draw (&at, MODEL_ATTN_N_KINDS);
    layout.dtype = draw (&at, MODEL_DTYPE_FP32 + 1);
    layout.cp_comm = draw (&at, MODEL_CP_N_KINDS);
    layout.cuda_graph = draw (&at, MODEL_GRAPH_N_KINDS);
    layout.tp_sync = (1 + draw (&at, 1000)) / 1000.0;
    layout.overlap_tp = (gboolean)draw (&at, 2);
    layout.overlap_dp = (gboolean)draw (&at, 2);
    layout.overlap_p2p = (gboolean)draw (&at, 2);
    layout.overlap_ep = (gboolean)draw (&at, 2);
    if (draw (&at, 2)) {
      layout.stage_layers = g_new (guint32, (gsize)layout.pp * layout.vpp);
      for (guint64 i = 0; i < model_layout_n_stages (&layout); i++)
        layout.stage_layers[i] = 1 + draw (&at, 9);
    }
    check_round_trip (&layout);
  }
}

static void
test_defaults_are_the_contract (void **state)
{
  g_auto (ModelLayout) layout;
  model_layout_init (&layout, &profile);
  assert_true (layout.tp == 1 && layout.cp == 1 && layout.pp == 1 && layout.vpp == 1);
  assert_true (layout.ep == 1 && layout.etp == 1 && layout.dp == 1 && layout.mbs == 1);
  assert_true (!layout.sp && layout.zero == 0 && layout.hsdp == 0 && layout.tp_sync == 1);
  assert_int_equal (layout.recompute.kind, MODEL_RECOMPUTE_NONE);
  assert_int_equal (layout.schedule, MODEL_SCHEDULE_1F1B);
  assert_int_equal (layout.attn, MODEL_ATTN_FLASH);
  assert_int_equal (layout.dtype, MODEL_DTYPE_BF16);
  assert_int_equal (layout.cp_comm, MODEL_CP_P2P);
  assert_true (layout.overlap_p2p && !layout.overlap_tp && !layout.overlap_dp);
}

/* 1536 sequences, 4 at a time on 8 replicas: 48 micro-batches. */
static void
test_microbatches (void **state)
{
  const ModelLayout layout = { .mbs = 4, .dp = 8 };
  const ModelJob job = { .global_batch = 1536 };
  assert_int_equal (model_layout_microbatches (&layout, &job), 48);
}

static void
test_dtype_sizes (void **state)
{
  for (guint i = 0; model_dtype_names[i] != NULL; i++)
    assert_string_equal (model_dtype_names[i], model_dtype_name ((ModelDtype)i));
  assert_int_equal (g_strv_length ((char **)model_dtype_names), MODEL_DTYPE_UINT8);
  assert_int_equal (model_dtype_bits (MODEL_DTYPE_NVFP4), 4);
  assert_int_equal (model_dtype_bits (MODEL_DTYPE_FP32), 32);
  assert_int_equal (model_dtype_storage (MODEL_DTYPE_FP8), MODEL_DTYPE_BF16);
  assert_int_equal (model_dtype_storage (MODEL_DTYPE_FP16), MODEL_DTYPE_FP16);
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (text_cases) + G_N_ELEMENTS (refusal_cases) + 5];
  guint n = 0;
  ADD_ROWS (text_cases, test_text);
  ADD_ROWS (refusal_cases, test_refusal);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_random_round_trips);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_shorten);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_defaults_are_the_contract);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_microbatches);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_dtype_sizes);
  return cmocka_run_group_tests_name ("layout", tests, NULL, NULL);
}
