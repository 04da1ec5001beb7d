/* Attention time by hand, and what misaligned dimensions cost. */
#include "costmodel/align.h"
#include "costmodel/attention.h"
#include "model/layout.h"
#include "tests/testutil.h"

/* H100: 989 TFLOP/s, 3350 GB/s; rates of reference "time-model" §4, launch left out. */
static CostNumbers
numbers (void)
{
  return (CostNumbers){ .gpu = { .attention_ratio = { 0.52, 0.40, 0.46 },
                                 .attention_portable_ratio = 0.486,
                                 .attention_backward_ratio = 1,
                                 .attention_half_dim = 22,
                                 .hbm_ratio = 0.79 },
                        .step = { .align_loss = 0.29,
                                  .misalign_loss = 11.8,
                                  .score_forward_bytes = 12,
                                  .score_backward_bytes = 16 } };
}

static ModelAttentionShape
shape (ModelAttnKernel kernel, guint32 head_dim)
{
  return (ModelAttentionShape){ .batch = 1,
                                .heads = 8,
                                .kv_heads = 8,
                                .dim_qk = head_dim,
                                .dim_v = head_dim,
                                .seq_q = 4096,
                                .seq_kv = 4096,
                                .causal = TRUE,
                                .kernel = (guint8)kernel };
}

static double
price (const CostNumbers *n, const ModelAttentionShape *s, gboolean backward)
{
  CostAttentionContext context
      = { .peak_flop_per_s = 989e12, .hbm_bytes_per_s = 3350e9, .numbers = n };
  return cost_attention_s (&context, s, backward);
}

/* Tiles of 128 compute 4096 x 127/2 = 260096 masked pairs beside the 8388608: 66.812 us x 1.031006
 * = 68.883 us. A sequence within one tile is computed whole: 4096 x 4095/2 pairs more, x 1.999756.
 * Without a mask nothing is masked. */
static void
test_tiles_by_hand (void **state)
{
  CostNumbers n = numbers ();
  ModelAttentionShape s = shape (MODEL_ATTN_FLASH, 128);
  n.gpu.attention_tile = 128;
  assert_near (price (&n, &s, FALSE), 68.883e-6, 1e-4);
  assert_near (price (&n, &s, TRUE), 2.5 * 68.883e-6, 1e-4);
  n.gpu.attention_tile = 8192;
  assert_near (price (&n, &s, FALSE), 133.608e-6, 1e-4);
  s.causal = FALSE;
  assert_near (price (&n, &s, FALSE), 133.624e-6, 1e-4);
  (void)state;
}

/* Causal: pairs 4096^2/2 = 8388608; F = 2 x 8 x 8388608 x 256 = 34.3597e9; head size 128 is the
 * reference size: 34.3597e9 / (989e12 x .52) = 66.812 us; backward 2.5 times as long.
 * Head size 64: half of F; rate x 64/86 x 150/128 = .872093: 38.306 us.
 * fused: .40 instead of .52: 86.855 us. Portable kernels: 66.812 / .486 = 137.47 us. */
static void
test_flash_by_hand (void **state)
{
  CostNumbers n = numbers ();
  ModelAttentionShape s = shape (MODEL_ATTN_FLASH, 128);
  assert_near (price (&n, &s, FALSE), 66.812e-6, 1e-4);
  assert_near (price (&n, &s, TRUE), 2.5 * 66.812e-6, 1e-4);
  n.profile.attention_portable_ratio = 1;
  assert_near (price (&n, &s, FALSE), 137.47e-6, 1e-4);
  n.profile.attention_portable_ratio = 0;
  s = shape (MODEL_ATTN_FLASH, 64);
  assert_near (price (&n, &s, FALSE), 38.306e-6, 1e-4);
  s = shape (MODEL_ATTN_FUSED, 128);
  assert_near (price (&n, &s, FALSE), 86.855e-6, 1e-4);
}

/* MLA, 192 for q·k and 128 for v: d = 160, F = 2 x 8 x 8388608 x 320 = 42.9497e9, rate .52 x 160/182 x
 * 150/128 = .535714: 81.064 us; backward 2.5 times, at tiles of 192 in place of 160 (x 1.2), at .85 of
 * the rate: 81.064 x 2.5 x 1.2 / .85 = 286.11 us: 3.53 times, measured 3.2 to 3.6. */
