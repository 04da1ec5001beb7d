/* tests/emu/test_kernels.c - every kernel of the CUDA backend against plain C, at sizes of one, odd
 * ones and ones that are a multiple of nothing.
 *
 * Each operand is memory of exactly its size, once starting right after a forbidden page and once
 * ending right before one, so that reading or writing outside ends the test; fresh memory is NaN, so
 * that what is read before it is written shows. Values on the way to bf16 are rounded as the
 * inputs are, so the reference sees what the kernel sees. */
#include "exec/backend.h"
#include "tests/testutil.h"

#include <cuda_runtime.h>

static const ExecBackend *f32, *bf16;

#ifndef CUDART_IS_EMULATED
/* On a GPU: aligned as cudaMalloc aligns, or to the element only. compute-sanitizer sees the rest. */
static void *
emu_malloc_at_start (size_t bytes)
{
  void *memory = NULL;
  assert_int_equal (cudaMalloc (&memory, bytes), cudaSuccess);
  return memory;
}

static void *
emu_malloc_at_end (size_t bytes)
{
  return emu_malloc_at_start (bytes);
}

static int
emu_is_intact (void)
{
  return cudaDeviceSynchronize () == cudaSuccess;
}
#endif

/* An operand: values as floats, and where the device has them. */
typedef struct {
  guint64 count;
  float *host; /* (owned) */
  void *device;
} Operand;

typedef struct {
  const char *name;
  guint64 rows, columns;
} Size;
static const Size sizes[]
    = { { "1x1", 1, 1 },       { "1x7", 1, 7 },       { "3x13", 3, 13 },     { "5x64", 5, 64 },
        { "17x257", 17, 257 }, { "33x300", 33, 300 }, { "2x1031", 2, 1031 }, { "7x232", 7, 232 } };

typedef struct {
  const Size *size;
  const ExecBackend *b;
  gboolean at_end;
  guint32 seed;
} Setting;

static gboolean
is_half (const Setting *s)
{
  return s->b == bf16;
}

/* A number that bf16 holds exactly, in (-1, 1). */
static float
draw (Setting *s)
{
  s->seed = s->seed * 1664525u + 1013904223u;
  return ((float)(gint32)(s->seed >> 24) - 127.5f) / 128;
}

static void *
device_new (const Setting *s, gsize bytes)
{
  return s->at_end ? emu_malloc_at_end (bytes) : emu_malloc_at_start (bytes);
}

/* @as_floats: fp32 whatever the table. Without values the memory stays as it is: NaN. */
static Operand
operand (Setting *s, guint64 count, gboolean as_floats, gboolean filled)
{
  gboolean half = is_half (s) && !as_floats;
  Operand o = { count, g_new0 (float, count), device_new (s, count * (half ? 2 : 4)) };
  float *staging = device_new (s, count * 4);
  for (guint64 i = 0; filled && i < count; i++)
    o.host[i] = draw (s);
  if (filled) {
    f32->upload (staging, o.host, count);
    (half ? bf16 : f32)->cast (o.device, staging, count);
  }
  cudaFree (staging);
  return o;
}

static gint32 *
integers (const Setting *s, const gint32 *values, guint64 count)
{
  gint32 *device = device_new (s, count * sizeof *values);
  f32->upload ((float *)device, (const float *)values, count);
  f32->synchronize ();
  return device;
}

