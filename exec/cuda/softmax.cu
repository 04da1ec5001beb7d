/* exec/cuda/softmax.cu - rows of exponentials: attention's softmax, cross-entropy. */
#include "exec/cuda/launch.h"

/* Row @i of a tile: head i / count, query first + i mod count. */
struct TileRow {
  uint64_t query, low, high; /* keys [low, high) are seen */
  uint64_t lse_at, kept_at;

  DEVICE
  TileRow (const CudaTile &t, uint64_t i)
  {
    const uint64_t head = t.first_head + i / t.count;
    query = t.first + i % t.count;
    low = t.window > 0 && query + 1 > t.window ? query + 1 - t.window : 0;
    high = MIN (query + 1, t.n_keys);
    lse_at = (t.batch_at * t.seq + query) * t.all_heads + head;
    kept_at = ((t.batch_at * t.all_heads + head) * t.seq + query) * t.seq;
  }
};

template <typename T>
KERNEL
softmax_kernel (CudaTile t, const float *scores, T *probabilities, float *lse, T *kept)
{
  SHARED float shared[BLOCK];
  for (uint64_t i = BLOCK_ID; i < t.heads * t.count; i += N_BLOCKS) {
    const TileRow row (t, i);
    const float *s = scores + i * t.n_keys;
    T *p = probabilities + i * t.n_keys;
    PHASE
    {
      float most = -INFINITY;
      for (uint64_t j = row.low + thread; j < row.high; j += BLOCK)
        most = fmaxf (most, s[j]);
      shared[thread] = most;
    }
    const float most = block_maximum (shared) * t.scale;
    PHASE
    {
      float sum = 0;
      for (uint64_t j = row.low + thread; j < row.high; j += BLOCK)
        sum += expf (s[j] * t.scale - most);
      shared[thread] = sum;
    }
    const float sum = block_sum (shared);
    PHASE
    {
      for (uint64_t j = thread; j < t.n_keys; j += BLOCK) {
        const bool sees = j >= row.low && j < row.high;
        p[j] = from_float<T> (sees ? expf (s[j] * t.scale - most) / sum : 0);
        if (kept != nullptr)
          kept[row.kept_at + j] = p[j];
      }
      for (uint64_t j = t.n_keys + thread; kept != nullptr && j < t.seq; j += BLOCK)
        kept[row.kept_at + j] = from_float<T> (0);
      if (lse != nullptr && thread == 0)
        lse[row.lse_at] = most + logf (sum);
    }
  }
}

template <typename T>
KERNEL
softmax_rebuild_kernel (CudaTile t, const float *scores, T *probabilities, const float *lse,
                        const T *kept)
{
  for (uint64_t i = BLOCK_ID; i < t.heads * t.count; i += N_BLOCKS) {
    const TileRow row (t, i);
    PHASE
    {
      for (uint64_t j = thread; j < t.n_keys; j += BLOCK) {
        const uint64_t at = i * t.n_keys + j;
        const bool sees = j >= row.low && j < row.high;
        if (kept != nullptr)
          probabilities[at] = kept[row.kept_at + j];
        else
          probabilities[at]
              = from_float<T> (sees ? expf (scores[at] * t.scale - lse[row.lse_at]) : 0);
      }
    }
  }
}

template <typename T>
KERNEL
softmax_grad_kernel (CudaTile t, const T *probabilities, const float *d, T *d_scores)
{
  SHARED float shared[BLOCK];
  for (uint64_t i = BLOCK_ID; i < t.heads * t.count; i += N_BLOCKS) {
    const T *p = probabilities + i * t.n_keys;
    const float *d_p = d + i * t.n_keys;
    PHASE
    {
      float sum = 0;
      for (uint64_t j = thread; j < t.n_keys; j += BLOCK)
        sum += d_p[j] * to_float (p[j]);
      shared[thread] = sum;
    }
    const float dot = block_sum (shared);
    PHASE
    {
      for (uint64_t j = thread; j < t.n_keys; j += BLOCK)
        d_scores[i * t.n_keys + j] = from_float<T> (to_float (p[j]) * (d_p[j] - dot) * t.scale);
    }
  }
}

template <typename T>
KERNEL
loss_maximum_kernel (float *maximum, const T *logits, uint64_t rows, uint64_t columns,
                     uint64_t valid)
{
  SHARED float shared[BLOCK];
  for (uint64_t r = BLOCK_ID; r < rows; r += N_BLOCKS) {
    PHASE
    {
      float most = -INFINITY;
      for (uint64_t c = thread; c < valid; c += BLOCK)
        most = fmaxf (most, to_float (logits[r * columns + c]));
      shared[thread] = most;
    }
    const float most = block_maximum (shared);
    PHASE
    {
      if (thread == 0)
        maximum[r] = most;
    }
  }
}

