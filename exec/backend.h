/* exec/backend.h - ops and memory: what a device must offer to run a program.
 *
 * A backend is a GModule that exports plait_backend (): "plait-cpu.so". Tensors are row-major in the
 * backend's memory; rows are tokens. `void *` is an array of the table's elements, fp32 unless it is
 * the table `bf16` of another; `float *` is fp32 in every table. "grad" functions of weights add to
 * what is there, all others overwrite. Kernels cannot fail for their sizes, which are checked
 * before; what a device reports later comes through failure ().
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
  const void *q, *k, *v;
  void *out;
  float *lse;     /* (nullable) [batch·seq, heads]: logarithm of the softmax' sum */
  void *softmax;  /* (nullable) [batch, heads, seq, seq]: kept by unfused kernels */
  float *scratch; /* scratch_count elements, at least exec_attention_scratch_count */
  guint64 scratch_count;
  /* backward only */
  const void *d_out;
  void *d_q, *d_k, *d_v;
} ExecAttention;
/* Two tiles of scores of one head: what any backend can work with, though slowly on a GPU. */
static inline guint64
exec_attention_scratch_count (guint64 seq)
{
  return 2 * MIN (seq, 64) * seq;
}

/* Tiles of 256 queries of all heads at once, and fp32 sums of the gradients of keys and values. */
static inline guint64
exec_attention_scratch_all (guint64 heads, guint64 kv_heads, guint64 dim, guint64 seq)
{
  return 2 * heads * MIN (seq, 256) * seq + 2 * seq * kv_heads * dim
         + exec_attention_scratch_count (seq);
}

typedef struct ExecBackend ExecBackend;
struct ExecBackend {
  const char *name;              /* "cpu" */
  const char *(*version) (void); /* (borrowed) of the math library */
  const ExecComm *comm;
  /* Threads of the math library, for cpu-like devices. */
  void (*set_threads) (guint threads);
  float *(*memory_new) (guint64 bytes); /* (nullable) zeroed, or NULL where there is no room */
  void (*memory_free) (float *memory, guint64 bytes);
  void (*copy) (void *to, const void *from, guint64 count); /* elements */
  void (*cast) (void *to, const float *from, guint64 count);
  void (*widen) (float *to, const void *from, guint64 count);
  void (*upload) (float *to, const float *host, guint64 count);
  void (*download) (float *host, const float *from, guint64 count);
  void (*fill) (void *to, float value, guint64 count);
  void (*scale) (void *x, float factor, guint64 count);
  void (*add) (void *out, const void *a, const void *b, guint64 count);
  void (*synchronize) (void); /* all work so far is done: for clocks */

  /* (nullable) The same device with elements of bf16; its comm sums and moves bf16. */
  const ExecBackend *bf16;
  /* (nullable) Names the transport with which ranks under mpirun or srun find each other. */
  void (*bootstrap) (const ExecComm *mpi);
  /* (nullable) Says what is missing for a run of @ranks ranks on this node: driver, device, library.
   * Takes no memory of a device. */
  gboolean (*probe) (guint32 ranks, GError **error);
  /* (nullable) Devices of this node that a run may use, 0 without. Takes no memory of any. */
  guint32 (*device_count) (void);
  /* (nullable) Takes device @local_rank modulo their count; before anything else but comm->open. */
  gboolean (*open) (guint32 local_rank, GError **error);
  void (*close) (void); /* (nullable) */
  /* (nullable) What the device or its libraries reported since open; NULL: nothing. (borrowed) */
  const char *(*failure) (void);
  /* (nullable) Clocks of the device: mark (i) is passed when the work so far is done; elapsed is
   * valid after synchronize. Without them the host's clock is read around every op. */
  void (*mark) (guint index);
  double (*elapsed_s) (guint from, guint to);
  gboolean (*passed) (guint index); /* has the device come to it? TRUE too after a failure */
  /* (nullable) Looks at the device's state, while it works: clocks, power, why it is slowed down. */
  void (*observe) (void);
  /* (nullable) The device in words, and its state when it was last observed, else now. */
  char *(*describe) (void); /* (owned) */