/* Compares with what the reference left in @o's host copy; gives the operand back. */
static void
expect (Setting *s, Operand *o, gboolean as_floats, const char *what)
{
  gboolean half = is_half (s) && !as_floats;
  float *staging = device_new (s, o->count * 4);
  g_autofree float *got = g_new (float, o->count);
  (half ? bf16 : f32)->widen (staging, o->device, o->count);
  f32->download (got, staging, o->count);
  /* fp32: sums of up to 1,031 terms in another order; bf16: one rounding of 2^-9, twice where a
   * rounded value is used again */
  double relative = half ? 8e-3 : 2e-5, absolute = half ? 8e-3 : 2e-5;
  for (guint64 i = 0; i < o->count; i++)
    if (!(fabs (got[i] - o->host[i]) <= relative * fabs (o->host[i]) + absolute)) {
      print_error ("%s, %s, %s: element %" G_GUINT64_FORMAT " is %g, expected %g\n", what,
                   s->size->name, half ? "bf16" : "fp32", i, got[i], o->host[i]);
      fail ();
    }
  cudaFree (staging);
  cudaFree (o->device);
  g_free (o->host);
}

static void
drop (Operand *o)
{
  cudaFree (o->device);
  g_free (o->host);
}

static void
test_pointwise (Setting *s)
{
  guint64 n = s->size->rows * s->size->columns;
  Operand a = operand (s, n, FALSE, TRUE), b = operand (s, n, FALSE, TRUE);
  Operand sum = operand (s, n, FALSE, FALSE), filled = operand (s, n, FALSE, FALSE);
  Operand copied = operand (s, n, FALSE, FALSE);
  s->b->add (sum.device, a.device, b.device, n);
  s->b->fill (filled.device, 0.75f, n);
  s->b->copy (copied.device, a.device, n);
  s->b->scale (b.device, -0.5f, n);
  for (guint64 i = 0; i < n; i++) {
    sum.host[i] = a.host[i] + b.host[i];
    filled.host[i] = 0.75f;
    copied.host[i] = a.host[i];
    b.host[i] *= -0.5f;
  }
  expect (s, &sum, FALSE, "add");
  expect (s, &filled, FALSE, "fill");
  expect (s, &copied, FALSE, "copy");
  expect (s, &b, FALSE, "scale");
  drop (&a);
}

static double
activation (ExecActivation kind, double x)
{
  return kind == EXEC_ACTIVATION_RELU   ? MAX (x, 0)
         : kind == EXEC_ACTIVATION_SILU ? x / (1 + exp (-x))
                                        : 0.5 * x * (1 + erf (x / sqrt (2)));
}

/* The slope by differences of the value in double: independent of its formula. */
static double
slope (ExecActivation kind, double x)
{
  const double h = 1e-5;
  return (activation (kind, x + h) - activation (kind, x - h)) / (2 * h);
}

static void
test_activate (Setting *s)
{
  guint64 n = s->size->rows * s->size->columns;
  for (guint kind = 0; kind < 3; kind++)
    for (guint gated = 0; gated < 2; gated++) {
      ExecActivation k = (ExecActivation)kind;
      Operand gate = operand (s, n, FALSE, TRUE), up = operand (s, n, FALSE, TRUE);
      Operand d = operand (s, n, FALSE, TRUE), out = operand (s, n, FALSE, FALSE);
      Operand d_gate = operand (s, n, FALSE, FALSE), d_up = operand (s, n, FALSE, FALSE);
      s->b->activate (k, out.device, gate.device, gated ? up.device : NULL, n);
      s->b->activate_grad (k, d_gate.device, gated ? d_up.device : NULL, d.device, gate.device,
                           gated ? up.device : NULL, n);
      for (guint64 i = 0; i < n; i++) {
        double factor = gated ? up.host[i] : 1;
        out.host[i] = (float)(activation (k, gate.host[i]) * factor);
        d_gate.host[i] = (float)(d.host[i] * slope (k, gate.host[i]) * factor);
        d_up.host[i] = (float)(d.host[i] * activation (k, gate.host[i]));
      }
      expect (s, &out, FALSE, "activate");
      expect (s, &d_gate, FALSE, "activate_grad, gate");
      if (gated)
        expect (s, &d_up, FALSE, "activate_grad, up");
      else
        drop (&d_up);
      drop (&gate);
      drop (&up);
      drop (&d);
    }
}

