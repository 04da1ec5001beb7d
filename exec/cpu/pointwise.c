/* exec/cpu/pointwise.c - activations, cross-entropy, Adam.
 *
 * Compiled with -ffast-math, so that loops over expf and erff use the C library's vector forms.
 */
#include "exec/cpu/kernels.h"

#include <math.h>

#define SQRT_HALF     0.70710678118654752f
#define INV_SQRT_2_PI 0.39894228040143268f

/* Inlined with a constant @kind: a branch inside a loop keeps it from being vectorised. */
static inline float
value_of (ExecActivation kind, float x)
{
  if (kind == EXEC_ACTIVATION_RELU)
    return x > 0 ? x : 0;
  if (kind == EXEC_ACTIVATION_SILU)
    return x / (1 + expf (-x));
  return 0.5f * x * (1 + erff (x * SQRT_HALF));
}

static inline float
slope_of (ExecActivation kind, float x)
{
  if (kind == EXEC_ACTIVATION_RELU)
    return x > 0 ? 1 : 0;
  if (kind == EXEC_ACTIVATION_SILU) {
    float s = 1 / (1 + expf (-x));
    return s * (1 + x * (1 - s));
  }
  return 0.5f * (1 + erff (x * SQRT_HALF)) + x * INV_SQRT_2_PI * expf (-0.5f * x * x);
}

static inline void
activate (ExecActivation kind, float *restrict out, const float *restrict gate,
          const float *restrict up, guint64 count)
{
  if (up == NULL)
    for (guint64 i = 0; i < count; i++)
      out[i] = value_of (kind, gate[i]);
  else
    for (guint64 i = 0; i < count; i++)
      out[i] = value_of (kind, gate[i]) * up[i];
}

void
cpu_activate (ExecActivation kind, void *out, const void *gate, const void *up, guint64 count)
{
  if (kind == EXEC_ACTIVATION_RELU)
    activate (EXEC_ACTIVATION_RELU, out, gate, up, count);
  else if (kind == EXEC_ACTIVATION_SILU)
    activate (EXEC_ACTIVATION_SILU, out, gate, up, count);
  else
    activate (EXEC_ACTIVATION_GELU, out, gate, up, count);
}

static inline void
activate_grad (ExecActivation kind, float *restrict d_gate, float *restrict d_up,
               const float *restrict d_out, const float *restrict gate, const float *restrict up,
               guint64 count)
{
  if (up == NULL)
    for (guint64 i = 0; i < count; i++)
      d_gate[i] = d_out[i] * slope_of (kind, gate[i]);
  else
    for (guint64 i = 0; i < count; i++) {
      d_gate[i] = d_out[i] * slope_of (kind, gate[i]) * up[i];
      d_up[i] = d_out[i] * value_of (kind, gate[i]);
    }
}

void
cpu_activate_grad (ExecActivation kind, void *d_gate, void *d_up, const void *d_out,
                   const void *gate, const void *up, guint64 count)
{
  if (kind == EXEC_ACTIVATION_RELU)
    activate_grad (EXEC_ACTIVATION_RELU, d_gate, d_up, d_out, gate, up, count);
  else if (kind == EXEC_ACTIVATION_SILU)
    activate_grad (EXEC_ACTIVATION_SILU, d_gate, d_up, d_out, gate, up, count);
  else
    activate_grad (EXEC_ACTIVATION_GELU, d_gate, d_up, d_out, gate, up, count);
}

void
cpu_loss_maximum (float *maximum, const void *logits_any, guint64 rows, guint64 columns,
                  guint64 valid)
{
  const float *logits = logits_any;
  for (guint64 r = 0; r < rows; r++) {
    float most = -G_MAXFLOAT;
    for (guint64 c = 0; c < valid; c++)
      most = MAX (most, logits[r * columns + c]);
    maximum[r] = most;
  }
}

void
cpu_loss_exponentials (float *kept, float *sums, const float *maximum, const gint32 *targets,
                       guint64 rows, guint64 columns, guint64 valid, guint64 from)
{
  for (guint64 r = 0; r < rows; r++, kept += columns) {
    guint64 target = (guint64)targets[r] - from;
    double sum = 0;
    sums[2 * r + 1] = target < valid ? kept[target] - maximum[r] : 0;
    for (guint64 c = 0; c < valid; c++)
      kept[c] = expf (kept[c] - maximum[r]);
    for (guint64 c = 0; c < valid; c++)
      sum += kept[c];
    for (guint64 c = valid; c < columns; c++)
      kept[c] = 0;
    sums[2 * r] = (float)sum;
  }
}

void
cpu_loss_finish (float *kept, const float *sums, guint64 rows, guint64 columns, float *total)
{
  double loss = 0;
  for (guint64 r = 0; r < rows; r++) {
    for (guint64 c = 0; c < columns; c++)
      kept[r * columns + c] /= sums[2 * r];
    loss += log (sums[2 * r]) - sums[2 * r + 1];
  }
  *total += (float)loss;
}

void
cpu_loss_grad (void *d_logits_any, const float *kept, const gint32 *targets, float scale,
               guint64 rows, guint64 columns, guint64 valid, guint64 from)
{
  float *d_logits = d_logits_any;
  for (guint64 r = 0; r < rows; r++) {
    guint64 target = (guint64)targets[r] - from;
    for (guint64 c = 0; c < columns; c++)
      d_logits[r * columns + c] = scale * kept[r * columns + c];
    if (target < valid)
      d_logits[r * columns + target] -= scale;
  }
}

/* Kingma and Ba 2015, algorithm 1. */
void
cpu_adam (float *weight, float *moment1, float *moment2, const float *grad, guint64 count,
          guint32 step, const float hyper[4])
{
  float rate = hyper[0], beta1 = hyper[1], beta2 = hyper[2], epsilon = hyper[3];
  float correct1 = 1 / (1 - powf (beta1, (float)step));
  float correct2 = 1 / (1 - powf (beta2, (float)step));
  for (guint64 i = 0; i < count; i++) {
    moment1[i] = beta1 * moment1[i] + (1 - beta1) * grad[i];
    moment2[i] = beta2 * moment2[i] + (1 - beta2) * grad[i] * grad[i];
    weight[i] -= rate * moment1[i] * correct1 / (sqrtf (moment2[i] * correct2) + epsilon);
  }
}
