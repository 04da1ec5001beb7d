/* tests/test_sim_search.c - the search finds what brute force finds, on any number of threads. */
#include "tests/testutil.h"

#include "model/program.h"
#include "sim/search.h"

typedef struct {
  const char *name;
  const char *model, *machine, *profile;
  guint32 gpus;
  guint64 batch, seq;
  double max_oom_risk;
} SearchCase;

static const SearchCase cases[] = {
  { "search/tiny_on_8", "tiny", "dgx-a100-80g", "megatron", 8, 16, 128, 0.1 },
  { "search/8b_on_16", "llama-3.1-8b", "hgx-h100", "megatron", 16, 32, 8192, 0.1 },
  { "search/8b_on_8_fsdp", "llama-3.1-8b", "hgx-h100", "torchtitan", 8, 16, 8192, 0.1 },
  { "search/moe_on_16", "qwen3-30b-a3b", "hgx-h100", "megatron", 16, 32, 4096, 0.5 },
  /* dense and MoE layers mixed, MLA, uneven stages */
  { "search/mla_on_64", "deepseek-v2", "hgx-h100", "megatron", 64, 64, 4096, 0.3 },
  /* risks from hardly any to nearly certain: the limit on memory moves */
  { "search/8b_on_8_wary", "llama-3.1-8b", "hgx-h100", "megatron", 8, 16, 8192, 0.001 },
  { "search/8b_on_8_bold", "llama-3.1-8b", "hgx-h100", "megatron", 8, 16, 8192, 0.99 },
  { "search/8b_on_8_any", "llama-3.1-8b", "hgx-h100", "megatron", 8, 16, 8192, 1 },
  /* memory decides: recompute of part of the layers, splits by memory */
  { "search/70b_on_32", "llama-3.1-70b", "hgx-h100", "megatron", 32, 32, 8192, 0.1 },
};

typedef struct {
  BaseCatalog *catalog;
  ModelArch *arch;
  TopoMachine *machine;
  ModelProfile *profile;
  CostCalibration *calibration;
  CostNumbers numbers;
  ModelJob job;
  CostProblem problem;
} Setting;

static void
setting_init (Setting *s, const SearchCase *c)
{
  g_autoptr (GError) error = NULL;

  s->catalog = base_catalog_new (NULL, &error);
  assert_no_error (error);
  s->arch = model_arch_load (s->catalog, c->model, &error);
  assert_no_error (error);
  s->machine = topo_machine_load (s->catalog, c->machine, NULL, &error);
  assert_no_error (error);
  s->profile = model_profile_load (s->catalog, c->profile, &error);
  assert_no_error (error);
  s->calibration = cost_calibration_load (s->catalog, "default", &error);
  assert_no_error (error);
  assert_true (cost_numbers_init (&s->numbers, s->calibration, s->machine, c->profile, &error));
  assert_true (model_job_init (&s->job, s->arch, c->seq, c->batch, -1, &error));
  s->problem = (CostProblem){ .arch = s->arch,
                              .job = &s->job,
                              .profile = s->profile,
                              .machine = s->machine,
                              .numbers = &s->numbers,
                              .gpus = c->gpus,
                              .model_flop = model_step_flop (s->arch, &s->job) };
}

static void
setting_clear (Setting *s)
{
  cost_numbers_clear (&s->numbers);
  cost_calibration_free (s->calibration);
  model_profile_free (s->profile);
  topo_machine_free (s->machine);
  model_arch_free (s->arch);
  base_catalog_free (s->catalog);
}

static void
search (const Setting *s, const SearchCase *c, const char *pins_text, guint jobs,
        gboolean exhaustive, gboolean balance, guint keep, SimSearchResult *out)
{
  g_auto (ModelLayout) pins = { 0 };
  g_auto (SimSpace) space = { 0 };
  g_autoptr (GError) error = NULL;
  const SimSearchOptions options = { .keep = keep,
                                     .max_oom_risk = c->max_oom_risk,
                                     .jobs = jobs,
                                     .exhaustive = exhaustive,
                                     .balance_stages = balance };

  if (*pins_text == '\0')
    model_layout_init (&pins, s->profile);
  else
    assert_true (model_layout_parse (&pins, pins_text, s->profile, &error));
  assert_true (
      sim_space_init (&space, &s->problem, &pins, sim_space_pins_of_text (pins_text), &error));
  assert_true (sim_search (&s->problem, &space, &options, out, &error));
  assert_no_error (error);
}

