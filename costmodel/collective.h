/* costmodel/collective.h - seconds of a collective over a group of one shape.
 *
 *   t = base + L + T + c sqrt (L T) + R
 *
 * L latency of the dependent steps, T wire time; L and T per algorithm in collective_*.c (ring, tree,
 * NVLS, direct all-to-all, neighbours); the cheapest that the machine has is taken, as NCCL's tuner
 * would. c = 2 is the cost of a transfer cut into optimal chunks, (sqrt L + sqrt T)^2; pipelines
 * that stay full have less. R: hops and launches that carry data take longer than those that hardly
 * do, r (base + L) s / (s + s0) for a shard of s bytes per rank.
 *
 * Inside one NVLink domain NCCL changes protocol at a fixed shard, and time jumps by up to 2.4 for
 * one doubling of bytes. So rings and all-to-all have two ways there, each with its range of bytes:
 *   low latency (LL, LL128; times cannot tell them apart)   a share of the bandwidth, R
 *   bulk (Simple)                                           base + bulk_base, bulk_hop x hop
 * PCIe and the network have one way for all sizes, R over the network. A curve measured on the
 * machine scales what the formulas say (measured.h).
 * The network has no congestion and nothing overlaps: those are other factors.
 *
 * Source: fitted to 5,603 nccl-tests points of 22 machines; error by cross-validation in
 * docs/model.md. Formulas: reference "collective-model" §2; protocols, fills and rises are ours.
 */
#pragma once
#include "costmodel/measured.h"
#include "model/op.h"
#include "topo/placement.h"
#include <glib.h>
G_BEGIN_DECLS

#define COST_MAX_WAYS 3

/* One algorithm in one protocol made ready for a group: everything but the bytes. */
typedef struct {
  const char *algorithm; /* static: "ring", "tree", "nvls", "nvlstree", "direct"; NULL: no way */
  const char *protocol;  /* static: "ll", "simple"; "auto" where one way speaks for all */
  double base_s;
  double latency_s;            /* L */
  double wire_s_per_byte;      /* T / message_bytes; INFINITY if the network is unknown */
  double fill;                 /* c sqrt (L · T / message_bytes) */
  double rise_s, rise_bytes;   /* L grows by rise_s, half of it at rise_bytes */
  double from_bytes, to_bytes; /* where it is taken unless asked for: from <= bytes < to */
} CostWay;

/* A group made ready. Plain value. */
typedef struct {
  guint32 ranks; /* 1: every collective costs 0 */
  CostWay ways[MODEL_COLLECTIVE_N_KINDS][COST_MAX_WAYS];
  /* (borrowed from the numbers, nullable) what was measured for such a group */
  const CostCurve *curves[MODEL_COLLECTIVE_N_KINDS];
  /* (borrowed from the numbers, nullable) the link's size_ratio, where a calibration has one */
  const double *size_ratios[MODEL_COLLECTIVE_N_KINDS];
} CostGroup;

void cost_group_init (CostGroup *group, const CostNumbers *numbers, const TopoGroupShape *shape);
/* @message_bytes as nccl-tests counts them, see ModelOp. 0 bytes cost the latency. By a measured
 * curve where the machine has one. */
double cost_collective_s (const CostGroup *group, ModelCollectiveKind kind, double message_bytes);
/*
 * The way cost_collective_s takes. @algorithm (nullable), @protocol (nullable: "ll", "ll128",
 * "simple"): only such ways, whatever their range of bytes; "auto" ways stand for any protocol.
 * Returns: (borrowed), NULL if there is none.
 */
const CostWay *cost_collective_way (const CostGroup *group, ModelCollectiveKind kind,
                                    double message_bytes, const char *algorithm,
                                    const char *protocol);
/*
 * "pat" and "sharp", which are never chosen (collective_forced.c). FALSE, with *way undefined, if
 * such a group does not do @kind so.
 */
gboolean cost_way_init_forced (CostWay *way, const CostNumbers *numbers,
                               const TopoGroupShape *shape, ModelCollectiveKind kind,
                               const char *algorithm);
double cost_way_s (const CostWay *way, double message_bytes);
/* p10 and p90 of the time over cost_collective_s of a machine that the fit has not seen; @shape NULL:
 * between the points of a measured curve. */
void cost_collective_spread (const CostNumbers *numbers, const TopoGroupShape *shape,
                             double message_bytes, double *out_low_ratio, double *out_high_ratio);
/* One message between two ranks: pipeline neighbours. 0 when pair->ranks < 2. */
double cost_p2p_s (const CostNumbers *numbers, const TopoGroupShape *pair, double message_bytes);
/* Bytes on the wire per rank over message bytes, by the textbook (for busbw): 2(n-1)/n, … */
double cost_collective_bus_factor (ModelCollectiveKind kind, guint32 ranks);
G_END_DECLS
