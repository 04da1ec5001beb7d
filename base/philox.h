/* base/philox.h - Philox4x32-10: random numbers that are a pure function of (key, counter).
 *
 * Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11. Any element of any tensor
 * can be made on any rank without communication; tests use the published known-answer vectors.
 */
#pragma once
#include <glib.h>
G_BEGIN_DECLS
void base_philox4x32 (const guint32 counter[4], const guint32 key[2], guint32 out[4]);
/* Uniform in [0,1) with 53 bits, and standard normal, number @index of stream (@seed, @stream). */
double base_philox_uniform (guint64 seed, guint64 stream, guint64 index);
double base_philox_normal (guint64 seed, guint64 stream, guint64 index);
/* Uniform integer in [0, bound), bound > 0. */
guint64 base_philox_below (guint64 seed, guint64 stream, guint64 index, guint64 bound);
G_END_DECLS
