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

  DEVICE bool
  sees (uint64_t key) const
  {
    return key >= low && key < high;
  }
};

/* Packs are those of @T, of fp32 too: two pieces of 16 bytes beside one of bf16. */
template <typename T>
KERNEL
softmax_kernel (CudaTile t, const float *scores, T *probabilities, float *lse, T *kept, bool wide)
{
  SHARED float shared[BLOCK];
  for (uint64_t i = BLOCK_ID; i < t.heads * t.count; i += N_BLOCKS) {
    const TileRow row (t, i);
    const float *s = scores + i * t.n_keys;
    T *p = probabilities + i * t.n_keys;
    PHASE
    {
      float most = -INFINITY;
      for_span<T> (thread, row.low, row.high, wide, [&] (uint64_t j, auto width) {
        constexpr unsigned n = decltype (width)::n;
        const Pack<float, n> x = load<n> (s + j);
        for (unsigned i = 0; i < n; i++)
          most = fmaxf (most, x.v[i]);
      });
      shared[thread] = most;
    }
    const float most = block_maximum (shared) * t.scale;
    PHASE
    {
      float sum = 0;
      for_span<T> (thread, row.low, row.high, wide, [&] (uint64_t j, auto width) {
        constexpr unsigned n = decltype (width)::n;
        const Pack<float, n> x = load<n> (s + j);
        for (unsigned i = 0; i < n; i++)
          sum += expf (x.v[i] * t.scale - most);
      });
      shared[thread] = sum;
    }
    const float sum = block_sum (shared);
    PHASE
    {
      for_row<T> (thread, t.n_keys, wide, [&] (uint64_t j, auto width) {
        constexpr unsigned n = decltype (width)::n;
        const Pack<float, n> x = load<n> (s + j);
        Pack<T, n> result;
        for (unsigned i = 0; i < n; i++)
          result.v[i] = from_float<T> (row.sees (j + i) ? expf (x.v[i] * t.scale - most) / sum : 0);
        store<n> (p + j, result);
        if (kept != nullptr)
          store<n> (kept + row.kept_at + j, result);
      });
      if (kept != nullptr)
        for_span<T> (thread, t.n_keys, t.seq, wide, [&] (uint64_t j, auto width) {
          constexpr unsigned n = decltype (width)::n;
          Pack<T, n> nothing;
          for (unsigned i = 0; i < n; i++)
            nothing.v[i] = from_float<T> (0);
          store<n> (kept + row.kept_at + j, nothing);
        });
      if (lse != nullptr && thread == 0)
        lse[row.lse_at] = most + logf (sum);
    }
  }
}

template <typename T>
KERNEL
softmax_rebuild_kernel (CudaTile t, const float *scores, T *probabilities, const float *lse,
                        const T *kept, bool wide)
{
  for (uint64_t i = BLOCK_ID; i < t.heads * t.count; i += N_BLOCKS) {
    const TileRow row (t, i);
    PHASE
    {
      for_row<T> (thread, t.n_keys, wide, [&] (uint64_t j, auto width) {
        constexpr unsigned n = decltype (width)::n;
        const uint64_t at = i * t.n_keys + j;
        if (kept != nullptr) {
          store<n> (probabilities + at, load<n> (kept + row.kept_at + j));
          return;
        }
        const Pack<float, n> x = load<n> (scores + at);
        const float log_sum = lse[row.lse_at];
        Pack<T, n> result;
        for (unsigned e = 0; e < n; e++)
          result.v[e] = from_float<T> (row.sees (j + e) ? expf (x.v[e] * t.scale - log_sum) : 0);
        store<n> (probabilities + at, result);
      });
    }
  }
}

