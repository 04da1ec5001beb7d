/* exec/cuda/attention.c - causal attention as batched GEMMs and a softmax, a tile of queries of as
 * many heads as the scratch holds at a time, so that s² scores are never stored. It is not
 * FlashAttention: scores go through memory, so its time says nothing about other frameworks. */
#include "exec/cuda/gemm-private.h"

#include <math.h>

#define MOST_QUERIES 256 /* of a tile: enough rows to fill a GEMM's tiles */

/* One tile: queries of kv heads [g0, g0 + gn), and of the query heads that share each of them
 * [j0, j0 + jn); all of them where gn > 1. */
typedef struct {
  const ExecAttention *a;
  cudaDataType type;
  gsize element_bytes;
  guint32 shared; /* query heads per kv head */
  guint32 g0, gn, j0, jn;
  CudaTile tile;
  float *scores;    /* fp32 [heads, count, n_keys] */
  char *half[2];    /* the same of elements; half[0] may be scores */
  float *second;    /* a second buffer of scores */
  float *d_k, *d_v; /* (nullable) fp32 sums of one sequence */
} Tile;

static char *
at (const Tile *t, const void *tensor, guint64 element)
{
  return (char *)tensor + element * t->element_bytes;
}

static guint64
q_at (const Tile *t, guint32 j)
{
  const ExecAttention *a = t->a;
  guint64 row = t->tile.batch_at * a->seq + t->tile.first;
  return (row * a->heads + t->g0 * t->shared + t->j0 + j) * a->dim;
}

static guint64
kv_at (const Tile *t)
{
  const ExecAttention *a = t->a;
  return (t->tile.batch_at * a->seq * a->kv_heads + t->g0) * a->dim;
}

/* Scores of query head @j of each kv head. */
static guint64
score_at (const Tile *t, guint32 j)
{
  return j * t->tile.count * t->tile.n_keys;
}

static long long
score_stride (const Tile *t)
{
  return (long long)(t->jn * t->tile.count * t->tile.n_keys);
}

/* out[count, n_keys] = x · yᵀ for rows of queries and of keys. */
static void
by_keys (const Tile *t, const void *x, const void *y, float *out)
{
  const ExecAttention *a = t->a;
  for (guint32 j = 0; j < t->jn; j++)
    cuda_gemm (&(CudaGemm){ .transpose_b = TRUE,
                            .m = t->tile.count,
                            .n = t->tile.n_keys,
                            .k = a->dim,
                            .a = at (t, x, q_at (t, j)),
                            .lda = (guint64)a->heads * a->dim,
                            .stride_a = (long long)t->shared * a->dim,
                            .b = at (t, y, kv_at (t)),
                            .ldb = (guint64)a->kv_heads * a->dim,
                            .stride_b = a->dim,
                            .c = out + score_at (t, j),
                            .ldc = t->tile.n_keys,
                            .stride_c = score_stride (t),
                            .type = t->type,
                            .type_c = CUDA_R_32F,
                            .batch = t->gn });
}

/* out[count, dim] = p · y: from scores and rows of keys to rows of queries. */
static void
to_queries (const Tile *t, const void *p, const void *y, void *out)
{
  const ExecAttention *a = t->a;
  for (guint32 j = 0; j < t->jn; j++)
    cuda_gemm (&(CudaGemm){ .m = t->tile.count,
                            .n = a->dim,
                            .k = t->tile.n_keys,
                            .a = at (t, p, score_at (t, j)),
                            .lda = t->tile.n_keys,
                            .stride_a = score_stride (t),
                            .b = at (t, y, kv_at (t)),
                            .ldb = (guint64)a->kv_heads * a->dim,
                            .stride_b = a->dim,
                            .c = at (t, out, q_at (t, j)),
                            .ldc = (guint64)a->heads * a->dim,
                            .stride_c = (long long)t->shared * a->dim,
                            .type = t->type,
                            .type_c = t->type,
                            .batch = t->gn });
}

