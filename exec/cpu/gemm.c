/* exec/cpu/gemm.c - linear layers through CBLAS, biases, embedding tables. */
#include "exec/cpu/kernels.h"

#include <cblas.h>
#include <string.h>

void
cpu_gemm (gboolean transpose_a, gboolean transpose_b, guint64 m, guint64 n, guint64 k,
          const void *a, guint64 lda, const void *b, guint64 ldb, float beta, void *c, guint64 ldc)
{
  cblas_sgemm (CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
               transpose_b ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, 1, a, (int)lda, b,
               (int)ldb, beta, c, (int)ldc);
}

void
cpu_gemm_wide (gboolean transpose_a, gboolean transpose_b, guint64 m, guint64 n, guint64 k,
               const void *a, guint64 lda, const void *b, guint64 ldb, float beta, float *c,
               guint64 ldc)
{
  cpu_gemm (transpose_a, transpose_b, m, n, k, a, lda, b, ldb, beta, c, ldc);
}

void
cpu_bias (void *y_any, const void *bias_any, guint64 rows, guint64 columns)
{
  float *y = y_any;
  const float *bias = bias_any;
  for (guint64 r = 0; r < rows; r++)
    for (guint64 c = 0; c < columns; c++)
      y[r * columns + c] += bias[c];
}

void
cpu_bias_grad (float *d_bias, const void *d_y_any, guint64 rows, guint64 columns)
{
  const float *d_y = d_y_any;
  for (guint64 r = 0; r < rows; r++)
    for (guint64 c = 0; c < columns; c++)
      d_bias[c] += d_y[r * columns + c];
}

void
cpu_embed (void *out_any, const gint32 *ids, const void *table_any, guint64 rows, guint64 columns,
           guint64 from, guint64 count)
{
  float *out = out_any;
  const float *table = table_any;
  for (guint64 r = 0; r < rows; r++) {
    guint64 at = (guint64)ids[r] - from; /* wraps round below @from */
    if (at < count)
      memcpy (out + r * columns, table + at * columns, columns * sizeof (float));
    else
      memset (out + r * columns, 0, columns * sizeof (float));
  }
}

void
cpu_embed_grad (float *d_table, const void *d_out_any, const gint32 *ids, guint64 rows,
                guint64 columns, guint64 from, guint64 count)
{
  const float *d_out = d_out_any;
  for (guint64 r = 0; r < rows; r++) {
    guint64 at = (guint64)ids[r] - from;
    for (guint64 c = 0; at < count && c < columns; c++)
      d_table[at * columns + c] += d_out[r * columns + c];
  }
}

void
cpu_positions (void *x_any, const void *table_any, guint64 rows, guint64 columns, guint64 seq)
{
  float *x = x_any;
  const float *table = table_any;
  for (guint64 r = 0; r < rows; r++)
    for (guint64 c = 0; c < columns; c++)
      x[r * columns + c] += table[r % seq * columns + c];
}

void
cpu_positions_grad (float *d_table, const void *d_x_any, guint64 first_row, guint64 rows,
                    guint64 columns, guint64 seq)
{
  const float *d_x = d_x_any;
  for (guint64 r = first_row; r < first_row + rows; r++)
    for (guint64 c = 0; c < columns; c++)
      d_table[r % seq * columns + c] += d_x[r * columns + c];
}
