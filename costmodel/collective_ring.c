/* costmodel/collective_ring.c - rings, of all ranks, through every domain in turn.
 *
 *   all-gather, reduce-scatter   S = n-k    W = (n-1+delta)/n    SN = k-1      WN = (n-1)/(n g)
 *   all-reduce: both             S = 2(n-k) W = (2(n-1)+delta)/n SN = 2(k-1)   WN = 2(n-1)/(n g)
 *   broadcast, reduce            S = g-1    W = 1                SN = 0.1      WN = 1/g
 * per byte of message. Source: reference "collective-model" §2 (whole buffer as the message); the
 * all-reduce over domains is the sum of its two halves.
 */
#include "costmodel/collective-private.h"

/* A pipelined broadcast hardly waits for the network: fitted, collective-model §2. */
#define BROADCAST_NETWORK_STEPS 0.1

static gboolean
price (const CostWire *wire, ModelCollectiveKind kind, CostWay *way)
{
  double n = wire->n, k = wire->k, g = wire->g;
  switch (kind) {
  case MODEL_COLLECTIVE_ALL_GATHER:
  case MODEL_COLLECTIVE_REDUCE_SCATTER:
    cost_way_set (way, wire, n - k, (n - 1 + wire->delta) / n, k - 1, (n - 1) / (n * g));
    return TRUE;
  case MODEL_COLLECTIVE_ALL_REDUCE:
    cost_way_set (way, wire, 2 * (n - k), (2 * (n - 1) + wire->delta) / n, 2 * (k - 1),
                  2 * (n - 1) / (n * g));
    return TRUE;
  case MODEL_COLLECTIVE_BROADCAST:
  case MODEL_COLLECTIVE_REDUCE:
    cost_way_set (way, wire, g - 1, 1, BROADCAST_NETWORK_STEPS, 1 / g);
    return TRUE;
  default:
    return FALSE;
  }
}

const CostAlgorithm cost_algorithm_ring = { "ring", "ring", price };
