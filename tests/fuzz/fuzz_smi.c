/* tests/fuzz/fuzz_smi.c - any bytes as nvidia-smi topo matrices inside pasted text. */
#include "tests/fuzz/fuzz_topo.h"

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  fuzz_read_topology (data, size, "fuzz.txt");
  return 0;
}
