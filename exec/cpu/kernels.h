/* exec/cpu/kernels.h - the ops of exec/backend.h in plain C and CBLAS. */
#pragma once
#include "exec/backend.h"
G_BEGIN_DECLS
void cpu_gemm (gboolean transpose_a, gboolean transpose_b, guint64 m, guint64 n, guint64 k,
               const void *a, guint64 lda, const void *b, guint64 ldb, float beta, void *c,
               guint64 ldc);
void cpu_gemm_wide (gboolean transpose_a, gboolean transpose_b, guint64 m, guint64 n, guint64 k,
                    const void *a, guint64 lda, const void *b, guint64 ldb, float beta, float *c,
                    guint64 ldc);
void cpu_bias (void *y, const void *bias, guint64 rows, guint64 columns);
void cpu_bias_grad (float *d_bias, const void *d_y, guint64 rows, guint64 columns);
void cpu_embed (void *out, const gint32 *ids, const void *table, guint64 rows, guint64 columns,
                guint64 from, guint64 count);
void cpu_embed_grad (float *d_table, const void *d_out, const gint32 *ids, guint64 rows,
                     guint64 columns, guint64 from, guint64 count);
void cpu_positions (void *x, const void *table, guint64 rows, guint64 columns, guint64 seq);
void cpu_positions_grad (float *d_table, const void *d_x, guint64 first_row, guint64 rows,
                         guint64 columns, guint64 seq);
void cpu_norm (void *y, const void *x, const void *weight, const void *bias, guint64 rows,
               guint64 columns);
void cpu_norm_grad (void *d_x, float *d_weight, float *d_bias, const void *d_y, const void *x,
                    const void *weight, guint64 rows, guint64 columns);
void cpu_rope (void *out, const void *x, guint64 rows, guint32 heads, guint32 dim, guint32 rotated,
               guint64 seq, int direction, guint32 shift);
void cpu_attention (const ExecAttention *attention);
void cpu_attention_grad (const ExecAttention *attention);
void cpu_activate (ExecActivation kind, void *out, const void *gate, const void *up, guint64 count);
void cpu_activate_grad (ExecActivation kind, void *d_gate, void *d_up, const void *d_out,
                        const void *gate, const void *up, guint64 count);
void cpu_loss_maximum (float *maximum, const void *logits, guint64 rows, guint64 columns,
                       guint64 valid);
void cpu_loss_exponentials (float *kept, float *sums, const float *maximum, const gint32 *targets,
                            guint64 rows, guint64 columns, guint64 valid, guint64 from);
void cpu_loss_finish (float *kept, const float *sums, guint64 rows, guint64 columns, float *total);
void cpu_loss_grad (void *d_logits, const float *kept, const gint32 *targets, float scale,
                    guint64 rows, guint64 columns, guint64 valid, guint64 from);
void cpu_adam (float *weight, float *moment1, float *moment2, const float *grad, guint64 count,
               guint32 step, const float hyper[4]);
extern const ExecComm cpu_comm_mpi;
G_END_DECLS
