/* Unit tests of base/philox.h and base/hash.h: published vectors, then the laws of what is drawn. */
#include "base/hash.h"
#include "base/philox.h"
#include "tests/testutil.h"

/* Known-answer vectors of philox4x32 with 10 rounds that Random123 publishes (kat_vectors). */
static const struct {
  guint32 counter[4], key[2], want[4];
} vectors[] = {
  { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
  { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
    { 0xffffffff, 0xffffffff },
    { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
  { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
    { 0xa4093822, 0x299f31d0 },
    { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
};

static void
test_vectors (void **state)
{
  for (gsize i = 0; i < G_N_ELEMENTS (vectors); i++) {
    guint32 got[4];
    base_philox4x32 (vectors[i].counter, vectors[i].key, got);
    for (guint j = 0; j < 4; j++)
      assert_int_equal (got[j], vectors[i].want[j]);
  }
}

/* Seed, stream and index enter as key and counter: number 0 of (0, 0) is the first vector. */
static void
test_first_uniform (void **state)
{
  /* upper 53 of the 64 bits 0xe169c58d6627e8d5 */
  guint64 bits = G_GUINT64_CONSTANT (0xe169c58d6627e8d5) >> 11;
  assert_true (base_philox_uniform (0, 0, 0) == ldexp ((double)bits, -53));
}

#define N_DRAWS 100000

static void
test_uniform_moments (void **state)
{
  double sum = 0, squares = 0;
  for (guint64 i = 0; i < N_DRAWS; i++) {
    double u = base_philox_uniform (1, 2, i);
    assert_true (u >= 0 && u < 1);
    sum += u;
    squares += u * u;
  }
  /* Mean 1/2 with standard error sqrt(1/12/n) = 9.1e-4; second moment 1/3 with sqrt(4/45/n) =
   * 9.4e-4. Five standard errors each. */
  assert_true (fabs (sum / N_DRAWS - 0.5) < 5 * 9.2e-4);
  assert_true (fabs (squares / N_DRAWS - 1.0 / 3) < 5 * 9.5e-4);
}

static void
test_normal_moments (void **state)
{
  double sum = 0, squares = 0, fourth = 0;
  for (guint64 i = 0; i < N_DRAWS; i++) {
    double x = base_philox_normal (3, 4, i);
    assert_true (isfinite (x));
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  /* Moments 0, 1, 3 with standard errors sqrt(1/n), sqrt(2/n), sqrt(96/n). */
  assert_true (fabs (sum / N_DRAWS) < 5 * sqrt (1.0 / N_DRAWS));
  assert_true (fabs (squares / N_DRAWS - 1) < 5 * sqrt (2.0 / N_DRAWS));
  assert_true (fabs (fourth / N_DRAWS - 3) < 5 * sqrt (96.0 / N_DRAWS));
}

static void
test_below (void **state)
{
  guint counts[10] = { 0 };
  for (guint64 i = 0; i < N_DRAWS; i++) {
    guint64 x = base_philox_below (5, 6, i, 10);
    assert_true (x < 10);
    counts[x]++;
  }
  /* Binomial with p = 0.1: standard deviation sqrt(0.09 n) = 95. */
  for (guint i = 0; i < 10; i++)
    assert_true (fabs (counts[i] - N_DRAWS / 10.0) < 5 * 95);
  assert_true (base_philox_below (5, 6, 7, 1) == 0);
  assert_true (base_philox_below (5, 6, 7, G_MAXUINT64) < G_MAXUINT64);
}

static void
test_streams_differ (void **state)
{
  double here = base_philox_uniform (1, 1, 1);
  assert_true (here == base_philox_uniform (1, 1, 1));
  assert_true (here != base_philox_uniform (2, 1, 1));
  assert_true (here != base_philox_uniform (1, 2, 1));
  assert_true (here != base_philox_uniform (1, 1, 2));
  /* the upper halves count too */
  assert_true (here != base_philox_uniform (1 + (G_GUINT64_CONSTANT (1) << 32), 1, 1));
  assert_true (here != base_philox_uniform (1, 1 + (G_GUINT64_CONSTANT (1) << 32), 1));
  assert_true (here != base_philox_uniform (1, 1, 1 + (G_GUINT64_CONSTANT (1) << 32)));
}

/* FIPS 180-4 examples: SHA-256 of "abc" and of nothing. */
static void
test_hash_text (void **state)
{
  g_autofree char *abc = base_hash_text ("abc"), *empty = base_hash_text ("");
  assert_string_equal (abc, "ba7816bf8f01cfea");
  assert_string_equal (empty, "e3b0c44298fc1c14");
}

static void
test_hash_bytes (void **state)
{
  static const char zeros[64];
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  for (gsize length = 0; length <= sizeof zeros; length++) {
    for (guint64 seed = 0; seed < 4; seed++) {
      guint64 hash = base_hash_bytes (zeros, length, seed);
      assert_true (hash == base_hash_bytes (zeros, length, seed));
      assert_true (g_hash_table_add (seen, g_memdup2 (&hash, sizeof hash)));
    }
  }
}

/* Each of 64 input bits flips about half of the output bits, in every position of the word. */
static void
test_hash_avalanche (void **state)
{
  guint64 word = G_GUINT64_CONSTANT (0x0123456789abcdef);
  guint64 base = base_hash_bytes (&word, sizeof word, 0);
  guint flipped = 0;
  for (guint bit = 0; bit < 64; bit++) {
    guint64 other = word ^ (G_GUINT64_CONSTANT (1) << bit);
    flipped += (guint)__builtin_popcountll (base ^ base_hash_bytes (&other, sizeof other, 0));
  }
  /* 4096 fair coins: mean 2048, standard deviation 32. */
  assert_true (fabs (flipped - 2048.0) < 5 * 32);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_vectors),         cmocka_unit_test (test_first_uniform),
    cmocka_unit_test (test_uniform_moments), cmocka_unit_test (test_normal_moments),
    cmocka_unit_test (test_below),           cmocka_unit_test (test_streams_differ),
    cmocka_unit_test (test_hash_text),       cmocka_unit_test (test_hash_bytes),
    cmocka_unit_test (test_hash_avalanche),
  };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
