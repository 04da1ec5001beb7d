/* costmodel/collective.c - see collective.h; the algorithms are in collective_*.c. */
#include "costmodel/collective-private.h"

#include <math.h>
#include <string.h>

static const CostAlgorithm *const algorithms[] = {
  &cost_algorithm_ring,     &cost_algorithm_tree, &cost_algorithm_nvls,
  &cost_algorithm_alltoall, &cost_algorithm_p2p,
};

void
cost_way_set (CostWay *way, const CostWire *wire, double steps, double bytes, double network_steps,
              double network_bytes)
{
  double link_s = wire->g > 1 ? bytes * wire->link_s_per_byte : 0;
  double network_s = wire->k > 1 ? network_bytes * wire->network_s_per_byte : 0;
  way->base_s = wire->base_s;
  way->latency_s = steps * wire->hop_s + (wire->k > 1 ? network_steps * wire->network_hop_s : 0);
  way->wire_s_per_byte = fmax (link_s, network_s);
}

static double
inverse_rate (double ratio, double bytes_per_s)
{
  return bytes_per_s > 0 ? 1 / (ratio * bytes_per_s) : INFINITY;
}

static void
wire_init (CostWire *wire, const CostNumbers *numbers, const TopoGroupShape *shape)
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
    .alltoall_steps = numbers->step.alltoall_steps,
    .nvls_latency_s = numbers->step.nvls_latency_s,
    .nvls_share = shape->nvls ? numbers->nvls_share : 0,
  };
}

/* With an unknown wire no latency makes the time finite. */
static double
fill_of (const CostWay *way)
{
  return isinf (way->wire_s_per_byte) ? INFINITY : 2 * sqrt (way->latency_s * way->wire_s_per_byte);
}

/* Appends what @algorithm makes of @kind, if it does it. */
static void
add_way (CostGroup *group, const CostWire *wire, const CostAlgorithm *algorithm,
         ModelCollectiveKind kind)
{
  CostWay way = { .algorithm = wire->k > 1 ? algorithm->network_name : algorithm->name };
  if (!algorithm->price (wire, kind, &way))
    return;
  way.fill = fill_of (&way);
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
  wire_init (&wire, numbers, shape);
  for (guint kind = 0; kind < MODEL_COLLECTIVE_N_KINDS; kind++)
    for (guint i = 0; i < G_N_ELEMENTS (algorithms); i++)
      add_way (group, &wire, algorithms[i], kind);
}

double
cost_way_s (const CostWay *way, double message_bytes)
{
  if (!(message_bytes > 0))
    return way->base_s + way->latency_s;
  return way->base_s + way->latency_s + way->wire_s_per_byte * message_bytes
         + way->fill * sqrt (message_bytes);
}

double
cost_collective_s (const CostGroup *group, ModelCollectiveKind kind, double message_bytes)
{
  if (group->ranks < 2)
    return 0;
  double best_s = INFINITY;
  for (const CostWay *way = group->ways[kind];
       way < group->ways[kind] + COST_MAX_WAYS && way->algorithm != NULL; way++)
    best_s = fmin (best_s, cost_way_s (way, message_bytes));
  return best_s;
}

const CostWay *
cost_collective_way (const CostGroup *group, ModelCollectiveKind kind, double message_bytes,
                     const char *algorithm)
{
  const CostWay *best = NULL;
  for (guint i = 0; i < COST_MAX_WAYS && group->ranks > 1; i++) {
    const CostWay *way = &group->ways[kind][i];
    if (way->algorithm == NULL || (algorithm != NULL && strcmp (algorithm, way->algorithm) != 0))
      continue;
    if (best == NULL || cost_way_s (way, message_bytes) < cost_way_s (best, message_bytes))
      best = way;
  }
  return best;
}

double
cost_p2p_s (const CostNumbers *numbers, const TopoGroupShape *pair, double message_bytes)
{
  if (pair->ranks < 2)
    return 0;
  CostWire wire;
  CostWay way = { .algorithm = cost_algorithm_p2p.name };
  wire_init (&wire, numbers, pair);
  wire.n = 2;
  cost_algorithm_p2p.price (&wire, MODEL_COLLECTIVE_SEND_RECV, &way);
  way.fill = fill_of (&way);
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
