/* costmodel/collective_tree.c - all-reduce in three stages: ring inside, tree over domains.
 *
 *   S = 2(g-1)   W = (2(n-1)+delta)/n   SN = 2 log2 k   WN = 2(k-1)/(k g)
 *
 * WN is the hierarchical floor: every GPU carries its 1/g of the data over its own NIC; NCCL 2.8 and
 * before stay at a ring's (n-1)/n in place of (k-1)/k. Inside one domain a tree cannot be told from a
 * ring in measured times. Source: reference "collective-model" §2.
 *
 * R is log2 k, the depth of the tree, times that of two domains: an inner domain waits for the later
 * of two children and passes whole chunks on. Seen on the 4, 16 and 32 nodes that were published;
 * no number is fitted to it (docs/model.md).
 */
#include "costmodel/collective-private.h"

#include <math.h>

static gboolean
price (const CostWire *wire, ModelCollectiveKind kind, CostWay *way)
{
  double n = wire->n, k = wire->k, g = wire->g;
  if (kind != MODEL_COLLECTIVE_ALL_REDUCE || k < 2 || wire->protocol != COST_PROTOCOL_BULK)
    return FALSE;
  cost_way_set (way, wire, 2 * (g - 1), (2 * (n - 1) + wire->delta) / n, 2 * log2 (k),
                2 * (wire->flat ? (n - 1) / n : (k - 1) / k) / g, cost_wire_fill (wire));
  cost_way_set_rise (way, wire);
  way->rise_s *= log2 (k);
  return TRUE;
}

const CostAlgorithm cost_algorithm_tree = { "tree", "tree", price };