static void
assert_same (const SimSearchResult *a, const SimSearchResult *b, const ModelProfile *profile)
{
  assert_int_equal (a->n_plans, b->n_plans);
  assert_true (a->legal_count == b->legal_count);
  for (guint i = 0; i < a->n_plans; i++) {
    g_autofree char *x = model_layout_format (&a->plans[i].layout, profile);
    g_autofree char *y = model_layout_format (&b->plans[i].layout, profile);

    assert_string_equal (x, y);
    assert_true (a->plans[i].prediction.step_s == b->plans[i].prediction.step_s);
  }
}

static void
test_threads_and_pruning (void **state)
{
  const SearchCase *c = *state;
  Setting s;
  g_auto (SimSearchResult) one = { 0 };
  g_auto (SimSearchResult) three = { 0 };
  g_auto (SimSearchResult) all = { 0 };

  setting_init (&s, c);
  search (&s, c, "", 1, FALSE, TRUE, 20, &one);
  search (&s, c, "", 3, FALSE, TRUE, 20, &three);
  search (&s, c, "", 1, TRUE, TRUE, 20, &all);
  assert_true (one.n_plans > 0);
  assert_same (&one, &three, s.profile);
  assert_same (&one, &all, s.profile);
  for (guint i = 0; i < one.n_plans; i++) {
    assert_true (one.plans[i].prediction.oom_risk <= c->max_oom_risk);
    if (i > 0)
      assert_true (one.plans[i].prediction.step_s >= one.plans[i - 1].prediction.step_s);
  }
  setting_clear (&s);
}

/* ---- an enumeration of our own, by nested loops and cost_predict alone ---- */

typedef struct {
  double best_s;
  char *best_text;
  guint64 legal;
} Brute;

static void
brute_try (Brute *brute, const Setting *s, const SearchCase *c, const ModelLayout *layout)
{
  g_auto (CostPrediction) prediction = { 0 };
  g_autoptr (GError) error = NULL;

  if (model_layout_check (s->arch, &s->job, layout, s->profile, c->gpus) != MODEL_LEGAL)
    return;
  brute->legal++;
  assert_true (cost_predict (&s->problem, layout, &prediction, &error));
  assert_no_error (error);
  if (prediction.oom_risk > c->max_oom_risk || prediction.step_s >= brute->best_s)
    return;
  brute->best_s = prediction.step_s;
  g_free (brute->best_text);
  brute->best_text = model_layout_format (layout, s->profile);
}

/* Pinned: cp, ep, etp, vpp, recompute; free: tp, pp, sp, mbs, zero, and sharding in the node. */
static void
brute_force (Brute *brute, const Setting *s, const SearchCase *c, const ModelLayout *base)
{
  guint32 max_tp = MIN (c->gpus, 2 * s->machine->domain_size);

  for (guint32 tp = 1; tp <= max_tp; tp++)
    for (guint32 pp = 1; tp * pp <= c->gpus && pp <= s->arch->layers; pp++) {
      if (c->gpus % (tp * pp) != 0)
        continue;
      for (guint32 sp = 0; sp <= (tp > 1 ? 1u : 0u); sp++)
        for (guint32 mbs = 1; mbs <= 64 && mbs <= c->batch; mbs++)
          for (guint8 zero = 0; zero <= 3; zero++) {
            ModelLayout layout = *base;

            layout.tp = tp;
            layout.pp = pp;
            layout.dp = c->gpus / (tp * pp);
            layout.sp = (gboolean)sp;
            layout.mbs = mbs;
            layout.zero = zero;
            if (zero > 0 && layout.dp == 1)
              continue;
            brute_try (brute, s, c, &layout);
            layout.hsdp = s->machine->gpus_per_node / tp;
            if (zero > 0 && layout.hsdp > 1 && layout.hsdp < layout.dp
                && layout.dp % layout.hsdp == 0)
              brute_try (brute, s, c, &layout);
          }
    }
}

static void
test_equals_brute_force (void **state)
{
  const SearchCase *c = *state;
  const char *text = "cp=1,ep=1,etp=1,vpp=1,recompute=none";
  g_auto (ModelLayout) base = { 0 };
  g_auto (SimSearchResult) found = { 0 };
  g_autoptr (GError) error = NULL;
  g_autofree char *best = NULL;
  Brute brute = { .best_s = INFINITY };
  Setting s;

  setting_init (&s, c);
  assert_true (model_layout_parse (&base, text, s.profile, &error));
  brute_force (&brute, &s, c, &base);
  search (&s, c, text, 2, FALSE, FALSE, 1, &found);
  assert_true (found.legal_count == brute.legal);
  assert_int_equal (found.n_plans, brute.best_text != NULL ? 1 : 0);
  if (brute.best_text != NULL) {
    best = model_layout_format (&found.plans[0].layout, s.profile);
    assert_true (found.plans[0].prediction.step_s == brute.best_s);
    assert_string_equal (best, brute.best_text);
  }
  g_free (brute.best_text);
  setting_clear (&s);
}

