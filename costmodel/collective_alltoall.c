/* costmodel/collective_alltoall.c - every rank sends to every other directly.
 *
 *   S = kA2A (1 + log2 g)   W = (n-1+copy)/n   SN = sqrt (k-1)   WN = (n-g)/n
 * per byte that one rank holds. NCCL sends messages of up to alltoall_low bytes per peer in LL
 * (NCCL_P2P_LL_THRESHOLD, 16 KiB), which moves as many flags as data: half the bandwidth. The copy
 * to oneself takes wire steps that differ by generation: the link grows faster than what copies.
 * On PCIe the pairs also share uplinks and links between CPUs: the (g-1)/n that stay inside take no
 * less than those take at alltoall_uplink of their peak (topo/contention.h says how far they fill).
 * Source: reference "collective-model" §2; copy and protocols: docs/model.md.
 */
#include "costmodel/collective-private.h"

#include <math.h>

static gboolean
price (const CostWire *wire, ModelCollectiveKind kind, CostWay *way)
{
  double n = wire->n, k = wire->k, g = wire->g;
  if (kind != MODEL_COLLECTIVE_ALL_TO_ALL
      || (wire->protocol == COST_PROTOCOL_LOW && !cost_wire_has_protocols (wire)))
    return FALSE;
  double bulk_from_bytes = n * wire->numbers->alltoall_low_bytes + 1;
  CostWire paced
      = cost_wire_in_protocol (wire, wire->numbers->low_alltoall_ratio, 1, bulk_from_bytes, way);
  if (wire->protocol == COST_PROTOCOL_BULK && cost_wire_has_protocols (wire))
    paced.link_s_per_byte /= wire->numbers->alltoall_bandwidth_ratio;
  double inside = (g - 1) / (n - 1 + wire->alltoall_delta);
  paced.link_s_per_byte = fmax (paced.link_s_per_byte, inside * wire->alltoall_shared_s_per_byte);
  cost_way_set (way, &paced, wire->alltoall_steps * (1 + log2 (g)),
                (n - 1 + wire->alltoall_delta) / n, sqrt (k - 1), (n - g) / n,
                cost_wire_fill (wire));
  cost_way_set_rise (way, wire);
  return TRUE;
}

const CostAlgorithm cost_algorithm_alltoall = { "direct", "direct", price };