template <typename T>
KERNEL
softmax_grad_kernel (CudaTile t, const T *probabilities, const float *d, T *d_scores, bool wide)
{
  SHARED float shared[BLOCK];
  for (uint64_t i = BLOCK_ID; i < t.heads * t.count; i += N_BLOCKS) {
    const T *p = probabilities + i * t.n_keys;
    const float *d_p = d + i * t.n_keys;
    PHASE
    {
      float sum = 0;
      for_row<T> (thread, t.n_keys, wide, [&] (uint64_t j, auto width) {
        constexpr unsigned n = decltype (width)::n;
        const Pack<float, n> g = load<n> (d_p + j);
        const Pack<T, n> x = load<n> (p + j);
        for (unsigned e = 0; e < n; e++)
          sum += g.v[e] * to_float (x.v[e]);
      });
      shared[thread] = sum;
    }
    const float dot = block_sum (shared);
    PHASE
    {
      for_row<T> (thread, t.n_keys, wide, [&] (uint64_t j, auto width) {
        constexpr unsigned n = decltype (width)::n;
        const Pack<float, n> g = load<n> (d_p + j);
        const Pack<T, n> x = load<n> (p + j);
        Pack<T, n> result;
        for (unsigned e = 0; e < n; e++)
          result.v[e] = from_float<T> (to_float (x.v[e]) * (g.v[e] - dot) * t.scale);
        store<n> (d_scores + i * t.n_keys + j, result);
      });
    }
  }
}

template <typename T>
KERNEL
loss_maximum_kernel (float *maximum, const T *logits, uint64_t rows, uint64_t columns,
                     uint64_t valid, bool wide)
{
  SHARED float shared[BLOCK];
  for (uint64_t r = BLOCK_ID; r < rows; r += N_BLOCKS) {
    PHASE
    {
      float most = -INFINITY;
      for_span<T> (thread, 0, valid, wide, [&] (uint64_t c, auto width) {
        constexpr unsigned n = decltype (width)::n;
        const Pack<T, n> x = load<n> (logits + r * columns + c);
        for (unsigned i = 0; i < n; i++)
          most = fmaxf (most, to_float (x.v[i]));
      });
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
                          uint64_t rows, uint64_t columns, uint64_t valid, uint64_t from, bool wide)
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
      for_row<float> (thread, columns, wide, [&] (uint64_t c, auto width) {
        constexpr unsigned n = decltype (width)::n;
        Pack<float, n> x = load<n> (row + c);
        for (unsigned i = 0; i < n; i++) {
          x.v[i] = c + i < valid ? expf (x.v[i] - maximum[r]) : 0;
          sum += x.v[i];
        }
        store<n> (row + c, x);
      });
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
loss_rows_kernel (float *losses, float *kept, const float *sums, uint64_t rows, uint64_t columns,
                  bool wide)
{
  for (uint64_t r = BLOCK_ID; r < rows; r += N_BLOCKS)
    PHASE
    {
      for_row<float> (thread, columns, wide, [&] (uint64_t c, auto width) {
        constexpr unsigned n = decltype (width)::n;
        Pack<float, n> x = load<n> (kept + r * columns + c);
        for (unsigned i = 0; i < n; i++)
          x.v[i] /= sums[2 * r];
        store<n> (kept + r * columns + c, x);
      });
      if (thread == 0)
        losses[r] = logf (sums[2 * r]) - sums[2 * r + 1];
    }
}

template <typename T>
KERNEL
loss_grad_kernel (T *d_logits, const float *kept, const int32_t *targets, float scale,
                  uint64_t rows, uint64_t columns, uint64_t valid, uint64_t from, bool wide)
{
  for (uint64_t r = BLOCK_ID; r < rows; r += N_BLOCKS)
    PHASE
    {
      const uint64_t target = (uint64_t)targets[r] - from;
      for_row<T> (thread, columns, wide, [&] (uint64_t c, auto width) {
        constexpr unsigned n = decltype (width)::n;
        const Pack<float, n> p = load<n> (kept + r * columns + c);
        Pack<T, n> result;
        for (unsigned i = 0; i < n; i++) {
          const float hit = c + i == target && target < valid ? 1 : 0;
          result.v[i] = from_float<T> (scale * (p.v[i] - hit));
        }
        store<n> (d_logits + r * columns + c, result);
      });
    }
}

/* One block; adds to @out. */
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
      *out += sum;
  }
}

