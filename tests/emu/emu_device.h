/* tests/emu/emu_device.h - exec/cuda/device.h for a CPU: a kernel runs its blocks one after the other,
 * a phase is a loop over the threads of a block. */
#pragma once
#include <functional>
#include <tuple>

#define BLOCK  64u /* fewer than on a GPU: loops take longer than threads */
#define KERNEL static void
#define DEVICE inline
#define SHARED
#define BLOCK_ID                            emu_block
#define N_BLOCKS                            emu_n_blocks
#define PHASE                               for (unsigned thread = 0; thread < BLOCK; thread++)
#define ATOMIC_ADD(p, v)                    (*(p) += (v))
#define LAUNCH(kernel, blocks, stream, ...) emu_launch (stream, blocks, kernel, __VA_ARGS__)

extern uint64_t emu_block, emu_n_blocks;
/* Puts @work at the end of @stream; it runs when somebody waits for something. */
void emu_enqueue (cudaStream_t stream, std::function<void ()> work);

template <typename... P, typename... A>
static inline void
emu_launch (cudaStream_t stream, unsigned blocks, void (*kernel) (P...), A... arguments)
{
  std::tuple<P...> values (static_cast<P> (arguments)...);
  emu_enqueue (stream, [=] {
    emu_n_blocks = blocks;
    for (emu_block = 0; emu_block < blocks; emu_block++)
      std::apply (kernel, values);
  });
}

struct Sum {
  static float
  join (float a, float b)
  {
    return a + b;
  }
};
struct Maximum {
  static float
  join (float a, float b)
  {
    return fmaxf (a, b);
  }
};

template <typename J>
DEVICE float
block_join (float *values)
{
  for (unsigned half = BLOCK / 2; half > 0; half /= 2)
    for (unsigned i = 0; i < half; i++)
      values[i] = J::join (values[i], values[i + half]);
  return values[0];
}