  /* C[m,n] = op(A)·op(B) + beta·C, leading dimensions in elements. */
  void (*gemm) (gboolean transpose_a, gboolean transpose_b, guint64 m, guint64 n, guint64 k,
                const void *a, guint64 lda, const void *b, guint64 ldb, float beta, void *c,
                guint64 ldc);
  /* The same into fp32: gradients of weights. */
  void (*gemm_wide) (gboolean transpose_a, gboolean transpose_b, guint64 m, guint64 n, guint64 k,
                     const void *a, guint64 lda, const void *b, guint64 ldb, float beta, float *c,
                     guint64 ldc);
  void (*bias) (void *y, const void *bias, guint64 rows, guint64 columns);
  void (*bias_grad) (float *d_bias, const void *d_y, guint64 rows, guint64 columns);
  /* Rows of @table [from, from + count) only; ids outside give zero rows. */
  void (*embed) (void *out, const gint32 *ids, const void *table, guint64 rows, guint64 columns,
                 guint64 from, guint64 count);
  void (*embed_grad) (float *d_table, const void *d_out, const gint32 *ids, guint64 rows,
                      guint64 columns, guint64 from, guint64 count);
  /* Row r is at position r mod seq. */
  void (*positions) (void *x, const void *table, guint64 rows, guint64 columns, guint64 seq);
  void (*positions_grad) (float *d_table, const void *d_x, guint64 first_row, guint64 rows,
                          guint64 columns, guint64 seq);
  /* RMSNorm where @bias is NULL, else LayerNorm; epsilon 1e-5. */
  void (*norm) (void *y, const void *x, const void *weight, const void *bias, guint64 rows,
                guint64 columns);
  void (*norm_grad) (void *d_x, float *d_weight, float *d_bias, const void *d_y, const void *x,
                     const void *weight, guint64 rows, guint64 columns);
  /* Rotates the first @rotated elements of every head, halves paired; base 10,000. @direction: 1, or
   * -1 for the gradient. @shift is added to every position. */
  void (*rope) (void *out, const void *x, guint64 rows, guint32 heads, guint32 dim, guint32 rotated,
                guint64 seq, int direction, guint32 shift);
  void (*attention) (const ExecAttention *attention);
  void (*attention_grad) (const ExecAttention *attention);
  /* @up: (nullable) where the MLP is not gated */
  void (*activate) (ExecActivation kind, void *out, const void *gate, const void *up,
                    guint64 count);
  void (*activate_grad) (ExecActivation kind, void *d_gate, void *d_up, const void *d_out,
                         const void *gate, const void *up, guint64 count);
  /* Cross-entropy over a vocabulary split by columns, in three steps around two exchanges. Columns
   * from @valid on are padding. */
  void (*loss_maximum) (float *maximum, const void *logits, guint64 rows, guint64 columns,
                        guint64 valid);
  /* @kept becomes exp (kept − maximum); @sums: per row the sum, then the target's logit less the
   * maximum, or 0 where the target is on another rank. */
  void (*loss_exponentials) (float *kept, float *sums, const float *maximum, const gint32 *targets,
                             guint64 rows, guint64 columns, guint64 valid, guint64 from);
  /* Divides by the sums; adds Σ over rows of log (sum) − target to @total, in the backend's memory. */
  void (*loss_finish) (float *kept, const float *sums, guint64 rows, guint64 columns, float *total);
  void (*loss_grad) (void *d_logits, const float *kept, const gint32 *targets, float scale,
                     guint64 rows, guint64 columns, guint64 valid, guint64 from);
  /* Adam with bias correction of step @step (from 1); rate, betas, epsilon. */
  void (*adam) (float *weight, float *moment1, float *moment2, const float *grad, guint64 count,
                guint32 step, const float hyper[4]);
  /* (nullable) Bytes this process holds on its device, as the driver counts them: the arena, and
   * what libraries keep for themselves. */
  guint64 (*resident_bytes) (void);
  /* (nullable) The same while the device was opened: its context, what the math library then took to
   * work in, and all of it with what our kernels took. NULL: nothing is opened, and resident_bytes
   * of a process that has not begun is its context. */
  void (*opened_bytes) (guint64 *out_context, guint64 *out_workspace, guint64 *out_all);
};

typedef const ExecBackend *(*ExecBackendFunc) (void);
#define EXEC_BACKEND_SYMBOL "plait_backend"

/* Finds and loads plait-NAME.so: $PLAIT_MODULE_DIR, the build tree, libdir. (borrowed, for good) */
const ExecBackend *exec_backend_load (const char *name, GError **error);
G_END_DECLS
