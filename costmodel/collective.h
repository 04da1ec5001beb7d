/* costmodel/collective.h - seconds of a collective over a group of one shape.
 *
 *   t = base + (sqrt (L) + sqrt (T))^2      L latency of the dependent steps, T wire time
 *
 * the cost of a transfer cut into optimal chunks; L and T per algorithm in collective_*.c (ring,
 * tree, NVLS, hierarchical, direct all-to-all): reference "collective-model". The cheapest
 * algorithm that the machine has is taken, as NCCL's tuner would.
 */
#pragma once
#include "costmodel/calibration.h"
#include "model/op.h"
#include "topo/placement.h"
#include <glib.h>
G_BEGIN_DECLS

/* A group made ready: everything but the bytes. Plain value. */
typedef struct {
  guint32 ranks;    /* 1: every collective costs 0 */
  double base_s;
  struct {
    double latency_s;          /* L */
    double wire_s_per_byte;    /* T / message_bytes */
    const char *algorithm;     /* static: "ring", "tree", "nvls", … */
  } by_kind[MODEL_COLLECTIVE_N_KINDS];
} CostGroup;

void cost_group_init (CostGroup *group, const CostNumbers *numbers, const TopoGroupShape *shape);
double cost_collective_s (const CostGroup *group, ModelCollectiveKind kind, double message_bytes);
/* One message between two ranks: pipeline neighbours. */
double cost_p2p_s (const CostNumbers *numbers, const TopoGroupShape *pair, double message_bytes);
/* Bytes on the wire per rank by the textbook (for busbw): 2(n−1)/n, (n−1)/n, … */
double cost_collective_bus_factor (ModelCollectiveKind kind, guint32 ranks);
G_END_DECLS
