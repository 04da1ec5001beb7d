/* exec/cuda/device.h - how kernels are written, so that nvcc maps them to threads and a compiler
 * for CPUs to loops (tests/emu/).
 *
 * A kernel is a sequence of phases. Within a phase a thread knows itself only (`thread`, below
 * BLOCK); at its end the block waits. What lives from phase to phase lies in SHARED arrays or is
 * the same for the whole block. Blocks and warps meet in block_sum and block_maximum alone. All
 * kernels run BLOCK threads and any number of blocks: loops stride by the grid.
 *
 * Memory is read and written 16 bytes at a time where all operands are aligned to that (`wide`,
 * decided by the host for the whole call), element by element otherwise and at the end.
 */
#pragma once
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define BLOCK    256u
#define KERNEL   static __global__ __launch_bounds__ (BLOCK) void
#define DEVICE   __device__ inline
#define SHARED   __shared__
#define BLOCK_ID ((uint64_t)blockIdx.x)
#define N_BLOCKS ((uint64_t)gridDim.x)
#define PHASE                                                                                      \
  for (unsigned thread = threadIdx.x, once_ = 1; once_ != 0; once_ = 0, __syncthreads ())
#define ATOMIC_ADD(p, v) atomicAdd (p, v)
/* clang-format off */
#define LAUNCH(kernel, blocks, stream, ...) kernel<<<blocks, BLOCK, 0, stream>>> (__VA_ARGS__)
/* clang-format on */

struct Sum {
  static DEVICE float
  join (float a, float b)
  {
    return a + b;
  }
};
struct Maximum {
  static DEVICE float
  join (float a, float b)
  {
    return fmaxf (a, b);
  }
};

/* @values: of all threads of the block, ended by a phase. The same answer for all of them. */
template <typename J>
DEVICE float
block_join (float *values)
{
  unsigned thread = threadIdx.x;
  for (unsigned half = BLOCK / 2; half >= 32; half /= 2) {
    if (thread < half)
      values[thread] = J::join (values[thread], values[thread + half]);
    __syncthreads ();
  }
  if (thread < 32) {
    float value = values[thread];
    for (int step = 16; step > 0; step /= 2)
      value = J::join (value, __shfl_down_sync (0xffffffffu, value, step));
    if (thread == 0)
      values[0] = value;
  }
  __syncthreads ();
  float all = values[0];
  __syncthreads ();
  return all;
}
#else
#include <emu_device.h>
#endif

DEVICE float
block_sum (float *values)
{
  return block_join<Sum> (values);
}

DEVICE float
block_maximum (float *values)
{
  return block_join<Maximum> (values);
}

typedef __nv_bfloat16 Bf16;

DEVICE float
to_float (float x)
{
  return x;
}
DEVICE float
to_float (Bf16 x)
{
  return __bfloat162float (x);
}
template <typename T> DEVICE T from_float (float x);
template <>
DEVICE float
from_float<float> (float x)
{
  return x;
}
template <>
DEVICE Bf16
from_float<Bf16> (float x)
{
  return __float2bfloat16 (x);
}

/* @N neighbouring elements, moved in pieces of 16 bytes. */
template <typename T, unsigned N> struct alignas (N * sizeof (T) < 16 ? N * sizeof (T) : 16) Pack
{
  T v[N];
};
template <unsigned N> struct Width {
  static constexpr unsigned n = N;
};
template <unsigned N, typename T>
DEVICE Pack<T, N>
load (const T *from)
{
  return *reinterpret_cast<const Pack<T, N> *> (from);
}
template <unsigned N, typename T>
DEVICE void
store (T *to, const Pack<T, N> &pack)
{
  *reinterpret_cast<Pack<T, N> *> (to) = pack;
}
/* Elements of @T in 16 bytes. */
template <typename T> constexpr unsigned wide_count = 16 / sizeof (T);

/* body (first element, Width<n>) for all elements of the grid; within a phase of its own. */
template <typename T, typename Body>
DEVICE void
for_elements (uint64_t count, bool wide, Body body)
{
  constexpr unsigned n = wide_count<T>;
  const uint64_t packs = wide ? count / n : 0;
  PHASE
  {
    const uint64_t first = BLOCK_ID * BLOCK + thread, stride = N_BLOCKS * BLOCK;
    for (uint64_t i = first; i < packs; i += stride)
      body (i * n, Width<n>{});
    for (uint64_t i = packs * n + first; i < count; i += stride)
      body (i, Width<1>{});
  }
}

/* The same over columns [low, high) of one row, by the threads of one block; called within a phase.
 * Packs lie at multiples of their width from the row's start; before and after them single ones. */
template <typename T, typename Body>
DEVICE void
for_span (unsigned thread, uint64_t low, uint64_t high, bool wide, Body body)
{
  constexpr unsigned n = wide_count<T>;
  const uint64_t first = (low + n - 1) / n * n, last = high / n * n;
  const bool packs = wide && first < last;
  for (uint64_t c = low + thread; c < (packs ? first : high); c += BLOCK)
    body (c, Width<1>{});
  if (!packs)
    return;
  for (uint64_t c = first + (uint64_t)thread * n; c < last; c += BLOCK * n)
    body (c, Width<n>{});
  for (uint64_t c = last + thread; c < high; c += BLOCK)
    body (c, Width<1>{});
}

/* Over one whole row, whose length packs divide where it is wide. */
template <typename T, typename Body>
DEVICE void
for_row (unsigned thread, uint64_t columns, bool wide, Body body)
{
  constexpr unsigned n = wide_count<T>;
  if (wide)
    for (uint64_t c = (uint64_t)thread * n; c < columns; c += BLOCK * n)
      body (c, Width<n>{});
  else
    for (uint64_t c = thread; c < columns; c += BLOCK)
      body (c, Width<1>{});
}
