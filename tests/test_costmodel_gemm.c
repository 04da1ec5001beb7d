/* GEMM times against a second implementation of the formula, by hand, and its laws. */
#include "costmodel/gemm.h"
#include "tests/testutil.h"

/* Numbers near reference "gemm-model" parameters.csv; peaks, SMs and HBM from datasheets. */
static const CostGemm h100_numbers = {
  .launch_s = 2.51e-6,
  .ceiling_ratio = { 0.907, 0.907, 0.907 },
  .memory_ratio = 0.824,
  .k0 = 171,
  .wave_ratio = 0.126,
  .padding_ratio = 0.2,
  .power = 3.69,
  .split_s = 2.32e-6,
  .long_loss = 0.0147,
  .step_ratio = 1,
  .accumulate_ratio = 1,
};
static const CostGemm b200_numbers = {
  .launch_s = 2.08e-6,
  .ceiling_ratio = { 0.822, 0.822, 0.822 },
  .memory_ratio = 0.75,
  .k0 = 95.1,
  .wave_ratio = 0.0637,
  .padding_ratio = 0.4,
  .power = 2.44,
  .split_s = 2.7e-6,
  .long_loss = 0.0207,
  .step_ratio = 1,
  .accumulate_ratio = 1,
};

static CostGemmContext
h100 (void)
{
  return (CostGemmContext){ .peak_flop_per_s = 989e12,
                            .hbm_bytes_per_s = 3350e9,
                            .feed_bytes_per_s = 171e9,
                            .sm_count = 132,
                            .numbers = &h100_numbers,
                            .in_bytes = 2,
                            .out_bytes = 2,
                            .slowdown = 1 };
}

static CostGemmContext
b200 (void)
{
  return (CostGemmContext){ .peak_flop_per_s = 2250e12,
                            .hbm_bytes_per_s = 8000e9,
                            .feed_bytes_per_s = 283e9,
                            .sm_count = 148,
                            .numbers = &b200_numbers,
                            .in_bytes = 2,
                            .out_bytes = 2,
                            .slowdown = 1 };
}

typedef struct {
  const char *name;
  CostGemmContext (*gpu) (void);
  guint64 m, n, k;
  double want_us; /* the formula of gemm.h written out in Python, three decimals */
} VectorCase;

static const VectorCase vectors[] = {
  { "gemm/h100_m1_n8192", h100, 1, 8192, 4096, 26.855 },
  { "gemm/h100_m64_n8192", h100, 64, 8192, 4096, 27.449 },
  { "gemm/h100_m1000_n8192", h100, 1000, 8192, 4096, 86.377 },
  { "gemm/h100_m8192_n8192", h100, 8192, 8192, 4096, 703.854 },
  { "gemm/h100_m1_n512", h100, 1, 512, 16384, 10.935 },
  { "gemm/h100_m64_n512", h100, 64, 512, 16384, 12.042 },
  { "gemm/h100_m1000_n512", h100, 1000, 512, 16384, 30.054 },
  { "gemm/h100_m8192_n512", h100, 8192, 512, 16384, 180.485 },
  { "gemm/b200_m1_n8192", b200, 1, 8192, 4096, 13.474 },
  { "gemm/b200_m64_n8192", b200, 64, 8192, 4096, 13.959 },
  { "gemm/b200_m1000_n8192", b200, 1000, 8192, 4096, 45.360 },
  { "gemm/b200_m8192_n8192", b200, 8192, 8192, 4096, 346.412 },
  { "gemm/b200_m1_n512", b200, 1, 512, 16384, 7.642 },
  { "gemm/b200_m64_n512", b200, 64, 512, 16384, 8.214 },
  { "gemm/b200_m1000_n512", b200, 1000, 512, 16384, 18.728 },
  { "gemm/b200_m8192_n512", b200, 8192, 512, 16384, 99.695 },
};

static void
test_vector (void **state)
{
  const VectorCase *c = *state;
  CostGemmContext gpu = c->gpu ();
  /* printed to 1 ns, of parameters printed to three digits */
  assert_near (cost_gemm_s (&gpu, c->m, c->n, c->k, 1) * 1e6, c->want_us, 1e-4);
}

/* One launch of 8 products is a product of 8 times the tiles: with whole tiles and no split the
 * same time as one product 8 times as tall (same F, same tiles; A and C the same, B 8 times). */
static void
test_batch_shares_waves (void **state)
{
  CostGemmContext gpu = h100 ();
  double together = cost_gemm_s (&gpu, 1024, 4096, 4096, 8);
  double apart = 8 * cost_gemm_s (&gpu, 1024, 4096, 4096, 1);
  double tall = cost_gemm_s (&gpu, 8192, 4096, 4096, 1);
  assert_true (together < apart);
  assert_true (together >= tall);
  assert_near (together, tall, 0.03);
}

/* k = 64, m = n = 16384 adding into fp32 C is bound by DRAM:
 * 2 x 2 x 16384 x 64 = 4.19e6 B in, 8 x 16384^2 = 2147.5e6 B of C, over .824 x 3350e9 = 779.5 us.
 * Tensor time with the prologue, 2 m n (64 + 171) / (989e12 x .88) = 145 us, vanishes in the soft
 * maximum: (145/779.5)^3.69 = .002. */
