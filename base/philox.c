/* base/philox.c - see base/philox.h. */
#include "base/philox.h"

#include <math.h>

/* Multipliers and Weyl constants of Philox4x32 (Salmon et al., SC11, section 4.1 and table 2). */
#define MULTIPLIER_0 0xD2511F53u
#define MULTIPLIER_1 0xCD9E8D57u
#define WEYL_0       0x9E3779B9u
#define WEYL_1       0xBB67AE85u
#define N_ROUNDS     10

__extension__ typedef unsigned __int128 Uint128;

void
base_philox4x32 (const guint32 counter[4], const guint32 key[2], guint32 out[4])
{
  guint32 c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  guint32 k0 = key[0], k1 = key[1];

  for (guint round = 0; round < N_ROUNDS; round++) {
    guint64 product_0 = (guint64)MULTIPLIER_0 * c0;
    guint64 product_1 = (guint64)MULTIPLIER_1 * c2;
    c0 = (guint32)(product_1 >> 32) ^ c1 ^ k0;
    c1 = (guint32)product_1;
    c2 = (guint32)(product_0 >> 32) ^ c3 ^ k1;
    c3 = (guint32)product_0;
    k0 += WEYL_0;
    k1 += WEYL_1;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

/* 128 random bits of number @index of stream (@seed, @stream). */
static void
draw (guint64 seed, guint64 stream, guint64 index, guint64 out[2])
{
  guint32 counter[4]
      = { (guint32)index, (guint32)(index >> 32), (guint32)stream, (guint32)(stream >> 32) };
  guint32 key[2] = { (guint32)seed, (guint32)(seed >> 32) };
  guint32 words[4];
  base_philox4x32 (counter, key, words);
  out[0] = (guint64)words[1] << 32 | words[0];
  out[1] = (guint64)words[3] << 32 | words[2];
}

/* The upper 53 bits of @bits as a fraction in [0, 1). */
static double
to_unit (guint64 bits)
{
  return (double)(bits >> 11) * 0x1p-53;
}

double
base_philox_uniform (guint64 seed, guint64 stream, guint64 index)
{
  guint64 bits[2];
  draw (seed, stream, index, bits);
  return to_unit (bits[0]);
}

double
base_philox_normal (guint64 seed, guint64 stream, guint64 index)
{
  guint64 bits[2];
  draw (seed, stream, index, bits);
  /* Box and Muller; 1 - u is in (0, 1], so the logarithm is finite. */
  double radius = sqrt (-2 * log (1 - to_unit (bits[0])));
  return radius * cos (2 * G_PI * to_unit (bits[1]));
}

guint64
base_philox_below (guint64 seed, guint64 stream, guint64 index, guint64 bound)
{
  g_return_val_if_fail (bound > 0, 0);
  guint64 bits[2];
  draw (seed, stream, index, bits);
  /* Upper 64 bits of (128-bit fraction) * bound: no value is favoured by more than 2^-64. */
  Uint128 low = (Uint128)bits[0] * bound >> 64;
  return (guint64)(((Uint128)bits[1] * bound + low) >> 64);
}
