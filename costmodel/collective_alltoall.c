/* costmodel/collective_alltoall.c - every rank sends to every other directly.
 *
 *   S = kA2A (1 + log2 g)   W = (n-1+delta)/n   SN = sqrt (k-1)   WN = (n-g)/n
 * per byte that one rank holds. Source: reference "collective-model" §2.
 */
#include "costmodel/collective-private.h"

#include <math.h>

static gboolean
price (const CostWire *wire, ModelCollectiveKind kind, CostWay *way)
{
  double n = wire->n, k = wire->k, g = wire->g;
  if (kind != MODEL_COLLECTIVE_ALL_TO_ALL)
    return FALSE;
  cost_way_set (way, wire, wire->alltoall_steps * (1 + log2 (g)), (n - 1 + wire->delta) / n,
                sqrt (k - 1), (n - g) / n);
  return TRUE;
}

const CostAlgorithm cost_algorithm_alltoall = { "direct", "direct", price };
