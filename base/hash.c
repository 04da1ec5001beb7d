/* base/hash.c - see base/hash.h. */
#include "base/hash.h"

#include <string.h>

#define TEXT_DIGITS 16

/* Constants of the SplitMix64 finaliser (Steele, Lea, Flood, OOPSLA 2014; variant 13 of Stafford)
 * and its golden-ratio increment. */
#define MIX_1  G_GUINT64_CONSTANT (0xbf58476d1ce4e5b9)
#define MIX_2  G_GUINT64_CONSTANT (0x94d049bb133111eb)
#define GOLDEN G_GUINT64_CONSTANT (0x9e3779b97f4a7c15)

char *
base_hash_text (const char *text)
{
  g_return_val_if_fail (text != NULL, NULL);
  g_autofree char *digits = g_compute_checksum_for_string (G_CHECKSUM_SHA256, text, -1);
  return g_strndup (digits, TEXT_DIGITS);
}

static guint64
mix (guint64 x)
{
  x = (x ^ x >> 30) * MIX_1;
  x = (x ^ x >> 27) * MIX_2;
  return x ^ x >> 31;
}

guint64
base_hash_bytes (const void *data, gsize length, guint64 seed)
{
  const guchar *p = data;
  guint64 hash = mix (seed + GOLDEN) ^ (length * GOLDEN);
  for (; length >= 8; p += 8, length -= 8) {
    guint64 word;
    memcpy (&word, p, 8);
    hash = mix (hash + GOLDEN + GUINT64_FROM_LE (word));
  }
  guint64 rest = 0;
  for (gsize i = 0; i < length; i++)
    rest |= (guint64)p[i] << (8 * i);
  return mix (hash + GOLDEN + rest);
}