static void
test_accumulate_bytes (void **state)
{
  CostGemmContext gpu = h100 ();
  gpu.accumulate = TRUE;
  double added = cost_gemm_s (&gpu, 16384, 16384, 64, 1);
  assert_true (added > 779.5e-6);
  assert_near (added, 779.5e-6 + 2.51e-6, 0.01);
}

/* Timed over and over with half of the bytes in L2: DRAM moves bytes / (1 + (1/2)^4). m = 1,
 * n = k = 8192: 2 (8192^2 + 2 x 8192) = 134.25e6 B, 126.35e6 of them cold: 45.77 us at .824 x 3350e9
 * B/s; against 48.63 us cold. Nothing else is near (64 x 64 tiles, 128 tiles: 15 us of feed). */
static void
test_warm_l2 (void **state)
{
  CostGemmContext gpu = h100 ();
  double cold_s = cost_gemm_s (&gpu, 1, 8192, 8192, 1);
  gpu.warm_bytes = 134.25e6 / 2;
  assert_near (cold_s - cost_gemm_s (&gpu, 1, 8192, 8192, 1), 48.63e-6 - 45.77e-6, 0.05);
}

/* One row more than eight tiles of 128: with padding free it costs next to nothing, paid for in full
 * up to a ninth row of tiles (less where the best tile is smaller). */
static void
test_padding (void **state)
{
  CostGemm numbers = h100_numbers;
  CostGemmContext gpu = h100 ();
  gpu.numbers = &numbers;
  numbers.padding_ratio = 0;
  double whole_s = cost_gemm_s (&gpu, 1024, 8192, 8192, 1);
  double free_s = cost_gemm_s (&gpu, 1025, 8192, 8192, 1);
  numbers.padding_ratio = 1;
  double paid_s = cost_gemm_s (&gpu, 1025, 8192, 8192, 1);
  assert_near (free_s, whole_s, 2e-3);
  /* 9 x 32 tiles for 8 x 32: 2.18 waves for 1.94, of which .126 whole: 2.28 paid for 1.95 */
  assert_true (paid_s > free_s * 1.01 && paid_s < free_s * 2.285 / 1.948);
}

static void
test_precision (void **state)
{
  /* fp8: twice the peak, half the bytes. The prologue does not shrink: k0 doubles in units of K,
   * so the tensor time is peak-bound (K + 2 k0) / (2 peak): gain of a large GEMM below 2. */
  CostGemmContext gpu = h100 ();
  double half = cost_gemm_s (&gpu, 8192, 8192, 8192, 1);
  gpu.peak_flop_per_s = 1979e12;
  gpu.precision = COST_PRECISION_FP8;
  gpu.in_bytes = 1;
  double fp8 = cost_gemm_s (&gpu, 8192, 8192, 8192, 1);
  assert_true (half / fp8 > 1.85 && half / fp8 < 2);
  gpu.peak_flop_per_s = 0;
  assert_true (isinf (cost_gemm_s (&gpu, 8192, 8192, 8192, 1)));
}

static void
test_nothing_to_do (void **state)
{
  CostGemmContext gpu = h100 ();
  assert_true (cost_gemm_s (&gpu, 0, 8192, 8192, 1) == 0);
  assert_true (cost_gemm_s (&gpu, 8, 0, 8192, 1) == 0);
  assert_true (cost_gemm_s (&gpu, 8, 8, 0, 1) == 0);
  assert_true (cost_gemm_s (&gpu, 8, 8, 8, 0) == 0);
  assert_true (isfinite (cost_gemm_s (&gpu, 1, 1, 1, 1)));
  assert_true (isfinite (cost_gemm_s (&gpu, 1u << 31, 1u << 31, 1u << 31, 1u << 31)));
}

/* Never faster than the peak or than DRAM would allow, never slower with less to do. */
static void
test_bounds (void **state)
{
  CostGemmContext gpu = b200 ();
  for (guint64 m = 1; m <= 1 << 15; m *= 3) {
    for (guint64 n = 64; n <= 1 << 15; n *= 4) {
      for (guint64 k = 64; k <= 1 << 15; k *= 4) {
        double t = cost_gemm_s (&gpu, m, n, k, 1);
        double flop = 2.0 * m * n * k, bytes = 2.0 * (m * k + n * k + m * n);
        assert_true (t > flop / gpu.peak_flop_per_s);
        assert_true (t > bytes / gpu.hbm_bytes_per_s);
        assert_true (cost_gemm_s (&gpu, m, n, 2 * k, 1) >= t);
        assert_true (cost_gemm_s (&gpu, m, n, k, 2) >= t);
      }
    }
  }
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (vectors) + 7];
  guint n = 0;
  for (gsize i = 0; i < G_N_ELEMENTS (vectors); i++)
    tests[n++] = (struct CMUnitTest){ .name = vectors[i].name,
                                      .test_func = test_vector,
                                      .initial_state = (void *)&vectors[i] };
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_batch_shares_waves);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_accumulate_bytes);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_warm_l2);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_padding);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_precision);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_nothing_to_do);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test (test_bounds);
  return _cmocka_run_group_tests ("costmodel_gemm", tests, n, NULL, NULL);
}