static void
test_norm (Setting *s)
{
  guint64 rows = s->size->rows, n = s->size->columns;
  for (guint centred = 0; centred < 2; centred++) {
    Operand x = operand (s, rows * n, FALSE, TRUE), d = operand (s, rows * n, FALSE, TRUE);
    Operand w = operand (s, n, FALSE, TRUE), b = operand (s, n, FALSE, TRUE);
    Operand y = operand (s, rows * n, FALSE, FALSE), d_x = operand (s, rows * n, FALSE, FALSE);
    Operand d_w = operand (s, n, TRUE, TRUE), d_b = operand (s, n, TRUE, TRUE);
    s->b->norm (y.device, x.device, w.device, centred ? b.device : NULL, rows, n);
    s->b->norm_grad (d_x.device, d_w.device, centred ? d_b.device : NULL, d.device, x.device,
                     w.device, rows, n);
    for (guint64 r = 0; r < rows; r++) {
      const float *in = x.host + r * n, *out = d.host + r * n;
      double mean = 0, squares = 0, total = 0, product = 0;
      for (guint64 c = 0; c < n; c++)
        mean += centred ? in[c] / (double)n : 0;
      for (guint64 c = 0; c < n; c++)
        squares += (in[c] - mean) * (in[c] - mean) / (double)n;
      double scale = 1 / sqrt (squares + 1e-5);
      for (guint64 c = 0; c < n; c++) {
        double g = (double)out[c] * w.host[c], normal = (in[c] - mean) * scale;
        y.host[r * n + c] = (float)(normal * w.host[c] + (centred ? b.host[c] : 0));
        total += g / (double)n;
        product += g * normal / (double)n;
        d_w.host[c] += (float)(out[c] * normal);
        d_b.host[c] += out[c];
      }
      for (guint64 c = 0; c < n; c++) {
        double normal = (in[c] - mean) * scale;
        d_x.host[r * n + c]
            = (float)(scale
                      * ((double)out[c] * w.host[c] - (centred ? total : 0) - normal * product));
      }
    }
    /* one element, centred: 0 / sqrt (epsilon), the gradient is rounding alone */
    if (n > 1 || !centred)
      expect (s, &d_x, FALSE, "norm_grad, x");
    else
      drop (&d_x);
    expect (s, &y, FALSE, "norm");
    expect (s, &d_w, TRUE, "norm_grad, weight");
    if (centred)
      expect (s, &d_b, TRUE, "norm_grad, bias");
    else
      drop (&d_b);
    drop (&x);
    drop (&d);
    drop (&w);
    drop (&b);
  }
}

static void
test_rows (Setting *s)
{
  guint64 rows = s->size->rows, n = s->size->columns, seq = rows / 2 + 1, vocab = 5;
  Operand y = operand (s, rows * n, FALSE, TRUE), bias = operand (s, n, FALSE, TRUE);
  Operand d_bias = operand (s, n, TRUE, TRUE), table = operand (s, seq * n, FALSE, TRUE);
  Operand d_table = operand (s, seq * n, TRUE, TRUE), words = operand (s, vocab * n, FALSE, TRUE);
  Operand d_words = operand (s, vocab * n, TRUE, TRUE), out = operand (s, rows * n, FALSE, FALSE);
  g_autofree gint32 *ids = g_new (gint32, rows);
  for (guint64 r = 0; r < rows; r++)
    ids[r] = (gint32)(r * 3 % 11); /* 2..6 are in the table, the rest on other ranks */
  gint32 *device_ids = integers (s, ids, rows);
  guint64 first = rows / 3, count = rows - first;
  s->b->bias_grad (d_bias.device, y.device, rows, n);
  s->b->positions_grad (d_table.device, y.device, first, count, n, seq);
  s->b->embed (out.device, device_ids, words.device, rows, n, 2, vocab);
  s->b->embed_grad (d_words.device, y.device, device_ids, rows, n, 2, vocab);
  for (guint64 r = 0; r < rows; r++)
    for (guint64 c = 0; c < n; c++) {
      gboolean here = ids[r] >= 2 && ids[r] < 7;
      d_bias.host[c] += y.host[r * n + c];
      if (r >= first)
        d_table.host[r % seq * n + c] += y.host[r * n + c];
      out.host[r * n + c] = here ? words.host[(guint64)(ids[r] - 2) * n + c] : 0;
      if (here)
        d_words.host[(guint64)(ids[r] - 2) * n + c] += y.host[r * n + c];
    }
  s->b->bias (y.device, bias.device, rows, n);
  s->b->positions (out.device, table.device, rows, n, seq);
  for (guint64 r = 0; r < rows; r++)
    for (guint64 c = 0; c < n; c++) {
      y.host[r * n + c] += bias.host[c];
      out.host[r * n + c] += table.host[r % seq * n + c];
    }
  expect (s, &y, FALSE, "bias");
  expect (s, &out, FALSE, "embed and positions");
  expect (s, &d_bias, TRUE, "bias_grad");
  expect (s, &d_table, TRUE, "positions_grad");
  expect (s, &d_words, TRUE, "embed_grad");
  drop (&bias);
  drop (&table);
  drop (&words);
  cudaFree (device_ids);
}

