/* exec/cuda/rows.cu - kernels over rows of tokens: norms, embeddings, positions, biases, rotary. */
#include "exec/cuda/launch.h"

#define EPSILON   1e-5f   /* LayerNorm's default in PyTorch; Llama's RMSNorm */
#define ROPE_BASE 10000.0 /* RoFormer (Su et al. 2021), section 3.2.2 */

struct Moments {
  float mean, scale; /* normalized = (x − mean) · scale; mean 0 for RMS */
};

/* Two passes: the second over squares of differences, as one pass would cancel. */
template <typename T>
DEVICE Moments
moments_of (const T *x, uint64_t columns, bool centred, bool wide, float *shared)
{
  float mean = 0;
  if (centred) {
    PHASE
    {
      float sum = 0;
      for_row<T> (thread, columns, wide, [&] (uint64_t c, auto width) {
        constexpr unsigned n = decltype (width)::n;
        const Pack<T, n> p = load<n> (x + c);
        for (unsigned i = 0; i < n; i++)
          sum += to_float (p.v[i]);
      });
      shared[thread] = sum;
    }
    mean = block_sum (shared) / (float)columns;
  }
  PHASE
  {
    float sum = 0;
    for_row<T> (thread, columns, wide, [&] (uint64_t c, auto width) {
      constexpr unsigned n = decltype (width)::n;
      const Pack<T, n> p = load<n> (x + c);
      for (unsigned i = 0; i < n; i++) {
        const float off = to_float (p.v[i]) - mean;
        sum += off * off;
      }
    });
    shared[thread] = sum;
  }
  const float squares = block_sum (shared);
  return Moments{ mean, 1 / sqrtf (squares / (float)columns + EPSILON) };
}

template <typename T>
KERNEL
norm_kernel (T *y, const T *x, const T *weight, const T *bias, uint64_t rows, uint64_t columns,
             bool wide)
{
  SHARED float shared[BLOCK];
  for (uint64_t r = BLOCK_ID; r < rows; r += N_BLOCKS) {
    const T *in = x + r * columns;
    T *out = y + r * columns;
    const Moments m = moments_of (in, columns, bias != nullptr, wide, shared);
    PHASE
    {
      for_row<T> (thread, columns, wide, [&] (uint64_t c, auto width) {
        constexpr unsigned n = decltype (width)::n;
        const Pack<T, n> p = load<n> (in + c), w = load<n> (weight + c);
        Pack<T, n> b = w, result;
        if (bias != nullptr)
          b = load<n> (bias + c);
        for (unsigned i = 0; i < n; i++) {
          const float value = (to_float (p.v[i]) - m.mean) * m.scale * to_float (w.v[i]);
          result.v[i] = from_float<T> (bias != nullptr ? value + to_float (b.v[i]) : value);
        }
        store<n> (out + c, result);
      });
    }
  }
}

/* With g = d_y·weight and n = normalized x: d_x = scale · (g − mean (g) − n · mean (g·n)), the
 * first mean for LayerNorm only. @moments: two numbers per row for what follows. */
