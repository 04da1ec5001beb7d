/* model/schedule_interleaved_peak.c - the largest sum of what unequal chunks of a rank keep.
 *
 * After its warm-up a rank runs forward number w + t, then backward number t, t = 0, 1, …; with
 * forwards and backwards alike in runs of p per chunk, alive(t) = F(w + t + 1) − B(t) is linear
 * between the ends of runs, and repeats after p·v. So only the ends of runs are looked at.
 */
#include "model/schedule.h"

typedef struct {
  const guint64 *kept_bytes; /* by chunk */
  guint32 pp, vpp;
  guint64 all_bytes; /* of all chunks, one micro-batch each */
} Chunks;

/* What the first @n passes keep, or, @is_backward, free. */
static guint64
sum_of (const Chunks *c, guint64 n, gboolean is_backward)
{
  guint64 per_group = (guint64)c->pp * c->vpp, rest = n % per_group;
  guint64 sum = n / per_group * c->pp * c->all_bytes;
  for (guint32 i = 0; rest > 0; i++) {
    guint64 run = MIN (rest, c->pp);
    sum += run * c->kept_bytes[is_backward ? c->vpp - 1 - i : i];
    rest -= run;
  }
  return sum;
}

static guint64
alive_bytes (const Chunks *c, guint64 first, guint64 t)
{
  return sum_of (c, first + t, FALSE) - sum_of (c, t, TRUE);
}

guint64
model_schedule_interleaved_peak (guint32 pp, guint32 vpp, guint64 microbatches, guint32 rank,
                                 const guint64 *kept_bytes)
{
  guint64 first
      = model_schedule_in_flight (MODEL_SCHEDULE_INTERLEAVED, pp, vpp, microbatches, rank);
  guint64 last = MIN (microbatches * vpp - first, (guint64)pp * vpp);
  Chunks c = { kept_bytes, pp, vpp, 0 };
  for (guint32 i = 0; i < vpp; i++)
    c.all_bytes += kept_bytes[i];
  guint64 peak = MAX (alive_bytes (&c, first, 0), alive_bytes (&c, first, last));
  guint64 to_end_of_forwards = pp - 1 - (first + pp - 1) % pp;
  for (guint64 t = to_end_of_forwards; t <= last; t += pp)
    peak = MAX (peak, alive_bytes (&c, first, t));
  for (guint64 t = pp; t <= last; t += pp)
    peak = MAX (peak, alive_bytes (&c, first, t));
  return peak;
}
