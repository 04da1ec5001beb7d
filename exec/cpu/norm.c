/* exec/cpu/norm.c - RMSNorm and LayerNorm; sums in double, so that the split of rows is all that
 * differs between layouts. */
#include "exec/cpu/kernels.h"

#include <math.h>

#define EPSILON 1e-5 /* LayerNorm's default in PyTorch; Llama's RMSNorm */

typedef struct {
  double mean, scale; /* normalized = (x − mean) · scale; mean 0 for RMS */
} Moments;

static Moments
moments_of (const float *x, guint64 columns, gboolean centred)
{
  double sum = 0, squares = 0, n = (double)columns;
  for (guint64 c = 0; c < columns; c++)
    sum += x[c];
  double mean = centred ? sum / n : 0;
  for (guint64 c = 0; c < columns; c++)
    squares += (x[c] - mean) * (x[c] - mean);
  return (Moments){ mean, 1 / sqrt (squares / n + EPSILON) };
}

void
cpu_norm (void *y_any, const void *x_any, const void *weight_any, const void *bias_any,
          guint64 rows, guint64 columns)
{
  float *y = y_any;
  const float *x = x_any, *weight = weight_any, *bias = bias_any;
  for (guint64 r = 0; r < rows; r++, x += columns, y += columns) {
    Moments m = moments_of (x, columns, bias != NULL);
    for (guint64 c = 0; c < columns; c++)
      y[c] = (float)((x[c] - m.mean) * m.scale) * weight[c] + (bias != NULL ? bias[c] : 0);
  }
}

/* With g = d_y·weight and n = normalized x: d_x = scale · (g − mean (g) − n · mean (g·n)), the
 * first mean for LayerNorm only. */
void
cpu_norm_grad (void *d_x_any, float *d_weight, float *d_bias, const void *d_y_any,
               const void *x_any, const void *weight_any, guint64 rows, guint64 columns)
{
  float *d_x = d_x_any;
  const float *d_y = d_y_any, *x = x_any, *weight = weight_any;
  double n = (double)columns;
  for (guint64 r = 0; r < rows; r++, x += columns, d_x += columns, d_y += columns) {
    Moments m = moments_of (x, columns, d_bias != NULL);
    double sum = 0, product = 0;
    for (guint64 c = 0; c < columns; c++) {
      double g = (double)d_y[c] * weight[c], normalized = (x[c] - m.mean) * m.scale;
      sum += g;
      product += g * normalized;
      d_weight[c] += (float)(d_y[c] * normalized);
      if (d_bias != NULL)
        d_bias[c] += d_y[c];
    }
    double mean = d_bias != NULL ? sum / n : 0;
    for (guint64 c = 0; c < columns; c++) {
      double g = (double)d_y[c] * weight[c], normalized = (x[c] - m.mean) * m.scale;
      d_x[c] = (float)(m.scale * (g - mean - normalized * product / n));
    }
  }
}