template <typename T>
KERNEL
norm_grad_kernel (T *d_x, float *moments, const T *d_y, const T *x, const T *weight, bool centred,
                  uint64_t rows, uint64_t columns, bool wide)
{
  SHARED float shared[BLOCK], shared_product[BLOCK];
  for (uint64_t r = BLOCK_ID; r < rows; r += N_BLOCKS) {
    const T *in = x + r * columns, *d_out = d_y + r * columns;
    T *d_in = d_x + r * columns;
    const Moments m = moments_of (in, columns, centred, wide, shared);
    PHASE
    {
      float sum = 0, product = 0;
      for_row<T> (thread, columns, wide, [&] (uint64_t c, auto width) {
        constexpr unsigned n = decltype (width)::n;
        const Pack<T, n> p = load<n> (in + c), d = load<n> (d_out + c), w = load<n> (weight + c);
        for (unsigned i = 0; i < n; i++) {
          const float g = to_float (d.v[i]) * to_float (w.v[i]);
          sum += g;
          product += g * (to_float (p.v[i]) - m.mean) * m.scale;
        }
      });
      shared[thread] = sum;
      shared_product[thread] = product;
      if (thread == 0) {
        moments[2 * r] = m.mean;
        moments[2 * r + 1] = m.scale;
      }
    }
    const float total = block_sum (shared) / (float)columns;
    const float product = block_sum (shared_product) / (float)columns;
    const float mean = centred ? total : 0;
    PHASE
    {
      for_row<T> (thread, columns, wide, [&] (uint64_t c, auto width) {
        constexpr unsigned n = decltype (width)::n;
        const Pack<T, n> p = load<n> (in + c), d = load<n> (d_out + c), w = load<n> (weight + c);
        Pack<T, n> result;
        for (unsigned i = 0; i < n; i++) {
          const float g = to_float (d.v[i]) * to_float (w.v[i]);
          const float normalized = (to_float (p.v[i]) - m.mean) * m.scale;
          result.v[i] = from_float<T> (m.scale * (g - mean - normalized * product));
        }
        store<n> (d_in + c, result);
      });
    }
  }
}

/* Sums over rows, column by column: a block takes COLUMN_TILE columns of one slice of the rows and
 * writes partial sums, a second kernel adds the slices in order: the same bits every time. */
#define COLUMN_TILE 32u
#define ROW_LANES   (BLOCK / COLUMN_TILE)

template <typename T> struct PlainColumn {
  const T *d_y;
  uint64_t columns;
  DEVICE float
  at (uint64_t r, uint64_t c) const
  {
    return to_float (d_y[r * columns + c]);
  }
};

template <typename T> struct NormColumn {
  const T *d_y, *x;
  const float *moments;
  uint64_t columns;
  DEVICE float
  at (uint64_t r, uint64_t c) const
  {
    const uint64_t i = r * columns + c;
    return to_float (d_y[i]) * (to_float (x[i]) - moments[2 * r]) * moments[2 * r + 1];
  }
};

template <typename Column>
KERNEL
column_partial_kernel (float *partial, Column column, uint64_t rows, uint64_t columns,
                       uint64_t slices)
{
  SHARED float shared[BLOCK];
  const uint64_t tiles = (columns + COLUMN_TILE - 1) / COLUMN_TILE;
  for (uint64_t b = BLOCK_ID; b < tiles * slices; b += N_BLOCKS) {
    const uint64_t first = b % tiles * COLUMN_TILE, slice = b / tiles;
    PHASE
    {
      const uint64_t c = first + thread % COLUMN_TILE;
      float sum = 0;
      for (uint64_t r = slice + thread / COLUMN_TILE * slices; c < columns && r < rows;
           r += ROW_LANES * slices)
        sum += column.at (r, c);
      shared[thread] = sum;
    }
    PHASE
    {
      const uint64_t c = first + thread;
      if (thread < COLUMN_TILE && c < columns) {
        float sum = 0;
        for (unsigned lane = 0; lane < ROW_LANES; lane++)
          sum += shared[lane * COLUMN_TILE + thread];
        partial[slice * columns + c] = sum;
      }
    }
  }
}

KERNEL
column_finish_kernel (float *out, const float *partial, uint64_t columns, uint64_t slices)
{
  PHASE
  {
    for (uint64_t c = BLOCK_ID * BLOCK + thread; c < columns; c += N_BLOCKS * BLOCK) {
      float sum = 0;
      for (uint64_t s = 0; s < slices; s++)
        sum += partial[s * columns + c];
      out[c] += sum;
    }
  }
}

/* @partial: @room elements, at least @columns. */
template <typename Column>
static void
add_columns (float *out, Column column, uint64_t rows, uint64_t columns, float *partial,
             uint64_t room)
{
  const uint64_t tiles = (columns + COLUMN_TILE - 1) / COLUMN_TILE;
  const uint64_t useful = MAX (MIN (rows / ROW_LANES, cuda_kernels.n_blocks_max / tiles), 1);
  const uint64_t slices = MIN (useful, room / columns);
  LAUNCH (column_partial_kernel<Column>, blocks_for_rows (tiles * slices), cuda_kernels.stream,
          partial, column, rows, columns, slices);
  LAUNCH (column_finish_kernel, blocks_for (columns), cuda_kernels.stream, out, partial, columns,
          slices);
}

