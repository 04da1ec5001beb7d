/* tests/fuzz/fuzz_measurement.c - any bytes as output of nccl-tests and nvbandwidth. */
#include "tests/fuzz/fuzz_topo.h"

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  fuzz_read_topology (data, size, "fuzz.txt");
  return 0;
}
