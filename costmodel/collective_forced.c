/* costmodel/collective_forced.c - algorithms that are priced when asked for, never chosen.
 *
 * No published time is known to be theirs, so they may not make a prediction faster. The costs are
 * NCCL's own (src/graph/tuning.cc; reference "link-and-gpu-facts" §2) in the form of collective.h:
 *
 *   pat    all-gather, reduce-scatter, one rank per domain: log2 k steps, each a part (pat_hop) of a
 *          network hop, and pat_rank for every rank; a share (pat_bandwidth) of the NIC
 *            L = pat_hop hopF log2 k + pat_rank n     WN = (n-1)/n / pat_bandwidth
 *   sharp  all-reduce in the switches of the network (CollNet): up and down the tree is one step of
 *          its own latency; a NIC carries its GPU's part once. Inside as NVLS where the switch adds
 *          up, else a reduce-scatter and an all-gather by ring
 *            L = 2 hop + sharp_latency     WN = 1/g
 */
#include "costmodel/collective-private.h"

#include <math.h>
#include <string.h>

static gboolean
price_pat (const CostWire *wire, ModelCollectiveKind kind, CostWay *way)
{
  const CostCollectiveNumbers *numbers = wire->numbers;
  if ((kind != MODEL_COLLECTIVE_ALL_GATHER && kind != MODEL_COLLECTIVE_REDUCE_SCATTER)
      || wire->k < 2 || wire->g > 1 || !(numbers->pat_bandwidth_ratio > 0))
    return FALSE;
  double n = wire->n;
  cost_way_set (way, wire, 0, 0, numbers->pat_hop_ratio * log2 (wire->k),
                (n - 1) / n / numbers->pat_bandwidth_ratio, 0);
  way->latency_s += numbers->pat_rank_s * n;
  return TRUE;
}

static gboolean
price_sharp (const CostWire *wire, ModelCollectiveKind kind, CostWay *way)
{
  double g = wire->g;
  if (kind != MODEL_COLLECTIVE_ALL_REDUCE || wire->k < 2)
    return FALSE;
  double inside = g < 2                  ? 0
                  : wire->nvls_share > 0 ? (1 + 1 / g) / wire->nvls_share
                                         : (2 * (g - 1) + wire->delta) / g;
  cost_way_set (way, wire, g > 1 ? 2 : 0, inside, 0, 1 / g, 0);
  way->latency_s += wire->numbers->sharp_latency_s;
  return TRUE;
}

static const CostAlgorithm forced[] = {
  { "pat", "pat", price_pat },
  { "sharp", "sharp", price_sharp },
};

gboolean
cost_way_init_forced (CostWay *way, const CostNumbers *numbers, const TopoGroupShape *shape,
                      ModelCollectiveKind kind, const char *algorithm)
{
  CostWire wire;
  if (shape->ranks < 2)
    return FALSE;
  cost_wire_init (&wire, numbers, shape);
  wire.protocol = COST_PROTOCOL_BULK;
  for (guint i = 0; i < G_N_ELEMENTS (forced); i++) {
    *way = (CostWay){ .algorithm = forced[i].name, .protocol = "simple", .to_bytes = INFINITY };
    if (strcmp (algorithm, forced[i].name) == 0)
      return forced[i].price (&wire, kind, way);
  }
  return FALSE;
}
