/* tests/fuzz/fuzz_topo_xml.c - any bytes as NCCL and hwloc XML. */
#include "tests/fuzz/fuzz_topo.h"

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  fuzz_read_topology (data, size, "fuzz.txt");
  return 0;
}
