/* exec/backend.h - ops and memory: what a device must offer to run a program.
 *
 * A backend is a GModule that exports plait_backend (): "plait-cpu.so". All tensors are row-major
 * fp32 in the backend's memory; rows are tokens. "grad" functions of weights add to what is there,
 * all others overwrite. Kernels cannot fail: sizes are checked before they are called.
 */
#pragma once
#include "exec/comm.h"
#include <glib.h>
G_BEGIN_DECLS

typedef enum { EXEC_ACTIVATION_SILU, EXEC_ACTIVATION_GELU, EXEC_ACTIVATION_RELU } ExecActivation;

/* One attention call. Rows of q and out are batch × seq, head after head in the columns. */
typedef struct {
  guint32 batch, heads, kv_heads, dim;
  guint32 seq, window; /* window 0: full; always causal */
  const float *q, *k, *v;
  float *out;
  float *lse;     /* (nullable) [batch·seq, heads]: logarithm of the softmax' sum */
  float *softmax; /* (nullable) [batch, heads, seq, seq]: kept by unfused kernels */
  float *scratch; /* exec_attention_scratch_count elements */
  /* backward only */
  const float *d_out;
  float *d_q, *d_k, *d_v;
} ExecAttention;
/* Two tiles of scores. */
static inline guint64
exec_attention_scratch_count (guint64 seq)
{
  return 2 * MIN (seq, 64) * seq;
}

typedef struct {
  const char *name;              /* "cpu" */
  const char *(*version) (void); /* (borrowed) of the math library */
  const ExecComm *comm;
  /* Threads of the math library, for cpu-like devices. */
  void (*set_threads) (guint threads);
  float *(*memory_new) (guint64 bytes); /* (nullable) zeroed, or NULL where there is no room */
  void (*memory_free) (float *memory, guint64 bytes);
  void (*copy) (float *to, const float *from, guint64 count);
  void (*upload) (float *to, const float *host, guint64 count);
  void (*download) (float *host, const float *from, guint64 count);
  void (*fill) (float *to, float value, guint64 count);
  void (*scale) (float *x, float factor, guint64 count);
  void (*add) (float *out, const float *a, const float *b, guint64 count);
  void (*synchronize) (void); /* all work so far is done: for clocks */

  /* C[m,n] = op(A)·op(B) + beta·C, leading dimensions in elements. */
  void (*gemm) (gboolean transpose_a, gboolean transpose_b, guint64 m, guint64 n, guint64 k,
                const float *a, guint64 lda, const float *b, guint64 ldb, float beta, float *c,
                guint64 ldc);
  void (*bias) (float *y, const float *bias, guint64 rows, guint64 columns);
  void (*bias_grad) (float *d_bias, const float *d_y, guint64 rows, guint64 columns);
  /* Rows of @table [from, from + count) only; ids outside give zero rows. */
  void (*embed) (float *out, const gint32 *ids, const float *table, guint64 rows, guint64 columns,
                 guint64 from, guint64 count);
  void (*embed_grad) (float *d_table, const float *d_out, const gint32 *ids, guint64 rows,
                      guint64 columns, guint64 from, guint64 count);
  /* Row r is at position r mod seq. */
  void (*positions) (float *x, const float *table, guint64 rows, guint64 columns, guint64 seq);
  void (*positions_grad) (float *d_table, const float *d_x, guint64 first_row, guint64 rows,
                          guint64 columns, guint64 seq);
  /* RMSNorm where @bias is NULL, else LayerNorm; epsilon 1e-5. */
  void (*norm) (float *y, const float *x, const float *weight, const float *bias, guint64 rows,
                guint64 columns);
  void (*norm_grad) (float *d_x, float *d_weight, float *d_bias, const float *d_y, const float *x,
                     const float *weight, guint64 rows, guint64 columns);
  /* Rotates the first @rotated elements of every head, halves paired; base 10,000. @direction: 1, or
   * -1 for the gradient. @shift is added to every position. */
  void (*rope) (float *out, const float *x, guint64 rows, guint32 heads, guint32 dim,
                guint32 rotated, guint64 seq, int direction, guint32 shift);
  void (*attention) (const ExecAttention *attention);
  void (*attention_grad) (const ExecAttention *attention);
  /* @up: (nullable) where the MLP is not gated */
  void (*activate) (ExecActivation kind, float *out, const float *gate, const float *up,
                    guint64 count);
  void (*activate_grad) (ExecActivation kind, float *d_gate, float *d_up, const float *d_out,
                         const float *gate, const float *up, guint64 count);
  /* Cross-entropy over a vocabulary split by columns, in three steps around two exchanges. Columns
   * from @valid on are padding. */
  void (*loss_maximum) (float *maximum, const float *logits, guint64 rows, guint64 columns,
                        guint64 valid);
  /* @kept becomes exp (kept − maximum); @sums: per row the sum, then the target's logit less the
   * maximum, or 0 where the target is on another rank. */
  void (*loss_exponentials) (float *kept, float *sums, const float *maximum, const gint32 *targets,
                             guint64 rows, guint64 columns, guint64 valid, guint64 from);
  /* Divides by the sums; returns Σ over rows of log (sum) − target. */
  double (*loss_finish) (float *kept, const float *sums, guint64 rows, guint64 columns);
  void (*loss_grad) (float *d_logits, const float *kept, const gint32 *targets, float scale,
                     guint64 rows, guint64 columns, guint64 valid, guint64 from);
  /* Adam with bias correction of step @step (from 1); rate, betas, epsilon. */
  void (*adam) (float *weight, float *moment1, float *moment2, const float *grad, guint64 count,
                guint32 step, const float hyper[4]);
  /* (nullable) Bytes this process holds on its device, as the driver counts them: the arena, and
   * what libraries keep for themselves. */
  guint64 (*resident_bytes) (void);
} ExecBackend;

typedef const ExecBackend *(*ExecBackendFunc) (void);
#define EXEC_BACKEND_SYMBOL "plait_backend"

/* Finds and loads plait-NAME.so: $PLAIT_MODULE_DIR, the build tree, libdir. (borrowed, for good) */
const ExecBackend *exec_backend_load (const char *name, GError **error);
G_END_DECLS