/* Columns in pieces that the workspace holds. */
template <typename T>
static void
norm_grad (T *d_x, float *d_weight, float *d_bias, const T *d_y, const T *x, const T *weight,
           uint64_t rows, uint64_t columns)
{
  const uint64_t half = cuda_kernels.workspace_count / 2;
  const bool wide = has_wide_rows<T> (columns, d_x, d_y, x, weight);
  float *moments = cuda_kernels.workspace, *partial = cuda_kernels.workspace + half;
  for (uint64_t first = 0; first < rows; first += half / 2) {
    const uint64_t n = MIN (rows - first, half / 2), at = first * columns;
    LAUNCH (norm_grad_kernel<T>, blocks_for_rows (n), cuda_kernels.stream, d_x + at, moments,
            d_y + at, x + at, weight, d_bias != NULL, n, columns, wide);
    add_columns (d_weight, NormColumn<T>{ d_y + at, x + at, moments, columns }, n, columns, partial,
                 half);
    if (d_bias != NULL)
      add_columns (d_bias, PlainColumn<T>{ d_y + at, columns }, n, columns, partial, half);
  }
}

template <typename T>
KERNEL
bias_kernel (T *y, const T *bias, uint64_t rows, uint64_t columns, bool wide)
{
  for (uint64_t r = BLOCK_ID; r < rows; r += N_BLOCKS)
    PHASE
    {
      for_row<T> (thread, columns, wide, [&] (uint64_t c, auto width) {
        constexpr unsigned n = decltype (width)::n;
        Pack<T, n> p = load<n> (y + r * columns + c);
        const Pack<T, n> b = load<n> (bias + c);
        for (unsigned i = 0; i < n; i++)
          p.v[i] = from_float<T> (to_float (p.v[i]) + to_float (b.v[i]));
        store<n> (y + r * columns + c, p);
      });
    }
}

template <typename T>
KERNEL
positions_kernel (T *x, const T *table, uint64_t rows, uint64_t columns, uint64_t seq, bool wide)
{
  for (uint64_t r = BLOCK_ID; r < rows; r += N_BLOCKS)
    PHASE
    {
      for_row<T> (thread, columns, wide, [&] (uint64_t c, auto width) {
        constexpr unsigned n = decltype (width)::n;
        Pack<T, n> p = load<n> (x + r * columns + c);
        const Pack<T, n> row = load<n> (table + r % seq * columns + c);
        for (unsigned i = 0; i < n; i++)
          p.v[i] = from_float<T> (to_float (p.v[i]) + to_float (row.v[i]));
        store<n> (x + r * columns + c, p);
      });
    }
}

/* A block per position; the rows at that position one after the other. */
template <typename T>
KERNEL
positions_grad_kernel (float *d_table, const T *d_x, uint64_t first_row, uint64_t rows,
                       uint64_t columns, uint64_t seq)
{
  for (uint64_t p = BLOCK_ID; p < MIN (rows, seq); p += N_BLOCKS)
    PHASE
    {
      const uint64_t at = (first_row + p) % seq;
      for (uint64_t c = thread; c < columns; c += BLOCK) {
        float sum = 0;
        for (uint64_t r = first_row + p; r < first_row + rows; r += seq)
          sum += to_float (d_x[r * columns + c]);
        d_table[at * columns + c] += sum;
      }
    }
}

