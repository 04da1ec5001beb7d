/* exec/cpu/attention.c - causal attention with grouped heads, a tile of queries at a time, and
 * rotary positions. Flash kernels keep the logarithm of the softmax' sum and rebuild the softmax in
 * backward; unfused ones keep the softmax.
 *
 * Compiled with -ffast-math, as exec/cpu/pointwise.c.
 */
#include "exec/cpu/kernels.h"

#include <math.h>
#include <string.h>

#define ROPE_BASE 10000.0 /* RoFormer (Su et al. 2021), section 3.2.2 */

void
cpu_rope (void *out_any, const void *x_any, guint64 rows, guint32 heads, guint32 dim,
          guint32 rotated, guint64 seq, int direction, guint32 shift)
{
  float *out = out_any;
  const float *x = x_any;
  guint32 half = rotated / 2;
  g_autofree double *rates = g_new (double, MAX (half, 1)); /* radians per position */
  for (guint32 i = 0; i < half; i++)
    rates[i] = pow (ROPE_BASE, -2.0 * i / rotated);
  memcpy (out, x, rows * heads * dim * sizeof (float));
  for (guint64 r = 0; r < rows; r++)
    for (guint32 i = 0; i < half; i++) {
      double angle = (double)(r % seq + shift) * rates[i];
      float cosine = (float)cos (angle), sine = (float)sin (angle) * (float)direction;
      for (guint32 h = 0; h < heads; h++) {
        guint64 at = (r * heads + h) * dim + i;
        float a = x[at], b = x[at + half];
        out[at] = a * cosine - b * sine;
        out[at + half] = b * cosine + a * sine;
      }
    }
}

/* Queries [first, first + count) of one sequence and head, and the keys they see. */
typedef struct {
  const ExecAttention *a;
  guint64 q_at, kv_at; /* element of the sequence's first row */
  guint64 lse_at, softmax_at;
  guint64 q_stride, kv_stride;
  guint64 first, count, n_keys;
} Tile;

static const float *
at (const void *tensor, guint64 element)
{
  return (const float *)tensor + element;
}

static float *
into (void *tensor, guint64 element)
{
  return (float *)tensor + element;
}

/* The first key that @query sees; the last is @query. */
static guint64
first_key (const ExecAttention *a, guint64 query)
{
  return a->window > 0 && query >= a->window ? query - a->window + 1 : 0;
}

/* s = exp (s - shift) where @query sees, 0 where not. Returns: the sum. */
static double
exponentials (const Tile *t, guint64 query, float shift, float *restrict s)
{
  guint64 first = first_key (t->a, query);
  double sum = 0;
  memset (s, 0, first * sizeof *s);
  for (guint64 j = first; j <= query; j++)
    s[j] = expf (s[j] - shift);
  for (guint64 j = first; j <= query; j++)
    sum += s[j];
  memset (s + query + 1, 0, (t->n_keys - query - 1) * sizeof *s);
  return sum;
}

static void
scores (const Tile *t, float *s)
{
  const ExecAttention *a = t->a;
  float scale = (float)(1 / sqrt ((double)a->dim));
  cpu_gemm (FALSE, TRUE, t->count, t->n_keys, a->dim, at (a->q, t->q_at + t->first * t->q_stride),
            t->q_stride, at (a->k, t->kv_at), t->kv_stride, 0, s, t->n_keys);
  for (guint64 i = 0; i < t->count * t->n_keys; i++)
    s[i] *= scale;
}

static void
softmax_row (const Tile *t, guint64 query, float *s)
{
  float most = -G_MAXFLOAT;
  for (guint64 j = first_key (t->a, query); j <= query; j++)
    most = MAX (most, s[j]);
  double sum = exponentials (t, query, most, s);
  for (guint64 j = 0; j <= query; j++)
    s[j] = (float)(s[j] / sum);
  if (t->a->lse != NULL)
    t->a->lse[t->lse_at + query * t->a->heads] = most + (float)log (sum);
  if (t->a->softmax != NULL) {
    float *kept = into (t->a->softmax, t->softmax_at + query * t->a->seq);
    memcpy (kept, s, t->n_keys * sizeof (float));
    memset (kept + t->n_keys, 0, (t->a->seq - t->n_keys) * sizeof (float));
  }
}

