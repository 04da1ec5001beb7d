/* costmodel/collective.c - see collective.h; the algorithms are in collective_*.c. */
#include "costmodel/collective-private.h"

#include <math.h>
#include <string.h>

static const CostAlgorithm *const algorithms[] = {
  &cost_algorithm_ring,     &cost_algorithm_tree, &cost_algorithm_nvls,
  &cost_algorithm_alltoall, &cost_algorithm_p2p,
};

gboolean
cost_wire_has_protocols (const CostWire *wire)
{
  return !(wire->k > 1) && wire->bulk_shard_bytes > 0;
}

CostWire
cost_wire_in_protocol (const CostWire *wire, double low_ratio, double bulk_hop_ratio,
                       double bulk_from_bytes, CostWay *way)
{
  CostWire paced = *wire;
  if (!cost_wire_has_protocols (wire))
    return paced;
  if (wire->protocol == COST_PROTOCOL_LOW) {
    way->protocol = "ll";
    way->to_bytes = bulk_from_bytes;
    paced.link_s_per_byte /= low_ratio;
  } else {
    way->protocol = "simple";
    way->from_bytes = bulk_from_bytes;
    paced.base_s += wire->numbers->bulk_base_s;
    paced.hop_s *= bulk_hop_ratio;
  }
  return paced;
}

double
cost_wire_fill (const CostWire *wire)
{
  if (!cost_wire_has_protocols (wire))
    return wire->numbers->fill_ratio;
  return wire->protocol == COST_PROTOCOL_LOW ? wire->numbers->low_fill_ratio
                                             : wire->numbers->bulk_fill_ratio;
}

void
cost_way_set (CostWay *way, const CostWire *wire, double steps, double bytes, double network_steps,
              double network_bytes, double fill_ratio)
{
  double link_s = wire->g > 1 ? bytes * wire->link_s_per_byte : 0;
  double network_s = wire->k > 1 ? network_bytes * wire->network_s_per_byte : 0;
  way->base_s = wire->base_s;
  way->latency_s = steps * wire->hop_s + (wire->k > 1 ? network_steps * wire->network_hop_s : 0);
  way->wire_s_per_byte = fmax (link_s, network_s);
  /* with an unknown wire no latency makes the time finite */
  way->fill = isinf (way->wire_s_per_byte)
                  ? INFINITY
                  : fill_ratio * sqrt (way->latency_s * way->wire_s_per_byte);
}

void
cost_way_set_rise (CostWay *way, const CostWire *wire)
{
  const CostCollectiveNumbers *numbers = wire->numbers;
  if (wire->k > 1) {
    way->rise_s = numbers->network_rise_ratio * (way->base_s + way->latency_s);
    way->rise_bytes = wire->n * numbers->network_rise_bytes;
    return;
  }
  if (!cost_wire_has_protocols (wire) || wire->protocol != COST_PROTOCOL_LOW)
    return;
  way->rise_s = wire->numbers->low_rise_ratio * (way->base_s + way->latency_s);
  way->rise_bytes = wire->n * wire->numbers->low_rise_bytes;
}

static double
inverse_rate (double ratio, double bytes_per_s)
{
  return bytes_per_s > 0 ? 1 / (ratio * bytes_per_s) : INFINITY;
}

void
cost_wire_init (CostWire *wire, const CostNumbers *numbers, const TopoGroupShape *shape)
{
  const CostLinkNumbers *link = &numbers->links[shape->link_class];
  gboolean pcie = topo_link_class_is_pcie (shape->link_class);
  *wire = (CostWire){
    .n = shape->ranks,
    .k = shape->domains,
    .g = shape->ranks_per_domain,
    .base_s = link->base_s,
    .hop_s = link->hop_s,
    .network_hop_s = numbers->fabric.hop_s,
    .link_s_per_byte = inverse_rate (link->bandwidth_ratio, shape->intra_bytes_per_s),
    /* at most 1 in use: collective-model §2 */
    .network_s_per_byte
    = inverse_rate (fmin (numbers->fabric.bandwidth_ratio, 1), shape->inter_bytes_per_s),
    .delta = pcie ? 0 : numbers->step.collective_delta,
    .alltoall_delta = pcie ? 0 : link->alltoall_copy,
    .alltoall_shared_s_per_byte
    = shape->alltoall_bytes_per_s > 0 && numbers->collective.alltoall_uplink_ratio > 0
          ? inverse_rate (numbers->collective.alltoall_uplink_ratio, shape->alltoall_bytes_per_s)
          : 0,
    .alltoall_steps = numbers->step.alltoall_steps,
    .nvls_latency_s = numbers->step.nvls_latency_s,
    .nvls_share = shape->nvls ? numbers->nvls_share : 0,
    .bulk_shard_bytes = link->bulk_shard_bytes,
    .flat = numbers->old_nccl,
    .numbers = &numbers->collective,
  };
}

