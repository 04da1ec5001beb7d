/* costmodel/collective_nvls.c - all-reduce that the NVLink switch adds up (NVLink SHARP).
 *
 *   latency nvlsL in place of the steps inside   W = (1 + 1/g)/share   SN = 2 log2 k
 *   WN = 2(k-1)/(k g)
 *
 * From as many GPUs of a domain up as catalog/links/nvlink.ini says (TopoGroupShape.nvls); only
 * all-reduce gains. Source: reference "collective-model" §2, §3.
 */
#include "costmodel/collective-private.h"

#include <math.h>

static gboolean
price (const CostWire *wire, ModelCollectiveKind kind, CostWay *way)
{
  double k = wire->k, g = wire->g;
  if (kind != MODEL_COLLECTIVE_ALL_REDUCE || !(wire->nvls_share > 0)
      || wire->protocol != COST_PROTOCOL_BULK)
    return FALSE;
  cost_way_set (way, wire, 0, (1 + 1 / g) / wire->nvls_share, 2 * log2 (k), 2 * (k - 1) / (k * g),
                0);
  way->latency_s += wire->nvls_latency_s;
  if (!isinf (way->wire_s_per_byte))
    way->fill = cost_wire_fill (wire) * sqrt (way->latency_s * way->wire_s_per_byte);
  cost_way_set_rise (way, wire);
  if (cost_wire_has_protocols (wire))
    way->protocol = "simple";
  return TRUE;
}

const CostAlgorithm cost_algorithm_nvls = { "nvls", "nvlstree", price };
