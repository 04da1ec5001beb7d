/* exec/cuda/launch.h - how many blocks a kernel gets, and whether it may move 16 bytes at a time. */
#pragma once
#include "exec/cuda/device.h"
#include "exec/cuda/kernels.h"

/* Blocks for @count threads' work, no more than fill the device. */
static inline unsigned
blocks_for (uint64_t count)
{
  uint64_t blocks = (count + BLOCK - 1) / BLOCK;
  return (unsigned)MAX (MIN (blocks, cuda_kernels.n_blocks_max), 1);
}

/* One block per row. */
static inline unsigned
blocks_for_rows (uint64_t rows)
{
  return (unsigned)MAX (MIN (rows, cuda_kernels.n_blocks_max), 1);
}

static inline bool
is_wide (const void *pointer)
{
  return (uintptr_t)pointer % 16 == 0;
}

template <typename... Rest>
static inline bool
is_wide (const void *first, Rest... rest)
{
  return is_wide (first) && is_wide (rest...);
}

/* Rows can be moved 16 bytes at a time if each starts at a multiple of that. */
template <typename T, typename... P>
static inline bool
has_wide_rows (uint64_t columns, P... pointers)
{
  return columns % wide_count<T> == 0 && is_wide (pointers...);
}