static void
test_rope (Setting *s)
{
  guint64 rows = s->size->rows, seq = rows / 2 + 1;
  guint32 heads = 3, dim = (guint32)MIN (s->size->columns, 600), rotated = dim * 3 / 4 / 2 * 2;
  guint64 n = rows * heads * dim;
  Operand x = operand (s, n, FALSE, TRUE), out = operand (s, n, FALSE, FALSE);
  Operand back = operand (s, n, FALSE, FALSE);
  s->b->rope (out.device, x.device, rows, heads, dim, rotated, seq, 1, 2);
  s->b->rope (back.device, out.device, rows, heads, dim, rotated, seq, -1, 2);
  memcpy (out.host, x.host, n * sizeof (float));
  memcpy (back.host, x.host, n * sizeof (float)); /* turned back */
  for (guint64 r = 0; r < rows; r++)
    for (guint32 h = 0; h < heads; h++)
      for (guint32 i = 0; i < rotated / 2; i++) {
        double angle = (double)(r % seq + 2) * pow (10000, -2.0 * i / rotated);
        float *a = out.host + (r * heads + h) * dim + i, *b = a + rotated / 2;
        double real = *a * cos (angle) - *b * sin (angle);
        *b = (float)(*b * cos (angle) + *a * sin (angle));
        *a = (float)real;
      }
  expect (s, &out, FALSE, "rope");
  expect (s, &back, FALSE, "rope, back");
  drop (&x);
}