/* out[n_keys, dim] += pᵀ · x: from scores and rows of queries to rows of keys, head after head. */
static void
to_keys (const Tile *t, const void *p, const void *x, float *sums, void *out)
{
  const ExecAttention *a = t->a;
  void *c = sums != NULL ? (void *)(sums + (guint64)t->g0 * a->dim) : at (t, out, kv_at (t));
  for (guint32 j = 0; j < t->jn; j++)
    cuda_gemm (&(CudaGemm){ .transpose_a = TRUE,
                            .m = t->tile.n_keys,
                            .n = a->dim,
                            .k = t->tile.count,
                            .a = at (t, p, score_at (t, j)),
                            .lda = t->tile.n_keys,
                            .stride_a = score_stride (t),
                            .b = at (t, x, q_at (t, j)),
                            .ldb = (guint64)a->heads * a->dim,
                            .stride_b = (long long)t->shared * a->dim,
                            .beta = 1,
                            .c = c,
                            .ldc = (guint64)a->kv_heads * a->dim,
                            .stride_c = a->dim,
                            .type = t->type,
                            .type_c = sums != NULL ? CUDA_R_32F : t->type,
                            .batch = t->gn });
}

static void
forward_tile (const Tile *t)
{
  const ExecAttention *a = t->a;
  by_keys (t, a->q, a->k, t->scores);
  if (t->type == CUDA_R_32F)
    f32_softmax (&t->tile, t->scores, t->half[0], a->lse, a->softmax);
  else
    bf16_softmax (&t->tile, t->scores, t->half[0], a->lse, a->softmax);
  to_queries (t, t->half[0], a->v, a->out);
}

static void
backward_tile (const Tile *t)
{
  const ExecAttention *a = t->a;
  gboolean wide = t->type == CUDA_R_32F;
  if (a->softmax == NULL)
    by_keys (t, a->q, a->k, t->scores);
  if (wide)
    f32_softmax_rebuild (&t->tile, t->scores, t->half[0], a->lse, a->softmax);
  else
    bf16_softmax_rebuild (&t->tile, t->scores, t->half[0], a->lse, a->softmax);
  to_keys (t, t->half[0], a->d_out, t->d_v, a->d_v);
  by_keys (t, a->d_out, a->v, t->second);
  if (wide)
    f32_softmax_grad (&t->tile, t->half[0], t->second, t->half[1]);
  else
    bf16_softmax_grad (&t->tile, t->half[0], t->second, t->half[1]);
  to_queries (t, t->half[1], a->k, a->d_q);
  to_keys (t, t->half[1], a->q, t->d_k, a->d_k);
}

/* fp32: probabilities replace scores, the second buffer holds gradients. Otherwise one buffer holds
 * fp32 scores, then their gradients, the other one both results in elements. */
static void
place_buffers (Tile *t, float *scratch, guint64 room)
{
  t->scores = scratch;
  if (t->type == CUDA_R_32F) {
    t->second = scratch + room;
    t->half[0] = (char *)t->scores;
    t->half[1] = (char *)t->second;
    return;
  }
  t->second = scratch;
  t->half[0] = (char *)(scratch + room);
  t->half[1] = (char *)(scratch + room) + room * t->element_bytes;
}

/* How many heads and queries of @t fit a buffer of @room scores per query head and key. */
static guint64
choose_tile (Tile *t, guint64 room)
{
  const ExecAttention *a = t->a;
  guint64 most = MIN (a->seq, MOST_QUERIES);
  guint64 heads = MAX (room / (most * a->seq), 1);
  t->gn = (guint32)CLAMP (heads / t->shared, 1, a->kv_heads);
  t->jn = t->gn > 1 ? t->shared : (guint32)MIN (heads, t->shared);
  guint64 queries = CLAMP (room / ((guint64)t->gn * t->jn * a->seq), 1, most);
  return queries < 8 ? queries : queries / 8 * 8; /* so that rows of scores are whole packs */
}