/* Bytes where CostLinkNumbers.size_ratio holds: 16 KiB, 512 KiB, 16 MiB, 256 MiB, as logarithms. */
static const double anchors[COST_N_SIZE_ANCHORS]
    = { 9.704060527839234, 13.169796430638961, 16.635532333438687, 19.408121055678468 };

/* Interpolated in the logarithms of size and ratio; beyond the anchors the nearest one's. */
static double
size_ratio (const double *ratios, double bytes)
{
  double at = log (fmax (bytes, 1));
  guint high = 0;
  while (high < COST_N_SIZE_ANCHORS && at > anchors[high])
    high++;
  if (high == 0 || high == COST_N_SIZE_ANCHORS)
    return ratios[MIN (high, COST_N_SIZE_ANCHORS - 1)];
  double part = (at - anchors[high - 1]) / (anchors[high] - anchors[high - 1]);
  return ratios[high - 1] * pow (ratios[high] / ratios[high - 1], part);
}

static void
set_size_ratios (CostGroup *group, const CostLinkNumbers *link)
{
  static const guint8 kinds[] = { MODEL_COLLECTIVE_ALL_REDUCE, MODEL_COLLECTIVE_ALL_GATHER,
                                  MODEL_COLLECTIVE_REDUCE_SCATTER };
  for (guint k = 0; k < G_N_ELEMENTS (kinds); k++)
    for (guint i = 0; i < COST_N_SIZE_ANCHORS; i++)
      if (link->size_ratio[k][i] != 1)
        group->size_ratios[kinds[k]] = link->size_ratio[k];
}

/* Appends what @algorithm makes of @kind, if it does it. */
static void
add_way (CostGroup *group, const CostWire *wire, const CostAlgorithm *algorithm,
         ModelCollectiveKind kind)
{
  CostWay way = { .algorithm = wire->k > 1 ? algorithm->network_name : algorithm->name,
                  .protocol = "auto",
                  .to_bytes = INFINITY };
  if (!algorithm->price (wire, kind, &way))
    return;
  for (guint i = 0; i < COST_MAX_WAYS; i++) {
    if (group->ways[kind][i].algorithm == NULL) {
      group->ways[kind][i] = way;
      return;
    }
  }
  g_return_if_reached ();
}

void
cost_group_init (CostGroup *group, const CostNumbers *numbers, const TopoGroupShape *shape)
{
  memset (group, 0, sizeof *group);
  group->ranks = shape->ranks;
  if (shape->ranks < 2)
    return;
  CostWire wire;
  cost_wire_init (&wire, numbers, shape);
  for (guint kind = 0; kind < MODEL_COLLECTIVE_N_KINDS && numbers->curves != NULL; kind++)
    group->curves[kind] = cost_curve_find (numbers->curves, kind, shape);
  for (guint kind = 0; kind < MODEL_COLLECTIVE_N_KINDS; kind++)
    for (guint i = 0; i < G_N_ELEMENTS (algorithms); i++)
      for (guint protocol = 0; protocol < COST_PROTOCOL_N_KINDS; protocol++) {
        wire.protocol = protocol;
        add_way (group, &wire, algorithms[i], kind);
      }
  if (shape->domains == 1)
    set_size_ratios (group, &numbers->links[shape->link_class]);
}

/* @root: of @bytes, which are more than 0. */
static inline double
way_s (const CostWay *way, double bytes, double root)
{
  return way->base_s + way->latency_s + way->wire_s_per_byte * bytes + way->fill * root
         + way->rise_s * bytes / (bytes + way->rise_bytes);
}

double
cost_way_s (const CostWay *way, double message_bytes)
{
  if (!(message_bytes > 0))
    return way->base_s + way->latency_s;
  return way_s (way, message_bytes, sqrt (message_bytes));
}

static inline gboolean
is_in_range (const CostWay *way, double bytes)
{
  return bytes >= way->from_bytes && bytes < way->to_bytes;
}

static double
latency_s (const CostWay *ways)
{
  double best_s = INFINITY;
  for (guint i = 0; i < COST_MAX_WAYS && ways[i].algorithm != NULL; i++)
    if (is_in_range (&ways[i], 0))
      best_s = fmin (best_s, cost_way_s (&ways[i], 0));
  return best_s;
}