KERNEL
loss_exponentials_kernel (float *kept, float *sums, const float *maximum, const int32_t *targets,
                          uint64_t rows, uint64_t columns, uint64_t valid, uint64_t from)
{
  SHARED float shared[BLOCK];
  for (uint64_t r = BLOCK_ID; r < rows; r += N_BLOCKS) {
    float *row = kept + r * columns;
    PHASE
    {
      /* before anything is overwritten: the next phase starts after this one's end */
      const uint64_t target = (uint64_t)targets[r] - from;
      if (thread == 0)
        sums[2 * r + 1] = target < valid ? row[target] - maximum[r] : 0;
    }
    PHASE
    {
      float sum = 0;
      for (uint64_t c = thread; c < columns; c += BLOCK) {
        const float value = c < valid ? expf (row[c] - maximum[r]) : 0;
        row[c] = value;
        sum += value;
      }
      shared[thread] = sum;
    }
    const float sum = block_sum (shared);
    PHASE
    {
      if (thread == 0)
        sums[2 * r] = sum;
    }
  }
}

KERNEL
loss_rows_kernel (float *losses, float *kept, const float *sums, uint64_t rows, uint64_t columns)
{
  for (uint64_t r = BLOCK_ID; r < rows; r += N_BLOCKS)
    PHASE
    {
      for (uint64_t c = thread; c < columns; c += BLOCK)
        kept[r * columns + c] /= sums[2 * r];
      if (thread == 0)
        losses[r] = logf (sums[2 * r]) - sums[2 * r + 1];
    }
}

template <typename T>
KERNEL
loss_grad_kernel (T *d_logits, const float *kept, const int32_t *targets, float scale,
                  uint64_t rows, uint64_t columns, uint64_t valid, uint64_t from)
{
  for (uint64_t r = BLOCK_ID; r < rows; r += N_BLOCKS)
    PHASE
    {
      const uint64_t target = (uint64_t)targets[r] - from;
      for (uint64_t c = thread; c < columns; c += BLOCK) {
        const float hit = c == target && target < valid ? 1 : 0;
        d_logits[r * columns + c] = from_float<T> (scale * (kept[r * columns + c] - hit));
      }
    }
}

/* One block. */
KERNEL
sum_kernel (float *out, const float *values, uint64_t count)
{
  SHARED float shared[BLOCK];
  PHASE
  {
    float sum = 0;
    for (uint64_t i = thread; i < count; i += BLOCK)
      sum += values[i];
    shared[thread] = sum;
  }
  const float sum = block_sum (shared);
  PHASE
  {
    if (thread == 0)
      *out = sum;
  }
}

extern "C" void
cuda_loss_exponentials (float *kept, float *sums, const float *maximum, const gint32 *targets,
                        guint64 rows, guint64 columns, guint64 valid, guint64 from)
{
  LAUNCH (loss_exponentials_kernel, blocks_for_rows (rows), cuda_kernels.stream, kept, sums,
          maximum, targets, rows, columns, valid, from);
}

extern "C" void
cuda_loss_rows (float *losses, float *kept, const float *sums, guint64 rows, guint64 columns)
{
  LAUNCH (loss_rows_kernel, blocks_for_rows (rows), cuda_kernels.stream, losses, kept, sums, rows,
          columns);
}

extern "C" void
cuda_sum (float *out, const float *values, guint64 count)
{
  LAUNCH (sum_kernel, 1, cuda_kernels.stream, out, values, count);
}

#define EXPORT(T, P)                                                                               \
  extern "C" void P##_softmax (const CudaTile *tile, const float *scores, void *probabilities,     \
                               float *lse, void *kept)                                             \
  {                                                                                                \
    LAUNCH (softmax_kernel<T>, blocks_for_rows (tile->heads * tile->count), cuda_kernels.stream,   \
            *tile, scores, (T *)probabilities, lse, (T *)kept);                                    \
  }                                                                                                \
  extern "C" void P##_softmax_rebuild (const CudaTile *tile, const float *scores,                  \
                                       void *probabilities, const float *lse, const void *kept)    \
  {                                                                                                \
    LAUNCH (softmax_rebuild_kernel<T>, blocks_for_rows (tile->heads * tile->count),                \
            cuda_kernels.stream, *tile, scores, (T *)probabilities, lse, (const T *)kept);         \
  }                                                                                                \
  extern "C" void P##_softmax_grad (const CudaTile *tile, const void *probabilities,               \
                                    const float *d, void *d_scores)                                \
  {                                                                                                \
    LAUNCH (softmax_grad_kernel<T>, blocks_for_rows (tile->heads * tile->count),                   \
            cuda_kernels.stream, *tile, (const T *)probabilities, d, (T *)d_scores);               \
  }                                                                                                \
  extern "C" void P##_loss_maximum (float *maximum, const void *logits, guint64 rows,              \
                                    guint64 columns, guint64 valid)                                \
  {                                                                                                \
    LAUNCH (loss_maximum_kernel<T>, blocks_for_rows (rows), cuda_kernels.stream, maximum,          \
            (const T *)logits, rows, columns, valid);                                              \
  }                                                                                                \
  extern "C" void P##_loss_grad (void *d_logits, const float *kept, const gint32 *targets,         \
                                 float scale, guint64 rows, guint64 columns, guint64 valid,        \
                                 guint64 from)                                                     \
  {                                                                                                \
    LAUNCH (loss_grad_kernel<T>, blocks_for_rows (rows), cuda_kernels.stream, (T *)d_logits, kept, \
            targets, scale, rows, columns, valid, from);                                           \
  }
EXPORT (float, f32)
EXPORT (Bf16, bf16)
