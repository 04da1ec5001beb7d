/* tests/emu/stream.hh - work of a stream: tried until it says that it is done. */
#pragma once
#include <cuda_runtime.h>
#include <functional>
/* @work returns TRUE when it is done; FALSE: try again when something else has moved. */
void emu_enqueue_until (cudaStream_t stream, std::function<bool ()> work);
