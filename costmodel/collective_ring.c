/* costmodel/collective_ring.c - rings, of all ranks, through every domain in turn.
 *
 *   all-gather, reduce-scatter   S = n-k    W = (n-1+delta)/n    SN = k-1      WN = (n-1)/(n g)
 *   all-reduce: both             S = 2(n-k) W = (2(n-1)+delta)/n SN = 2(k-1)   WN = 2(n-1)/(n g)
 *   broadcast, reduce            S = g-1    W = 1                SN = h (k-1)  WN = 1/g
 * per byte of message. Source: reference "collective-model" §2 (whole buffer as the message); the
 * all-reduce over domains is the sum of its two halves.
 *
 * Shards of bulk_shard bytes and more go in the bulk protocol inside a domain. Over domains a ring
 * keeps its pipeline full (shards follow one another), so its fill is small. A broadcast is timed
 * at its root, which returns once the data is on its way: what fits the channels' buffers waits
 * for no network step, more waits for a part (h) of one per domain. Rough: see docs/model.md.
 */
#include "costmodel/collective-private.h"

static gboolean
price_steps (const CostWire *wire, CostWay *way, double passes)
{
  double n = wire->n, k = wire->k, g = wire->g;
  const CostCollectiveNumbers *numbers = wire->numbers;
  if (wire->protocol == COST_PROTOCOL_LOW && !cost_wire_has_protocols (wire))
    return FALSE;
  double fill = k > 1 && passes < 2 ? numbers->network_ring_fill_ratio : cost_wire_fill (wire);
  CostWire paced = cost_wire_in_protocol (wire, numbers->low_bandwidth_ratio,
                                          numbers->bulk_hop_ratio, n * wire->bulk_shard_bytes, way);
  cost_way_set (way, &paced, passes * (n - k), (passes * (n - 1) + wire->delta) / n,
                passes * (k - 1), passes * (n - 1) / (n * g), fill);
  cost_way_set_rise (way, wire);
  return TRUE;
}

static gboolean
price_broadcast (const CostWire *wire, CostWay *way)
{
  const CostCollectiveNumbers *numbers = wire->numbers;
  gboolean eager = wire->protocol == COST_PROTOCOL_LOW;
  cost_way_set (way, wire, eager ? 0 : wire->g - 1, 1,
                eager ? 0 : numbers->broadcast_hops * (wire->k - 1), 1 / wire->g,
                numbers->fill_ratio);
  if (eager)
    way->to_bytes = numbers->broadcast_eager_bytes + 1;
  else
    way->from_bytes = numbers->broadcast_eager_bytes + 1;
  return TRUE;
}

static gboolean
price (const CostWire *wire, ModelCollectiveKind kind, CostWay *way)
{
  switch (kind) {
  case MODEL_COLLECTIVE_ALL_GATHER:
  case MODEL_COLLECTIVE_REDUCE_SCATTER:
    return price_steps (wire, way, 1);
  case MODEL_COLLECTIVE_ALL_REDUCE:
    return price_steps (wire, way, 2);
  case MODEL_COLLECTIVE_BROADCAST:
  case MODEL_COLLECTIVE_REDUCE:
    return price_broadcast (wire, way);
  default:
    return FALSE;
  }
}

const CostAlgorithm cost_algorithm_ring = { "ring", "ring", price };
