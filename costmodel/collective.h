/* costmodel/collective.h - seconds of a collective over a group of one shape.
 *
 *   t = base + (sqrt (L) + sqrt (T))^2      L latency of the dependent steps, T wire time
 *
 * the cost of a transfer cut into optimal chunks. L and T per algorithm in collective_*.c (ring,
 * tree, NVLS, direct all-to-all, neighbours); the cheapest that the machine has is taken, as NCCL's
 * tuner would. The network has no congestion and nothing overlaps: those are other factors.
 * Source: reference "collective-model" (3,179 nccl-tests points; median error 8 % on one node,
 * 21 % over nodes). Broadcast and reduce over nodes are rough (20-74 %).
 */
#pragma once
#include "costmodel/calibration.h"
#include "model/op.h"
#include "topo/placement.h"
#include <glib.h>
G_BEGIN_DECLS

#define COST_MAX_WAYS 3

/* One algorithm made ready for a group: everything but the bytes. */
typedef struct {
  const char *algorithm; /* static: "ring", "tree", "nvls", "nvlstree", "direct"; NULL: no way */
  double base_s;
  double latency_s;       /* L */
  double wire_s_per_byte; /* T / message_bytes; INFINITY if the network is unknown */
  double fill;            /* 2 sqrt (L · T / message_bytes) */
} CostWay;

/* A group made ready. Plain value. */
typedef struct {
  guint32 ranks; /* 1: every collective costs 0 */
  CostWay ways[MODEL_COLLECTIVE_N_KINDS][COST_MAX_WAYS];
} CostGroup;

void cost_group_init (CostGroup *group, const CostNumbers *numbers, const TopoGroupShape *shape);
/* @message_bytes as nccl-tests counts them, see ModelOp. 0 bytes cost the latency. */
double cost_collective_s (const CostGroup *group, ModelCollectiveKind kind, double message_bytes);
/* The way cost_collective_s takes, or the one called @algorithm. NULL: none. (borrowed) */
const CostWay *cost_collective_way (const CostGroup *group, ModelCollectiveKind kind,
                                    double message_bytes, const char *algorithm);
double cost_way_s (const CostWay *way, double message_bytes);
/* One message between two ranks: pipeline neighbours. 0 when pair->ranks < 2. */
double cost_p2p_s (const CostNumbers *numbers, const TopoGroupShape *pair, double message_bytes);
/* Bytes on the wire per rank over message bytes, by the textbook (for busbw): 2(n-1)/n, … */
double cost_collective_bus_factor (ModelCollectiveKind kind, guint32 ranks);
G_END_DECLS