extern "C" void
cuda_loss_exponentials (float *kept, float *sums, const float *maximum, const gint32 *targets,
                        guint64 rows, guint64 columns, guint64 valid, guint64 from)
{
  LAUNCH (loss_exponentials_kernel, blocks_for_rows (rows), cuda_kernels.stream, kept, sums,
          maximum, targets, rows, columns, valid, from, has_wide_rows<float> (columns, kept));
}

extern "C" void
cuda_loss_rows (float *losses, float *kept, const float *sums, guint64 rows, guint64 columns)
{
  LAUNCH (loss_rows_kernel, blocks_for_rows (rows), cuda_kernels.stream, losses, kept, sums, rows,
          columns, has_wide_rows<float> (columns, kept));
}

extern "C" void
cuda_sum (float *out, const float *values, guint64 count)
{
  LAUNCH (sum_kernel, 1, cuda_kernels.stream, out, values, count);
}

/* Of scores and probabilities alike; kept ones have rows of their own length. */
template <typename T>
static bool
has_wide_tile (const CudaTile *tile, const float *scores, const void *probabilities,
               const void *other)
{
  return has_wide_rows<T> (tile->n_keys, scores, probabilities, other)
         && tile->seq % wide_count<T> == 0;
}

#define EXPORT(T, P)                                                                               \
  extern "C" void P##_softmax (const CudaTile *tile, const float *scores, void *probabilities,     \
                               float *lse, void *kept)                                             \
  {                                                                                                \
    LAUNCH (softmax_kernel<T>, blocks_for_rows (tile->heads * tile->count), cuda_kernels.stream,   \
            *tile, scores, (T *)probabilities, lse, (T *)kept,                                     \
            has_wide_tile<T> (tile, scores, probabilities, kept));                                 \
  }                                                                                                \
  extern "C" void P##_softmax_rebuild (const CudaTile *tile, const float *scores,                  \
                                       void *probabilities, const float *lse, const void *kept)    \
  {                                                                                                \
    LAUNCH (softmax_rebuild_kernel<T>, blocks_for_rows (tile->heads * tile->count),                \
            cuda_kernels.stream, *tile, scores, (T *)probabilities, lse, (const T *)kept,          \
            has_wide_tile<T> (tile, scores, probabilities, kept));                                 \
  }                                                                                                \
  extern "C" void P##_softmax_grad (const CudaTile *tile, const void *probabilities,               \
                                    const float *d, void *d_scores)                                \
  {                                                                                                \
    LAUNCH (softmax_grad_kernel<T>, blocks_for_rows (tile->heads * tile->count),                   \
            cuda_kernels.stream, *tile, (const T *)probabilities, d, (T *)d_scores,                \
            has_wide_tile<T> (tile, d, probabilities, d_scores));                                  \
  }                                                                                                \
  extern "C" void P##_loss_maximum (float *maximum, const void *logits, guint64 rows,              \
                                    guint64 columns, guint64 valid)                                \
  {                                                                                                \
    LAUNCH (loss_maximum_kernel<T>, blocks_for_rows (rows), cuda_kernels.stream, maximum,          \
            (const T *)logits, rows, columns, valid, has_wide_rows<T> (columns, logits));          \
  }                                                                                                \
  extern "C" void P##_loss_grad (void *d_logits, const float *kept, const gint32 *targets,         \
                                 float scale, guint64 rows, guint64 columns, guint64 valid,        \
                                 guint64 from)                                                     \
  {                                                                                                \
    LAUNCH (loss_grad_kernel<T>, blocks_for_rows (rows), cuda_kernels.stream, (T *)d_logits, kept, \
            targets, scale, rows, columns, valid, from,                                            \
            has_wide_rows<T> (columns, d_logits, kept));                                           \
  }
EXPORT (float, f32)
EXPORT (Bf16, bf16)