template <typename T>
KERNEL
embed_kernel (T *out, const int32_t *ids, const T *table, uint64_t rows, uint64_t columns,
              uint64_t from, uint64_t count, bool wide)
{
  for (uint64_t r = BLOCK_ID; r < rows; r += N_BLOCKS)
    PHASE
    {
      const uint64_t at = (uint64_t)ids[r] - from; /* wraps round below @from */
      for_row<T> (thread, columns, wide, [&] (uint64_t c, auto width) {
        constexpr unsigned n = decltype (width)::n;
        Pack<T, n> p;
        if (at < count)
          p = load<n> (table + at * columns + c);
        else
          for (unsigned i = 0; i < n; i++)
            p.v[i] = from_float<T> (0);
        store<n> (out + r * columns + c, p);
      });
    }
}

/* Tokens may repeat, so sums are atomic: their order is not fixed. */
template <typename T>
KERNEL
embed_grad_kernel (float *d_table, const T *d_out, const int32_t *ids, uint64_t rows,
                   uint64_t columns, uint64_t from, uint64_t count)
{
  for (uint64_t r = BLOCK_ID; r < rows; r += N_BLOCKS)
    PHASE
    {
      const uint64_t at = (uint64_t)ids[r] - from;
      for (uint64_t c = thread; at < count && c < columns; c += BLOCK)
        ATOMIC_ADD (&d_table[at * columns + c], to_float (d_out[r * columns + c]));
    }
}

/* A block per row; sines and cosines of BLOCK pairs at a time, for all heads. @W neighbouring pairs
 * are turned at once: half the rotated elements and a whole head are multiples of that. */
template <typename T, unsigned W>
KERNEL
rope_kernel (T *out, const T *x, uint64_t rows, uint32_t heads, uint32_t dim, uint32_t rotated,
             uint64_t seq, int direction, uint32_t shift)
{
  SHARED float sines[BLOCK], cosines[BLOCK];
  const uint32_t half = rotated / 2, plain = dim - 2 * half;
  for (uint64_t r = BLOCK_ID; r < rows; r += N_BLOCKS) {
    const uint64_t row = r * heads * dim;
    for (uint32_t first = 0; first < half; first += BLOCK) {
      const uint32_t n = MIN (half - first, BLOCK);
      PHASE
      {
        const double step = pow (ROPE_BASE, -2.0 * (first + thread) / rotated);
        const double angle = (double)(r % seq + shift) * step;
        if (thread < n) {
          sines[thread] = (float)sin (angle) * (float)direction;
          cosines[thread] = (float)cos (angle);
        }
      }
      PHASE
      {
        const uint32_t packs = n / W;
        for (uint32_t i = thread; i < heads * packs; i += BLOCK) {
          const uint32_t pair = i % packs * W;
          const uint64_t at = row + (uint64_t)(i / packs) * dim + first + pair;
          const Pack<T, W> low = load<W> (x + at), high = load<W> (x + at + half);
          Pack<T, W> low_out, high_out;
          for (unsigned e = 0; e < W; e++) {
            const float a = to_float (low.v[e]), b = to_float (high.v[e]);
            const float sine = sines[pair + e], cosine = cosines[pair + e];
            low_out.v[e] = from_float<T> (a * cosine - b * sine);
            high_out.v[e] = from_float<T> (b * cosine + a * sine);
          }
          store<W> (out + at, low_out);
          store<W> (out + at + half, high_out);
        }
      }
    }
    PHASE
    {
      const uint32_t packs = plain / W;
      for (uint32_t i = thread; i < heads * packs; i += BLOCK) {
        const uint64_t at = row + (uint64_t)(i / packs) * dim + 2 * half + i % packs * W;
        store<W> (out + at, load<W> (x + at));
      }
    }
  }
}

template <typename T>
static void
rope (T *out, const T *x, uint64_t rows, uint32_t heads, uint32_t dim, uint32_t rotated,
      uint64_t seq, int direction, uint32_t shift)
{
  constexpr unsigned n = wide_count<T>;
  const unsigned blocks = blocks_for_rows (rows);
  if (rotated / 2 % n == 0 && has_wide_rows<T> (dim, out, x))
    LAUNCH ((rope_kernel<T, n>), blocks, cuda_kernels.stream, out, x, rows, heads, dim, rotated,
            seq, direction, shift);
  else
    LAUNCH ((rope_kernel<T, 1>), blocks, cuda_kernels.stream, out, x, rows, heads, dim, rotated,
            seq, direction, shift);
}