/* ---- recompute of part of each chunk ---- */

/* Of full:block:N, the least N that fits is the one that counts. */
static void
test_takes_the_least_partial_recompute (void **state)
{
  const SearchCase c = { "", "llama-3.1-70b", "hgx-h100", "megatron", 64, 64, 8192, 0.1 };
  const char *pins = "tp=4,sp=1,cp=1,pp=8,vpp=1,mbs=2,zero=1";
  g_auto (SimSearchResult) found = { 0 };
  guint32 least = 0;
  Setting s;

  (void)state;
  setting_init (&s, &c);
  for (guint32 n = 1; n < 10 && least == 0; n++) {
    g_autofree char *text = g_strdup_printf ("%s,dp=2,recompute=full:block:%u", pins, n);
    g_auto (ModelLayout) layout = { 0 };
    g_auto (CostPrediction) prediction = { 0 };
    g_autoptr (GError) error = NULL;

    assert_true (model_layout_parse (&layout, text, s.profile, &error));
    assert_true (cost_predict (&s.problem, &layout, &prediction, &error));
    if (prediction.oom_risk <= c.max_oom_risk)
      least = n;
  }
  assert_true (least > 1); /* or this test shows nothing */
  search (&s, &c, pins, 1, FALSE, FALSE, 100, &found);
  for (guint i = 0; i < found.n_plans; i++) {
    const ModelRecompute *recompute = &found.plans[i].layout.recompute;

    if (recompute->kind == MODEL_RECOMPUTE_FULL && recompute->method == MODEL_RECOMPUTE_BLOCK
        && found.plans[i].layout.hsdp == 0)
      assert_int_equal (recompute->n, least);
  }
  setting_clear (&s);
}

static void
test_names_nearest_misses (void **state)
{
  const SearchCase c = { "", "llama-3.1-405b", "hgx-h100", "megatron", 8, 8, 8192, 0.1 };
  g_auto (SimSearchResult) found = { 0 };
  g_auto (SimSearchResult) all = { 0 };
  Setting s;

  (void)state;
  setting_init (&s, &c);
  search (&s, &c, "", 2, FALSE, TRUE, 10, &found);
  search (&s, &c, "", 1, TRUE, TRUE, 10, &all);
  assert_int_equal (found.n_plans, 0);
  assert_int_equal (found.n_misses, 3);
  assert_int_equal (all.n_misses, 3);
  /* what cannot fit is left out only as long as something may */
  for (guint i = 0; i < found.n_misses; i++) {
    g_autofree char *x = model_layout_format (&found.misses[i].layout, s.profile);
    g_autofree char *y = model_layout_format (&all.misses[i].layout, s.profile);

    assert_string_equal (x, y);
  }
  assert_true (found.misses[0].bound.need_bytes <= found.misses[1].bound.need_bytes);
  /* 405 billion parameters at 18 bytes, or 6 at least with everything sharded: never 8 × 79 GiB */
  assert_true (found.misses[0].bound.need_bytes > s.machine->gpu->usable_bytes);
  setting_clear (&s);
}

static gboolean
always (gpointer data)
{
  (void)data;
  return TRUE;
}

static void
test_can_be_stopped (void **state)
{
  g_auto (ModelLayout) pins = { 0 };
  g_auto (SimSpace) space = { 0 };
  g_auto (SimSearchResult) out = { 0 };
  g_autoptr (GError) error = NULL;
  const SimSearchOptions options = { .keep = 1, .max_oom_risk = 1, .jobs = 2, .cancelled = always };
  Setting s;

  (void)state;
  setting_init (&s, &cases[1]);
  model_layout_init (&pins, s.profile);
  assert_true (sim_space_init (&space, &s.problem, &pins, 0, &error));
  assert_false (sim_search (&s.problem, &space, &options, &out, &error));
  assert_true (g_error_matches (error, SIM_ERROR, SIM_ERROR_CANCELLED));
  setting_clear (&s);
}

int
main (void)
{
  struct CMUnitTest tests[2 * G_N_ELEMENTS (cases) + 3];
  gsize n = 0;

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    tests[n++] = (struct CMUnitTest){ .name = cases[i].name,
                                      .test_func = test_threads_and_pruning,
                                      .initial_state = (void *)&cases[i] };
    tests[n++] = (struct CMUnitTest){ .name = cases[i].name,
                                      .test_func = test_equals_brute_force,
                                      .initial_state = (void *)&cases[i] };
  }
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_takes_the_least_partial_recompute);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_names_nearest_misses);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_can_be_stopped);
  return _cmocka_run_group_tests ("sim_search", tests, n, NULL, NULL);
}