double
cost_collective_s (const CostGroup *group, ModelCollectiveKind kind, double message_bytes)
{
  const CostWay *ways = group->ways[kind];
  double best_s = INFINITY, root = sqrt (message_bytes);
  if (group->ranks < 2)
    return 0;
  if (!(message_bytes > 0))
    return latency_s (ways);
  for (const CostWay *way = ways; way < ways + COST_MAX_WAYS && way->algorithm != NULL; way++)
    if (is_in_range (way, message_bytes)) {
      double time_s = way_s (way, message_bytes, root);
      best_s = time_s < best_s ? time_s : best_s;
    }
  if (group->size_ratios[kind] != NULL)
    best_s *= size_ratio (group->size_ratios[kind], message_bytes);
  if (group->curves[kind] != NULL)
    best_s *= cost_curve_ratio (group->curves[kind], message_bytes);
  return best_s;
}

/* Whether @way may be asked about @bytes. "auto" ways stand for any protocol, within their range. */
static gboolean
is_meant (const CostWay *way, double bytes, const char *protocol)
{
  if (protocol == NULL || strcmp (way->protocol, "auto") == 0)
    return is_in_range (way, bytes);
  if (strcmp (way->protocol, "ll") == 0 && strcmp (protocol, "ll128") == 0)
    return TRUE; /* times cannot tell them apart */
  return strcmp (way->protocol, protocol) == 0;
}

const CostWay *
cost_collective_way (const CostGroup *group, ModelCollectiveKind kind, double message_bytes,
                     const char *algorithm, const char *protocol)
{
  const CostWay *best = NULL;
  double bytes = message_bytes > 0 ? message_bytes : 0;
  for (guint i = 0; i < COST_MAX_WAYS && group->ranks > 1; i++) {
    const CostWay *way = &group->ways[kind][i];
    if (way->algorithm == NULL || (algorithm != NULL && strcmp (algorithm, way->algorithm) != 0)
        || !is_meant (way, bytes, protocol))
      continue;
    if (best == NULL || cost_way_s (way, bytes) < cost_way_s (best, bytes))
      best = way;
  }
  return best;
}

static CostSpreadKind
spread_kind (const CostNumbers *numbers, const TopoGroupShape *shape)
{
  gboolean network = shape->domains > 1;
  gboolean inside = shape->ranks_per_domain > 1;
  if ((inside && !numbers->link_measured[shape->link_class])
      || (network && !numbers->fabric_measured))
    return COST_SPREAD_UNSEEN;
  return network ? COST_SPREAD_NETWORK : COST_SPREAD_NODE;
}

void
cost_collective_spread (const CostNumbers *numbers, const TopoGroupShape *shape,
                        double message_bytes, double *out_low_ratio, double *out_high_ratio)
{
  static const double bounds[COST_SPREAD_BANDS - 1] = { 65536, 1048576, 67108864 };
  CostSpreadKind kind = shape != NULL ? spread_kind (numbers, shape) : COST_SPREAD_CURVE;
  guint band = 0;
  while (band < COST_SPREAD_BANDS - 1 && message_bytes >= bounds[band])
    band++;
  *out_low_ratio = numbers->spread[kind].low_ratio[band];
  *out_high_ratio = numbers->spread[kind].high_ratio[band];
}

double
cost_p2p_s (const CostNumbers *numbers, const TopoGroupShape *pair, double message_bytes)
{
  if (pair->ranks < 2)
    return 0;
  CostWire wire;
  CostWay way = { .algorithm = cost_algorithm_p2p.name };
  cost_wire_init (&wire, numbers, pair);
  wire.n = 2;
  wire.protocol = COST_PROTOCOL_BULK;
  cost_algorithm_p2p.price (&wire, MODEL_COLLECTIVE_SEND_RECV, &way);
  return cost_way_s (&way, message_bytes);
}

double
cost_collective_bus_factor (ModelCollectiveKind kind, guint32 ranks)
{
  double n = ranks;
  if (ranks < 2)
    return 0;
  switch (kind) {
  case MODEL_COLLECTIVE_ALL_REDUCE:
    return 2 * (n - 1) / n;
  case MODEL_COLLECTIVE_ALL_GATHER:
  case MODEL_COLLECTIVE_REDUCE_SCATTER:
  case MODEL_COLLECTIVE_ALL_TO_ALL:
    return (n - 1) / n;
  default:
    return 1;
  }
}