static void
test_mla (void **state)
{
  CostNumbers n = numbers ();
  ModelAttentionShape s = shape (MODEL_ATTN_FLASH, 192);
  s.dim_v = 128;
  n.gpu.attention_backward_ratio = 0.85;
  assert_near (price (&n, &s, FALSE), 81.064e-6, 1e-4);
  assert_near (price (&n, &s, TRUE), 286.11e-6, 1e-4);
}

/* A window of 1024 of 4096 tokens: pairs 4096 x 1024 - 1024^2/2 = 3670016, of 8388608: .4375 */
static void
test_window (void **state)
{
  CostNumbers n = numbers ();
  ModelAttentionShape s = shape (MODEL_ATTN_FLASH, 128);
  s.window = 1024;
  assert_near (price (&n, &s, FALSE), 0.4375 * 66.812e-6, 1e-4);
}

/* scores 8 x 4096^2 = 134217728; GEMMs 2 x scores x 256 = 68.7195e9 / (989e12 x .46) = 151.05 us;
 * 12 B x scores / (3350e9 x .79) = 608.58 us; backward 302.10 + 811.44 us.
 * Head size 96 divides by 32: GEMMs x (1 + .29/6) x .75. Head size 108 divides by 4 only:
 * x (1 + .29 x 4/6 x 12.8) = 3.47467, x 108/128. */
static void
test_unfused_by_hand (void **state)
{
  CostNumbers n = numbers ();
  ModelAttentionShape s = shape (MODEL_ATTN_UNFUSED, 128);
  assert_near (price (&n, &s, FALSE), 759.63e-6, 1e-4);
  assert_near (price (&n, &s, TRUE), 1113.54e-6, 1e-4);
  s = shape (MODEL_ATTN_UNFUSED, 96);
  assert_near (price (&n, &s, FALSE), (151.05 * 0.75 * 1.048333 + 608.58) * 1e-6, 1e-4);
  s = shape (MODEL_ATTN_UNFUSED, 108);
  assert_near (price (&n, &s, FALSE), (151.05 * 0.84375 * 3.474667 + 608.58) * 1e-6, 1e-4);
}

typedef struct {
  const char *name;
  guint64 a, b;
  double want;
} AlignCase;

/* 1 + .29 (6 - log2 d)/6, and x 12.8 on the loss where d < 8 */
static const AlignCase align_cases[] = {
  { "align/whole_tiles", 8192, 4096, 1 },
  { "align/divides_by_32", 8192, 4128, 1.0483333 },
  { "align/divides_by_8", 8200, 4096, 1.145 },
  { "align/divides_by_4", 8196, 4096, 3.4746667 },
  { "align/odd", 8191, 4096, 4.712 },
  { "align/one_column", 8192, 1, 1 },
  { "align/zero", 0, 8192, 1 },
};

static void
test_align (void **state)
{
  const AlignCase *c = *state;
  CostNumbers n = numbers ();
  assert_near (cost_align_slowdown (&n.step, c->a, c->b), c->want, 1e-6);
  assert_near (cost_align_slowdown (&n.step, c->b, c->a), c->want, 1e-6);
}

static void
test_no_peak (void **state)
{
  CostNumbers n = numbers ();
  CostAttentionContext context = { .hbm_bytes_per_s = 1e12, .numbers = &n };
  ModelAttentionShape s = shape (MODEL_ATTN_FLASH, 128);
  assert_true (isinf (cost_attention_s (&context, &s, FALSE)));
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (align_cases) + 6];
  guint n = 0;
  for (gsize i = 0; i < G_N_ELEMENTS (align_cases); i++)
    tests[n++] = (struct CMUnitTest){ .name = align_cases[i].name,
                                      .test_func = test_align,
                                      .initial_state = (void *)&align_cases[i] };
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_flash_by_hand);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_tiles_by_hand);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_mla);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_window);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_unfused_by_hand);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_no_peak);
  return _cmocka_run_group_tests ("costmodel_attention", tests, n, NULL, NULL);
}