static void
forward_tile (const Tile *t)
{
  const ExecAttention *a = t->a;
  float *s = a->scratch;
  scores (t, s);
  for (guint64 i = 0; i < t->count; i++)
    softmax_row (t, t->first + i, s + i * t->n_keys);
  cpu_gemm (FALSE, FALSE, t->count, a->dim, t->n_keys, s, t->n_keys, at (a->v, t->kv_at),
            t->kv_stride, 0, into (a->out, t->q_at + t->first * t->q_stride), t->q_stride);
}

/* The softmax again: from what unfused kernels keep, or from the sums. */
static void
rebuild (const Tile *t, float *p)
{
  const ExecAttention *a = t->a;
  if (a->softmax == NULL)
    scores (t, p);
  for (guint64 i = 0; i < t->count; i++, p += t->n_keys) {
    guint64 query = t->first + i;
    if (a->softmax != NULL) {
      memcpy (p, at (a->softmax, t->softmax_at + query * a->seq), t->n_keys * sizeof (float));
      continue;
    }
    exponentials (t, query, a->lse[t->lse_at + query * a->heads], p);
  }
}

static void
backward_tile (const Tile *t)
{
  const ExecAttention *a = t->a;
  float *p = a->scratch, *d_s = a->scratch + t->count * t->n_keys;
  guint64 q_at = t->q_at + t->first * t->q_stride;
  float scale = (float)(1 / sqrt ((double)a->dim));
  rebuild (t, p);
  cpu_gemm (TRUE, FALSE, t->n_keys, a->dim, t->count, p, t->n_keys, at (a->d_out, q_at),
            t->q_stride, 1, into (a->d_v, t->kv_at), t->kv_stride);
  cpu_gemm (FALSE, TRUE, t->count, t->n_keys, a->dim, at (a->d_out, q_at), t->q_stride,
            at (a->v, t->kv_at), t->kv_stride, 0, d_s, t->n_keys);
  for (guint64 i = 0; i < t->count; i++) {
    float *row = d_s + i * t->n_keys;
    const float *weight = p + i * t->n_keys;
    double dot = 0;
    for (guint64 j = 0; j < t->n_keys; j++)
      dot += (double)row[j] * weight[j];
    for (guint64 j = 0; j < t->n_keys; j++)
      row[j] = weight[j] * (row[j] - (float)dot) * scale;
  }
  cpu_gemm (FALSE, FALSE, t->count, a->dim, t->n_keys, d_s, t->n_keys, at (a->k, t->kv_at),
            t->kv_stride, 0, into (a->d_q, q_at), t->q_stride);
  cpu_gemm (TRUE, FALSE, t->n_keys, a->dim, t->count, d_s, t->n_keys, at (a->q, q_at), t->q_stride,
            1, into (a->d_k, t->kv_at), t->kv_stride);
}

static void
for_tiles (const ExecAttention *a, void (*work) (const Tile *))
{
  guint64 step = MIN (a->seq, 64), q_stride = (guint64)a->heads * a->dim;
  guint64 kv_stride = (guint64)a->kv_heads * a->dim;
  for (guint64 b = 0; b < a->batch; b++)
    for (guint64 h = 0; h < a->heads; h++)
      for (guint64 first = 0; first < a->seq; first += step) {
        guint64 count = MIN (step, a->seq - first);
        Tile tile = { .a = a,
                      .q_at = b * a->seq * q_stride + h * a->dim,
                      .kv_at = b * a->seq * kv_stride + h / (a->heads / a->kv_heads) * a->dim,
                      .lse_at = b * a->seq * a->heads + h,
                      .softmax_at = (b * a->heads + h) * a->seq * a->seq,
                      .q_stride = q_stride,
                      .kv_stride = kv_stride,
                      .first = first,
                      .count = count,
                      .n_keys = first + count };
        work (&tile);
      }
}

void
cpu_attention (const ExecAttention *attention)
{
  for_tiles (attention, forward_tile);
}

void
cpu_attention_grad (const ExecAttention *attention)
{
  const ExecAttention *a = attention;
  gsize bytes = sizeof (float) * a->batch * a->seq * a->kv_heads * a->dim;
  memset (a->d_k, 0, bytes);
  memset (a->d_v, 0, bytes);
  for_tiles (a, backward_tile);
}