static void
test_loss (Setting *s)
{
  guint64 rows = s->size->rows, n = s->size->columns, valid = n - n / 4, from = 10;
  Operand logits = operand (s, rows * n, FALSE, TRUE), d = operand (s, rows * n, FALSE, FALSE);
  Operand most = operand (s, rows, TRUE, FALSE), kept = operand (s, rows * n, TRUE, FALSE);
  Operand sums = operand (s, 2 * rows, TRUE, FALSE);
  g_autofree gint32 *targets = g_new (gint32, rows);
  for (guint64 r = 0; r < rows; r++) /* every fifth lies on another rank */
    targets[r] = r % 5 == 4 ? 3 : (gint32)(from + r * 7 % valid);
  gint32 *device_targets = integers (s, targets, rows);
  s->b->loss_maximum (most.device, logits.device, rows, n, valid);
  s->b->widen (kept.device, logits.device, rows * n);
  s->b->loss_exponentials (kept.device, sums.device, most.device, device_targets, rows, n, valid,
                           from);
  double want = 0;
  Operand total = operand (s, 1, TRUE, TRUE); /* it is added to */
  s->b->loss_finish (kept.device, sums.device, rows, n, total.device);
  s->b->loss_grad (d.device, kept.device, device_targets, 0.5f, rows, n, valid, from);
  for (guint64 r = 0; r < rows; r++) {
    const float *row = logits.host + r * n;
    double sum = 0, top = -1e9;
    guint64 target = r % 5 == 4 ? n : (guint64)targets[r] - from;
    for (guint64 c = 0; c < valid; c++)
      top = MAX (top, row[c]);
    for (guint64 c = 0; c < valid; c++)
      sum += exp (row[c] - top);
    for (guint64 c = 0; c < n; c++) {
      double p = c < valid ? exp (row[c] - top) / sum : 0;
      kept.host[r * n + c] = (float)p;
      d.host[r * n + c] = (float)(0.5 * (p - (c == target)));
    }
    most.host[r] = (float)top;
    sums.host[2 * r] = (float)sum;
    sums.host[2 * r + 1] = target < n ? (float)(row[target] - top) : 0;
    want += log (sum) - sums.host[2 * r + 1];
  }
  total.host[0] = (float)(total.host[0] + want);
  expect (s, &total, TRUE, "loss_finish, total");
  expect (s, &d, FALSE, "loss_grad");
  expect (s, &kept, TRUE, "loss_finish");
  expect (s, &most, TRUE, "loss_maximum");
  expect (s, &sums, TRUE, "loss_exponentials");
  drop (&logits);
  cudaFree (device_targets);
}

static void
test_adam (Setting *s)
{
  guint64 n = s->size->rows * s->size->columns;
  const float hyper[4] = { 1e-2f, 0.9f, 0.95f, 1e-3f };
  Operand w = operand (s, n, TRUE, TRUE), g = operand (s, n, TRUE, TRUE);
  Operand m = operand (s, n, TRUE, TRUE), v = operand (s, n, TRUE, TRUE);
  f32->fill (v.device, 0.25f, n); /* moments of squares are not negative */
  s->b->adam (w.device, m.device, v.device, g.device, n, 3, hyper);
  for (guint64 i = 0; i < n; i++) {
    double first = 0.9 * m.host[i] + 0.1 * g.host[i];
    double second = 0.95 * 0.25 + 0.05 * g.host[i] * g.host[i];
    double step = first / (1 - pow (0.9, 3)) / (sqrt (second / (1 - pow (0.95, 3))) + 1e-3);
    w.host[i] -= (float)(1e-2 * step);
    m.host[i] = (float)first;
    v.host[i] = (float)second;
  }
  expect (s, &w, TRUE, "adam, weight");
  expect (s, &m, TRUE, "adam, first moment");
  expect (s, &v, TRUE, "adam, second moment");
  drop (&g);
}

static void
test_gemm (Setting *s)
{
  guint64 m = s->size->rows, k = MIN (s->size->columns, 70), n = 5;
  for (guint which = 0; which < 8; which++) {
    gboolean ta = which & 1, tb = which & 2, wide = which & 4;
    Operand a = operand (s, m * k, FALSE, TRUE), b = operand (s, k * n, FALSE, TRUE);
    Operand c = operand (s, m * n, wide, TRUE);
    if (wide)
      s->b->gemm_wide (ta, tb, m, n, k, a.device, ta ? m : k, b.device, tb ? k : n, 1, c.device, n);
    else
      s->b->gemm (ta, tb, m, n, k, a.device, ta ? m : k, b.device, tb ? k : n, 0, c.device, n);
    for (guint64 i = 0; i < m; i++)
      for (guint64 j = 0; j < n; j++) {
        double sum = wide ? c.host[i * n + j] : 0;
        for (guint64 z = 0; z < k; z++)
          sum += (double)a.host[ta ? z * m + i : i * k + z] * b.host[tb ? j * k + z : z * n + j];
        c.host[i * n + j] = (float)sum;
      }
    expect (s, &c, wide, wide ? "gemm_wide" : "gemm");
    drop (&a);
    drop (&b);
  }
}