#define EXPORT(T, P)                                                                               \
  extern "C" void P##_norm (void *y, const void *x, const void *weight, const void *bias,          \
                            guint64 rows, guint64 columns)                                         \
  {                                                                                                \
    LAUNCH (norm_kernel<T>, blocks_for_rows (rows), cuda_kernels.stream, (T *)y, (const T *)x,     \
            (const T *)weight, (const T *)bias, rows, columns,                                     \
            has_wide_rows<T> (columns, y, x, weight, bias));                                       \
  }                                                                                                \
  extern "C" void P##_norm_grad (void *d_x, float *d_weight, float *d_bias, const void *d_y,       \
                                 const void *x, const void *weight, guint64 rows, guint64 columns) \
  {                                                                                                \
    norm_grad<T> ((T *)d_x, d_weight, d_bias, (const T *)d_y, (const T *)x, (const T *)weight,     \
                  rows, columns);                                                                  \
  }                                                                                                \
  extern "C" void P##_bias (void *y, const void *bias, guint64 rows, guint64 columns)              \
  {                                                                                                \
    LAUNCH (bias_kernel<T>, blocks_for_rows (rows), cuda_kernels.stream, (T *)y, (const T *)bias,  \
            rows, columns, has_wide_rows<T> (columns, y, bias));                                   \
  }                                                                                                \
  extern "C" void P##_bias_grad (float *d_bias, const void *d_y, guint64 rows, guint64 columns)    \
  {                                                                                                \
    add_columns (d_bias, PlainColumn<T>{ (const T *)d_y, columns }, rows, columns,                 \
                 cuda_kernels.workspace, cuda_kernels.workspace_count);                            \
  }                                                                                                \
  extern "C" void P##_positions (void *x, const void *table, guint64 rows, guint64 columns,        \
                                 guint64 seq)                                                      \
  {                                                                                                \
    LAUNCH (positions_kernel<T>, blocks_for_rows (rows), cuda_kernels.stream, (T *)x,              \
            (const T *)table, rows, columns, seq, has_wide_rows<T> (columns, x, table));           \
  }                                                                                                \
  extern "C" void P##_positions_grad (float *d_table, const void *d_x, guint64 first_row,          \
                                      guint64 rows, guint64 columns, guint64 seq)                  \
  {                                                                                                \
    LAUNCH (positions_grad_kernel<T>, blocks_for_rows (MIN (rows, seq)), cuda_kernels.stream,      \
            d_table, (const T *)d_x, first_row, rows, columns, seq);                               \
  }                                                                                                \
  extern "C" void P##_embed (void *out, const gint32 *ids, const void *table, guint64 rows,        \
                             guint64 columns, guint64 from, guint64 count)                         \
  {                                                                                                \
    LAUNCH (embed_kernel<T>, blocks_for_rows (rows), cuda_kernels.stream, (T *)out, ids,           \
            (const T *)table, rows, columns, from, count, has_wide_rows<T> (columns, out, table)); \
  }                                                                                                \
  extern "C" void P##_embed_grad (float *d_table, const void *d_out, const gint32 *ids,            \
                                  guint64 rows, guint64 columns, guint64 from, guint64 count)      \
  {                                                                                                \
    LAUNCH (embed_grad_kernel<T>, blocks_for_rows (rows), cuda_kernels.stream, d_table,            \
            (const T *)d_out, ids, rows, columns, from, count);                                    \
  }                                                                                                \
  extern "C" void P##_rope (void *out, const void *x, guint64 rows, guint32 heads, guint32 dim,    \
                            guint32 rotated, guint64 seq, int direction, guint32 shift)            \
  {                                                                                                \
    rope<T> ((T *)out, (const T *)x, rows, heads, dim, rotated, seq, direction, shift);            \
  }
EXPORT (float, f32)
EXPORT (Bf16, bf16)
