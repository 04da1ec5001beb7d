/* costmodel/collective_p2p.c - exchange with neighbours: n-1 rounds round a ring.
 *
 * The message is what goes to the next neighbour over all rounds. Each round is a launch of its
 * own, so the base is paid n-1 times, and the slowest link of the ring sets the pace: the NIC of
 * the GPU at a domain's edge where the ring leaves it. One message between two ranks is the case
 * n = 2. Formula: reference "collective-model" §1 with one dependent step per round; not fitted.
 */
#include "costmodel/collective-private.h"

static gboolean
price (const CostWire *wire, ModelCollectiveKind kind, CostWay *way)
{
  if (kind != MODEL_COLLECTIVE_SEND_RECV || wire->protocol != COST_PROTOCOL_BULK)
    return FALSE;
  double rounds = wire->n - 1;
  gboolean network = wire->k > 1;
  cost_way_set (way, wire, network ? 0 : rounds, wire->g > 1 ? 1 : 0, network ? rounds : 0, 1,
                wire->numbers->fill_ratio);
  way->base_s = rounds * wire->base_s;
  return TRUE;
}

const CostAlgorithm cost_algorithm_p2p = { "ring", "ring", price };
