/* tests/emu/stream.hh - work of a stream: tried until it says that it is done. */
#pragma once
#include <cuda_runtime.h>
#include <functional>
/* @work returns TRUE when it is done; FALSE: try again when something else has moved. */
void emu_enqueue_until (cudaStream_t stream, std::function<bool ()> work);
/* The same for a kernel: done when it has run. */
void emu_enqueue (cudaStream_t stream, std::function<void ()> work);
/* Device memory that libraries take for themselves, or give back. */
void emu_take (long long bytes);
/* Figures that tests know again; odd ones, so that sums tell what is in them. */
#define EMU_PROCESSORS         7 /* small and odd: loops over the grid stride */
#define EMU_CONTEXT_BYTES      (301LL << 20)
#define EMU_CUBLAS_BYTES       (7LL << 20)
#define EMU_COMMUNICATOR_BYTES (67LL << 20)
