/* exec/cuda/kernels.h - the ops of exec/backend.h as kernels, one family per element type.
 *
 * Element type: f32_ or bf16_. Everything is worked out in fp32 and rounded once, when stored.
 * Bytes moved per call, for judging achieved bandwidth, with e bytes per element, r rows, c columns
 * and n = count; small operands (weights, one number per row) left out:
 *
 *   copy, scale, cast        2·e·n          add                   3·e·n
 *   bias                     2·e·r·c        bias_grad             e·r·c
 *   embed                    2·e·r·c        embed_grad            (e + 8)·r·c
 *   norm                     2·e·r·c (row in cache: read twice)   norm_grad  5·e·r·c
 *   rope                     2·e·r·c        activate              3·e·n  (2·e·n not gated)
 *   activate_grad            5·e·n (3·e·n)  loss_maximum          e·r·c
 *   loss_exponentials        8·r·c          loss_finish           8·r·c
 *   loss_grad                (4 + e)·r·c    adam                  28·n
 *   softmax (one tile)       (4 + e)·scores
 */
#pragma once
#include "exec/backend.h"
#include <cuda_runtime.h>
G_BEGIN_DECLS

/* What kernels run on: the compute stream, and fp32 scratch of the backend itself. */
typedef struct {
  cudaStream_t stream;
  float *workspace; /* (borrowed) */
  guint64 workspace_count;
  guint32 n_blocks_max; /* enough to fill the device */
} CudaKernels;
extern CudaKernels cuda_kernels;

/* One tile of attention's scores: [heads, count, n_keys] of one sequence. */
typedef struct {
  guint32 heads, all_heads, first_head; /* of the tile, of the call, the first of the tile */
  guint32 window;
  guint64 seq, first, count, n_keys; /* queries [first, first + count) see keys below n_keys */
  guint64 batch_at;                  /* sequence */
  float scale;
} CudaTile;

#define CUDA_KERNELS(P)                                                                            \
  void P##_scale (void *x, float factor, guint64 count);                                           \
  void P##_fill (void *to, float value, guint64 count);                                            \
  void P##_add (void *out, const void *a, const void *b, guint64 count);                           \
  void P##_cast (void *to, const float *from, guint64 count);                                      \
  void P##_widen (float *to, const void *from, guint64 count);                                     \
  void P##_bias (void *y, const void *bias, guint64 rows, guint64 columns);                        \
  void P##_bias_grad (float *d_bias, const void *d_y, guint64 rows, guint64 columns);              \
  void P##_embed (void *out, const gint32 *ids, const void *table, guint64 rows, guint64 columns,  \
                  guint64 from, guint64 count);                                                    \
  void P##_embed_grad (float *d_table, const void *d_out, const gint32 *ids, guint64 rows,         \
                       guint64 columns, guint64 from, guint64 count);                              \
  void P##_positions (void *x, const void *table, guint64 rows, guint64 columns, guint64 seq);     \
  void P##_positions_grad (float *d_table, const void *d_x, guint64 first_row, guint64 rows,       \
                           guint64 columns, guint64 seq);                                          \
  void P##_norm (void *y, const void *x, const void *weight, const void *bias, guint64 rows,       \
                 guint64 columns);                                                                 \
  void P##_norm_grad (void *d_x, float *d_weight, float *d_bias, const void *d_y, const void *x,   \
                      const void *weight, guint64 rows, guint64 columns);                          \
  void P##_rope (void *out, const void *x, guint64 rows, guint32 heads, guint32 dim,               \
                 guint32 rotated, guint64 seq, int direction, guint32 shift);                      \
  void P##_activate (ExecActivation kind, void *out, const void *gate, const void *up,             \
                     guint64 count);                                                               \
  void P##_activate_grad (ExecActivation kind, void *d_gate, void *d_up, const void *d_out,        \
                          const void *gate, const void *up, guint64 count);                        \
  void P##_loss_maximum (float *maximum, const void *logits, guint64 rows, guint64 columns,        \
                         guint64 valid);                                                           \
  void P##_loss_grad (void *d_logits, const float *kept, const gint32 *targets, float scale,       \
                      guint64 rows, guint64 columns, guint64 valid, guint64 from);                 \
  /* @probabilities may be @scores where elements are fp32. */                                     \
  void P##_softmax (const CudaTile *tile, const float *scores, void *probabilities, float *lse,    \
                    void *kept);                                                                   \
  /* Probabilities again, from @kept or from scores and @lse. */                                   \
  void P##_softmax_rebuild (const CudaTile *tile, const float *scores, void *probabilities,        \
                            const float *lse, const void *kept);                                   \
  /* @d_scores = probabilities · (d − Σ d · probabilities) · scale; may be @d. */            \
  void P##_softmax_grad (const CudaTile *tile, const void *probabilities, const float *d,          \
                         void *d_scores);                                                          \
  void P##_attention (const ExecAttention *attention);                                             \
  void P##_attention_grad (const ExecAttention *attention);                                        \
  void P##_gemm (gboolean transpose_a, gboolean transpose_b, guint64 m, guint64 n, guint64 k,      \
                 const void *a, guint64 lda, const void *b, guint64 ldb, float beta, void *c,      \
                 guint64 ldc);                                                                     \
  void P##_gemm_wide (gboolean transpose_a, gboolean transpose_b, guint64 m, guint64 n, guint64 k, \
                      const void *a, guint64 lda, const void *b, guint64 ldb, float beta,          \
                      float *c, guint64 ldc);
CUDA_KERNELS (f32)
CUDA_KERNELS (bf16)

/* fp32 whatever the elements. */
void cuda_loss_exponentials (float *kept, float *sums, const float *maximum, const gint32 *targets,
                             guint64 rows, guint64 columns, guint64 valid, guint64 from);
/* Writes each row's loss to @losses; their sum is up to the caller. */
void cuda_loss_rows (float *losses, float *kept, const float *sums, guint64 rows, guint64 columns);
/* Adds to @out. */
void cuda_sum (float *out, const float *values, guint64 count);
void cuda_adam (float *weight, float *moment1, float *moment2, const float *grad, guint64 count,
                guint32 step, const float hyper[4]);
G_END_DECLS