static void
run_tile (Tile *t, guint64 queries, float *scratch, guint64 room, void (*work) (const Tile *))
{
  const ExecAttention *a = t->a;
  for (guint64 first = 0; first < a->seq; first += queries) {
    guint64 count = MIN (queries, a->seq - first);
    t->tile = (CudaTile){ .heads = t->gn * t->jn,
                          .all_heads = a->heads,
                          .first_head = t->g0 * t->shared + t->j0,
                          .window = a->window,
                          .seq = a->seq,
                          .first = first,
                          .count = count,
                          .n_keys = first + count,
                          .batch_at = t->tile.batch_at,
                          .scale = (float)(1 / sqrt ((double)a->dim)) };
    place_buffers (t, scratch, room);
    work (t);
  }
}

static void
for_heads (Tile *t, float *scratch, guint64 scratch_count, void (*work) (const Tile *))
{
  const ExecAttention *a = t->a;
  /* both buffers start at a multiple of 16 bytes where there is room to choose */
  guint64 room = scratch_count / 2 >= 16 ? scratch_count / 2 / 8 * 8 : scratch_count / 2;
  guint64 queries = choose_tile (t, room);
  guint32 gn = t->gn, jn = t->jn;
  for (t->g0 = 0; t->g0 < a->kv_heads; t->g0 += gn)
    for (t->j0 = 0; t->j0 < t->shared; t->j0 += jn) {
      t->gn = MIN (gn, a->kv_heads - t->g0);
      t->jn = MIN (jn, t->shared - t->j0);
      run_tile (t, queries, scratch, room, work);
    }
  t->gn = gn;
  t->jn = jn;
}

static guint64
scratch_of (const ExecAttention *a)
{
  return MAX (a->scratch_count, exec_attention_scratch_count (a->seq));
}

static void
forward (const ExecAttention *a, cudaDataType type)
{
  Tile t = { .a = a, .type = type, .shared = a->heads / a->kv_heads };
  t.element_bytes = type == CUDA_R_32F ? 4 : 2;
  for (guint32 b = 0; b < a->batch; b++) {
    t.tile.batch_at = b;
    for_heads (&t, a->scratch, scratch_of (a), forward_tile);
  }
}

static void
backward (const ExecAttention *a, cudaDataType type)
{
  Tile t = { .a = a, .type = type, .shared = a->heads / a->kv_heads };
  guint64 n = (guint64)a->seq * a->kv_heads * a->dim, room = scratch_of (a);
  gboolean sums = type != CUDA_R_32F && room >= 2 * n + exec_attention_scratch_count (a->seq);
  t.element_bytes = type == CUDA_R_32F ? 4 : 2;
  for (guint32 b = 0; b < a->batch; b++) {
    t.tile.batch_at = b;
    if (sums) {
      t.d_k = a->scratch;
      t.d_v = a->scratch + n;
      f32_fill (a->scratch, 0, 2 * n);
      for_heads (&t, a->scratch + 2 * n, room - 2 * n, backward_tile);
      bf16_cast (at (&t, a->d_k, b * n), t.d_k, n);
      bf16_cast (at (&t, a->d_v, b * n), t.d_v, n);
      continue;
    }
    (type == CUDA_R_32F ? f32_fill : bf16_fill) (at (&t, a->d_k, b * n), 0, n);
    (type == CUDA_R_32F ? f32_fill : bf16_fill) (at (&t, a->d_v, b * n), 0, n);
    for_heads (&t, a->scratch, room, backward_tile);
  }
}

void
f32_attention (const ExecAttention *attention)
{
  forward (attention, CUDA_R_32F);
}

void
bf16_attention (const ExecAttention *attention)
{
  forward (attention, CUDA_R_16BF);
}

void
f32_attention_grad (const ExecAttention *attention)
{
  backward (attention, CUDA_R_32F);
}

void
bf16_attention_grad (const ExecAttention *attention)
{
  backward (attention, CUDA_R_16BF);
}