/* Attention as its definition says, in double, and its gradients; one head after the other. */
typedef struct {
  guint32 batch, heads, kv_heads, dim, seq, window;
} Shape;

static double
reference_row (const Shape *t, const float *q, const float *k, guint32 row, double *p)
{
  double sum = 0, top = -1e9;
  for (guint32 j = 0; j <= row; j++) {
    p[j] = 0;
    for (guint32 x = 0; x < t->dim; x++)
      p[j] += (double)q[x] * k[(guint64)j * t->kv_heads * t->dim + x];
    p[j] /= sqrt (t->dim);
    if (t->window > 0 && row - j >= t->window)
      p[j] = -1e300;
    top = MAX (top, p[j]);
  }
  for (guint32 j = 0; j <= row; j++)
    sum += p[j] = exp (p[j] - top);
  for (guint32 j = 0; j <= row; j++)
    p[j] /= sum;
  return top + log (sum);
}

static void
test_one_attention (Setting *s, const Shape *t, gboolean keeps, guint64 scratch_count)
{
  guint64 wide = (guint64)t->heads * t->dim, narrow = (guint64)t->kv_heads * t->dim;
  guint64 rows = (guint64)t->batch * t->seq,
          n_kept = (guint64)t->batch * t->heads * t->seq * t->seq;
  Operand q = operand (s, rows * wide, FALSE, TRUE), k = operand (s, rows * narrow, FALSE, TRUE);
  Operand v = operand (s, rows * narrow, FALSE, TRUE), d = operand (s, rows * wide, FALSE, TRUE);
  Operand out = operand (s, rows * wide, FALSE, FALSE),
          d_q = operand (s, rows * wide, FALSE, FALSE);
  Operand d_k = operand (s, rows * narrow, FALSE, FALSE);
  Operand d_v = operand (s, rows * narrow, FALSE, FALSE);
  Operand lse = operand (s, rows * t->heads, TRUE, FALSE), kept = operand (s, n_kept, FALSE, FALSE);
  Operand scratch = operand (s, scratch_count, TRUE, FALSE);
  ExecAttention a = { .batch = t->batch,
                      .heads = t->heads,
                      .kv_heads = t->kv_heads,
                      .dim = t->dim,
                      .seq = t->seq,
                      .window = t->window,
                      .q = q.device,
                      .k = k.device,
                      .v = v.device,
                      .out = out.device,
                      .lse = keeps ? NULL : lse.device,
                      .softmax = keeps ? kept.device : NULL,
                      .scratch = scratch.device,
                      .scratch_count = scratch_count,
                      .d_out = d.device,
                      .d_q = d_q.device,
                      .d_k = d_k.device,
                      .d_v = d_v.device };
  s->b->attention (&a);
  s->b->attention_grad (&a);
  g_autofree double *p = g_new (double, t->seq), *d_p = g_new (double, t->seq);
  for (guint32 b = 0; b < t->batch; b++)
    for (guint32 h = 0; h < t->heads; h++)
      for (guint32 i = 0; i < t->seq; i++) {
        guint64 row = (guint64)b * t->seq + i, at = row * wide + (guint64)h * t->dim;
        guint64 kv = (guint64)b * t->seq * narrow + h / (t->heads / t->kv_heads) * t->dim;
        double dot = 0, scale = 1 / sqrt (t->dim);
        lse.host[row * t->heads + h] = (float)reference_row (t, q.host + at, k.host + kv, i, p);
        for (guint32 j = 0; j <= i; j++) {
          d_p[j] = 0;
          kept.host[(((guint64)b * t->heads + h) * t->seq + i) * t->seq + j] = (float)p[j];
          for (guint32 x = 0; x < t->dim; x++) {
            out.host[at + x] += (float)(p[j] * v.host[kv + j * narrow + x]);
            d_p[j] += (double)d.host[at + x] * v.host[kv + j * narrow + x];
            d_v.host[kv + j * narrow + x] += (float)(p[j] * d.host[at + x]);
          }
          dot += p[j] * d_p[j];
        }
        for (guint32 j = 0; j <= i; j++)
          for (guint32 x = 0; x < t->dim; x++) {
            double d_s = p[j] * (d_p[j] - dot) * scale;
            d_q.host[at + x] += (float)(d_s * k.host[kv + j * narrow + x]);
            d_k.host[kv + j * narrow + x] += (float)(d_s * q.host[at + x]);
          }
      }
  expect (s, &out, FALSE, "attention");
  expect (s, &d_q, FALSE, "attention_grad, q");
  expect (s, &d_k, FALSE, "attention_grad, k");
  expect (s, &d_v, FALSE, "attention_grad, v");
  keeps ? expect (s, &kept, FALSE, "attention, softmax") : expect (s, &lse, TRUE, "attention, lse");
  drop (keeps ? &lse : &kept);
  drop (&q);
  drop (&k);
  drop (&v);
  drop (&d);
  drop (&scratch);
}

static void
test_attention (Setting *s)
{
  static const Shape shapes[]
      = { { 1, 1, 1, 1, 1, 0 },  { 2, 3, 3, 5, 7, 0 },   { 1, 6, 2, 4, 37, 0 },
          { 2, 4, 1, 3, 67, 5 }, { 1, 4, 2, 8, 70, 70 }, { 2, 4, 2, 8, 40, 11 } };
  for (gsize i = 0; i < G_N_ELEMENTS (shapes); i++)
    for (guint keeps = 0; keeps < 2; keeps++) {
      const Shape *t = &shapes[i];
      /* as little as there may be, and room for all heads */
      guint64 least = exec_attention_scratch_count (t->seq);
      if (!is_half (s))
        test_one_attention (s, t, keeps, least);
      test_one_attention (s, t, keeps,
                          exec_attention_scratch_all (t->heads, t->kv_heads, t->dim, t->seq));
    }
}

typedef struct {
  const char *name;
  void (*run) (Setting *);
  gboolean once; /* has sizes of its own */
} Kernel;
static const Kernel kernels[]
    = { { "pointwise", test_pointwise, FALSE }, { "activate", test_activate, FALSE },
        { "norm", test_norm, FALSE },           { "rows", test_rows, FALSE },
        { "rope", test_rope, FALSE },           { "loss", test_loss, FALSE },
        { "adam", test_adam, FALSE },           { "gemm", test_gemm, FALSE },
        { "attention", test_attention, TRUE } };

static void
test_kernel (void **state)
{
  const Kernel *kernel = *state;
  for (gsize i = 0; i < (kernel->once ? 1 : G_N_ELEMENTS (sizes)); i++)
    for (guint which = 0; which < 4; which++) {
      Setting s = { &sizes[i], which % 2 ? bf16 : f32, which / 2, (guint32)(i + 1) };
      kernel->run (&s);
      assert_null (f32->failure ());
      assert_true (emu_is_intact ());
    }
}

int
main (void)
{
  struct CMUnitTest tests[G_N_ELEMENTS (kernels)];
  g_autoptr (GError) error = NULL;
  f32 = exec_backend_load ("cuda", &error);
  assert_no_error (error);
  bf16 = f32->bf16;
  if (!f32->open (0, &error)) {
    print_error ("%s\n", error->message);
    return 1;
  }
  for (gsize i = 0; i < G_N_ELEMENTS (kernels); i++)
    tests[i] = (struct CMUnitTest){ .name = kernels[i].name,
                                    .test_func = test_kernel,
                                    .initial_state = (void *)&kernels[i] };
  return cmocka_run_group_tests (tests, NULL, NULL);
}
